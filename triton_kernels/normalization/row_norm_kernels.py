"""The programs of layer_norm and rms_norm: a row in registers, or longer rows block by block.

Statistics are computed in the accumulator's type: the mean first, then the mean of the squared deviations from it.
Where a row does not fit, deviations are taken from the mean of its first block instead; its distance to the row's own
mean is at most the deviation times sqrt(n / BLOCK_R), which bounds what the correction cancels.
"""

from ...runtime.cuda.lazy_triton import tl, triton
from ..budget import Configuration, declare
from ..conversion import convert
from ..elementwise.pointwise_functions import divide, rsqrt
from ..reduction.joint_reduction_kernels import finite
from ..reduction.reduction_kernels import sum_across, sum_of


@triton.jit
def not_negative(a):
    """`a`, or 0 where it is negative; NaN stays."""
    return tl.where(a < 0, tl.zeros_like(a), a)


@triton.jit
def sum_down(tile):
    return tl.reduce(tile, 0, sum_of)


@triton.jit
def scaled_and_shifted(value, weight, bias, at, mask, ACCUMULATOR: tl.constexpr):
    """`value` times the weight plus the bias at these places; each may be None."""
    if weight is not None:
        value = value * convert(tl.load(weight + at, mask=mask, other=0), ACCUMULATOR)
    if bias is not None:
        value = value + convert(tl.load(bias + at, mask=mask, other=0), ACCUMULATOR)
    return value


@triton.jit
def normalise_rows(
    x,
    weight,
    bias,
    out,
    mean,
    rstd,
    rows,
    n,
    x_row,
    eps,
    CENTRED: tl.constexpr,
    WHOLE: tl.constexpr,
    ACCUMULATOR: tl.constexpr,
    INDEX: tl.constexpr,
    BLOCK_O: tl.constexpr,
    BLOCK_R: tl.constexpr,
):
    o = tl.program_id(0).to(INDEX) * BLOCK_O + tl.arange(0, BLOCK_O).to(INDEX)
    wanted = o < rows
    start = x + (o * x_row)[:, None]
    to = out + (o * n)[:, None]
    count = tl.full((BLOCK_O,), 0, ACCUMULATOR) + n.to(ACCUMULATOR)
    r = tl.arange(0, BLOCK_R).to(INDEX)[None, :]
    inside = r < n
    mask = wanted[:, None] & inside
    value = convert(tl.load(start + r, mask=mask, other=0), ACCUMULATOR)
    if WHOLE:
        if CENTRED:
            centre = divide(sum_across(value), tl.maximum(count, 1))
            value = tl.where(mask, value - centre[:, None], 0)
        spread = divide(sum_across(value * value), count)
    else:
        if CENTRED:
            pivot = finite(sum_across(value) * (1.0 / BLOCK_R))
        sums = tl.full((BLOCK_O, BLOCK_R), 0, ACCUMULATOR)
        squares = tl.full((BLOCK_O, BLOCK_R), 0, ACCUMULATOR)
        for base in range(0, n, BLOCK_R):
            at = base + r
            mask = wanted[:, None] & (at < n)
            value = convert(tl.load(start + at, mask=mask, other=0), ACCUMULATOR)
            if CENTRED:
                value = tl.where(mask, value - pivot[:, None], 0)
                sums += value
            squares += value * value
        spread = divide(sum_across(squares), count)
        if CENTRED:
            shift = divide(sum_across(sums), count)
            spread = not_negative(spread - shift * shift)
            centre = pivot + shift
    factor = rsqrt(spread + eps.to(ACCUMULATOR))
    if CENTRED:
        tl.store(mean + o, convert(centre, mean.dtype.element_ty), mask=wanted)
    tl.store(rstd + o, convert(factor, rstd.dtype.element_ty), mask=wanted)
    if WHOLE:
        result = scaled_and_shifted(value * factor[:, None], weight, bias, r, inside, ACCUMULATOR)
        tl.store(to + r, convert(result, out.dtype.element_ty), mask=mask)
    else:
        for base in range(0, n, BLOCK_R):
            at = base + r
            inside = at < n
            mask = wanted[:, None] & inside
            value = convert(tl.load(start + at, mask=mask, other=0), ACCUMULATOR)
            if CENTRED:
                value = value - centre[:, None]
            result = scaled_and_shifted(value * factor[:, None], weight, bias, at, inside, ACCUMULATOR)
            tl.store(to + at, convert(result, out.dtype.element_ty), mask=mask)


@triton.jit
def kept_statistic(at, o, wanted, ACCUMULATOR: tl.constexpr):
    return convert(tl.load(at + o, mask=wanted, other=0), ACCUMULATOR)[:, None]


