"""The programs of group_norm where a group fits in registers: forward and backward in one pass each.

A tile is [channels of a group, positions]. The mean comes first, then the mean of the squared deviations from it.
"""

from ...runtime.cuda.triton.lazy_triton import tl, triton
from ..budget import Configuration, declare
from ..conversion import convert
from ..elementwise.pointwise_functions import divide, rsqrt
from ..reduction.reduction_kernels import sum_across
from .vectors import loaded, sum_of_all


@triton.jit
def group_places(group, groups, each, sample, line, step, INDEX: tl.constexpr, c, p):
    """Return the offsets of a group's elements, as [channels, positions]."""
    start = group // groups * sample + group % groups * each * line
    return start + ((c * line)[:, None] + (p * step)[None, :])


@triton.jit
def normalise_groups(
    x,
    weight,
    bias,
    out,
    mean,
    rstd,
    groups,
    each,
    positions,
    x_sample,
    x_line,
    x_step,
    o_sample,
    o_line,
    o_step,
    eps,
    ACCUMULATOR: tl.constexpr,
    INDEX: tl.constexpr,
    BLOCK_O: tl.constexpr,
    BLOCK_R: tl.constexpr,
):
    """(x - mean) * rstd * weight + bias of one group; `groups` are those of a sample, of `each` channels."""
    group = tl.program_id(0).to(INDEX)
    c = tl.arange(0, BLOCK_O).to(INDEX)
    p = tl.arange(0, BLOCK_R).to(INDEX)
    mask = (c < each)[:, None] & (p < positions)[None, :]
    at = group_places(group, groups, each, x_sample, x_line, x_step, INDEX, c, p)
    value = loaded(x + at, mask, ACCUMULATOR)
    count = tl.full((1,), 0, ACCUMULATOR) + (each * positions).to(ACCUMULATOR)
    centre = sum_of_all(divide(tl.zeros_like(count) + sum_of_all(sum_across(value)), count))
    value = tl.where(mask, value - centre, 0)
    spread = divide(tl.zeros_like(count) + sum_of_all(sum_across(value * value)), count)
    factor = sum_of_all(rsqrt(spread + eps.to(ACCUMULATOR)))
    tl.store(mean + group, convert(centre, mean.dtype.element_ty))
    tl.store(rstd + group, convert(factor, rstd.dtype.element_ty))
    result = value * factor
    channel = group % groups * each + c
    if weight is not None:
        result = result * loaded(weight + channel, c < each, ACCUMULATOR)[:, None]
    if bias is not None:
        result = result + loaded(bias + channel, c < each, ACCUMULATOR)[:, None]
    at = group_places(group, groups, each, o_sample, o_line, o_step, INDEX, c, p)
    tl.store(out + at, convert(result, out.dtype.element_ty), mask=mask)


@triton.jit
def group_gradients(
    grad,
    x,
    mean,
    rstd,
    weight,
    grad_input,
    plain,
    scaled,
    groups,
    each,
    positions,
    g_sample,
    g_line,
    g_step,
    x_sample,
    x_line,
    x_step,
    o_sample,
    o_line,
    o_step,
    ACCUMULATOR: tl.constexpr,
    INDEX: tl.constexpr,
    BLOCK_O: tl.constexpr,
    BLOCK_R: tl.constexpr,
):
    """Compute the gradient of one group's input, and its channels' contributions to bias and weight: [samples,
    channels].

    `grad_input`, and `plain` with `scaled`, may be None.
    """
    group = tl.program_id(0).to(INDEX)
    c = tl.arange(0, BLOCK_O).to(INDEX)
    p = tl.arange(0, BLOCK_R).to(INDEX)
    mask = (c < each)[:, None] & (p < positions)[None, :]
    at = group_places(group, groups, each, g_sample, g_line, g_step, INDEX, c, p)
    grad_value = loaded(grad + at, mask, ACCUMULATOR)
    at = group_places(group, groups, each, x_sample, x_line, x_step, INDEX, c, p)
    scale = convert(tl.load(rstd + group), ACCUMULATOR)
    centre = convert(tl.load(mean + group), ACCUMULATOR)
    hat = tl.where(mask, (loaded(x + at, mask, ACCUMULATOR) - centre) * scale, 0)
    sums, products = sum_across(grad_value), sum_across(grad_value * hat)
    if plain is not None:
        tl.store(plain + group * each + c, sums, mask=c < each)
        tl.store(scaled + group * each + c, products, mask=c < each)
    if grad_input is not None:
        if weight is not None:
            factor = loaded(weight + (group % groups * each + c), c < each, ACCUMULATOR)
            sums, products, grad_value = sums * factor, products * factor, grad_value * factor[:, None]
        count = tl.full((1,), 0, ACCUMULATOR) + (each * positions).to(ACCUMULATOR)
        shift = sum_of_all(divide(tl.zeros_like(count) + sum_of_all(sums), count))
        along = sum_of_all(divide(tl.zeros_like(count) + sum_of_all(products), count))
        result = (grad_value - shift - hat * along) * scale
        at = group_places(group, groups, each, o_sample, o_line, o_step, INDEX, c, p)
        tl.store(grad_input + at, convert(result, grad_input.dtype.element_ty), mask=mask)


TILE = ("BLOCK_O", "BLOCK_R")
NARROW = ("fp32", "fp16", "bf16")
FORWARD = (
    Configuration((16, 512), 16, blocks=2, all_registers=True),
    Configuration((16, 256), 8, blocks=3, all_registers=True),
    Configuration((8, 256), 4, blocks=6, all_registers=True),
    Configuration((16, 1024), 32, blocks=1, all_registers=True),
)
FORWARD_DOUBLE = (
    Configuration((16, 256), 16, blocks=1),
    Configuration((16, 128), 8, blocks=2),
    Configuration((8, 128), 4, blocks=4),
)

declare(
    normalise_groups,
    why="24 to 32 warps: 16 elements of a group for each lane, so that two groups or more load while others are summed",
    operand="x",
    tile=TILE,
    dtypes={NARROW: FORWARD, ("fp64",): FORWARD_DOUBLE},
    smaller=True,
    operations="7 for each element",
    traffic="2 itemsize for each element",
    loads=("x",),
    stores=("out",),
)

BACKWARD = (
    Configuration((16, 512), 16, blocks=1),
    Configuration((16, 256), 8, blocks=2),
    Configuration((8, 256), 4, blocks=4),
)
BACKWARD_DOUBLE = (
    Configuration((16, 256), 16, blocks=1),
    Configuration((16, 128), 8, blocks=1),
    Configuration((8, 128), 4, blocks=2),
)

declare(
    group_gradients,
    warps=16,
    why="16 warps: a lane has 16 elements of both tensors in flight, as many in all as 32 warps that read one tensor",
    operand="x",
    tile=TILE,
    dtypes={NARROW: BACKWARD, ("fp64",): BACKWARD_DOUBLE},
    smaller=True,
    operations="12 for each element",
    traffic="3 itemsize for each element, and 8 for each channel of a sample",
    loads=("grad", "x"),
    stores=("grad_input",),
)
