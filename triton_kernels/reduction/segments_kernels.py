"""Kernels of segment reductions: a program for each segment and block of columns.

Data are [rows, size, inner]. A row's segments are given by their ends, or by all begins and the last end.
Sums and products accumulate in float64, whose additions a memory-bound kernel hides. They are in parts, each
of which takes every REDUCED-th element in order, so the result depends on the segment alone. Invalid bounds
raise a flag, and the kernel reads nothing outside of their row.
"""

from ...runtime.cuda.triton.lazy_triton import tl, triton
from ..budget import Configuration, declare
from ..conversion import convert
from ..folded_grid import place_in_grid

SUM, MEAN, MAX, MIN, PRODUCT = (tl.constexpr(i) for i in range(5))
NEGATIVE, UNEQUAL, DESCENDING = (tl.constexpr(i) for i in range(3))
"""Meaning of the flags: a length below 0, lengths that do not add up to the row, offsets that leave it or descend."""


@triton.jit
def segment_bounds(bounds, flag, row, within, count, size, FROM_ENDS: tl.constexpr):
    """Return the start and end of a segment, clamped to the row."""
    if FROM_ENDS:
        at = bounds + row * count + within
        end = tl.load(at).to(tl.int64)
        start = tl.load(at - 1, mask=within > 0, other=0).to(tl.int64)
        if flag is not None:
            tl.store(flag + NEGATIVE, 1, mask=end < start)
            tl.store(flag + UNEQUAL, 1, mask=(within == count - 1) & (end != size))
    else:
        at = bounds + row * (count + 1) + within
        start = tl.load(at).to(tl.int64)
        end = tl.load(at + 1).to(tl.int64)
        if flag is not None:
            tl.store(flag + DESCENDING, 1, mask=(start < 0) | (end > size) | (end < start))
    start = tl.minimum(tl.maximum(start, 0), size)
    return start, tl.maximum(tl.minimum(end, size), start)


