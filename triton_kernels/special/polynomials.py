"""Orthogonal polynomials of degree n at x, n given for each element: recurrences of three terms.

Chebyshev's inside (-1, 1) are cosines. A negative degree gives 0. Source: Abramowitz and Stegun, "Handbook of
Mathematical Functions" (1964), tables 22.3 and 22.7.
"""

from typing import Any

from ...runtime.cuda.triton.lazy_triton import libdevice, tl, triton
from ..elementwise.pointwise_functions import divide
from .bessel import i0e, i1e, j0, j1
from .gamma import any_of

HIGH_DEGREE = tl.constexpr(1 << 17)
"""The degree from which there is a formula (`cpu_fallback/special/high_degrees.py`), and no recurrence."""
INFINITY = tl.constexpr(float("inf"))
T, U, V, W = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2), tl.constexpr(3)


@triton.jit
def recurrence(x, n, first, going, STEP: tl.constexpr):
    """Return the polynomial of degree n below `HIGH_DEGREE` where `going`; NaN ends the recurrence early."""
    x, n = tl.broadcast(x, n)
    going = going & (n == n)
    before = tl.full(x.shape, 1.0, x.dtype)
    first, going = tl.broadcast(first, going)
    result = tl.where(n == 0.0, before, first)
    current = first
    going = going & (n > 1.0) & (n < HIGH_DEGREE) & (first == first)
    k = 1
    while any_of(going) != 0:
        following = STEP(x, current, before, k.to(x.dtype))
        before = current
        current = following
        result = tl.where(going, following, result)
        k += 1
        going = going & (n > k) & (following == following)
    return result


@triton.jit
def odd(n):
    return n != 2.0 * libdevice.floor(n * 0.5)


@triton.jit
def finite_or_nan(value, x):
    """Convert a value to the dtype of x; overflow becomes NaN, as in the recurrence."""
    rounded = value.to(x.dtype)
    return tl.where(tl.abs(rounded) < INFINITY, rounded, float("nan"))


@triton.jit
def arccosh(x):
    """Return the inverse of the hyperbolic cosine, precise near 1."""
    less = x - 1.0
    return libdevice.log1p(less + tl.sqrt(less * (x + 1.0)))


@triton.jit
def high_legendre(x, n):
    wide, order = x.to(tl.float64), n.to(tl.float64) + 0.5
    size = tl.abs(wide)
    angle = libdevice.acos(tl.minimum(size, 1.0))
    sine = libdevice.sin(angle)
    weight = (angle * libdevice.cos(angle) - sine) / (8.0 * angle * sine * order)
    inside = tl.sqrt(angle / sine) * (j0(order * angle) + weight * j1(order * angle))
    growth = arccosh(tl.where(size < 1.0, 1.0, size))
    sine = libdevice.sinh(growth)
    weight = (growth * libdevice.cosh(growth) - sine) / (8.0 * growth * sine * order)
    outside = i0e(order * growth) + weight * i1e(order * growth)
    outside = tl.sqrt(growth / sine) * outside * libdevice.exp(order * growth)
    value = tl.where(size < 1.0, inside, tl.where(size == 1.0, 1.0, outside))
    return finite_or_nan(tl.where((x < 0.0) & odd(n), -value, value), x)


@triton.jit
def high_laguerre(x, n):
    wide, scale = x.to(tl.float64), 4.0 * n.to(tl.float64) + 2.0
    t = tl.abs(wide) / scale
    below = tl.where(t < 1.0, t, float("nan"))
    root = tl.sqrt(below - below * below)
    turned = scale * 0.5 * (root + libdevice.asin(tl.sqrt(below)))
    oscillating = libdevice.exp(wide * 0.5) * tl.sqrt(turned / (scale * root)) * j0(turned)
    root = tl.sqrt(t + t * t)
    grown = scale * 0.5 * (root + libdevice.asinh(tl.sqrt(t)))
    growing = libdevice.exp(wide * 0.5 + grown) * tl.sqrt(grown / (scale * root)) * i0e(grown)
    value = tl.where(wide > 0.0, oscillating, growing)
    return finite_or_nan(tl.where(wide == 0.0, 1.0, value), x)


@triton.jit
def high_hermite(x, n):
    return tl.zeros_like(x) + float("nan")


@triton.jit
def high_chebyshev(z, n, KIND: tl.constexpr):
    """Chebyshev's polynomials beyond 1 and -1."""
    n = n.to(tl.float64)
    size = tl.abs(z.to(tl.float64))
    growth = arccosh(tl.where(size < 1.0, 1.0, size))
    if KIND == T:
        value = libdevice.cosh(n * growth)
    elif KIND == U:
        value = libdevice.sinh((n + 1.0) * growth) / libdevice.sinh(growth)
    else:
        cosines = libdevice.cosh((n + 0.5) * growth) / libdevice.cosh(growth * 0.5)
        sines = libdevice.sinh((n + 0.5) * growth) / libdevice.sinh(growth * 0.5)
        value = tl.where((z > 0.0) == (KIND == V), cosines, sines)
    return finite_or_nan(tl.where((z < 0.0) & odd(n), -value, value), z)


