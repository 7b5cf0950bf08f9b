"""Set functions of the standard. Shapes depend on values: on a GPU they wait for the kernels that compute them.

Every NaN differs from every other. Values come sorted, complex ones by their real, then by their imaginary parts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..dispatch.generated import functions
from ..runtime import scalar_type as st
from ..runtime.scalar_type import Number
from .promotion import common_operands

if TYPE_CHECKING:
    from ..dispatch.tensor import Tensor

__all__ = ["isin", "unique_all", "unique_counts", "unique_inverse", "unique_values"]


class UniqueAllResult(NamedTuple):
    """Result of `unique_all`."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCountsResult(NamedTuple):
    """Result of `unique_counts`."""

    values: Tensor
    counts: Tensor


class UniqueInverseResult(NamedTuple):
    """Result of `unique_inverse`."""

    values: Tensor
    inverse_indices: Tensor


def _order(flat: Tensor) -> Tensor:
    """Return the stable argsort."""
    if not flat.dtype.is_complex:
        return functions.argsort(flat, dim=0, stable=True)
    by_imag = functions.argsort(flat.imag, dim=0, stable=True)
    return by_imag[functions.argsort(flat.real[by_imag], dim=0, stable=True)]


def unique_all(x: Tensor, /) -> UniqueAllResult:
    """Return the distinct elements, their first indices, inverse indices, and counts.

    Args:
        x: An array of any shape.

    Returns:
        A named tuple: `values`, `indices` into the flattened array, `inverse_indices` of `x`'s shape, and `counts`.

    Source: https://data-apis.org/array-api/2025.12/API_specification/generated/array_api.unique_all.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.unique_all(xp.asarray([5, 3, 5])).inverse_indices
        tensor([1, 0, 1])
    """
    flat = x.reshape(-1)
    count = flat.numel()
    order = _order(flat)
    ranked = flat[order]
    first = functions.ones((count,), dtype=st.bool_, device=x.device)
    if count > 1:
        first[1:] = ranked[1:] != ranked[:-1]
    starts = first.nonzero().reshape(-1)
    ends = functions.cat([starts, functions.full((1,), count, dtype=st.int64, device=x.device)])
    inverse = functions.empty((count,), dtype=st.int64, device=x.device)
    inverse[order] = functions.cumsum(first, 0) - 1
    return UniqueAllResult(
        ranked[starts], order[starts], inverse.reshape(tuple(x.shape)), ends.diff()[: starts.numel()]
    )


def unique_counts(x: Tensor, /) -> UniqueCountsResult:
    """Return the distinct elements and their counts.

    Args:
        x: An array of any shape.

    Returns:
        A named tuple: `values` and `counts`.

    Source: https://data-apis.org/array-api/2025.12/API_specification/generated/array_api.unique_counts.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.unique_counts(xp.asarray([5, 3, 5]))
        UniqueCountsResult(values=tensor([3, 5]), counts=tensor([1, 2]))
    """
    result = unique_all(x)
    return UniqueCountsResult(result.values, result.counts)


def unique_inverse(x: Tensor, /) -> UniqueInverseResult:
    """Return the distinct elements and the inverse indices.

    Args:
        x: An array of any shape.

    Returns:
        A named tuple: `values` and `inverse_indices`, of `x`'s shape.

    Source: https://data-apis.org/array-api/2025.12/API_specification/generated/array_api.unique_inverse.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.unique_inverse(xp.asarray([5, 3, 5]))
        UniqueInverseResult(values=tensor([3, 5]), inverse_indices=tensor([1, 0, 1]))
    """
    result = unique_all(x)
    return UniqueInverseResult(result.values, result.inverse_indices)


def unique_values(x: Tensor, /) -> Tensor:
    """Return the distinct elements.

    Args:
        x: An array of any shape.

    Returns:
        An array of one dimension.

    Source: https://data-apis.org/array-api/2025.12/API_specification/generated/array_api.unique_values.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.unique_values(xp.asarray([5, 3, 5]))
        tensor([3, 5])
    """
    flat = x.reshape(-1)
    ranked = flat[_order(flat)]
    if ranked.numel() < 2:
        return ranked
    first = functions.ones((ranked.numel(),), dtype=st.bool_, device=x.device)
    first[1:] = ranked[1:] != ranked[:-1]
    return ranked[first]


def isin(x1: Tensor | Number, x2: Tensor | Number, /, *, invert: bool = False) -> Tensor:
    """Return True for each element that is among others.

    Args:
        x1: Elements to look for, or a number.
        x2: Elements to compare with, or a number.
        invert: If True, invert the result.

    Returns:
        An array of bools of `x1`'s shape.

    Source: https://data-apis.org/array-api/2025.12/API_specification/generated/array_api.isin.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.isin(xp.asarray([1, 2, 3]), xp.asarray([3, 1]))
        tensor([ True, False,  True])
    """
    elements, candidates = common_operands(x1, x2)
    if elements.dtype.is_complex or elements.dtype is st.bool_:
        contains = (elements.unsqueeze(-1) == candidates.reshape(-1)).any(-1)
        return contains.logical_not() if invert else contains
    return functions.isin(elements, candidates, invert=invert)
