"""The programs of softmax and log_softmax: a row in one block, or longer rows block by block."""

from collections.abc import Mapping

from ...runtime.cuda.triton.lazy_triton import tl, triton
from ..budget import Configuration, declare
from ..conversion import convert
from ..elementwise.pointwise_functions import divide, exp, log
from ..reduction.joint_reduction_kernels import finite, shifted_sums, shifted_sums_across
from ..reduction.reduction_kernels import largest, largest_across, offset_of, sum_across
from .vectors import edge_columns, first_vector, inside, largest_of, loaded, room_after, sum_of_all


@triton.jit
def scale_of(total, LOG: tl.constexpr):
    """Return the logarithm of a row's sum, or its correctly rounded reciprocal."""
    if LOG:
        return log(total)
    else:
        return divide(tl.full((1,), 1, total.dtype), total)


@triton.jit
def quotient(value, divisor, reciprocal):
    """Return `value / divisor` without a division for each value.

    Multiplication by the reciprocal has an error of at most 1.5 ulp. A fused multiply-add gives the exact remainder,
    which corrects it (Markstein, "Computation of elementary functions on the IBM RISC System/6000 processor", 1990).
    Before rounding, the error of a normal result is then at most 2**-22 ulp.
    """
    estimate = value * reciprocal
    return tl.fma(tl.fma(-estimate, divisor, value), reciprocal, estimate)


@triton.jit
def normalised(value, row_max, total, scale, LOG: tl.constexpr):
    """Return an element's probability, or its logarithm, from the row's maximum, its sum and `scale_of` the sum."""
    if LOG:
        return (value - row_max) - scale
    else:
        return quotient(exp(value - row_max), total, scale)


@triton.jit
def softmax(
    x,
    out,
    num_rows,
    n,
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
    x_reduced_stride0,
    out_reduced_stride0,
    LOG: tl.constexpr,
    ACCUMULATOR: tl.constexpr,
    KEPT: tl.constexpr,
    INDEX: tl.constexpr,
    WHOLE: tl.constexpr,
    VECTOR: tl.constexpr,
    EDGES: tl.constexpr,
    BLOCK_O: tl.constexpr,
    BLOCK_R: tl.constexpr,
):
    """Rows cut as in `vectors.py`: with VECTOR both strides along a row are 1, with EDGES a program has one row."""
    o = tl.program_id(0).to(INDEX) * BLOCK_O + tl.arange(0, BLOCK_O).to(INDEX)
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
    rows, out_ptrs = x + begin[:, None], out + first_vector(out_start, VECTOR)[:, None]
    lane = tl.arange(0, BLOCK_R).to(INDEX)[None, :]
    if EDGES:
        first = sum_of_all(start)
        column, at_edge = edge_columns(first, n, VECTOR, INDEX)
        edge = convert(tl.load(x + first + column, mask=at_edge, other=float("-inf")), ACCUMULATOR)
    if WHOLE:
        mask = inside(lane, 0, room, row_mask, VECTOR)
        value = tl.load(rows + lane * x_reduced_stride0, mask=mask, other=float("-inf"))
        value = convert(value, ACCUMULATOR)
        row_max = largest_across(value)
        if EDGES:
            row_max = largest(row_max, largest_of(edge))
        row_max = row_max[:, None]
        total = sum_across(tl.where(mask, exp(value - row_max), 0.0))
        if EDGES:
            total += sum_of_all(tl.where(at_edge, exp(edge - sum_of_all(sum_across(row_max))), 0.0))
        total = total[:, None]
        result = normalised(value, row_max, total, scale_of(total, LOG), LOG)
        tl.store(out_ptrs + lane * out_reduced_stride0, convert(result, out.dtype.element_ty), mask=mask)
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
                eviction_policy="evict_last",
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
        row_max = row_max[:, None]
        total = tl.where(finite(row_max) == row_max, total[:, None], float("nan")).to(ACCUMULATOR)
        scale = scale_of(total, LOG)
        for base in range(0, n, BLOCK_R):
            mask = inside(lane, base, room, row_mask, VECTOR)
            value = tl.load(
                rows + (base + lane) * x_reduced_stride0,
                mask=mask,
                other=float("-inf"),
                eviction_policy="evict_first",
            )
            result = normalised(convert(value, ACCUMULATOR), row_max, total, scale, LOG)
            tl.store(
                out_ptrs + (base + lane) * out_reduced_stride0,
                convert(result, out.dtype.element_ty),
                mask=mask,
            )
    if EDGES:
        ends = tl.zeros_like(edge)
        row_max, total = ends + sum_of_all(sum_across(row_max)), ends + sum_of_all(sum_across(total))
        result = convert(normalised(edge, row_max, total, scale_of(total, LOG), LOG), out.dtype.element_ty)
        tl.store(out + sum_of_all(out_start) + column, result, mask=at_edge)


