"""The program of products in groups: which group a tile belongs to is found in memory, where the offsets lie.

So no launch waits for them. There are programs for as many tiles as the groups can have, however they are cut; those
beyond the last tile have nothing to do. Rows that groups share belong to one group more where the last one ends before
them, which has no products and writes zeros.
"""

from __future__ import annotations

from ...runtime.cuda.triton.lazy_triton import tl, triton
from ..budget import Configuration, declare
from ..conversion import convert
from .persistent import operand_tile
from .product import tile_of


@triton.jit
def larger(a, b):
    """Return the larger integer."""
    return tl.maximum(a, b)


@triton.jit
def ends_of_groups(offs, places, groups, total):
    """Return the ends of groups, clamped to ascend and not to exceed `total`."""
    given = tl.load(offs + places, mask=(places >= 0) & (places < groups), other=0)
    return tl.associative_scan(tl.minimum(tl.maximum(given, 0), total), 0, larger)


@triton.jit
def group_of(offs, tile, m, groups, BLOCK_M: tl.constexpr, GROUPS: tl.constexpr):
    """Return the group of a tile of rows, the tile's first row, and the row after the group's last row.

    Rows after all groups belong to group number `groups`; tiles beyond them have no rows.
    """
    places = tl.arange(0, GROUPS)
    starts = ends_of_groups(offs, places - 1, groups, m)
    ends = tl.where(places < groups, ends_of_groups(offs, places, groups, m), m)
    tiles = tl.cdiv(ends - starts, BLOCK_M)
    before = tl.cumsum(tiles, 0) - tiles
    own = (before <= tile) & (tile < before + tiles)
    group = tl.sum(tl.where(own, places, 0), 0)
    first = tl.sum(tl.where(own, starts + (tile - before) * BLOCK_M, 0), 0)
    end = tl.sum(tl.where(own, ends, 0), 0)
    return group, first, end


@triton.jit
def grouped_matmul(
    a,
    b,
    out,
    offs,
    scale_a,
    scale_b,
    m,
    n,
    k,
    groups,
    az,
    am,
    ak,
    bz,
    bk,
    bn,
    oz,
    om,
    on,
    ra,
    rb,
    SHARED: tl.constexpr,
    PRECISION: tl.constexpr,
    IMPRECISE: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUPS: tl.constexpr,
):
    """Compute a tile of out = a @ b for each group.

    `SHARED` is the dimension that groups share: "rows" of `a` and `out`, of which there are m; "inner", of which there
    are k; or "" for batches. `GROUPS` is a power of two greater than the number of groups.
    """
    tiles_n = tl.cdiv(n, BLOCK_N)
    count = k
    if SHARED == "rows":
        # A group has one tile more than whole ones at most, and so has the rest.
        tiles_m = (m + (groups + 1) * (BLOCK_M - 1)) // BLOCK_M
        tile_m, tile_n = tile_of(tl.program_id(0), tiles_m, tiles_n, 8)
        group, first, end = group_of(offs, tile_m, m, groups, BLOCK_M, GROUPS)
        rows = first + tl.arange(0, BLOCK_M)
        count = tl.where((group < groups) & (first < end), k, 0)
        own_rows = rows < end
    else:
        tiles_m = tl.cdiv(m, BLOCK_M)
        group = tl.program_id(0) // (tiles_m * tiles_n)
        tile_m, tile_n = tile_of(tl.program_id(0) % (tiles_m * tiles_n), tiles_m, tiles_n, 8)
        rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
        own_rows = rows < m
    batch = group.to(tl.int64)
    columns = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    a_tile = a + rows[:, None] * am + inner[None, :] * ak
    b_tile = b + inner[:, None] * bk + columns[None, :] * bn
    if SHARED == "inner":
        places = tl.arange(0, GROUPS)
        ends = ends_of_groups(offs, places, groups, k)
        start = tl.max(tl.where(places < group, ends, 0), 0)
        count = tl.max(tl.where(places <= group, ends, 0), 0) - start
        a_tile += start.to(tl.int64) * ak
        b_tile += start.to(tl.int64) * bk
    else:
        b_tile += batch * bz
        if SHARED == "":
            a_tile += batch * az
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for done in range(0, count, BLOCK_K):
        left = count - done
        x = tl.load(a_tile, mask=own_rows[:, None] & (inner < left)[None, :], other=0.0)
        y = tl.load(b_tile, mask=(inner < left)[:, None] & (columns < n)[None, :], other=0.0)
        total = tl.dot(x, y, total, input_precision=PRECISION, max_num_imprecise_acc=IMPRECISE)
        a_tile += BLOCK_K * ak
        b_tile += BLOCK_K * bk
    if scale_a is not None:
        if SHARED == "rows":
            by_row = tl.load(scale_a + rows, mask=own_rows, other=0)
        else:
            by_row = tl.load(scale_a + batch * ra + rows, mask=own_rows, other=0)
        # The rest has no group, whose scales were beyond the end.
        has_scales = (columns < n) & (group < groups)
        by_column = tl.load(scale_b + batch * rb + columns, mask=has_scales, other=0)
        total = tl.where((group < groups), total * by_row[:, None] * by_column[None, :], 0.0)
    out_ptrs = out + rows[:, None] * om + columns[None, :] * on
    if SHARED != "rows":
        out_ptrs += batch * oz
    mask = own_rows[:, None] & (columns < n)[None, :]
    tl.store(out_ptrs, convert(total, out.dtype.element_ty), mask=mask)


