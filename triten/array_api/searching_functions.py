"""Searching functions of the standard."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

from ..dispatch.generated import functions
from ..runtime import scalar_type as st
from ..runtime.scalar_type import Number
from ..runtime.tensor_impl import TensorImpl
from .axes import normalized, reduced
from .promotion import common_operands

if TYPE_CHECKING:
    from ..dispatch.tensor import Tensor

__all__ = ["argmax", "argmin", "count_nonzero", "nonzero", "searchsorted", "where"]


def argmax(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Return the index of the greatest element, the first of equals.

    Args:
        x: An array of a real numeric dtype.
        axis: Axis to search; None searches the flattened array.
        keepdims: If True, keep reduced axes with size 1.

    Returns:
        An array of int64.

    Source: https://data-apis.org/array-api/2025.12/API_specification/generated/array_api.argmax.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.argmax(xp.asarray([1, 5, 3]))
        tensor(1)
    """
    return _index_of(functions.argmax, x, axis, keepdims)


def argmin(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Return the index of the least element, the first of equals.

    Args:
        x: An array of a real numeric dtype.
        axis: Axis to search; None searches the flattened array.
        keepdims: If True, keep reduced axes with size 1.

    Returns:
        An array of int64.

    Source: https://data-apis.org/array-api/2025.12/API_specification/generated/array_api.argmin.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.argmin(xp.asarray([[4, 1], [2, 3]]), axis=1)
        tensor([1, 0])
    """
    return _index_of(functions.argmin, x, axis, keepdims)


def _index_of(function: Callable[..., Tensor], x: Tensor, axis: int | None, keepdims: bool) -> Tensor:
    if axis is None:
        index = function(x.reshape(-1), 0)
        return index.reshape((1,) * x.ndim) if keepdims else index
    return function(x, normalized(axis, x.ndim), keepdims)


def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """Return the indices of nonzero elements. On a GPU, it waits for the kernels that compute `x`.

    Args:
        x: An array of at least one dimension.

    Returns:
        An array of int64 for each dimension, in row-major order.

    Raises:
        ValueError: `x` has no dimension.

    Source: https://data-apis.org/array-api/2025.12/API_specification/generated/array_api.nonzero.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.nonzero(xp.asarray([0, 7, 9]))
        (tensor([1, 2]),)
    """
    if x.ndim == 0:
        raise ValueError("nonzero(): expected an array of at least one dimension, got one without")
    return tuple(x.nonzero(as_tuple=True))


def count_nonzero(x: Tensor, /, *, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
    """Count the nonzero elements.

    Args:
        x: An array.
        axis: Axes to count along. Default: all.
        keepdims: If True, keep reduced axes with size 1.

    Returns:
        An array of int64.

    Source: https://data-apis.org/array-api/2025.12/API_specification/generated/array_api.count_nonzero.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.count_nonzero(xp.asarray([[0, 1], [2, 3]]), axis=1)
        tensor([1, 2])
    """
    axes = reduced(axis, x.ndim)
    counted = x.ne(0)
    return functions.sum(counted, axes, keepdims, dtype=st.int64) if axes else counted.long()


def searchsorted(
    x1: Tensor,
    x2: Tensor | Number,
    /,
    *,
    side: Literal["left", "right"] = "left",
    sorter: Tensor | None = None,
) -> Tensor:
    """Return the insertion indices of elements among sorted ones.

    Args:
        x1: Sorted elements, of one dimension.
        x2: Elements to search for, of any shape, or a number.
        side: ``"left"`` to insert before equal elements, ``"right"`` to insert after them.
        sorter: Indices that sort `x1`, if it is not.

    Returns:
        An array of int64 of `x2`'s shape.

    Raises:
        ValueError: There is no such side.

    Source: https://data-apis.org/array-api/2025.12/API_specification/generated/array_api.searchsorted.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.searchsorted(xp.asarray([1, 3, 5]), xp.asarray([3, 4]), side="right")
        tensor([2, 2])
    """
    if side not in ("left", "right"):
        raise ValueError(f"searchsorted(): expected side 'left' or 'right', got {side!r}")
    sorted_, sought = common_operands(x1, x2)
    if sorter is not None:
        sorted_ = sorted_.index_select(0, sorter.long())
    return functions.searchsorted(sorted_.contiguous(), sought.contiguous(), right=side == "right")


def where(condition: Tensor, x1: Tensor | Number, x2: Tensor | Number, /) -> Tensor:
    """Select elements of one array where a condition holds, and of another elsewhere.

    Args:
        condition: An array of bools.
        x1: An array or a number.
        x2: Another one; all shapes broadcast.

    Returns:
        An array of the dtype to which `x1` and `x2` promote.

    Source: https://data-apis.org/array-api/2025.12/API_specification/generated/array_api.where.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.where(xp.asarray([True, False]), xp.asarray([1, 2]), 0)
        tensor([1, 0])
    """
    if isinstance(x1, TensorImpl) or isinstance(x2, TensorImpl):
        x1, x2 = common_operands(x1, x2)
    return functions.where(condition, x1, x2)
