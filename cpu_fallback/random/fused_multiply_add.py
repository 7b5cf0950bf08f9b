"""Fused multiply-add of whole arrays, rounded once, as the vector instructions of PyTorch's kernels round it."""

from __future__ import annotations

from typing import Any

from ..plain_numpy import np

_LOWER = np.int64((1 << 29) - 1)
"""The bits of a float64 that a float32 has not."""
_MIDDLE = np.int64(1 << 28)
_SPLITTER = 134217729.0
"""2**27 + 1, of Dekker's product."""


def fma32(a: Any, b: Any, c: Any) -> Any:
    """Return ``a * b + c`` of float32, as float32. Operands are arrays or numbers.

    The sum in float64 would be rounded twice where it lies in the middle of two float32: it is corrected there.
    """
    product = np.multiply(a, b, dtype=np.float64)
    total = np.add(product, c, dtype=np.float64)
    middle = (total.view(np.int64) & _LOWER) == _MIDDLE
    if middle.any():
        _round_to_odd(total, _sum_error(product, c, total), middle)
    return total.astype(np.float32)


def fma64(a: Any, b: float, c: float) -> Any:
    """Return ``a * b + c`` of a float64 array and numbers, as float64.

    Source: S. Boldo, G. Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to
    odd" (2008).
    """
    if c == 0.0 or b == 1.0:
        return a * b + c
    product = a * b
    product_error = _product_error(a, b, product)
    low = c + product_error
    low_error = _sum_error(np.float64(c), product_error, low)
    high = product + low
    high_error = _sum_error(product, low, high)
    rest = low_error + high_error
    _round_to_odd(rest, _sum_error(low_error, high_error, rest), True)
    made = high + rest
    return np.where(np.isfinite(made), made, product + c)


def _sum_error(a: Any, b: Any, total: Any) -> Any:
    """Return the rounding error of the float64 sum of two numbers."""
    other = total - a
    return (a - (total - other)) + (b - other)


def _product_error(a: Any, b: float, product: Any) -> Any:
    """Return the rounding error of the float64 product of two numbers."""
    a_high = a * _SPLITTER
    a_high = a_high - (a_high - a)
    b_high = b * _SPLITTER
    b_high = b_high - (b_high - b)
    a_low, b_low = a - a_high, b - b_high
    return a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)


def _round_to_odd(total: Any, error: Any, chosen: Any) -> None:
    """Move inexact sums that are even to their odd neighbor on the side of the exact sum."""
    inexact = chosen & (error != 0) & ((total.view(np.int64) & 1) == 0)
    toward = np.where(error > 0, np.inf, -np.inf)
    np.copyto(total, np.nextafter(total, toward), where=inexact)
