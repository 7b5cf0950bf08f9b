"""The functions of arrays that NumPy does not have as one ufunc, in the operands' common dtype.

They return new arrays, hold no state, and follow PyTorch in the edges: NaN, infinities, signed zeros, zero
divisors. They run with floating-point errors ignored.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

from numpy._core.umath import clip  # the ufunc under np.clip, which keeps NaN and goes over the data once

from ..plain_numpy import copyto, np, undispatched
from .elementwise import making, writing
from .selection import selected
from .vector_passes import NUMPY_HAS_VECTORS, square_sum

count_nonzero: Callable[[Any], int] = undispatched(np.count_nonzero)


@making
def add_scaled(a: Any, b: Any, alpha: Any, out: Any = None) -> Any:
    """Compute a + alpha * b."""
    return np.add(a, np.multiply(b, alpha), out)


@making
def sub_scaled(a: Any, b: Any, alpha: Any, out: Any = None) -> Any:
    """Compute a - alpha * b."""
    return np.subtract(a, np.multiply(b, alpha), out)


@making
def rsub(a: Any, b: Any, alpha: Any, out: Any = None) -> Any:
    """Compute b - alpha * a."""
    return np.subtract(b, np.multiply(a, alpha), out)


@making
def rsub_unscaled(a: Any, b: Any, out: Any = None) -> Any:
    """Compute b - a."""
    return np.subtract(b, a, out)


@making
def addcmul(a: Any, x: Any, y: Any, value: Any, out: Any = None) -> Any:
    """Compute a + value * x * y."""
    return np.add(a, value * x * y, out)


@making
def addcmul_unscaled(a: Any, x: Any, y: Any, out: Any = None) -> Any:
    """Compute a + x * y."""
    return np.add(a, x * y, out)


@making
def addcdiv(a: Any, x: Any, y: Any, value: Any, out: Any = None) -> Any:
    """Compute a + value * x / y."""
    return np.add(a, value * x / y, out)


@making
def addcdiv_unscaled(a: Any, x: Any, y: Any, out: Any = None) -> Any:
    """Compute a + x / y."""
    return np.add(a, x / y, out)


def conjugate(a: Any) -> Any:
    """Return the complex conjugate, or real numbers unchanged."""
    return np.conjugate(a) if a.dtype.kind == "c" else np.positive(a) if a.dtype.kind != "b" else a.copy()


LOG1P_FROM = 1 << 13
"""Elements from which NumPy's vector logarithm and its correction are quicker than its log1p."""


def log1p(a: Any) -> Any:
    """Compute log(1 + a). If NumPy has no vectors of it, float32 takes the logarithm, corrected for the sum's rounding.

    Source: Kahan's identity, in Goldberg, "What Every Computer Scientist Should Know About Floating-Point Arithmetic",
    1991, theorem 4.
    """
    if a.dtype != np.float32 or a.size < LOG1P_FROM or NUMPY_HAS_VECTORS:
        return np.log1p(a)
    raised = a + np.float32(1)
    share = raised - np.float32(1)
    np.divide(a, share, share)
    result = np.log(raised)
    result *= share
    return selected(np.isfinite(share), result, a)


@writing
def log10(a: Any, out: Any) -> None:
    """Compute the logarithm to base 10; float32 computes in float64, since NumPy's own misses powers of ten."""
    np.log10(a, out, dtype=np.float64 if a.dtype == np.float32 else None, casting="same_kind")


@writing
def reciprocal(a: Any, out: Any) -> None:
    """Compute 1 / a; of the complex 0 it is infinite, which NumPy's reciprocal does not say."""
    if a.dtype.kind == "c":
        np.divide(1, a, out)
    else:
        np.reciprocal(a, out)


@making
def rsqrt(a: Any, out: Any = None) -> Any:
    """Compute 1 / sqrt(a)."""
    root = np.sqrt(a, out)
    return np.divide(1, root, root) if root.dtype.kind == "c" else np.reciprocal(root, root)


@making
def negative(a: Any, out: Any = None) -> Any:
    """Return -a for any strides of both arrays.

    `np.negative` of NumPy 2.4 misreads inputs whose elements are 4 (of 32 bits) or 8 (of 64 bits) items apart when the
    output has gaps too. A new array has none.
    """
    made = np.negative(a)
    if out is None:
        return made
    copyto(out, made)
    return out


@cache
def sigmoid_in(np_dtype: Any, negative: Callable[..., Any] = np.negative) -> Callable[..., Any]:
    """Compute 1 / (1 + exp(-a)) in a dtype; exp overflows to infinity, which gives the right 0.

    `negative` computes -a: `np.negative` for rows without gaps, the function above for other strides.
    """
    one = np.ones((), np_dtype)

    exp, add, reciprocal = np.exp, np.add, np.reciprocal

    @making
    def sigmoid(a: Any, out: Any = None) -> Any:
        made = negative(a, out)
        exp(made, made)
        add(made, one, made)
        return reciprocal(made, made)

    return sigmoid


