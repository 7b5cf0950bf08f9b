"""A recording for many sizes: captures at some of them, compared, and the recording of any other size between them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from ..capture.guards import Guards, same
from ..capture.locations import Location
from ..capture.recording import Recording
from .graph_rows import graph_of, rows_of
from .observed_size import Observations
from .size_expressions import Sizes
from .template import DifferentCaptures, Template


class RecordingTemplate:
    """Common template of captures at several sizes.

    Its sizes lie between those that were tried. So a decision based on one of them being small or large, in any code,
    would have shown.

    Args:
        names: Names of the sizes.
        points: The sizes of each capture.
        recordings: The captures without dead steps, some of which operators make at their first call. The last one
            repeats the first sizes with plain integers, to detect code that treats them differently.
        observations: Observations of each capture but the last.

    Raises:
        DifferentCaptures: They are not of one graph.
    """

    def __init__(
        self,
        names: Sequence[str],
        points: Sequence[Sizes],
        recordings: Sequence[Recording],
        observations: Sequence[Observations],
    ) -> None:
        self._recording = recordings[0]
        self.low = {name: min(point[name] for point in points) for name in names}
        self.high = {name: max(point[name] for point in points) for name in names}
        _compare_recordings(recordings)
        self._guards = _all_guards(recordings)
        rows = [rows_of(each.graph) for each in recordings]
        self.template = Template.of(names, [*points, points[0]], rows, observations)

    def recording(self, sizes: Sizes) -> Recording | None:
        """Return the recording for these sizes; None if it is unknown that the function has this graph for them."""
        if any(not self.low[name] <= size <= self.high[name] for name, size in sizes.items()):
            return None
        if self.template.broken(sizes) is not None:
            return None
        try:
            rows = self.template.rows_at(sizes)
        except ZeroDivisionError:
            return None
        return dataclasses.replace(
            self._recording, graph=graph_of(rows, self._recording.graph), guards=self._guards
        )


def _compare_recordings(recordings: Sequence[Recording]) -> None:
    first = recordings[0]
    for other in recordings[1:]:
        for field in dataclasses.fields(Recording):
            if field.name in ("graph", "guards", "held", "structure"):
                continue
            if getattr(first, field.name) != getattr(other, field.name):
                raise DifferentCaptures(f"{field.name} differs")
        if first.structure != other.structure:
            raise DifferentCaptures("the result has another structure")
        held = list(zip(first.guards.held, other.guards.held, strict=False))
        if len(first.held) != len(other.held) or not all(
            a.holder is b.holder and a.key == b.key and spec is now for (a, spec), (b, now) in held
        ):
            raise DifferentCaptures("the function holds other tensors")


def _all_guards(recordings: Sequence[Recording]) -> Guards:
    """Return guards that hold if those of all captures do. Raise DifferentCaptures if they contradict each other."""
    guards: dict[Any, tuple[Location, Any]] = {}
    for recording in recordings:
        for location, value in recording.guards.locations:
            known = guards.setdefault((location.kind, id(location.holder), location.key), (location, value))
            if not same(known[1], value):
                raise DifferentCaptures(f"{location.name} depends on sizes")
    return Guards(list(guards.values()), recordings[0].guards.held)
