"""Statistical functions of the standard: reductions and cumulative sums and products.

An empty tuple of axes reduces nothing, where PyTorch's operators take it for all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..dispatch.generated import functions
from ..runtime.scalar_type import dtype as ScalarType
from .axes import reduced
from .promotion import accumulated

if TYPE_CHECKING:
    from ..dispatch.tensor import Tensor

__all__ = [
    "cumulative_prod",
    "cumulative_sum",
    "max",
    "mean",
    "min",
    "prod",
    "std",
    "sum",
    "var",
]

Axes = int | Sequence[int] | None


def sum(
    x: Tensor, /, *, axis: Axes = None, dtype: ScalarType | None = None, keepdims: bool = False
) -> Tensor:
    """Compute the sum of the elements.

    Args:
        x: An array of a numeric dtype.
        axis: Axes to sum over. Default: all.
        dtype: Dtype of the sum. Default: int64 for signed integers, uint64 for unsigned ones, else that of `x`.
        keepdims: If True, keep reduced axes with size 1.

    Returns:
        An array without the summed axes.

    Source: https://data-apis.org/array-api/2025.12/API_specification/generated/array_api.sum.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.sum(xp.asarray([200, 100], dtype=xp.uint8))
        tensor(300, dtype=triten.uint64)
    """
    dtype = accumulated(x.dtype) if dtype is None else dtype
    axes = reduced(axis, x.ndim)
    if not axes:
        return x.to(dtype, copy=True)
    return functions.sum(x, axes, keepdims, dtype=dtype)


def prod(
    x: Tensor, /, *, axis: Axes = None, dtype: ScalarType | None = None, keepdims: bool = False
) -> Tensor:
    """Compute the product of the elements.

    Args:
        x: An array of a numeric dtype.
        axis: Axes to multiply over. Default: all.
        dtype: Dtype of the product. Default: as in `sum`.
        keepdims: If True, keep reduced axes with size 1.

    Returns:
        An array without the multiplied axes.

    Source: https://data-apis.org/array-api/2025.12/API_specification/generated/array_api.prod.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.prod(xp.asarray([[1, 2], [3, 4]]), axis=(0, 1))
        tensor(24)
    """
    dtype = accumulated(x.dtype) if dtype is None else dtype
    axes = reduced(axis, x.ndim)
    if not axes:
        return x.to(dtype, copy=True)
    out = x
    for each in sorted(axes, reverse=True):
        out = functions.prod(out, each, keepdims, dtype=dtype)
    return out


def max(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Return the greatest element; NaN propagates.

    Args:
        x: An array of a real numeric dtype.
        axis: Axes to reduce. Default: all.
        keepdims: If True, keep reduced axes with size 1.

    Returns:
        An array of `x`'s dtype without the reduced axes.

    Source: https://data-apis.org/array-api/2025.12/API_specification/generated/array_api.max.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.max(xp.asarray([[1, 5], [3, 4]]), axis=1)
        tensor([5, 4])
    """
    return _extreme(functions.amax, x, axis, keepdims)


