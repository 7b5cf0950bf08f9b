"""Kernels of batch_norm and group_norm: statistics of the lines of one channel, and the normalization.

A line is a channel of a sample, or a group of them, if positions are the inner dimension, and a channel of
all samples if channels are. Blocks are [lines, positions], one of whose strides is 1. Deviations are relative
to the mean of the first block that a program reads. Its distance to the line's own mean is at most the
deviation times the root of the number of blocks, which bounds the cancellation of the correction. Parts are
combined as by Chan, Golub and LeVeque (1979).
"""

from ...runtime.cuda.triton.lazy_triton import tl, triton
from ..budget import Configuration, declare
from ..conversion import convert
from ..elementwise.pointwise_functions import divide, rsqrt
from ..folded_grid import place_in_grid
from ..reduction.joint_reduction_kernels import finite
from ..reduction.reduction_kernels import sum_across
from .row_norm_kernels import not_negative


@triton.jit
def moments(a, a_squares, a_count, b, b_squares, b_count):
    """Mean, sum of squared deviations and count (Chan, Golub, LeVeque, 1979).

    The part with more elements comes first, so that the result is the same to the bit either way round: two threads
    that exchange their parts both store it.
    """
    swapped = (b_count > a_count) | ((b_count == a_count) & (b > a))
    base, other = tl.where(swapped, b, a), tl.where(swapped, a, b)
    most, least = tl.maximum(a_count, b_count), tl.minimum(a_count, b_count)
    count = a_count + b_count
    share = divide(least, tl.where(count == 0, 1.0, count).to(a.dtype))
    gap = other - base
    mean = base + gap * share
    squares = a_squares + b_squares + gap * gap * (most * share)
    # An infinite mean stays one, and lanes that saw nothing change nothing.
    mean = tl.where(gap - gap == 0, mean, a + b)
    mean = tl.where(least == 0, base, mean)
    squares = tl.where(least == 0, tl.where(swapped, b_squares, a_squares), squares)
    return mean, squares, count


@triton.jit
def moments_across(t):
    return tl.reduce((t[0], t[1], t[2]), 1, moments)


@triton.jit
def channel_moments(
    x,
    means,
    squares,
    lines,
    n,
    chunk,
    x_line,
    x_step,
    splits,
    ACCUMULATOR: tl.constexpr,
    INDEX: tl.constexpr,
    BLOCK_O: tl.constexpr,
    BLOCK_R: tl.constexpr,
):
    """Compute the mean and the sum of squared deviations of each part of each line, as [lines, splits]."""
    o = tl.program_id(0).to(INDEX) * BLOCK_O + tl.arange(0, BLOCK_O).to(INDEX)
    row_mask = o < lines
    r = tl.arange(0, BLOCK_R).to(INDEX)[None, :]
    start = x + (o * x_line)[:, None]
    part = tl.program_id(1).to(INDEX)
    first = part * chunk
    last = tl.minimum(first + chunk, n)
    mask = row_mask[:, None] & (first + r < last)
    value = convert(tl.load(start + (first + r) * x_step, mask=mask, other=0), ACCUMULATOR)
    count = tl.full((BLOCK_O,), 0, ACCUMULATOR) + tl.minimum(last - first, BLOCK_R).to(ACCUMULATOR)
    pivot = finite(divide(sum_across(value), count))[:, None]
    sums = tl.full((BLOCK_O, BLOCK_R), 0, ACCUMULATOR)
    square_sums = tl.full((BLOCK_O, BLOCK_R), 0, ACCUMULATOR)
    for base in range(first, last, BLOCK_R):
        at = base + r
        mask = row_mask[:, None] & (at < last)
        value = convert(tl.load(start + at * x_step, mask=mask, other=0), ACCUMULATOR)
        value = tl.where(mask, value - pivot, 0)
        sums += value
        square_sums += value * value
    count = tl.full((BLOCK_O,), 0, ACCUMULATOR) + (last - first).to(ACCUMULATOR)
    total = sum_across(sums)
    shift = divide(total, count)
    mean = tl.sum(pivot, 1) + shift
    spread = not_negative(sum_across(square_sums) - total * shift)
    tl.store(means + o * splits + part, mean, mask=row_mask)
    tl.store(squares + o * splits + part, spread, mask=row_mask)


@triton.jit
def updated(running, at, new, momentum, row_mask, ACCUMULATOR: tl.constexpr):
    """Update running statistics."""
    old = convert(tl.load(running + at, mask=row_mask, other=0), ACCUMULATOR)
    return convert(new * momentum + old * (1 - momentum), running.dtype.element_ty)


