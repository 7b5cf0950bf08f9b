"""Which way of computing an operator on parts is taken: the one with the least communication."""

from __future__ import annotations

from collections.abc import Sequence

from .placements import Partial, Placement, Replicate, Shard
from .rules.rule import Group, Invocation, Rule, Strategy, replicated
from .spec import DTensorSpec

__all__ = ["IMPOSSIBLE", "choose"]

IMPOSSIBLE = float("inf")
LATENCY = 1e4
"""Cost of starting a communication, in bytes that could be sent meanwhile."""
COPY = 1e-3
"""Cost per byte of a local copy."""


def transition_cost(now: Placement, target: Placement, nbytes: float, count: int) -> float:
    """Return the cost, in bytes sent, of a change of placement along a mesh dimension of `count` ranks."""
    if now == target:
        return 0.0
    if isinstance(now, Replicate):
        return COPY * nbytes + COPY
    if isinstance(target, Partial):
        return IMPOSSIBLE
    sent = nbytes * (count - 1) / count
    if isinstance(now, Shard):
        return LATENCY + (sent if isinstance(target, Replicate) else sent / count)
    return LATENCY + (2 * sent if isinstance(target, Replicate) else sent)


def _nbytes(spec: DTensorSpec, mesh_dim: int) -> float:
    """Return the bytes that the ranks along a mesh dimension share."""
    total = float(spec.tensor_meta.dtype.itemsize)
    for size in spec.shape:
        total *= size
    for other, placement in enumerate(spec.placements):
        if other != mesh_dim and isinstance(placement, Shard):
            total /= spec.mesh.size(other)
    return total


def _cost(call: Invocation, group: Group, strategy: Strategy, fixed: dict[int, int | None]) -> float:
    total = 0.0
    count = max(call.count, 2)  # one process decides as several do
    for index, target in zip(group.inputs, strategy.inputs, strict=True):
        if target is None:
            continue
        spec = call.tensors[index]
        now = spec.placements[call.mesh_dim]
        if index in fixed and now != target:
            return IMPOSSIBLE
        total += transition_cost(now, target, _nbytes(spec, call.mesh_dim), count)
    for index, made in zip(group.outputs, strategy.outputs, strict=True):
        for written, result in fixed.items():
            if result == index and made != call.tensors[written].placements[call.mesh_dim]:
                return IMPOSSIBLE
    return total


def choose(
    call: Invocation, rule: Rule, fixed: dict[int, int | None]
) -> tuple[list[list[Placement]], list[list[Placement]]] | None:
    """Choose the placements of an operator's results and arguments.

    Args:
        call: The operator and its arguments.
        rule: Rule of the operator.
        fixed: Written tensors, whose placements must not change, with the index of the result that each of
            them is.

    Returns:
        A placement for each mesh dimension, of each result and of each tensor argument. None if no strategy
            keeps the placements of written tensors.
    """
    mesh = call.tensors[0].mesh
    outputs: list[list[Placement]] = [[] for _ in call.results]
    inputs: list[list[Placement]] = [[] for _ in call.tensors]
    for mesh_dim in range(mesh.ndim):
        call.mesh_dim, call.count = mesh_dim, mesh.size(mesh_dim)
        for group in _groups(call, rule):
            best, cost = None, IMPOSSIBLE
            for strategy in group.strategies:
                candidate_cost = _cost(call, group, strategy, fixed)
                if candidate_cost < cost:
                    best, cost = strategy, candidate_cost
            if best is None:
                return None
            for index, target in zip(group.inputs, best.inputs, strict=True):
                chosen = call.tensors[index].placements[mesh_dim] if target is None else target
                inputs[index].append(chosen)
                _divide(call.divided[index], chosen, call.count)
            for index, made in zip(group.outputs, best.outputs, strict=True):
                if made is not None:
                    outputs[index].append(made)
                    _divide(call.results_divided[index], made, call.count)
    return outputs, inputs


def _groups(call: Invocation, rule: Rule) -> Sequence[Group]:
    if rule.groups is not None:
        return rule.groups(call)
    strategies = [] if rule.strategies is None else list(rule.strategies(call))
    everything = tuple(range(len(call.results))), tuple(range(len(call.tensors)))
    return [Group(*everything, [replicated(call), *strategies])]


def _divide(divided: dict[int, int], placement: Placement, count: int) -> None:
    if isinstance(placement, Shard):
        divided[placement.dim] = divided.get(placement.dim, 1) * count