@triton.jit
def normalise_rows_backward(
    grad,
    x,
    mean,
    rstd,
    weight,
    to,
    to_weight,
    to_bias,
    rows,
    n,
    g_row,
    x_row,
    chunk,
    CENTRED: tl.constexpr,
    WHOLE: tl.constexpr,
    ACCUMULATOR: tl.constexpr,
    INDEX: tl.constexpr,
    BLOCK_O: tl.constexpr,
    BLOCK_R: tl.constexpr,
):
    """A program has `chunk` rows and adds up their gradients of weight and bias; those of all are summed after.

    Each of the three results may be None.
    """
    first = tl.program_id(0).to(INDEX) * chunk
    last = tl.minimum(first + chunk, rows)
    r = tl.arange(0, BLOCK_R).to(INDEX)[None, :]
    count = tl.full((BLOCK_O,), 0, ACCUMULATOR) + n.to(ACCUMULATOR)
    if WHOLE:
        inside = r < n
        if weight is not None:
            factor = convert(tl.load(weight + r, mask=inside, other=0), ACCUMULATOR)
        if to_weight is not None:
            of_weight = tl.full((BLOCK_O, BLOCK_R), 0, ACCUMULATOR)
        if to_bias is not None:
            of_bias = tl.full((BLOCK_O, BLOCK_R), 0, ACCUMULATOR)
    for row in range(first, last, BLOCK_O):
        o = row + tl.arange(0, BLOCK_O).to(INDEX)
        wanted = o < last
        scale = kept_statistic(rstd, o, wanted, ACCUMULATOR)
        if CENTRED:
            centre = kept_statistic(mean, o, wanted, ACCUMULATOR)
        from_grad = grad + (o * g_row)[:, None]
        from_x = x + (o * x_row)[:, None]
        if WHOLE:
            mask = wanted[:, None] & inside
            change = convert(tl.load(from_grad + r, mask=mask, other=0), ACCUMULATOR)
            hat = convert(tl.load(from_x + r, mask=mask, other=0), ACCUMULATOR)
            if CENTRED:
                hat = hat - centre
            hat = tl.where(mask, hat * scale, 0)
            if to_weight is not None:
                of_weight += change * hat
            if to_bias is not None:
                of_bias += change
            if to is not None:
                if weight is not None:
                    change = change * factor
                along = divide(sum_across(change * hat), count)[:, None]
                result = change - hat * along
                if CENTRED:
                    result = result - divide(sum_across(change), count)[:, None]
                tl.store(to + (o * n)[:, None] + r, convert(result * scale, to.dtype.element_ty), mask=mask)
        else:
            alongs = tl.full((BLOCK_O, BLOCK_R), 0, ACCUMULATOR)
            changes = tl.full((BLOCK_O, BLOCK_R), 0, ACCUMULATOR)
            for base in range(0, n, BLOCK_R):
                at = base + r
                mask = wanted[:, None] & (at < n)
                change = convert(tl.load(from_grad + at, mask=mask, other=0), ACCUMULATOR)
                change = scaled_and_shifted(change, weight, None, at, at < n, ACCUMULATOR)
                hat = convert(tl.load(from_x + at, mask=mask, other=0), ACCUMULATOR)
                if CENTRED:
                    hat = hat - centre
                    changes += change
                alongs += tl.where(mask, change * (hat * scale), 0)
            along = divide(sum_across(alongs), count)[:, None]
            shift = divide(sum_across(changes), count)[:, None]
            for base in range(0, n, BLOCK_R):
                at = base + r
                mask = wanted[:, None] & (at < n)
                change = convert(tl.load(from_grad + at, mask=mask, other=0), ACCUMULATOR)
                change = scaled_and_shifted(change, weight, None, at, at < n, ACCUMULATOR)
                hat = convert(tl.load(from_x + at, mask=mask, other=0), ACCUMULATOR)
                if CENTRED:
                    hat = hat - centre
                result = change - (hat * scale) * along
                if CENTRED:
                    result = result - shift
                tl.store(to + (o * n)[:, None] + at, convert(result * scale, to.dtype.element_ty), mask=mask)
    if WHOLE:
        part = tl.program_id(0).to(INDEX) * n + tl.arange(0, BLOCK_R).to(INDEX)
        columns = tl.arange(0, BLOCK_R).to(INDEX) < n
        if to_weight is not None:
            total = convert(sum_down(of_weight), to_weight.dtype.element_ty)
            tl.store(to_weight + part, total, mask=columns)
        if to_bias is not None:
            total = convert(sum_down(of_bias), to_bias.dtype.element_ty)
            tl.store(to_bias + part, total, mask=columns)


