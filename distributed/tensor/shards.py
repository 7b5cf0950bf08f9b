"""Which part of a tensor each process has: sizes and offsets of shards."""

from __future__ import annotations

from collections.abc import Sequence

from ..mesh import DeviceMesh
from .placements import Placement, Shard

__all__ = ["compute_local_shape", "compute_local_shape_and_global_offset", "shard_range"]


def shard_range(size: int, count: int, number: int) -> tuple[int, int]:
    """The size and begin of one of so many parts, as `tt.chunk` makes them.

    Example:
        >>> from triten.distributed.tensor.shards import shard_range
        >>> [shard_range(5, 4, rank) for rank in range(4)]
        [(2, 0), (2, 2), (1, 4), (0, 5)]
    """
    full = -(-size // count)
    begin = min(number * full, size)
    return min(full, size - begin), begin


def compute_local_shape_and_global_offset(
    global_shape: Sequence[int], mesh: DeviceMesh, placements: Sequence[Placement]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shape of this process's part, and where in the tensor it begins; of no elements outside of the mesh.

    Source: torch.distributed.tensor._utils.compute_local_shape_and_global_offset.
    """
    coordinate = mesh.get_coordinate()
    if coordinate is None:
        return (0,), ()
    shape, offset = list(global_shape), [0] * len(global_shape)
    for place, placement in enumerate(placements):
        if isinstance(placement, Shard):
            dim = placement.dim
            shape[dim], begin = shard_range(shape[dim], mesh.size(place), coordinate[place])
            offset[dim] += begin
    return tuple(shape), tuple(offset)


def compute_local_shape(
    global_shape: Sequence[int], mesh: DeviceMesh, placements: Sequence[Placement]
) -> tuple[int, ...]:
    """The shape of this process's part."""
    return compute_local_shape_and_global_offset(global_shape, mesh, placements)[0]
