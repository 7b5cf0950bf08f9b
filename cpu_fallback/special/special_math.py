"""Special functions of arrays where SciPy's edges are not PyTorch's, and orthogonal polynomials.

SciPy is imported when the first of them is called.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

from ..elementwise.vector_passes import LONG, square_sum
from ..plain_numpy import np
from . import float32_functions, high_degrees
from .high_degrees import HIGH_DEGREE, at_high_degrees

Array = np.ndarray[Any, Any]


@cache
def _special() -> Any:
    from scipy import special

    return special


def lgamma(a: Array) -> Array:
    """Compute log |gamma(a)|; infinite at the poles and at both infinities."""
    if a.dtype == np.float32 and a.size > LONG and square_sum(a, a) < np.inf:
        quick = float32_functions.lgamma(a).astype(np.float32)
        near = np.abs(quick) < float32_functions.NEAR_ROOT
        if near.any():
            quick[near] = _special().gammaln(a[near])
        return quick
    result: Array = _special().gammaln(a)
    if a.dtype == np.float32 and square_sum(result, result) < np.inf:
        return result
    if a.dtype == np.float64:
        # SciPy's overflows where 1 / a does.
        tiny = np.abs(a) < 1e-300
        if tiny.any():
            result = np.where(tiny, -np.log(np.abs(a)), result)
    return np.where(a == -np.inf, np.array(np.inf, a.dtype), result)


LAST_FACTORIAL = 170
"""The last n whose factorial is a float64."""


def factorial(n: int) -> float:
    """Compute n!, infinite beyond the largest float64."""
    return math.exp(math.lgamma(n + 1.0)) if n <= LAST_FACTORIAL else math.inf


def polygamma_of(n: int) -> Callable[[Array], Array]:
    """Return the n-th derivative of digamma, by the zeta function from the second on."""
    if n == 0:
        return _digamma
    if n == 1:
        return trigamma
    factor = np.array((1.0 if n % 2 else -1.0) * factorial(n))

    def derivative(a: Array) -> Array:
        result = zeta_of_order(n + 1, a.astype(np.float64))
        result *= factor
        return result.astype(a.dtype, copy=False)

    return derivative


def _digamma(a: Array) -> Array:
    is_long = a.dtype == np.float32 and a.size > LONG
    return float32_functions.for_many("digamma")(a) if is_long else _special().psi(a)  # type: ignore[no-any-return]


def trigamma(a: Array) -> Array:
    """Compute the derivative of digamma, below 1/2 by reflection; pi^2 / sin(pi a)^2 rounds in the dtype as
    PyTorch's.
    """
    one, pi, pi_squared = _TRIGAMMA[a.dtype]
    mirrored = np.subtract(one, a)
    low = np.less(a, mirrored)
    right = np.maximum(a, mirrored).astype(np.float64)
    at_right = np.where(right == np.inf, 0.0, zeta_of_order(2, right))
    sine = np.sin(a * pi)
    sine *= sine
    return np.where(low, pi_squared / sine - at_right, at_right).astype(a.dtype, copy=False)


_TRIGAMMA = {
    np.dtype(kind): tuple(np.array(value, kind) for value in (1.0, np.pi, np.pi**2))
    for kind in (np.float32, np.float64)
}
"""1, pi and its square in each dtype."""


LEADING = 9
"""Terms of a zeta function that are added up before the rest is an asymptotic series (Cephes, zeta.c)."""
HIGHEST_ORDER = 8
SERIES_FROM = 256
"""Fewer elements cost less one by one."""
LARGEST_START = 1e15
BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798)


def zeta_of_order(s: int, q: Array) -> Array:
    """Compute the Hurwitz zeta function of float64 at one integer from 2 on, by the Euler-Maclaurin sum.

    For positive finite q, it adds LEADING terms (q + k)^-s, and the series of the rest from w = q + LEADING,
    w^(1-s) / (s-1) + w^-s / 2 + sum of B_2j / (2j)! s (s+1) ... (s+2j-2) w^(1-s-2j) (DLMF 25.11.43). `zeta`
    serves other arguments.
    """
    if s > HIGHEST_ORDER or q.size < SERIES_FROM:
        return zeta(_order(s), q)
    plain = (q > 0) & (q < LARGEST_START)
    if not plain.all():
        result = np.empty_like(q)
        result[plain] = _series_of_order(s, q[plain])
        result[~plain] = zeta(np.array(float(s)), q[~plain])
        return result
    return _series_of_order(s, q)


@cache
def _order(s: int) -> Array:
    return np.array(float(s))


def _series_of_order(s: int, q: Array) -> Array:
    total = np.zeros_like(q)
    term = np.empty_like(q)
    for k in range(LEADING):
        np.reciprocal(_power(np.add(q, k, term), s), term)
        total += term
    w = q + LEADING
    inverse = 1 / w
    square = inverse * inverse
    coefficients = []
    rising = 1.0
    for j, number in enumerate(BERNOULLI, 1):
        # s (s + 1) ... (s + 2 j - 2) / (2 j)!
        rising *= s / 2 if j == 1 else (s + 2 * j - 3) * (s + 2 * j - 2) / ((2 * j - 1) * (2 * j))
        coefficients.append(number * rising)
    rest = np.full_like(q, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        rest *= square
        rest += coefficient
    rest *= inverse
    rest += 0.5
    rest += w / (s - 1)
    rest *= _power(inverse, s)
    total += rest
    return total


def _power(x: Array, n: int) -> Array:
    """Compute x^n by multiplications."""
    made = x
    for bit in bin(n)[3:]:
        made = made * made
        if bit == "1":
            made = made * x
    return made


def zeta(s: Array, q: Array) -> Array:
    """Compute the Hurwitz zeta function: infinite at s = 1 and at the poles of q, NaN below, as in Cephes."""
    if square_sum(q, q) < NEAR:
        return _zeta()(s, q)  # type: ignore[no-any-return]
    s, q = np.broadcast_arrays(s, q)
    dtype = s.dtype
    x, y = s.astype(np.float64), q.astype(np.float64)
    negative = y <= 0
    # (y + k)^-x summed up to a positive start; the series goes on from there.
    steps = np.where(negative & (y > -1e6), np.ceil(-y), 0)
    start = np.where(negative, y + steps, y)
    result: Array = _special().zeta(np.where(x <= 1, 2.0, x), np.where(start <= 0, 1.0, start))
    if negative.any():
        result = result + below_zero(x, y, steps)
    result = np.where(negative & (x != np.floor(x)), np.nan, result)
    result = np.where(negative & (y == np.floor(y)), np.inf, result)
    result = np.where(x == 1, np.inf, np.where((x < 1) | (y == np.inf), np.nan, result))
    return result.astype(dtype)


NEAR = 1e12
"""The square of the argument up to which SciPy's zeta function is PyTorch's: infinity is not, and far below zero the
sum up to a positive start would not end."""


@cache
def _zeta() -> Any:
    from scipy.special._ufuncs import _zeta

    return _zeta


def below_zero(x: Array, y: Array, steps: Array) -> Array:
    """Sum the terms (y + k)^-x for k below `steps`."""
    total = np.zeros(x.shape)
    for k in range(int(steps.max(initial=0))):
        total += np.where(k < steps, np.power(y + k, -x), 0.0)
    return total


def gammainc(a: Array, x: Array) -> Array:
    """Compute the regularized lower incomplete gamma function."""
    result: Array = _special().gammainc(a, x)
    return _with_edges(a, x, result, 0.0)


def gammaincc(a: Array, x: Array) -> Array:
    """Compute the regularized upper incomplete gamma function."""
    result: Array = _special().gammaincc(a, x)
    return _with_edges(a, x, result, 1.0)


def _with_edges(a: Array, x: Array, result: Array, at_zero: float) -> Array:
    """Set the edges: NaN below zero, at the common zero and where both are infinite; limits at one infinity or zero.

    As in PyTorch, the edges take precedence over a NaN argument. SciPy returns NaN there, and the same values
    elsewhere.
    """
    if square_sum(a, a) >= 0 and square_sum(x, x) >= 0:
        return result
    limits = [
        ((x < 0) | (a < 0), np.nan),
        (a == 0, np.where(x > 0, 1.0 - at_zero, np.nan)),
        (x == 0, at_zero),
        (np.isinf(a), np.where(np.isinf(x), np.nan, at_zero)),
        (np.isinf(x), 1.0 - at_zero),
    ]
    conditions, values = zip(*limits, strict=True)
    return np.select(conditions, values, result).astype(result.dtype)


def erfinv(a: Array) -> Array:
    """Compute the inverse of erf, which keeps the sign of zero."""
    result: Array = _special().erfinv(a)
    return np.copysign(result, a)


def airy_ai(a: Array) -> Array:
    """Compute the Airy function Ai; NaN at the infinities, 0 where it underflows in float64."""
    x = a.astype(np.float64)
    if square_sum(x, x) < 1e4:
        near: Array = _special().airy(x)[0]
        return near.astype(a.dtype, copy=False)
    far = x < -1e5  # the library gives up from -1e6 on
    result = np.where(x > 103.892, 0.0, _special().airy(np.where(np.isinf(x) | far, 0.0, x))[0])
    if far.any():
        result = np.where(far, _airy_ai_far(np.where(far & ~np.isinf(x), -x, 1e5)), result)
    return np.where(np.isinf(x), np.nan, result).astype(a.dtype)


def _airy_ai_far(x: Array) -> Array:
    """Compute Ai(-x) for large x, by two terms of its asymptotic series (DLMF 9.7.9)."""
    zeta = x * np.sqrt(x) * (2 / 3)
    phase = zeta - np.pi / 4
    return (np.cos(phase) + np.sin(phase) * (5 / 72) / zeta) / np.sqrt(np.pi * np.sqrt(x))


def spherical_bessel_j0(a: Array) -> Array:
    """Compute sin(a) / a, 1 at zero and 0 at the infinities."""
    if a.dtype == np.float32 and a.size <= FEW:
        wide = a.astype(np.float64)
        quotient = np.sin(wide)
        quotient /= wide
        if square_sum(quotient, quotient) >= 0:
            return quotient.astype(np.float32)
    square = a * a
    near = 1 - square * (
        1 / 6 - square * (1 / 120 - square * (1 / 5040 - square * (1 / 362880 - square / 39916800)))
    )
    far = np.where(np.isinf(a), np.zeros((), a.dtype), np.sin(a) / a)
    return np.where(np.abs(a) < 0.5, near, far)


FEW = 2048
"""Elements up to which the calls of NumPy cost more than float64's width."""

