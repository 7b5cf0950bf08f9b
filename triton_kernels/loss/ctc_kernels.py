"""The programs of connectionist temporal classification: recursions over time with all states of a sequence in a tile.

A state is a label or a blank before, between or after labels. The states before and after each come from other lanes
by `tl.gather`; a step's own logarithms are loaded one step ahead. Source: A. Graves et al., "Connectionist Temporal
Classification" (2006), section 4.1.
"""

from ...runtime.cuda.triton.lazy_triton import tl, triton
from ..budget import Configuration, declare
from ..elementwise.pointwise_functions import exp, log
from ..folded_grid import place_in_grid

INFINITY = tl.constexpr(float("inf"))


@triton.jit
def state_labels(targets, flag, state, labels, first, step, blank, classes):
    """Return each state's class, the blank beyond the last; an invalid label raises the flag and becomes the blank."""
    is_label = ((state & 1) == 1) & (state < 2 * labels + 1)
    label = tl.load(targets + first + (state >> 1) * step, mask=is_label, other=blank).to(tl.int64)
    wrong = (label < 0) | (label >= classes)
    if flag is not None:
        tl.store(flag + tl.zeros_like(state), 1, mask=wrong)
    return tl.where(wrong, blank, label)


@triton.jit
def joined(stay, step, jump):
    """Return the logarithm of the sum of three exponentials; minus infinity if all three are."""
    maximum = tl.maximum(tl.maximum(stay, step), jump)
    shift = tl.where(maximum == -INFINITY, 0.0, maximum)
    return log(exp(stay - shift) + exp(step - shift) + exp(jump - shift)) + shift


@triton.jit
def ctc_forward(
    x,
    targets,
    counts,
    flag,
    loss,
    alpha,
    batch,
    times,
    classes,
    width,
    blank,
    target_step,
    xt,
    xn,
    xc,
    BLOCK: tl.constexpr,
):
    n = tl.program_id(0).to(tl.int64)
    length, labels = tl.load(counts + n), tl.load(counts + batch + n)
    first = tl.load(counts + 2 * batch + n)
    state = tl.arange(0, BLOCK)
    within = state < 2 * labels + 1
    own = state_labels(targets, flag, state, labels, first, target_step, blank, classes)
    before, two_before = tl.maximum(state - 1, 0), tl.maximum(state - 2, 0)
    jumps = ((state & 1) == 1) & (state > 2) & (own != tl.gather(own, two_before, 0))
    place = x + n * xn + own * xc
    out_ptrs = alpha + n * times * width + state
    kept = state < width
    emitted = tl.load(place, mask=within, other=-INFINITY)
    running = length > 0
    a = tl.where((state < 2) & within & running, emitted, -INFINITY)
    tl.store(out_ptrs, a, mask=kept)
    following = tl.load(place + xt, mask=within & (length > 1), other=-INFINITY)
    for time in range(1, length):
        emitted = following
        following = tl.load(place + (time + 1) * xt, mask=within & (time + 1 < length), other=-INFINITY)
        step = tl.where(state > 0, tl.gather(a, before, 0), -INFINITY)
        jump = tl.where(jumps, tl.gather(a, two_before, 0), -INFINITY)
        a = tl.where(within, joined(a, step, jump) + emitted, -INFINITY)
        tl.store(out_ptrs + time * width, a, mask=kept)
    for time in range(tl.maximum(length, 1), times):
        tl.store(out_ptrs + time * width, tl.full((BLOCK,), -INFINITY, a.dtype), mask=kept)
    blank_last = tl.sum(tl.where(state == 2 * labels, a, 0.0), 0)
    label_last = tl.sum(tl.where(state == 2 * labels - 1, a, 0.0), 0)
    label_last = tl.where(labels > 0, label_last, -INFINITY)
    one = tl.zeros((1,), a.dtype)
    likelihood = joined(one + blank_last, one + label_last, one - INFINITY)
    # A sequence without times has probability 1 only without labels.
    likelihood = tl.where((length == 0) & (labels == 0), 0.0, likelihood)
    tl.store(loss + n + tl.arange(0, 1), likelihood * -1.0)


