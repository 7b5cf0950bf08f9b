"""Redistribution of a distributed tensor: the order of changes along mesh dimensions, and the gradient."""

from __future__ import annotations

from typing import Any

from ...autograd import Function
from ...dispatch.tensor import Tensor
from .placements import REPLICATE, Partial, Placement, Replicate, Shard
from .shards import compute_local_shape
from .spec import DTensorSpec
from .transitions import change

__all__ = ["Redistribute", "plan_of", "redistribute_local_tensor"]

Step = tuple[int, Placement, Placement]
"""Mesh dimension, the current placement along it, and the wanted one."""


def plan_of(source: tuple[Placement, ...], target: tuple[Placement, ...]) -> list[Step]:
    """Return the transitions from some placements to others.

    If several mesh dimensions shard one tensor dimension, the first shards first. Therefore only the last of
    them can be gathered, and further shards come after it. Gathers go from the last mesh dimension to the
    first, shards from the first to the last.

    Example:
        >>> from triten.distributed.tensor import Replicate, Shard
        >>> from triten.distributed.tensor.redistribute import plan_of
        >>> for step in plan_of((Shard(0), Shard(0)), (Replicate(), Shard(0))):
        ...     print(*step)
        1 S(0) R
        0 S(0) R
        1 R S(0)
    """
    current = list(source)
    steps: list[Step] = []

    def add_step(dim_index: int, placement: Placement) -> None:
        if current[dim_index] != placement:
            steps.append((dim_index, current[dim_index], placement))
            current[dim_index] = placement

    for mesh_dim in reversed(range(len(current))):
        present = current[mesh_dim]
        if not isinstance(present, Shard):
            continue
        dim = present.dim
        outer = [(current[each], target[each]) for each in range(mesh_dim)]
        disturbed = any(
            before != after and (before.is_shard(dim) or after.is_shard(dim)) for before, after in outer
        )
        if present == target[mesh_dim] and not disturbed:
            continue
        final = target[mesh_dim]
        if not isinstance(final, Shard) or final == present:
            add_step(mesh_dim, REPLICATE)
            continue
        inner = any(each.is_shard(final.dim) for each in current[mesh_dim + 1 :])
        waits = any(
            before != after and (before.is_shard(final.dim) or after.is_shard(final.dim))
            for before, after in outer
        )
        add_step(mesh_dim, REPLICATE if inner or waits else final)
    for mesh_dim, present in enumerate(current):
        if (
            isinstance(present, Partial)
            and present != target[mesh_dim]
            and not isinstance(target[mesh_dim], Shard)
        ):
            add_step(mesh_dim, REPLICATE)
    for mesh_dim, final in enumerate(target):
        add_step(mesh_dim, final)
    return steps


def redistribute_local_tensor(local: Tensor, source: DTensorSpec, target: DTensorSpec) -> Tensor:
    """Return this process's part of a tensor under the placements `target`, or `local` itself if nothing changes.

    Raises:
        NotImplementedError: the meshes differ.
    """
    if source.mesh != target.mesh:
        raise NotImplementedError(
            f"Cross device mesh comm not supported yet: {source.mesh} and {target.mesh}"
        )
    mesh = source.mesh
    if source.placements == target.placements or mesh.get_coordinate() is None:
        return local
    current = list(source.placements)
    for mesh_dim, before, after in plan_of(source.placements, target.placements):
        if mesh.size(mesh_dim) > 1 or isinstance(before, Partial):
            current[mesh_dim] = REPLICATE
            sizes = compute_local_shape(source.shape, mesh, current)
            local = change(local, mesh, mesh_dim, before, after, sizes)
        current[mesh_dim] = after
    return local


class Redistribute(Function):
    """`DTensor.redistribute` in the graph: the gradient is redistributed back."""

    @staticmethod
    def forward(ctx: Any, input: Any, placements: tuple[Placement, ...]) -> Any:
        spec: DTensorSpec = input._dtensor_spec
        ctx.placements = spec.placements
        made = spec.placed(placements)
        return type(input).of(redistribute_local_tensor(input._local_tensor, spec, made), made)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        # The gradient of what is reduced is that of the result, in each process.
        placement_pairs = zip(ctx.placements, grad.placements, strict=True)
        target = tuple(
            (now if isinstance(now, Replicate) else REPLICATE) if isinstance(before, Partial) else before
            for before, now in placement_pairs
        )
        return (grad if target == grad.placements else Redistribute.apply(grad, target)), None
