"""Kernels of CSR and BSR matmuls, and of sampled matmuls.

Rows are split at multiples of CHUNK values, so that a long row is the work of several programs. The split
needs no count of pieces: the piece that begins row r has the number ``r + crow[r] // CHUNK``, which rises
with r, and bisection finds the row. The program of a single-piece row stores it. Pieces of other rows go to a
workspace, from which `add_pieces` adds them in order. The split depends on the matrix alone, and so does the
result. An invalid index raises a flag, and nothing is read through it.
"""

from ...runtime.cuda.triton.lazy_triton import tl, triton
from ..budget import Configuration, declare
from ..conversion import convert
from ..folded_grid import place_in_grid

ROWS, COLUMN = (tl.constexpr(i) for i in range(2))
"""Meaning of the flags: rows do not rise within the values, a column is outside of the dense matrix."""


@triton.jit
def bound(crow, row, nnz, INDEX: tl.constexpr):
    """Return the start of a row, clamped to the values."""
    return tl.minimum(tl.maximum(tl.load(crow + row).to(tl.int64), 0), nnz).to(INDEX)


@triton.jit
def check_row(crow, flag, row, rows, nnz):
    """Raise a flag if a row begins before the values, after its end, or ends after them."""
    mine = row < rows
    begin = tl.load(crow + row, mask=mine, other=0).to(tl.int64)
    end = tl.load(crow + row + 1, mask=mine, other=0).to(tl.int64)
    tl.store(flag + ROWS, 1, mask=mine & ((begin < 0) | (end < begin) | (end > nnz)))


