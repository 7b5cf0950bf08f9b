"""Properties of a case's operands that explain a difference."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from .values import argument_places, array_of_tensor, is_tensor

FAR = 1e18
"""A float32 whose square overflows."""

WIDE = 1e3
"""How much larger than the others one element is whose last places are the others' first ones."""


def oddities(case: dict[str, Any]) -> set[str]:
    """Return the odd properties: "empty", "not finite", "negative zero", "singular", "wide range"."""
    return {name for array in _arrays(case) for name in _oddities(array)}


def _arrays(case: dict[str, Any]) -> Iterator[np.ndarray]:
    for _, value in argument_places(case):
        if is_tensor(value):
            array = array_of_tensor(case, value)
            yield array if array.dtype.kind in "biufc" else array.astype(np.float64)


def _oddities(array: np.ndarray) -> Iterator[str]:
    if not array.size:
        yield "empty"
        return
    if array.dtype.kind not in "fc":
        return
    sizes = np.abs(array)
    with np.errstate(all="ignore"):
        if not np.isfinite(sizes).all() or sizes.max() > FAR:
            yield "not finite"
            return
    parts = [array.real, array.imag] if array.dtype.kind == "c" else [array]
    if any((np.signbit(part) & (part == 0)).any() for part in parts):
        yield "negative zero"
    if array.ndim < 2:
        return
    wide = array.astype(np.complex128)
    if (np.linalg.matrix_rank(wide, tol=_tolerance(array)) < min(array.shape[-2:])).any():
        yield "singular"
    if sizes.max() > WIDE * np.median(sizes):
        yield "wide range"


def _tolerance(array: np.ndarray) -> np.ndarray:
    """Return the tolerance below which a singular value counts as zero, from the largest one and float32's epsilon."""
    largest = np.linalg.norm(array.astype(np.complex128), axis=(-2, -1))
    return np.asarray(largest * max(array.shape[-2:]) * np.finfo(np.float32).eps)
