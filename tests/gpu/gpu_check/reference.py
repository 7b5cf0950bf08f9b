"""Expected results and tolerances: the CPU's result in float64, and a bound that follows from the dtype.

The bound of an element is the sum of

- `roundings` half units in the last place of the dtype. One rounding counts relative to the element; several
  count relative to the largest element or operand, because of cancellation. One real rounding is
  `COMPLEX_ROUNDINGS` complex roundings, whose products, quotients and absolute values are sums of squares and
  products;
- `FUNCTION_ULPS` units of the compute type. The CUDA C++ Programming Guide promises at most 4 for elementary
  functions in single precision (its table of maximum errors). A formula has at most two of them;
- gamma(n) units of the compute type of the sum of the n terms' absolute values, gamma(n) = min(n, 8 sqrt(n)).
  The bound n holds for any order of summation (Higham, Accuracy and Stability of Numerical Algorithms, 4.2).
  The bound 8 sqrt(n) holds with overwhelming probability (Higham and Mary, A new approach to probabilistic
  rounding error analysis, 2019).

Lower-precision floats compute in float32. Integers, booleans, copies and random bits have no bound: they
agree exactly.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import triten as tt

from .samples import EXACT, RANDOM, ROUNDED, Sample

FUNCTION_ULPS = 8
COMPLEX_ROUNDINGS = 4
GRADIENT_ROUNDINGS = 4
"""A derivative's formula in operators of its own, each of which rounds."""

Array = np.ndarray[Any, Any]

UNIT = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8,
        "complex128": 2.0**-52, "complex64": 2.0**-23, "float8_e4m3fn": 2.0**-4, "float8_e5m2": 2.0**-3}  # fmt: skip
SMALLEST = {"float64": 2.0**-1074, "float32": 2.0**-149, "float16": 2.0**-24, "bfloat16": 2.0**-133}


def reference_dtype(sample: Sample, dtype: tt.dtype) -> tt.dtype:
    """Return the dtype that the CPU computes in."""
    if sample.kind in (EXACT, RANDOM):
        return dtype
    return wide(dtype)


def wide(dtype: tt.dtype) -> tt.dtype:
    """Return float64 or complex128 for floating-point dtypes, other dtypes unchanged."""
    if dtype.is_complex:
        return tt.complex128
    return tt.float64 if dtype.is_floating_point else dtype


def compute_unit(dtype: tt.dtype) -> float:
    """Return the unit roundoff of sums and functions."""
    return UNIT["float64"] if dtype in (tt.float64, tt.complex128) else UNIT["float32"]


def gamma(terms: int) -> float:
    """Units that a sum of so many terms may lose.

    Example:
        >>> gamma(1), gamma(4), gamma(10000)
        (1.0, 4.0, 800.0)
    """
    return min(float(terms), 8 * math.sqrt(terms))


def as_wide(values: Array) -> Array:
    """Convert an array to float64 or complex128."""
    return values.astype(np.complex128 if values.dtype.kind == "c" else np.float64)


def bound(
    sample: Sample,
    dtype: tt.dtype,
    expected: Array,
    magnitude: Array | None,
    terms: int,
    operand: float,
    is_complex: bool = False,
) -> Array | float:
    """Return each element's allowed distance from `expected`.

    Both arrays are float64 or complex128; `operand` is the largest operand. `is_complex` says that the
    operands are complex, regardless of the result.
    """
    unit = UNIT[dtype.name]
    size = np.abs(expected)
    finite = size[np.isfinite(size)]
    largest = float(finite.max()) if finite.size else 0.0
    least = SMALLEST.get(dtype.name, 0.0)
    if sample.kind == RANDOM:
        whole = sample.ulps * 2 * compute_unit(dtype) * largest if sample.ulps > 2 else 0.0
        return sample.ulps * 2 * unit * size + whole
    if sample.kind == ROUNDED:
        return (COMPLEX_ROUNDINGS if is_complex else 1.01) * unit * size + least
    scale = size if sample.roundings == 1 else np.maximum(size, max(largest, operand))
    allowed = 2 * sample.roundings * unit * scale + 2 * FUNCTION_ULPS * compute_unit(dtype) * size + least
    if terms > 1:
        sums = size
        if magnitude is not None:
            sums = np.maximum(size, np.where(np.isfinite(magnitude), np.abs(magnitude), 0.0))
        allowed = allowed + gamma(terms) * compute_unit(dtype) * sums
    return allowed


def gradient_bound(sample: Sample, dtype: tt.dtype, expected: Array, terms: int) -> float:
    """Return the allowed distance of a gradient's elements from `expected`."""
    size = np.abs(expected)
    finite = size[np.isfinite(size)]
    largest = max(float(finite.max()) if finite.size else 0.0, 1.0)
    roundings = GRADIENT_ROUNDINGS + 2 * sample.roundings
    return largest * (2 * roundings * UNIT[dtype.name] + gamma(terms) * compute_unit(dtype))


def disagreement(
    got: Array, expected: Array, allowed: Array | float | None, dtype: tt.dtype, *, zeros: bool = False
) -> str | None:
    """Describe the first wrong element of `got`, or return None.

    Without `allowed` every element must be equal; NaN equals NaN. `zeros` also compares the signs of zeros.
    """
    if got.shape != expected.shape:
        return f"shape {got.shape}, expected {expected.shape}"
    if dtype is tt.bool:
        raw = got.view(np.uint8)
        if raw.size and int(raw.max()) > 1:
            return f"a bool of value {int(raw.max())}: not written, or written wrongly"
    if not dtype.is_floating_point and not dtype.is_complex:
        wrong = got != expected
        return describe(wrong, got, expected, None)
    left, right = as_wide(got), as_wide(expected)
    with np.errstate(all="ignore"):
        rounded = right if allowed is None else as_wide(right.astype(dtype.np))
        infinite = np.isinf(rounded) | np.isinf(left)
        distance = np.abs(left - right)
        limit = np.zeros(left.shape) if allowed is None else np.broadcast_to(np.asarray(allowed), left.shape)
        wrong = ~(distance <= limit)
        wrong = np.where(infinite, (left != rounded) & (left != right), wrong)
        if dtype.is_floating_point:
            wrong &= ~(np.isnan(left) & np.isnan(right))
        else:
            wrong &= ~(~np.isfinite(left) & ~np.isfinite(right))
        if zeros and dtype.is_floating_point:
            both = (left == 0) & (right == 0)
            wrong |= both & (np.signbit(left.real) != np.signbit(right.real))
    return describe(wrong, left, right, limit)


def describe(wrong: Array, got: Array, expected: Array, limit: Array | None) -> str | None:
    """Describe the first wrong element and the number of wrong elements."""
    if not wrong.any():
        return None
    where = tuple(int(i) for i in np.argwhere(wrong)[0])
    place = ", ".join(map(str, where))
    text = (
        f"{int(wrong.sum())} of {wrong.size} elements are wrong, first [{place}]: got {got[where]}, "
        f"expected {expected[where]}"
    )
    return text if limit is None else f"{text}, allowed distance {float(limit[where]):.3g}"
