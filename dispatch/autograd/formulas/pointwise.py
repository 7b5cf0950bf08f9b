"""Derivative formulas of pointwise operators. An operand may be a Python number if the operator accepts one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, overload

from ....runtime.grad_mode import is_grad_enabled
from ....runtime.layout import strided
from ....runtime.tensor_impl import TensorImpl
from ....runtime.thread_state import origin
from ...core.mode_stack import sees_whole
from ...core.native_calls import from_python
from ...generated import functions as ops
from ..ownership import is_alone

if TYPE_CHECKING:
    from ....runtime.scalar_type import Number
    from ...tensor import Tensor

TWO_OVER_SQRT_PI = 2 / math.sqrt(math.pi)
INVERSE_SQRT_2PI = 1 / math.sqrt(2 * math.pi)
SQRT_2_OVER_PI = math.sqrt(2 / math.pi)
GELU_CUBIC = 0.044715


def scaled(grad: Tensor, alpha: Number) -> Tensor:
    """Return grad * alpha."""
    return grad if alpha.__class__ is int and alpha == 1 else grad * conjugated(alpha)


@overload
def conjugated(x: Tensor) -> Tensor: ...
@overload
def conjugated(x: Number) -> Number: ...
def conjugated(x: Any) -> Any:
    """Return the complex conjugate of a tensor or number; a real one unchanged."""
    try:
        return ops.conj_physical(x) if x._spec.dtype.is_complex else x
    except AttributeError:
        return x.conjugate() if x.__class__ is complex else x


def product_backward(grad: Tensor, other: Any) -> Tensor:
    """Return grad times the conjugate of the other factor, a tensor or a number in place of one.

    PyTorch holds that number in a tensor, so that a mode sees the overload for tensors.
    """
    factor = conjugated(other)
    if isinstance(other, TensorImpl) or not origin.is_native:
        return ops.mul(grad, factor)
    with from_python():
        return ops.mul(grad, factor)


def quotient_backward(grad: Tensor, other: Any) -> Tensor:
    """Return grad over the conjugate of the divisor, a tensor or a number in place of one."""
    divisor = conjugated(other)
    if isinstance(other, TensorImpl) or not origin.is_native:
        return ops.div(grad, divisor)
    with from_python():
        return ops.div(grad, divisor)


def zero_of(grad: Tensor) -> Any:
    """Return the zero of gradients that a formula masks: a number, or, for a mode, a tensor as in PyTorch."""
    return ops.scalar_tensor(0.0, dtype=grad.dtype, device=grad.device) if sees_whole() else 0


def threshold_backward(grad: Tensor, result: Tensor, threshold: Number = 0) -> Tensor:
    """Return grad where the result exceeds the threshold, else zero."""
    return ops.threshold_backward(grad, result, threshold)


def div_backward_other(grad: Tensor, self: Tensor, other: Tensor) -> Tensor:
    """Return the gradient of a quotient's divisor."""
    return negated_product(grad, conjugated(ops.div(ops.div(self, other), other)))


def negated_product(grad: Tensor, slope: Tensor) -> Tensor:
    """Return -grad * slope, with the slope computed first, as in PyTorch."""
    return -grad * slope


def rsqrt_backward(grad: Tensor, result: Tensor) -> Tensor:
    """Return -grad / 2 * result^3."""
    cube = conjugated(ops.pow(result, 3))
    return grad * -0.5 * cube


def div_mode_backward_self(grad: Tensor, other: Tensor, rounding_mode: str | None) -> Tensor:
    """Return the gradient of a dividend; zeros for a rounded quotient."""
    return ops.div(grad, conjugated(other)) if rounding_mode is None else ops.zeros_like(grad)


def div_mode_backward_other(grad: Tensor, self: Tensor, other: Tensor, rounding_mode: str | None) -> Tensor:
    """Return the gradient of a divisor; zeros for a rounded quotient."""
    return div_backward_other(grad, self, other) if rounding_mode is None else ops.zeros_like(grad)


def pow_backward(grad: Tensor, self: Tensor, exponent: Number) -> Tensor:
    """Return the gradient of a power's base, for a scalar exponent."""
    if exponent == 0:
        return ops.zeros_like(grad)
    if not isinstance(exponent, complex):
        exponent = float(exponent)
    return grad * conjugated(ops.pow(self, exponent - 1) * exponent)


def pow_backward_self(grad: Tensor, self: Tensor, exponent: Tensor) -> Tensor:
    """Return the gradient of a power's base; zero where the exponent is zero."""
    gradient = grad * conjugated(exponent * ops.pow(self, exponent - 1))
    zero = zero_of(grad)
    return ops.where(exponent == 0.0, zero, gradient)


def pow_backward_exponent(grad: Tensor, self: Tensor | Number, exponent: Tensor, result: Tensor) -> Tensor:
    """Return the gradient of an exponent: grad * result * log(base), and zero at 0 ** non-negative."""
    is_complex = result._spec.dtype.is_complex
    if not isinstance(self, int | float | complex):
        flat = ops.logical_and(self == 0, _real(exponent) >= 0)
        # The logarithm of a negative base is real nowhere; a complex power has one.
        base = self.to(result.dtype) if is_complex else self
        return ops.where(flat, 0, grad * conjugated(result * ops.log(base)))
    if self == 0:
        return ops.where(_real(exponent) >= 0, 0, grad * conjugated(result * -math.inf))
    number = complex(self)
    log = complex(math.log(abs(number)), math.atan2(number.imag, number.real))
    if is_complex:
        return grad * conjugated(result * log)
    return grad * conjugated(result * (math.nan if log.imag else log.real))


