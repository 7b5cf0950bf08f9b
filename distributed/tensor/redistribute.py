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

    def to(place: int, placement: Placement) -> None:
        if current[place] != placement:
            steps.append((place, current[place], placement))
            current[place] = placement

    for place in reversed(range(len(current))):
        here = current[place]
        if not isinstance(here, Shard):
            continue
        dim = here.dim
        outer = [(current[each], target[each]) for each in range(place)]
        disturbed = any(
            before != after and (before.is_shard(dim) or after.is_shard(dim)) for before, after in outer
        )
        if here == target[place] and not disturbed:
            continue
        wanted = target[place]
        if not isinstance(wanted, Shard) or wanted == here:
            to(place, REPLICATE)
            continue
        inner = any(each.is_shard(wanted.dim) for each in current[place + 1 :])
        waits = any(
            before != after and (before.is_shard(wanted.dim) or after.is_shard(wanted.dim))
            for before, after in outer
        )
        to(place, REPLICATE if inner or waits else wanted)
    for place, here in enumerate(current):
        if isinstance(here, Partial) and here != target[place] and not isinstance(target[place], Shard):
            to(place, REPLICATE)
    for place, wanted in enumerate(target):
        to(place, wanted)
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
    for place, before, after in plan_of(source.placements, target.placements):
        if mesh.size(place) > 1 or isinstance(before, Partial):
            current[place] = REPLICATE
            sizes = compute_local_shape(source.shape, mesh, current)
            local = change(local, mesh, place, before, after, sizes)
        current[place] = after
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
        kept = zip(ctx.placements, grad.placements, strict=True)
        wanted = tuple(
            (now if isinstance(now, Replicate) else REPLICATE) if isinstance(before, Partial) else before
            for before, now in kept
        )
        return (grad if wanted == grad.placements else Redistribute.apply(grad, wanted)), None