Recurrence = Callable[[Any, Any, Any, int], Any]

LOW_DEGREE = 6
"""Degrees up to this are reached by recurrence everywhere."""
SMALL_SQUARES = 1e8
"""The sum of squares up to which no polynomial of a low degree overflows in float32."""
LONG_RECURRENCE = 64
"""Beyond that many steps it is worth looking whether nothing but NaN is left."""


def _is_tame(x: Array) -> bool:
    """Return True if `x` is a small float32 array without large elements."""
    return x.dtype == np.float32 and x.size <= FEW and bool(square_sum(x, x) < SMALL_SQUARES)


def polynomial(
    argument: Callable[[Array], Array],
    first: Callable[[Array], Array],
    step: Recurrence,
    high: Callable[[Array, Array], Array],
    whole: Callable[[Array, Array], tuple[Array, Array]] | None = None,
    known: Callable[[Any, Array], Array] | None = None,
) -> Callable[[Array, Array], Array]:
    """Return an orthogonal polynomial of degree n at x, 0 for a negative degree.

    Args:
        argument: what of x the recurrence is in, of x in float64.
        first: of that argument in the dtype of x, the polynomial of degree 1.
        step: of the argument, the polynomials of degrees k and k - 1, and k, the polynomial of degree k + 1. A product
            is added to in float64 before it is rounded, as the fused instruction of PyTorch's build does.
        high: of x and n in float64, the polynomial of a degree of `HIGH_DEGREE` and more.
        whole: of x and n, where a formula without recurrence holds, and its value.
        known: of low degrees and x in float64, the polynomial.
    """

    def of_one_degree(x: Array, n: float) -> Array:
        if not 0 < n < np.inf:
            ones = np.ones(x.shape, x.dtype)
            return ones if n == 0 else 0 * ones
        wide = argument(x.astype(np.float64))
        before, current = _ONE[x.dtype], first(wide.astype(x.dtype))
        for k in range(1, int(n)):
            before, current = current, step(wide, current, before, k).astype(x.dtype, copy=False)
        return current

    def evaluate(x: Array, degree: Array) -> Array:
        if degree.size == 1 and x.ndim >= degree.ndim:
            n = degree.item()
            if known is not None and 1 < n < LOW_DEGREE + 1 and _is_tame(x):
                # Nothing overflows on the way: SciPy's recurrence, in float64, is as good as one that rounds.
                return known(int(n), x.astype(np.float64)).astype(np.float32)
            if not n >= LONG_RECURRENCE + 1 and (whole is None or not n > LOW_DEGREE):
                return of_one_degree(x, math.trunc(n) if np.inf > n > -np.inf else n)
        x, degree = np.broadcast_arrays(x, degree)
        n = np.trunc(degree)
        if known is not None and x.size and _is_tame(x) and n.min() >= 0 and n.max() <= LOW_DEGREE:
            return known(n.astype(np.int64), x.astype(np.float64)).astype(np.float32)
        one = np.ones(x.shape, x.dtype)
        settled, value = (np.zeros(x.shape, bool), one) if whole is None else whole(x, n)
        is_high = (n >= HIGH_DEGREE) & (n < np.inf) & ~settled
        if is_high.any():
            value = np.where(is_high, at_high_degrees(high, x, n), value)
            settled = settled | is_high
        wide = argument(x.astype(np.float64))
        before, current = one, first(wide.astype(x.dtype))
        # A degree that is no number counts as a negative one.
        result = np.where((n >= 0) & (n < np.inf), np.where(n == 1, current, one), 0 * one)
        last = int(np.max(np.where(settled | ~np.isfinite(n), 0, n), initial=0))
        for k in range(1, last):
            before, current = current, step(wide, current, before, k).astype(x.dtype)
            result = np.where(n == k + 1, current, result)
            if np.isnan(current).all():
                result = np.where(n > k + 1, current, result)
                break
        return np.where(settled, value, result).astype(x.dtype)

    return evaluate


