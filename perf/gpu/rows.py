"""One measured line: raw times, medians, spread, and whether its target is met."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from .targets import MICROSECONDS, OF_EAGER, RATIO, Target, target_of

OURS, PEER, EAGER = "triten", "torch", "eager"
NOT_BUILT = "not built"


@dataclass
class Row:
    """What was measured of one workload. Times are microseconds, one for each round, by who was timed.

    `nbytes` and `flops` are what the workload must move and compute, 0 where that says nothing.
    """

    group: str
    name: str
    nbytes: int = 0
    flops: int = 0
    times: dict[str, list[float]] = field(default_factory=dict)
    breakdown: dict[str, float] = field(default_factory=dict)
    note: str = ""

    def median(self, who: str) -> float | None:
        """The median time of one rival; None where it was not timed."""
        times = self.times.get(who)
        return statistics.median(times) if times else None

    def spread(self, who: str) -> float | None:
        """The interquartile range over the median."""
        times = self.times.get(who)
        if not times or len(times) < 4:
            return None
        low, _, high = statistics.quantiles(times, n=4)
        return (high - low) / statistics.median(times)

    def ratio(self, yardstick: str = PEER) -> float | None:
        """triten's median over another's."""
        ours, theirs = self.median(OURS), self.median(yardstick)
        return None if ours is None or not theirs else ours / theirs

    @property
    def target(self) -> Target | None:
        """What would be good."""
        return target_of(self.group, self.name)

    def reached(self) -> float | None:
        """The value that the target bounds."""
        measures = {
            RATIO: self.ratio(PEER),
            OF_EAGER: self.ratio(EAGER),
            MICROSECONDS: self.median(OURS),
        }
        return None if self.target is None else measures[self.target.measure]

    @property
    def verdict(self) -> str:
        """`met`, `aim met`, `MISSED`, or why there is none."""
        if self.note:
            return self.note
        target, value = self.target, self.reached()
        if target is None:
            return "no target set"
        if value is None:
            return f"no {target.measure}"
        return "aim met" if value <= target.aim else "met" if value <= target.least else "MISSED"

    def as_json(self) -> dict[str, Any]:
        """The row with its raw times and what follows from them."""
        target = self.target
        return asdict(self) | {
            "medians": {who: self.median(who) for who in self.times},
            "spreads": {who: self.spread(who) for who in self.times},
            "ratio": self.ratio(),
            "target": None if target is None else target._asdict(),
            "verdict": self.verdict,
        }


def format_rows(rows: Sequence[Row], copy_bandwidth: float | None) -> str:
    """The rows as text: times, spread, ratio, share of the copy's bandwidth, rate, target, verdict.

    `copy_bandwidth` is what a device-to-device copy moved in the same run, bytes read and written in a second.
    """
    lines: list[str] = []
    for group, members in itertools.groupby(rows, key=lambda row: row.group):
        lines += ["", f"{group:<44}{'triten us':>11}{'torch us':>11}{'ratio':>7}{'iqr':>6}{'of copy':>9}"
                      f"{'TFLOP/s':>9}{'least':>7}{'aim':>6}  verdict"]  # fmt: skip
        for row in members:
            lines.append(format_row(row, copy_bandwidth))
    return "\n".join(lines)


def format_row(row: Row, copy_bandwidth: float | None) -> str:
    """One line of the table."""
    ours, theirs = row.median(OURS), row.median(PEER) or row.median(EAGER)
    ratio = row.ratio() or row.ratio(EAGER)
    share = row.nbytes / (ours * 1e-6) / copy_bandwidth if ours and row.nbytes and copy_bandwidth else None
    rate = row.flops / (ours * 1e-6) / 1e12 if ours and row.flops else None
    target = row.target
    cells = (
        cell(ours, 11, 2), cell(theirs, 11, 2), cell(ratio, 7, 2), percent(row.spread(OURS), 6), percent(share, 9),
        cell(rate, 9, 1), cell(target.least if target else None, 7, 2), cell(target.aim if target else None, 6, 2),
    )  # fmt: skip
    line = f"{row.name:<44}{''.join(cells)}  {row.verdict}"
    parts = [f"{name} {value:.2f}" for name, value in row.breakdown.items()]
    return line if not parts else f"{line}\n{'':<6}{', '.join(parts)} us"


def cell(value: float | None, width: int, digits: int) -> str:
    """A number, or blanks."""
    return f"{'':>{width}}" if value is None else f"{value:>{width}.{digits}f}"


def percent(value: float | None, width: int) -> str:
    """A share, or blanks."""
    return f"{'':>{width}}" if value is None else f"{100 * value:>{width - 1}.0f}%"


def counted(rows: Sequence[Row]) -> Mapping[str, int]:
    """How many rows have each verdict; notes of rows that could not be measured count by their first words."""
    counts: dict[str, int] = {}
    for row in rows:
        verdict = row.verdict.partition(":")[0]
        counts[verdict] = counts.get(verdict, 0) + 1
    return counts
