"""One measured line: raw times, medians, spread, and whether its targets are met; and what groups make together."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from .targets import (
    MEANS,
    MICROSECONDS,
    OF_COPY,
    SPEED,
    SPEED_OF_CUDNN,
    SPEED_OF_EAGER,
    Target,
    geometric_mean,
    targets_of,
)

OURS, PEER, EAGER, CUDNN = "triten", "torch", "eager", "cudnn"
OURS_COMPILED, COMPILED = "compiled", "torch.compile"
NOT_BUILT, NOT_HERE = "not built", "not on this device"


@dataclass
class Row:
    """Measurement of one workload. Times are in microseconds, one per round, by implementation.

    `nbytes` and `flops` are the work that the workload requires; 0 if that is not meaningful.
    `copy_bandwidth` is that of a device-to-device copy of `copy_bytes` bytes in the same run, in bytes read and
    written per second. The copy moves about as many bytes as the workload.
    `expected` is the model's time in microseconds (`expected.py`), which is not a measurement.
    `facts` are other measured numbers, with the unit in the name. `absent` says why a rival has no time.
    """

    group: str
    name: str
    nbytes: int = 0
    flops: int = 0
    times: dict[str, list[float]] = field(default_factory=dict)
    breakdown: dict[str, float] = field(default_factory=dict)
    note: str = ""
    copy_bandwidth: float | None = None
    copy_bytes: int | None = None
    expected: float | None = None
    facts: dict[str, float] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)

    def median(self, who: str) -> float | None:
        """Return the median time of one implementation; None if it was not timed."""
        times = self.times.get(who)
        return statistics.median(times) if times else None

    def spread(self, who: str) -> float | None:
        """Return the interquartile range over the median."""
        times = self.times.get(who)
        if not times or len(times) < 4:
            return None
        low, _, high = statistics.quantiles(times, n=4)
        return (high - low) / statistics.median(times)

    def speed(self, yardstick: str = PEER) -> float | None:
        """Another's median over triten's: above 1 triten is ahead."""
        ours, theirs = self.median(OURS), self.median(yardstick)
        return None if theirs is None or not ours else theirs / ours

    @property
    def of_copy(self) -> float | None:
        """The share of the bandwidth of a copy of as many bytes at which the workload's bytes moved."""
        ours = self.median(OURS)
        if not (ours and self.nbytes and self.copy_bandwidth):
            return None
        return self.nbytes / (ours * 1e-6) / self.copy_bandwidth

    @property
    def targets(self) -> tuple[Target, ...]:
        """Targets of the row."""
        return targets_of(self.group, self.name)

    def measured(self, measure: str) -> float | None:
        """Return the value that a target bounds."""
        return {
            SPEED: self.speed(PEER),
            SPEED_OF_CUDNN: self.speed(CUDNN),
            SPEED_OF_EAGER: self.speed(EAGER),
            OF_COPY: self.of_copy,
            MICROSECONDS: self.median(OURS),
        }[measure]

    @property
    def verdict(self) -> str:
        """``aim met`` or ``met`` by all targets, ``MISSED`` with what was, or why there is none."""
        if self.note:
            return self.note
        if not self.targets:
            return "no target set"
        verdicts = {target.measure: target.verdict(self.measured(target.measure)) for target in self.targets}
        missed = [measure for measure, verdict in verdicts.items() if verdict == "MISSED"]
        if missed:
            return f"MISSED: {', '.join(missed)}"
        unknown = [verdict for verdict in verdicts.values() if verdict.startswith("no ")]
        if unknown:
            return unknown[0]
        return "aim met" if set(verdicts.values()) == {"aim met"} else "met"

    def as_json(self) -> dict[str, Any]:
        """Return the row with its raw times and derived values."""
        return asdict(self) | {
            "medians": {who: self.median(who) for who in self.times},
            "spreads": {who: self.spread(who) for who in self.times},
            "speed": self.speed(),
            "of_copy": self.of_copy,
            "targets": [target._asdict() for target in self.targets],
            "verdict": self.verdict,
        }


