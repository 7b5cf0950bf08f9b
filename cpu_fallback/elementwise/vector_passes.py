"""Functions of many elements as a few passes of NumPy's vector loops.

NumPy and the C library compute some functions one element at a time, at 4 to 20 nanoseconds each. A pass of a
vector loop over a block in the cache takes 0.1. Each function returns, in a new array or in `out`, the result
of NumPy's function of the same name.

Results are bitwise identical except for `hypot` (1 ulp) and `logaddexp` and similar functions (some ulps of
the larger operand or the result). Elements that the passes cannot compute use NumPy's function.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

from ..plain_numpy import copyto, np, undispatched
from .elementwise import writing
from .selection import selected

Array = np.ndarray[Any, Any]

square_sum: Callable[[Any, Any], Any] = undispatched(np.vdot)
"""``square_sum(a, a)``: the quickest way to see whether some element is NaN, or all are small."""

NUMPY_HAS_VECTORS = sys.platform == "linux" and bool(
    import_module("numpy._core._multiarray_umath").__cpu_features__.get("AVX512_SKX")
)
"""True if NumPy's own functions of float32 are vector loops (SVML)."""

LONG = 1 << 12
"""Elements from which the passes are quicker."""

_SIGNED = {np.dtype(np.float32): np.dtype(np.int32), np.dtype(np.float64): np.dtype(np.int64)}
_BITS = {np.dtype(np.float32): np.dtype(np.uint32), np.dtype(np.float64): np.dtype(np.uint64)}


class Passes(NamedTuple):
    """A function of this module, and the dtypes that it is quicker for."""

    function: Callable[..., Array]
    kinds: str


def logical_not(a: Array) -> Array:
    """Return True for elements that are zero."""
    return np.equal(a, 0)


def logical_and(a: Array, b: Array) -> Array:
    """Return True if both elements are nonzero."""
    return np.bitwise_and(np.not_equal(a, 0), np.not_equal(b, 0))


def logical_or(a: Array, b: Array) -> Array:
    """Return True if either element is nonzero."""
    return np.bitwise_or(np.not_equal(a, 0), np.not_equal(b, 0))


def logical_xor(a: Array, b: Array) -> Array:
    """Return True if exactly one element is nonzero."""
    return np.not_equal(np.not_equal(a, 0), np.not_equal(b, 0))


@writing
def copysign(a: Array, b: Array, out: Array) -> None:
    """Compute the magnitude of `a` with the sign of `b`."""
    bits = _BITS[a.dtype]
    minus = bits.type(1 << 8 * bits.itemsize - 1)
    sign = np.bitwise_and(b.view(bits), minus)
    np.bitwise_and(a.view(bits), ~minus, out.view(bits))
    np.bitwise_or(out.view(bits), sign, out.view(bits))


def nextafter(a: Array, b: Array) -> Array:
    """Return the neighbor of `a` towards `b`; away from zero, the bits count up."""
    bits = _SIGNED[a.dtype]
    direction = np.subtract(np.greater(b, a).view(np.int8), np.less(b, a).view(np.int8))
    step = np.right_shift(a.view(bits), 8 * bits.itemsize - 1)
    step = np.bitwise_xor(direction, step) - step  # the direction with the sign of a
    result = np.add(a.view(bits), step).view(a.dtype)
    odd = np.logical_not(np.abs(a) > 0) | (a == b) | np.isnan(b)
    if odd.any():
        result[odd] = np.nextafter(a, b)[odd]
    return result


WHOLE = 2.0**29
"""Quotients of float32 below it are truncated right in float64, and their products with the divisor are exact."""


def fmod(a: Array, b: Array) -> Array:
    """Compute the remainder with the dividend's sign; float32 computes in float64 where the result is exact."""
    wide = a.astype(np.float64)
    quotient = np.trunc(wide / b)
    largest = max(np.maximum.reduce(quotient, None, initial=0), -np.minimum.reduce(quotient, None, initial=0))
    quotient *= b
    rest = np.subtract(wide, quotient, quotient).astype(np.float32)
    np.bitwise_or(rest.view(np.uint32), a.view(np.uint32) & np.uint32(1 << 31), rest.view(np.uint32))
    if not (largest < WHOLE and square_sum(rest, rest) >= 0):
        odd = np.isnan(rest) | ~(np.abs(a / b) < WHOLE / 2)
        a, b = np.broadcast_arrays(a, b)
        rest[odd] = np.fmod(a[odd], b[odd])
    return rest