def sigmoid_backward(grad: Any, y: Any) -> Any:
    """Compute grad * conj(y * (1 - y))."""
    factor = y * (1 - y)
    return grad * (np.conjugate(factor) if factor.dtype.kind == "c" else factor)


def tanh_backward(grad: Any, y: Any) -> Any:
    """Compute grad * conj(1 - y^2)."""
    factor = 1 - y * y
    return grad * (np.conjugate(factor) if factor.dtype.kind == "c" else factor)


@writing
def silu(a: Any, out: Any) -> None:
    """Compute a * sigmoid(a)."""
    divisor = np.empty_like(out)
    np.negative(a, divisor)
    np.exp(divisor, divisor)
    np.add(divisor, 1, divisor)
    np.divide(a, divisor, out)


def silu_backward(grad: Any, a: Any) -> Any:
    """Compute grad * sigmoid(a) * (1 + a * (1 - sigmoid(a)))."""
    s = np.reciprocal(1 + np.exp(-a))
    factor = s * (1 + a * (1 - s))
    return grad * (np.conjugate(factor) if factor.dtype.kind == "c" else factor)


def softplus_backward(grad: Any, a: Any, beta: Any, threshold: Any) -> Any:
    """Compute grad * sigmoid(beta * a), and grad itself above the threshold."""
    scaled = a * beta
    z = np.exp(scaled)
    return selected(scaled > threshold, grad, grad * z / (z + 1))


@writing
def leaky_relu(a: Any, slope: Any, out: Any) -> None:
    """Compute a where positive, else a * slope, for one slope that may be expanded to a block."""
    scaled = a * slope
    if 0 < slope.flat[0] <= 1:
        np.maximum(a, scaled, out=out)
    else:
        copyto(out, selected(a > 0, a, scaled))


def leaky_relu_backward(grad: Any, a: Any, slope: Any) -> Any:
    """Compute grad where the input (or the result, which has the same sign) is positive, else grad * slope."""
    return selected(a > 0, grad, grad * slope)


_BITS = {np.dtype(np.float32): np.dtype(np.uint32), np.dtype(np.float64): np.dtype(np.uint64)}


def threshold_backward(grad: Any, a: Any, threshold: Any) -> Any:
    """Compute grad where a exceeds the threshold, else 0.

    The product of the bits with 0 or 1 has no branches; that of the numbers would make NaN of infinity.
    """
    bits = _BITS.get(grad.dtype)
    if bits is None:
        return selected(a <= threshold, np.zeros((), grad.dtype), grad)
    below = np.less_equal(a, threshold)
    mask = np.logical_not(below, below) if below.ndim else np.logical_not(below)
    return np.multiply(grad.view(bits), mask).view(grad.dtype)


def threshold_backward_into(out: Any, grad: Any, a: Any, threshold: Any) -> None:
    """Compute the threshold gradient of float arrays of one layout."""
    bits = _BITS[grad.dtype]
    below = np.less_equal(a, threshold)
    np.multiply(grad.view(bits), np.logical_not(below, below), out.view(bits))


SQRT_HALF = math.sqrt(0.5)
SQRT_2_OVER_PI = math.sqrt(2 / math.pi)
INVERSE_SQRT_2PI = 1 / math.sqrt(2 * math.pi)
CUBIC = 0.044715
"""The coefficient of the cubic term in gelu's tanh form (Hendrycks and Gimpel)."""


ERF_OVER_X = (
    (
        *(1.1283791681351365, 0.18520454749239934, 0.054316960116746485, 0.0038496502871433382),
        *(0.0003796044030139574, 4.684622475713854e-06, -1.3201511352768334e-08),
    ),
    (
        *(1.0, 0.49746667030653635, 0.11395885180927107, 0.01546215020238002),
        *(0.001307571945424009, 6.310913326669165e-05),
    ),
)
"""Numerator and denominator of erf(x) / x in powers of x**2, fitted on [0, 4]: off by 2.1e-9 of itself at most."""
ERF_FROM = 1 << 9
"""Elements from which the fit is quicker than SciPy's function of one number."""


@writing
def erf(a: Any, out: Any) -> None:
    """Compute the error function; float32 is a quotient of polynomials in float64, clamped to 1 beyond 4."""
    if a.dtype != np.float32 or a.size < ERF_FROM:
        _scipy_erf()(a, out)
        return
    x = a.astype(np.float64)
    clip(x, -4.0, 4.0, x)
    square = x * x
    numerator, denominator = ERF_OVER_X
    above = _polynomial(numerator, square)
    above *= x
    above /= _polynomial(denominator, square)
    np.copyto(out, above, casting="unsafe")


