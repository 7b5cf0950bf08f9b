"""Communications that change a tensor's placement along one mesh dimension.

Each function takes this rank's part and returns its new part. Parts are those of `tt.chunk` and may differ in
size. If a collective requires equal sizes, they are padded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import prod
from typing import Any

from ...dispatch.generated import functions as ops
from ...dispatch.tensor import Tensor
from .. import collectives
from ..mesh import DeviceMesh
from .placements import Partial, Placement, Replicate, Shard

__all__ = ["change", "counters"]

counters: list[Counter[str]] = []
"""Counters of communications, by the name of the collective."""


def _counted(name: str) -> None:
    for counter in counters:
        counter[name] += 1


def change(
    local: Tensor, mesh: DeviceMesh, mesh_dim: int, source: Placement, target: Placement, sizes: Sequence[int]
) -> Tensor:
    """Change the placement of a local part along one mesh dimension.

    Args:
        local: This rank's part.
        mesh: The mesh.
        mesh_dim: The mesh dimension.
        source: Current placement along this mesh dimension.
        target: Required placement along this mesh dimension.
        sizes: Sizes of the tensor that the ranks along the dimension share.

    Raises:
        RuntimeError: there is no such transition.
    """
    count, number = mesh.size(mesh_dim), (mesh.get_coordinate() or ())[mesh_dim]
    if isinstance(source, Shard):
        if isinstance(target, Replicate):
            return _gathered(local, mesh, mesh_dim, source.dim, sizes)
        if isinstance(target, Shard):
            return _exchanged(local, mesh, mesh_dim, source.dim, target.dim, sizes)
    elif isinstance(source, Replicate):
        if isinstance(target, Shard):
            size, begin = Shard.local_shard_size_and_offset(sizes[target.dim], count, number)
            return local.narrow(target.dim, begin, size).clone(memory_format=_contiguous())
        if isinstance(target, Partial):
            return _one_of_many(local, target, number)
    elif isinstance(source, Partial):
        if isinstance(target, Replicate):
            return _reduced(local, mesh, mesh_dim, source)
        if isinstance(target, Shard):
            return _reduced_part(local, mesh, mesh_dim, source, target.dim, sizes)
    raise RuntimeError(f"redistribute from {source} to {target} not supported yet")


def _contiguous() -> Any:
    from ...runtime.memory_format import contiguous_format

    return contiguous_format


def _padded(tensor: Tensor, dim: int, size: int) -> Tensor:
    """Pad a tensor with zeros along a dimension."""
    missing = size - int(tensor.shape[dim])
    if not missing:
        return tensor
    shape = list(tensor.shape)
    shape[dim] = missing
    return ops.cat([tensor, tensor.new_zeros(shape)], dim)


def _gathered(local: Tensor, mesh: DeviceMesh, mesh_dim: int, dim: int, sizes: Sequence[int]) -> Tensor:
    count = mesh.size(mesh_dim)
    _counted("all_gather_into_tensor")
    full = -(-sizes[dim] // count)
    part = _padded(local, dim, full).contiguous()
    output = part.new_empty((count, *part.shape))
    collectives.all_gather_into_tensor(output, part, group=mesh.get_group(mesh_dim))
    shape = list(part.shape)
    if dim == 0:
        shape[0] *= count
        whole = output.view(shape)
    else:
        shape[dim] *= count
        whole = output.movedim(0, dim).reshape(shape)
    return whole if shape[dim] == sizes[dim] else whole.narrow(dim, 0, sizes[dim]).contiguous()


def _reduced(local: Tensor, mesh: DeviceMesh, mesh_dim: int, partial: Partial) -> Tensor:
    _counted("all_reduce")
    buffer = partial.before(local)
    # The reduction is in-place, so copy a tensor that the caller still holds.
    buffer = buffer.clone(memory_format=_contiguous()) if buffer is local else buffer.contiguous()
    collectives.all_reduce(buffer, partial.reduction, group=mesh.get_group(mesh_dim))
    result: Tensor = partial.after(buffer)
    return result


def _reduced_part(
    local: Tensor, mesh: DeviceMesh, mesh_dim: int, partial: Partial, dim: int, sizes: Sequence[int]
) -> Tensor:
    count, number = mesh.size(mesh_dim), (mesh.get_coordinate() or ())[mesh_dim]
    _counted("reduce_scatter_tensor")
    full = -(-sizes[dim] // count)
    buffer = _padded(partial.before(local), dim, full * count)
    if dim:
        shape = list(buffer.shape)
        buffer = buffer.reshape(*shape[:dim], count, full, *shape[dim + 1 :]).movedim(dim, 0)
    buffer = buffer.contiguous()
    shape = list(local.shape)
    shape[dim] = full
    output = buffer.new_empty(shape)
    collectives.reduce_scatter_tensor(output, buffer, partial.reduction, group=mesh.get_group(mesh_dim))
    size, _ = Shard.local_shard_size_and_offset(sizes[dim], count, number)
    result: Tensor = partial.after(output)
    return result if size == full else result.narrow(dim, 0, size).contiguous()


def _exchanged(
    local: Tensor, mesh: DeviceMesh, mesh_dim: int, source: int, target: int, sizes: Sequence[int]
) -> Tensor:
    count, number = mesh.size(mesh_dim), (mesh.get_coordinate() or ())[mesh_dim]
    _counted("all_to_all_single")
    own_target, _ = Shard.local_shard_size_and_offset(sizes[target], count, number)
    ranges = [Shard.local_shard_size_and_offset(sizes[target], count, rank) for rank in range(count)]
    pieces = [local.narrow(target, begin, size).reshape(-1) for size, begin in ranges]
    buffer = ops.cat(pieces)
    shapes = []
    for rank in range(count):
        shape = [int(size) for size in local.shape]
        shape[source], shape[target] = (
            Shard.local_shard_size_and_offset(sizes[source], count, rank)[0],
            own_target,
        )
        shapes.append(shape)
    counts = [prod(shape) for shape in shapes]
    output = local.new_empty(sum(counts))
    collectives.all_to_all_single(
        output, buffer, counts, [int(each.numel()) for each in pieces], group=mesh.get_group(mesh_dim)
    )
    return ops.cat(
        [each.view(shape) for each, shape in zip(output.split(counts), shapes, strict=True)], source
    )


def _one_of_many(local: Tensor, partial: Partial, number: int) -> Tensor:
    """Return a rank's contribution to a reduction whose result is a tensor that all ranks have."""
    if partial.reduce_op in ("avg", "max", "min", "band", "bor") and partial.is_partial(partial.reduce_op):
        return local
    if partial.reduce_op == "product":
        return local if number == 0 else ops.ones_like(local)
    return local if number == 0 else ops.zeros_like(local)
