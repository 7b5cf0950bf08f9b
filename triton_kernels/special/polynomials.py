"""Orthogonal polynomials of degree n at x, n given for each element: recurrences of three terms.

Chebyshev's inside (-1, 1) are cosines. A negative degree gives 0. Source: Abramowitz and Stegun, "Handbook of
Mathematical Functions" (1964), tables 22.3 and 22.7.
"""

from typing import Any

from ...runtime.cuda.triton.lazy_triton import libdevice, tl, triton
from ..elementwise.pointwise_functions import divide
from .gamma import MOST_TERMS, any_of

INFINITY = tl.constexpr(float("inf"))
T, U, V, W = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2), tl.constexpr(3)


@triton.jit
def recurrence(x, n, first, going, STEP: tl.constexpr):
    """The polynomial of degree n where `going`, from those of degrees 0 and 1; NaN ends it early."""
    x, n = tl.broadcast(x, n)
    going = going & (n == n)
    before = tl.full(x.shape, 1.0, x.dtype)
    first, going = tl.broadcast(first, going)
    result = tl.where(n == 0.0, before, first)
    current = first
    going = going & (n > 1.0) & (first == first)
    k = 1
    while (k < MOST_TERMS) & (any_of(going) != 0):
        following = STEP(x, current, before, k.to(x.dtype))
        before = current
        current = following
        result = tl.where(going, following, result)
        k += 1
        going = going & (n > k) & (following == following)
    return result


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
    sign = tl.where((x > 0.0) | (n == 2.0 * libdevice.floor(n * 0.5)), 1.0, -1.0)
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
def from_degree_one(x, n, first, STEP: tl.constexpr):
    n = of_degree(n)
    value = recurrence(x, n, first, x == x, STEP)
    return tl.where(n < 0.0, 0.0, value)


@triton.jit
def hermite_h(x, n):
    return from_degree_one(x, n, x + x, hermite_h_step)


@triton.jit
def hermite_he(x, n):
    return from_degree_one(x, n, x, hermite_he_step)


@triton.jit
def laguerre_l(x, n):
    return from_degree_one(x, n, 1.0 - x, laguerre_step)


@triton.jit
def legendre_p(x, n):
    return from_degree_one(x, n, x, legendre_step)


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
