"""The programs of softmax and log_softmax: a row in one block, or longer rows block by block."""

from ...runtime.cuda.lazy_triton import tl, triton
from ..budget import Configuration, declare
from ..conversion import convert
from ..elementwise.pointwise_functions import divide, exp, log
from ..reduction.joint_reduction_kernels import finite, shifted_sums, shifted_sums_across
from ..reduction.reduction_kernels import largest_across, offset_of, sum_across


@triton.jit
def normalised(value, top, total, LOG: tl.constexpr):
    """An element's probability, or its logarithm, from the row's maximum and sum."""
    if LOG:
        return (value - top) - log(total)
    else:
        return divide(exp(value - top), total)


@triton.jit
def softmax(
    x,
    out,
    n_out,
    n,
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
    xr0,
    or0,
    LOG: tl.constexpr,
    ACCUMULATOR: tl.constexpr,
    KEPT: tl.constexpr,
    INDEX: tl.constexpr,
    WHOLE: tl.constexpr,
    BLOCK_O: tl.constexpr,
    BLOCK_R: tl.constexpr,
):
    o = tl.program_id(0).to(INDEX) * BLOCK_O + tl.arange(0, BLOCK_O).to(INDEX)
    wanted = (o < n_out)[:, None]
    rows = x + offset_of(o, k0, k1, k2, xk0, xk1, xk2, xk3, KEPT)[:, None]
    to = out + offset_of(o, k0, k1, k2, ok0, ok1, ok2, ok3, KEPT)[:, None]
    if WHOLE:
        r = tl.arange(0, BLOCK_R).to(INDEX)
        mask = wanted & (r < n)[None, :]
        value = tl.load(rows + r[None, :] * xr0, mask=mask, other=float("-inf"))
        value = convert(value, ACCUMULATOR)
        top = largest_across(value)[:, None]
        total = sum_across(tl.where(mask, exp(value - top), 0.0))[:, None]
        result = normalised(value, top, total, LOG)
        tl.store(to + r[None, :] * or0, convert(result, out.dtype.element_ty), mask=mask)
    else:
        highest = tl.full((BLOCK_O, BLOCK_R), float("-inf"), ACCUMULATOR)
        sums = tl.full((BLOCK_O, BLOCK_R), 0, ACCUMULATOR)
        one = tl.full((1, 1), 1, ACCUMULATOR)
        for base in range(0, n, BLOCK_R):
            r = base + tl.arange(0, BLOCK_R).to(INDEX)
            mask = wanted & (r < n)[None, :]
            value = tl.load(rows + r[None, :] * xr0, mask=mask, other=float("-inf"))
            highest, sums = shifted_sums(highest, sums, convert(value, ACCUMULATOR), one)
        top, total = shifted_sums_across((highest, sums))
        # Differences to an infinite maximum are NaN.
        top = top[:, None]
        total = tl.where(finite(top) == top, total[:, None], float("nan")).to(ACCUMULATOR)
        for base in range(0, n, BLOCK_R):
            r = base + tl.arange(0, BLOCK_R).to(INDEX)
            mask = wanted & (r < n)[None, :]
            value = tl.load(rows + r[None, :] * xr0, mask=mask, other=float("-inf"))
            result = normalised(convert(value, ACCUMULATOR), top, total, LOG)
            tl.store(to + r[None, :] * or0, convert(result, out.dtype.element_ty), mask=mask)


@triton.jit
def summand(grad, value, LOG: tl.constexpr):
    """What the gradient of a row is summed of."""
    if LOG:
        return grad
    else:
        return grad * value


@triton.jit
def gradient(grad, value, total, LOG: tl.constexpr):
    """The gradient of an input, from those of the output, the output, and the row's sum."""
    if LOG:
        return grad - exp(value) * total
    else:
        return (grad - total) * value