@triton.jit
def csr_rows(
    crow,
    col,
    values,
    dense,
    out,
    heads,
    tails,
    flag,
    rows,
    nnz,
    length,
    width,
    TYPE: tl.constexpr,
    INDEX: tl.constexpr,
    CHUNK: tl.constexpr,
    STEPS: tl.constexpr,
    ENTRIES: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    slot, across = place_in_grid(rows + nnz // CHUNK)
    slot = slot.to(INDEX)
    check_row(crow, flag, slot, rows, nnz)
    row = slot * 0
    beyond = row + rows
    for _ in range(STEPS):
        middle = (row + beyond) // 2
        is_before = middle + bound(crow, middle, nnz, INDEX) // CHUNK <= slot
        row = tl.where(is_before, middle, row)
        beyond = tl.where(is_before, beyond, middle)
    begin = bound(crow, row, nnz, INDEX)
    end = bound(crow, row + 1, nnz, INDEX)
    first = begin // CHUNK
    piece = slot - row - first
    start = tl.maximum(begin, (first + piece) * CHUNK)
    stop = tl.minimum(end, (first + piece + 1) * CHUNK)
    c = across.to(INDEX) * COLUMNS + tl.arange(0, COLUMNS)
    inside = c < width
    total = tl.zeros((ENTRIES, COLUMNS), TYPE)
    for base in range(start, stop, ENTRIES):
        at = base + tl.arange(0, ENTRIES)
        mask = at < stop
        j = tl.load(col + at, mask=mask, other=0)
        is_wrong = mask & ((j < 0) | (j >= length))
        tl.store(flag + COLUMN + tl.zeros_like(at), 1, mask=is_wrong)
        mask = mask & (is_wrong == 0)
        value = tl.load(values + at, mask=mask, other=0)
        place = (j.to(INDEX) * width)[:, None] + c[None, :]
        x = tl.load(dense + place, mask=mask[:, None] & inside[None, :], other=0)
        total += convert(value, TYPE)[:, None] * convert(x, TYPE)
    result = tl.sum(total, 0).to(TYPE)
    has_several = (end > begin) & ((tl.maximum(end, 1) - 1) // CHUNK > first)
    is_first = piece == 0
    tl.store(
        out + row * width + c,
        convert(result, out.dtype.element_ty),
        mask=inside & is_first & (has_several == 0),
    )
    if heads is not None:
        tl.store(heads + (first + 1) * width + c, result, mask=inside & is_first & has_several)
        tl.store(
            tails + (first + piece) * width + c,
            result,
            mask=inside & (piece > 0) & has_several & (start < stop),
        )


@triton.jit
def add_pieces(
    crow,
    heads,
    tails,
    out,
    rows,
    nnz,
    width,
    TYPE: tl.constexpr,
    INDEX: tl.constexpr,
    CHUNK: tl.constexpr,
    STEPS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Add up the pieces of rows that were split; the program of the first multiple of CHUNK inside a row adds it."""
    number, across = place_in_grid(nnz // CHUNK)
    number = number.to(INDEX) + 1
    cut = number * CHUNK
    row = number * 0
    beyond = row + rows
    for _ in range(STEPS):
        middle = (row + beyond) // 2
        is_before = bound(crow, middle, nnz, INDEX) < cut
        row = tl.where(is_before, middle, row)
        beyond = tl.where(is_before, beyond, middle)
    begin = bound(crow, row, nnz, INDEX)
    end = bound(crow, row + 1, nnz, INDEX)
    if (end > cut) & (begin < cut) & (begin // CHUNK + 1 == number):
        c = across.to(INDEX) * COLUMNS + tl.arange(0, COLUMNS)
        inside = c < width
        total = tl.load(heads + number * width + c, mask=inside, other=0)
        for piece in range(number, (end - 1) // CHUNK + 1):
            total += tl.load(tails + piece * width + c, mask=inside, other=0)
        tl.store(out + row * width + c, convert(total, out.dtype.element_ty), mask=inside)


@triton.jit
def sampled_pairs(
    rows,
    columns,
    left,
    right,
    out,
    flag,
    count,
    above,
    across,
    inner,
    TYPE: tl.constexpr,
    INDEX: tl.constexpr,
    PAIRS: tl.constexpr,
    INNER: tl.constexpr,
):
    """Compute the dot product of a row of `left` and a row of `right` for each pair."""
    at = tl.program_id(0).to(INDEX) * PAIRS + tl.arange(0, PAIRS)
    mask = at < count
    i = tl.load(rows + at, mask=mask, other=0)
    j = tl.load(columns + at, mask=mask, other=0)
    is_wrong = mask & ((i < 0) | (i >= above) | (j < 0) | (j >= across))
    tl.store(flag + tl.zeros_like(at), 1, mask=is_wrong)
    fits = mask & (is_wrong == 0)
    total = tl.zeros((PAIRS, INNER), TYPE)
    for base in range(0, inner, INNER):
        k = base + tl.arange(0, INNER)
        both = fits[:, None] & (k < inner)[None, :]
        x = tl.load(left + (i.to(INDEX) * inner)[:, None] + k[None, :], mask=both, other=0)
        y = tl.load(right + (j.to(INDEX) * inner)[:, None] + k[None, :], mask=both, other=0)
        total += convert(x, TYPE) * convert(y, TYPE)
    tl.store(out + at, convert(tl.sum(total, 1).to(TYPE), out.dtype.element_ty), mask=mask)


@triton.jit
def bsr_rows(
    crow,
    col,
    values,
    dense,
    out,
    flag,
    rows,
    nnz,
    length,
    width,
    high,
    wide,
    PRECISION: tl.constexpr,
    TYPE: tl.constexpr,
    INDEX: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Compute a tile of a block row: its blocks in order, each times its rows of the dense matrix.

    The tile is multiplied transposed: matrix instructions of sm_90 need 64 rows, and blocks often have 16.
    """
    row, rest = place_in_grid(rows)
    row, tiles = row.to(INDEX), tl.cdiv(high, BLOCK_M)
    check_row(crow, flag, row, rows, nnz)
    begin = bound(crow, row, nnz, INDEX)
    end = bound(crow, row + 1, nnz, INDEX)
    down = rest % tiles * BLOCK_M + tl.arange(0, BLOCK_M)
    c = (rest // tiles).to(INDEX) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    total = tl.zeros((BLOCK_N, BLOCK_M), TYPE)
    for at in range(begin, end):
        j = tl.load(col + at)
        is_wrong = (j < 0) | (j >= length)
        tl.store(flag + COLUMN, 1, mask=is_wrong)
        for base in range(0, tl.where(is_wrong, 0, wide), BLOCK_K):
            within = base + k
            fits = within < wide
            x = tl.load(
                values + at * high * wide + down[:, None] * wide + within[None, :],
                mask=(down < high)[:, None] & fits[None, :],
                other=0,
            )
            y = tl.load(
                dense + (j.to(INDEX) * wide + within)[:, None] * width + c[None, :],
                mask=fits[:, None] & (c < width)[None, :],
                other=0,
            )
            total = tl.dot(tl.trans(y), tl.trans(x), total, input_precision=PRECISION, out_dtype=TYPE)
    tl.store(
        out + (row * high + down)[:, None] * width + c[None, :],
        convert(tl.trans(total), out.dtype.element_ty),
        mask=(down < high)[:, None] & (c < width)[None, :],
    )


NUMBERS = ("fp32", "fp16", "bf16", "fp64", "i32", "i64", "i8", "i16", "u8", "u16", "u32", "u64")
# Left alone the compiler spills a word on sm_80 for one block more.
VECTOR, NARROW = (Configuration(tile, all_registers=(80,)) for tile in ((256, 1), (16, 16)))
WIDE = Configuration((8, 64))
PIECES = (Configuration((1,)), Configuration((64,)))
PAIRS = (Configuration((16, 32)),)
SMALL_BLOCKS, LARGE_BLOCKS = Configuration((16, 64, 16)), Configuration((64, 64, 64))
SINGLE_BLOCKS = (Configuration((64, 64, 16), all_registers=(86, 89)), SMALL_BLOCKS)

declare(
    csr_rows,
    why="32 warps: a row's columns and then the dense matrix's rows are waited for, one after the other",
    operand="values",
    tile=("ENTRIES", "COLUMNS"),
    dtypes=NUMBERS,
    configurations=(WIDE, NARROW, VECTOR),
    smaller=True,
    operations="2 nnz width",
    traffic="nnz (width + 1) itemsize, nnz 8 and rows (width itemsize + 8), less what the dense matrix leaves in L2",
)
declare(
    add_pieces,
    why="32 warps of a multiprocessor: it reads a workspace",
    operand="heads",
    tile=("COLUMNS",),
    dtypes=("fp32", "fp64", "i64"),
    configurations=PIECES,
    smaller=True,
    operations="nnz / CHUNK width",
    traffic="2 nnz / CHUNK width itemsize",
)
declare(
    sampled_pairs,
    why="32 warps: pairs of numbers and then rows are waited for, one after the other",
    operand="left",
    tile=("PAIRS", "INNER"),
    dtypes=NUMBERS,
    configurations=PAIRS,
    smaller=True,
    operations="2 count inner",
    traffic="2 count inner itemsize and count (16 + itemsize), less what the rows leave in L2",
)
declare(
    bsr_rows,
    warps=8,
    why="two blocks of 64 x 64 sums beside the tiles that are multiplied; a block that waits leaves the other",
    operand="values",
    tile=("BLOCK_M", "BLOCK_N", "BLOCK_K"),
    dtypes={
        ("fp16", "bf16"): (LARGE_BLOCKS, SMALL_BLOCKS),
        ("fp32",): SINGLE_BLOCKS,
        ("fp64",): (Configuration((32, 32, 16)), Configuration((16, 32, 16))),
    },
    smaller=True,
    operations="2 nnz high wide width",
    traffic="nnz high wide itemsize, nnz wide width itemsize less what is left in L2, rows high width itemsize",
    tensor_cores=("fp16", "bf16", "fp64"),
    exact=("fp32",),
)
