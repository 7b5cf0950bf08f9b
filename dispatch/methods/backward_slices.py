"""Slices with a negative step, required by the Python array API standard; PyTorch rejects them.

Tensors have no negative strides: ``x[::-1]`` is a copy. An assignment still writes to the elements of `x`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...runtime.scalar_type import int64
from ...runtime.tensor_impl import TensorImpl
from ..generated.functions import arange
from .subscripts import _consumed, _stripped

if TYPE_CHECKING:
    from ..tensor import Tensor


def _runs_backwards(item: object) -> bool:
    return isinstance(item, slice) and item.step is not None and item.step.__index__() < 0


def _forwards(item: slice, size: int) -> slice:
    """Return the slice of the same elements in ascending order."""
    picked = range(*item.indices(size))
    return slice(picked[-1], picked[0] + 1, -picked.step) if picked else slice(0, 0)


def _is_basic(item: object) -> bool:
    return item is None or item is Ellipsis or isinstance(item, slice) or type(item) is int


def _dimensions(index: tuple[Any, ...], rank: int) -> list[int]:
    """Return the dimension at which each item starts."""
    skipped = rank - sum(_consumed(item) for item in index)
    starts = []
    d = 0
    for item in index:
        starts.append(d)
        d += skipped if item is Ellipsis else _consumed(item)
    return starts


def _ascending(tensor: Tensor, index: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a basic index with its negative-step slices reversed."""
    sizes = tensor._spec.sizes
    return tuple(
        _forwards(item, sizes[d]) if _runs_backwards(item) and d < len(sizes) else item
        for item, d in zip(index, _dimensions(index, len(sizes)), strict=True)
    )


def _turned_dimensions(index: tuple[Any, ...], rank: int) -> list[int]:
    """Return the dimensions of a basic index's result that are reversed."""
    skipped = rank - sum(item is not None and item is not Ellipsis for item in index)
    turned = []
    d = 0
    for item in index:
        if _runs_backwards(item):
            turned.append(d)
        d += skipped if item is Ellipsis else type(item) is not int
    return turned


def read(tensor: Tensor, index: tuple[Any, ...]) -> Tensor:
    """Return ``tensor[index]`` as a copy. Raises IndexError for an index that does not fit."""
    rank = tensor._spec.ndim
    if all(map(_is_basic, index)):
        return tensor[_ascending(tensor, index)].flip(_turned_dimensions(index, rank))
    # Index tensors select from the dimensions after the reversal.
    bounds: list[Any] = [slice(None)] * rank
    rest = list(index)
    for position, (item, d) in enumerate(zip(index, _dimensions(index, rank), strict=True)):
        if _runs_backwards(item) and d < rank:
            bounds[d], rest[position] = item, slice(None)
    return read(tensor, tuple(bounds))[tuple(rest)]


def write(tensor: Tensor, index: tuple[Any, ...], value: Any) -> None:
    """Assign ``tensor[index] = value``. Raises IndexError for an index that does not fit."""
    sizes = tensor._spec.sizes
    if all(map(_is_basic, index)):
        view = tensor[_ascending(tensor, index)]
        if isinstance(value, TensorImpl):
            source: Tensor = value  # type: ignore[assignment]
            source = _stripped(source, view._spec.ndim).expand(view._spec.sizes)
            value = source.flip(_turned_dimensions(index, len(sizes)))
        view[...] = value
        return
    positions = arange(tensor._spec.numel, dtype=int64, device=tensor.device).reshape(sizes)[index]
    coordinates = []
    for size in reversed(sizes):
        coordinates.append(positions % max(size, 1))
        positions = positions // max(size, 1)
    tensor[tuple(reversed(coordinates))] = value
