"""``tensor[i, j]`` with integer tensors: a fast path without the general checks of subscripts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...runtime.scalar_type import int32, int64
from ...runtime.tensor_impl import TensorImpl
from ...runtime.traceback_filter import hide_inner_frames
from ..core.tensor_function import plain_classes

if TYPE_CHECKING:
    from ..tensor import Tensor


def indexed_by_numbers(tensor: Tensor, index: tuple[Any, ...]) -> Tensor | None:
    """Return ``tensor[index]`` for integer tensors, numbers and full slices; None for other indices."""
    sizes = tensor._spec.sizes
    if len(index) > len(sizes):
        return None
    indices: list[Tensor | None] = []
    numbers: list[tuple[int, int]] = []
    num_indexed = 0
    for d, item in enumerate(index):
        cls = item.__class__
        if cls is slice:
            if item.start is not None or item.stop is not None or item.step is not None:
                return None
            indices.append(None)
        elif cls is int:
            if not -sizes[d] <= item < sizes[d]:
                return None
            numbers.append((len(indices), item))
        elif cls in plain_classes and isinstance(item, TensorImpl):
            spec = item._spec
            if not spec.ndim or spec.keys or (spec.dtype is not int64 and spec.dtype is not int32):
                return None
            indices.append(item)  # type: ignore[arg-type]
            num_indexed = len(indices)
        else:
            return None
    if not num_indexed:
        return None
    out = tensor
    try:
        for dim, number in numbers:
            out = out.select(dim, number) if dim else out._select_first(number)
        return out.index(tuple(indices[:num_indexed]))
    except BaseException:
        hide_inner_frames()
        raise