@triton.jit
def summand(grad, value, LOG: tl.constexpr):
    """Return an element's term in the sum that a row's gradient needs."""
    if LOG:
        return grad
    else:
        return grad * value


@triton.jit
def gradient(grad, value, total, LOG: tl.constexpr):
    """Return the gradient of an input, from those of the output, the output, and the row's sum."""
    if LOG:
        return grad - exp(value) * total
    else:
        return (grad - total) * value


@triton.jit
def softmax_backward(
    grad,
    x,
    out,
    num_rows,
    n,
    kept_size0,
    kept_size1,
    kept_size2,
    grad_kept_stride0,
    grad_kept_stride1,
    grad_kept_stride2,
    grad_kept_stride3,
    x_kept_stride0,
    x_kept_stride1,
    x_kept_stride2,
    x_kept_stride3,
    out_kept_stride0,
    out_kept_stride1,
    out_kept_stride2,
    out_kept_stride3,
    grad_reduced_stride0,
    x_reduced_stride0,
    out_reduced_stride0,
    LOG: tl.constexpr,
    ACCUMULATOR: tl.constexpr,
    KEPT: tl.constexpr,
    INDEX: tl.constexpr,
    WHOLE: tl.constexpr,
    VECTOR: tl.constexpr,
    EDGES: tl.constexpr,
    BLOCK_O: tl.constexpr,
    BLOCK_R: tl.constexpr,
):
    """`x` is the output of the forward program; rows as there."""
    o = tl.program_id(0).to(INDEX) * BLOCK_O + tl.arange(0, BLOCK_O).to(INDEX)
    row_mask = o < num_rows
    grad_start = offset_of(
        o,
        kept_size0,
        kept_size1,
        kept_size2,
        grad_kept_stride0,
        grad_kept_stride1,
        grad_kept_stride2,
        grad_kept_stride3,
        KEPT,
    )
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
    grads, rows = grad + first_vector(grad_start, VECTOR)[:, None], x + begin[:, None]
    out_ptrs = out + first_vector(out_start, VECTOR)[:, None]
    lane = tl.arange(0, BLOCK_R).to(INDEX)[None, :]
    if EDGES:
        first = sum_of_all(start)
        column, at_edge = edge_columns(first, n, VECTOR, INDEX)
        edge_grad = loaded(grad + sum_of_all(grad_start) + column, at_edge, ACCUMULATOR)
        edge = loaded(x + first + column, at_edge, ACCUMULATOR)
    if WHOLE:
        mask = inside(lane, 0, room, row_mask, VECTOR)
        grad_value = loaded(grads + lane * grad_reduced_stride0, mask, ACCUMULATOR)
        value = loaded(rows + lane * x_reduced_stride0, mask, ACCUMULATOR)
        total = sum_across(summand(grad_value, value, LOG))
    else:
        sums = tl.full((BLOCK_O, BLOCK_R), 0, ACCUMULATOR)
        for base in range(0, n, BLOCK_R):
            mask = inside(lane, base, room, row_mask, VECTOR)
            grad_value = loaded(grads + (base + lane) * grad_reduced_stride0, mask, ACCUMULATOR, "evict_last")
            value = loaded(rows + (base + lane) * x_reduced_stride0, mask, ACCUMULATOR, "evict_last")
            sums += summand(grad_value, value, LOG)
        total = sum_across(sums)
    if EDGES:
        total += sum_of_all(summand(edge_grad, edge, LOG))
    total = total[:, None]
    if WHOLE:
        result = gradient(grad_value, value, total, LOG)
        tl.store(out_ptrs + lane * out_reduced_stride0, convert(result, out.dtype.element_ty), mask=mask)
    else:
        for base in range(0, n, BLOCK_R):
            mask = inside(lane, base, room, row_mask, VECTOR)
            grad_value = loaded(
                grads + (base + lane) * grad_reduced_stride0, mask, ACCUMULATOR, "evict_first"
            )
            value = loaded(rows + (base + lane) * x_reduced_stride0, mask, ACCUMULATOR, "evict_first")
            result = gradient(grad_value, value, total, LOG)
            tl.store(
                out_ptrs + (base + lane) * out_reduced_stride0,
                convert(result, out.dtype.element_ty),
                mask=mask,
            )
    if EDGES:
        total = sum_of_all(sum_across(total))
        result = convert(gradient(edge_grad, edge, total, LOG), out.dtype.element_ty)
        tl.store(out + sum_of_all(out_start) + column, result, mask=at_edge)


