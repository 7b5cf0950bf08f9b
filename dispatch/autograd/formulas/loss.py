"""Formulas of losses, second derivatives among them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...generated import functions as ops
from ...structured.meta.loss import MEAN, NONE

if TYPE_CHECKING:
    from ....runtime.scalar_type import dtype as ScalarType
    from ...tensor import Tensor


def mse_loss_double_backward(grad: Tensor, grad_output: Tensor, reduction: int, count: int) -> Tensor:
    """How `mse_loss_backward` depends on the input: 2 * grad * grad_output, over the count for the mean."""
    return grad * grad_output * (2.0 / max(count, 1) if reduction == MEAN else 2.0)


def mse_loss_double_backward_grad_output(
    grad: Tensor, grad_output: Tensor, self: Tensor, target: Tensor, reduction: int
) -> Tensor:
    """How `mse_loss_backward` depends on the gradient of the output."""
    product = grad * (self - target) * 2.0
    return product / max(grad.numel(), 1) if reduction == MEAN else product


def binary_cross_entropy_backward(grad: Tensor, self: Tensor, target: Tensor) -> Tensor:
    """grad * (self - target) / (self * (1 - self)), the divisor held to 1e-12: finite at probabilities of 0 and 1."""
    return grad * (self - target) / ops.clamp_min((1 - self) * self, 1e-12)


def binary_cross_entropy_target_backward(grad: Tensor, self: Tensor) -> Tensor:
    """grad * (log(1 - self) - log(self))."""
    return grad * (ops.log1p(-self) - ops.log(self))


def huber_backward(grad: Tensor, self: Tensor, target: Tensor, delta: float) -> Tensor:
    """grad times the gap, held to [-delta, delta], and flat on these."""
    return grad * ops.hardtanh(self - target, -delta, delta)


def nll_loss_grad_backward(
    grad: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int, rank: int
) -> Tensor:
    """How `nll_loss_backward` depends on the gradient of the output: it is linear in it, as the loss is."""
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
    """The tangent of the loss; the gradient is linear in that of the loss, so that this is its derivative as well."""
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
    """How the gradient depends on the scores: each sample's Hessian, that of its logarithm of sums, times `grad`.

    The statistics are those of `self`; the derivative through them is in the formula.
    """
    dim = _class_dim(self)
    # Masses do not depend on the scores, and classes that are all ignored leave nothing to divide.
    mass = statistics.detach()[2]
    factor = mass * grad_output
    if reduction == MEAN:
        factor = ops.where(mass == 0, 0.0, factor / total_weight.detach())
    likely = ops.softmax(self.to(statistics.dtype), dim)
    moved = likely * grad
    hessian = moved - likely * ops.sum(moved, dim, keepdim=True)
    return (hessian * factor.unsqueeze(dim)).to(self.dtype)