@triton.jit
def reduce_segments(
    x,
    bounds,
    out,
    flag,
    initial,
    count,
    size,
    inner,
    KIND: tl.constexpr,
    COMBINE: tl.constexpr,
    ACROSS: tl.constexpr,
    NOTHING: tl.constexpr,
    TYPE: tl.constexpr,
    FROM_ENDS: tl.constexpr,
    INDEX: tl.constexpr,
    COLUMNS: tl.constexpr,
    REDUCED: tl.constexpr,
):
    segment, across = place_in_grid(tl.num_programs(0) // tl.cdiv(inner, COLUMNS))
    segment = segment.to(INDEX)
    row = segment // count
    start, end = segment_bounds(bounds, flag, row, segment - row * count, count, size, FROM_ENDS)
    length = end - start
    c = across.to(INDEX) * COLUMNS + tl.arange(0, COLUMNS)
    inside = c < inner
    total = tl.full((COLUMNS, REDUCED), NOTHING, TYPE)
    for base in range(start.to(INDEX), end.to(INDEX), REDUCED):
        at = base + tl.arange(0, REDUCED)
        mask = inside[:, None] & (at < end)[None, :]
        value = tl.load(x + ((row * size + at) * inner)[None, :] + c[:, None], mask=mask, other=0)
        total = COMBINE(total, tl.where(mask, convert(value, TYPE), tl.full((1, 1), NOTHING, TYPE)))
    result = ACROSS(total)
    if initial is not None:
        result = COMBINE(result, tl.zeros_like(result) + initial.to(TYPE))
    if KIND == MEAN:
        if initial is None:
            result = result / length.to(TYPE)
        else:
            result = result / tl.maximum(length, 1).to(TYPE)
    tl.store(out + segment * inner + c, convert(result, out.dtype.element_ty), mask=inside)


@triton.jit
def segments_backward(
    grad,
    output,
    x,
    bounds,
    out,
    initial,
    count,
    size,
    inner,
    KIND: tl.constexpr,
    SUMS: tl.constexpr,
    PRODUCTS: tl.constexpr,
    FROM_ENDS: tl.constexpr,
    INDEX: tl.constexpr,
    COLUMNS: tl.constexpr,
    REDUCED: tl.constexpr,
):
    """Compute the gradient of each element: tied extremes share it; in a product, it is multiplied by all other
    elements.

    A factor that is zero or NaN is not divided out: zeros and NaN are counted, and the others multiplied alone.
    """
    segment, across = place_in_grid(tl.num_programs(0) // tl.cdiv(inner, COLUMNS))
    segment = segment.to(INDEX)
    row = segment // count
    start, end = segment_bounds(bounds, None, row, segment - row * count, count, size, FROM_ENDS)
    c = across.to(INDEX) * COLUMNS + tl.arange(0, COLUMNS)
    inside = c < inner
    gradient = tl.load(grad + segment * inner + c, mask=inside, other=0).to(tl.float64)
    if KIND == MEAN:
        gradient = gradient / (end - start).to(tl.float64)
    zeros = tl.zeros((COLUMNS, REDUCED), tl.int32)
    nones = tl.zeros((COLUMNS, REDUCED), tl.int32)
    product = tl.full((COLUMNS, REDUCED), 1.0, tl.float64)
    if KIND >= MAX:
        if KIND == PRODUCT:
            extreme = gradient
        else:
            extreme = tl.load(output + segment * inner + c, mask=inside, other=0).to(tl.float64)
        for base in range(start.to(INDEX), end.to(INDEX), REDUCED):
            at = base + tl.arange(0, REDUCED)
            mask = inside[:, None] & (at < end)[None, :]
            value = tl.load(x + ((row * size + at) * inner)[None, :] + c[:, None], mask=mask, other=1)
            value = value.to(tl.float64)
            if KIND == PRODUCT:
                zeros += (mask & (value == 0)).to(tl.int32)
                nones += (mask & (value != value)).to(tl.int32)
                product *= tl.where(mask & (value != 0) & (value == value), value, 1.0)
            else:
                zeros += (mask & ((value == extreme[:, None]) | (value != value))).to(tl.int32)
    zero, none = SUMS(zeros)[:, None], SUMS(nones)[:, None]
    others = PRODUCTS(product)[:, None]
    if initial is not None:
        others = others * initial.to(tl.float64)
    if (KIND == MAX) | (KIND == MIN):
        gradient = gradient / tl.maximum(SUMS(zeros), 1).to(tl.float64)
    for base in range(start.to(INDEX), end.to(INDEX), REDUCED):
        at = base + tl.arange(0, REDUCED)
        mask = inside[:, None] & (at < end)[None, :]
        place = ((row * size + at) * inner)[None, :] + c[:, None]
        if KIND < MAX:
            found = tl.broadcast_to(gradient[:, None], (COLUMNS, REDUCED))
        else:
            value = tl.load(x + place, mask=mask, other=1).to(tl.float64)
            none_here = value != value
            if KIND == PRODUCT:
                plain = (value != 0) & (none_here == 0)
                rest = others / tl.where(plain, value, 1.0)
                rest = tl.where(zero - (value == 0).to(tl.int32) > 0, rest * 0.0, rest)
                rest = tl.where(none - none_here.to(tl.int32) > 0, float("nan"), rest)
                found = gradient[:, None] * rest
            else:
                found = tl.where((value == extreme[:, None]) | none_here, gradient[:, None], 0.0)
        tl.store(
            out + place,
            convert(
                found.to(tl.float32) if out.dtype.element_ty != tl.float64 else found, out.dtype.element_ty
            ),
            mask=mask,
        )


FLOATS = ("fp32", "fp16", "bf16", "fp64")
LINES, BLOCKS = Configuration((1, 512)), Configuration((64, 8))

declare(
    reduce_segments,
    why="32 warps: 512 elements are in flight in a block, and other blocks run while it waits for its bounds",
    operand="x",
    tile=("COLUMNS", "REDUCED"),
    dtypes=FLOATS,
    configurations=(LINES, BLOCKS),
    smaller=True,
    operations="rows size inner",
    traffic="rows (size + count) inner itemsize and rows count 8",
)
declare(
    segments_backward,
    warps=24,
    why="24 warps: counts of two kinds and a product of float64 live through the first loop, four for each lane",
    operand="x",
    tile=("COLUMNS", "REDUCED"),
    dtypes=FLOATS,
    configurations=(LINES, BLOCKS),
    smaller=True,
    operations="rows size inner, eight times as many of products",
    traffic="rows (2 size + 2 count) inner itemsize, and rows size inner itemsize more where x is read",
)
