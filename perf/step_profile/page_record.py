"""A profile as the page of `report` shows it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .allocations import memory_of_snapshot, memory_of_trace
from .comparison import operator_rows, totals
from .flame import flame_graph
from .timeline import SPANS, timeline
from .trace import read_trace

SNAPSHOTS = frozenset({".pickle", ".pkl"})


def profile_records(paths: Sequence[Path]) -> list[dict[str, Any]]:
    """Return a record for each trace of `tt.profiler`, or snapshot of `tt.cuda.memory` (``.pickle``).

    All timelines together have at most `SPANS` spans.

    Returns:
        name, and for a trace: seconds (of a step), sentences, operators, flame, timeline; memory, which may be empty.

    Raises:
        TraceError: if a file is neither.
    """
    traces = sum(path.suffix not in SNAPSHOTS for path in paths)
    return [_record(path, SPANS // max(1, traces)) for path in paths]


def _record(path: Path, spans: int) -> dict[str, Any]:
    if path.suffix in SNAPSHOTS:
        return {"name": path.name, "sentences": [], "memory": memory_of_snapshot(path)}
    trace = read_trace(path)
    return {
        "name": trace.name,
        "nanoseconds": trace.duration,
        "sentences": [f"{each}." for each in totals(trace)] + _peaks(trace.step, trace),
        "operators": operator_rows(trace),
        "flame": flame_graph(trace),
        "timeline": timeline(trace, spans),
        "memory": memory_of_trace(trace),
    }


def _peaks(step: dict[str, Any], trace: Any) -> list[str]:
    """Compare the peak of the memory that the step allocated with the prediction."""
    memories = memory_of_trace(trace)
    if not memories:
        return []
    peaks = ", ".join(f"{each['peak']:,} bytes on {each['device']}" for each in memories)
    sentence = f"The step allocated at most {peaks} at once"
    plan = step.get("plan")
    if plan:
        sentence += f"; predicted: {plan['peak_bytes'] - plan['given_bytes']:,} bytes beside its arguments"
    return [f"{sentence}."]
