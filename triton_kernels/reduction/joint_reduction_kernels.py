"""The program of reductions with several accumulators, and the functions that they combine with.

Accumulators are a tuple. A combining function takes those of both sides one by one, as `tl.reduce` calls it.
"""

from ...runtime.cuda.triton.lazy_triton import tl, triton
from ..budget import Configuration, declare
from ..conversion import convert
from ..elementwise.pointwise_functions import divide, exp, log
from .last_program import is_last
from .reduction_kernels import largest, offset_of, smallest, sum_of


@triton.jit
def both_extremes(a_low, a_high, b_low, b_high):
    return smallest(a_low, b_low), largest(a_high, b_high)


@triton.jit
def extremes_across(t):
    return tl.reduce((t[0], t[1]), 1, both_extremes)


@triton.jit
def finite(a):
    """Replace infinities and NaN by 0, to shift exponents by the result."""
    return tl.where(a - a == 0, a, tl.zeros_like(a))


@triton.jit
def shifted_sums(a, a_sum, b, b_sum):
    """Combine two pairs of a maximum and a sum of exponentials shifted by it (Milakov, Gimelshein, 2018)."""
    maximum = largest(a, b)
    shift = finite(maximum)
    return maximum, a_sum * exp(a - shift) + b_sum * exp(b - shift)


@triton.jit
def shifted_sums_across(t):
    return tl.reduce((t[0], t[1]), 1, shifted_sums)


@triton.jit
def total_across(t):
    return (tl.reduce(t[0], 1, sum_of),)


@triton.jit
def add_pairs(a, a_other, b, b_other):
    return a + b, a_other + b_other


@triton.jit
def pairs_across(t):
    return tl.reduce((t[0], t[1]), 1, add_pairs)


@triton.jit
def add_rounded(a, a_left, b, b_left):
    """Return the rounded sum and the accumulated rounding error (Knuth, TAOCP 2, 4.2.2, theorem B).

    The rounding error of an infinite sum is NaN and has no meaning.
    """
    total = a + b
    part = total - a
    return total, ((a - (total - part)) + (b - part)) + (a_left + b_left)


@triton.jit
def rounded_across(t):
    return tl.reduce((t[0], t[1]), 1, add_rounded)


@triton.jit
def unrounded(a, b):
    return a, tl.zeros_like(a)


@triton.jit
def both_parts(a, left):
    """Return a sum plus its rounding error; -0.0, infinities and NaN stay."""
    return tl.where((left == 0) | (a - a != 0), a, a + left)


@triton.jit
def as_one(t, number):
    """Return a sum and its rounding error as one wider number."""
    return (both_parts(t[0].to(tl.float64), t[1].to(tl.float64)),)


@triton.jit
def multiply_pairs(a, a_other, b, b_other):
    """Compute (a + i a') (b + i b')."""
    return a * b - a_other * b_other, a * b_other + a_other * b


@triton.jit
def products_of_pairs(t):
    return tl.reduce((t[0], t[1]), 1, multiply_pairs)


@triton.jit
def either(a, b):
    return a | b


@triton.jit
def any_across(t):
    return (tl.reduce(t[0], 1, either),)


@triton.jit
def both(a, b):
    return a & b


@triton.jit
def all_across(t):
    return (tl.reduce(t[0], 1, both),)


@triton.jit
def is_not_zero(a, b):
    return ((a != 0) | (b != 0),)


@triton.jit
def both_over_number(t, number):
    over = tl.full(t[0].shape, 0, t[0].dtype) + number.to(t[0].dtype)
    return divide(t[0], over), divide(t[1], over)


@triton.jit
def twice(a, b):
    return a, a


@triton.jit
def with_one(a, b):
    return a, tl.full(a.shape, 1, a.dtype)


@triton.jit
def alone(a, b):
    return (a,)


@triton.jit
def pair(a, b):
    return a, b


@triton.jit
def squared_gap(a, b):
    gap = a - b
    return (gap * gap,)


@triton.jit
def all_of(t, number):
    return t


@triton.jit
def log_of_sum(t, number):
    return (log(t[1]) + finite(t[0]),)


@triton.jit
def first_over_number(t, number):
    return (divide(t[0], tl.full(t[0].shape, 0, t[0].dtype) + number.to(t[0].dtype)),)


@triton.jit
def first_of(t, number):
    return (t[0],)


@triton.jit
def first_over_second(t, number):
    return divide(t[0], t[1]), t[1]