@triton.jit
def of_degree(n):
    """Whole degrees; what is no number counts as a negative one."""
    return libdevice.trunc(tl.where(tl.abs(n) < INFINITY, n, -1.0))


@triton.jit
def chebyshev_step(x, current, before, k):
    return (x + x) * current - before


@triton.jit
def chebyshev(x, n, KIND: tl.constexpr, LEAST: tl.constexpr):
    """Chebyshev's polynomials of the four kinds; from the degree above LEAST on by cosines where |x| < 1."""
    n = of_degree(n)
    inside = (tl.abs(x) < 1.0) & (n > LEAST)
    at_one = tl.abs(x) == 1.0
    angle = libdevice.acos(tl.where(inside, x, 0.0))
    sign = tl.where((x > 0.0) | (odd(n) == 0), 1.0, -1.0)
    if KIND == T:
        first = x
        whole = libdevice.cos(n * angle)
        edge = sign
    elif KIND == U:
        first = x + x
        whole = divide(libdevice.sin((n + 1.0) * angle), libdevice.sin(angle))
        edge = sign * (n + 1.0)
    elif KIND == V:
        first = x + x - 1.0
        whole = divide(libdevice.cos((n + 0.5) * angle), libdevice.cos(angle * 0.5))
        edge = tl.where(x > 0.0, 1.0, sign * (n + n + 1.0))
    else:
        first = x + x + 1.0
        whole = divide(libdevice.sin((n + 0.5) * angle), libdevice.sin(angle * 0.5))
        edge = tl.where(x > 0.0, n + n + 1.0, sign)
    value = recurrence(x, n, first, (inside == 0) & (at_one == 0), chebyshev_step)
    is_high = (n >= HIGH_DEGREE) & (inside == 0)
    if any_of(is_high) != 0:
        value = tl.where(is_high, high_chebyshev(x, n, KIND), value)
    value = tl.where(at_one, edge, tl.where(inside, whole, value))
    return tl.where(n < 0.0, 0.0, value)


@triton.jit
def chebyshev_t(x, n):
    return chebyshev(x, n, T, 6.0)


@triton.jit
def chebyshev_u(x, n):
    return chebyshev(x, n, U, 8.0)


@triton.jit
def chebyshev_v(x, n):
    return chebyshev(x, n, V, 8.0)


@triton.jit
def chebyshev_w(x, n):
    return chebyshev(x, n, W, 8.0)


@triton.jit
def shifted_t(x, n):
    return chebyshev(x + x - 1.0, n, T, 6.0)


@triton.jit
def shifted_u(x, n):
    return chebyshev(x + x - 1.0, n, U, 6.0)


@triton.jit
def shifted_v(x, n):
    return chebyshev(x + x - 1.0, n, V, 6.0)


@triton.jit
def shifted_w(x, n):
    return chebyshev(x + x - 1.0, n, W, 4.0)


@triton.jit
def hermite_h_step(x, current, before, k):
    return (x + x) * current - (k + k) * before


@triton.jit
def hermite_he_step(x, current, before, k):
    return x * current - k * before


@triton.jit
def laguerre_step(x, current, before, k):
    return divide((k + k + 1.0 - x) * current - k * before, tl.full(x.shape, 1.0, x.dtype) + k)


@triton.jit
def legendre_step(x, current, before, k):
    return divide((k + k + 1.0) * x * current - k * before, tl.full(x.shape, 1.0, x.dtype) + k)


@triton.jit
def from_degree_one(x, n, first, STEP: tl.constexpr, HIGH: tl.constexpr):
    n = of_degree(n)
    value = recurrence(x, n, first, x == x, STEP)
    is_high = n >= HIGH_DEGREE
    if any_of(is_high) != 0:
        value = tl.where(is_high, HIGH(x, n), value)
    return tl.where(n < 0.0, 0.0, value)


@triton.jit
def hermite_h(x, n):
    return from_degree_one(x, n, x + x, hermite_h_step, high_hermite)


@triton.jit
def hermite_he(x, n):
    return from_degree_one(x, n, x, hermite_he_step, high_hermite)


@triton.jit
def laguerre_l(x, n):
    return from_degree_one(x, n, 1.0 - x, laguerre_step, high_laguerre)


@triton.jit
def legendre_p(x, n):
    return from_degree_one(x, n, x, legendre_step, high_legendre)


POLYNOMIALS: dict[str, Any] = {
    "chebyshev_polynomial_t": chebyshev_t,
    "chebyshev_polynomial_u": chebyshev_u,
    "chebyshev_polynomial_v": chebyshev_v,
    "chebyshev_polynomial_w": chebyshev_w,
    "hermite_polynomial_h": hermite_h,
    "hermite_polynomial_he": hermite_he,
    "laguerre_polynomial_l": laguerre_l,
    "legendre_polynomial_p": legendre_p,
    "shifted_chebyshev_polynomial_t": shifted_t,
    "shifted_chebyshev_polynomial_u": shifted_u,
    "shifted_chebyshev_polynomial_v": shifted_v,
    "shifted_chebyshev_polynomial_w": shifted_w,
}