@triton.jit
def softmax_backward(
    grad,
    x,
    out,
    n_out,
    n,
    k0,
    k1,
    k2,
    gk0,
    gk1,
    gk2,
    gk3,
    xk0,
    xk1,
    xk2,
    xk3,
    ok0,
    ok1,
    ok2,
    ok3,
    gr0,
    xr0,
    or0,
    LOG: tl.constexpr,
    ACCUMULATOR: tl.constexpr,
    KEPT: tl.constexpr,
    INDEX: tl.constexpr,
    WHOLE: tl.constexpr,
    BLOCK_O: tl.constexpr,
    BLOCK_R: tl.constexpr,
):
    o = tl.program_id(0).to(INDEX) * BLOCK_O + tl.arange(0, BLOCK_O).to(INDEX)
    wanted = (o < n_out)[:, None]
    grads = grad + offset_of(o, k0, k1, k2, gk0, gk1, gk2, gk3, KEPT)[:, None]
    rows = x + offset_of(o, k0, k1, k2, xk0, xk1, xk2, xk3, KEPT)[:, None]
    to = out + offset_of(o, k0, k1, k2, ok0, ok1, ok2, ok3, KEPT)[:, None]
    if WHOLE:
        r = tl.arange(0, BLOCK_R).to(INDEX)
        mask = wanted & (r < n)[None, :]
        change = convert(tl.load(grads + r[None, :] * gr0, mask=mask, other=0), ACCUMULATOR)
        value = convert(tl.load(rows + r[None, :] * xr0, mask=mask, other=0), ACCUMULATOR)
        total = sum_across(summand(change, value, LOG))[:, None]
        result = gradient(change, value, total, LOG)
        tl.store(to + r[None, :] * or0, convert(result, out.dtype.element_ty), mask=mask)
    else:
        sums = tl.full((BLOCK_O, BLOCK_R), 0, ACCUMULATOR)
        for base in range(0, n, BLOCK_R):
            r = base + tl.arange(0, BLOCK_R).to(INDEX)
            mask = wanted & (r < n)[None, :]
            change = convert(tl.load(grads + r[None, :] * gr0, mask=mask, other=0), ACCUMULATOR)
            value = convert(tl.load(rows + r[None, :] * xr0, mask=mask, other=0), ACCUMULATOR)
            sums += summand(change, value, LOG)
        total = sum_across(sums)[:, None]
        for base in range(0, n, BLOCK_R):
            r = base + tl.arange(0, BLOCK_R).to(INDEX)
            mask = wanted & (r < n)[None, :]
            change = convert(tl.load(grads + r[None, :] * gr0, mask=mask, other=0), ACCUMULATOR)
            value = convert(tl.load(rows + r[None, :] * xr0, mask=mask, other=0), ACCUMULATOR)
            result = gradient(change, value, total, LOG)
            tl.store(to + r[None, :] * or0, convert(result, out.dtype.element_ty), mask=mask)


FORWARD = "32 warps: two blocks of the longest rows that stay in registers, so that one loads while the other computes"
# Of whole columns one block: elements of a lane lie a row apart, so that each of its 16 has an address of its own, two
# registers wide, beside its value. The smaller tiles with as many warps, or of columns
# half as many, are those of longer ones.
NARROW = (
    Configuration((1, 4096), 8),
    Configuration((1, 8192), 16),
    Configuration((2, 1024), 4),
    Configuration((1, 4096), 16),
    Configuration((32, 256), 16, blocks=1),
    Configuration((32, 64), 8),
)
# One block of 32 warps instead of two, for a row that is then read once.
LONG, LONGEST = Configuration((1, 16384), 32, blocks=1), Configuration((1, 32768), 32, blocks=1)
DOUBLE = (
    Configuration((1, 4096), 16),
    Configuration((1, 2048), 16),
    Configuration((2, 1024), 8),
    Configuration((32, 128), 16, blocks=1),
    Configuration((32, 32), 8),
)

declare(
    softmax,
    why=FORWARD,
    operand="x",
    tile=("BLOCK_O", "BLOCK_R"),
    dtypes={("fp16", "bf16"): (*NARROW, LONG, LONGEST), ("fp32",): (*NARROW, LONG), ("fp64",): DOUBLE},
    smaller=True,
    operations="4 n_out n, an exponential counted as one",
    traffic="2 n_out n itemsize; of rows that are longer than a tile 3",
    loads=("x",),
    stores=("out",),
)
declare(
    softmax_backward,
    why=FORWARD,
    operand="x",
    tile=("BLOCK_O", "BLOCK_R"),
    dtypes={("fp32", "fp16", "bf16"): (*NARROW, LONG), ("fp64",): DOUBLE},
    smaller=True,
    operations="4 n_out n",
    traffic="3 n_out n itemsize; of rows that are longer than a tile 5",
    loads=("grad", "x"),
    stores=("out",),
)
