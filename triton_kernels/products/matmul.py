"""Matmuls by one tiled kernel over any strides, so that a transpose costs no copy.

If there is an addend, the epilogue computes ``alpha * product + beta * addend`` before the store.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ...dispatch.structured.choices import chosen
from ...runtime.cuda.driver import driver
from ...runtime.cuda.triton.lazy_triton import tl, triton
from ...runtime.scalar_type import BY_NAME
from ..budget import CARDS, Configuration, declare
from ..conversion import convert
from ..launch import Launch, cdiv, integer_type, interpreted
from .epilogue import activated, finish
from .problem import CannotFuse, Epilogue, Matrices, Problem, multiprocessors, worthwhile_parts
from .product import Tiling, multiply_add, stride_arguments, tile_of, tiling
from .split_k import in_parts


@triton.jit
def tile_sums(
    a,
    b,
    batch,
    rows,
    columns,
    first,
    m,
    n,
    k,
    az,
    am,
    ak,
    bz,
    bk,
    bn,
    ACCUMULATOR: tl.constexpr,
    DOT: tl.constexpr,
    PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    operands=None,
    PROLOGUE: tl.constexpr = None,
    WHOLE: tl.constexpr = None,
):
    """Return the sums of a tile over k elements of the K dimension from `first` on; None means from its start."""
    inner = tl.arange(0, BLOCK_K)
    a_tile = a + batch * az + rows[:, None] * am + inner[None, :] * ak
    b_tile = b + batch * bz + inner[:, None] * bk + columns[None, :] * bn
    if first is not None:
        a_tile += first * ak
        b_tile += first * bk
    total = tl.zeros((BLOCK_M, BLOCK_N), ACCUMULATOR)
    # No integer becomes an 8-bit float.
    nothing: tl.constexpr = 0.0 if DOT else 0
    for done in range(0, k, BLOCK_K):
        left = k - done
        x = tl.load(a_tile, mask=(rows < m)[:, None] & (inner < left)[None, :], other=nothing)
        y = tl.load(b_tile, mask=(inner < left)[:, None] & (columns < n)[None, :], other=nothing)
        if PROLOGUE is not None:
            depths = done + inner
            is_depth = depths < k
            if first is not None:
                depths += first
            x, y = PROLOGUE(
                x, y, operands, batch, rows, columns, depths, rows < m, columns < n, is_depth, WHOLE
            )
        total = multiply_add(total, x, y, DOT, PRECISION)
        a_tile += BLOCK_K * ak
        b_tile += BLOCK_K * bk
    return total


@triton.jit
def matmul(
    a,
    b,
    addend,
    out,
    m,
    n,
    k,
    part,
    apart,
    az,
    am,
    ak,
    bz,
    bk,
    bn,
    oz,
    om,
    on,
    sz,
    sm,
    sn,
    alpha,
    beta,
    ACCUMULATOR: tl.constexpr,
    DOT: tl.constexpr,
    PRECISION: tl.constexpr,
    ACTIVATION: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    operands=None,
    EPILOGUE: tl.constexpr = None,
    PROLOGUE: tl.constexpr = None,
    WHOLE: tl.constexpr = None,
):
    tiles_m, tiles_n = tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N)
    batch = (tl.program_id(0) // (tiles_m * tiles_n)).to(tl.int64)
    tile_m, tile_n = tile_of(tl.program_id(0) % (tiles_m * tiles_n), tiles_m, tiles_n, 8)
    rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    first = None
    if part is not None:
        first = tl.program_id(1).to(tl.int64) * part
        k = tl.minimum(k - tl.program_id(1) * part, part)
        out += tl.program_id(1).to(tl.int64) * apart
    total = tile_sums(
        a, b, batch, rows, columns, first, m, n, k, az, am, ak, bz, bk, bn,
        ACCUMULATOR, DOT, PRECISION, BLOCK_M, BLOCK_N, BLOCK_K, operands, PROLOGUE, WHOLE,
    )  # fmt: skip
    if EPILOGUE is not None:
        EPILOGUE(
            total, operands, addend, out, batch, tile_m * BLOCK_M, tile_n * BLOCK_N, m, n, sz, sm, sn, alpha, beta,
            ACTIVATION,
        )  # fmt: skip
    else:
        mask = (rows < m)[:, None] & (columns < n)[None, :]
        value = None
        if addend is not None:
            value = tl.load(
                addend + batch * sz + rows[:, None] * sm + columns[None, :] * sn, mask=mask, other=0
            )
            value = value.to(total.dtype)
        if DOT:
            total = finish(total, value, alpha, beta, ACTIVATION)
        else:
            # Integers wrap first: a sum beyond the output's type may be of the other sign in it.
            total = activated(
                convert(finish(total, value, alpha, beta, None), out.dtype.element_ty), ACTIVATION
            )
        out_ptrs = out + batch * oz + rows[:, None] * om + columns[None, :] * on
        tl.store(out_ptrs, convert(total, out.dtype.element_ty), mask=mask)


HALF = (
    # For what tensor maps do not describe. 64 registers of sums for each lane, an address and a mask for each element
    # of operands and addends that are no whole vectors: one block.
    Configuration((128, 128, 64), 8, 3, {90: 1, 100: 1}),
    Configuration((128, 128, 32), 8, 4, {80: 1}),
    # For few tiles: seldom more than two on a multiprocessor.
    Configuration((64, 64, 64), 4, 3, {90: 2, 100: 2}),
    Configuration((64, 64, 32), 4, 4, {80: 2}),
    # For lines that are no whole vectors, whose elements have an address and a mask each, as in a convolution.
    Configuration((128, 64, 32), 8, 3, 1),
    Configuration((64, 64, 32), 4, 3, 2),
)
FEW_ROWS = Configuration((16, 64, 128), 4, 4, {80: 2})
"""Tile with the fewest rows of HMMA: loads of the right operand dominate, with 48 KiB in flight for each block, in
lines of 256 bytes. sm_90 and later multiply 64 rows at least, and load through tensor maps.
"""
TF32 = (
    # Operands wait in registers on sm_80, and on sm_90 if they are not contiguous along K.
    Configuration((128, 128, 32), 8, 3, 1),
    Configuration((64, 64, 32), 4, 3, {80: 2, 90: 2, 100: 2}, all_registers=True),
)
EIGHT_BITS = Configuration((64, 64, 64), 4, 3, {89: 2, 90: 2, 100: 2})
"""Tile for operands that a tensor map cannot describe, and before sm_90: a separate launch scales the sums."""
SINGLE = (
    # 16 warps, four for each scheduler, hide the latency of FFMA.
    Configuration((64, 128, 16), 8, 3, 2),
    Configuration((64, 32, 16), 4, 3, 4),
)
DOUBLE = (
    # 32 registers of sums for each lane, and 16 warps for DMMA's latency.
    Configuration((64, 64, 16), 8, 3, 2, all_registers=CARDS),
    Configuration((32, 32, 16), 4, 3, 4),
)
WHOLE = (Configuration((16, 16, 16), 4, 2, 4),)

declare(
    matmul,
    why="see each configuration; a product is bound by arithmetic, and a tile's sums by registers",
    operand="a",
    tile=("BLOCK_M", "BLOCK_N", "BLOCK_K"),
    dtypes={
        ("bf16", "fp16"): (*HALF, FEW_ROWS),
        ("fp32",): (*SINGLE, *TF32),
        ("fp8e4nv", "fp8e5"): (EIGHT_BITS,),
        ("fp64",): DOUBLE,
        ("i32", "i64", "i8", "i16", "u8"): WHOLE,
    },
    smaller=True,
    operations="2 m n k",
    traffic="(m k + k n + m n) itemsize, and each operand again for every tile that shares it and finds it not in L2",
    loads=("a", "b"),
    stores=("out",),
    tensor_cores=("bf16", "fp16", "fp64"),
    exact=("fp32",),
)


def plan_tiled(problem: Problem) -> Callable[..., None]:
    """Return ``launch(a, b, [addend,] out, *scales)`` over any addresses: every tile a program, through pointers."""
    m, n, k, batch = problem.shape
    itemsize, how = problem.left.dtype.itemsize, problem.how
    gathered = itemsize == 2 and not all(each.has_whole_vectors for each in problem.loaded)
    tile = tiling(problem.device, itemsize, how, m, n, k, batch, gathered)
    if problem.precision == "tf32" and not interpreted():
        tile = tiling_tf32(problem)
    if itemsize == 2 and how.dot and not gathered and not interpreted() and has_few_rows(problem):
        tile = Tiling(*FEW_ROWS.tile, FEW_ROWS.warps, FEW_ROWS.stages)
    tiles = cdiv(m, tile.m) * cdiv(n, tile.n) * batch
    # Sums of parts are float32.
    parts = 1
    if itemsize == 1 and how.dot:
        tile = Tiling(*EIGHT_BITS.tile, EIGHT_BITS.warps, EIGHT_BITS.stages)
    elif how.dot and itemsize <= 4:
        slots = 2 * multiprocessors(problem.device)
        parts = worthwhile_parts(problem, tiles, slots, 4 * tile.k)
    fused = problem.epilogue.fused
    if not problem.computes_seldom((tile.m, tile.n)) or not problem.keeps_order(tile.m):
        raise CannotFuse("an operand would be computed too often, or added up in another order")
    if parts > 1:
        chosen("split-K", "{} tiles are few for {} places, and {} elements are summed", tiles, slots, k)
    if parts == 1 and problem.epilogue.factors is None:
        return plan_launch(problem, tile, None)
    length = max(cdiv(cdiv(k, parts), tile.k), 1) * tile.k
    parts = max(cdiv(k, length), 1)
    workspace = Matrices((batch, m, n), (m * n, n, 1), BY_NAME["float32"])
    sums = Epilogue(fused=None if fused is None else fused.sums)
    multiply = plan_launch(replace(problem, out=workspace, epilogue=sums), tile, length, parts)
    return in_parts(problem, parts, multiply)


def has_few_rows(problem: Problem) -> bool:
    """Return True if `FEW_ROWS` is the tile on this device: skinny GEMMs of decoding, with large matrices."""
    rows, columns, inner = FEW_ROWS.tile
    design = driver().properties(problem.device.resolved_index).design
    return design < 90 and problem.m <= rows and problem.n >= columns and problem.k >= inner


def tiling_tf32(problem: Problem) -> Tiling:
    """Return a tile for operands that round to TF32."""
    tiles = cdiv(problem.m, 128) * cdiv(problem.n, 128) * problem.batch
    whole = problem.left.has_whole_vectors and problem.right.has_whole_vectors
    configuration = TF32[0] if whole and tiles >= multiprocessors(problem.device) else TF32[1]
    return Tiling(*configuration.tile, configuration.warps, configuration.stages)


def plan_launch(problem: Problem, tile: Tiling, part: int | None, parts: int = 1) -> Callable[..., None]:
    """Return the launch of the tiled kernel; split-K has parts of `part` along K, in consecutive workspaces."""
    m, n, k, batch = problem.shape
    addend = problem.epilogue.addend
    left, right = problem.loaded
    strides: dict[str, int] = {}
    for letters, own in (
        (("az", "am", "ak"), left.strides),
        (("bz", "bk", "bn"), right.strides),
        (("oz", "om", "on"), problem.out.strides),
        (("sz", "sm", "sn"), (0, 0, 0) if addend is None else addend.strides),
    ):
        strides |= dict(zip(letters, own, strict=True))
    reach = max(
        (m + tile.m) * max(abs(strides[s]) for s in ("am", "om", "sm")) + (k + tile.k) * abs(strides["ak"]),
        (n + tile.n) * max(abs(strides[s]) for s in ("bn", "on", "sn")) + (k + tile.k) * abs(strides["bk"]),
    )
    signature, constants, values, divisible = stride_arguments(strides, integer_type(2 * reach))
    sizes = {"m": m, "n": n, "k": k}
    if part is None:
        constants |= {"part": None, "apart": None}
    else:
        sizes["part"] = part
        signature["apart"] = integer_type(batch * m * n)
        values["apart"] = batch * m * n
    every = {
        "a": f"*{left.dtype.triton_name}",
        "b": f"*{right.dtype.triton_name}",
        "out": f"*{problem.out.dtype.triton_name}",
        **dict.fromkeys(sizes, "i32"),
        **signature,
    }
    if addend is None:
        constants["addend"] = None
    else:
        every["addend"] = f"*{addend.dtype.triton_name}"
    passed, fixed = problem.epilogue.signature()
    fused = problem.epilogue.fused
    kernel = matmul if fused is None else fused.kernel("tiled")
    every |= passed if fused is None else passed | dict(fused.pointers)
    if fused is not None and fused.has_prologue:
        constants["WHOLE"] = k % tile.k == 0
    launch = Launch(
        problem.device,
        kernel,
        {name: every[name] for name in kernel.arg_names if name in every},
        {
            **constants,
            **fixed,
            **tile.constants(),
            "ACCUMULATOR": problem.how.type,
            "DOT": problem.how.dot,
            "PRECISION": problem.precision,
            "ACTIVATION": problem.epilogue.activation,
        },
        divisible=[*divisible, *(name for name, size in sizes.items() if size % 16 == 0)],
        elements=() if fused is None else fused.elements,
        num_warps=tile.warps,
        num_stages=tile.stages,
    )
    grid = (cdiv(m, tile.m) * cdiv(n, tile.n) * batch, parts, 1)
    numbers = tuple({**sizes, **values}[name] for name in matmul.arg_names if name in sizes or name in values)
    pointers = 3 + problem.epilogue.pointers

    def run(*arguments: int | float) -> None:
        launch(grid, *arguments[:pointers], *numbers, *arguments[pointers:])

    return run
