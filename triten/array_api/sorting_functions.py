"""Sorting functions of the standard."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..dispatch.generated import functions

if TYPE_CHECKING:
    from ..dispatch.tensor import Tensor

__all__ = ["argsort", "sort"]


def sort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """Sort the elements along an axis.

    Args:
        x: An array of a real numeric dtype.
        axis: The axis.
        descending: If True, sort in descending order.
        stable: If True, equal elements keep their order.

    Returns:
        An array of `x`'s shape.

    Source: https://data-apis.org/array-api/2025.12/API_specification/generated/array_api.sort.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.sort(xp.asarray([2, 3, 1]), descending=True)
        tensor([3, 2, 1])
    """
    return functions.sort(x, dim=axis, descending=descending, stable=stable)[0]


def argsort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """Return the indices that sort an array along an axis.

    Args:
        x: An array of a real numeric dtype.
        axis: The axis.
        descending: If True, sort in descending order.
        stable: If True, equal elements keep their order.

    Returns:
        An array of int64 of `x`'s shape.

    Source: https://data-apis.org/array-api/2025.12/API_specification/generated/array_api.argsort.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.argsort(xp.asarray([2, 3, 1]))
        tensor([2, 0, 1])
    """
    return functions.argsort(x, dim=axis, descending=descending, stable=stable)
