"""Formulas of activations, of operators that are differentiable themselves."""

from __future__ import annotations

from typing import Any

from ...generated import functions as ops


def elu_backward(grad: Any, self: Any, alpha: Any, scale: Any, input_scale: Any) -> Any:
    """`scale` above zero; below it the exponential's slope."""
    below = ops.exp(self * input_scale) * (input_scale * alpha * scale)
    return ops.where(ops.gt(self, 0), grad * scale, grad * below)


def hardtanh_backward(grad: Any, self: Any, min_val: Any, max_val: Any) -> Any:
    """Nothing at the bounds and beyond them."""
    return ops.where(ops.logical_and(ops.gt(self, min_val), ops.lt(self, max_val)), grad, 0.0)


def hardswish_backward(grad: Any, self: Any) -> Any:
    """0 up to -3, 1 from 3 on, linear between."""
    between = grad * (self / 3 + 0.5)
    return ops.where(ops.le(self, -3), 0.0, ops.where(ops.ge(self, 3), grad, between))


def hardsigmoid_backward(grad: Any, self: Any) -> Any:
    """1/6 between -3 and 3."""
    return ops.where(ops.logical_and(ops.gt(self, -3), ops.lt(self, 3)), grad / 6, 0.0)


def shrink_backward(grad: Any, self: Any, lambd: Any) -> Any:
    """1 outside of [-lambd, lambd]."""
    return ops.where(ops.logical_and(ops.ge(self, -lambd), ops.le(self, lambd)), 0.0, grad)


def mish_backward(grad: Any, self: Any) -> Any:
    """tanh(softplus) + x * sigmoid * (1 - tanh(softplus)^2)."""
    t = ops.tanh(ops.softplus(self))
    return grad * (t + self * ops.sigmoid(self) * (1 - t * t))


def log_sigmoid_backward(grad: Any, self: Any) -> Any:
    """1 - sigmoid(x), computed as sigmoid(-x)."""
    return grad * ops.sigmoid(-self)
