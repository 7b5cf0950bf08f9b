"""Change points of all series of a store, with the commits that they point to."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..refusal import RefusalError
from ..result_file import ROOT
from ..suite.display import number
from .change_points import MIN_SHIFT, SIGNIFICANCE, ChangePoint, find_change_points
from .series import Series, SeriesKey, changed_versions
from .store import Run

MAX_COMMITS = 10_000


@dataclass(frozen=True)
class Change:
    """Shift of one series.

    Attributes:
        before: Level before the shift, in seconds or as a ratio to the baseline.
        good: Last run that surely has the level before.
        bad: First run that surely has the level after. The cause is a commit after `good`, up to `bad`.
        versions: Other libraries whose versions differ between both runs.
        points: Number of values of the series.
    """

    key: SeriesKey
    shift: ChangePoint
    before: float
    good: Run
    bad: Run
    versions: list[str]
    points: int

    @property
    def commits(self) -> str:
        """Range of the commits, as git takes it: `good..bad`."""
        return f"{self.good.commit}..{self.bad.commit}"

    def as_json(self) -> dict[str, Any]:
        """Return the change as `history changes --output json` prints it."""
        return {
            "machine": self.key.machine, "threads": self.key.threads, **self.key.row._asdict(),
            "ratio": self.shift.ratio, "p_value": self.shift.p_value, "noise": self.shift.noise, "before": self.before,
            "after": self.before * self.shift.ratio, "commits": self.commits, "good": self.good.commit,
            "bad": self.bad.commit, "versions": self.versions, "points": self.points,
        }  # fmt: skip


def find_changes(
    series: Sequence[Series], *, significance: float = SIGNIFICANCE, least_shift: float = MIN_SHIFT
) -> list[Change]:
    """Return the change points of all series, the largest first. The significance holds for all together."""
    changes = []
    for each in series:
        shifts = find_change_points(
            each.values, each.commits, series=len(series), significance=significance, least_shift=least_shift
        )
        starts = [0, *(shift.index for shift in shifts)]
        for start, shift in zip(starts, shifts, strict=False):
            before = sorted(each.values[start : shift.index])
            good, bad = each.points[shift.first - 1].run, each.points[shift.last].run
            changes.append(
                Change(
                    each.key, shift, before[len(before) // 2], good, bad,
                    changed_versions(good.versions, bad.versions), len(each.points),
                )
            )  # fmt: skip
    return sorted(changes, key=lambda change: -max(change.shift.ratio, 1 / change.shift.ratio))


def format_changes(changes: Sequence[Change], series: Sequence[Series], significance: float) -> str:
    """Format the changes as text: a line each, then the number of tested series."""
    lines = []
    for each in changes:
        kind = "slower" if each.shift.ratio > 1 else "faster"
        lines.append(
            f"{each.key.row!s:<72} {each.shift.ratio:>6.3f}  {kind} (noise {each.shift.noise:.1%}, "
            f"p {number(each.shift.p_value) if each.shift.p_value >= 1e-6 else '< 1e-6'}), {each.key.machine}"
        )
        lines.append(f"    {each.good.label}..{each.bad.label}")
        if each.versions:
            lines.append(f"    versions differ too: {', '.join(each.versions)}")
    tested = sum(len(each.points) >= 6 for each in series)
    lines.append(
        f"{len(changes)} change points in {tested} series of at least 6 runs; without a change, none is reported with "
        f"a probability of {1 - significance:.0%}"
    )
    return "\n".join(lines)


def branch_commits(branch: str) -> list[str]:
    """Return the first-parent commits of a branch of this checkout, the oldest first.

    Raises:
        RefusalError: if there is no such branch, or this is no checkout.
    """
    command = [
        "git",
        "-C",
        str(ROOT),
        "rev-list",
        "--first-parent",
        f"--max-count={MAX_COMMITS}",
        "--end-of-options",
    ]
    try:
        done = subprocess.run([*command, branch, "--"], capture_output=True, text=True)
    except FileNotFoundError:
        raise RefusalError("git is not installed") from None
    if done.returncode:
        raise RefusalError(
            f"{branch!r} is no branch or commit of {ROOT}: {' '.join(done.stderr.split())[:200]}"
        )
    return done.stdout.split()[::-1]