@triton.jit
def starting(
    ROW_TILE: tl.constexpr,
    COLUMN_TILE: tl.constexpr,
    ARITY: tl.constexpr,
    START0: tl.constexpr,
    START1: tl.constexpr,
    START2: tl.constexpr,
    TYPE0: tl.constexpr,
    TYPE1: tl.constexpr,
    TYPE2: tl.constexpr,
):
    """Return the accumulators' identity elements."""
    first = tl.full((ROW_TILE, COLUMN_TILE), START0, TYPE0)
    if ARITY == 1:
        return (first,)
    elif ARITY == 2:
        return first, tl.full((ROW_TILE, COLUMN_TILE), START1, TYPE1)
    else:
        return (
            first,
            tl.full((ROW_TILE, COLUMN_TILE), START1, TYPE1),
            tl.full((ROW_TILE, COLUMN_TILE), START2, TYPE2),
        )


@triton.jit
def combined(COMBINE: tl.constexpr, ARITY: tl.constexpr, a, b):
    if ARITY == 1:
        return (COMBINE(a[0], b[0]),)
    elif ARITY == 2:
        return COMBINE(a[0], a[1], b[0], b[1])
    else:
        return COMBINE(a[0], a[1], a[2], b[0], b[1], b[2])


@triton.jit
def where_each(ARITY: tl.constexpr, mask, a, b):
    if ARITY == 1:
        return (tl.where(mask, a[0], b[0]),)
    elif ARITY == 2:
        return tl.where(mask, a[0], b[0]), tl.where(mask, a[1], b[1])
    else:
        return tl.where(mask, a[0], b[0]), tl.where(mask, a[1], b[1]), tl.where(mask, a[2], b[2])


@triton.jit
def store_each(values, first, second, at, mask):
    """Store one value, or the first two."""
    tl.store(first + at, convert(values[0], first.dtype.element_ty), mask=mask)
    if second is not None:
        tl.store(second + at, convert(values[1], second.dtype.element_ty), mask=mask)


