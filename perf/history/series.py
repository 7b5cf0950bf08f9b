"""Series of a store: the times of one benchmark on one machine, in the order of the commits."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ..suite.results import OURS, Result, Row, RowKey
from .identity import machine_name
from .store import History, HistoryError, Run


class SeriesKey(NamedTuple):
    """Identity of a series. Times of other machines or numbers of threads are not comparable."""

    machine: str
    threads: int
    row: RowKey


@dataclass(frozen=True)
class Point:
    """One value of a series: median seconds of triten, or the ratio to a baseline, in one run."""

    run: Run
    value: float


@dataclass
class Series:
    """Points of one benchmark, the oldest commit first."""

    key: SeriesKey
    points: list[Point] = field(default_factory=list)

    @property
    def values(self) -> list[float]:
        """Values in the order of the commits."""
        return [point.value for point in self.points]

    @property
    def commits(self) -> list[str]:
        """Commit of each value."""
        return [point.run.commit or "" for point in self.points]


def read_series(
    history: History,
    *,
    rows: re.Pattern[str] | None = None,
    machine: str = "",
    relative_to: str = "",
    commits: Sequence[str] | None = None,
) -> list[Series]:
    """Return the series of a store, each over the runs that timed its row.

    Runs without a clean commit, rehearsals and rows with a wrong result are left out.

    Args:
        rows: Expression that the row's title must match. Default: all rows.
        machine: Text that the machine's name must contain. Default: all machines.
        relative_to: Baseline whose time, of the same round, divides triten's. Default: seconds.
        commits: Hashes to keep, in order, such as those of a branch. Default: all, by the commits' times.
    """
    runs = chosen_runs(history, machine=machine, commits=commits)
    series: dict[SeriesKey, Series] = {}
    for run in runs:
        for row in history.result(run).rows:
            value = _value(row, relative_to)
            if value is None or (rows is not None and not rows.search(row.title)):
                continue
            key = SeriesKey(run.machine, row.threads, row.key)
            series.setdefault(key, Series(key)).points.append(Point(run, value))
    return list(series.values())


def chosen_runs(history: History, *, machine: str = "", commits: Sequence[str] | None = None) -> list[Run]:
    """Return the runs of clean commits that are no rehearsals, the oldest commit first."""
    runs = [
        run
        for run in history.runs()
        if run.commit is not None and not run.dirty and not run.rehearsal and machine in run.machine
    ]
    if commits is None:
        return runs
    order = {commit: index for index, commit in enumerate(commits)}
    selected = [run for run in runs if run.commit in order]
    return sorted(selected, key=lambda run: (order[run.commit or ""], run.moment, run.id))


def last_comparable(
    history: History, new: Result, *, commits: Sequence[str] | None = None
) -> Iterator[tuple[Run, Result]]:
    """Yield the runs that a result can be compared with, the newest commit first.

    A comparable run is of the same machine, device and settings that change the times, but of another commit.

    Args:
        commits: Hashes to keep, in order, such as those of the baseline's branch. Default: all.
    """
    commit = (new.commit or {}).get("hash")
    for run in reversed(chosen_runs(history, commits=commits)):
        if run.commit == commit or run.machine != machine_name(new.machine):
            continue
        result = history.result(run)
        if all(result.settings.get(name) == new.settings.get(name) for name in SETTINGS):
            yield run, result


SETTINGS = ("device", "threads", "collector", "graph")


def changed_versions(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Describe the libraries whose versions differ, other than triten, whose version is the commit.

    Example:
        >>> from triten.perf.history.series import changed_versions
        >>> changed_versions({"numpy": "2.1", "triten": "a"}, {"numpy": "2.2", "triten": "b", "torch": "2.13"})
        ['numpy 2.1 to 2.2', 'torch none to 2.13']
    """
    names = dict.fromkeys([*before, *after])
    return [
        f"{name} {before.get(name, 'none')} to {after.get(name, 'none')}"
        for name in names
        if name != OURS and before.get(name) != after.get(name)
    ]


def last_result(history: History) -> tuple[Run, Result]:
    """Return the run that started last. Raise HistoryError for an empty store."""
    runs = [run for run in history.runs() if not run.rehearsal]
    if not runs:
        raise HistoryError(f"{history.path}: the store has no run")
    last = max(runs, key=lambda run: (run.moment[1], run.id))
    return last, history.result(last)


def _value(row: Row, relative_to: str) -> float | None:
    ours = row.samples.get(OURS)
    if not ours or row.note.startswith(("WRONG", "FAILED")):
        return None
    if not relative_to:
        return statistics.median(ours)
    theirs = row.samples.get(relative_to)
    if not theirs:
        return None
    return statistics.median(our / their for our, their in zip(ours, theirs, strict=True))
