"""The programs of the gradients of layer_norm and rms_norm: rows as forward, and columns of long rows."""

from ...runtime.cuda.triton.lazy_triton import tl, triton
from ..budget import Configuration, declare
from ..conversion import convert
from ..elementwise.pointwise_functions import divide
from ..programmatic import let_later_begin, wait_for_earlier
from ..reduction.reduction_kernels import sum_across, sum_of
from .row_norm_kernels import columns_inside, of_columns, rows_alike, scaled_and_shifted
from .vectors import edge_columns, first_vector, loaded, sum_of_all


@triton.jit
def sums_down(tile, out):
    """Sum a tile's columns, in the dtype that `out` points at."""
    return convert(tl.reduce(tile, 0, sum_of), out.dtype.element_ty)


@triton.jit
def kept_statistic(at, o, row_mask, ACCUMULATOR: tl.constexpr):
    return loaded(at + o, row_mask, ACCUMULATOR)[:, None]


@triton.jit
def standardised(
    at, mask, centre, scale, CENTRED: tl.constexpr, ACCUMULATOR: tl.constexpr, EVICTION: tl.constexpr = ""
):
    """Standardize inputs: subtract the mean and divide by the deviation; 0 outside the mask."""
    value = loaded(at, mask, ACCUMULATOR, EVICTION)
    if CENTRED:
        value = value - centre
    return tl.where(mask, value * scale, 0)


