"""The programs of means and sums of squared deviations: one over elements, one over what its parts left.

Each lane updates its mean and squares by every element (Welford, "Note on a method for calculating corrected sums of
squares and products", 1962). All lanes have seen as many, so that one division serves a whole tile. Lanes are merged
in two passes over their means, the second of which subtracts what the rounded mean left over (Chan, Golub, LeVeque,
"Algorithms for computing the sample variance: analysis and recommendations", 1983).
"""

from ...runtime.cuda.triton.lazy_triton import tl, triton
from ..budget import Configuration, declare
from ..conversion import convert
from ..elementwise.pointwise_functions import divide, sqrt
from .joint_reduction_kernels import finite, pairs_across
from .reduction_kernels import edge_positions, offset_of, sum_across


@triton.jit
def merged(means, squares, counts, mean):
    """Squares about `mean`, and the counted deviations from it, of groups [outputs, groups]."""
    gap = tl.where(counts == 0, 0.0, means - mean[:, None]).to(means.dtype)
    return pairs_across((counts * gap, squares + counts * gap * gap))


@triton.jit
def spread(squares, number, ROOT: tl.constexpr):
    """Squares over degrees of freedom, or the root of that."""
    # Rounding may leave less than nothing of equal numbers; NaN stays.
    squares = tl.where(squares < 0, tl.zeros_like(squares), squares)
    result = divide(squares, tl.zeros_like(squares) + number.to(squares.dtype))
    return sqrt(result) if ROOT else result


@triton.jit
def root_of(a, count):
    return sqrt(a)