def _polynomial(coefficients: tuple[float, ...], x: Any) -> Any:
    """Evaluate a polynomial by Horner's rule; coefficients start with the lowest power."""
    value = x * coefficients[-1]
    for coefficient in coefficients[-2:0:-1]:
        value += coefficient
        value *= x
    value += coefficients[0]
    return value


@cache
def _scipy_erf() -> Callable[..., Any]:
    from scipy.special import erf

    result: Callable[..., Any] = erf
    return result


NORMAL = (
    7.97884617e-01,
    3.63346338e-02,
    -3.45221262e-05,
    -5.43447155e-05,
    3.73872933e-06,
    -1.05954313e-07,
    3.05160509e-10,
    2.99390236e-11,
)
"""The polynomial p with erf(x / sqrt(2)) = tanh(x * p(x^2)) to 7.1e-8 of it up to |x| = 5.6; beyond that both are 1.

Made by least squares over Chebyshev polynomials of atanh(erf(x / sqrt(2))) / x, reweighted until the largest error
was least (C. L. Lawson, 1961).
"""


FEW = 512
"""Limit below which one call of erf is faster than the calls of the polynomial."""


def normal_share(a: Any) -> tuple[Any, Any]:
    """Compute (1 + erf(a / sqrt(2))) / 2 of float32, and a * a."""
    square = np.multiply(a, a)
    share = np.multiply(square, NORMAL[-1])
    for coefficient in NORMAL[-2:0:-1]:
        np.add(share, coefficient, share)
        np.multiply(share, square, share)
    np.add(share, NORMAL[0], share)
    np.multiply(share, a, share)
    np.tanh(share, share)
    np.add(share, 1, share)
    return np.multiply(share, 0.5, share), square


@writing
def gelu(a: Any, out: Any) -> None:
    """Compute x * Phi(x) with the exact normal distribution function."""
    if out.dtype == np.float32 and out.size > FEW:
        share, _ = normal_share(a)
    else:
        share = np.empty_like(out)
        np.multiply(a, SQRT_HALF, share)
        erf(share, share)
        np.add(share, 1, share)
        np.multiply(share, 0.5, share)
    np.multiply(a, share, out)


@writing
def gelu_backward(grad: Any, a: Any, out: Any) -> None:
    """Compute grad * (Phi(x) + x * phi(x))."""
    if out.dtype == np.float32 and out.size > FEW:
        cdf, square = normal_share(a)
        pdf = np.multiply(square, -0.5, square)
        np.exp(pdf, pdf)
        np.multiply(pdf, INVERSE_SQRT_2PI, pdf)
        np.multiply(pdf, a, pdf)
        np.add(cdf, pdf, cdf)
    else:
        share = np.empty_like(out)
        np.multiply(a, SQRT_HALF, share)
        erf(share, share)
        cdf = 0.5 * (1 + share) + a * (np.exp(-0.5 * a * a) * INVERSE_SQRT_2PI)
    np.multiply(grad, cdf, out)


def gelu_tanh(a: Any) -> Any:
    """Compute x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))."""
    return 0.5 * a * (1 + np.tanh(SQRT_2_OVER_PI * (a + CUBIC * a * a * a)))


def gelu_tanh_backward(grad: Any, a: Any) -> Any:
    """Compute the gradient of `gelu_tanh`."""
    square = a * a
    t = np.tanh(SQRT_2_OVER_PI * (a + CUBIC * square * a))
    slope = SQRT_2_OVER_PI * (1 + 3 * CUBIC * square)
    return grad * (0.5 * (1 + t) + 0.5 * a * (1 - t * t) * slope)


@making
def lerp(start: Any, end: Any, weight: Any, out: Any = None) -> Any:
    """Compute start + weight * (end - start), from the end for large weights, so that weight 1 gives the end
    exactly.

    If the span is infinite, the result is the weighted sum, which is infinite between a number and infinity.
    """
    span = end - start
    is_finite = span.dtype.kind == "c" or math.isfinite(np.add.reduce(span, None))
    if weight.ndim or not is_finite:
        made = _lerp_of_each(start, end, weight, span)
        if not is_finite:
            made = selected(np.isnan(made), _share(start, 1 - weight) + _share(end, weight), made)
        if out is None:
            return made
        copyto(out, made)
        return out
    if abs(weight.item()) < 0.5:
        span *= weight
        return np.add(start, span, out)
    span *= 1 - weight
    return np.subtract(end, span, out)


def _share(a: Any, weight: Any) -> Any:
    """Return one term of a weighted sum; an infinite value with weight 0 contributes nothing."""
    return selected((weight == 0) & np.isinf(a), a.dtype.type(0), a * weight)


