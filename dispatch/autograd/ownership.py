"""Ownership of gradients: which ones a leaf may keep without a copy.

A view of a gradient that nothing else holds replaces the gradient, so that the leaf need not copy it.
"""

from __future__ import annotations

from ...runtime.grad_mode import is_grad_enabled
from ..tensor import Tensor


def is_alone(grad: Tensor) -> bool:
    """Return whether a gradient has no other holder and no view. Holders mark it (`engine.mark_shared`)."""
    return grad._version_cell is None and grad._view_base is None and grad.__class__ is Tensor


def divided(grad: Tensor, count: int) -> Tensor:
    """Divide a gradient in place. A gradient that was alone stays so."""
    alone = is_alone(grad) and not is_grad_enabled()
    grad.div_(count)
    if alone:
        grad._version_cell = None
    return grad


def taken_over(made: Tensor, grad: Tensor) -> Tensor:
    """Return a view of a gradient that was alone as a tensor that replaces it, so that a leaf may keep it."""
    if (
        made is not grad
        and made.__class__ is Tensor
        and not made._spec.requires_grad
        and not is_grad_enabled()
    ):
        made._version_cell = made._view_base = grad._version_cell = None
    return made
