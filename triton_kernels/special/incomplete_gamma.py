"""Regularized incomplete gamma functions, in float64 for every dtype.

P(a, x) is a series for smaller x, Q(a, x) a continued fraction for larger x. From a = 20000 on, both need too
many terms, and the uniform expansion holds. Single precision would lose the digits of x^a exp(-x) / gamma(a),
whose exponents nearly cancel. Sources: NIST Digital Library of Mathematical Functions, 8.7, 8.9 and 8.12; N.
M. Temme, "The asymptotic expansion of the incomplete gamma functions" (1979).
"""

from ...runtime.cuda.triton.lazy_triton import libdevice, tl, triton
from .gamma import any_of

INFINITY = tl.constexpr(float("inf"))
MAX_TERMS = tl.constexpr(2000)
LARGE = tl.constexpr(20000.0)


@triton.jit
def leading_factor(a, x):
    """x^a exp(-x) / gamma(a + 1), for large a by Stirling's series around x = a."""
    small = libdevice.exp(a * libdevice.log(x) - x - libdevice.lgamma(a + 1.0))
    safe = tl.where(a < 10.0, 10.0, a)
    mu = (x - safe) / safe
    z = 1.0 / (safe * safe)
    stirling = (
        0.08333333333333333
        - z
        * (
            0.002777777777777778
            - z
            * (
                0.0007936507936507937
                - z * (0.0005952380952380953 - z * (0.0008417508417508417 - z * 0.0019175269175269176))
            )
        )
    ) / safe
    large = libdevice.exp(safe * (libdevice.log1p(mu) - mu) - stirling) / tl.sqrt(6.283185307179586 * safe)
    return tl.where(a < 10.0, small, large)


@triton.jit
def series(a, x, going):
    """Return the sum of x^n / ((a + 1) ... (a + n))."""
    total = tl.full(x.shape, 1.0, x.dtype)
    term = total
    n = 0
    while (n < MAX_TERMS) & (any_of(going) != 0):
        n += 1
        term = tl.where(going, term * x / (a + n), term)
        total = tl.where(going, total + term, total)
        going = going & (tl.abs(term) > tl.abs(total) * 1.1102230246251565e-16)
    return total


@triton.jit
def fraction(a, x, going):
    """Return the continued fraction of gamma(a, x) / (x^a exp(-x)), by Lentz's algorithm."""
    b = x + 1.0 - a
    c = tl.full(b.shape, 1e300, b.dtype)
    d = 1.0 / tl.where(b == 0.0, 1e-300, b)
    value = d
    n = 0
    while (n < MAX_TERMS) & (any_of(going) != 0):
        n += 1
        numerator = n * (a - n)
        b += 2.0
        d = numerator * d + b
        d = 1.0 / tl.where(d == 0.0, 1e-300, d)
        c = b + numerator / c
        c = tl.where(c == 0.0, 1e-300, c)
        step = c * d
        value = tl.where(going, value * step, value)
        going = going & (tl.abs(step - 1.0) > 2.220446049250313e-16)
    return value


@triton.jit
def uniform(a, x, sign):
    """Q(a, x) for sign 1, P(a, x) for -1, where a is large: by erfc and two terms of its correction."""
    mu = (x - a) / a
    half = mu - libdevice.log1p(mu)
    near = tl.abs(mu) < 0.01
    by_series = (
        mu
        * mu
        * (
            0.5
            - mu
            * (
                0.3333333333333333
                - mu
                * (0.25 - mu * (0.2 - mu * (0.16666666666666666 - mu * (0.14285714285714285 - mu * 0.125))))
            )
        )
    )
    half = tl.where(near, by_series, half)
    eta = libdevice.copysign(tl.sqrt(2.0 * half), mu)
    first = -0.3333333333333333 + eta * (
        0.08333333333333333
        + eta
        * (
            -0.014814814814814815
            + eta
            * (
                0.0011574074074074073
                + eta
                * (
                    0.0003527336860670194
                    + eta
                    * (-0.00017875514403292181 + eta * (3.919263178522438e-05 + eta * -2.185448510679992e-06))
                )
            )
        )
    )
    second = -0.001851851851851852 + eta * (
        -0.003472222222222222
        + eta * (0.0026455026455026454 + eta * (-0.0009902263374485596 + eta * 0.0002057613168724279))
    )
    correction = libdevice.exp(-a * half) / tl.sqrt(6.283185307179586 * a) * (first + second / a)
    return 0.5 * libdevice.erfc(sign * eta * tl.sqrt(a * 0.5)) + sign * correction


@triton.jit
def with_edges(a, x, value, at_zero):
    """NaN below zero and at the two common limits; `at_zero` is the function's value at x = 0."""
    value = tl.where(x == INFINITY, 1.0 - at_zero, value)
    value = tl.where(a == INFINITY, tl.where(x == INFINITY, float("nan"), at_zero), value)
    value = tl.where(x == 0.0, at_zero, value)
    value = tl.where(a == 0.0, tl.where(x > 0.0, 1.0 - at_zero, float("nan")), value)
    return tl.where((x < 0.0) | (a < 0.0), float("nan"), value)


@triton.jit
def igamma(a, x):
    return regularised(a.to(tl.float64), x.to(tl.float64), -1.0).to(a.dtype)


@triton.jit
def igammac(a, x):
    return regularised(a.to(tl.float64), x.to(tl.float64), 1.0).to(a.dtype)


@triton.jit
def regularised(a, x, sign):
    """Q(a, x) for sign 1, P(a, x) for -1."""
    a, x = tl.broadcast(a, x)
    ordinary = (a > 0.0) & (x > 0.0) & (a < INFINITY) & (x < INFINITY)
    numbers = (a == a) & (x == x)
    safe_a, safe_x = tl.where(ordinary, a, 1.0), tl.where(ordinary, x, 1.0)
    left = safe_x < safe_a + 1.0
    huge = safe_a > LARGE
    factor = leading_factor(safe_a, safe_x)
    lower = factor * series(safe_a, safe_x, ordinary & left & (huge == 0))
    upper = factor * safe_a * fraction(safe_a, safe_x, ordinary & (left == 0) & (huge == 0))
    value = tl.where(left, tl.where(sign < 0.0, lower, 1.0 - lower), tl.where(sign < 0.0, 1.0 - upper, upper))
    far = tl.where((safe_x > safe_a) == (sign < 0.0), 1.0, 0.0)
    distant = tl.abs(safe_x - safe_a) > 0.3 * safe_a
    value = tl.where(huge, tl.where(distant, far, uniform(safe_a, safe_x, sign)), value)
    at_zero = 0.5 + 0.5 * sign
    return with_edges(a, x, tl.where(numbers, value, float("nan")), at_zero)
