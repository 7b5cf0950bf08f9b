"""The parts of a batch norm over the batches of several processes (ATen/native/cuda/Normalization.cu).

Each process computes the statistics of its own batch, all exchange them, and each combines them and normalizes;
backward exchanges two sums. Statistics of 16-bit inputs are float32.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...runtime.scalar_type import bfloat16, float16, float32
from ..generated import functions as ops
from ..structured.operand_checks import check_ranks

if TYPE_CHECKING:
    from ..tensor import Tensor


def _wide(tensor: Tensor) -> Tensor:
    return tensor.to(float32) if tensor._spec.dtype in (float16, bfloat16) else tensor


def _checked(name: str, input: Tensor) -> None:
    sizes, dtype = input._spec.sizes, input._spec.dtype
    if len(sizes) < 2:
        raise RuntimeError(f"{name}: expected input of at least 2 dimensions, (N, C, ...), got {list(sizes)}")
    if not dtype.is_floating_point:
        raise NotImplementedError(f'"{name}" not implemented for {dtype.scalar_name!r}')


def _dims(input: Tensor) -> list[int]:
    """Return all dimensions except the channel dimension."""
    return [0, *range(2, input._spec.ndim)]


def _along_channels(value: Tensor, input: Tensor) -> Tensor:
    """Return one value for each channel, in a shape that broadcasts to the input's."""
    return value.reshape([1, -1, *[1] * (input._spec.ndim - 2)])


def batch_norm_stats(input: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Return means and reciprocal standard deviations of the channels."""
    _checked("batch_norm_stats", input)
    var, mean = ops.var_mean(_wide(input), _dims(input), correction=0)
    return mean, ops.rsqrt(var + eps)


def batch_norm_update_stats(
    input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, momentum: float
) -> tuple[Tensor, Tensor]:
    """Return means and variances of the channels, and update the running ones."""
    _checked("batch_norm_update_stats", input)
    var, mean = ops.var_mean(_wide(input), _dims(input), correction=0)
    count = input.numel() // max(input._spec.sizes[1], 1)
    _move(running_mean, running_var, mean, var, count, momentum)
    if input.device.type == "cpu":  # where PyTorch keeps the dtype
        return mean.to(input._spec.dtype), var.to(input._spec.dtype)
    return mean, var


def _move(
    running_mean: Tensor | None,
    running_var: Tensor | None,
    mean: Tensor,
    var: Tensor,
    count: Tensor | float,
    momentum: float,
) -> None:
    """Update the running statistics from a batch of `count` elements, with the unbiased variance."""
    if running_mean is not None:
        running_mean.mul_(1 - momentum).add_((mean * momentum).to(running_mean._spec.dtype))
    if running_var is not None:
        unbiased = var * count / (count - 1)
        running_var.mul_(1 - momentum).add_((unbiased * momentum).to(running_var._spec.dtype))


def batch_norm_gather_stats(
    input: Tensor,
    mean: Tensor,
    invstd: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    momentum: float,
    eps: float,
    count: int,
) -> tuple[Tensor, Tensor]:
    """Combine statistics of equal-size batches."""
    check_ranks("batch_norm_gather_stats", "mean", mean._spec, 2)
    counts = ops.full((mean._spec.sizes[0],), float(count), dtype=mean._spec.dtype, device=mean.device)
    return batch_norm_gather_stats_with_counts(
        input, mean, invstd, running_mean, running_var, momentum, eps, counts
    )


def batch_norm_gather_stats_with_counts(
    input: Tensor,
    mean: Tensor,
    invstd: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    momentum: float,
    eps: float,
    counts: Tensor,
) -> tuple[Tensor, Tensor]:
    """Combine statistics of batches of any sizes: the sums of squares are those around the common mean."""
    if mean._spec.ndim != 2 or mean._spec.sizes != invstd._spec.sizes:
        raise RuntimeError(
            "batch_norm_gather_stats: expected mean and invstd of one shape (batches, C), got "
            f"{list(mean._spec.sizes)} and {list(invstd._spec.sizes)}"
        )
    weights = _wide(counts.to(mean._spec.dtype)).reshape(-1, 1)
    mean, invstd = _wide(mean), _wide(invstd)
    total = weights.sum()
    together = (mean * weights).sum(0) / total
    inside = (ops.reciprocal(invstd).square() - eps) * weights
    between = (mean - together).square() * weights
    var = (inside + between).sum(0) / total
    _move(running_mean, running_var, together, var, total, momentum)
    return together, ops.rsqrt(var + eps)


def batch_norm_elemt(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor, invstd: Tensor, eps: float
) -> Tensor:
    """Normalize the input by given statistics."""
    _checked("batch_norm_elemt", input)
    scale = invstd if weight is None else invstd * weight
    out = (_wide(input) - _along_channels(mean, input)) * _along_channels(scale, input)
    if bias is not None:
        out = out + _along_channels(bias, input)
    return out.to(input._spec.dtype)


def batch_norm_backward_reduce(
    grad_out: Tensor,
    input: Tensor,
    mean: Tensor,
    invstd: Tensor,
    weight: Tensor | None,
    input_g: bool,
    weight_g: bool,
    bias_g: bool,
) -> tuple[Tensor | None, Tensor | None, Tensor | None, Tensor | None]:
    """Return the sums that backward exchanges, and the gradients of weight and bias."""
    _checked("batch_norm_backward_reduce", input)
    dims = _dims(input)
    grad = _wide(grad_out)
    sum_dy = grad.sum(dims)
    sum_dy_xmu = (grad * (_wide(input) - _along_channels(mean, input))).sum(dims)
    dtype = sum_dy._spec.dtype if weight is None else weight._spec.dtype
    return (
        sum_dy if input_g else None,
        sum_dy_xmu if input_g else None,
        (sum_dy_xmu * invstd).to(dtype) if weight_g else None,
        sum_dy.to(dtype) if bias_g else None,
    )


def batch_norm_backward_elemt(
    grad_out: Tensor,
    input: Tensor,
    mean: Tensor,
    invstd: Tensor,
    weight: Tensor | None,
    sum_dy: Tensor,
    sum_dy_xmu: Tensor,
    count: Tensor,
) -> Tensor:
    """Compute the input's gradient from the sums over all batches."""
    _checked("batch_norm_backward_elemt", input)
    total = count.sum().to(sum_dy._spec.dtype)
    centred = _wide(input) - _along_channels(mean, input)
    slope = _along_channels(sum_dy_xmu / total * invstd.square(), input)
    scale = invstd if weight is None else invstd * weight
    grad = _wide(grad_out) - _along_channels(sum_dy / total, input) - centred * slope
    return (grad * _along_channels(scale, input)).to(input._spec.dtype)
