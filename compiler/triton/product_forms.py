"""Templates of matmuls with an epilogue, by the form of their kernels: an eager kernel with another end each."""

HEADER = '''"""{what}

Written by `tt.compile` for cuda; each step names the operator that it comes from.
"""

from triten.runtime.cuda.triton.lazy_triton import tl, triton
from triten.triton_kernels.conversion import convert
{imports}
'''

ELEMENTS = """

@triton.jit
def {name}_elements(
    total, addend, out, {others}batch, rows, columns, {quads}m, n, sz, sm, sn, alpha, beta, ACTIVATION: tl.constexpr
):
    is_row, is_column = rows < m, columns < n
    mask = is_row[:, None] & is_column[None, :]
    value = None
    if addend is not None:
        value = {addend}.to(total.dtype)
    total = finish(total, value, alpha, beta, ACTIVATION)
    # {product}
    product = convert(total, {type})
{body}
"""

TILED = """

@triton.jit
def {name}(
    a, b, addend, out,
    {others}m, n, k, part, apart, az, am, ak, bz, bk, bn, oz, om, on, sz, sm, sn, alpha, beta,
    ACCUMULATOR: tl.constexpr, DOT: tl.constexpr, PRECISION: tl.constexpr, ACTIVATION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr{whole_parameter},
):
    tiles_m, tiles_n = tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N)
    batch = (tl.program_id(0) // (tiles_m * tiles_n)).to(tl.int64)
    tile_m, tile_n = tile_of(tl.program_id(0) % (tiles_m * tiles_n), tiles_m, tiles_n, 8)
    rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    total = {sums}(
        a, b, {prologue_pointers}batch, rows, columns, None, m, n, k, az, am, ak, bz, bk, bn,
        ACCUMULATOR, DOT, PRECISION, BLOCK_M, BLOCK_N, BLOCK_K{whole},
    )
    {name}_elements(
        total, addend, out, {others}batch, rows, columns, {quads_of_tile}m, n, sz, sm, sn, alpha, beta, ACTIVATION
    )
"""

PERSISTENT = """

@triton.jit
def {name}(
    a, b, addend, out,
    {others}scale_a, scale_b, scale_out, m, n, k, batches, parts, steps, oz, om, on, sz, sm, sn, alpha, beta,
    ADDEND: tl.constexpr, ADDEND_BATCHED: tl.constexpr, A_BATCHED: tl.constexpr, B_BATCHED: tl.constexpr,
    A_TRANSPOSED: tl.constexpr, B_TRANSPOSED: tl.constexpr, BULK_STORE: tl.constexpr, ACTIVATION: tl.constexpr,
    ROW_WISE: tl.constexpr, SATURATES: tl.constexpr, PRECISION: tl.constexpr, IMPRECISE: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, HALVES: tl.constexpr{whole_parameter},
):
    tiles_m, tiles_n = tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N)
    each = tiles_m * tiles_n
    for tile in tl.range(tl.program_id(0), each * batches, tl.num_programs(0), flatten=True):
        batch = tile // each
        tile_m, tile_n = tile_of(tile % each, tiles_m, tiles_n, 8)
        row, column = tile_m * BLOCK_M, tile_n * BLOCK_N
        total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for step in range(tl.cdiv(k, BLOCK_K)):
            inner = step * BLOCK_K
            x = operand_tile(a, batch, row, inner, A_BATCHED, A_TRANSPOSED, BLOCK_M, BLOCK_K)
            y = operand_tile(b, batch, inner, column, B_BATCHED, B_TRANSPOSED, BLOCK_K, BLOCK_N)
{in_loop}            total = tl.dot(x, y, total, input_precision=PRECISION, max_num_imprecise_acc=IMPRECISE)
        if HALVES:
            half: tl.constexpr = BLOCK_N // 2
            left, right = tl.split(tl.permute(tl.reshape(total, (BLOCK_M, 2, half)), (0, 2, 1)))
            {name}_elements(
                left, addend, out, {others}batch.to(tl.int64), row + tl.arange(0, BLOCK_M),
                column + tl.arange(0, half), {quads_of_left}m, n, sz, sm, sn, alpha, beta, ACTIVATION
            )
            {name}_elements(
                right, addend, out, {others}batch.to(tl.int64), row + tl.arange(0, BLOCK_M),
                column + half + tl.arange(0, half), {quads_of_right}m, n, sz, sm, sn, alpha, beta, ACTIVATION
            )
        else:
            {name}_elements(
                total, addend, out, {others}batch.to(tl.int64), row + tl.arange(0, BLOCK_M),
                column + tl.arange(0, BLOCK_N), {quads_of_whole}m, n, sz, sm, sn, alpha, beta, ACTIVATION
            )
"""

