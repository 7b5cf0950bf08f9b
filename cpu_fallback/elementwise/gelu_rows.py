"""gelu of large contiguous float32 and its gradient, as instructions."""

from __future__ import annotations

from ...runtime.cpu.element_program import ElementProgram, Value
from ...runtime.cpu.elementary_functions import exp, number, polynomial
from ...runtime.cpu.hyperbolic_tangent import tanh
from .pointwise_math import CUBIC, INVERSE_SQRT_2PI, NORMAL, SQRT_2_OVER_PI


def gelu(p: ElementProgram, a: Value, is_tanh: bool) -> Value:
    """Return a * Phi(a), or its approximation by tanh."""
    share = _half(p, _tanh_of_cubic(p, a)) if is_tanh else _normal_share(p, a)
    return p.arithmetic("mul", share, a)


def gelu_backward(p: ElementProgram, grad: Value, a: Value, is_tanh: bool) -> Value:
    """Return the gradient of `gelu`: of x Phi(x) it is Phi(x) + x phi(x)."""

    def product(a: Value, b: Value | float) -> Value:
        return p.arithmetic("mul", a, b if isinstance(b, Value) else number(p, b))

    square = product(a, a)
    if is_tanh:
        tanh = _tanh_of_cubic(p, a)
        slope = product(square, 3 * SQRT_2_OVER_PI * CUBIC)
        slope = product(product(p.arithmetic("add", slope, number(p, SQRT_2_OVER_PI)), a), 0.5)
        slope = product(slope, p.arithmetic("sub", number(p, 1), product(tanh, tanh)))
        return product(p.arithmetic("add", _half(p, tanh), slope), grad)
    density = product(product(exp(p, product(square, -0.5)), INVERSE_SQRT_2PI), a)
    return product(p.arithmetic("add", _normal_share(p, a), density), grad)


def _half(p: ElementProgram, a: Value) -> Value:
    """Return (a + 1) / 2."""
    return p.arithmetic("mul", p.arithmetic("add", a, number(p, 1)), number(p, 0.5))


def _normal_share(p: ElementProgram, a: Value) -> Value:
    """Return Phi(a) = (1 + erf(a / sqrt(2))) / 2."""
    share = polynomial(p, NORMAL, p.arithmetic("mul", a, a))
    return _half(p, tanh(p, p.arithmetic("mul", share, a)))


def _tanh_of_cubic(p: ElementProgram, a: Value) -> Value:
    """Return tanh(sqrt(2 / pi) * (a + 0.044715 a^3))."""
    square = p.arithmetic("mul", a, a)
    slope = polynomial(p, (SQRT_2_OVER_PI, SQRT_2_OVER_PI * CUBIC), square)
    return tanh(p, p.arithmetic("mul", slope, a))
