"""Bounds checks of indices, with PyTorch's errors."""

from __future__ import annotations

from typing import Any

from ..plain_numpy import np

UNSIGNED = {4: np.dtype(np.uint32), 8: np.dtype(np.uint64)}
"""A negative index read as unsigned is a large one, so that one maximum finds both kinds out of bounds."""
greatest = np.maximum.reduce
FEW = 32
"""Indices up to which Python's own minimum and maximum take less time than NumPy's."""


def own(indices: Any) -> Any:
    """Return a copy of indices, or of a mask, that no other thread can change.

    NumPy checks indices, or counts the elements of a mask, in one pass and reads them again in a second one, without
    the global lock. `take` and `put` read each index once, and need no copy.
    """
    return indices.copy()


def is_within(index: Any, size: int) -> bool:
    """Return True if every index is in ``[0, size)``."""
    if index.size <= FEW:
        values = index.reshape(-1).tolist()
        return not values or (max(values) < size and min(values) >= 0)
    return bool(greatest(index.view(UNSIGNED[index.dtype.itemsize]), None) < size)


def check_bounds(index: Any, size: int, dim: int, wraps: bool, error: type[Exception]) -> None:
    """Refuse an index outside ``[0, size)``, or ``[-size, size)`` if negative ones count from the end."""
    if is_within(index, size):
        return
    low, high = int(index.min()), int(index.max())
    if high >= size or low < (-size if wraps else 0):
        wrong = high if high >= size else low
        raise error(f"index {wrong} is out of bounds for dimension {dim} with size {size}")


def check_rows(index: Any, size: int) -> None:
    """Refuse a row number outside ``[0, size)``."""
    if not is_within(index, size):
        raise IndexError("index out of range in self")
