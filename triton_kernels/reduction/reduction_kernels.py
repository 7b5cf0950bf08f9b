"""The programs of reductions: the skeletons, and the functions that they combine with."""

from ...runtime.cuda.lazy_triton import tl, triton
from ..budget import INTEGERS, STREAMING, Configuration, declare
from ..conversion import convert


@triton.jit
def identity(a):
    return a


@triton.jit
def result_of(a, count):
    return a


@triton.jit
def sum_of(a, b):
    return a + b


@triton.jit
def sum_across(tile):
    return tl.reduce(tile, 1, sum_of)


@triton.jit
def mean_of(a, count):
    if a.dtype == tl.float32:
        return tl.div_rn(a, count.to(tl.float32))
    else:
        return a / count.to(tl.float64)


@triton.jit
def product(a, b):
    return a * b


@triton.jit
def product_across(tile):
    return tl.reduce(tile, 1, product)


@triton.jit
def largest(a, b):
    return tl.where((a > b) | (a != a), a, b)


@triton.jit
def largest_across(tile):
    return tl.reduce(tile, 1, largest)


@triton.jit
def smallest(a, b):
    return tl.where((a < b) | (a != a), a, b)


@triton.jit
def smallest_across(tile):
    return tl.reduce(tile, 1, smallest)


@triton.jit
def logical_or(a, b):
    return a | b


@triton.jit
def or_across(tile):
    return tl.reduce(tile, 1, logical_or)


@triton.jit
def logical_and(a, b):
    return a & b


@triton.jit
def and_across(tile):
    return tl.reduce(tile, 1, logical_and)


@triton.jit
def offset_of(i, n0, n1, n2, s0, s1, s2, s3, NDIM: tl.constexpr):
    """The offset of a linear index over up to four dimensions, the inner one first."""
    if NDIM == 0:
        return i * 0
    elif NDIM == 1:
        return i * s0
    elif NDIM == 2:
        return (i % n0) * s0 + (i // n0) * s1
    elif NDIM == 3:
        return (i % n0) * s0 + ((i // n0) % n1) * s1 + (i // n0 // n1) * s2
    else:
        rest = i // n0 // n1
        return (i % n0) * s0 + ((i // n0) % n1) * s1 + (rest % n2) * s2 + (rest // n2) * s3


@triton.jit
def reduce(
    x,
    out,
    n_out,
    n,
    count,
    chunk,
    PART_STRIDE: tl.constexpr,
    k0,
    k1,
    k2,
    xk0,
    xk1,
    xk2,
    xk3,
    ok0,
    ok1,
    ok2,
    ok3,
    r0,
    r1,
    r2,
    xr0,
    xr1,
    xr2,
    xr3,
    COMBINE: tl.constexpr,
    ACROSS: tl.constexpr,
    LOAD: tl.constexpr,
    FINISH: tl.constexpr,
    START: tl.constexpr,
    ACCUMULATOR: tl.constexpr,
    KEPT: tl.constexpr,
    REDUCED: tl.constexpr,
    INDEX: tl.constexpr,
    BLOCK_O: tl.constexpr,
    BLOCK_R: tl.constexpr,
):
    o = tl.program_id(0).to(INDEX) * BLOCK_O + tl.arange(0, BLOCK_O).to(INDEX)
    part = tl.program_id(1).to(INDEX)
    wanted = o < n_out
    rows = x + offset_of(o, k0, k1, k2, xk0, xk1, xk2, xk3, KEPT)[:, None]
    start = tl.full((1, 1), START, ACCUMULATOR)
    total = tl.full((BLOCK_O, BLOCK_R), START, ACCUMULATOR)
    first = part * chunk
    last = tl.minimum(first + chunk, n)
    for base in range(first, last, BLOCK_R):
        r = base + tl.arange(0, BLOCK_R).to(INDEX)
        mask = wanted[:, None] & (r < last)[None, :]
        columns = offset_of(r, r0, r1, r2, xr0, xr1, xr2, xr3, REDUCED)[None, :]
        value = tl.load(rows + columns, mask=mask, other=0)
        value = convert(LOAD(convert(value, ACCUMULATOR)), ACCUMULATOR)
        total = COMBINE(total, tl.where(mask, value, start))
    result = FINISH(ACROSS(total), count)
    to = offset_of(o, k0, k1, k2, ok0, ok1, ok2, ok3, KEPT) + part * PART_STRIDE
    tl.store(out + to, convert(result, out.dtype.element_ty), mask=wanted)


SHAPES = ((1, 4096), 8), ((32, 64), 4), ((64, 32), 4)
ROWS, SHORT_ROWS, COLUMNS = (Configuration(tile, warps) for tile, warps in SHAPES)
# 16 elements of eight bytes for each lane: 24 warps have three times as much in flight as is wanted, and the room that
# 16 sums in pairs of registers take.
DOUBLE = tuple(Configuration(tile, warps, blocks=24 // warps) for tile, warps in SHAPES)

declare(
    reduce,
    why=STREAMING,
    operand="x",
    tile=("BLOCK_O", "BLOCK_R"),
    dtypes={
        ("fp32", "fp16", "bf16"): (ROWS, SHORT_ROWS, COLUMNS),
        ("fp64", "i64"): DOUBLE,
        (*(d for d in INTEGERS if d != "i64"), "i1"): (ROWS,),
    },
    smaller=True,
    operations="n for each output",
    traffic="n_out (n itemsize of x + itemsize of out)",
    loads=("x",),
)
