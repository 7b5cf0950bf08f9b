"""Display of a run: progress while it measures, then its rows as a table."""

from __future__ import annotations

import importlib.util
import itertools
import math
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

from .results import MET, MISSED, OURS, UNSURE, Result, Row
from .workloads import MEAN_BARS

NEW_SHAPES = "new shapes"


class Progress(Protocol):
    """Protocol of a progress display."""

    def begin(self, title: str) -> None:
        """Handle the start of a row."""

    def done(self) -> None:
        """Handle the end of the last measurement."""


class _Silent:
    def begin(self, title: str) -> None:
        """Do nothing."""

    def done(self) -> None:
        """Do nothing."""


class _Bar:
    def __init__(self, progress: Any, task: Any) -> None:
        self._progress, self._task = progress, task

    def begin(self, title: str) -> None:
        self._progress.update(self._task, description=title)

    def done(self) -> None:
        self._progress.advance(self._task)


@contextmanager
def progress(total: int) -> Iterator[Progress]:
    """Show a progress bar with the time left, if standard error is a terminal and rich is installed."""
    if not sys.stderr.isatty() or importlib.util.find_spec("rich") is None:
        yield _Silent()
        return
    from rich.console import Console

    with progress_bar(Console(stderr=True)) as shown:
        yield _Bar(shown, shown.add_task("", total=total))


def progress_bar(console: Any) -> Any:
    """Return rich's progress bar for a console: benchmark, bar, count, time elapsed and time left.

    The benchmark's name is shortened to the width that the other columns leave: they are never cut.
    """
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.table import Column

    def whole() -> Column:
        return Column(no_wrap=True, min_width=len("0:00:00"))

    return Progress(
        TextColumn(
            "{task.description}",
            table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1),
            markup=False,
        ),
        BarColumn(bar_width=16),
        MofNCompleteColumn(table_column=whole()),
        TimeElapsedColumn(table_column=whole()),
        TextColumn("elapsed,"),
        TimeRemainingColumn(table_column=whole()),
        TextColumn("left"),
        console=console,
        transient=True,
        expand=True,
    )


def format_result(result: Result) -> str:
    """Format the run's conditions, limits, rows and means as text."""
    return "\n".join(
        [format_head(result), "", format_rows(result), *format_means(result.rows), *_tail(result)]
    )


def format_head(result: Result) -> str:
    """Describe the machine, the versions, the settings and the limits."""
    machine, settings, limits = result.machine, result.settings, result.limits
    versions = ", ".join(f"{name} {version[:12]}" for name, version in result.versions.items())
    lines = [
        f"{machine.get('processor')}, {machine.get('cores')} cores, {machine.get('system')}, {machine.get('python')}",
        f"device {settings.get('device')}{', ' + str(machine['gpu']) if machine.get('gpu') else ''}; "
        f"threads {settings.get('threads')} of each library{_pinning(settings)}; garbage collection "
        f"{'on' if settings.get('collector') else 'off'} while timing{_processes(settings)}",
        versions,
    ]
    if limits.copy_bytes_per_second:
        peaks = ", ".join(
            f"{dtype} {number(rate / 1e9)}" for dtype, rate in limits.matrix_flops_per_second.items()
        )
        empty = f"; an empty call {number((limits.empty_call_seconds or 0) * 1e9)} ns"
        lines.append(
            f"limits: a copy moves {number(limits.copy_bytes_per_second / 1e9)} GB/s; products reach GFLOP/s of "
            f"{peaks}{empty}"
        )
    return "\n".join(lines)


def _processes(settings: Mapping[str, Any]) -> str:
    count = settings.get("processes", 1)
    return f"; samples are medians of processes, {count} or more" if count > 1 else ""


def _pinning(settings: Mapping[str, Any]) -> str:
    """Describe the cores that threads are pinned to; empty for an older file without this field."""
    blas = ", but not of NumPy's BLAS, which has no call for it" if settings.get("blas_held") is False else ""
    if "cores" not in settings:
        return blas
    cores = settings["cores"]
    if not cores:
        return f"{blas}, not pinned: this system has no call for it, or refuses it"
    if len(cores) == 1:
        return f"{blas}, pinned to core {cores[0]}"
    return f"{blas}, pinned: the caller's to core {cores[0]}, the others to {', '.join(map(str, cores[1:]))}"


def format_rows(result: Result) -> str:
    """Format the rows: a heading per suite; times, ratios with intervals, rates, share of the limit, result.

    `n` is the number of samples. A result is inconclusive if the confidence interval contains the target.
    """
    lines = []
    for suite, members in itertools.groupby(result.rows, key=lambda row: row.suite):
        rows = list(members)
        peers = list(dict.fromkeys(peer for row in rows for peer in row.peers))
        heads = "".join(f"{'/ ' + peer:>24}" for peer in peers)
        rates = f"{'GB/s':>8}{'GFLOP/s':>9}{'of limit':>9}{'target':>11}"
        lines += ["", f"{suite:<62}{'us':>12}{'iqr':>6}{'n':>4}{heads}{rates}  result"]
        lines += [_format_row(row, peers, result) for row in rows]
    return "\n".join(lines).lstrip("\n")


