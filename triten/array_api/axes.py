"""Normalization of axis arguments of the standard's functions: None, an int or several."""

from __future__ import annotations

from collections.abc import Sequence


def normalized(axis: int, rank: int) -> int:
    """Return an axis counted from the front.

    Raises:
        IndexError: The axis is out of bounds.
    """
    if not -rank <= axis < rank:
        raise IndexError(f"axis {axis} is out of bounds for an array with {rank} dimensions")
    return axis % rank


def reduced(axis: int | Sequence[int] | None, rank: int) -> tuple[int, ...]:
    """Return the axes of a reduction, counted from the front; None means all.

    Raises:
        IndexError: An axis is out of bounds.
        ValueError: Two axes are the same.
    """
    if axis is None:
        return tuple(range(rank))
    requested = (axis,) if isinstance(axis, int) else tuple(axis)
    axes = tuple(normalized(each, rank) for each in requested)
    if len(set(axes)) < len(axes):
        raise ValueError(f"axis {axis} names a dimension twice")
    return axes