PARTS = """

@triton.jit
def {name}(
    parts, addend, out, {others}count, m, n, apart, sz, sm, sn, alpha, beta, ACTIVATION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, OVERLAPS: tl.constexpr,
):
    wait_for_earlier(OVERLAPS)
    across, down = tl.cdiv(n, BLOCK_N), tl.cdiv(m, BLOCK_M)
    batch = (tl.program_id(0) // (across * down)).to(tl.int64)
    rows = tl.program_id(0) // across % down * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(0) % across * BLOCK_N + tl.arange(0, BLOCK_N)
    mask = (rows < m)[:, None] & (columns < n)[None, :]
    total = part_sums(parts, batch, rows, columns, mask, count, m, n, apart, BLOCK_M, BLOCK_N)
    {name}_elements(
        total, addend, out, {others}batch, rows, columns, {quads_of_part}m, n, sz, sm, sn, alpha, beta, ACTIVATION
    )
"""

STREAM_K = """

@triton.jit
def {name}(
    a, b, addend, out,
    {others}parts, counters, m, n, k, batches, share, sz, sm, sn, alpha, beta,
    A_BATCHED: tl.constexpr, B_BATCHED: tl.constexpr, A_TRANSPOSED: tl.constexpr, B_TRANSPOSED: tl.constexpr,
    ACTIVATION: tl.constexpr, PRECISION: tl.constexpr, IMPRECISE: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr{whole_parameter},
):
    tiles_m, tiles_n, steps = tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N), tl.cdiv(k, BLOCK_K)
    each = tiles_m * tiles_n
    begin = tl.program_id(0) * share
    end = tl.minimum(begin + share, each * batches * steps)
    for tile in range(begin // steps, tl.cdiv(end, steps)):
        batch = tile // each
        tile_m, tile_n = tile_of(tile % each, tiles_m, tiles_n, 8)
        row, column = tile_m * BLOCK_M, tile_n * BLOCK_N
        start = tile * steps
        total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for step in range(tl.maximum(begin - start, 0), tl.minimum(end - start, steps)):
            inner = step * BLOCK_K
            x = operand_tile(a, batch, row, inner, A_BATCHED, A_TRANSPOSED, BLOCK_M, BLOCK_K)
            y = operand_tile(b, batch, inner, column, B_BATCHED, B_TRANSPOSED, BLOCK_K, BLOCK_N)
{in_loop}            total = tl.dot(x, y, total, input_precision=PRECISION, max_num_imprecise_acc=IMPRECISE)
        to_rows, to_columns = row + tl.arange(0, BLOCK_M), column + tl.arange(0, BLOCK_N)
        inside = (to_rows < m)[:, None] & (to_columns < n)[None, :]
        first, last = start // share, (start + steps - 1) // share
        is_whole = first == last
        if not is_whole:
            is_whole, total = joined_sums(total, parts, counters + tile, first, last, inside, BLOCK_M, BLOCK_N)
        if is_whole:
            {name}_elements(
                total, addend, out, {others}batch.to(tl.int64), to_rows, to_columns, {quads_of_whole}m, n,
                sz, sm, sn, alpha, beta, ACTIVATION
            )
"""

ADDENDS = {
    "row": "tl.load(addend + batch * sz + columns * sn, mask=is_column, other=0)[None, :]",
    "tile": "tl.load(addend + batch * sz + rows[:, None] * sm + columns[None, :] * sn, mask=mask, other=0)",
}
"""Load of a matmul's own bias: one row for all, or an element each."""
QUADS = {
    "quads": "quads, ",
    "quads_of_tile": "tile_n * (BLOCK_N // 4) + tl.arange(0, BLOCK_N // 4), ",
    "quads_of_left": "column // 4 + tl.arange(0, half // 4), ",
    "quads_of_right": "(column + half) // 4 + tl.arange(0, half // 4), ",
    "quads_of_whole": "column // 4 + tl.arange(0, BLOCK_N // 4), ",
    "quads_of_part": "tl.program_id(0) % across * (BLOCK_N // 4) + tl.arange(0, BLOCK_N // 4), ",
}
"""Groups of four columns of a tile, as random words count them, if there are random ops."""
FORMS = {"tiled": TILED, "persistent": PERSISTENT, "stream_k": STREAM_K, "parts": PARTS}
IMPORTS = {
    "tiled": (
        "from triten.triton_kernels.products.epilogue import finish",
        "from triten.triton_kernels.products.matmul import tile_sums",
        "from triten.triton_kernels.products.product import tile_of",
    ),
    "persistent": (
        "from triten.triton_kernels.products.epilogue import finish",
        "from triten.triton_kernels.products.persistent import operand_tile",
        "from triten.triton_kernels.products.product import tile_of",
    ),
    "stream_k": (
        "from triten.triton_kernels.products.epilogue import finish",
        "from triten.triton_kernels.products.persistent import operand_tile",
        "from triten.triton_kernels.products.product import tile_of",
        "from triten.triton_kernels.products.stream_k_kernels import joined_sums",
    ),
    "parts": (
        "from triten.triton_kernels.programmatic import wait_for_earlier",
        "from triten.triton_kernels.products.epilogue import finish",
        "from triten.triton_kernels.products.split_k import part_sums",
    ),
}