_ONE = {np.dtype(kind): np.ones((), kind) for kind in (np.float32, np.float64)}


def _at_angle(shift: float, degree: int, form: Callable[[Array, Array], Array]) -> Callable[..., Any]:
    """Chebyshev's polynomials inside (-1, 1) by cosines, from a degree on; `shift` moves (0, 1) there."""

    def whole(x: Array, n: Array) -> tuple[Array, Array]:
        z = x + x - x.dtype.type(1) if shift else x
        inside = (n > degree) & (np.abs(z) < 1)
        angle = np.arccos(np.where(inside, z, 0))
        return inside, form(n.astype(x.dtype), angle.astype(x.dtype))

    return whole


def _itself(x: Array) -> Array:
    return x


def _doubled(x: Array) -> Array:
    return x + x


def _moved_and_doubled(x: Array) -> Array:
    moved = x + x
    moved -= _ONE[moved.dtype]
    moved += moved
    return moved


def _less_before(x: Array, p: Array, q: Array, k: int) -> Array:
    """Compute x * p - q."""
    made = x * p
    made -= q
    return made


@cache
def _evaluator(name: str) -> Callable[[int, Array], Array]:
    result: Callable[[int, Array], Array] = getattr(_special(), name)
    return result


def _named(name: str) -> Callable[[int, Array], Array]:
    """Return SciPy's polynomial of a name."""
    return lambda n, x: _evaluator(name)(n, x)


