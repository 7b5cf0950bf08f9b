"""Simulation of a stage: the events of some units on a clock, with the strategies' communication.

Computation and communication overlap: the device computes, and along each mesh dimension one collective runs
after the other. Time spent waiting for an unfinished collective is exposed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ..communication.interconnect import Group, Interconnect
from .mesh import Mesh
from .strategies import MEBI, FullyShard, TensorParallel
from .timeline import UNFINISHED, Event, Kind, Phase, Timeline

FIRST_BUCKET_BYTES = MEBI
"""The first bucket of gradients, which shall be on its way early (PyTorch's ``_DEFAULT_FIRST_BUCKET_BYTES``)."""


@dataclass(slots=True)
class CollectiveRow:
    """All collectives of a kind along a dimension, of one rank: calls, bytes by the cost model's count, bytes sent."""

    dimension: str
    collective: str
    algorithm: str
    calls: int = 0
    bytes: float = 0.0
    sent: float = 0.0
    seconds: float = 0.0


@dataclass
class StageRun:
    """Times of a stage for one microbatch: seconds of forward and of backward, including exposed
    communication.
    """

    forward: float = 0.0
    backward: float = 0.0
    exposed: float = 0.0
    rows: dict[tuple[str, str, str], CollectiveRow] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """Both."""
        return self.forward + self.backward


class Entry(NamedTuple):
    """A unit begins to compute."""

    number: int
    position: int
    phase: Phase


class Stage:
    """The events of the units of one pipeline rank (all units where there is no pipeline)."""

    def __init__(
        self,
        timeline: Timeline,
        positions: range,
        mesh: Mesh,
        interconnect: Interconnect,
        seconds: Callable[[Event], float],
        microbatches: int,
    ) -> None:
        self.timeline = timeline
        self.positions = positions
        self.events = [
            event
            for event in timeline.events
            if event.position in positions and event.phase is not Phase.UPDATE
        ]
        self.mesh = mesh
        self.interconnect = interconnect
        self.seconds = seconds
        self.microbatches = microbatches
        self.parameter_bytes = timeline.divided_parameter_bytes(mesh.size_of(TensorParallel))

    def run(self, *, reduces_gradients: bool) -> StageRun:
        """Run one microbatch; only the last one reduces gradients along dimensions whose ranks have all
        parameters.
        """
        return _Run(self, reduces_gradients).run()


class _Run:
    def __init__(self, stage: Stage, reduces_gradients: bool) -> None:
        self.stage = stage
        self.events = stage.events
        self.reduces_gradients = reduces_gradients
        self.now = 0.0
        self.found = StageRun()
        self.free: dict[str, float] = {}
        self.data_parallel = stage.mesh.data_parallel if reduces_gradients else []
        self.sharded = stage.mesh.of(FullyShard)
        self.tensor_parallel = stage.mesh.of(TensorParallel)
        self.gathered: dict[int, float] = {}
        self.entries: list[Entry] = _entries(self.events)
        self.next_entry = 0
        self.bucket = 0.0
        self.buckets_done = 0
        self.reductions: list[float] = []
        self.pending: dict[int, float] = {}
        self.reductions_of_units: dict[int, float] = {}
        self.programs: dict[int, float] = {}
        self.expected = self._expected_gradients()

    def run(self) -> StageRun:
        phase = Phase.FORWARD
        started = 0.0
        for number, event in enumerate(self.events):
            if event.phase is not phase:
                if phase is Phase.BACKWARD:
                    self._end_of_pass()
                started = self._count(phase, started)
                phase = event.phase
            self._enter(number)
            self._happen(event)
        if phase is Phase.BACKWARD:
            self._end_of_pass()
        for end in self.programs.values():
            self._wait(end)
        self._count(phase, started)
        return self.found

    def _count(self, phase: Phase, started: float) -> float:
        if phase is Phase.FORWARD:
            self.found.forward += self.now - started
        else:
            self.found.backward += self.now - started
        return self.now

    def _happen(self, event: Event) -> None:
        if event.kind in (Kind.CALL, Kind.NODE):
            self.now += self.stage.seconds(event)
        elif event.kind is Kind.GRADIENT:
            if event.number != UNFINISHED:
                self._gradient(event.number)
        elif event.kind is Kind.REDUCE and self.tensor_parallel is not None:
            dimension, _ = self.tensor_parallel
            nbytes = event.nbytes / self.stage.microbatches
            self._wait(self._issue(dimension.name, dimension.group, "all_reduce", nbytes))
        elif event.kind is Kind.COLLECTIVE:
            name, group = self.stage.mesh.group_of(event.group)
            nbytes = event.nbytes / self.stage.microbatches
            self.programs[event.number] = self._issue(name, group, event.collective, nbytes)
        elif event.kind is Kind.WAIT and event.number in self.programs:
            self._wait(self.programs.pop(event.number))

    # The clock.

    def _issue(
        self, dimension: str, group: Group, collective: str, nbytes: float, after: float = 0.0
    ) -> float:
        """When a collective that is enqueued now will have ended."""
        cost = self.stage.interconnect.collective(collective, nbytes, group)
        key = dimension, collective, cost.algorithm
        row = self.found.rows.setdefault(key, CollectiveRow(*key))
        row.calls += 1
        row.bytes += nbytes
        row.sent += cost.sent
        row.seconds += cost.seconds
        end = max(self.now, self.free.get(dimension, 0.0), after) + cost.seconds
        self.free[dimension] = end
        if not self.stage.interconnect.overlaps:
            self._wait(end)
        return end

    def _wait(self, end: float) -> None:
        if end > self.now:
            self.found.exposed += end - self.now
            self.now = end

    # Gradients.

    def _expected_gradients(self) -> dict[int, float]:
        """Return the bytes of gradients that each position computes in a backward pass."""
        bytes_by_position: dict[int, float] = {}
        numbers = {event.number for event in self.events if event.kind is Kind.GRADIENT} - {UNFINISHED}
        for number in numbers:
            parameter = self.stage.timeline.parameters[number]
            bytes_by_position[parameter.position] = bytes_by_position.get(
                parameter.position, 0.0
            ) + self._bytes(number)
        return bytes_by_position

    def _bytes(self, number: int) -> float:
        parameter = self.stage.timeline.parameters[number]
        return parameter.nbytes / (self.stage.mesh.size_of(TensorParallel) if parameter.divided else 1)

    def _gradient(self, number: int) -> None:
        nbytes = self._bytes(number)
        if self.sharded is not None:
            position = self.stage.timeline.parameters[number].position
            self.pending[position] = self.pending.get(position, 0.0) + nbytes
            if self.pending[position] >= self.expected.get(position, 0.0):
                self._reduce_unit(position)
        elif self.data_parallel:
            self.bucket += nbytes
            caps = [strategy.bucket_cap_mb for _, strategy in self.data_parallel]
            if self.bucket >= (MEBI * min(caps) if self.buckets_done else FIRST_BUCKET_BYTES):
                self._reduce_bucket()

    def _reduce_bucket(self) -> None:
        end = 0.0
        for dimension, _ in self.data_parallel:
            end = self._issue(dimension.name, dimension.group, "all_reduce", self.bucket, end)
        self.reductions.append(end)
        self.bucket = 0.0
        self.buckets_done += 1

    def _reduce_unit(self, position: int) -> None:
        if self.sharded is None:
            return
        dimension, _ = self.sharded
        nbytes = self.pending.pop(position)
        end = self._issue(dimension.name, dimension.group, "reduce_scatter", nbytes)
        for other, _ in self.data_parallel:
            end = self._issue(other.name, other.group, "all_reduce", nbytes / dimension.size, end)
        self.reductions.append(end)

    def _end_of_pass(self) -> None:
        for position in list(self.pending):
            self._reduce_unit(position)
        if self.bucket:
            self._reduce_bucket()
        for end in self.reductions:
            self._wait(end)
        self.reductions.clear()
        self.buckets_done = 0

    # Parameters.

    def _enter(self, number: int) -> None:
        """Gather the parameters of the unit that begins at this event, and prefetch those of the next units."""
        if self.sharded is None or self.next_entry == len(self.entries):
            return
        entry = self.entries[self.next_entry]
        if entry.number != number:
            return
        _, strategy = self.sharded
        if self.next_entry:
            self._drop(self.entries[self.next_entry - 1], strategy)
        for later in self.entries[self.next_entry : self.next_entry + 1 + strategy.prefetch]:
            self._gather(later.position)
        self._wait(self.gathered.get(entry.position, 0.0))
        self.next_entry += 1

    def _gather(self, position: int) -> None:
        nbytes = self.stage.parameter_bytes.get(position, 0.0)
        if self.sharded is None or position in self.gathered or not nbytes:
            return
        dimension, _ = self.sharded
        self.gathered[position] = self._issue(dimension.name, dimension.group, "all_gather", nbytes)

    def _drop(self, left: Entry, strategy: FullyShard) -> None:
        is_root = left.position in (0, self.stage.timeline.last_position)
        if left.phase is Phase.BACKWARD or (strategy.reshard_after_forward and not is_root):
            self.gathered.pop(left.position, None)


def _entries(events: Sequence[Event]) -> list[Entry]:
    """Return the events at which units begin to compute."""
    entries: list[Entry] = []
    for number, event in enumerate(events):
        if event.kind not in (Kind.CALL, Kind.NODE):
            continue
        if not entries or (entries[-1].position, entries[-1].phase) != (event.position, event.phase):
            entries.append(Entry(number, event.position, event.phase))
    return entries


def merged(rows: Sequence[CollectiveRow]) -> list[CollectiveRow]:
    """Add up the rows of several runs."""
    totals: dict[tuple[str, str, str], CollectiveRow] = {}
    for row in rows:
        key = row.dimension, row.collective, row.algorithm
        total = totals.setdefault(key, CollectiveRow(*key))
        total.calls += row.calls
        total.bytes += row.bytes
        total.sent += row.sent
        total.seconds += row.seconds
    return [*totals.values()]


def gradient_copies(mesh: Mesh) -> bool:
    """Return True if buckets are copies of the gradients."""
    return any(not strategy.gradient_as_bucket_view for _, strategy in mesh.data_parallel) and (
        mesh.of(FullyShard) is None
    )
