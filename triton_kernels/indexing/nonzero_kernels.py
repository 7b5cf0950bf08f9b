"""The programs that find elements which are not zero; each has a part of the elements, and walks through its tiles."""

from ...runtime.cuda.triton.lazy_triton import tl, triton
from ..budget import NUMBERS, Configuration, declare


@triton.jit
def hot_tile(x, first, i, n, TYPE: tl.constexpr, BLOCK: tl.constexpr):
    """1 where an element of a tile is not zero, 0 elsewhere and outside."""
    if first + BLOCK <= n:
        hot = tl.load(x + i).to(TYPE) != 0
    else:
        hot = (tl.load(x + i, mask=i < n).to(TYPE) != 0) & (i < n)
    return hot.to(tl.int32)


@triton.jit
def count_nonzero(x, counts, n, tiles, TYPE: tl.constexpr, INDEX: tl.constexpr, BLOCK: tl.constexpr):
    """counts[program]: how many elements of the program's tiles are not zero."""
    base = tl.program_id(0).to(INDEX) * tiles * BLOCK
    total = tl.zeros((BLOCK,), tl.int32)
    for tile in range(tiles):
        first = base + tile * BLOCK
        total += hot_tile(x, first, first + tl.arange(0, BLOCK).to(INDEX), n, TYPE, BLOCK)
    tl.store(counts + tl.program_id(0), tl.sum(total, 0).to(counts.dtype.element_ty))


@triton.jit
def write_nonzero(
    x,
    starts,
    out,
    n,
    tiles,
    divisor,
    size,
    step,
    limit,
    TYPE: tl.constexpr,
    INDEX: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Store one coordinate, ``i // divisor % size``, of each of the first `limit` nonzero elements, in order."""
    base = tl.program_id(0).to(INDEX) * tiles * BLOCK
    before = tl.load(starts + tl.program_id(0)).to(INDEX)
    for tile in range(tiles):
        first = base + tile * BLOCK
        i = first + tl.arange(0, BLOCK).to(INDEX)
        hot = hot_tile(x, first, i, n, TYPE, BLOCK)
        place = before + tl.cumsum(hot, 0) - hot
        coordinate = (i // divisor % size).to(tl.int64)
        tl.store(out + place * step, coordinate, mask=(hot != 0) & (place < limit))
        before += tl.sum(hot, 0)


ENDS_IN_BARRIERS = "32 warps: a tile's sums over lanes end in barriers, and other blocks run meanwhile"
ONE, TWO, FOUR, EIGHT = (
    ("i8", "u8", "i1"),
    ("i16", "u16", "fp16", "bf16"),
    ("i32", "u32", "fp32"),
    ("i64", "u64", "fp64"),
)

declare(
    count_nonzero,
    why="32 warps: each lane has whole vectors of 128 bits in flight, and sums over lanes once",
    operand="x",
    dtypes={
        ONE + TWO: (Configuration((2048,)),),
        FOUR + EIGHT: (Configuration((1024,)),),
    },
    operations="n comparisons",
    traffic="n itemsize",
    loads=("x",),
)
declare(
    write_nonzero,
    why=ENDS_IN_BARRIERS,
    operand="x",
    dtypes=NUMBERS,
    configurations=(Configuration((1024,), 8),),
    operations="n, and a sum over lanes",
    traffic="n itemsize, and 8 for each place found",
)