def min(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Return the least element; NaN propagates.

    Args:
        x: An array of a real numeric dtype.
        axis: Axes to reduce. Default: all.
        keepdims: If True, keep reduced axes with size 1.

    Returns:
        An array of `x`'s dtype without the reduced axes.

    Source: https://data-apis.org/array-api/2025.12/API_specification/generated/array_api.min.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.min(xp.asarray([[1, 5], [3, 4]]), axis=1)
        tensor([1, 3])
    """
    return _extreme(functions.amin, x, axis, keepdims)


def _extreme(function: Callable[..., Tensor], x: Tensor, axis: Axes, keepdims: bool) -> Tensor:
    axes = reduced(axis, x.ndim)
    return function(x, axes, keepdims) if axes else x.clone()


def mean(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Compute the arithmetic mean.

    Args:
        x: An array of a floating-point dtype.
        axis: Axes to reduce. Default: all.
        keepdims: If True, keep reduced axes with size 1.

    Returns:
        An array of `x`'s dtype without the reduced axes.

    Source: https://data-apis.org/array-api/2025.12/API_specification/generated/array_api.mean.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.mean(xp.asarray([1.0, 4.0]))
        tensor(2.5000)
    """
    axes = reduced(axis, x.ndim)
    return functions.mean(x, axes, keepdims) if axes else x.clone()


def var(x: Tensor, /, *, axis: Axes = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """Compute the variance.

    Args:
        x: An array of a real floating-point dtype.
        axis: Axes to reduce. Default: all.
        correction: Number subtracted from the element count in the divisor: 1 makes the estimate unbiased.
        keepdims: If True, keep reduced axes with size 1.

    Returns:
        An array of `x`'s dtype without the reduced axes.

    Source: https://data-apis.org/array-api/2025.12/API_specification/generated/array_api.var.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.var(xp.asarray([1.0, 3.0]))
        tensor(1.)
    """
    return _spread(functions.var, x, axis, correction, keepdims)


def std(x: Tensor, /, *, axis: Axes = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """Compute the standard deviation.

    Args:
        x: An array of a real floating-point dtype.
        axis: Axes to reduce. Default: all.
        correction: Number subtracted from the element count in the divisor.
        keepdims: If True, keep reduced axes with size 1.

    Returns:
        An array of `x`'s dtype without the reduced axes.

    Source: https://data-apis.org/array-api/2025.12/API_specification/generated/array_api.std.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.std(xp.asarray([1.0, 3.0]), correction=1)
        tensor(1.4142)
    """
    return _spread(functions.std, x, axis, correction, keepdims)


def _spread(
    function: Callable[..., Tensor], x: Tensor, axis: Axes, correction: float, keepdims: bool
) -> Tensor:
    axes = reduced(axis, x.ndim)
    if axes:
        return function(x, axes, correction=correction, keepdim=keepdims)
    # Over no axis each element is its own mean.
    return function(x.unsqueeze(-1), (-1,), correction=correction)


def cumulative_sum(
    x: Tensor,
    /,
    *,
    axis: int | None = None,
    dtype: ScalarType | None = None,
    include_initial: bool = False,
) -> Tensor:
    """Compute the cumulative sum of the elements.

    Args:
        x: An array of a numeric dtype.
        axis: Axis of the scan; optional for one dimension.
        dtype: Dtype of the sums. Default: as in `sum`.
        include_initial: If True, prepend a 0.

    Returns:
        An array of `x`'s shape, or one longer along `axis`.

    Raises:
        ValueError: `axis` is left out for an array of other than one dimension.

    Source: https://data-apis.org/array-api/2025.12/API_specification/generated/array_api.cumulative_sum.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.cumulative_sum(xp.asarray([1, 2, 3]), include_initial=True)
        tensor([0, 1, 3, 6])
    """
    return _cumulative("cumulative_sum", functions.cumsum, 0, x, axis, dtype, include_initial)


def cumulative_prod(
    x: Tensor,
    /,
    *,
    axis: int | None = None,
    dtype: ScalarType | None = None,
    include_initial: bool = False,
) -> Tensor:
    """Compute the cumulative product of the elements.

    Args:
        x: An array of a numeric dtype.
        axis: Axis of the scan; optional for one dimension.
        dtype: Dtype of the products. Default: as in `sum`.
        include_initial: If True, prepend a 1.

    Returns:
        An array of `x`'s shape, or one longer along `axis`.

    Raises:
        ValueError: `axis` is left out for an array of other than one dimension.

    Source: https://data-apis.org/array-api/2025.12/API_specification/generated/array_api.cumulative_prod.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.cumulative_prod(xp.asarray([1, 2, 3]))
        tensor([1, 2, 6])
    """
    return _cumulative("cumulative_prod", functions.cumprod, 1, x, axis, dtype, include_initial)


def _cumulative(
    name: str,
    function: Callable[..., Tensor],
    initial: int,
    x: Tensor,
    axis: int | None,
    dtype: ScalarType | None,
    include_initial: bool,
) -> Tensor:
    if axis is None:
        if x.ndim != 1:
            raise ValueError(f"{name}(): an array of {x.ndim} dimensions needs an axis")
        axis = 0
    dtype = accumulated(x.dtype) if dtype is None else dtype
    out = function(x, axis, dtype=dtype)
    if not include_initial:
        return out
    shape = list(x.shape)
    shape[axis] = 1
    return functions.cat([functions.full(shape, initial, dtype=dtype, device=x.device), out], axis)
