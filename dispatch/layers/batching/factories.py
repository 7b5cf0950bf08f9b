"""Batching rules of factories that take metadata from a batched tensor: they create one tensor for each example."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ....runtime.allocator import storage_size
from ....runtime.memory_format import channels_last, channels_last_3d
from .layout import Batch, Dims, Rule, front

if TYPE_CHECKING:
    from ...tensor import Tensor


def like(batch: Batch, dims: Dims, self: Tensor, *options: Any) -> tuple[Any, Any]:
    """Run `empty_like`, `zeros_like` or `ones_like`; the memory format is that of each example."""
    *leading, memory_format = options
    if memory_format is channels_last or memory_format is channels_last_3d:
        x = front(self, dims[0])
        rank = x._spec.ndim
        last = x.permute((0, 1, *range(3, rank), 2)).contiguous()
        made = batch.op.call(last, *leading, None)
        return made.permute((0, 1, rank - 1, *range(2, rank - 1))), 0
    if memory_format is None:
        return batch.op.call(self, *leading, None), dims[0]
    return batch.op.call(front(self, dims[0]), *leading, memory_format), 0


def new(batch: Batch, dims: Dims, self: Tensor, size: Sequence[int], *options: Any) -> tuple[Any, Any]:
    """Run `new_empty`, `new_zeros` or `new_ones`."""
    return batch.op.call(self, (batch.size, *size), *options), 0


def new_strided(
    batch: Batch, dims: Dims, self: Tensor, size: Sequence[int], stride: Sequence[int], *options: Any
) -> tuple[Any, Any]:
    """Run `new_empty_strided`: the examples are consecutive in memory."""
    reach = storage_size(tuple(size), tuple(stride))
    return batch.op.call(self, (batch.size, *size), (reach, *stride), *options), 0


RULES: dict[str, Rule] = {
    "empty_like": like,
    "zeros_like": like,
    "ones_like": like,
    "new_empty": new,
    "new_zeros": new,
    "new_ones": new,
    "new_empty_strided": new_strided,
}