@triton.jit
def normalise_rows_backward(
    grad,
    x,
    mean,
    rstd,
    weight,
    grad_input,
    grad_weight,
    grad_bias,
    rows,
    n,
    g_row,
    x_row,
    chunk,
    CENTRED: tl.constexpr,
    WHOLE: tl.constexpr,
    VECTOR: tl.constexpr,
    EDGES: tl.constexpr,
    PERIOD: tl.constexpr,
    ACCUMULATOR: tl.constexpr,
    INDEX: tl.constexpr,
    BLOCK_O: tl.constexpr,
    BLOCK_R: tl.constexpr,
    LEADS: tl.constexpr,
):
    """Compute the gradients of `chunk` rows, and their sums for weight and bias; another kernel adds those of all
    programs.

    Each of the three results may be None; without WHOLE, weight's and bias's are.
    """
    let_later_begin(LEADS)
    row, first, last = rows_alike(tl.program_id(0).to(INDEX), chunk, rows, PERIOD)
    skip = first_vector(row * x_row, VECTOR) - row * x_row
    r = tl.arange(0, BLOCK_R).to(INDEX)
    count = tl.full((BLOCK_O,), 0, ACCUMULATOR) + n.to(ACCUMULATOR)
    inside = columns_inside(r, 0, n, skip, VECTOR)
    if EDGES:
        column, in_edge = edge_columns(row * x_row, n, VECTOR, INDEX)
        if weight is not None:
            edge_factor = loaded(weight + column, in_edge, ACCUMULATOR)
    if WHOLE:
        if weight is not None:
            factor = of_columns(weight, skip, r, inside, EDGES, ACCUMULATOR)
        if grad_weight is not None:
            of_weight = tl.full((BLOCK_O, BLOCK_R), 0, ACCUMULATOR)
            edge_of_weight = tl.full((2 * max(VECTOR, 1),), 0, ACCUMULATOR)
        if grad_bias is not None:
            of_bias = tl.full((BLOCK_O, BLOCK_R), 0, ACCUMULATOR)
            edge_of_bias = tl.full((2 * max(VECTOR, 1),), 0, ACCUMULATOR)
    for base_row in range(first, last, BLOCK_O):
        index = base_row + tl.arange(0, BLOCK_O).to(INDEX)
        row_mask = index < last
        o = row + index * PERIOD
        scale = kept_statistic(rstd, o, row_mask, ACCUMULATOR)
        centre = scale
        if CENTRED:
            centre = kept_statistic(mean, o, row_mask, ACCUMULATOR)
        from_grad = grad + first_vector(o * g_row, VECTOR)[:, None]
        from_x = x + first_vector(o * x_row, VECTOR)[:, None]
        if grad_input is not None:
            into = grad_input + first_vector(o * n, VECTOR)[:, None]
        if EDGES:
            own = row + base_row * PERIOD
            own_scale = convert(tl.load(rstd + own), ACCUMULATOR)
            own_centre = own_scale
            if CENTRED:
                own_centre = convert(tl.load(mean + own), ACCUMULATOR)
            edge_grad = loaded(grad + own * g_row + column, in_edge, ACCUMULATOR)
            edge = x + own * x_row + column
            edge = standardised(edge, in_edge, own_centre, own_scale, CENTRED, ACCUMULATOR)
            if grad_weight is not None:
                edge_of_weight += edge_grad * edge
            if grad_bias is not None:
                edge_of_bias += edge_grad
            if weight is not None:
                edge_grad = edge_grad * edge_factor
        if WHOLE:
            mask = row_mask[:, None] & inside[None, :]
            grad_value = loaded(from_grad + r[None, :], mask, ACCUMULATOR)
            hat = standardised(from_x + r[None, :], mask, centre, scale, CENTRED, ACCUMULATOR)
            if grad_weight is not None:
                of_weight += grad_value * hat
            if grad_bias is not None:
                of_bias += grad_value
            if weight is not None:
                grad_value = grad_value * factor
            along = sum_across(grad_value * hat)
            if CENTRED:
                shift = sum_across(grad_value)
        else:
            alongs = tl.full((BLOCK_O, BLOCK_R), 0, ACCUMULATOR)
            changes = tl.full((BLOCK_O, BLOCK_R), 0, ACCUMULATOR)
            for base in range(0, n, BLOCK_R):
                at = base + r
                inside = columns_inside(r, base, n, skip, VECTOR)
                mask = row_mask[:, None] & inside[None, :]
                grad_value = loaded(from_grad + at[None, :], mask, ACCUMULATOR, "evict_last")
                grad_value = scaled_and_shifted(
                    grad_value, weight, None, skip + base, r, inside, EDGES, ACCUMULATOR
                )
                hat = standardised(
                    from_x + at[None, :], mask, centre, scale, CENTRED, ACCUMULATOR, "evict_last"
                )
                alongs += grad_value * hat
                if CENTRED:
                    changes += grad_value
            along, shift = sum_across(alongs), sum_across(changes)
        if grad_input is not None:
            if EDGES:
                along += sum_of_all(edge_grad * edge)
            along = divide(along, count)[:, None]
            if CENTRED:
                if EDGES:
                    shift += sum_of_all(edge_grad)
                shift = divide(shift, count)[:, None]
            if WHOLE:
                result = grad_value - hat * along
                if CENTRED:
                    result = result - shift
                tl.store(into + r[None, :], convert(result * scale, grad_input.dtype.element_ty), mask=mask)
            else:
                for base in range(0, n, BLOCK_R):
                    at = base + r
                    inside = columns_inside(r, base, n, skip, VECTOR)
                    mask = row_mask[:, None] & inside[None, :]
                    grad_value = loaded(from_grad + at[None, :], mask, ACCUMULATOR, "evict_first")
                    grad_value = scaled_and_shifted(
                        grad_value, weight, None, skip + base, r, inside, EDGES, ACCUMULATOR
                    )
                    hat = standardised(
                        from_x + at[None, :], mask, centre, scale, CENTRED, ACCUMULATOR, "evict_first"
                    )
                    result = grad_value - hat * along
                    if CENTRED:
                        result = result - shift
                    tl.store(
                        into + at[None, :], convert(result * scale, grad_input.dtype.element_ty), mask=mask
                    )
            if EDGES:
                result = edge_grad - edge * sum_of_all(sum_across(along))
                if CENTRED:
                    result = result - sum_of_all(sum_across(shift))
                result = convert(result * own_scale, grad_input.dtype.element_ty)
                tl.store(grad_input + own * n + column, result, mask=in_edge)
    if WHOLE:
        part = tl.program_id(0).to(INDEX) * n
        if grad_weight is not None:
            tl.store(grad_weight + part + skip + r, sums_down(of_weight, grad_weight), mask=inside)
            if EDGES:
                tl.store(grad_weight + part + column, edge_of_weight, mask=in_edge)
        if grad_bias is not None:
            tl.store(grad_bias + part + skip + r, sums_down(of_bias, grad_bias), mask=inside)
            if EDGES:
                tl.store(grad_bias + part + column, edge_of_bias, mask=in_edge)


