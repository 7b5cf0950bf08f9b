"""Derivative formulas of losses, including second derivatives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...generated import functions as ops
from ...structured.meta.loss import MEAN, NONE
from ..ownership import divided

if TYPE_CHECKING:
    from ....runtime.scalar_type import dtype as ScalarType
    from ...tensor import Tensor


def mse_loss_double_backward(grad: Tensor, grad_output: Tensor, reduction: int, count: int) -> Tensor:
    """Differentiate `mse_loss_backward` by the input: 2 * grad * grad_output, over the count for the mean."""
    return grad * grad_output * (2.0 / max(count, 1) if reduction == MEAN else 2.0)


def mse_loss_double_backward_grad_output(
    grad: Tensor, grad_output: Tensor, self: Tensor, target: Tensor, reduction: int
) -> Tensor:
    """Differentiate `mse_loss_backward` by the gradient of the output."""
    product = grad * (self - target) * 2.0
    return product / max(grad.numel(), 1) if reduction == MEAN else product


def binary_cross_entropy_backward(grad: Tensor, self: Tensor, target: Tensor) -> Tensor:
    """Return grad * (self - target) / (self * (1 - self)). The divisor is at least 1e-12: finite at 0 and 1."""
    return grad * (self - target) / ops.clamp_min((1 - self) * self, 1e-12)


def binary_cross_entropy_target_backward(grad: Tensor, self: Tensor) -> Tensor:
    """Return grad * (log(1 - self) - log(self))."""
    return grad * (ops.log1p(-self) - ops.log(self))


def bce_with_logits_backward(
    grad: Tensor,
    self: Tensor,
    target: Tensor,
    weight: Tensor | None,
    pos_weight: Tensor | None,
    reduction: int,
) -> Tensor:
    """Return grad * (sigmoid(self) - target), with the factors of `binary_cross_entropy_with_logits`."""
    if pos_weight is None:
        slope = ops.sigmoid(self) - target
    else:
        positive = pos_weight * target
        slope = ((positive + 1) - target) * ops.sigmoid(self) - positive
    return _of_reduction(slope * grad, weight, reduction, self.numel())


def bce_with_logits_target_backward(
    grad: Tensor, self: Tensor, weight: Tensor | None, pos_weight: Tensor | None, reduction: int
) -> Tensor:
    """Return -grad * self, with the factors of `binary_cross_entropy_with_logits`."""
    if pos_weight is None:
        slope = self * -grad
    else:
        slope = (ops.log_sigmoid(-self) - pos_weight * ops.log_sigmoid(self)) * grad
    return _of_reduction(slope, weight, reduction, self.numel())


def _of_reduction(slope: Tensor, weight: Tensor | None, reduction: int, count: int) -> Tensor:
    """Return an elementwise gradient times a weight, divided by the count for the mean."""
    slope = slope if weight is None else slope * weight
    return divided(slope, max(count, 1)) if reduction == MEAN else slope


def huber_backward(grad: Tensor, self: Tensor, target: Tensor, delta: float) -> Tensor:
    """Return grad times the difference, clamped to [-delta, delta], with zero slope at these bounds."""
    return grad * ops.hardtanh(self - target, -delta, delta)


def nll_loss_grad_backward(
    grad: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int, rank: int
) -> Tensor:
    """Differentiate `nll_loss_backward` by the gradient of the output, in which it is linear, like the loss."""
    function = ops.nll_loss if rank <= 2 else ops.nll_loss2d
    return function(grad, target, weight, reduction, ignore_index)


def cross_entropy_jvp(
    tangent: Tensor,
    self: Tensor,
    target: Tensor,
    weight: Tensor | None,
    statistics: Tensor,
    total_weight: Tensor,
    reduction: int,
    ignore_index: int,
    label_smoothing: float,
    dtype: ScalarType,
) -> Tensor:
    """Return the tangent of the loss. The gradient is linear in the loss's gradient, so this also differentiates it."""
    samples = statistics._spec.sizes[1:] if reduction == NONE else ()
    gradient = ops._cross_entropy_backward(
        ops.ones(samples, dtype=statistics.dtype, device=self.device),
        self,
        target,
        weight,
        statistics,
        total_weight,
        reduction,
        ignore_index,
        label_smoothing,
    )
    product = gradient.to(statistics.dtype) * tangent
    changed = ops.sum(product, _class_dim(self)) if reduction == NONE else ops.sum(product)
    return changed.to(dtype)


def _class_dim(self: Tensor) -> int:
    return 0 if self._spec.ndim == 1 else 1


def cross_entropy_double_backward(
    grad: Tensor,
    grad_output: Tensor,
    self: Tensor,
    target: Tensor,
    statistics: Tensor,
    total_weight: Tensor,
    reduction: int,
) -> Tensor:
    """Differentiate the gradient by the scores: `grad` times each sample's Hessian of logsumexp.

    The statistics are those of `self`; the formula includes the derivative through them.
    """
    dim = _class_dim(self)
    # The weights do not depend on the scores. If all classes are ignored, the divisor is zero.
    mass = statistics.detach()[2]
    factor = mass * grad_output
    if reduction == MEAN:
        factor = ops.where(mass == 0, 0.0, factor / total_weight.detach())
    likely = ops.softmax(self.to(statistics.dtype), dim)
    moved = likely * grad
    hessian = moved - likely * ops.sum(moved, dim, keepdim=True)
    return (hessian * factor.unsqueeze(dim)).to(self.dtype)