def _lerp_of_each(start: Any, end: Any, weight: Any, span: Any) -> Any:
    return selected(np.abs(weight) < 0.5, start + weight * span, end - span * (1 - weight))


@writing
def clamp_between(a: Any, min_value: Any, max_value: Any, out: Any) -> None:
    """Clamp `a` to [`min_value`, `max_value`]; NaN propagates."""
    np.minimum(np.maximum(a, min_value), max_value, out=out)


@cache
def round_to(power: float, is_decimal: bool) -> Callable[[Any], Any]:
    """Return the function that rounds to multiples of a power of ten, or to decimal places, with ties to even."""
    if power == 1:
        return np.rint
    scale, unscale = (np.multiply, np.divide) if is_decimal else (np.divide, np.multiply)

    @writing
    def rounded(a: Any, out: Any) -> None:
        scale(a, power, out)
        np.rint(out, out)
        unscale(out, power, out)

    return rounded


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap an integer division so that it raises RuntimeError if a divisor is zero."""

    def divide(a: Any, b: Any) -> Any:
        if not np.all(b) and np.size(a):
            raise RuntimeError("ZeroDivisionError")
        return function(a, b)

    return divide


def divide_floor(a: Any, b: Any) -> Any:
    """Compute floor(a / b) consistently with the remainder; a / b itself if b is zero.

    For finite float32, the quotient in float64 has the same floor: a quotient that is no whole number is
    further from one than the rounding error, up to 2^29. Beyond that, float32 does not hold every whole
    number.
    """
    if a.dtype == np.float32 and square_sum(b, b) < np.inf:
        quotient = a.astype(np.float64) / b.astype(np.float64)
        if square_sum(quotient, quotient) < np.inf:
            return np.floor(quotient, out=quotient if quotient.ndim else None).astype(np.float32)
    if a.dtype == np.float32 and np.isfinite(a).all() and np.isfinite(b).all():
        quotient = np.divide(a, b, dtype=np.float64)
        return np.floor(quotient, out=quotient if quotient.ndim else None).astype(np.float32)
    return np.floor_divide(a, b)


def divide_floor_integers(a: Any, b: Any) -> Any:
    """Compute floor(a / b)."""
    return np.floor_divide(a, b)


@writing
def divide_trunc(a: Any, b: Any, out: Any) -> None:
    """Compute a / b towards zero."""
    np.divide(a, b, out)
    np.trunc(out, out)


def divide_trunc_in(narrow: Any) -> Callable[[Any, Any], Any]:
    """`divide_trunc` with the quotient rounded to a narrow dtype before it is truncated, as PyTorch's of tensors is."""
    return lambda a, b: np.trunc((a / b).astype(narrow).astype(a.dtype))


def divide_trunc_integers(a: Any, b: Any) -> Any:
    """Compute a / b towards zero."""
    quotient = np.floor_divide(a, b)
    inexact = (a - quotient * b != 0) & ((a < 0) != (b < 0))
    return quotient + inexact.astype(quotient.dtype)


def remainder(a: Any, b: Any) -> Any:
    """Compute fmod with the sign of the divisor, also for zero."""
    return np.remainder(a, b)


def remainder_integers(a: Any, b: Any) -> Any:
    """Compute the remainder with the divisor's sign."""
    return np.remainder(a, b)


def fmod_integers(a: Any, b: Any) -> Any:
    """Compute the remainder with the dividend's sign."""
    return np.fmod(a, b)


@writing
def pow_constant(a: Any, exponent: Any, out: Any) -> None:
    """Compute a ** exponent for one real exponent, the frequent ones without a power function."""
    special = _POWERS.get(exponent.item())
    if special is None:
        np.power(a, exponent, out)
    else:
        special(a, out)


@writing
def pow_complex_constant(a: Any, exponent: Any, out: Any) -> None:
    """Compute a ** exponent of complex numbers for one exponent; -1 is the reciprocal, infinite at 0."""
    if exponent == -1:
        np.divide(1, a, out)
    else:
        np.power(a, exponent, out)


_POWERS: dict[float, Callable[[Any, Any], Any]] = {
    0.5: np.sqrt,
    1.0: np.positive,
    2.0: np.square,
    3.0: lambda a, out: np.multiply(a * a, a, out),
    -0.5: lambda a, out: np.reciprocal(np.sqrt(a, out), out),
    -1.0: np.reciprocal,
    -2.0: lambda a, out: np.reciprocal(np.multiply(a, a, out), out),
}


def pow_integers(a: Any, b: Any) -> Any:
    """Compute a ** b, where a negative exponent leaves of 1 and -1 their powers, and of others 0."""
    negative = b < 0
    if not np.any(negative):
        return np.power(a, b)
    out = np.power(a, selected(negative, b & 1, b))
    unit = (a == 1) | (a == -1)
    return selected(negative & ~unit, np.zeros((), out.dtype), out)
