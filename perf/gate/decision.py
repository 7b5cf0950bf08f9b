"""Decision of the gate: the kind of each row, and the exit status that the policy gives.

| Kind | Condition | Status |
|---|---|---|
| broken | the baseline was timed, but the new result is wrong or its call fails | 1 |
| slower | the interval excludes 1, and the ratio exceeds 1 + tolerance | 1 |
| inconclusive | the interval contains 1 + tolerance or more, or there is none | 2 with `strict`, else 0 |
| faster | the interval lies below 1 | 0 |
| unchanged | a slowdown by more than the tolerance is excluded | 0 |

Two results of one clean commit differ by noise alone: their rows are all `unchanged`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..history.series import changed_versions
from ..suite.compare import FASTER, Comparison, compare_results, comparison_doubts
from ..suite.results import Result, ResultFileError, RowKey

FORMAT, VERSION = "triten.perf.gate", 1
BROKEN, SLOWER, INCONCLUSIVE, QUICKER, UNCHANGED = "broken", "slower", "inconclusive", "faster", "unchanged"
KINDS = (BROKEN, SLOWER, INCONCLUSIVE, QUICKER, UNCHANGED)
PASSED, FAILED, UNDECIDED = 0, 1, 2
_FAILURES = ("WRONG", "FAILED in triten", "FAILED while")


@dataclass(frozen=True)
class JudgedRow:
    """A row that both results have, and its kind."""

    comparison: Comparison
    kind: str

    def as_json(self) -> dict[str, Any]:
        """Return the row as `--output json` prints it."""
        each = self.comparison
        return {
            **each.key._asdict(), "kind": self.kind, "base_seconds": each.base_seconds, "new_seconds": each.new_seconds,
            "ratio": each.ratio.estimate, "low": each.ratio.low, "high": each.ratio.high,
        }  # fmt: skip


@dataclass(frozen=True)
class Decision:
    """Result of the gate.

    `broken` has the notes of rows that no longer work. `only_base` and `only_new` are rows of one side, such as
    renamed ones.
    """

    base: Result
    new: Result
    tolerance: float
    strict: bool
    rows: Sequence[JudgedRow]
    broken: dict[RowKey, str]
    only_base: Sequence[RowKey]
    only_new: Sequence[RowKey]
    notes: Sequence[str]

    @property
    def counts(self) -> dict[str, int]:
        """Number of rows of each kind."""
        counter = Counter(row.kind for row in self.rows) + Counter({BROKEN: len(self.broken)})
        return {kind: counter[kind] for kind in KINDS if counter[kind]}

    @property
    def mean(self) -> float | None:
        """Geometric mean of the ratios; None without a row."""
        logarithms = [math.log(row.comparison.ratio.estimate) for row in self.rows]
        return math.exp(math.fsum(logarithms) / len(logarithms)) if logarithms else None

    @property
    def status(self) -> int:
        """Exit status by the policy."""
        counts = self.counts
        if counts.get(BROKEN) or counts.get(SLOWER):
            return FAILED
        return UNDECIDED if self.strict and counts.get(INCONCLUSIVE) else PASSED

    @property
    def outcome(self) -> str:
        """The status in a word: passed, failed or inconclusive."""
        return {PASSED: "passed", FAILED: "failed", UNDECIDED: "inconclusive"}[self.status]

    def as_json(self) -> dict[str, Any]:
        """Return the object that `--output json` prints."""
        return {
            "format": FORMAT, "version": VERSION, "status": self.status, "outcome": self.outcome,
            "tolerance": self.tolerance, "strict": self.strict, "confidence": self.new.confidence,
            "base": _head(self.base), "new": _head(self.new), "counts": self.counts, "mean": self.mean,
            "rows": [row.as_json() for row in self.rows],
            "broken": [key._asdict() | {"note": note} for key, note in self.broken.items()],
            "only_base": [key._asdict() for key in self.only_base],
            "only_new": [key._asdict() for key in self.only_new], "notes": list(self.notes),
        }  # fmt: skip


def decide(
    base: Result, new: Result, *, tolerance: float, strict: bool = False, relative_to: str = ""
) -> Decision:
    """Compare the rows that both results have, and decide.

    Args:
        tolerance: Relative slowdown that is accepted.
        strict: If True, inconclusive rows give status 2. Default: False.
        relative_to: Baseline whose time, of the same round, divides triten's. Default: seconds.

    Raises:
        ResultFileError: if the results have no timed row in common.

    Example:
        >>> from triten.perf.gate.decision import decide
        >>> from triten.perf.suite.results import Result, Row
        >>> def of(*seconds):
        ...     row = Row("s", "add", "a + b", "1", "float32", "cpu", samples={"triten": list(seconds)})
        ...     return Result({}, {}, {}, rows=[row])
        >>> found = decide(of(1, 1.1, 1, 1.2, 1, 1.1), of(2, 2.1, 2.2, 2, 2.1, 2), tolerance=0.05)
        >>> found.status, found.counts
        (1, {'slower': 1})
    """
    compared = compare_results(
        base, new, threshold=tolerance, confidence=new.confidence, relative_to=relative_to
    )
    before = base.by_key
    broken = {
        row.key: row.note
        for row in new.rows
        if row.note.startswith(_FAILURES) and row.key in before and before[row.key].summary() is not None
    }
    if not compared and not broken:
        measured = f" that was timed beside {relative_to}" if relative_to else ""
        raise ResultFileError(f"the baseline and the new result have no benchmark in common{measured}")
    same = same_commit(base, new)
    rows = [
        JudgedRow(each, UNCHANGED if same else _kind(each)) for each in compared if each.key not in broken
    ]
    notes = [doubt.removeprefix("note: ") for doubt in comparison_doubts(base, new)]
    if same:
        notes.insert(0, "both results are of one commit: all differences are noise")
    versions = changed_versions(base.versions, new.versions)
    if versions:
        notes.append(f"versions differ: {', '.join(versions)}")
    return Decision(
        base, new, tolerance, strict, sorted(rows, key=lambda row: -row.comparison.ratio.estimate), broken,
        [key for key in before if key not in new.by_key], [key for key in new.by_key if key not in before], notes,
    )  # fmt: skip


def same_commit(base: Result, new: Result) -> bool:
    """Return True if both results are of one commit from which no file differed."""
    return (
        base.commit is not None
        and new.commit is not None
        and base.commit["hash"] == new.commit["hash"]
        and not base.commit.get("dirty")
        and not new.commit.get("dirty")
    )


def label(result: Result) -> str:
    """Return the first nine digits of a result's commit, with a plus if files differed from it."""
    commit = result.commit or {}
    if not commit:
        return f"run of {result.started}"
    return str(commit["hash"])[:9] + ("+" if commit.get("dirty") else "")


def _kind(each: Comparison) -> str:
    if each.is_regression:
        return SLOWER
    if each.ratio.high is None or each.ratio.high >= 1 + each.threshold:
        return INCONCLUSIVE
    return QUICKER if each.verdict == FASTER else UNCHANGED


def _head(result: Result) -> dict[str, Any]:
    copied = ("commit", "started", "machine", "versions")
    return {"label": label(result), **{name: getattr(result, name) for name in copied}}