def _real(x: Tensor) -> Tensor:
    return x.real if x._spec.dtype.is_complex else x


def maximum_backward(grad: Tensor, self: Tensor, other: Tensor) -> Tensor:
    """Return the gradient of the first operand of `maximum`."""
    half = grad / 2
    return _unless(ops.where(self == other, half, grad), self < other)


def maximum_backward_other(grad: Tensor, self: Tensor, other: Tensor) -> Tensor:
    """Return the gradient of the second operand of `maximum`."""
    return minimum_backward(grad, self, other)


def minimum_backward(grad: Tensor, self: Tensor, other: Tensor) -> Tensor:
    """Return the gradient of the first operand of `minimum`."""
    half = grad / 2
    return _unless(ops.where(self == other, half, grad), self > other)


def minimum_backward_other(grad: Tensor, self: Tensor, other: Tensor) -> Tensor:
    """Return the gradient of the second operand of `minimum`."""
    return maximum_backward(grad, self, other)


def _unless(shared: Tensor, loses: Tensor) -> Tensor:
    """Return the gradient of an operand, halved for ties already: zero where the operand loses."""
    if not sees_whole():
        return ops.where(loses, 0, shared)
    alone = is_alone(shared) and not is_grad_enabled()
    shared.masked_fill_(loses, 0)
    if alone:
        shared._version_cell = None
    return shared


def atan2_backward(grad: Tensor, numerator: Tensor, self: Tensor, other: Tensor) -> Tensor:
    """Return grad * numerator / (self^2 + other^2), and zero where both are zero."""
    square = self * self + other * other
    if sees_whole():
        return grad * (numerator * ops.masked_fill(ops.reciprocal(square), ops.eq(square, 0), 0))
    return grad * ops.where(square == 0, 0, numerator / square)


def abs_backward(grad: Tensor, self: Tensor) -> Tensor:
    """Return grad times the sign of the input."""
    return grad * ops.sgn(self)


def erf_backward(grad: Tensor, self: Tensor) -> Tensor:
    """Return grad * 2 / sqrt(pi) * exp(-x^2)."""
    return (ops.exp(-ops.pow(self, 2)) * TWO_OVER_SQRT_PI) * grad


def gelu_double_backward(grad: Tensor, self: Tensor, approximate: str) -> Tensor:
    """Return grad times gelu's second derivative."""
    square = self * self
    if approximate == "none":
        return grad * (ops.exp(square * -0.5) * INVERSE_SQRT_2PI * (2 - square))
    t = ops.tanh(SQRT_2_OVER_PI * (self + GELU_CUBIC * square * self))
    slope = SQRT_2_OVER_PI * (1 + 3 * GELU_CUBIC * square)
    first = (1 - t * t) * slope
    second = (1 - t * t) * (6 * SQRT_2_OVER_PI * GELU_CUBIC * self) - 2 * t * first * slope
    return grad * (first + 0.5 * self * second)


def silu_double_backward(grad: Tensor, self: Tensor) -> Tensor:
    """Return grad times silu's second derivative."""
    s = ops.sigmoid(self)
    return grad * conjugated(s * (1 - s) * (2 + self * (1 - 2 * s)))


def softplus_double_backward(grad: Tensor, self: Tensor, beta: Number, threshold: Number) -> Tensor:
    """Return grad times softplus's second derivative, zero above the threshold."""
    s = ops.sigmoid(self * beta)
    return ops.where(self * beta > threshold, 0, grad * (s * (1 - s) * beta))


def clamp_backward(grad: Tensor, self: Tensor, min: Any, max: Any) -> Tensor:
    """Return grad where the input is within the bounds, else zero."""
    zero = zero_of(grad)
    if min is None:
        return ops.where(self <= max, grad, zero)
    if max is None:
        return ops.where(self >= min, grad, zero)
    above, below = self >= min, self <= max
    return ops.where(above.logical_and_(below) if sees_whole() else ops.logical_and(above, below), grad, zero)


def clamp_backward_min(grad: Tensor, self: Tensor, min: Tensor, max: Tensor | None) -> Tensor:
    """Return grad where the lower bound is the result, else zero."""
    chosen = self < min
    if max is not None:
        chosen = ops.logical_and(chosen, min < max)
    return ops.where(chosen, grad, 0)


def clamp_backward_max(grad: Tensor, self: Tensor, min: Tensor | None, max: Tensor) -> Tensor:
    """Return grad where the upper bound is the result, else zero."""
    chosen = self > max
    if min is not None:
        chosen = ops.logical_or(chosen, max < min)
    return ops.where(chosen, grad, 0)


def log1p_backward(grad: Tensor, self: Tensor) -> Tensor:
    """Return grad / (1 + self). A sparse input is made dense for that."""
    if self._spec.layout is strided:
        return grad / conjugated(self + 1)
    return grad * conjugated(self.to_dense() + 1).reciprocal()
