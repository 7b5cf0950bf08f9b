"""Functions of arrays that take numbers apart or look at what is not a number: signs, exponents, neighbours, NaN.

They return new arrays in the operands' common dtype and follow PyTorch in the edges. They run with floating-point
errors ignored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..plain_numpy import np
from .elementwise import writing
from .vector_passes import square_sum

Array = np.ndarray[Any, Any]


def unchanged(a: Array, *replacements: Any) -> Array:
    """Return a copy."""
    return a.copy()


@writing
def frac(a: Array, out: Array) -> None:
    """Compute the fractional part; NaN for infinity."""
    np.subtract(a, np.trunc(a), out)


def sgn(a: Array) -> Array:
    """Return the sign, or the direction of a complex number; 0 for 0 and for a real NaN."""
    if a.dtype.kind == "c":
        size, direction = np.abs(a), np.empty_like(a)
        # By parts: NumPy's complex division takes the reciprocal, which overflows for subnormal numbers.
        np.divide(a.real, size, direction.real)
        np.divide(a.imag, size, direction.imag)
        return np.where(size == 0, np.zeros((), a.dtype), direction)
    if a.dtype.kind == "b":
        return a.copy()
    if a.dtype.kind == "f":
        direction = np.sign(a)
        if square_sum(direction, direction) >= 0:
            return direction  # type: ignore[no-any-return]
        return np.where(np.isnan(direction), np.zeros((), a.dtype), direction)
    return np.sign(a)


def signbit(a: Array) -> Array:
    """Return True if a number has a minus sign, which zero and NaN may have too."""
    return np.signbit(a) if a.dtype.kind == "f" else a < np.zeros((), a.dtype)


def heaviside(a: Array, values: Array) -> Array:
    """Return 0 below zero, 1 above it, `values` at it, and 0 for NaN."""
    return np.where(a == 0, values, (a > 0).astype(a.dtype))


def truth_power(a: Array, exponent: Array) -> Array:
    """Return a boolean to the power of another: True if the exponent is False."""
    return np.logical_or(a, np.logical_not(exponent))


def least_multiple(a: Array, b: Array) -> Array:
    """Return the least common multiple; overflow wraps, and from 32 bits on loses its sign, as in C."""
    result = np.lcm(a, b)
    return np.absolute(result) if result.dtype.itemsize >= 4 else result


def mantissa(a: Array) -> Array:
    """Return the mantissa of frexp."""
    return np.frexp(a)[0]


def exponent(a: Array) -> Array:
    """Return the exponent of frexp."""
    return np.frexp(a)[1]


def nextafter_narrow(a: Array, b: Array) -> Array:
    """Return the neighbor of `a` towards `b` in a 16-bit floating dtype, computed on its bits."""
    a, b = np.broadcast_arrays(a, b)
    bits = np.ascontiguousarray(a).view(np.int16)
    wide_a, wide_b = a.astype(np.float32), b.astype(np.float32)
    away = (wide_a < wide_b) == (wide_a > 0)
    moved = np.where(away, bits + np.int16(1), bits - np.int16(1)).astype(np.int16)
    least = np.where(wide_b < 0, np.int16(-0x7FFF), np.int16(1))
    neighbor = np.where(wide_a == 0, least, moved).view(a.dtype)
    neighbor = np.where(wide_a == wide_b, b, neighbor)
    return np.where(np.isnan(wide_a), a, np.where(np.isnan(wide_b), b, neighbor))


def logaddexp(a: Array, b: Array) -> Array:
    """Compute log(exp(a) + exp(b)), of the one with the greater real part taken out."""
    if a.dtype.kind != "c":
        return np.logaddexp(a, b)
    a, b = np.broadcast_arrays(a, b)
    nan = np.isnan(a) | np.isnan(b)
    larger = a.real >= b.real
    high, low = np.where(larger, a, b), np.where(larger, b, a)
    unbounded = ~np.isfinite(high.real) & (high.real == low.real)
    apart = np.where(high.real < 0, high, np.log(np.exp(high) + np.exp(low)))
    # The real part of log(1 + z) uses log1p, which small numbers need.
    z = np.exp(low - high)
    result = np.where(unbounded, apart, high + np.log1p(z))
    return np.where(nan, np.array(complex(np.nan, np.nan), a.dtype), result)


def logaddexp2(a: Array, b: Array) -> Array:
    """Compute log2(2^a + 2^b)."""
    return np.logaddexp2(a, b)


def sinc(a: Array) -> Array:
    """Compute sin(pi a) / (pi a), 1 at zero."""
    scaled = a * _PI[a.dtype]
    result = np.sin(scaled)
    result /= scaled
    if square_sum(result, result) >= 0:
        return result  # type: ignore[no-any-return]
    return np.where(a == 0, np.ones((), a.dtype), result)


_PI = {
    np.dtype(kind): np.array(np.pi, kind) for kind in (np.float32, np.float64, np.complex64, np.complex128)
}


def finite_within(least: float, max_value: float) -> Callable[..., Array]:
    """Replace NaN and the infinities, in both parts of complex numbers: by 0 and these where nothing is given."""

    def finite(a: Array, nan: Any, posinf: Any, neginf: Any) -> Array:
        if square_sum(a, a) < np.inf:
            return a.copy()
        parts = np.array(a, order="C", ndmin=1)
        if np.isfinite(parts).all():
            return parts.reshape(a.shape)
        flat = parts.view(parts.real.dtype) if a.dtype.kind == "c" else parts
        kind = flat.dtype.type
        replaced = np.where(np.isnan(flat), kind(0.0 if nan is None else nan.real), flat)
        replaced = np.where(flat == np.inf, kind(max_value if posinf is None else posinf.real), replaced)
        replaced = np.where(flat == -np.inf, kind(least if neginf is None else neginf.real), replaced)
        return replaced.view(a.dtype).reshape(a.shape)

    return finite


def logit(a: Array, eps: Any) -> Array:
    """Compute log(a / (1 - a)), of numbers brought to [eps, 1 - eps] if there is an eps."""
    if eps is not None:
        # NaN is kept; the lower bound counts where the two are exchanged.
        a = np.where(a < eps, eps, np.where(a > 1 - eps, 1 - eps, a))
    return np.log(a / (1 - a))


def logit_backward(grad: Array, a: Array, eps: Any) -> Array:
    """Compute grad / (a (1 - a)) within the bounds; outside 0, or without an eps NaN."""
    low, high, outside = (0, 1, np.nan) if eps is None else (eps, 1 - eps, 0)
    divisor = a * (1 - a)
    # At 0 and 1 themselves the slope is infinite with the gradient's sign.
    slope = np.where(divisor == 0, grad * np.array(np.inf, grad.dtype), grad / divisor)
    return np.where((a >= low) & (a <= high), slope, np.array(outside, grad.dtype))
