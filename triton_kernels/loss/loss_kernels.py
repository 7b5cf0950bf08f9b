"""The programs of losses: each sample's loss and weight, and the gradient of the input."""

from ...runtime.cuda.triton.lazy_triton import tl, triton
from ..budget import FLOATS, STREAMING, Configuration, declare
from ..conversion import convert
from ..elementwise.pointwise_functions import divide
from ..reduction.reduction_kernels import offset_of


@triton.jit
def squared_difference(a, b):
    gap = a - b
    return gap * gap


@triton.jit
def squared_difference_backward(grad, a, b, factor):
    return (a - b) * (grad * factor)


@triton.jit
def class_and_weight(target, weight, mask, classes, ignore_index, weight_stride, ACCUMULATOR: tl.constexpr):
    """Return each sample's class, its weight (0 where ignored or no class), and whether it is out of range."""
    index = target.to(tl.int64)
    counts = mask & (index != ignore_index)
    wrong = counts & ((index < 0) | (index >= classes))
    counts = counts & (wrong == 0)
    index = tl.where(counts, index, 0)
    if weight is not None:
        factor = convert(tl.load(weight + index * weight_stride, mask=counts, other=0), ACCUMULATOR)
        factor = tl.where(counts, factor, 0.0).to(ACCUMULATOR)
    else:
        factor = counts.to(ACCUMULATOR)
    return index, factor, counts, wrong


@triton.jit
def nll_loss(
    x,
    target,
    weight,
    loss,
    factors,
    flag,
    classes,
    class_stride,
    weight_stride,
    ignore_index,
    num_rows,
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
    ACCUMULATOR: tl.constexpr,
    KEPT: tl.constexpr,
    INDEX: tl.constexpr,
    BLOCK_O: tl.constexpr,
):
    """Losses to `loss`, and their weights to `factors` where there is one; `flag` is raised by a wrong target."""
    o = tl.program_id(0).to(INDEX) * BLOCK_O + tl.arange(0, BLOCK_O).to(INDEX)
    mask = o < num_rows
    at = target + offset_of(
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
    index, factor, counts, wrong = class_and_weight(
        tl.load(at, mask=mask, other=0), weight, mask, classes, ignore_index, weight_stride, ACCUMULATOR
    )
    tl.store(flag + tl.zeros_like(o), 1, mask=wrong)
    picked = (
        x
        + offset_of(
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
        + index * class_stride
    )
    value = convert(tl.load(picked, mask=counts, other=0), ACCUMULATOR)
    value = tl.where(factor == 0, 0.0, value * (0.0 - factor)).to(ACCUMULATOR)
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
    tl.store(loss + out_offset, convert(value, loss.dtype.element_ty), mask=mask)
    if factors is not None:
        tl.store(factors + out_offset, factor, mask=mask)


@triton.jit
def nll_loss_backward(
    grad,
    target,
    weight,
    total_weight,
    out,
    weight_stride,
    ignore_index,
    num_rows,
    n,
    kept_size0,
    kept_size1,
    kept_size2,
    grad_kept_stride0,
    grad_kept_stride1,
    grad_kept_stride2,
    grad_kept_stride3,
    target_kept_stride0,
    target_kept_stride1,
    target_kept_stride2,
    target_kept_stride3,
    out_kept_stride0,
    out_kept_stride1,
    out_kept_stride2,
    out_kept_stride3,
    out_reduced_stride0,
    MEAN: tl.constexpr,
    ACCUMULATOR: tl.constexpr,
    KEPT: tl.constexpr,
    INDEX: tl.constexpr,
    BLOCK_O: tl.constexpr,
    BLOCK_R: tl.constexpr,
):
    """Tiles of samples by classes: zero but at each sample's class."""
    o = tl.program_id(0).to(INDEX) * BLOCK_O + tl.arange(0, BLOCK_O).to(INDEX)
    r = tl.program_id(1).to(INDEX) * BLOCK_R + tl.arange(0, BLOCK_R).to(INDEX)
    row_mask = o < num_rows
    at = target + offset_of(
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
    index, factor, counts, _ = class_and_weight(
        tl.load(at, mask=row_mask, other=0), weight, row_mask, n, ignore_index, weight_stride, ACCUMULATOR
    )
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
    value = convert(grad_value, ACCUMULATOR) * (0.0 - factor)
    if MEAN:
        value = divide(value, tl.zeros_like(value) + convert(tl.load(total_weight), ACCUMULATOR))
    value = tl.where(factor == 0, 0.0, value).to(ACCUMULATOR)
    out_ptrs = (
        out
        + offset_of(
            o,
            kept_size0,
            kept_size1,
            kept_size2,
            out_kept_stride0,
            out_kept_stride1,
            out_kept_stride2,
            out_kept_stride3,
            KEPT,
        )[:, None]
        + r[None, :] * out_reduced_stride0
    )
    chosen = counts[:, None] & (index[:, None] == r[None, :])
    result = tl.where(chosen, value[:, None], 0.0).to(ACCUMULATOR)
    tl.store(out_ptrs, convert(result, out.dtype.element_ty), mask=row_mask[:, None] & (r < n)[None, :])


declare(
    nll_loss,
    why="32 warps: each lane waits for a target, then for the element that it names",
    operand="x",
    tile=("BLOCK_O",),
    dtypes=FLOATS,
    configurations=(Configuration((256,)),),
    smaller=True,
    operations="num_rows",
    traffic="num_rows (32 + 8 + itemsize of loss), since an element picked costs a sector of 32 bytes",
)
declare(
    nll_loss_backward,
    why=STREAMING,
    tile=("BLOCK_O", "BLOCK_R"),
    dtypes=FLOATS,
    configurations=(Configuration((1, 1024)), Configuration((64, 16))),
    smaller=True,
    operations="num_rows",
    traffic="num_rows (n itemsize + 8 + itemsize)",
)
