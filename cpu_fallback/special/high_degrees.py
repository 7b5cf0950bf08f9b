"""Orthogonal polynomials of high degrees, where a recurrence would take a step for each degree.

Legendre's and Laguerre's are Bessel functions, Chebyshev's are hyperbolic functions. Sources: Bogaert, Michaleczky and
Fostier, "O(1) Computation of Legendre Polynomials" (2012), whose first two terms are here; DLMF 18.15 (iv) for
Laguerre's; Abramowitz and Stegun, table 22.3, for Chebyshev's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

HIGH_DEGREE = 1 << 17
"""The degree from which these formulas hold: to 1e-11 of the amplitude for Legendre's, 2e-8 for Laguerre's."""


def _bessel() -> Any:
    from scipy import special

    return special


def _odd(n: Array) -> Array:
    return np.fmod(n, 2) == 1


def legendre(x: Array, n: Array) -> Array:
    """Return Legendre's polynomial of a high degree n at x, both of float64."""
    j0, j1, i0e, i1e = (getattr(_bessel(), name) for name in ("j0", "j1", "i0e", "i1e"))
    size, order = np.abs(x), n + 0.5
    angle, growth = np.arccos(np.minimum(size, 1)), np.arccosh(np.maximum(size, 1))
    sine, hyperbolic = np.sin(angle), np.sinh(growth)
    inside = j0(order * angle) + (angle * np.cos(angle) - sine) / (8 * angle * sine * order) * j1(
        order * angle
    )
    correction = (growth * np.cosh(growth) - hyperbolic) / (8 * growth * hyperbolic * order)
    outside = i0e(order * growth) + correction * i1e(order * growth)
    value = np.where(
        size < 1,
        np.sqrt(angle / sine) * inside,
        np.sqrt(growth / hyperbolic) * outside * np.exp(order * growth),
    )
    value = np.where(size == 1, 1, value)
    return np.where((x < 0) & _odd(n), -value, value)


def laguerre(x: Array, n: Array) -> Array:
    """Return Laguerre's polynomial of a high degree n at x, both of float64; NaN where it is no number of float64."""
    j0, i0e = _bessel().j0, _bessel().i0e
    scale = 4 * n + 2
    t = np.abs(x) / scale
    below = np.where(t < 1, t, np.nan)
    turned = scale / 2 * (np.sqrt(below - below * below) + np.arcsin(np.sqrt(below)))
    grown = scale / 2 * (np.sqrt(t + t * t) + np.arcsinh(np.sqrt(t)))
    oscillating = np.exp(x / 2) * np.sqrt(turned / (scale * np.sqrt(below - below * below))) * j0(turned)
    growing = np.exp(x / 2 + grown) * np.sqrt(grown / (scale * np.sqrt(t + t * t))) * i0e(grown)
    return np.where(x == 0, 1, np.where(x > 0, oscillating, growing))


def hermite(x: Array, n: Array) -> Array:
    """Return NaN: no number of float64 is as large as a Hermite polynomial of a high degree."""
    return np.full(x.shape, np.nan)


def chebyshev(kind: str, shift: float) -> Callable[[Array, Array], Array]:
    """Return a function of x and n, Chebyshev's polynomial of a kind outside of (-1, 1)."""

    def first(z: Array, growth: Array, n: Array) -> Array:
        return np.cosh(n * growth)

    def second(z: Array, growth: Array, n: Array) -> Array:
        return np.where(z == 1, n + 1, np.sinh((n + 1) * growth) / np.sinh(growth))

    def third(z: Array, growth: Array, n: Array) -> Array:
        return np.cosh((n + 0.5) * growth) / np.cosh(growth / 2)

    def fourth(z: Array, growth: Array, n: Array) -> Array:
        return np.where(z == 1, n + n + 1, np.sinh((n + 0.5) * growth) / np.sinh(growth / 2))

    # At -z the third kind is the fourth, and the other way round.
    right = {"t": first, "u": second, "v": third, "w": fourth}[kind]
    left = {"t": first, "u": second, "v": fourth, "w": third}[kind]

    def value(x: Array, n: Array) -> Array:
        z = x + x - 1 if shift else x
        size = np.abs(z)
        growth = np.arccosh(size)
        polynomial = np.where(z > 0, right(size, growth, n), left(size, growth, n))
        return np.where((z < 0) & _odd(n), -polynomial, polynomial)

    return value


def at_high_degrees(form: Callable[[Array, Array], Array], x: Array, n: Array) -> Array:
    """Return a polynomial of high degrees; NaN for what is too large, as the recurrence gives it."""
    with np.errstate(all="ignore"):
        value = form(x.astype(np.float64), n.astype(np.float64)).astype(x.dtype)
    return np.where(np.isinf(value), np.nan, value).astype(x.dtype, copy=False)