@triton.jit
def weight_gradients(
    grad,
    x,
    mean,
    rstd,
    grad_weight,
    grad_bias,
    rows,
    n,
    g_row,
    x_row,
    chunk,
    CENTRED: tl.constexpr,
    VECTOR: tl.constexpr,
    EDGES: tl.constexpr,
    PERIOD: tl.constexpr,
    ACCUMULATOR: tl.constexpr,
    INDEX: tl.constexpr,
    BLOCK_O: tl.constexpr,
    BLOCK_R: tl.constexpr,
    LEADS: tl.constexpr,
):
    """Sum columns over `chunk` rows, to be summed again later; either result may be None.

    The first programs of a part also have the columns outside of whole vectors.
    """
    let_later_begin(LEADS)
    lane = tl.arange(0, BLOCK_R).to(INDEX)
    base = tl.program_id(0).to(INDEX) * BLOCK_R
    row, first, last = rows_alike(tl.program_id(1).to(INDEX), chunk, rows, PERIOD)
    skip = first_vector(row * x_row, VECTOR) - row * x_row
    inside = columns_inside(lane, base, n, skip, VECTOR)
    part = tl.program_id(1).to(INDEX) * n
    of_weight = tl.full((BLOCK_O, BLOCK_R), 0, ACCUMULATOR)
    of_bias = tl.full((BLOCK_O, BLOCK_R), 0, ACCUMULATOR)
    for base_row in range(first, last, BLOCK_O):
        index = base_row + tl.arange(0, BLOCK_O).to(INDEX)
        row_mask = index < last
        o = row + index * PERIOD
        mask = row_mask[:, None] & inside[None, :]
        at = grad + first_vector(o * g_row, VECTOR)[:, None]
        grad_value = loaded(at + (base + lane)[None, :], mask, ACCUMULATOR)
        if grad_bias is not None:
            of_bias += grad_value
        if grad_weight is not None:
            scale = kept_statistic(rstd, o, row_mask, ACCUMULATOR)
            centre = scale
            if CENTRED:
                centre = kept_statistic(mean, o, row_mask, ACCUMULATOR)
            at = x + first_vector(o * x_row, VECTOR)[:, None]
            at += (base + lane)[None, :]
            of_weight += grad_value * standardised(at, mask, centre, scale, CENTRED, ACCUMULATOR)
    if grad_weight is not None:
        tl.store(grad_weight + part + skip + base + lane, sums_down(of_weight, grad_weight), mask=inside)
    if grad_bias is not None:
        tl.store(grad_bias + part + skip + base + lane, sums_down(of_bias, grad_bias), mask=inside)
    if EDGES and base == 0:
        column, in_edge = edge_columns(row * x_row, n, VECTOR, INDEX)
        edge_of_weight = tl.full((BLOCK_O, 2 * VECTOR), 0, ACCUMULATOR)
        edge_of_bias = tl.full((BLOCK_O, 2 * VECTOR), 0, ACCUMULATOR)
        for base_row in range(first, last, BLOCK_O):
            index = base_row + tl.arange(0, BLOCK_O).to(INDEX)
            row_mask = index < last
            o = row + index * PERIOD
            mask = row_mask[:, None] & in_edge[None, :]
            grad_value = loaded(grad + ((o * g_row)[:, None] + column[None, :]), mask, ACCUMULATOR)
            edge_of_bias += grad_value
            if grad_weight is not None:
                scale = kept_statistic(rstd, o, row_mask, ACCUMULATOR)
                centre = scale
                if CENTRED:
                    centre = kept_statistic(mean, o, row_mask, ACCUMULATOR)
                at = x + ((o * x_row)[:, None] + column[None, :])
                edge_of_weight += grad_value * standardised(at, mask, centre, scale, CENTRED, ACCUMULATOR)
        if grad_weight is not None:
            tl.store(grad_weight + part + column, sums_down(edge_of_weight, grad_weight), mask=in_edge)
        if grad_bias is not None:
            tl.store(grad_bias + part + column, sums_down(edge_of_bias, grad_bias), mask=in_edge)


