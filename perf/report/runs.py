"""History of runs that the report shows: for each run its conditions, and the medians and intervals of its benchmarks.

A history is a sequence of `Run`, the oldest commit first. `run_of` makes a run of a result file. A store of
runs may make them from its own records: the report needs no samples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..suite.confidence import Interval, median_interval
from ..suite.results import OURS, Bar, Result, ResultFileError, Row, RowKey, read_results

FAILURES = ("WRONG", "FAILED")
ENVIRONMENT = ("processor", "cores", "gpu")
SETTINGS = ("device", "threads", "quick", "collector", "graph", "flush")


@dataclass(frozen=True)
class Benchmark:
    """One timed benchmark of a run."""

    seconds: Interval
    """Median of triten's time, with its confidence interval."""
    ratios: Mapping[str, Interval]
    """Triten's time over a baseline's, by baseline."""
    baseline_seconds: Mapping[str, float]
    """Median of a baseline's time, by baseline."""
    target: Bar | None
    """Largest accepted ratio to a baseline, or largest accepted time."""
    verdict: str
    """Result of the target: met, MISSED or unsure; without a target the note."""


@dataclass(frozen=True)
class Run:
    """One run: what was measured, where, and of which commit."""

    label: str
    commit: str | None
    dirty: bool
    time: datetime
    """Time of the commit; without a commit, the start of the run."""
    started: datetime
    machine: Mapping[str, Any]
    versions: Mapping[str, str]
    settings: Mapping[str, Any]
    rehearsal: bool
    confidence: float
    benchmarks: Mapping[RowKey, Benchmark]

    @property
    def environment(self) -> tuple[str, ...]:
        """Machine and settings. Times of two runs are comparable only in one environment."""
        machine = [str(self.machine.get(name)) for name in ENVIRONMENT]
        return (*machine, *(str(self.settings.get(name)) for name in SETTINGS))

    def is_repeat_of(self, other: Run) -> bool:
        """Return True if both runs measured the same code: one clean commit with the same libraries.

        A difference between such runs is noise.
        """
        return (
            self.commit is not None
            and self.commit == other.commit
            and not (self.dirty or other.dirty)
            and _libraries(self) == _libraries(other)
            and self.machine.get("python") == other.machine.get("python")
        )


def read_history(paths: Sequence[Path]) -> list[tuple[Path, Result]]:
    """Read result files, the oldest commit first. Raise ResultFileError for a file that is given twice or invalid."""
    if len({path.resolve() for path in paths}) < len(paths):
        raise ResultFileError("a result file is given twice")
    return sorted(((path, read_results(path)) for path in paths), key=lambda each: _moments(*each))


def run_of(path: Path, result: Result) -> Run:
    """Convert a result file to a run of the history."""
    commit = result.commit or {}
    dirty = bool(commit.get("dirty"))
    time, started = _moments(path, result)
    return Run(
        label=commit.get("hash", "")[:9] + ("+" if dirty else "") if commit else path.name,
        commit=commit.get("hash"),
        dirty=dirty,
        time=time,
        started=started,
        machine=result.machine,
        versions=result.versions,
        settings=result.settings,
        rehearsal=result.rehearsal,
        confidence=result.confidence,
        benchmarks={
            row.key: _benchmark(row, result.confidence) for row in result.rows if row.samples.get(OURS)
        },
    )


def is_failure(note: str) -> bool:
    """Return True if a note says that a benchmark failed or computed a wrong result.

    Example:
        >>> from triten.perf.report.runs import is_failure
        >>> is_failure("WRONG: 0.1 from torch"), is_failure("missing in torch: gone")
        (True, False)
    """
    return note.startswith(FAILURES)


def _benchmark(row: Row, confidence: float) -> Benchmark:
    ratios = {peer: row.ratio(peer, confidence) for peer in row.peers}
    summaries = {peer: row.summary(peer) for peer in row.peers}
    return Benchmark(
        seconds=median_interval(row.samples[OURS], confidence),
        ratios={peer: ratio for peer, ratio in ratios.items() if ratio is not None},
        baseline_seconds={peer: each.median for peer, each in summaries.items() if each is not None},
        target=row.bar,
        verdict=row.verdict_at(confidence),
    )


def _libraries(run: Run) -> dict[str, str]:
    return {name: version for name, version in run.versions.items() if name != OURS}


def _moments(path: Path, result: Result) -> tuple[datetime, datetime]:
    """Return the time of the commit and the start of the run: a history is ordered by commit."""
    started = _parsed(path, "started", result.started)
    time = (result.commit or {}).get("time")
    return (started if time is None else _parsed(path, "commit.time", time)), started


def _parsed(path: Path, field: str, text: Any) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        raise ResultFileError(f"{path}: damaged: {field}: expected a moment, got {text!r:.60}") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
