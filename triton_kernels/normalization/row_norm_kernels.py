"""Kernels of layer_norm and rms_norm: a row in registers, or longer rows block by block.

Statistics are computed in the accumulator's type: the mean first, then the mean of the squared deviations
from it. If a row does not fit, deviations are relative to the mean of its first block instead. That mean's
distance to the row's own mean is at most the deviation times sqrt(n / BLOCK_R), which bounds the cancellation
of the correction.
"""

from ...runtime.cuda.triton.lazy_triton import tl, triton
from ..budget import Configuration, declare
from ..conversion import convert
from ..elementwise.pointwise_functions import divide, rsqrt
from ..reduction.joint_reduction_kernels import finite
from ..reduction.reduction_kernels import sum_across
from .vectors import edge_columns, first_vector, loaded, sum_of_all


@triton.jit
def not_negative(a):
    """Replace negative elements by 0 and keep NaN."""
    return tl.where(a < 0, tl.zeros_like(a), a)


@triton.jit
def of_columns(parameter, first, column, inside, ALONE: tl.constexpr, ACCUMULATOR: tl.constexpr):
    """Load a parameter at some columns, from the number `first` on, as a row of a tile.

    ALONE: neighboring elements of the tile are loaded together, but not those of the parameter. In one dimension,
    the compiler would distribute them over lanes separately and exchange them in shared memory. Lanes that each
    load one of several neighbors touch as many more cache lines.
    """
    if ALONE:
        return loaded(parameter + first + column, inside, ACCUMULATOR)[None, :]
    else:
        return loaded(parameter + first + column[None, :], inside[None, :], ACCUMULATOR)


@triton.jit
def scaled_and_shifted(
    value, weight, bias, first, column, inside, ALONE: tl.constexpr, ACCUMULATOR: tl.constexpr
):
    """`value` times the weight plus the bias at these columns; each may be None."""
    if weight is not None:
        value = value * of_columns(weight, first, column, inside, ALONE, ACCUMULATOR)
    if bias is not None:
        value = value + of_columns(bias, first, column, inside, ALONE, ACCUMULATOR)
    return value