def _format_row(row: Row, peers: list[str], result: Result) -> str:
    label = " ".join(part for part in (row.name, row.size, row.dtype) if part)
    if row.direction != "forward" and "backward" not in label:
        label += ", backward" if row.direction == "backward" else " and backward"
    ours = row.summary()
    if ours is None:
        return f"{label:<62.62}{'':>12}{'':>6}{'':>4}{'':>{24 * len(peers)}}{'':>37}  {shown_verdict(row.verdict)}"
    derived = row.derived(result.limits, result.confidence)
    cells = [f"{number(ours.median * 1e6):>12}", f"{ours.interquartile_range / ours.median:>6.0%}"]
    cells.append(f"{len(row.samples[OURS]):>4}")
    for peer in peers:
        ratio = row.ratio(peer, result.confidence)
        if ratio is None:
            cells.append(f"{'':>24}")
            continue
        interval = "" if ratio.low is None else f" [{ratio.low:.2f}, {ratio.high:.2f}]"
        cells.append(f"{f'{ratio.estimate:.2f}{interval}':>24}")
    for name, width in (("bytes_per_second", 8), ("flops_per_second", 9)):
        cells.append(f"{'' if not derived[name] else number(derived[name] / 1e9):>{width}}")
    cells.append(f"{'' if derived['of_limit'] is None else format(derived['of_limit'], '.0%'):>9}")
    target = (
        ""
        if row.bar is None
        else f"{row.bar.most:.2f}"
        if row.bar.peer
        else f"{number(row.bar.most * 1e6)} us"
    )
    return f"{label:<62.62}{''.join(cells)}{target:>11}  {shown_verdict(derived['verdict'])}".rstrip()


def shown_verdict(verdict: str) -> str:
    """Return the result of a benchmark in the words of the terminal.

    Example:
        >>> from triten.perf.suite.display import shown_verdict
        >>> [shown_verdict(each) for each in ("met", "MISSED", "unsure", "FAILED in torch")]
        ['met', 'missed', 'inconclusive', 'FAILED in torch']
    """
    return {MISSED: "missed", UNSURE: "inconclusive"}.get(verdict, verdict)


def geometric_means(rows: Iterable[Row], peer: str) -> dict[str, tuple[int, float]]:
    """Compute the number of rows and the geometric mean of the ratios to a baseline by suite, for known
    shapes.
    """
    ratios: dict[str, list[float]] = {}
    for row in rows:
        ratio = row.ratio(peer)
        if ratio is not None and row.operator != NEW_SHAPES:
            ratios.setdefault(row.suite, []).append(math.log(ratio.estimate))
    return {suite: (len(logs), math.exp(math.fsum(logs) / len(logs))) for suite, logs in ratios.items()}


def format_means(rows: list[Row]) -> list[str]:
    """Format a line for each suite that was measured against PyTorch."""
    lines = []
    for suite, (count, mean) in geometric_means(rows, "torch").items():
        least, aim = MEAN_BARS.get(suite, (None, None))
        verdict = ""
        if least is not None and aim is not None:
            reached = "aim met" if mean <= aim else "target met" if mean <= least else "target missed"
            verdict = f" (target {least:.2f}, aim {aim:.2f}: {reached})"
        lines.append(f"{suite}: geometric mean of {count} ratios to torch: {mean:.2f}{verdict}")
    return ["", *lines] if lines else []


def _tail(result: Result) -> list[str]:
    timed = sum(1 for row in result.rows if row.samples.get(OURS))
    verdicts = [
        row.verdict_at(result.confidence).partition(" in ")[0].partition(":")[0] for row in result.rows
    ]
    counts = {name: verdicts.count(name) for name in (MET, MISSED, UNSURE, "missing", "WRONG", "FAILED")}
    summary = ", ".join(f"{count} {shown_verdict(name)}" for name, count in counts.items() if count)
    if counts[UNSURE]:
        summary += " (inconclusive: the target is within the interval)"
    state = "complete" if result.complete else "INCOMPLETE"
    rehearsal = ["a rehearsal: its times say nothing"] if result.rehearsal else []
    return [
        "",
        f"{state}: {timed} of {len(result.rows)} benchmarks timed{': ' + summary if summary else ''}",
        *rehearsal,
    ]


def number(value: float) -> str:
    """Three digits that matter, without an exponent.

    Example:
        >>> from triten.perf.suite.display import number
        >>> [number(value) for value in (0.0123, 1.234, 123.4, 12345.6)]
        ['0.0123', '1.23', '123', '12,346']
    """
    if value >= 100:
        return f"{value:,.0f}"
    digits = 2 - math.floor(math.log10(value)) if value > 0 else 2
    return f"{value:.{max(digits, 0)}f}"
