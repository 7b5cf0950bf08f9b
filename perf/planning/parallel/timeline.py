"""`Timeline`: the program of one device in order: calls, autograd nodes, gradients and units."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class Phase(enum.Enum):
    """Phase of an event. Update: everything after the last backward pass."""

    FORWARD = "forward"
    BACKWARD = "backward"
    UPDATE = "update"


class Kind(enum.Enum):
    """Kind of an event."""

    CALL = "a call of an operator"
    NODE = "a node of autograd"
    GRADIENT = "a parameter's gradient is there"
    REDUCE = "a tensor parallel result is all-reduced"
    COLLECTIVE = "the program's own collective"
    WAIT = "the program waits for one"


UNFINISHED = -1
"""The number of a gradient to which the pass will add once more."""


@dataclass(slots=True)
class Event:
    """Event of a timeline. `position` is the unit that computes: 0 before the first unit, their number plus 1
    after the last.

    `divided` is True if tensor parallel ranks divide the work. `number` is that of a parameter, or of a
    result that is waited for. `collective` and `group` describe the program's own collective. `key`
    identifies a call.
    """

    kind: Kind
    position: int = 0
    divided: bool = False
    key: str = ""
    nbytes: int = 0
    number: int = -1
    collective: str = ""
    group: str = ""
    phase: Phase = Phase.FORWARD


@dataclass(slots=True)
class PlannedParameter:
    """A parameter: bytes, those of its states in optimizers, its position, whether tensor parallel ranks divide it.

    `state_bytes` are of states as large as the parameter, which are sharded as it is; `other_state_bytes` of others.
    """

    name: str
    nbytes: int
    requires_grad: bool
    position: int = 0
    divided: bool = False
    state_bytes: int = 0
    other_state_bytes: int = 0


@dataclass(slots=True)
class Lifetime:
    """Bytes that live from one event to another (None: to the end); `parameter` if they are its gradient."""

    birth: int
    nbytes: int
    position: int
    divided: bool
    death: int | None = None
    parameter: int = -1
    is_state: bool = False


class Boundary(NamedTuple):
    """Data that a unit passes to the next one."""

    position: int
    nbytes: int


@dataclass
class Timeline:
    """Recorded events of a program, with its parameters and other data."""

    events: list[Event] = field(default_factory=list)
    parameters: list[PlannedParameter] = field(default_factory=list)
    lifetimes: list[Lifetime] = field(default_factory=list)
    units: list[str] = field(default_factory=list)
    boundaries: dict[int, int] = field(default_factory=dict)
    other_given: int = 0

    @property
    def last_position(self) -> int:
        """The position behind the last unit."""
        return len(self.units) + 1

    def end_of_forward(self, positions: range) -> int:
        """Return the index of the event at which the first backward pass of these positions begins; 0 without
        one.
        """
        for number, event in enumerate(self.events):
            if event.phase is Phase.BACKWARD and event.position in positions:
                return number
        return 0

    def divided_parameter_bytes(self, ranks: int) -> Mapping[int, float]:
        """Return the bytes of parameters with gradients by position, divided among tensor parallel ranks."""
        bytes_by_position: dict[int, float] = {}
        for parameter in self.parameters:
            share = ranks if parameter.divided else 1
            bytes_by_position[parameter.position] = (
                bytes_by_position.get(parameter.position, 0.0) + parameter.nbytes / share
            )
        return bytes_by_position


def passes_of(sequences: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the first and last event of each backward pass, from visited nodes given as (number, sequence).

    Sequence numbers decrease within a pass, and a later pass starts at a higher number. Leaves and ends of
    visits have 0.

    Example:
        >>> from triten.perf.planning.parallel.timeline import passes_of
        >>> list(passes_of([(4, 9), (5, 7), (6, 0), (7, 3), (20, 15), (22, 0)]))
        [(4, 7), (20, 22)]
    """
    start, last, lowest = -1, -1, 0
    for number, sequence in sequences:
        if start < 0 or (sequence and sequence > lowest):
            if start >= 0:
                yield start, last
            start = number
        last = number
        lowest = sequence or lowest
    if start >= 0:
        yield start, last


def set_phases(events: list[Event], sequences: list[tuple[int, int]]) -> None:
    """Set the phase of each event; of several additions to a gradient in a pass, only the last one counts."""
    end = 0
    for first, last in passes_of(sequences):
        end = last + 1
        finished: set[int] = set()
        for event in reversed(events[first:end]):
            event.phase = Phase.BACKWARD
            if event.kind is Kind.GRADIENT and event.number in finished:
                event.number = UNFINISHED
            finished.add(event.number)
    if sequences:
        for event in events[end:]:
            event.phase = Phase.UPDATE
