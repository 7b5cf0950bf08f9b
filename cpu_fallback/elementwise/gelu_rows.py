"""gelu of large contiguous float32 and its gradient, as instructions."""

from __future__ import annotations

from ...runtime.cpu.element_program import ElementProgram, Value
from ...runtime.cpu.elementary_functions import exp, number, polynomial
from ...runtime.cpu.hyperbolic_tangent import tanh
from .pointwise_math import CUBIC, INVERSE_SQRT_2PI, SQRT_2_OVER_PI

NORMAL_ABOVE = (
    *(0.39894217252731323, 0.033778514713048935, 0.004680126439779997),
    *(0.00016905934899114072, 6.448998192354338e-06, 2.3425673845167694e-08),
)
NORMAL_BELOW = (
    *(1.0, 0.2513355612754822, 0.028622733429074287),
    *(0.0018853982910513878, 7.421862392220646e-05, 1.2242827551744995e-06),
)
"""(Phi(x) - 1/2) / x as a quotient of polynomials of x**2, minimax in float32; coefficients from the lowest power."""
NORMAL_END = 5.3
"""From here on, Phi(x) is taken as 0 or 1; x Phi(x) then has an error of at most 3.1e-7."""


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
    """Return Phi(a) = (1 + erf(a / sqrt(2))) / 2, within 1.5e-7."""
    square, end = p.arithmetic("mul", a, a), number(p, NORMAL_END)
    above = p.arithmetic("mul", polynomial(p, NORMAL_ABOVE, square), a)
    share = p.arithmetic("div", above, polynomial(p, NORMAL_BELOW, square))
    share = p.arithmetic("add", share, number(p, 0.5))
    share = p.select(p.compare("gt", a, end), number(p, 1), share)
    return p.select(p.compare("lt", a, p.negative(end)), number(p, 0), share)


def _tanh_of_cubic(p: ElementProgram, a: Value) -> Value:
    """Return tanh(sqrt(2 / pi) * (a + 0.044715 a^3))."""
    square = p.arithmetic("mul", a, a)
    slope = polynomial(p, (SQRT_2_OVER_PI, SQRT_2_OVER_PI * CUBIC), square)
    return tanh(p, p.arithmetic("mul", slope, a))