@triton.jit
def reduce_jointly(
    a,
    b,
    out0,
    out1,
    part0,
    part1,
    part2,
    counters,
    number,
    num_rows,
    n,
    chunk,
    part_stride,
    kept_size0,
    kept_size1,
    kept_size2,
    x_kept_stride0,
    x_kept_stride1,
    x_kept_stride2,
    x_kept_stride3,
    out_kept_stride0,
    out_kept_stride1,
    out_kept_stride2,
    out_kept_stride3,
    reduced_size0,
    reduced_size1,
    reduced_size2,
    x_reduced_stride0,
    x_reduced_stride1,
    x_reduced_stride2,
    x_reduced_stride3,
    y_reduced_stride0,
    y_reduced_stride1,
    y_reduced_stride2,
    y_reduced_stride3,
    COMBINE: tl.constexpr,
    ACROSS: tl.constexpr,
    ELEMENT: tl.constexpr,
    FINISH: tl.constexpr,
    ARITY: tl.constexpr,
    START0: tl.constexpr,
    START1: tl.constexpr,
    START2: tl.constexpr,
    TYPE0: tl.constexpr,
    TYPE1: tl.constexpr,
    TYPE2: tl.constexpr,
    LOADED: tl.constexpr,
    KEPT: tl.constexpr,
    REDUCED: tl.constexpr,
    INDEX: tl.constexpr,
    BLOCK_O: tl.constexpr,
    BLOCK_R: tl.constexpr,
    BLOCK_P: tl.constexpr,
):
    """Reduce lines of `a` and `b`. With `part0` accumulators are those of parts first, then of all, as in `reduce`."""
    o = tl.program_id(0).to(INDEX) * BLOCK_O + tl.arange(0, BLOCK_O).to(INDEX)
    part = tl.program_id(1).to(INDEX)
    row_mask = o < num_rows
    rows = offset_of(
        o,
        kept_size0,
        kept_size1,
        kept_size2,
        x_kept_stride0,
        x_kept_stride1,
        x_kept_stride2,
        x_kept_stride3,
        KEPT,
    )[:, None]
    total = starting(BLOCK_O, BLOCK_R, ARITY, START0, START1, START2, TYPE0, TYPE1, TYPE2)
    nothing = starting(1, 1, ARITY, START0, START1, START2, TYPE0, TYPE1, TYPE2)
    first = part * chunk
    last = tl.minimum(first + chunk, n)
    for base in range(first, last, BLOCK_R):
        r = base + tl.arange(0, BLOCK_R).to(INDEX)
        mask = row_mask[:, None] & (r < last)[None, :]
        at = (
            rows
            + offset_of(
                r,
                reduced_size0,
                reduced_size1,
                reduced_size2,
                x_reduced_stride0,
                x_reduced_stride1,
                x_reduced_stride2,
                x_reduced_stride3,
                REDUCED,
            )[None, :]
        )
        value = convert(tl.load(a + at, mask=mask, other=0), LOADED)
        if b is not None:
            at_b = (
                rows
                + offset_of(
                    r,
                    reduced_size0,
                    reduced_size1,
                    reduced_size2,
                    y_reduced_stride0,
                    y_reduced_stride1,
                    y_reduced_stride2,
                    y_reduced_stride3,
                    REDUCED,
                )[None, :]
            )
            second = convert(tl.load(b + at_b, mask=mask, other=0), LOADED)
        else:
            second = value
        value = ELEMENT(value, second)
        total = combined(COMBINE, ARITY, total, where_each(ARITY, mask, value, nothing))
    total = ACROSS(total)
    out_ptrs = offset_of(
        o,
        kept_size0,
        kept_size1,
        kept_size2,
        out_kept_stride0,
        out_kept_stride1,
        out_kept_stride2,
        out_kept_stride3,
        KEPT,
    )
    if part0 is None:
        store_each(FINISH(total, number), out0, out1, out_ptrs + part * part_stride, row_mask)
    else:
        own = o + part * part_stride
        store_each(total, part0, part1, own, row_mask)
        if part2 is not None:
            tl.store(part2 + own, convert(total[2], part2.dtype.element_ty), mask=row_mask)
        splits = tl.num_programs(1)
        if is_last(counters + tl.program_id(0), splits):
            together = starting(BLOCK_O, BLOCK_P, ARITY, START0, START1, START2, TYPE0, TYPE1, TYPE2)
            for base_part in range(0, splits, BLOCK_P):
                p = (base_part + tl.arange(0, BLOCK_P)).to(INDEX)[None, :]
                inside = row_mask[:, None] & (p < splits)
                from_part = o[:, None] + p * part_stride
                left = convert(tl.load(part0 + from_part, mask=inside, other=0), TYPE0)
                if ARITY == 1:
                    each = (left,)
                elif ARITY == 2:
                    each = (left, convert(tl.load(part1 + from_part, mask=inside, other=0), TYPE1))
                else:
                    middle = convert(tl.load(part1 + from_part, mask=inside, other=0), TYPE1)
                    each = (left, middle, convert(tl.load(part2 + from_part, mask=inside, other=0), TYPE2))
                together = combined(COMBINE, ARITY, together, where_each(ARITY, inside, each, nothing))
            store_each(FINISH(ACROSS(together), number), out0, out1, out_ptrs, row_mask)


ROW_TILE, FEW_ROWS, SHORT_ROWS, HALF_ROWS, COLUMN_TILE = (
    Configuration((1, 4096), 8),
    Configuration((1, 2048)),
    Configuration((32, 64)),
    Configuration((1, 2048), 8),
    Configuration((64, 32)),
)

declare(
    reduce_jointly,
    warps=16,
    why="16 warps: up to three accumulators for each of a lane's elements. They hide the latency of what combines "
    "them, divisions and exponentials, four warps for each scheduler; and a lane of the largest tile has 16 elements "
    "in flight, 32 KiB of float32 in all, as many as 32 warps of a kernel that only reads",
    operand="a",
    tile=("BLOCK_O", "BLOCK_R"),
    dtypes={
        ("fp32",): (ROW_TILE, COLUMN_TILE, FEW_ROWS),
        ("bf16", "fp16"): (ROW_TILE, FEW_ROWS),
        ("fp64",): (HALF_ROWS, Configuration((32, 32))),
        ("i64",): (HALF_ROWS,),
        ("i8",): (ROW_TILE, SHORT_ROWS),
        ("i1",): (ROW_TILE,),
    },
    smaller=True,
    operations="n for each output, times the combining function's",
    traffic="num_rows (n itemsize of each input + itemsize of each output)",
    loads=("a",),
    local={
        "shifted_sums": (
            8,
            "for a third block on sm_100 ptxas keeps to 80 registers, and puts by two words, one of them once a tile",
        )
    },
)