def remainder(a: Array, b: Array) -> Array:
    """`fmod` brought to the divisor's sign, which a zero has too."""
    rest = fmod(a, b)
    rest = selected((rest != 0) & ((b < 0) != (rest < 0)), rest + b, rest)
    return selected(rest == 0, np.copysign(rest, b), rest)


MIN_SQUARE, LARGEST_SQUARE = 1e-30, 1e30
"""Sums of squares between which no square that counts in float32 is lost."""


def hypot(a: Array, b: Array) -> Array:
    """Compute sqrt(a^2 + b^2) of float32."""
    square = np.add(a * a, b * b)
    if (
        np.minimum.reduce(square, None, initial=np.inf) > MIN_SQUARE
        and np.maximum.reduce(square, None, initial=0) < LARGEST_SQUARE
    ):
        return np.sqrt(square, square)
    plain = (square > MIN_SQUARE) & (square < LARGEST_SQUARE)
    odd = ~plain
    result = np.sqrt(square, square)
    a, b = np.broadcast_arrays(a, b)
    result[odd] = np.hypot(a[odd], b[odd])
    return result


LOG_2 = np.array(np.log(2), np.float32)
LOG2_E = np.array(1 / np.log(2), np.float32)
_ONE = np.array(1, np.float32)


def _log1p_of_share(share: Array) -> Array:
    """Compute log(1 + x) of float32 within [0, 1], by Kahan's identity as `pointwise_math.log1p`."""
    raised = share + _ONE
    lost = raised - _ONE
    # If x vanishes beside 1, the quotient would be 0 / 0.
    some = np.maximum(lost, np.float32(1e-30), out=lost)
    np.divide(share, some, share)
    np.log(raised, raised)
    tiny = np.equal(raised, 0)
    raised *= share
    return raised if not tiny.any() else np.where(tiny, share * np.float32(1e-30), raised)


def logaddexp(a: Array, b: Array) -> Array:
    """Compute log(exp(a) + exp(b)) of float32."""
    distance = np.subtract(a, b)
    np.abs(distance, distance)
    if not np.maximum.reduce(distance, None, initial=0) < np.inf:
        return np.logaddexp(a, b)
    np.negative(distance, distance)
    result = _log1p_of_share(np.exp(distance, distance))
    result += np.maximum(a, b)
    return result


def logaddexp2(a: Array, b: Array) -> Array:
    """Compute log2(2^a + 2^b) of float32."""
    distance = np.subtract(a, b)
    np.abs(distance, distance)
    if not np.maximum.reduce(distance, None, initial=0) < np.inf:
        return np.logaddexp2(a, b)
    np.negative(distance, distance)
    result = _log1p_of_share(np.exp2(distance, distance))
    result *= LOG2_E
    result += np.maximum(a, b)
    return result


@writing
def sign(a: Array, out: Array) -> None:
    """Write -1, 0 or 1; 0 for NaN, unlike NumPy's."""
    signs = np.greater(a, 0).view(np.int8)
    signs -= np.less(a, 0).view(np.int8)
    copyto(out, signs)


PASSES: dict[str, Passes] = {
    "copysign": Passes(copysign, "fd"),
    "fmod": Passes(fmod, "f"),
    "hypot": Passes(hypot, "f"),
    "logaddexp": Passes(logaddexp, "f"),
    "logaddexp2": Passes(logaddexp2, "f"),
    "logical_and": Passes(logical_and, "fdilqILQ"),
    "logical_not": Passes(logical_not, "fdilqILQ"),
    "logical_or": Passes(logical_or, "fdilqILQ"),
    "logical_xor": Passes(logical_xor, "fdilqILQ"),
    "nextafter": Passes(nextafter, "fd"),
    "remainder": Passes(remainder, "f"),
    "sgn": Passes(sign, "fd"),
    "sign": Passes(sign, "fd"),
}
"""By stub; the kinds are NumPy's characters of dtypes."""
