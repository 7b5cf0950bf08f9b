"""Formulas of losses, second derivatives among them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...generated import functions as ops
from ...structured.meta.loss import MEAN

if TYPE_CHECKING:
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


def nll_loss_grad_backward(
    grad: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int, rank: int
) -> Tensor:
    """How `nll_loss_backward` depends on the gradient of the output: it is linear in it, as the loss is."""
    function = ops.nll_loss if rank <= 2 else ops.nll_loss2d
    return function(grad, target, weight, reduction, ignore_index)
