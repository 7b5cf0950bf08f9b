"""Which part of a tensor each process has: sizes and offsets of shards."""

from __future__ import annotations

from collections.abc import Sequence

from ..mesh import DeviceMesh
from .placements import Placement, Shard, StridedShard

__all__ = ["compute_local_shape", "compute_local_shape_and_global_offset"]


def compute_local_shape_and_global_offset(
    global_shape: Sequence[int], mesh: DeviceMesh, placements: Sequence[Placement]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the shape of this process's part, and its offset in the global tensor.

    The part of a process outside of the mesh has no elements. Parts of a strided shard are not contiguous: the begin
    is the index of the first element. The begin of an empty part is the size of the dimension.

    Source: torch.distributed.tensor._utils.compute_local_shape_and_global_offset.
    """
    coordinate = mesh.get_coordinate()
    if coordinate is None:
        return (0,), ()
    shape, offset = list(global_shape), [0] * len(global_shape)
    indices: dict[int, Sequence[int]] = {}
    for mesh_dim, placement in enumerate(placements):
        if isinstance(placement, Shard | StridedShard):
            dim, count, rank = placement.dim, mesh.size(mesh_dim), coordinate[mesh_dim]
            before = indices.get(dim, range(shape[dim]))
            if isinstance(placement, Shard):
                size, begin = placement.local_shard_size_and_offset(len(before), count, rank)
                indices[dim] = before[begin : begin + size]
            else:
                indices[dim] = [before[index] for index in placement.local_indices(len(before), count, rank)]
    for dim, local_indices in indices.items():
        offset[dim] = local_indices[0] if local_indices else shape[dim]
        shape[dim] = len(local_indices)
    return tuple(shape), tuple(offset)


def compute_local_shape(
    global_shape: Sequence[int], mesh: DeviceMesh, placements: Sequence[Placement]
) -> tuple[int, ...]:
    """Return the shape of this rank's part."""
    return compute_local_shape_and_global_offset(global_shape, mesh, placements)[0]
