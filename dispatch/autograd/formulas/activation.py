"""Formulas of activations, of operators that are differentiable themselves."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ....runtime.grad_mode import grad_disabled, is_grad_enabled
from ...generated import functions as ops

if TYPE_CHECKING:
    from ....runtime.scalar_type import Number
    from ...tensor import Tensor


def _is_recorded(self: Tensor) -> bool:
    """Whether a formula's own derivative by `self` may be asked for."""
    return self._spec.requires_grad and (not grad_disabled or is_grad_enabled())


def constant_in(grad: Tensor, self: Tensor) -> Tensor:
    """`grad`, whose derivative by `self` is zeros: a comparison with `self` alone leaves no graph to it."""
    return ops.threshold_backward(grad, self, math.nan) if _is_recorded(self) else grad


def elu_backward(grad: Tensor, self: Tensor, alpha: Number, scale: Number, input_scale: Number) -> Tensor:
    """`scale` above zero; below it the exponential's slope."""
    # In the graph of a second derivative exp must not overflow where it is not taken: 0 * inf.
    negative = -ops.relu(-self) if _is_recorded(self) else self
    below = ops.exp(negative * input_scale) * (input_scale * alpha * scale)
    return ops.where(ops.gt(self, 0), grad * scale, grad * below)


def hardtanh_backward(grad: Tensor, self: Tensor, min_val: Number, max_val: Number) -> Tensor:
    """Nothing at the bounds and beyond them."""
    return ops.where(
        ops.logical_and(ops.gt(self, min_val), ops.lt(self, max_val)), constant_in(grad, self), 0.0
    )


def hardswish_backward(grad: Tensor, self: Tensor) -> Tensor:
    """0 up to -3, 1 from 3 on, linear between."""
    between = grad * (self / 3 + 0.5)
    return ops.where(ops.le(self, -3), 0.0, ops.where(ops.ge(self, 3), grad, between))


def hardsigmoid_backward(grad: Tensor, self: Tensor) -> Tensor:
    """1/6 between -3 and 3."""
    return ops.where(ops.logical_and(ops.gt(self, -3), ops.lt(self, 3)), constant_in(grad / 6, self), 0.0)


def shrink_backward(grad: Tensor, self: Tensor, lambd: Number) -> Tensor:
    """1 outside of [-lambd, lambd]."""
    return ops.where(ops.logical_and(ops.ge(self, -lambd), ops.le(self, lambd)), 0.0, constant_in(grad, self))


def mish_backward(grad: Tensor, self: Tensor) -> Tensor:
    """tanh(softplus) + x * sigmoid * (1 - tanh(softplus)^2)."""
    t = ops.tanh(ops.softplus(self))
    return grad * (t + self * ops.sigmoid(self) * (1 - t * t))


def log_sigmoid_backward(grad: Tensor, self: Tensor) -> Tensor:
    """1 - sigmoid(x), computed as sigmoid(-x)."""
    return grad * ops.sigmoid(-self)
