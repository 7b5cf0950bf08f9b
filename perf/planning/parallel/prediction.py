"""From a timeline, the seconds of its calls and a mesh to a `DistributedPlan`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from ..communication.interconnect import Group, Interconnect, Link
from . import pipeline
from .distributed_plan import DistributedPlan
from .memory import memory_of
from .mesh import Mesh
from .stage import CollectiveRow, Stage, StageRun, merged
from .strategies import FullyShard, Pipeline, TensorParallel
from .timeline import Event, Kind, Phase, Timeline

if TYPE_CHECKING:
    from ..prediction import Plan


class CallSeconds:
    """Seconds of events: of work, which tensor parallel ranks and microbatches divide, and of being called."""

    def __init__(
        self, by_key: Mapping[str, tuple[float, float]], node: float, columns: int, microbatches: int
    ) -> None:
        self._by_key = by_key
        self._node = node
        self._columns = columns
        self._microbatches = microbatches

    def __call__(self, event: Event) -> float:
        """Return the time of an event in one microbatch."""
        if event.kind is not Kind.CALL:
            return self._node if event.kind is Kind.NODE else 0.0
        work, overhead = self._by_key[event.key]
        return work / (self._columns if event.divided else 1) / self._microbatches + overhead

    def update(self, events: Sequence[Event], share: float) -> float:
        """Return the time to update a share of the parameters."""
        calls = [self._by_key[event.key] for event in events if event.kind is Kind.CALL]
        return sum(work * share + overhead for work, overhead in calls)


def predict(
    single: Plan,
    timeline: Timeline,
    by_key: Mapping[str, tuple[float, float]],
    node: float,
    mesh: Mesh,
    interconnect: Interconnect,
    basis: Callable[[int], Sequence[str]],
) -> DistributedPlan:
    """Predict a recorded program on a mesh; `basis` describes the basis of the device's figures for a memory
    peak.

    Raise ValueError for a pipeline with more ranks than the program has units.
    """
    pipelined = mesh.of(Pipeline)
    stages, microbatches = (pipelined[0].size, pipelined[1].microbatches) if pipelined else (1, 1)
    seconds = CallSeconds(by_key, node, mesh.size_of(TensorParallel), microbatches)
    divided = _divided(timeline, seconds, stages)
    parts = [Stage(timeline, positions, mesh, interconnect, seconds, microbatches) for positions in divided]
    plain = [part.run(reduces_gradients=False) for part in parts]
    # Without dimensions of averaged gradients both runs are the same.
    last = [part.run(reduces_gradients=True) for part in parts] if mesh.data_parallel else plain
    updates = _updates(timeline, seconds, mesh, divided)
    extra = [full.seconds - update_seconds.seconds for full, update_seconds in zip(last, plain, strict=True)]
    messages = [
        _message_seconds(timeline, positions, mesh, interconnect, microbatches) for positions in divided[:-1]
    ]
    schedule = pipelined[1].schedule if pipelined else "gpipe"
    run = pipeline.run(
        schedule, [each.forward for each in plain], [each.backward for each in plain], messages, microbatches
    )
    step = run.seconds + max(
        extra_seconds + update_seconds for extra_seconds, update_seconds in zip(extra, updates, strict=True)
    )
    slowest = max(range(stages), key=lambda stage: plain[stage].seconds * microbatches + extra[stage])
    rows = _rows(plain[slowest], last[slowest], microbatches)
    if pipelined:
        rows += _messages(timeline, divided, slowest, mesh, interconnect, microbatches)
    exposed = (microbatches - 1) * plain[slowest].exposed + last[slowest].exposed
    busy = microbatches * plain[slowest].seconds + extra[slowest] + updates[slowest]
    communication = sum(row.seconds for row in rows)
    memory = tuple(memory_of(timeline, mesh, positions, stage) for stage, positions in enumerate(divided))
    peak = max(plan.peak for plan in memory)
    return DistributedPlan(
        single, mesh, tuple(rows), busy - exposed, exposed, max(0.0, communication - exposed),
        max(0.0, step - busy), step, memory,
        tuple(tuple(timeline.units[position - 1] for position in positions if 0 < position <= len(timeline.units))
              for positions in divided),
        (*basis(peak), *_basis(mesh, interconnect)),
    )  # fmt: skip


def _divided(timeline: Timeline, seconds: CallSeconds, stages: int) -> list[range]:
    """Return the range of positions of each stage."""
    if stages == 1:
        return [range(timeline.last_position + 1)]
    by_position = [0.0] * (timeline.last_position + 1)
    for event in timeline.events:
        if event.phase is not Phase.UPDATE:
            by_position[event.position] += seconds(event)
    units = by_position[1:-1]
    if units:  # what comes before the units and behind them stays with the first and the last one
        units[0] += by_position[0]
        units[-1] += by_position[-1]
    groups = pipeline.divide(units, stages)
    ranges = [range(group.start + 1, group.stop + 1) for group in groups]
    ranges[0] = range(ranges[0].stop)
    ranges[-1] = range(ranges[-1].start, timeline.last_position + 1)
    return ranges


def _updates(timeline: Timeline, seconds: CallSeconds, mesh: Mesh, divided: Sequence[range]) -> list[float]:
    events = [event for event in timeline.events if event.phase is Phase.UPDATE]
    shards = mesh.size_of(FullyShard)
    columns = mesh.size_of(TensorParallel)
    total = sum(parameter.nbytes for parameter in timeline.parameters) or 1
    bytes_by_position = timeline.divided_parameter_bytes(columns)
    return [
        seconds.update(events, sum(bytes_by_position.get(position, 0.0) for position in positions) / total / shards)
        if timeline.parameters else seconds.update(events, 1.0)
        for positions in divided
    ]  # fmt: skip


def _message_bytes(timeline: Timeline, positions: range, microbatches: int) -> float:
    return timeline.boundaries.get(positions.stop - 1, 0) / microbatches


def _neighbours(mesh: Mesh, interconnect: Interconnect) -> Group:
    """Return the group of two consecutive pipeline ranks: on one node if the dimension is inside a node."""
    pipelined = mesh.of(Pipeline)
    return Group(1, 2) if pipelined and pipelined[0].group.nodes > 1 else Group(2)


def _message_seconds(
    timeline: Timeline, positions: range, mesh: Mesh, interconnect: Interconnect, microbatches: int
) -> float:
    nbytes = _message_bytes(timeline, positions, microbatches)
    return interconnect.collective("send", nbytes, _neighbours(mesh, interconnect)).seconds


def _messages(
    timeline: Timeline,
    divided: Sequence[range],
    stage: int,
    mesh: Mesh,
    interconnect: Interconnect,
    microbatches: int,
) -> list[CollectiveRow]:
    pipelined = mesh.of(Pipeline)
    assert pipelined is not None
    row = CollectiveRow(pipelined[0].name, "send", "message")
    edges = ([divided[stage]] if stage + 1 < len(divided) else []) + ([divided[stage - 1]] if stage else [])
    for positions in edges:  # activations to the next stage, gradients to the one before
        nbytes = _message_bytes(timeline, positions, microbatches)
        row.calls += microbatches
        row.bytes += microbatches * nbytes
        row.sent += microbatches * nbytes
        row.seconds += microbatches * _message_seconds(timeline, positions, mesh, interconnect, microbatches)
    return [row]


def _rows(plain: StageRun, last: StageRun, microbatches: int) -> list[CollectiveRow]:
    return merged(
        [*last.rows.values(), *(row for _ in range(microbatches - 1) for row in plain.rows.values())]
    )


def _basis(mesh: Mesh, interconnect: Interconnect) -> list[str]:
    lines = [f"communication: {_link(interconnect.inside)}, {interconnect.library}; {interconnect.source}"]
    if mesh.everybody.nodes > 1 and interconnect.between is not None:
        lines.insert(1, f"between {mesh.everybody.nodes:,} nodes: {_link(interconnect.between)}")
    if not interconnect.overlaps:
        lines.append("communication is waited for: the processor that computes carries it out")
    return lines


def _link(link: Link) -> str:
    return (
        f"{link.name} ({1e6 * link.latency:.3g} us, {link.bytes_per_second / 1e9:,.4g} GB/s in one direction)"
    )