def _third_kind(n: int, x: Array) -> Array:
    """Compute Chebyshev polynomials of the third kind from the second."""
    second = _evaluator("eval_chebyu")
    made = second(n, x)
    made -= second(n - 1, x)
    return made


def _fourth_kind(n: int, x: Array) -> Array:
    """Compute Chebyshev polynomials of the fourth kind from the second."""
    second = _evaluator("eval_chebyu")
    made = second(n, x)
    made += second(n - 1, x)
    return made


CHEBYSHEV: dict[str, Callable[[int, Array], Array]] = {
    "t": _named("eval_chebyt"),
    "u": _named("eval_chebyu"),
    "v": _third_kind,
    "w": _fourth_kind,
}


def _moved(known: Callable[[int, Array], Array]) -> Callable[[int, Array], Array]:
    """Return a shifted polynomial, evaluated at 2 x - 1."""

    def value(n: int, x: Array) -> Array:
        x = x + x
        x -= _ONE[x.dtype]
        return known(n, x)

    return value


def _chebyshev(kind: str, shift: float) -> Callable[[Array, Array], Array]:
    first: dict[str, Callable[[Array], Array]] = {
        "t": lambda twice: twice / 2,
        "u": _itself,
        "v": lambda twice: twice - 1,
        "w": lambda twice: twice + 1,
    }
    angle: dict[str, Callable[[Array, Array], Array]] = {
        "t": lambda n, a: np.cos(n * a),
        "u": lambda n, a: np.sin((n + 1) * a) / np.sin(a),
        "v": lambda n, a: np.cos((n + 0.5) * a) / np.cos(a / 2),
        "w": lambda n, a: np.sin((n + 0.5) * a) / np.sin(a / 2),
    }
    degree = 6 if kind == "t" or shift else 8
    argument = _moved_and_doubled if shift else _doubled
    known = _moved(CHEBYSHEV[kind]) if shift else CHEBYSHEV[kind]
    high = high_degrees.chebyshev(kind, shift)
    whole = _at_angle(shift, degree, angle[kind])
    return polynomial(argument, first[kind], _less_before, high, whole, known)


