"""A batch norm over the batches of several processes (torch/nn/modules/_functions.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...autograd import Function
from ...dispatch.generated import functions as _ops
from ...distributed.collectives import all_gather_into_tensor, all_reduce
from ...runtime.memory_format import channels_last, channels_last_3d

if TYPE_CHECKING:
    from ...dispatch.tensor import Tensor

__all__ = ["SyncBatchNormFunction"]


def _packed(tensor: Tensor) -> Tensor:
    """Return a channels-last tensor unchanged, any other tensor contiguous."""
    is_last = (tensor.ndim == 4 and tensor.is_contiguous(memory_format=channels_last)) or (
        tensor.ndim == 5 and tensor.is_contiguous(memory_format=channels_last_3d)
    )
    return tensor if is_last else tensor.contiguous()


class SyncBatchNormFunction(Function):
    """Batch norm by the statistics of all processes' batches, which may differ in size or be empty.

    Gradients of weight and bias cover only this process's batch; the caller reduces them across processes.
    """

    @staticmethod
    def forward(
        ctx: Any,
        input: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        running_mean: Tensor | None,
        running_var: Tensor | None,
        eps: float,
        momentum: float,
        group: Any,
    ) -> Tensor:
        """Normalize `input`, and update the running statistics by those of all batches."""
        input = _packed(input)
        channels, size = input.shape[1], group.size()
        if input.numel():
            mean, invstd = _ops.batch_norm_stats(input, eps)
            count = _ops.full((1,), input.numel() // channels, dtype=mean.dtype, device=mean.device)
            own = _ops.cat([mean, invstd, count])
        else:
            like = _ops.batch_norm_stats(input.new_ones((1, channels)), eps)[0]
            own = _ops.zeros(2 * channels + 1, dtype=like.dtype, device=like.device)
        everybody = own.new_empty(size, 2 * channels + 1)
        all_gather_into_tensor(everybody, own, group)
        # A batch without elements has no statistics, and its part of the sums is 0 * 0.
        has_some = everybody[:, -1] >= 1
        everybody = everybody[has_some]
        means, invstds = everybody[:, :channels], everybody[:, channels:-1]
        counts = everybody[:, -1].contiguous()
        mean, invstd = _ops.batch_norm_gather_stats_with_counts(
            input, means, invstds, running_mean, running_var, momentum, eps, counts
        )
        ctx.save_for_backward(input, weight, mean, invstd, counts)
        ctx.group = group
        if not input.numel():
            return _ops.empty_like(input)
        return _ops.batch_norm_elemt(input, weight, bias, mean, invstd, eps)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        """Gradients of the input, weight and bias."""
        input, weight, mean, invstd, counts = ctx.saved_tensors
        needs_input, needs_weight, needs_bias = ctx.needs_input_grad[:3]
        grad_input = grad_weight = grad_bias = None
        nothing = (None,) * 5
        if not input.numel():
            if needs_input:  # the others wait for it
                all_reduce(mean.new_zeros(2 * input.shape[1]), group=ctx.group)
                grad_input = _ops.zeros_like(input)
            return grad_input, None, None, *nothing
        sum_dy, sum_dy_xmu, grad_weight, grad_bias = _ops.batch_norm_backward_reduce(
            _packed(grad), input, mean, invstd, weight, needs_input, needs_weight, needs_bias
        )
        if needs_input:
            sums = _ops.cat([sum_dy, sum_dy_xmu])
            all_reduce(sums, group=ctx.group)
            sum_dy, sum_dy_xmu = sums.split(input.shape[1])
            factor = weight.to(mean.dtype) if weight is not None else None
            grad_input = _ops.batch_norm_backward_elemt(
                _packed(grad), input, mean, invstd, factor, sum_dy, sum_dy_xmu, counts
            )
        return grad_input, grad_weight, grad_bias, *nothing