@triton.jit
def rows_alike(program, chunk, rows, PERIOD: tl.constexpr):
    """Return the first row of a program, and its first and last index; row i is the first plus PERIOD times i.

    All rows of a program thus start at the same offset in a vector and share their columns.
    """
    row = program % PERIOD
    first = program // PERIOD * chunk
    return row, first, tl.minimum(first + chunk, (rows - row + (PERIOD - 1)) // PERIOD)


@triton.jit
def columns_inside(lane, base, n, skip, VECTOR: tl.constexpr):
    """Return a mask of the columns in whole vectors of the tile at `base`; `skip` elements precede them."""
    if VECTOR > 0:
        return lane // VECTOR * VECTOR + VECTOR <= n - skip - base
    else:
        return base + lane < n


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
    chunk,
    eps,
    CENTRED: tl.constexpr,
    WHOLE: tl.constexpr,
    VECTOR: tl.constexpr,
    EDGES: tl.constexpr,
    PERIOD: tl.constexpr,
    ACCUMULATOR: tl.constexpr,
    INDEX: tl.constexpr,
    BLOCK_O: tl.constexpr,
    BLOCK_R: tl.constexpr,
):
    """Rows cut as in `vectors.py`, those of a program by PERIOD; they share the parameters that are loaded once."""
    row, first, last = rows_alike(tl.program_id(0).to(INDEX), chunk, rows, PERIOD)
    skip = first_vector(row * x_row, VECTOR) - row * x_row
    count = tl.full((BLOCK_O,), 0, ACCUMULATOR) + n.to(ACCUMULATOR)
    r = tl.arange(0, BLOCK_R).to(INDEX)
    whole_inside = columns_inside(r, 0, n, skip, VECTOR)
    if EDGES:
        column, in_edge = edge_columns(row * x_row, n, VECTOR, INDEX)
        if WHOLE:
            if weight is not None:
                weights = of_columns(weight, skip, r, whole_inside, True, weight.dtype.element_ty)
            if bias is not None:
                biases = of_columns(bias, skip, r, whole_inside, True, bias.dtype.element_ty)
    if EDGES:
        trips = (last - first + (BLOCK_O - 1)) // BLOCK_O
    else:
        # A constant, so that there is no loop.
        trips = 1
    for trip in range(trips):
        base_row = first + trip * BLOCK_O
        index = base_row + tl.arange(0, BLOCK_O).to(INDEX)
        row_mask = index < last
        o = row + index * PERIOD
        start = x + first_vector(o * x_row, VECTOR)[:, None]
        out_ptrs = out + first_vector(o * n, VECTOR)[:, None]
        mask = row_mask[:, None] & whole_inside[None, :]
        value = loaded(start + r[None, :], mask, ACCUMULATOR)
        if EDGES:
            own = row + base_row * PERIOD
            edge = loaded(x + own * x_row + column, in_edge, ACCUMULATOR)
        if WHOLE:
            if CENTRED:
                total = sum_across(value)
                if EDGES:
                    total += sum_of_all(edge)
                centre = divide(total, tl.maximum(count, 1))
                value = tl.where(mask, value - centre[:, None], 0)
                if EDGES:
                    edge = tl.where(in_edge, edge - sum_of_all(centre), 0)
            total = sum_across(value * value)
            if EDGES:
                total += sum_of_all(edge * edge)
            spread = divide(total, count)
        else:
            if CENTRED:
                pivot = finite(sum_across(value) * (1.0 / BLOCK_R))
            sums = tl.full((BLOCK_O, BLOCK_R), 0, ACCUMULATOR)
            squares = tl.full((BLOCK_O, BLOCK_R), 0, ACCUMULATOR)
            for base in range(0, n, BLOCK_R):
                mask = row_mask[:, None] & columns_inside(r, base, n, skip, VECTOR)[None, :]
                value = loaded(start + (base + r)[None, :], mask, ACCUMULATOR, "evict_last")
                if CENTRED:
                    value = tl.where(mask, value - pivot[:, None], 0)
                    sums += value
                squares += value * value
            total = sum_across(squares)
            if EDGES:
                if CENTRED:
                    edge = tl.where(in_edge, edge - sum_of_all(pivot), 0)
                total += sum_of_all(edge * edge)
            spread = divide(total, count)
            if CENTRED:
                total = sum_across(sums)
                if EDGES:
                    total += sum_of_all(edge)
                shift = divide(total, count)
                spread = not_negative(spread - shift * shift)
                centre = pivot + shift
                if EDGES:
                    edge -= sum_of_all(shift)
        factor = rsqrt(spread + eps.to(ACCUMULATOR))
        if CENTRED:
            tl.store(mean + o, convert(centre, mean.dtype.element_ty), mask=row_mask)
        tl.store(rstd + o, convert(factor, rstd.dtype.element_ty), mask=row_mask)
        factor = factor[:, None]
        if WHOLE:
            result = value * factor
            if EDGES:
                if weight is not None:
                    result = result * convert(weights, ACCUMULATOR)
                if bias is not None:
                    result = result + convert(biases, ACCUMULATOR)
            else:
                result = scaled_and_shifted(result, weight, bias, 0, r, whole_inside, False, ACCUMULATOR)
            tl.store(out_ptrs + r[None, :], convert(result, out.dtype.element_ty), mask=mask)
        else:
            for base in range(0, n, BLOCK_R):
                inside = columns_inside(r, base, n, skip, VECTOR)
                mask = row_mask[:, None] & inside[None, :]
                value = loaded(start + (base + r)[None, :], mask, ACCUMULATOR, "evict_first")
                if CENTRED:
                    value = value - centre[:, None]
                result = scaled_and_shifted(
                    value * factor, weight, bias, skip + base, r, inside, EDGES, ACCUMULATOR
                )
                tl.store(out_ptrs + (base + r)[None, :], convert(result, out.dtype.element_ty), mask=mask)
        if EDGES:
            edge = edge * sum_of_all(sum_across(factor))
            if weight is not None:
                edge = edge * loaded(weight + column, in_edge, ACCUMULATOR)
            if bias is not None:
                edge = edge + loaded(bias + column, in_edge, ACCUMULATOR)
            tl.store(out + own * n + column, convert(edge, out.dtype.element_ty), mask=in_edge)


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
# Longer rows are held by a cluster's blocks, 16 elements for each lane. Rows with edges also keep weight and bias in
# registers, and have one block of a multiprocessor; others need so few registers that two are resident.
CLUSTERS = (
    Configuration((1, 16384), 16, blocks={90: 1, 100: 1}, ctas=2),
    Configuration((1, 32768), 16, blocks={90: 1, 100: 1}, ctas=4),
    Configuration((1, 65536), 16, blocks={90: 1, 100: 1}, ctas=8),
    Configuration((1, 131072), 32, blocks={90: 1, 100: 1}, ctas=8),
)
LONGEST_CLUSTER = Configuration((1, 262144), 32, blocks={90: 1, 100: 1}, ctas=8)
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
    dtypes={
        ("fp16", "bf16"): (*FORWARD, LONGEST, *CLUSTERS, LONGEST_CLUSTER),
        ("fp32",): (*FORWARD, *CLUSTERS),
        ("fp64",): FORWARD_DOUBLE,
    },
    smaller=True,
    operations="7 rows n",
    traffic="2 rows n itemsize, and n itemsize of weight and bias each; of rows longer than a tile 3",
    loads=("x", "weight", "bias"),
    stores=("out",),
)