@triton.jit
def add_up_parts(
    first,
    second,
    to_first,
    to_second,
    parts,
    n,
    ACCUMULATOR: tl.constexpr,
    INDEX: tl.constexpr,
    BLOCK_O: tl.constexpr,
    BLOCK_R: tl.constexpr,
    OVERLAPS: tl.constexpr,
):
    """Sum the gradients of weight and bias over the parts of the rows; for one of them alone, the second is None.

    Each lane adds every BLOCK_O-th part, then a tree adds the lanes.
    """
    wait_for_earlier(OVERLAPS)
    column = tl.program_id(0).to(INDEX) * BLOCK_R + tl.arange(0, BLOCK_R).to(INDEX)
    inside = column < n
    sums = tl.full((BLOCK_O, BLOCK_R), 0, ACCUMULATOR)
    is_first = tl.program_id(1) == 0
    for base in range(0, parts, BLOCK_O):
        part = base + tl.arange(0, BLOCK_O).to(INDEX)
        mask = (part < parts)[:, None] & inside[None, :]
        at = part[:, None] * n + column[None, :]
        if second is None:
            sums += loaded(first + at, mask, ACCUMULATOR)
        else:
            sums += loaded(tl.where(is_first, first, second) + at, mask, ACCUMULATOR)
    if second is None:
        tl.store(to_first + column, sums_down(sums, to_first), mask=inside)
    else:
        tl.store(to_first + column, sums_down(sums, to_first), mask=inside & is_first)
        tl.store(to_second + column, sums_down(sums, to_second), mask=inside & (is_first == 0))


BACKWARD = (
    # With odd lengths each element has an address and a mask, which sm_100's compiler keeps beside the sums.
    Configuration((1, 4096), 8, blocks={80: 2, 90: 2, 100: 1}),
    Configuration((1, 8192), 16, blocks=1),
    Configuration((2, 1024), 4, blocks=4),
    Configuration((2, 1024), 8, blocks=2),
)
CLUSTERS = (
    Configuration((1, 16384), 16, blocks={90: 1, 100: 1}, ctas=2),
    Configuration((1, 32768), 16, blocks={90: 1, 100: 1}, ctas=4),
    Configuration((1, 65536), 16, blocks={90: 1, 100: 1}, ctas=8),
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
    # Eight warps over rows of 1024 leave a lane half a vector of 16-bit floats.
    dtypes={
        ("fp32",): (*BACKWARD, *CLUSTERS),
        ("fp16", "bf16"): (*BACKWARD[:-1], *CLUSTERS),
        ("fp64",): BACKWARD_DOUBLE,
    },
    smaller=True,
    operations="12 rows n",
    traffic="3 rows n itemsize, and 8 n for each program of whole rows; of rows longer than a tile 5",
    loads=("grad", "x", "weight"),
    stores=("grad_input",),
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

declare(
    add_up_parts,
    why="32 warps: 16 loads of a lane in flight, each of 64 bytes of a row of the parts with its neighbours",
    operand="to_first",
    tile=("BLOCK_O", "BLOCK_R"),
    dtypes={
        ("fp32", "fp16", "bf16"): (Configuration((256, 16), 8),),
        ("fp64",): (Configuration((128, 16), 8),),
    },
    smaller=True,
    operations="2 parts n",
    traffic="8 parts n",
)
