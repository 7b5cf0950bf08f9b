"""Kernel of means and sums of squared deviations; the last program merges the parts of split lines.

Each lane updates its mean and squares by every element (Welford, "Note on a method for calculating corrected
sums of squares and products", 1962). All lanes have the same count, so one division serves a whole tile.
Lanes are merged in two passes over their means, the second of which corrects the rounding of the mean (Chan,
Golub, LeVeque, "Algorithms for computing the sample variance: analysis and recommendations", 1983).
"""

from ...runtime.cuda.triton.lazy_triton import tl, triton
from ..budget import Configuration, declare
from ..conversion import convert
from ..elementwise.pointwise_functions import divide, sqrt
from .joint_reduction_kernels import finite, pairs_across
from .last_program import is_last
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
def store_moments(
    out,
    mean_out,
    squares,
    mean,
    number,
    num_rows,
    kept_size0,
    kept_size1,
    kept_size2,
    out_kept_stride0,
    out_kept_stride1,
    out_kept_stride2,
    out_kept_stride3,
    ROOT: tl.constexpr,
    KEPT: tl.constexpr,
    INDEX: tl.constexpr,
    PAIRS: tl.constexpr,
    BLOCK_O: tl.constexpr,
):
    """Store a program's results; of PAIRS, the parts of complex numbers, the sum of their variances."""
    o = tl.program_id(0).to(INDEX) * BLOCK_O + tl.arange(0, BLOCK_O).to(INDEX)
    out_offset = offset_of(
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
    if PAIRS:
        first = tl.program_id(0).to(INDEX) * BLOCK_O + 2 * tl.arange(0, BLOCK_O // 2).to(INDEX)
        at = offset_of(
            first,
            kept_size0,
            kept_size1,
            kept_size2,
            out_kept_stride0,
            out_kept_stride1,
            out_kept_stride2,
            out_kept_stride3,
            KEPT,
        )
        both = sum_across(tl.reshape(spread(squares, number, False), (BLOCK_O // 2, 2)))
        tl.store(out + at, convert(sqrt(both) if ROOT else both, out.dtype.element_ty), mask=first < num_rows)
        out_offset = 2 * out_offset + o % 2
    else:
        tl.store(
            out + out_offset, convert(spread(squares, number, ROOT), out.dtype.element_ty), mask=o < num_rows
        )
    if mean_out is not None:
        tl.store(mean_out + out_offset, convert(mean, mean_out.dtype.element_ty), mask=o < num_rows)


@triton.jit
def united(
    part_mean,
    part_squares,
    o,
    row_mask,
    n,
    chunk,
    part_stride,
    INDEX: tl.constexpr,
    BLOCK_O: tl.constexpr,
    BLOCK_P: tl.constexpr,
):
    """Squares and means of whole lines from those of their parts, which are [parts, outputs], all in float64."""
    parts = tl.num_programs(1)
    lane = tl.arange(0, BLOCK_P)
    sums = tl.zeros((BLOCK_O, BLOCK_P), tl.float64)
    for base in range(0, parts, BLOCK_P):
        p = (base + lane).to(INDEX)[None, :]
        inside = row_mask[:, None] & (p < parts)
        count = tl.minimum(n - p * chunk, chunk).to(tl.float64)
        value = tl.load(part_mean + (o[:, None] + p * part_stride), mask=inside, other=0)
        sums += tl.where(inside, value * count, 0.0)
    size = tl.zeros((1,), tl.float64) + n.to(tl.float64)
    middle = sum_across(sums) / size
    left = tl.zeros((BLOCK_O, BLOCK_P), tl.float64)
    about = tl.zeros((BLOCK_O, BLOCK_P), tl.float64)
    for base in range(0, parts, BLOCK_P):
        p = (base + lane).to(INDEX)[None, :]
        inside = row_mask[:, None] & (p < parts)
        count = tl.minimum(n - p * chunk, chunk).to(tl.float64)
        gap = tl.load(part_mean + (o[:, None] + p * part_stride), mask=inside, other=0) - middle[:, None]
        own = tl.load(part_squares + (o[:, None] + p * part_stride), mask=inside, other=0)
        left += tl.where(inside, count * gap, 0.0)
        about += tl.where(inside, own + count * gap * gap, 0.0)
    left, about = pairs_across((left, about))
    return about - left * (left / size), middle


@triton.jit
def reduce_moments(
    x,
    out,
    mean_out,
    part_mean,
    part_squares,
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
    ROOT: tl.constexpr,
    PAIRS: tl.constexpr,
    SINGLE: tl.constexpr,
    TYPE: tl.constexpr,
    KEPT: tl.constexpr,
    REDUCED: tl.constexpr,
    INDEX: tl.constexpr,
    VECTOR: tl.constexpr,
    BLOCK_O: tl.constexpr,
    BLOCK_R: tl.constexpr,
    BLOCK_P: tl.constexpr,
):
    """Compute the variance and mean of each line; with `part_mean`, of each part first, as in `reduce`.

    Elements are taken relative to the program's first element, so that the mean's rounding does not lose small
    deviations of large numbers. SINGLE tiles hold whole lines: each element is its own mean. With VECTOR, the
    reduced elements are contiguous runs, as in `reduce`.
    """
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
    )
    first = part * chunk
    last = tl.minimum(first + chunk, n)
    WITH_MEAN: tl.constexpr = mean_out is not None or part_mean is not None
    pivot = tl.zeros((BLOCK_O,), TYPE)
    if not SINGLE:
        at_first = rows + offset_of(
            first,
            reduced_size0,
            reduced_size1,
            reduced_size2,
            x_reduced_stride0,
            x_reduced_stride1,
            x_reduced_stride2,
            x_reduced_stride3,
            REDUCED,
        )
        pivot = finite(convert(tl.load(x + at_first, mask=row_mask & (first < last), other=0), TYPE))
    mean = tl.zeros((BLOCK_O, BLOCK_R), TYPE)
    squares = tl.zeros((BLOCK_O, BLOCK_R), TYPE)
    total = tl.zeros((BLOCK_O, BLOCK_R), TYPE)
    one = tl.full((1,), 1, TYPE)
    seen = tl.zeros((1,), TYPE)
    lane = tl.arange(0, BLOCK_R).to(INDEX)[None, :]
    size = tl.zeros((1,), TYPE) + (last - first).to(TYPE)
    if VECTOR > 0:
        begin, at, at_edge = edge_positions(rows + first, rows + last, VECTOR, INDEX)
        at_edge = at_edge & row_mask[:, None]
        edge = convert(tl.load(x + at, mask=at_edge, other=0), TYPE) - pivot[:, None]
        edge = tl.where(at_edge, edge, tl.zeros_like(edge))
        room = tl.where(row_mask, rows + last - begin, 0)[:, None]
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
            if WITH_MEAN:
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
            mask = row_mask[:, None] & (lane < last)
            at = rows[:, None] + offset_of(
                lane,
                reduced_size0,
                reduced_size1,
                reduced_size2,
                x_reduced_stride0,
                x_reduced_stride1,
                x_reduced_stride2,
                x_reduced_stride3,
                REDUCED,
            )
            mean = convert(tl.load(x + at, mask=mask, other=0), TYPE)
            mean = tl.where(mask, mean, tl.zeros_like(mean))
            total = mean
        for base in range(first, whole, BLOCK_R):
            seen += one
            share = divide(one, seen)
            at = rows[:, None] + offset_of(
                base + lane,
                reduced_size0,
                reduced_size1,
                reduced_size2,
                x_reduced_stride0,
                x_reduced_stride1,
                x_reduced_stride2,
                x_reduced_stride3,
                REDUCED,
            )
            value = convert(tl.load(x + at, mask=row_mask[:, None], other=0), TYPE) - pivot[:, None]
            gap = value - mean
            mean = tl.fma(gap, tl.broadcast_to(share[:, None], gap.shape), mean)
            squares = tl.fma(gap, value - mean, squares)
            if WITH_MEAN:
                total += value
        if (whole < last) & (not SINGLE):
            share = divide(one, seen + one)
            mask = row_mask[:, None] & (whole + lane < last)
            at = rows[:, None] + offset_of(
                whole + lane,
                reduced_size0,
                reduced_size1,
                reduced_size2,
                x_reduced_stride0,
                x_reduced_stride1,
                x_reduced_stride2,
                x_reduced_stride3,
                REDUCED,
            )
            value = convert(tl.load(x + at, mask=mask, other=0), TYPE) - pivot[:, None]
            gap = value - mean
            mean = tl.where(mask, tl.fma(gap, tl.broadcast_to(share[:, None], gap.shape), mean), mean)
            squares = tl.where(mask, tl.fma(gap, value - mean, squares), squares)
            if WITH_MEAN:
                total = tl.where(mask, total + value, total)
        counts = tl.broadcast_to(seen[:, None] + (whole + lane < last).to(TYPE), (BLOCK_O, BLOCK_R))
        middle = divide(sum_across(counts * mean), size)
        left, about = merged(mean, squares, counts, middle)
    rest = divide(left, size)
    about -= left * rest
    middle += rest
    if WITH_MEAN:
        # What is infinite has no deviations, but a mean.
        whole_sum = sum_across(total)
        if VECTOR > 0:
            whole_sum += sum_across(edge)
        middle = tl.where(middle - middle == 0, middle, divide(whole_sum, size))
    middle = middle.to(tl.float64) + pivot.to(tl.float64)
    if part_mean is None:
        store_moments(
            out, mean_out, about, middle, number, num_rows, kept_size0, kept_size1, kept_size2,
            out_kept_stride0, out_kept_stride1, out_kept_stride2, out_kept_stride3,
            ROOT, KEPT, INDEX, PAIRS, BLOCK_O,
        )  # fmt: skip
    else:
        own = o + part * part_stride
        tl.store(part_squares + own, about.to(tl.float64), mask=row_mask)
        tl.store(part_mean + own, middle, mask=row_mask)
        if is_last(counters + tl.program_id(0), tl.num_programs(1)):
            about_all, mean_of_all = united(
                part_mean, part_squares, o, row_mask, n, chunk, part_stride, INDEX, BLOCK_O, BLOCK_P
            )
            store_moments(
                out, mean_out, about_all, mean_of_all, number, num_rows, kept_size0, kept_size1, kept_size2,
                out_kept_stride0, out_kept_stride1, out_kept_stride2, out_kept_stride3,
                ROOT, KEPT, INDEX, PAIRS, BLOCK_O,
            )  # fmt: skip


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
    traffic="num_rows (n itemsize of x + itemsize of each output)",
    loads=("x",),
)
