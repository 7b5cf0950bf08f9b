"""Kernels of cross entropy: rows of scores are read once forward, and once more for their gradient.

The loss of a sample is the sum over classes c of ``mass_c * (normaliser - x_c)``. The masses come from the
target: the weight of its class, or weighted probabilities, smoothed. Forward stores three numbers for each
sample: its largest score, the logarithm of the sum of exponentials relative to it, and the sum of its masses.
They give each element of the gradient without reading its row. Two numbers represent the normalizer, since
their sum would round off the difference between probabilities near 1.
"""

from ...runtime.cuda.triton.lazy_triton import tl, triton
from ..budget import STREAMING, Configuration, declare
from ..conversion import convert
from ..elementwise.pointwise_functions import divide, exp, log
from ..normalization.softmax_kernels import clusters
from ..normalization.vectors import edge_columns, first_vector, inside, largest_of, room_after, sum_of_all
from ..reduction.joint_reduction_kernels import finite, shifted_sums, shifted_sums_across
from ..reduction.last_program import is_last
from ..reduction.reduction_kernels import largest, largest_across, offset_of, sum_across, sum_in_order
from .loss_kernels import class_and_weight


@triton.jit
def kept_of(smoothing, ACCUMULATOR: tl.constexpr):
    """Return the share of a target that label smoothing leaves to it."""
    return (1.0 - smoothing).to(ACCUMULATOR)


@triton.jit
def masses_spread(
    target,
    weight,
    column,
    mask,
    weight_stride,
    smoothing,
    classes,
    PROBABILITIES: tl.constexpr,
    ACCUMULATOR: tl.constexpr,
):
    """Return the probability masses outside a sample's own class: given probabilities, or the smoothing's share of
    each class.

    `target` points at the probabilities of the columns. Smoothing is distributed evenly over all classes.
    """
    mass = tl.zeros(mask.shape, ACCUMULATOR)
    if PROBABILITIES:
        mass = convert(tl.load(target, mask=mask, other=0), ACCUMULATOR)
        if smoothing is not None:
            mass = mass * kept_of(smoothing, ACCUMULATOR)
    if smoothing is not None:
        mass += (smoothing / classes.to(tl.float64)).to(ACCUMULATOR)
    if weight is not None:
        mass = mass * convert(tl.load(weight + column * weight_stride, mask=mask, other=0), ACCUMULATOR)
    return mass


@triton.jit
def losses_of(value, row_max, log_total, mass, mask):
    """Return the contributions of elements to the loss of their row, and their masses."""
    return tl.where(mask, mass * (log_total - (value - row_max)), 0.0), tl.where(mask, mass, 0.0)


