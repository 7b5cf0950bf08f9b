"""Indexing functions of the standard."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..dispatch.generated import functions
from .axes import normalized

if TYPE_CHECKING:
    from ..dispatch.tensor import Tensor

__all__ = ["take", "take_along_axis"]


def take(x: Tensor, indices: Tensor, /, *, axis: int | None = None) -> Tensor:
    """Take slices of an array along an axis.

    Args:
        x: An array.
        indices: Integer array of indices; negative ones count from the end.
        axis: Axis to index; optional for one dimension.

    Returns:
        An array with the shape of `indices` in the axis's place.

    Raises:
        ValueError: `axis` is left out for an array of other than one dimension.
        IndexError: An index is out of bounds.

    Source: https://data-apis.org/array-api/2025.12/API_specification/generated/array_api.take.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.take(xp.asarray([10, 20, 30]), xp.asarray([2, 0]))
        tensor([30, 10])
    """
    if axis is None:
        if x.ndim != 1:
            raise ValueError(f"take(): an array of {x.ndim} dimensions needs an axis")
        axis = 0
    return x.index((None,) * normalized(axis, x.ndim) + (indices.long(),))


def take_along_axis(x: Tensor, indices: Tensor, /, *, axis: int = -1) -> Tensor:
    """Take elements of an array along an axis, with separate indices for each slice.

    Args:
        x: An array.
        indices: Integer array of indices with as many dimensions; other axes broadcast.
        axis: The axis.

    Returns:
        An array of the shape of `indices`, broadcast.

    Source: https://data-apis.org/array-api/2025.12/API_specification/generated/array_api.take_along_axis.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.take_along_axis(xp.asarray([[1, 2], [3, 4]]), xp.asarray([[1], [0]]))
        tensor([[2],
                [3]])
    """
    return functions.take_along_dim(x, indices.long(), normalized(axis, x.ndim))