POLYNOMIALS: dict[str, Callable[[Array, Array], Array]] = {
    **{f"chebyshev_polynomial_{kind}": _chebyshev(kind, 0.0) for kind in "tuvw"},
    **{f"shifted_chebyshev_polynomial_{kind}": _chebyshev(kind, 1.0) for kind in "tuvw"},
    "hermite_polynomial_h": polynomial(
        _doubled,
        _itself,
        lambda x, p, q, k: x * p - 2 * k * q,
        high_degrees.hermite,
        None,
        _named("eval_hermite"),
    ),
    "hermite_polynomial_he": polynomial(
        _itself,
        _itself,
        lambda x, p, q, k: x * p - k * q,
        high_degrees.hermite,
        None,
        _named("eval_hermitenorm"),
    ),
    "laguerre_polynomial_l": polynomial(
        _itself,
        lambda x: 1 - x,
        lambda x, p, q, k: ((k + k + 1 - x) * p - k * q) / (k + 1),
        high_degrees.laguerre,
        None,
        _named("eval_laguerre"),
    ),
    "legendre_polynomial_p": polynomial(
        _itself,
        _itself,
        lambda x, p, q, k: ((k + k + 1) * x * p - k * q) / (k + 1),
        high_degrees.legendre,
        None,
        _named("eval_legendre"),
    ),
}
"""Each polynomial as a function of x and n (Abramowitz and Stegun, table 22.7)."""