@triton.jit
def reduce_moments(
    x,
    out,
    mean_out,
    number,
    n_out,
    n,
    chunk,
    part_stride,
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
    ROOT: tl.constexpr,
    PARTLY: tl.constexpr,
    SINGLE: tl.constexpr,
    TYPE: tl.constexpr,
    KEPT: tl.constexpr,
    REDUCED: tl.constexpr,
    INDEX: tl.constexpr,
    VECTOR: tl.constexpr,
    BLOCK_O: tl.constexpr,
    BLOCK_R: tl.constexpr,
):
    """The spread and the mean of each line; PARTLY the squares and the mean of each part of it.

    Elements are taken relative to the program's first one, so that the deviations of numbers far from zero are not
    lost in their mean's rounding. SINGLE tiles hold whole lines: elements are their own means. With VECTOR the
    reduced elements are runs of memory, as `reduce` has them.
    """
    o = tl.program_id(0).to(INDEX) * BLOCK_O + tl.arange(0, BLOCK_O).to(INDEX)
    part = tl.program_id(1).to(INDEX)
    wanted = o < n_out
    rows = offset_of(o, k0, k1, k2, xk0, xk1, xk2, xk3, KEPT)
    first = part * chunk
    last = tl.minimum(first + chunk, n)
    pivot = tl.zeros((BLOCK_O,), TYPE)
    if not SINGLE:
        at_first = rows + offset_of(first, r0, r1, r2, xr0, xr1, xr2, xr3, REDUCED)
        pivot = finite(convert(tl.load(x + at_first, mask=wanted & (first < last), other=0), TYPE))
    mean = tl.zeros((BLOCK_O, BLOCK_R), TYPE)
    squares = tl.zeros((BLOCK_O, BLOCK_R), TYPE)
    total = tl.zeros((BLOCK_O, BLOCK_R), TYPE)
    one = tl.full((1,), 1, TYPE)
    seen = tl.zeros((1,), TYPE)
    lane = tl.arange(0, BLOCK_R).to(INDEX)[None, :]
    size = tl.zeros((1,), TYPE) + (last - first).to(TYPE)
    if VECTOR > 0:
        begin, at, at_edge = edge_positions(rows + first, rows + last, VECTOR, INDEX)
        at_edge = at_edge & wanted[:, None]
        edge = convert(tl.load(x + at, mask=at_edge, other=0), TYPE) - pivot[:, None]
        edge = tl.where(at_edge, edge, tl.zeros_like(edge))
        room = tl.where(wanted, rows + last - begin, 0)[:, None]
        needed = lane // VECTOR * VECTOR + VECTOR
        if SINGLE:
            mask = needed <= room
            mean = convert(tl.load(x + (begin[:, None] + lane), mask=mask, other=0), TYPE)
            mean = tl.where(mask, mean, tl.zeros_like(mean))
            total = mean
        for base in range(0, 0 if SINGLE else last - first, BLOCK_R):
            seen += one
            share = divide(one, seen)
            mask = needed <= room - base
            value = convert(tl.load(x + (begin[:, None] + (base + lane)), mask=mask, other=0), TYPE)
            value -= pivot[:, None]
            gap = value - mean
            mean = tl.where(mask, tl.fma(gap, tl.broadcast_to(share[:, None], gap.shape), mean), mean)
            squares = tl.where(mask, tl.fma(gap, value - mean, squares), squares)
            if mean_out is not None:
                total = tl.where(mask, total + value, total)
        counts = tl.where(needed <= room, (room - needed) // BLOCK_R + 1, 0).to(TYPE)
        middle = divide(sum_across(counts * mean) + sum_across(edge), size)
        left, about = merged(mean, squares, counts, middle)
        edge_left, edge_about = merged(edge, tl.zeros_like(edge), at_edge.to(TYPE), middle)
        left += edge_left
        about += edge_about
    else:
        whole = first + (last - first) // BLOCK_R * BLOCK_R
        if SINGLE:
            whole = first
            mask = wanted[:, None] & (lane < last)
            at = rows[:, None] + offset_of(lane, r0, r1, r2, xr0, xr1, xr2, xr3, REDUCED)
            mean = convert(tl.load(x + at, mask=mask, other=0), TYPE)
            mean = tl.where(mask, mean, tl.zeros_like(mean))
            total = mean
        for base in range(first, whole, BLOCK_R):
            seen += one
            share = divide(one, seen)
            at = rows[:, None] + offset_of(base + lane, r0, r1, r2, xr0, xr1, xr2, xr3, REDUCED)
            value = convert(tl.load(x + at, mask=wanted[:, None], other=0), TYPE) - pivot[:, None]
            gap = value - mean
            mean = tl.fma(gap, tl.broadcast_to(share[:, None], gap.shape), mean)
            squares = tl.fma(gap, value - mean, squares)
            if mean_out is not None:
                total += value
        if (whole < last) & (not SINGLE):
            share = divide(one, seen + one)
            mask = wanted[:, None] & (whole + lane < last)
            at = rows[:, None] + offset_of(whole + lane, r0, r1, r2, xr0, xr1, xr2, xr3, REDUCED)
            value = convert(tl.load(x + at, mask=mask, other=0), TYPE) - pivot[:, None]
            gap = value - mean
            mean = tl.where(mask, tl.fma(gap, tl.broadcast_to(share[:, None], gap.shape), mean), mean)
            squares = tl.where(mask, tl.fma(gap, value - mean, squares), squares)
            if mean_out is not None:
                total = tl.where(mask, total + value, total)
        counts = tl.broadcast_to(seen[:, None] + (whole + lane < last).to(TYPE), (BLOCK_O, BLOCK_R))
        middle = divide(sum_across(counts * mean), size)
        left, about = merged(mean, squares, counts, middle)
    rest = divide(left, size)
    about -= left * rest
    to = offset_of(o, k0, k1, k2, ok0, ok1, ok2, ok3, KEPT) + part * part_stride
    result = about if PARTLY else spread(about, number, ROOT)
    tl.store(out + to, convert(result, out.dtype.element_ty), mask=wanted)
    if mean_out is not None:
        middle += rest
        # What is infinite has no deviations, but a mean.
        whole_sum = sum_across(total)
        if VECTOR > 0:
            whole_sum += sum_across(edge)
        middle = tl.where(middle - middle == 0, middle, divide(whole_sum, size))
        middle = middle.to(tl.float64) + pivot.to(tl.float64)
        tl.store(mean_out + to, convert(middle, mean_out.dtype.element_ty), mask=wanted)


@triton.jit
def merge_moments(
    mean,
    squares,
    out,
    mean_out,
    number,
    n_out,
    splits,
    chunk,
    count,
    k0,
    k1,
    k2,
    ok0,
    ok1,
    ok2,
    ok3,
    ROOT: tl.constexpr,
    KEPT: tl.constexpr,
    INDEX: tl.constexpr,
    BLOCK_O: tl.constexpr,
    BLOCK_R: tl.constexpr,
):
    """The spread and the mean of lines of `count` elements from their parts', which are [splits, n_out]."""
    o = tl.program_id(0).to(INDEX) * BLOCK_O + tl.arange(0, BLOCK_O).to(INDEX)
    wanted = o < n_out
    sums = tl.zeros((BLOCK_O, BLOCK_R), tl.float64)
    for base in range(0, splits, BLOCK_R):
        r = base + tl.arange(0, BLOCK_R).to(INDEX)[None, :]
        mask = wanted[:, None] & (r < splits)
        share = tl.minimum(count - r * chunk, chunk).to(tl.float64)
        value = tl.load(mean + (r * n_out + o[:, None]), mask=mask, other=0)
        sums += tl.where(mask, value * share, 0.0)
    size = tl.zeros((1,), tl.float64) + count.to(tl.float64)
    middle = sum_across(sums) / size
    left = tl.zeros((BLOCK_O, BLOCK_R), tl.float64)
    about = tl.zeros((BLOCK_O, BLOCK_R), tl.float64)
    for base in range(0, splits, BLOCK_R):
        r = base + tl.arange(0, BLOCK_R).to(INDEX)[None, :]
        mask = wanted[:, None] & (r < splits)
        share = tl.minimum(count - r * chunk, chunk).to(tl.float64)
        gap = tl.load(mean + (r * n_out + o[:, None]), mask=mask, other=0) - middle[:, None]
        own = tl.load(squares + (r * n_out + o[:, None]), mask=mask, other=0)
        left += tl.where(mask, share * gap, 0.0)
        about += tl.where(mask, own + share * gap * gap, 0.0)
    left, about = pairs_across((left, about))
    to = offset_of(o, k0, k1, k2, ok0, ok1, ok2, ok3, KEPT)
    result = spread(about - left * (left / size), number, ROOT)
    tl.store(out + to, convert(result, out.dtype.element_ty), mask=wanted)
    if mean_out is not None:
        tl.store(mean_out + to, convert(middle, mean_out.dtype.element_ty), mask=wanted)


declare(
    reduce_moments,
    warps=16,
    why="16 warps: a lane holds the mean and the squares of 16 elements, and their sum, beside the 64 bytes that it "
    "loads: 32 KiB of float32 in flight, as many as 32 warps of a kernel that only reads",
    operand="x",
    tile=("BLOCK_O", "BLOCK_R"),
    dtypes={
        ("fp32", "fp16", "bf16"): (
            Configuration((1, 4096), 8),
            Configuration((64, 32)),
            Configuration((1, 2048)),
        ),
        ("fp64",): (Configuration((1, 2048), 8), Configuration((16, 32))),
    },
    smaller=True,
    operations="5 n for each output",
    traffic="n_out (n itemsize of x + itemsize of each output)",
    loads=("x",),
)
declare(
    merge_moments,
    warps=4,
    why="a few programs over a thousandth of what the first pass read",
    tile=("BLOCK_O", "BLOCK_R"),
    dtypes=("fp32", "fp64", "fp16", "bf16"),
    configurations=(Configuration((32, 32)),),
    smaller=True,
    operations="5 splits for each output",
    traffic="16 n_out splits",
)