class GroupMean(NamedTuple):
    """The geometric mean of the speeds of a group's rows, beside its target."""

    name: str
    rows: int
    speed: float
    slowest: str
    least: float
    aim: float
    verdict: str


def group_means(rows: Sequence[Row]) -> list[GroupMean]:
    """Return the geometric means of groups, over the rows that were timed against PyTorch."""
    means: list[GroupMean] = []
    for name, groups, target in MEANS:
        speeds = {
            row.name: speed for row in rows if row.group in groups and not row.note and (speed := row.speed())
        }
        if speeds:
            mean = geometric_mean(list(speeds.values()))
            slowest = min(speeds, key=lambda row: speeds[row])
            worst = f"{speeds[slowest]:.2f} {slowest}"
            means.append(
                GroupMean(name, len(speeds), mean, worst, target.least, target.aim, target.verdict(mean))
            )
    return means


def format_rows(rows: Sequence[Row]) -> str:
    """Format the rows as text: times, speed, spread, share of copy bandwidth, rate, target, result; then the
    groups.
    """
    lines: list[str] = []
    for group, members in itertools.groupby(rows, key=lambda row: row.group):
        lines += ["", f"{group:<44}{'triten us':>11}{'model us':>11}{'torch us':>11}{'speed':>7}{'iqr':>6}"
                      f"{'of copy':>9}{'TFLOP/s':>9}{'least':>7}{'aim':>6}  verdict"]  # fmt: skip
        for row in members:
            lines.append(format_row(row))
    means = group_means(rows)
    if means:
        lines += ["", f"{'groups, geometric mean of the speeds':<44}{'rows':>6}{'speed':>7}{'least':>7}{'aim':>6}"
                      f"  {'verdict':<9}slowest"]  # fmt: skip
        lines += [
            f"{mean.name:<44}{mean.rows:>6}{mean.speed:>7.2f}{mean.least:>7.2f}{mean.aim:>6.2f}"
            f"  {mean.verdict:<9}{mean.slowest}"
            for mean in means
        ]
    return "\n".join(lines)


def format_row(row: Row) -> str:
    """Format one line of the table; among several targets, it shows the one for speed."""
    ours, theirs = row.median(OURS), row.median(PEER) or row.median(EAGER)
    speed = row.speed() or row.speed(EAGER)
    rate = row.flops / (ours * 1e-6) / 1e12 if ours and row.flops else None
    target = next((each for each in row.targets if each.measure != OF_COPY), None)
    cells = (
        cell(ours, 11, 2), cell(row.expected, 11, 2), cell(theirs, 11, 2), cell(speed, 7, 2),
        percent(row.spread(OURS), 6), percent(row.of_copy, 9), cell(rate, 9, 1),
        cell(target.least if target else None, 7, 2), cell(target.aim if target else None, 6, 2),
    )  # fmt: skip
    line = f"{row.name:<44}{''.join(cells)}  {row.verdict}"
    parts = [f"{name} {value:.2f}" for name, value in row.breakdown.items()]
    if parts:
        line += f"\n{'':<6}{', '.join(parts)} us"
    others = [f"{name} {row.median(name):.2f} us" for name in row.times if name not in (OURS, PEER)]
    details = [*others, *(f"{name}: {value:.2f}" for name, value in row.facts.items())]
    if details:
        line += f"\n{'':<6}{'; '.join(details)}"
    return line + "".join(f"\n{'':<6}no time of {name}: {reason}" for name, reason in row.absent.items())


def cell(value: float | None, width: int, digits: int) -> str:
    """Format a number, or blanks."""
    return f"{'':>{width}}" if value is None else f"{value:>{width}.{digits}f}"


def percent(value: float | None, width: int) -> str:
    """Format a share, or blanks."""
    return f"{'':>{width}}" if value is None else f"{100 * value:>{width - 1}.0f}%"


def counted(rows: Sequence[Row]) -> Mapping[str, int]:
    """Count the rows by result; notes of rows that could not be measured count by their first words."""
    counts: dict[str, int] = {}
    for row in rows:
        verdict = row.verdict.partition(":")[0]
        counts[verdict] = counts.get(verdict, 0) + 1
    return counts