@triton.jit
def grouped_matmul_bulk(
    a,
    b,
    out,
    offs,
    scale_a,
    scale_b,
    m,
    n,
    k,
    groups,
    om,
    on,
    rb,
    B_TRANSPOSED: tl.constexpr,
    B_BATCHED: tl.constexpr,
    PRECISION: tl.constexpr,
    IMPRECISE: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUPS: tl.constexpr,
):
    """Compute a tile of a group of rows, whose operands arrive by tensor descriptors.

    The last tile of a group also multiplies rows of the next group, and stores only its own rows.
    """
    tiles_m = (m + (groups + 1) * (BLOCK_M - 1)) // BLOCK_M
    tile_m, tile_n = tile_of(tl.program_id(0), tiles_m, tl.cdiv(n, BLOCK_N), 8)
    group, first, end = group_of(offs, tile_m, m, groups, BLOCK_M, GROUPS)
    column = tile_n * BLOCK_N
    count = tl.where((group < groups) & (first < end), k, 0)
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for inner in range(0, count, BLOCK_K):
        x = operand_tile(a, 0, first, inner, False, False, BLOCK_M, BLOCK_K)
        y = operand_tile(b, group, inner, column, B_BATCHED, B_TRANSPOSED, BLOCK_K, BLOCK_N)
        total = tl.dot(x, y, total, input_precision=PRECISION, max_num_imprecise_acc=IMPRECISE)
    rows = first + tl.arange(0, BLOCK_M)
    columns = column + tl.arange(0, BLOCK_N)
    if scale_a is not None:
        by_row = tl.load(scale_a + rows, mask=rows < end, other=0)
        has_scales = (columns < n) & (group < groups)
        by_column = tl.load(scale_b + group.to(tl.int64) * rb + columns, mask=has_scales, other=0)
        total = tl.where((group < groups), total * by_row[:, None] * by_column[None, :], 0.0)
    out_ptrs = out + rows[:, None] * om + columns[None, :] * on
    tl.store(
        out_ptrs, convert(total, out.dtype.element_ty), mask=(rows < end)[:, None] & (columns < n)[None, :]
    )


HALF = (
    # As of the product of two matrices: an address and a mask for each element where lines are no whole vectors.
    Configuration((128, 128, 64), 8, 3, {90: 1, 100: 1}),
    Configuration((128, 128, 32), 8, 4, {80: 1}),
    Configuration((64, 64, 64), 4, 3, {90: 2, 100: 2}),
    Configuration((64, 64, 32), 4, 4, {80: 2}),
)
SINGLE = (
    # An address and a mask for each element where the operands' addresses are no multiples of 16.
    Configuration((64, 128, 16), 8, 3, 2, unaligned=1),
    Configuration((64, 32, 16), 4, 3, 4),
)
TF32 = (
    Configuration((128, 128, 32), 8, 3, 1),
    Configuration((64, 64, 32), 4, 3, 2),
)
EIGHT_BITS = (
    # Whole vectors, which tensor descriptors load from sm_90 on.
    Configuration((128, 128, 128), 8, 3, {89: 1}),
    Configuration((64, 64, 64), 4, 3, {89: 2, 90: 2, 100: 2}),
)

BULK = (
    # Elements of the result have an address and a mask each, as those of `persistent.CROWDED`.
    Configuration((128, 128, 64), 8, 4, {90: 1, 100: 1}),
    Configuration((64, 128, 64), 4, 3, {90: 2, 100: 2}),
)
BULK_EIGHT_BITS = (
    Configuration((128, 128, 128), 8, 4, {90: 1, 100: 1}),
    Configuration((64, 128, 128), 4, 3, {90: 2, 100: 2}),
)

declare(
    grouped_matmul_bulk,
    why="see each configuration; a product is bound by arithmetic, and a tile's sums by registers",
    operand="a",
    tile=("BLOCK_M", "BLOCK_N", "BLOCK_K"),
    dtypes={("bf16", "fp16"): BULK, ("fp8e4nv",): BULK_EIGHT_BITS},
    smaller=True,
    operations="2 m n k",
    traffic="(m k + groups k n + m n) itemsize, and each operand again for every tile that finds it not in L2",
    loads=("a", "b"),
    stores=("out",),
    tensor_cores=("bf16", "fp16", "fp8e4nv"),
)
declare(
    grouped_matmul,
    why="see each configuration; a product is bound by arithmetic, and a tile's sums by registers",
    operand="a",
    tile=("BLOCK_M", "BLOCK_N", "BLOCK_K"),
    dtypes={
        ("bf16", "fp16"): HALF,
        ("fp32",): (*SINGLE, *TF32),
        ("fp8e4nv",): EIGHT_BITS,
    },
    smaller=True,
    operations="2 m n k",
    traffic="(m k + groups k n + m n) itemsize, and each operand again for every tile that finds it not in L2",
    loads=("a", "b"),
    stores=("out",),
    tensor_cores=("bf16", "fp16", "fp8e4nv"),
    exact=("fp32",),
)
