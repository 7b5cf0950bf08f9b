"""Comparison of two results up to rounding, on the host, away from the kernels that are tuned."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.scalar_type import finfo
from ...runtime.tensor_impl import TensorImpl

ROUNDINGS = 16
"""Difference in ulps that sums in another order may have: of the element, and of the largest one."""


def disagreement(expected: object, actual: object) -> str | None:
    """Return a description of a wrong result, or None if it agrees."""
    if not isinstance(expected, TensorImpl) or not isinstance(actual, TensorImpl):
        return (
            None
            if expected is actual or expected == actual
            else f"it gives {actual!r} instead of {expected!r}"
        )
    if expected.dtype is not actual.dtype or expected.shape != actual.shape:
        return f"it gives {actual.dtype} of {tuple(actual.shape)}, not {expected.dtype} of {tuple(expected.shape)}"
    a, b = _values(expected), _values(actual)
    if not (expected.dtype.is_floating_point or expected.dtype.is_complex):
        wrong = int((a != b).sum())
    else:
        wrong = int((~_close(a, b, expected.dtype)).sum())
    return None if wrong == 0 else f"{wrong} of {a.size} elements differ by more than rounding"


def _values(tensor: Any) -> np.ndarray[Any, Any]:
    values = tensor.detach().cpu().contiguous()._data
    kind = values.dtype.kind
    if kind == "c":
        values = np.stack([values.real, values.imag])
    return values if kind in "iub" else values.astype(np.float64)


def _close(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any], dtype: ScalarType) -> np.ndarray[Any, Any]:
    finite = np.isfinite(a)
    largest = float(np.abs(a[finite]).max()) if finite.any() else 0.0
    with np.errstate(invalid="ignore", over="ignore"):
        allowed = ROUNDINGS * finfo(dtype.to_real()).eps * (np.abs(a) + largest)
        near = np.abs(a - b) <= allowed
    return np.where(finite, near, (a == b) | (np.isnan(a) & np.isnan(b)))