@triton.jit
def cross_entropy(
    x,
    target,
    weight,
    loss,
    statistics,
    total_weight,
    partials,
    counter,
    flag,
    smoothing,
    weight_stride,
    ignore_index,
    programs,
    samples,
    num_rows,
    n,
    chunk,
    kept_size0,
    kept_size1,
    kept_size2,
    x_kept_stride0,
    x_kept_stride1,
    x_kept_stride2,
    x_kept_stride3,
    target_kept_stride0,
    target_kept_stride1,
    target_kept_stride2,
    target_kept_stride3,
    out_kept_stride0,
    out_kept_stride1,
    out_kept_stride2,
    out_kept_stride3,
    x_reduced_stride0,
    target_reduced_stride0,
    MEAN: tl.constexpr,
    PROBABILITIES: tl.constexpr,
    ACCUMULATOR: tl.constexpr,
    KEPT: tl.constexpr,
    INDEX: tl.constexpr,
    WHOLE: tl.constexpr,
    VECTOR: tl.constexpr,
    EDGES: tl.constexpr,
    BLOCK_O: tl.constexpr,
    BLOCK_R: tl.constexpr,
    BLOCK_P: tl.constexpr,
):
    """Compute the losses of `chunk` samples; rows are split as in `vectors.py`, with EDGES element by element.

    With `partials`, losses and weights are summed in float64, and the last program divides; else `loss` has one
    element for each sample. `smoothing` and `weight` may be None. A wrong target raises `flag`.
    """
    program = tl.program_id(0)
    first = program.to(INDEX) * chunk
    last = tl.minimum(first + chunk, num_rows)
    lane = tl.arange(0, BLOCK_R).to(INDEX)[None, :]
    # L2 is to have the rows that a second pass reads for their masses.
    FIRST_PASS: tl.constexpr = "evict_last" if PROBABILITIES or smoothing is not None else ""
    losses = tl.zeros((BLOCK_O,), tl.float64)
    weights = tl.zeros((BLOCK_O,), tl.float64)
    for base_o in range(first, last, BLOCK_O):
        o = base_o + tl.arange(0, BLOCK_O).to(INDEX)
        row_mask = o < last
        start = offset_of(
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
        target_start = offset_of(
            o,
            kept_size0,
            kept_size1,
            kept_size2,
            target_kept_stride0,
            target_kept_stride1,
            target_kept_stride2,
            target_kept_stride3,
            KEPT,
        )
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
        begin = first_vector(start, VECTOR)
        room = room_after(begin, start, n, row_mask, VECTOR)
        rows = x + begin[:, None]
        targets = target + first_vector(target_start, VECTOR)[:, None]
        skip = (begin - start)[:, None]
        row_loss = tl.zeros((BLOCK_O,), ACCUMULATOR)
        row_mass = tl.zeros((BLOCK_O,), ACCUMULATOR)
        if EDGES:
            own = sum_of_all(start)
            column, at_edge = edge_columns(own, n, VECTOR, INDEX)
            edge = convert(tl.load(x + own + column, mask=at_edge, other=float("-inf")), ACCUMULATOR)
        if WHOLE:
            mask = inside(lane, 0, room, row_mask, VECTOR)
            value = convert(
                tl.load(rows + lane * x_reduced_stride0, mask=mask, other=float("-inf")), ACCUMULATOR
            )
            row_max = largest_across(value)
            if EDGES:
                row_max = largest(row_max, tl.zeros_like(row_max) + largest_of(edge))
            total = sum_across(tl.where(mask, exp(value - row_max[:, None]), 0.0))
            if EDGES:
                total += sum_of_all(tl.where(at_edge, exp(edge - sum_of_all(row_max)), 0.0))
        else:
            highest = tl.full((BLOCK_O, BLOCK_R), float("-inf"), ACCUMULATOR)
            sums = tl.full((BLOCK_O, BLOCK_R), 0, ACCUMULATOR)
            one = tl.full((1, 1), 1, ACCUMULATOR)
            for base in range(0, n, BLOCK_R):
                mask = inside(lane, base, room, row_mask, VECTOR)
                value = tl.load(
                    rows + (base + lane) * x_reduced_stride0,
                    mask=mask,
                    other=float("-inf"),
                    eviction_policy=FIRST_PASS,
                )
                highest, sums = shifted_sums(highest, sums, convert(value, ACCUMULATOR), one)
            row_max, total = shifted_sums_across((highest, sums))
            if EDGES:
                edge_max = tl.zeros_like(row_max) + largest_of(edge)
                edge_total = tl.where(at_edge, exp(edge - sum_of_all(finite(edge_max))), 0.0)
                row_max, total = shifted_sums(
                    row_max, total, edge_max, tl.zeros_like(row_max) + sum_of_all(edge_total)
                )
            # Differences to an infinite maximum are NaN.
            total = tl.where(finite(row_max) == row_max, total, float("nan")).to(ACCUMULATOR)
        log_total = log(total)
        if PROBABILITIES or smoothing is not None:
            if WHOLE:
                mass = masses_spread(
                    targets + lane * target_reduced_stride0,
                    weight,
                    skip + lane,
                    mask,
                    weight_stride,
                    smoothing,
                    n,
                    PROBABILITIES,
                    ACCUMULATOR,
                )
                parts, masses = losses_of(value, row_max[:, None], log_total[:, None], mass, mask)
            else:
                parts = tl.full((BLOCK_O, BLOCK_R), 0, ACCUMULATOR)
                masses = tl.full((BLOCK_O, BLOCK_R), 0, ACCUMULATOR)
                for base in range(0, n, BLOCK_R):
                    at = base + lane
                    mask = inside(lane, base, room, row_mask, VECTOR)
                    value = tl.load(
                        rows + at * x_reduced_stride0,
                        mask=mask,
                        other=float("-inf"),
                        eviction_policy="evict_first",
                    )
                    value = convert(value, ACCUMULATOR)
                    mass = masses_spread(
                        targets + at * target_reduced_stride0,
                        weight,
                        skip + at,
                        mask,
                        weight_stride,
                        smoothing,
                        n,
                        PROBABILITIES,
                        ACCUMULATOR,
                    )
                    part, mass = losses_of(value, row_max[:, None], log_total[:, None], mass, mask)
                    parts += part
                    masses += mass
            row_loss = sum_across(parts)
            row_mass = sum_across(masses)
            if EDGES:
                mass = masses_spread(
                    target + sum_of_all(target_start) + column,
                    weight,
                    column,
                    at_edge,
                    weight_stride,
                    smoothing,
                    n,
                    PROBABILITIES,
                    ACCUMULATOR,
                )
                part, mass = losses_of(edge, sum_of_all(row_max), sum_of_all(log_total), mass, at_edge)
                row_loss += sum_of_all(part)
                row_mass += sum_of_all(mass)
        row_weight = row_mask.to(ACCUMULATOR)
        if not PROBABILITIES:
            index, row_weight, counts, wrong = class_and_weight(
                tl.load(target + target_start, mask=row_mask, other=0),
                weight,
                row_mask,
                n,
                ignore_index,
                weight_stride,
                ACCUMULATOR,
            )
            tl.store(flag + tl.zeros_like(o), 1, mask=wrong)
            picked = convert(
                tl.load(x + start + index * x_reduced_stride0, mask=counts, other=0), ACCUMULATOR
            )
            own_mass = row_weight
            if smoothing is not None:
                own_mass = own_mass * kept_of(smoothing, ACCUMULATOR)
            own_loss = tl.where(row_weight == 0, 0.0, own_mass * (log_total - (picked - row_max)))
            row_loss = tl.where(counts, row_loss, 0.0) + own_loss
            row_mass = tl.where(counts, row_mass, 0.0) + own_mass
        at = statistics + out_offset
        tl.store(at, row_max, mask=row_mask)
        tl.store(at + samples, log_total, mask=row_mask)
        tl.store(at + 2 * samples, row_mass.to(ACCUMULATOR), mask=row_mask)
        if partials is None:
            tl.store(
                loss + out_offset, convert(row_loss.to(ACCUMULATOR), loss.dtype.element_ty), mask=row_mask
            )
        else:
            losses += tl.where(row_mask, row_loss, 0.0).to(tl.float64)
            weights += row_weight.to(tl.float64)
    if partials is None:
        tl.store(total_weight, tl.zeros((), total_weight.dtype.element_ty), mask=program == 0)
    else:
        tl.store(partials + program, sum_of_all(losses))
        tl.store(partials + programs + program, sum_of_all(weights))
        if is_last(counter, programs):
            result, divisor = (
                sum_in_order(partials, programs, BLOCK_P),
                sum_in_order(partials + programs, programs, BLOCK_P),
            )
            if MEAN:
                result = result / divisor
                if smoothing is not None and not PROBABILITIES:
                    # The mean over no weights, added to that of what smoothing gives to classes.
                    result = tl.where(divisor == 0, float("nan"), result)
            tl.store(loss, convert(result.to(ACCUMULATOR), loss.dtype.element_ty))
            tl.store(total_weight, divisor.to(ACCUMULATOR))


@triton.jit
def cross_entropy_backward(
    grad,
    x,
    target,
    weight,
    statistics,
    total_weight,
    out,
    smoothing,
    weight_stride,
    ignore_index,
    samples,
    num_rows,
    n,
    kept_size0,
    kept_size1,
    kept_size2,
    out_kept_stride0,
    out_kept_stride1,
    out_kept_stride2,
    out_kept_stride3,
    x_kept_stride0,
    x_kept_stride1,
    x_kept_stride2,
    x_kept_stride3,
    target_kept_stride0,
    target_kept_stride1,
    target_kept_stride2,
    target_kept_stride3,
    stats_kept_stride0,
    stats_kept_stride1,
    stats_kept_stride2,
    stats_kept_stride3,
    grad_kept_stride0,
    grad_kept_stride1,
    grad_kept_stride2,
    grad_kept_stride3,
    out_reduced_stride0,
    x_reduced_stride0,
    target_reduced_stride0,
    MEAN: tl.constexpr,
    PROBABILITIES: tl.constexpr,
    ACCUMULATOR: tl.constexpr,
    KEPT: tl.constexpr,
    INDEX: tl.constexpr,
    VECTOR: tl.constexpr,
    EDGES: tl.constexpr,
    BLOCK_O: tl.constexpr,
    BLOCK_R: tl.constexpr,
):
    """Tiles of samples by classes: the gradient is the probability times the sum of the masses, less the mass."""
    o = tl.program_id(0).to(INDEX) * BLOCK_O + tl.arange(0, BLOCK_O).to(INDEX)
    part = tl.program_id(1)
    row_mask = o < num_rows
    start = offset_of(
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
    target_start = offset_of(
        o,
        kept_size0,
        kept_size1,
        kept_size2,
        target_kept_stride0,
        target_kept_stride1,
        target_kept_stride2,
        target_kept_stride3,
        KEPT,
    )
    out_start = offset_of(
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
    begin = first_vector(start, VECTOR)
    room = room_after(begin, start, n, row_mask, VECTOR)
    base = part.to(INDEX) * BLOCK_R
    lane = tl.arange(0, BLOCK_R).to(INDEX)[None, :]
    mask = inside(lane, base, room, row_mask, VECTOR)
    at = base + lane
    value = convert(tl.load(x + begin[:, None] + at * x_reduced_stride0, mask=mask, other=0), ACCUMULATOR)
    kept = statistics + offset_of(
        o,
        kept_size0,
        kept_size1,
        kept_size2,
        stats_kept_stride0,
        stats_kept_stride1,
        stats_kept_stride2,
        stats_kept_stride3,
        KEPT,
    )
    row_max = tl.load(kept, mask=row_mask, other=0)
    log_total = tl.load(kept + samples, mask=row_mask, other=0)
    total_mass = tl.load(kept + 2 * samples, mask=row_mask, other=0)
    grad_value = tl.load(
        grad
        + offset_of(
            o,
            kept_size0,
            kept_size1,
            kept_size2,
            grad_kept_stride0,
            grad_kept_stride1,
            grad_kept_stride2,
            grad_kept_stride3,
            KEPT,
        ),
        mask=row_mask,
        other=0,
    )
    grad_value = convert(grad_value, ACCUMULATOR)
    if MEAN:
        divisor = tl.zeros_like(grad_value) + tl.load(total_weight)
        grad_value = divide(grad_value, divisor)
        if smoothing is not None and not PROBABILITIES:
            grad_value = tl.where(divisor == 0, float("nan"), grad_value)
    own_mass = tl.zeros_like(grad_value)
    index = o * 0
    if not PROBABILITIES:
        index, own_mass, counts, _ = class_and_weight(
            tl.load(target + target_start, mask=row_mask, other=0),
            weight,
            row_mask,
            n,
            ignore_index,
            weight_stride,
            ACCUMULATOR,
        )
        if smoothing is None:
            # Nothing is left of a sample whose weight is 0, not even where all of them are and are divided by.
            counts = counts & (own_mass != 0)
        else:
            own_mass = own_mass * kept_of(smoothing, ACCUMULATOR)
        grad_value = tl.where(counts, grad_value, 0.0)
    spread = tl.zeros((1, 1), ACCUMULATOR)
    if PROBABILITIES or smoothing is not None:
        targets = target + first_vector(target_start, VECTOR)[:, None] + at * target_reduced_stride0
        column = (begin - start)[:, None] + at
        spread = masses_spread(
            targets, weight, column, mask, weight_stride, smoothing, n, PROBABILITIES, ACCUMULATOR
        )
    result = exp((value - row_max[:, None]) - log_total[:, None]) * total_mass[:, None] - spread
    if not PROBABILITIES:
        result = result - tl.where((begin - start)[:, None] + at == index[:, None], own_mass[:, None], 0.0)
    result = convert((result * grad_value[:, None]).to(ACCUMULATOR), out.dtype.element_ty)
    tl.store(out + first_vector(out_start, VECTOR)[:, None] + at * out_reduced_stride0, result, mask=mask)
    if EDGES:
        # One of a row's programs has its edges.
        own = sum_of_all(start)
        column, at_edge = edge_columns(own, n, VECTOR, INDEX)
        at_edge = at_edge & (part == 0)
        edge = convert(tl.load(x + own + column, mask=at_edge, other=0), ACCUMULATOR)
        spread = tl.zeros_like(edge)
        if PROBABILITIES or smoothing is not None:
            spread = masses_spread(
                target + sum_of_all(target_start) + column,
                weight,
                column,
                at_edge,
                weight_stride,
                smoothing,
                n,
                PROBABILITIES,
                ACCUMULATOR,
            )
        result = exp((edge - sum_of_all(row_max)) - sum_of_all(log_total)) * sum_of_all(total_mass) - spread
        if not PROBABILITIES:
            result = result - tl.where(column == sum_of_all(index), sum_of_all(own_mass), 0.0)
        result = convert((result * sum_of_all(grad_value)).to(ACCUMULATOR), out.dtype.element_ty)
        tl.store(out + sum_of_all(out_start) + column, result, mask=at_edge)


# As in softmax: smaller tiles with as many warps are those of longer rows, read in blocks of half as much.
FORWARD = (
    Configuration((1, 4096), 8, blocks=3),
    Configuration((1, 8192), 16, blocks=1),
    Configuration((2, 1024), 4, blocks=6),
    Configuration((1, 4096), 16, blocks=1),
    Configuration((32, 256), 16, blocks=1),
    Configuration((32, 64), 8, blocks=2),
)
CLUSTERS = clusters({90: 1, 100: 1})
DOUBLE = (
    Configuration((1, 4096), 16, blocks=1),
    Configuration((1, 2048), 16, blocks=1, all_registers=True),
    Configuration((2, 1024), 8, blocks=2, all_registers=True),
    Configuration((32, 128), 16, blocks=1),
    Configuration((32, 32), 8, blocks=2),
)

declare(
    cross_entropy,
    why="16 to 24 warps: of the longest rows one block where masses are kept beside scores, and two where not, so that "
    "one loads while the other adds up",
    operand="x",
    tile=("BLOCK_O", "BLOCK_R"),
    dtypes={("fp16", "bf16", "fp32"): (*FORWARD, *CLUSTERS), ("fp64",): DOUBLE},
    smaller=True,
    operations="4 num_rows n, an exponential counted as one",
    traffic="num_rows (n itemsize + 8 + 12); twice that of smoothed rows that are longer than a tile",
    loads=("x",),
    local={
        "EDGES": (
            24,
            "of smoothed rows the compiler for sm_100 keeps to 64 registers, so that two blocks are resident, and puts "
            "six numbers by",
        )
    },
)
declare(
    cross_entropy_backward,
    why=STREAMING,
    operand="x",
    tile=("BLOCK_O", "BLOCK_R"),
    dtypes={
        ("fp16", "bf16", "fp32"): (Configuration((1, 1024)), Configuration((64, 16))),
        ("fp64",): (Configuration((1, 512)), Configuration((32, 16))),
    },
    smaller=True,
    operations="5 num_rows n",
    traffic="num_rows (2 n itemsize + 8 + 12)",
    loads=("x",),
    stores=("out",),
)
