"""Formulas of activations, of operators that are differentiable themselves."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ...generated import functions as ops
from ..tangents import is_differentiated

if TYPE_CHECKING:
    from ....runtime.scalar_type import Number
    from ...tensor import Tensor


def constant_in(grad: Tensor, self: Tensor) -> Tensor:
    """`grad`, whose derivative by `self` is zeros: a comparison with `self` alone leaves no graph to it."""
    return ops.threshold_backward(grad, self, math.nan) if is_differentiated(self) else grad


def glu_halves_backward(grad: Tensor, self: Tensor, dim: int) -> Tensor:
    """Return the gradients of the gated half and of its gate, side by side."""
    size = self._spec.sizes[dim] // 2
    value, gate = self.narrow(dim, 0, size), self.narrow(dim, size, size)
    opened = gate.sigmoid()
    return ops.cat([grad * opened, ops.sigmoid_backward(grad * value, opened)], dim)


def elu_backward(grad: Tensor, self: Tensor, alpha: Number, scale: Number, input_scale: Number) -> Tensor:
    """The exponential's slope up to zero; `scale` above it, and for nan."""
    # In the graph of a second derivative exp must not overflow where it is not taken: 0 * inf.
    negative = -ops.relu(-self) if is_differentiated(self) else self
    below = ops.exp(negative * input_scale) * (input_scale * alpha * scale)
    return ops.where(ops.le(self, 0), grad * below, grad * scale)


def elu_backward_of_result(
    grad: Tensor, result: Tensor, alpha: float, scale: float, input_scale: float
) -> Tensor:
    """`elu_backward` from what stands in the input's place: result + alpha * scale is the exponential.

    Raises RuntimeError for a negative alpha, of which results do not tell on which side of zero the inputs were.
    """
    if alpha < 0.0:
        raise RuntimeError(
            "In-place elu backward calculation is triggered with a negative slope which is not supported. This is "
            "caused by calling in-place forward function with a negative slope, please call out-of-place version "
            "instead."
        )
    # In the graph of a second derivative nothing comes from the sides that are not taken, nor from 0.
    negative = -ops.relu(-result) if is_differentiated(result) else result
    below = grad * input_scale * (negative + alpha * scale)
    return ops.where(ops.le(result, 0), below, grad * scale)


def leaky_relu_backward_of_result(grad: Tensor, result: Tensor, negative_slope: float) -> Tensor:
    """The gradient from what stands in the input's place. Raises RuntimeError for a negative slope."""
    if negative_slope < 0.0:
        raise RuntimeError(
            "In-place leakyReLu backward calculation is triggered with a negative slope which is not supported. This "
            "is caused by calling in-place forward function with a negative slope, please call out-of-place version "
            "instead."
        )
    return ops.leaky_relu_backward(grad, result, negative_slope, True)


def hardtanh_backward(grad: Tensor, self: Tensor, min_val: Number, max_val: Number) -> Tensor:
    """Nothing at the bounds and beyond them; 1 for nan, which is no bound."""
    outside = ops.logical_or(ops.le(self, min_val), ops.ge(self, max_val))
    return ops.masked_fill(constant_in(grad, self), outside, 0.0)


def hardswish_backward(grad: Tensor, self: Tensor) -> Tensor:
    """0 up to -3, 1 from 3 on and for nan, linear between."""
    between = grad * (self / 3 + 0.5)
    return ops.masked_fill(ops.where(ops.lt(self, 3), between, grad), ops.le(self, -3), 0.0)


def hardsigmoid_backward(grad: Tensor, self: Tensor) -> Tensor:
    """1/6 between -3 and 3."""
    return ops.where(ops.logical_and(ops.gt(self, -3), ops.lt(self, 3)), constant_in(grad / 6, self), 0.0)


def shrink_backward(grad: Tensor, self: Tensor, lambd: Number) -> Tensor:
    """1 outside of [-lambd, lambd]."""
    inside = ops.logical_and(ops.ge(self, -lambd), ops.le(self, lambd))
    return ops.masked_fill(constant_in(grad, self), inside, 0.0)


def prelu_backward(grad: Tensor, self: Tensor, weight: Tensor) -> Tensor:
    """1 above zero, else the weight."""
    return ops.where(ops.gt(self, 0), constant_in(grad, self), grad * weight)


def prelu_weight_backward(grad: Tensor, self: Tensor) -> Tensor:
    """The input below zero: what is not multiplied by the weight is 0 in the product too, infinities among it."""
    return ops.masked_fill(grad * ops.clamp_max(self, 0), ops.ge(self, 0), 0.0)


def mish_backward(grad: Tensor, self: Tensor) -> Tensor:
    """tanh(softplus) + x * sigmoid * (1 - tanh(softplus)^2)."""
    t = ops.tanh(ops.softplus(self))
    return grad * (t + self * ops.sigmoid(self) * (1 - t * t))


def log_sigmoid_backward(grad: Tensor, self: Tensor) -> Tensor:
    """1 - sigmoid(x), computed as sigmoid(-x)."""
    return grad * ops.sigmoid(-self)