FORWARD = "32 warps: two blocks of the longest rows that stay in registers, so that one loads while the other computes"
# Whole columns have one block: a lane's elements are a row apart, so each of its 16 has its own address, two registers
# wide, beside its value. The smaller tiles with as many warps, or half as many for columns, are those of longer ones.
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


def clusters(blocks: Mapping[int, int]) -> tuple[Configuration, ...]:
    """Return clusters whose lanes hold 32 elements; `blocks` are those of 16 warps that a multiprocessor has.

    Two have 64 KiB of 16-bit numbers in flight, as one has of float32.
    """
    return (
        Configuration((1, 32768), 16, blocks=blocks, ctas=2),
        Configuration((1, 65536), 16, blocks=blocks, ctas=4),
        Configuration((1, 131072), 16, blocks=blocks, ctas=8),
        Configuration((1, 262144), 32, blocks=dict.fromkeys(blocks, 1), ctas=8),
    )


CLUSTERS_BACKWARD = (
    Configuration((1, 32768), 16, blocks={90: 2, 100: 2}, ctas=4),
    Configuration((1, 65536), 16, blocks={90: 2, 100: 2}, ctas=8),
    Configuration((1, 131072), 32, blocks={90: 1, 100: 1}, ctas=8),
)
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
    dtypes={
        ("fp16", "bf16"): (*NARROW, LONG, LONGEST, *clusters({90: 2, 100: 2})),
        ("fp32",): (*NARROW, LONG, *clusters({90: 2, 100: 1})),
        ("fp64",): DOUBLE,
    },
    smaller=True,
    operations="4 num_rows n, an exponential counted as one",
    traffic="2 num_rows n itemsize; of rows that are longer than a tile 3",
    loads=("x",),
    stores=("out",),
)
declare(
    softmax_backward,
    why=FORWARD,
    operand="x",
    tile=("BLOCK_O", "BLOCK_R"),
    dtypes={("fp32", "fp16", "bf16"): (*NARROW, LONG, *CLUSTERS_BACKWARD), ("fp64",): DOUBLE},
    smaller=True,
    operations="4 num_rows n",
    traffic="3 num_rows n itemsize; of rows that are longer than a tile 5",
    loads=("grad", "x"),
    stores=("out",),
)