@triton.jit
def ctc_shares(
    x,
    targets,
    counts,
    loss,
    alpha,
    shares,
    batch,
    times,
    classes,
    width,
    blank,
    target_step,
    xt,
    xn,
    xc,
    BLOCK: tl.constexpr,
):
    """Compute the share of a sequence's paths in each state at each time, divided by the state's own probability."""
    n = tl.program_id(0).to(tl.int64)
    length, labels = tl.load(counts + n), tl.load(counts + batch + n)
    first = tl.load(counts + 2 * batch + n)
    cost = tl.load(loss + n)
    state = tl.arange(0, BLOCK)
    within = state < 2 * labels + 1
    own = state_labels(targets, None, state, labels, first, target_step, blank, classes)
    after, two_after = tl.minimum(state + 1, BLOCK - 1), tl.minimum(state + 2, BLOCK - 1)
    jumps = ((state & 1) == 1) & (state + 2 < 2 * labels + 1) & (own != tl.gather(own, two_after, 0))
    place = x + n * xn + own * xc
    row = n * times * width + state
    ends = (state == 2 * labels) | (state == 2 * labels - 1)
    b = tl.full((BLOCK,), -INFINITY, x.dtype.element_ty)
    for back in range(length):
        time = length - 1 - back
        emitted = tl.load(place + time * xt, mask=within, other=-INFINITY)
        forward = tl.load(alpha + row + time * width, mask=within, other=-INFINITY)
        step = tl.where(state < 2 * labels, tl.gather(b, after, 0), -INFINITY)
        jump = tl.where(jumps, tl.gather(b, two_after, 0), -INFINITY)
        reached = tl.where(ends & (back == 0), 0.0, joined(b, step, jump))
        b = tl.where(within, reached + emitted, -INFINITY)
        share = tl.where(within, exp(forward + b + cost - emitted), 0.0)
        tl.store(shares + row + time * width, share, mask=state < width)


@triton.jit
def ctc_gradient(
    x,
    targets,
    counts,
    loss,
    shares,
    grad,
    out,
    batch,
    times,
    classes,
    width,
    blank,
    target_step,
    xt,
    xn,
    xc,
    grad_step,
    ZERO_INFINITY: tl.constexpr,
    BLOCK: tl.constexpr,
    STATES: tl.constexpr,
):
    """(exp(x) - the shares of a class's states, added in their order) * grad, for a time and a block of classes."""
    step, across = place_in_grid(batch * times)
    time, n = step // batch, step % batch
    c = across * BLOCK + tl.arange(0, BLOCK)
    inside = c < classes
    length, labels = tl.load(counts + n), tl.load(counts + batch + n)
    first = tl.load(counts + 2 * batch + n)
    cost, g = tl.load(loss + n), tl.load(grad + n * grad_step)
    value = tl.load(x + time * xt + n * xn + c * xc, mask=inside, other=0.0)
    total = tl.zeros((BLOCK, STATES), value.dtype)
    counted = tl.where(time < length, 2 * labels + 1, 0)
    if ZERO_INFINITY:
        counted = tl.where(cost == INFINITY, 0, counted)
    for base in range(0, counted, STATES):
        state = base + tl.arange(0, STATES)
        own = state_labels(targets, None, state, labels, first, target_step, blank, classes)
        share = tl.load(shares + (n * times + time) * width + state, mask=state < counted, other=0.0)
        total += tl.where(c[:, None] == own[None, :], share[None, :], 0.0)
    through = tl.sum(total, 1)
    # A sequence without paths, or a class without probability, has a NaN gradient.
    through = tl.where((value == -INFINITY) | (cost == INFINITY), float("nan"), through)
    found = tl.where(counted > 0, (exp(value) - through) * g, 0.0)
    tl.store(out + step * classes + c, found, mask=inside)


SINGLE = (Configuration((256,), 4), Configuration((1024,), 8), Configuration((4096,), 16))
DOUBLE = (Configuration((256,), 4), Configuration((1024,), 8, blocks=1), Configuration((2048,), 16))

for _kernel, _operations, _traffic in (
    (ctc_forward, "12 batch times width", "2 batch times width itemsize"),
    (ctc_shares, "14 batch times width", "3 batch times width itemsize"),
):
    declare(
        _kernel,
        warps=16,
        why="16 warps: a step waits for the one before it, not for memory; batches are smaller than the device",
        operand="x",
        dtypes={("fp32",): SINGLE, ("fp64",): DOUBLE},
        smaller=True,
        operations=_operations,
        traffic=_traffic,
    )
declare(
    ctc_gradient,
    why="32 warps: eight sums for each lane, and labels and shares that all of a time's programs find in the cache",
    operand="x",
    tile=("BLOCK", "STATES"),
    dtypes=("fp32", "fp64"),
    configurations=(Configuration((128, 8)),),
    smaller=True,
    operations="2 times batch classes width",
    traffic="2 times batch classes itemsize and times batch width itemsize",
)