@triton.jit
def combine_moments(
    means,
    squares,
    mean,
    rstd,
    kept_mean,
    kept_rstd,
    running_mean,
    running_var,
    statistics,
    parts,
    splits,
    n,
    chunk,
    statistic_step,
    outer_step,
    momentum,
    eps,
    of_constant,
    ACCUMULATOR: tl.constexpr,
    INDEX: tl.constexpr,
    BLOCK_O: tl.constexpr,
    BLOCK_R: tl.constexpr,
):
    """Combine the parts of each statistic into mean and reciprocal deviation; update the running statistics.

    `of_constant` is the reciprocal deviation of a zero variance to which `eps` adds nothing. `kept_mean` and
    `kept_rstd` are the operator's results if those have another dtype, or None.
    """
    s = tl.program_id(0).to(INDEX) * BLOCK_O + tl.arange(0, BLOCK_O).to(INDEX)
    row_mask = s < statistics
    p = tl.arange(0, BLOCK_R).to(INDEX)[None, :]
    a = tl.full((BLOCK_O, BLOCK_R), 0, ACCUMULATOR)
    b = tl.full((BLOCK_O, BLOCK_R), 0, ACCUMULATOR)
    c = tl.full((BLOCK_O, BLOCK_R), 0, ACCUMULATOR)
    for base in range(0, parts, BLOCK_R):
        at = base + p
        mask = row_mask[:, None] & (at < parts)
        split = at % splits
        where = (s * statistic_step)[:, None] + (at // splits) * outer_step + split
        count = tl.minimum(n - split * chunk, chunk).to(ACCUMULATOR)
        count = tl.where(mask, count, 0)
        value = tl.load(means + where, mask=mask, other=0)
        a, b, c = moments(a, b, c, value, tl.load(squares + where, mask=mask, other=0), count)
    centre, spread, count = moments_across((a, b, c))
    variance = divide(spread, count)
    widened = variance + eps.to(ACCUMULATOR)
    factor = tl.where(widened == 0, of_constant.to(ACCUMULATOR), rsqrt(widened))
    tl.store(mean + s, centre, mask=row_mask)
    tl.store(rstd + s, factor, mask=row_mask)
    if kept_mean is not None:
        tl.store(kept_mean + s, convert(centre, kept_mean.dtype.element_ty), mask=row_mask)
        tl.store(kept_rstd + s, convert(factor, kept_rstd.dtype.element_ty), mask=row_mask)
    if running_mean is not None:
        share = momentum.to(ACCUMULATOR)
        new_mean = updated(running_mean, s, centre, share, row_mask, ACCUMULATOR)
        tl.store(running_mean + s, new_mean, mask=row_mask)
        new_var = updated(running_var, s, divide(spread, count - 1), share, row_mask, ACCUMULATOR)
        tl.store(running_var + s, new_var, mask=row_mask)


@triton.jit
def of_line(values, at, row_mask, ACCUMULATOR: tl.constexpr):
    return convert(tl.load(values + at, mask=row_mask, other=0), ACCUMULATOR)


@triton.jit
def reciprocal_deviation(spread, at, row_mask, eps, VARIANCE: tl.constexpr, ACCUMULATOR: tl.constexpr):
    """Return the value in `spread`, or, if it is a VARIANCE, the reciprocal deviation of it."""
    value = of_line(spread, at, row_mask, ACCUMULATOR)
    if VARIANCE:
        value = rsqrt(value + eps.to(ACCUMULATOR))
    return value


@triton.jit
def normalise_channels(
    x,
    out,
    mean,
    spread,
    weight,
    bias,
    lines,
    n,
    channels,
    each,
    statistics,
    line,
    step,
    eps,
    VARIANCE: tl.constexpr,
    ACCUMULATOR: tl.constexpr,
    INDEX: tl.constexpr,
    BLOCK_O: tl.constexpr,
    BLOCK_R: tl.constexpr,
):
    """(x - mean) * rstd * weight + bias.

    A line's statistic is ``line // each % statistics``, its channel ``line % channels``.
    """
    down, along = place_in_grid(tl.cdiv(lines, BLOCK_O))
    o = down.to(INDEX) * BLOCK_O + tl.arange(0, BLOCK_O).to(INDEX)
    row_mask = o < lines
    at = o // each % statistics
    centre = of_line(mean, at, row_mask, ACCUMULATOR)[:, None]
    factor = reciprocal_deviation(spread, at, row_mask, eps, VARIANCE, ACCUMULATOR)
    if weight is not None:
        factor = factor * of_line(weight, o % channels, row_mask, ACCUMULATOR)
    r = along.to(INDEX) * BLOCK_R + tl.arange(0, BLOCK_R).to(INDEX)
    mask = row_mask[:, None] & (r < n)[None, :]
    place = (o * line)[:, None] + (r * step)[None, :]
    value = convert(tl.load(x + place, mask=mask, other=0), ACCUMULATOR)
    result = (value - centre) * factor[:, None]
    if bias is not None:
        result = result + of_line(bias, o % channels, row_mask, ACCUMULATOR)[:, None]
    tl.store(out + place, convert(result, out.dtype.element_ty), mask=mask)


@triton.jit
def channel_gradient_sums(
    grad,
    x,
    mean,
    spread,
    plain,
    scaled,
    lines,
    n,
    chunk,
    each,
    statistics,
    line,
    step,
    splits,
    eps,
    VARIANCE: tl.constexpr,
    ACCUMULATOR: tl.constexpr,
    INDEX: tl.constexpr,
    BLOCK_O: tl.constexpr,
    BLOCK_R: tl.constexpr,
):
    """Sum the gradient, and the gradient times the normalized input, over each part of each line: [lines, splits]."""
    o = tl.program_id(0).to(INDEX) * BLOCK_O + tl.arange(0, BLOCK_O).to(INDEX)
    row_mask = o < lines
    at = o // each % statistics
    centre = of_line(mean, at, row_mask, ACCUMULATOR)[:, None]
    r = tl.arange(0, BLOCK_R).to(INDEX)[None, :]
    part = tl.program_id(1).to(INDEX)
    first = part * chunk
    last = tl.minimum(first + chunk, n)
    sums = tl.full((BLOCK_O, BLOCK_R), 0, ACCUMULATOR)
    products = tl.full((BLOCK_O, BLOCK_R), 0, ACCUMULATOR)
    for base in range(first, last, BLOCK_R):
        mask = row_mask[:, None] & (base + r < last)
        place = (o * line)[:, None] + (base + r) * step
        grad_value = convert(tl.load(grad + place, mask=mask, other=0), ACCUMULATOR)
        value = convert(tl.load(x + place, mask=mask, other=0), ACCUMULATOR)
        sums += grad_value
        products += tl.where(mask, grad_value * (value - centre), 0)
    factor = reciprocal_deviation(spread, at, row_mask, eps, VARIANCE, ACCUMULATOR)
    tl.store(plain + o * splits + part, sum_across(sums), mask=row_mask)
    tl.store(scaled + o * splits + part, sum_across(products) * factor, mask=row_mask)


@triton.jit
def group_sums(
    plain,
    scaled,
    weight,
    plain_shift,
    scaled_shift,
    groups,
    each,
    channels,
    scale,
    ACCUMULATOR: tl.constexpr,
    INDEX: tl.constexpr,
    BLOCK_O: tl.constexpr,
    BLOCK_R: tl.constexpr,
):
    """Compute the sums of a group's channels, each times its weight, times `scale`."""
    o = tl.program_id(0).to(INDEX) * BLOCK_O + tl.arange(0, BLOCK_O).to(INDEX)
    row_mask = o < groups
    sums = tl.full((BLOCK_O, BLOCK_R), 0, ACCUMULATOR)
    products = tl.full((BLOCK_O, BLOCK_R), 0, ACCUMULATOR)
    for base in range(0, each, BLOCK_R):
        r = base + tl.arange(0, BLOCK_R).to(INDEX)
        mask = row_mask[:, None] & (r < each)[None, :]
        place = (o * each)[:, None] + r[None, :]
        first = of_line(plain, place, mask, ACCUMULATOR)
        second = of_line(scaled, place, mask, ACCUMULATOR)
        if weight is not None:
            factor = of_line(weight, place % channels, mask, ACCUMULATOR)
            first, second = first * factor, second * factor
        sums += first
        products += second
    share = scale.to(ACCUMULATOR)
    tl.store(plain_shift + o, sum_across(sums) * share, mask=row_mask)
    tl.store(scaled_shift + o, sum_across(products) * share, mask=row_mask)


@triton.jit
def channel_gradients(
    grad,
    x,
    mean,
    spread,
    weight,
    plain_shift,
    scaled_shift,
    grad_input,
    lines,
    n,
    channels,
    each,
    statistics,
    line,
    step,
    scale,
    eps,
    VARIANCE: tl.constexpr,
    SHIFTS_WEIGHTED: tl.constexpr,
    ACCUMULATOR: tl.constexpr,
    INDEX: tl.constexpr,
    BLOCK_O: tl.constexpr,
    BLOCK_R: tl.constexpr,
):
    """Compute rstd * (grad * weight - shift - x^ * scaled shift).

    Shifts are weighted already, or sums over a channel that are multiplied by weight and `scale` here; without them
    the statistics were constants.
    """
    down, along = place_in_grid(tl.cdiv(lines, BLOCK_O))
    o = down.to(INDEX) * BLOCK_O + tl.arange(0, BLOCK_O).to(INDEX)
    row_mask = o < lines
    at = o // each % statistics
    rstd = reciprocal_deviation(spread, at, row_mask, eps, VARIANCE, ACCUMULATOR)
    factor = rstd
    if weight is not None:
        factor = rstd * of_line(weight, o % channels, row_mask, ACCUMULATOR)
    r = along.to(INDEX) * BLOCK_R + tl.arange(0, BLOCK_R).to(INDEX)
    mask = row_mask[:, None] & (r < n)[None, :]
    place = (o * line)[:, None] + (r * step)[None, :]
    result = convert(tl.load(grad + place, mask=mask, other=0), ACCUMULATOR) * factor[:, None]
    if plain_shift is not None:
        if SHIFTS_WEIGHTED:
            share = rstd
        else:
            share = factor * scale.to(ACCUMULATOR)
        centre = of_line(mean, at, row_mask, ACCUMULATOR)[:, None]
        shift = of_line(plain_shift, at, row_mask, ACCUMULATOR) * share
        slope = of_line(scaled_shift, at, row_mask, ACCUMULATOR) * share * rstd
        value = convert(tl.load(x + place, mask=mask, other=0), ACCUMULATOR)
        result = result - shift[:, None] - (value - centre) * slope[:, None]
    tl.store(grad_input + place, convert(result, grad_input.dtype.element_ty), mask=mask)


ROW_TILE, COLUMN_TILE = Configuration((1, 2048), 4), Configuration((64, 32), 4)
DOUBLE = Configuration((1, 1024), 4), Configuration((64, 16), 4)
NARROW = ("fp32", "fp16", "bf16")
TILE = ("BLOCK_O", "BLOCK_R")
WHY = (
    "32 warps: 16 elements of a lane in flight, 32 KiB of bfloat16 in all and more of others, are longer under way "
    "than a load takes"
)

declare(
    channel_moments,
    warps=16,
    why="16 warps: two sums for each of a lane's 16 elements, of which as many are in flight as 32 warps have of "
    "8 elements",
    operand="x",
    tile=TILE,
    dtypes={NARROW: (ROW_TILE, COLUMN_TILE), ("fp64",): DOUBLE},
    smaller=True,
    operations="4 lines n",
    traffic="lines n itemsize, and 8 for each part of a line",
    loads=("x",),
)
declare(
    combine_moments,
    warps=16,
    why="16 warps: a few hundred programs at most, whose time is that of their loads one after another",
    operand="means",
    tile=TILE,
    dtypes={("fp32", "fp64"): (Configuration((8, 64), 4),)},
    smaller=True,
    operations="12 for each part",
    traffic="2 itemsize for each part, and 4 for each statistic",
)
declare(
    normalise_channels,
    why=WHY,
    operand="x",
    tile=TILE,
    dtypes={NARROW: (ROW_TILE, COLUMN_TILE), ("fp64",): DOUBLE},
    smaller=True,
    operations="3 lines n",
    traffic="2 lines n itemsize",
    loads=("x",),
    stores=("out",),
)
declare(
    channel_gradient_sums,
    warps=16,
    why="16 warps: two sums for each of a lane's 16 elements of both tensors, 32 of which are in flight",
    operand="x",
    tile=TILE,
    dtypes={NARROW: (Configuration((1, 2048), 4, all_registers=True), COLUMN_TILE), ("fp64",): DOUBLE},
    smaller=True,
    operations="4 lines n",
    traffic="2 lines n itemsize, and 2 itemsize for each part of a line",
    loads=("grad", "x"),
)
declare(
    group_sums,
    why="32 warps: a few hundred programs at most, of a tensor as large as one position of the input",
    operand="plain",
    tile=TILE,
    dtypes={("fp32", "fp64"): (Configuration((32, 16), 4),)},
    smaller=True,
    operations="4 for each channel of a sample",
    traffic="2 itemsize for each channel of a sample",
)
declare(
    channel_gradients,
    warps=24,
    why="24 warps: 16 elements of both tensors in flight for each lane",
    operand="x",
    tile=TILE,
    dtypes={NARROW: (ROW_TILE, COLUMN_TILE), ("fp64",): DOUBLE},
    smaller=True,
    operations="6 lines n",
    traffic="3 lines n itemsize",
    loads=("grad", "x"),
    stores=("grad_input",),
)
