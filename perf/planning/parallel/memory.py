"""Memory of a rank: parameters, gradients, states, activations and communication buffers, by the strategies."""

from __future__ import annotations

from dataclasses import dataclass, fields

from .mesh import Mesh
from .pipeline import held_microbatches
from .stage import gradient_copies
from .strategies import FullyShard, Pipeline, TensorParallel
from .timeline import Lifetime, PlannedParameter, Timeline


@dataclass(frozen=True)
class MemoryPlan:
    """Bytes of one rank. `activations` and `gradients` are those at the peak, all others stay.

    Attributes:
        parameters: Parameters, or shards of them, that the rank keeps.
        gradients: Gradients of parameters at the peak.
        optimizer_state: State of the optimizers among the program's arguments.
        activations: All other results of operators, at the peak.
        communication: Gathered parameters, gradients before they are scattered, and buckets that are copies.
        given: Other arguments: inputs, buffers.
        peak: Peak of all bytes.
    """

    parameters: int
    gradients: int
    optimizer_state: int
    activations: int
    communication: int
    given: int
    peak: int

    def as_dict(self) -> dict[str, int]:
        """Return the bytes by name."""
        return {each.name: getattr(self, each.name) for each in fields(self)}


def memory_of(timeline: Timeline, mesh: Mesh, positions: range, stage: int) -> MemoryPlan:
    """Compute the memory of each rank of a pipeline stage; without a pipeline, each rank is in stage 0."""
    shards, columns = mesh.size_of(FullyShard), mesh.size_of(TensorParallel)
    own = [parameter for parameter in timeline.parameters if parameter.position in positions]

    def kept(parameter: PlannedParameter) -> float:
        return parameter.nbytes / (columns if parameter.divided else 1) / shards

    parameters = sum(map(kept, own))
    states = sum(
        parameter.state_bytes / (columns if parameter.divided else 1) / shards + parameter.other_state_bytes
        for parameter in own
    )
    communication = _gathered(timeline, mesh, positions)
    if gradient_copies(mesh):
        communication += sum(kept(parameter) for parameter in own if parameter.requires_grad)
    activations, gradients = _peak(timeline, mesh, positions, stage)
    argument_bytes = timeline.other_given
    total = parameters + states + activations + gradients + communication + argument_bytes
    return MemoryPlan(
        round(parameters), round(gradients), round(states), round(activations), round(communication), argument_bytes,
        round(total),
    )  # fmt: skip


def _gathered(timeline: Timeline, mesh: Mesh, positions: range) -> float:
    """Return the maximum bytes of units gathered at once, and of the largest unit's gradients beyond the
    rank's shard.
    """
    sharded = mesh.of(FullyShard)
    if sharded is None:
        return 0.0
    dimension, strategy = sharded
    sizes = timeline.divided_parameter_bytes(mesh.size_of(TensorParallel))
    root = sum(sizes.get(position, 0.0) for position in (0, timeline.last_position) if position in positions)
    units = [
        sizes.get(position, 0.0) for position in positions if position not in (0, timeline.last_position)
    ]
    window = 1 + strategy.prefetch if strategy.reshard_after_forward else len(units)
    at_once = max((sum(units[start : start + window]) for start in range(len(units))), default=0.0)
    return root + at_once + max((*units, root)) * (1 - 1 / dimension.size)


def _peak(timeline: Timeline, mesh: Mesh, positions: range, stage: int) -> tuple[float, float]:
    """Return the bytes of activations and of gradients at the time of their largest sum."""
    shards, columns = mesh.size_of(FullyShard), mesh.size_of(TensorParallel)
    pipeline = mesh.of(Pipeline)
    microbatches = pipeline[1].microbatches if pipeline else 1
    stages = pipeline[0].size if pipeline else 1
    held = held_microbatches(pipeline[1].schedule, stage, stages, microbatches) if pipeline else 1
    lifetimes = [
        lifetime
        for lifetime in timeline.lifetimes
        if lifetime.position in positions and not lifetime.is_state
    ]

    def share(lifetime: Lifetime) -> float:
        nbytes = lifetime.nbytes / (columns if lifetime.divided else 1)
        return nbytes / shards if lifetime.parameter >= 0 else nbytes / microbatches

    # A call's results come, then what it read dies; what becomes a gradient has died as something else before.
    changes: list[tuple[int, int, float, bool]] = []
    for lifetime in lifetimes:
        is_gradient = lifetime.parameter >= 0
        changes.append((lifetime.birth, 2 if is_gradient else 0, share(lifetime), is_gradient))
        if lifetime.death is not None:
            changes.append((lifetime.death, 1, -share(lifetime), is_gradient))
    changes.sort(key=lambda change: change[:2])
    backward = timeline.end_of_forward(positions)
    activations = gradients = saved = 0.0
    best = (0.0, 0.0)
    max_activations = 0.0
    for number, _, nbytes, is_gradient in changes:
        if is_gradient:
            gradients += nbytes
        else:
            activations += nbytes
            if number < backward:
                saved = activations
        max_activations = max(max_activations, activations)
        if activations + gradients > sum(best):
            best = activations, gradients
    if microbatches == 1:
        return best
    # From the second microbatch on, all gradients are there.
    return max_activations + (held - 1) * saved, sum(
        share(lifetime) for lifetime in lifetimes if lifetime.parameter >= 0
    )
