"""Utility functions of the standard: tests of all elements, and differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..dispatch.generated import functions
from ..runtime import scalar_type as st
from .axes import normalized, reduced

if TYPE_CHECKING:
    from ..dispatch.tensor import Tensor

__all__ = ["all", "any", "diff"]

Axes = int | Sequence[int] | None


def all(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Return True if all elements are nonzero.

    Args:
        x: An array.
        axis: Axes to reduce. Default: all.
        keepdims: If True, keep reduced axes with size 1.

    Returns:
        An array of bools.

    Source: https://data-apis.org/array-api/2025.12/API_specification/generated/array_api.all.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.all(xp.asarray([[1, 2], [0, 1]]), axis=1)
        tensor([ True, False])
    """
    return _tested(functions.all, x, axis, keepdims)


def any(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Return True if any element is nonzero.

    Args:
        x: An array.
        axis: Axes to reduce. Default: all.
        keepdims: If True, keep reduced axes with size 1.

    Returns:
        An array of bools.

    Source: https://data-apis.org/array-api/2025.12/API_specification/generated/array_api.any.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.any(xp.asarray([[0, 2], [0, 0]]), axis=1)
        tensor([ True, False])
    """
    return _tested(functions.any, x, axis, keepdims)


def _tested(function: Callable[..., Tensor], x: Tensor, axis: Axes, keepdims: bool) -> Tensor:
    axes = reduced(axis, x.ndim)
    truths = x if x.dtype is st.bool_ else x.ne(0)
    if not axes:
        return truths.clone()
    return function(truths, axes, keepdims)


def diff(
    x: Tensor,
    /,
    *,
    axis: int = -1,
    n: int = 1,
    prepend: Tensor | None = None,
    append: Tensor | None = None,
) -> Tensor:
    """Compute the differences of adjacent elements along an axis.

    Args:
        x: An array of a numeric dtype.
        axis: The axis.
        n: Number of times that differences are taken.
        prepend: Values to prepend to `x` first, of its dtype.
        append: Values to append to `x` first.

    Returns:
        An array that is shorter by `n` along `axis`.

    Source: https://data-apis.org/array-api/2025.12/API_specification/generated/array_api.diff.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.diff(xp.asarray([1, 4, 9]), prepend=xp.asarray([0]))
        tensor([1, 3, 5])
    """
    return functions.diff(x, n, normalized(axis, x.ndim), prepend, append)