@triton.jit
def weight_gradients(
    grad,
    x,
    mean,
    rstd,
    to_weight,
    to_bias,
    rows,
    n,
    g_row,
    x_row,
    chunk,
    CENTRED: tl.constexpr,
    ACCUMULATOR: tl.constexpr,
    INDEX: tl.constexpr,
    BLOCK_O: tl.constexpr,
    BLOCK_R: tl.constexpr,
):
    """Sums down some columns of `chunk` rows, which are summed after; either result may be None."""
    c = tl.program_id(0).to(INDEX) * BLOCK_R + tl.arange(0, BLOCK_R).to(INDEX)
    inside = c < n
    first = tl.program_id(1).to(INDEX) * chunk
    last = tl.minimum(first + chunk, rows)
    of_weight = tl.full((BLOCK_O, BLOCK_R), 0, ACCUMULATOR)
    of_bias = tl.full((BLOCK_O, BLOCK_R), 0, ACCUMULATOR)
    for row in range(first, last, BLOCK_O):
        o = row + tl.arange(0, BLOCK_O).to(INDEX)
        wanted = o < last
        mask = wanted[:, None] & inside[None, :]
        change = tl.load(grad + (o * g_row)[:, None] + c[None, :], mask=mask, other=0)
        change = convert(change, ACCUMULATOR)
        if to_bias is not None:
            of_bias += change
        if to_weight is not None:
            hat = tl.load(x + (o * x_row)[:, None] + c[None, :], mask=mask, other=0)
            hat = convert(hat, ACCUMULATOR)
            if CENTRED:
                hat = hat - kept_statistic(mean, o, wanted, ACCUMULATOR)
            of_weight += tl.where(mask, change * (hat * kept_statistic(rstd, o, wanted, ACCUMULATOR)), 0)
    part = tl.program_id(1).to(INDEX) * n + c
    if to_weight is not None:
        tl.store(to_weight + part, convert(sum_down(of_weight), to_weight.dtype.element_ty), mask=inside)
    if to_bias is not None:
        tl.store(to_bias + part, convert(sum_down(of_bias), to_bias.dtype.element_ty), mask=inside)


# As in softmax the smaller tiles with as many warps are those of shorter rows. A row of 16,384 is one block of a
# multiprocessor, and one of 32,768 fits only as 16-bit numbers; longer ones are read twice by 4,096.
FORWARD = (
    Configuration((1, 4096), 8, blocks=3),
    Configuration((1, 8192), 16),
    Configuration((1, 16384), 32),
    Configuration((2, 1024), 4),
    Configuration((1, 8192), 32),
)
LONGEST = Configuration((1, 32768), 32)
FORWARD_DOUBLE = (
    Configuration((1, 4096), 16, blocks=1),
    Configuration((1, 2048), 8, blocks=2),
    Configuration((2, 512), 4, blocks=4),
)

declare(
    normalise_rows,
    why="24 to 32 warps: 16 elements of a row for each lane, so that two to eight rows load while others are summed",
    operand="x",
    tile=("BLOCK_O", "BLOCK_R"),
    dtypes={("fp16", "bf16"): (*FORWARD, LONGEST), ("fp32",): FORWARD, ("fp64",): FORWARD_DOUBLE},
    smaller=True,
    operations="7 rows n",
    traffic="2 rows n itemsize, and n itemsize of weight and bias each; of rows longer than a tile 3",
    loads=("x", "weight", "bias"),
    stores=("out",),
)

BACKWARD = (
    # Of odd lengths each element has an address and a mask, which sm_100's compiler keeps beside the sums.
    Configuration((1, 4096), 8, blocks={80: 2, 90: 2, 100: 1}),
    Configuration((1, 8192), 16, blocks=1),
    Configuration((2, 1024), 4, blocks=4),
    Configuration((2, 1024), 8, blocks=2),
)
BACKWARD_DOUBLE = (
    Configuration((1, 2048), 8, blocks=1),
    Configuration((1, 4096), 16, blocks=1),
    Configuration((2, 512), 4, blocks=2),
)

declare(
    normalise_rows_backward,
    warps=16,
    why="16 warps: a lane holds 16 elements of gradient, input, weight and both sums, and has 32 loads in flight, as "
    "many in all as 32 warps of a kernel that reads one tensor",
    operand="x",
    tile=("BLOCK_O", "BLOCK_R"),
    dtypes={("fp32", "fp16", "bf16"): BACKWARD, ("fp64",): BACKWARD_DOUBLE},
    smaller=True,
    operations="12 rows n",
    traffic="3 rows n itemsize, and 8 n for each program of whole rows; of rows longer than a tile 5",
    loads=("grad", "x", "weight"),
    stores=("to",),
)

# On sm_80 the addresses of both tensors take eight registers more.
COLUMNS = (Configuration((32, 64), 4, blocks={80: 7, 90: 8, 100: 8}),)

declare(
    weight_gradients,
    why="32 warps: 16 elements of both tensors in flight for each lane, and two sums for each pair",
    operand="x",
    tile=("BLOCK_O", "BLOCK_R"),
    dtypes={("fp32", "fp16", "bf16"): COLUMNS, ("fp64",): (Configuration((16, 64), 4, blocks=4),)},
    smaller=True,
    operations="5 rows n",
    traffic="2 rows n itemsize, and 8 n for each part",
    loads=("grad", "x"),
)
