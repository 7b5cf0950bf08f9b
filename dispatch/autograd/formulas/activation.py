"""Derivative formulas of activations, built from differentiable operators."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ...core.mode_stack import sees_whole
from ...generated import functions as ops
from ...scalars import real
from ..tangents import is_differentiated

if TYPE_CHECKING:
    from ....runtime.scalar_type import Number
    from ...tensor import Tensor


def constant_in(grad: Tensor, self: Tensor) -> Tensor:
    """Return `grad` with zero derivative by `self`, so that a comparison with `self` alone needs no graph."""
    return ops.threshold_backward(grad, self, math.nan) if is_differentiated(self) else grad


def glu_halves_backward(grad: Tensor, self: Tensor, dim: int) -> Tensor:
    """Return the gradients of the gated half and of its gate, side by side."""
    size = self._spec.sizes[dim] // 2
    value, gate = self.narrow(dim, 0, size), self.narrow(dim, size, size)
    opened = gate.sigmoid()
    return ops.cat([grad * opened, ops.sigmoid_backward(grad * value, opened)], dim)


def elu_gradient(grad: Tensor, self: Tensor, alpha: Number, scale: Number, input_scale: Number) -> Tensor:
    """Return the gradient of `elu`: one operator unless it is derived once more."""
    if sees_whole() or not is_differentiated(self):
        return ops.elu_backward(grad, alpha, scale, input_scale, False, self)
    return elu_backward(grad, self, alpha, scale, input_scale)


def elu_backward(grad: Tensor, self: Tensor, alpha: Number, scale: Number, input_scale: Number) -> Tensor:
    """Return grad times the exponential's slope up to zero, and grad times `scale` above zero and for nan."""
    # In a second derivative, exp must not overflow on the side that is not taken: 0 * inf.
    negative = -ops.relu(-self) if is_differentiated(self) else self
    below = ops.exp(negative * input_scale) * (input_scale * alpha * scale)
    return ops.where(ops.le(self, 0), grad * below, grad * scale)


def elu_backward_of_result(
    grad: Tensor, result: Tensor, alpha: float, scale: float, input_scale: float
) -> Tensor:
    """Compute `elu_backward` from the result: result + alpha * scale is the exponential.

    Raises RuntimeError for a negative alpha: the results then do not determine the sign of the inputs.
    """
    if real(alpha) < 0.0:
        raise RuntimeError(
            "In-place elu backward calculation is triggered with a negative slope which is not supported. This is "
            "caused by calling in-place forward function with a negative slope, please call out-of-place version "
            "instead."
        )
    # In a second derivative, sides that are not taken contribute nothing, nor does 0.
    negative = -ops.relu(-result) if is_differentiated(result) else result
    below = grad * input_scale * (negative + alpha * scale)
    return ops.where(ops.le(result, 0), below, grad * scale)


def leaky_relu_backward_of_result(grad: Tensor, result: Tensor, negative_slope: float) -> Tensor:
    """Return the gradient computed from the result. Raises RuntimeError for a negative slope."""
    if real(negative_slope) < 0.0:
        raise RuntimeError(
            "In-place leakyReLu backward calculation is triggered with a negative slope which is not supported. This "
            "is caused by calling in-place forward function with a negative slope, please call out-of-place version "
            "instead."
        )
    return ops.leaky_relu_backward(grad, result, negative_slope, True)


def hardtanh_backward(grad: Tensor, self: Tensor, min_val: Number, max_val: Number) -> Tensor:
    """Return grad inside the bounds and for nan, 0 at the bounds and outside."""
    outside = ops.logical_or(ops.le(self, min_val), ops.ge(self, max_val))
    return ops.masked_fill(constant_in(grad, self), outside, 0.0)


def hardswish_backward(grad: Tensor, self: Tensor) -> Tensor:
    """Return grad times a slope that is 0 up to -3, 1 from 3 on and for nan, and linear in between."""
    between = grad * (self / 3 + 0.5)
    return ops.masked_fill(ops.where(ops.lt(self, 3), between, grad), ops.le(self, -3), 0.0)


def hardsigmoid_backward(grad: Tensor, self: Tensor) -> Tensor:
    """Return grad / 6 between -3 and 3, else 0."""
    return ops.where(ops.logical_and(ops.gt(self, -3), ops.lt(self, 3)), constant_in(grad / 6, self), 0.0)


def shrink_backward(grad: Tensor, self: Tensor, lambd: Number) -> Tensor:
    """Return grad outside of [-lambd, lambd], 0 inside."""
    inside = ops.logical_and(ops.ge(self, -lambd), ops.le(self, lambd))
    return ops.masked_fill(constant_in(grad, self), inside, 0.0)


def prelu_backward(grad: Tensor, self: Tensor, weight: Tensor) -> Tensor:
    """Return grad above zero, else grad times the weight."""
    return ops.where(ops.gt(self, 0), constant_in(grad, self), grad * weight)


def prelu_weight_backward(grad: Tensor, self: Tensor) -> Tensor:
    """Return grad times the input below zero. Inputs that the weight does not scale give 0, including infinities."""
    return ops.masked_fill(grad * ops.clamp_max(self, 0), ops.ge(self, 0), 0.0)


def mish_backward(grad: Tensor, self: Tensor) -> Tensor:
    """Return grad times tanh(softplus) + x * sigmoid * (1 - tanh(softplus)^2)."""
    t = ops.tanh(ops.softplus(self))
    return grad * (t + self * ops.sigmoid(self) * (1 - t * t))


def log_sigmoid_backward(grad: Tensor, self: Tensor) -> Tensor:
    """Return grad times 1 - sigmoid(x), computed as sigmoid(-x)."""
    return grad * ops.sigmoid(-self)
