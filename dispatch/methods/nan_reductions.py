"""NaN-skipping reductions with NumPy's names and dimensions: ``np.nanmean(tensor)``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..generated import functions

Dims = tuple[int, ...]

__all__ = ["BY_NAME"]


def nansum(x: Any, dims: Dims, keepdims: bool) -> Any:
    """Return the sum without NaN; 0 if all elements are NaN."""
    return functions.nansum(x, dims, keepdims)


def nanmean(x: Any, dims: Dims, keepdims: bool) -> Any:
    """Return the mean without NaN; NaN if all elements are NaN."""
    return functions.nanmean(x, dims, keepdims)


def nanprod(x: Any, dims: Dims, keepdims: bool) -> Any:
    """Return the product without NaN; 1 if all elements are NaN."""
    x = functions.where(functions.isnan(x), 1, x)
    for dim in sorted((dim % x.ndim for dim in dims), reverse=True):
        x = functions.prod(x, dim, keepdims)
    return x


def _extreme(reduce: Callable[..., Any], least: float) -> Callable[[Any, Dims, bool], Any]:
    def extreme(x: Any, dims: Dims, keepdims: bool) -> Any:
        missing = functions.isnan(x)
        reduced = reduce(functions.where(missing, least, x), dims, keepdims)
        return functions.where(functions.all(missing, dims, keepdims), float("nan"), reduced)

    return extreme


def nanvar(x: Any, dims: Dims, keepdims: bool, correction: float = 0) -> Any:
    """Return the variance without NaN; NaN if too few elements remain."""
    missing = functions.isnan(x)
    count = functions.sum(functions.bitwise_not(missing), dims, keepdims)
    deviation = functions.where(missing, 0, x - functions.nanmean(x, dims, True))
    squares = functions.sum(
        (deviation * deviation.conj()).real if x.is_complex() else deviation**2, dims, keepdims
    )
    divisor = count - correction
    return functions.where(divisor > 0, squares / divisor, float("nan"))


def nanstd(x: Any, dims: Dims, keepdims: bool, correction: float = 0) -> Any:
    """Return the standard deviation without NaN; NaN if too few elements remain."""
    return functions.sqrt(nanvar(x, dims, keepdims, correction))


BY_NAME: dict[str, Callable[..., Any]] = {
    "nansum": nansum,
    "nanmean": nanmean,
    "nanprod": nanprod,
    "nanmax": _extreme(functions.amax, -float("inf")),
    "nanmin": _extreme(functions.amin, float("inf")),
    "nanvar": nanvar,
    "nanstd": nanstd,
}
"""Functions of a floating tensor, its dimensions, keepdims, and the correction of var and std."""
