"""`clip`, whose result has the dtype of the array, whatever the bounds'."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..dispatch.generated import functions
from ..runtime import scalar_type as st
from ..runtime.scalar_type import Number
from .promotion import promoted_tensors

if TYPE_CHECKING:
    from ..dispatch.tensor import Tensor

__all__ = ["clip"]


def clip(x: Tensor, /, min: Tensor | Number | None = None, max: Tensor | Number | None = None) -> Tensor:
    """Clamp the elements to bounds.

    Args:
        x: An array of a real numeric dtype.
        min: Lower bound, an array or a number; None for no bound.
        max: Upper bound, which wins if it is below the lower one.

    Returns:
        An array of `x`'s dtype, and of the broadcast shape.

    Source: https://data-apis.org/array-api/2025.12/API_specification/generated/array_api.clip.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.clip(xp.asarray([1, 5, 9], dtype=xp.uint8), -3, 6)
        tensor([1, 5, 6], dtype=triten.uint8)
    """
    out = x
    if min is not None:
        out = _limited(functions.maximum, out, _in_range(min, x))
    if max is not None:
        out = _limited(functions.minimum, out, _in_range(max, x))
    return x.clone() if out is x else out


def _in_range(bound: Tensor | Number, x: Tensor) -> Tensor | Number:
    """Return a bound; an integer out of the dtype's range becomes the nearest value in range."""
    if not isinstance(bound, int) or not x.dtype.is_integral:
        return bound
    limits = st.iinfo(x.dtype)
    return limits.min if bound < limits.min else limits.max if bound > limits.max else bound


def _limited(function: Callable[..., Tensor], x: Tensor, bound: Tensor | Number) -> Tensor:
    out = promoted_tensors(function, x, bound)
    return out if out.dtype is x.dtype else out.to(x.dtype)
