"""Compare two result files, or two commits, benchmark by benchmark: faster, slower or not distinguishable.

A ratio is triten's time in NEW over its time in BASE. It is a trimmed mean of logarithms with a confidence
interval. If the samples of both files were interleaved (`--git`), the ratios are paired; otherwise the two
sides are independent (Yuen's test).

The interval reflects the spread of the samples. A run with several processes includes the variation between
processes. A single process does not, so `--threshold` allows for it. `--relative-to BASELINE` compares triten's
time over the baseline's of the same round instead, which cancels a slower machine.

A benchmark is slower or faster only if its interval does not contain 1, else it is "not distinguishable". The
confidence holds for all benchmarks together: if nothing differs, it is the probability that none is reported.
More benchmarks widen each interval (Bonferroni).

Exit status 1: a benchmark is slower by more than the threshold; 2: a file is no result, or the files have no
benchmark in common.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..refusal import require_positive, require_writable_folder
from .confidence import Interval, trimmed_paired_interval, trimmed_ratio_interval
from .display import number
from .git_runs import TURNS, GitError, measure_commits
from .results import CONFIDENCE, MET, MISSED, OURS, Result, ResultFileError, Row, RowKey, read_results
from .run import chosen
from .workload import Scale

THRESHOLD = 0.05
SAME, SLOWER, FASTER, UNKNOWN = "not distinguishable", "slower", "faster", "too few samples"


@dataclass(frozen=True)
class Comparison:
    """One row of both files: its ratio, below 1 if NEW is faster, and what that says."""

    key: RowKey
    base_seconds: float
    new_seconds: float
    ratio: Interval
    threshold: float

    @property
    def verdict(self) -> str:
        """Slower or faster only where the interval does not contain 1."""
        if self.ratio.low is None:
            return UNKNOWN
        if self.ratio.contains(1.0):
            return SAME
        return SLOWER if self.ratio.estimate > 1 else FASTER

    @property
    def is_regression(self) -> bool:
        """True if the row is slower by more than the threshold."""
        return self.verdict == SLOWER and self.ratio.estimate > 1 + self.threshold


def compare_results(
    base: Result,
    new: Result,
    *,
    threshold: float = THRESHOLD,
    confidence: float = CONFIDENCE,
    compared: int | None = None,
    relative_to: str = "",
) -> list[Comparison]:
    """Compare the rows that both results have, in the order of `new`. Rows not timed on both sides are left
    out.

    Args:
        threshold: Relative slowdown that is tolerated.
        confidence: Confidence of all rows together.
        compared: Number of rows that these were chosen from. Default: the number of these rows.
        relative_to: Baseline whose time, of the same round, divides both first.

    Example:
        >>> from triten.perf.suite.compare import compare_results
        >>> from triten.perf.suite.results import Result, Row
        >>> def of(*seconds):
        ...     row = Row("s", "add", "a + b", "1", "float32", "cpu", samples={"triten": list(seconds)})
        ...     return Result({}, {}, {}, rows=[row])
        >>> [found] = compare_results(of(1, 1.1, 1, 1.2, 1, 1.1), of(2, 2.1, 2.2, 2, 2.1, 2))
        >>> found.verdict, found.is_regression
        ('slower', True)
    """
    in_turn = base.pairing is not None and base.pairing == new.pairing
    earlier = base.by_key
    pairs = []
    for row in new.rows:
        before = earlier.get(row.key)
        if before is None:
            continue
        old, now = _times(before, relative_to), _times(row, relative_to)
        if old and now:
            pairs.append((before, row, old, now))
    of_each = 1 - (1 - confidence) / max(compared or 0, len(pairs), 1)
    comparisons = []
    for before, row, old, now in pairs:
        paired = in_turn and len(old) == len(now)
        interval = (trimmed_paired_interval if paired else trimmed_ratio_interval)(now, old, of_each)
        summaries = before.summary(), row.summary()
        assert summaries[0] is not None and summaries[1] is not None
        comparisons.append(Comparison(row.key, summaries[0].median, summaries[1].median, interval, threshold))
    return comparisons


def contradictions(base: Result, new: Result) -> list[RowKey]:
    """Rows that one file says meet their bar for sure, and the other that they miss it for sure.

    Example:
        >>> from triten.perf.suite.compare import contradictions
        >>> from triten.perf.suite.results import Bar, Result, Row
        >>> def of(seconds):
        ...     samples = {"triten": [seconds] * 7}
        ...     row = Row("s", "add", "a + b", "1", "float32", "cpu", samples=samples, bar=Bar(None, 2.0))
        ...     return Result({}, {}, {}, rows=[row])
        >>> len(contradictions(of(1.0), of(1.5))), len(contradictions(of(1.0), of(3.0)))
        (0, 1)
    """
    earlier = base.by_key
    return [
        row.key
        for row in new.rows
        if row.key in earlier
        and {earlier[row.key].verdict_at(base.confidence), row.verdict_at(new.confidence)} == {MET, MISSED}
    ]


def _times(row: Row, relative_to: str) -> list[float]:
    ours = row.samples.get(OURS, [])
    if not relative_to:
        return ours
    theirs = row.samples.get(relative_to, [])
    return [our / their for our, their in zip(ours, theirs, strict=True)] if theirs else []


def format_comparisons(comparisons: Sequence[Comparison], base: Result, new: Result) -> str:
    """Format the rows as text, the slowest first, then the count of each kind and the geometric mean."""
    lines = [f"{'benchmark':<84}{'base us':>12}{'new us':>12}{'ratio':>8}{'interval':>16}  result"]
    for each in sorted(comparisons, key=lambda each: -each.ratio.estimate):
        low, high = each.ratio.low, each.ratio.high
        interval = "" if low is None or high is None else f"[{low:.2f}, {high:.2f}]"
        past = f", by more than {each.threshold:.0%}" if each.is_regression else ""
        lines.append(
            f"{each.key!s:<84.84}{number(each.base_seconds * 1e6):>12}{number(each.new_seconds * 1e6):>12}"
            f"{each.ratio.estimate:>8.2f}{interval:>16}  {each.verdict}{past}"
        )
    counts = {
        kind: sum(each.verdict == kind for each in comparisons) for kind in (SLOWER, FASTER, SAME, UNKNOWN)
    }
    mean = math.exp(math.fsum(math.log(each.ratio.estimate) for each in comparisons) / len(comparisons))
    summary = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
    lines += ["", f"{len(comparisons)} benchmarks: {summary}; geometric mean of the ratios {mean:.3f}"]
    lines.append(
        f"where nothing differs, no benchmark is told apart with a probability of {new.confidence:.0%}"
    )
    against = contradictions(base, new)
    barred = sum(row.bar is not None and row.key in base.by_key for row in new.rows)
    if barred:
        named = f": {', '.join(map(str, against))}" if against else ""
        lines.append(
            f"of {barred} benchmarks with a target, {len(against)} changed from met to missed or back{named}"
        )
    for name, result, other in (("BASE", base, new), ("NEW", new, base)):
        alone = [key for key in result.by_key if key not in other.by_key]
        if alone:
            lines.append(f"only in {name}: {len(alone)} benchmarks, such as {alone[0]}")
    lines += comparison_doubts(base, new)
    return "\n".join(lines)


def comparison_doubts(base: Result, new: Result) -> list[str]:
    """Return reasons why a comparison of the two is less reliable."""
    doubts = [
        f"note: {name} differs: {base.machine.get(name)}, {new.machine.get(name)}"
        for name in ("host", "processor", "cores", "gpu", "python")
        if base.machine.get(name) != new.machine.get(name)
    ]
    if base.settings.get("threads") != new.settings.get("threads"):
        doubts.append(f"note: threads differ: {base.settings.get('threads')}, {new.settings.get('threads')}")
    if base.pairing is None or base.pairing != new.pairing:
        doubts += [
            f"note: {name} was measured in one process: what differs from process to process is in no interval"
            for name, result in (("BASE", base), ("NEW", new))
            if result.settings.get("processes", 1) == 1
        ]
    if base.rehearsal or new.rehearsal:
        doubts.append("note: a rehearsal's times say nothing")
    return doubts


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `python -m triten.perf compare`."""
    parser.add_argument(
        "files", nargs="*", type=Path, metavar="BASE NEW", help="two result files of `run -o`"
    )
    parser.add_argument(
        "--threshold", type=float, default=THRESHOLD, metavar="SHARE",
        help="slower by more than this gives exit status 1 (default %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--relative-to", default="", metavar="BASELINE", help="compare times over this baseline's"
    )
    git = parser.add_argument_group("two commits, measured in turn by the suite of this checkout")
    git.add_argument("--git", nargs=2, metavar=("A", "B"), help="anything that git takes for a commit")
    git.add_argument(
        "--suite", nargs="+", action="extend", metavar="NAME", help="as of `run`; default: overhead"
    )
    git.add_argument("--rows", default="", metavar="REGEX", help="as of `run`")
    git.add_argument(
        "--turns", type=int, default=TURNS,
        help="runs of each commit (default %(default)s); an interval takes six, of nine it leaves an outlier out",
    )  # fmt: skip
    git.add_argument("-o", "--output", type=Path, metavar="FOLDER", help="keep base.json and new.json there")


def run(arguments: argparse.Namespace) -> int:
    """Compare and print; return 1 if a benchmark is slower, else 0. Raise RefusalError for bad arguments."""
    base, new = _both(arguments)
    comparisons = compare_results(
        base,
        new,
        threshold=arguments.threshold,
        confidence=new.confidence,
        relative_to=arguments.relative_to,
    )
    if not comparisons:
        measured = f" that was timed beside {arguments.relative_to}" if arguments.relative_to else ""
        raise ResultFileError(f"the two results have no benchmark in common{measured}")
    print(format_comparisons(comparisons, base, new))
    return 1 if any(each.is_regression for each in comparisons) else 0


def _both(arguments: argparse.Namespace) -> tuple[Result, Result]:
    if not arguments.threshold >= 0:
        raise ResultFileError(f"--threshold must not be negative, got {arguments.threshold}")
    if arguments.git is not None:
        if arguments.files:
            raise ResultFileError("give two files or --git A B, not both")
        require_positive(arguments, "turns")
        suites = arguments.suite or ["overhead"]
        chosen(suites, arguments.rows, Scale(quick=True))
        if arguments.output is not None:
            require_writable_folder(arguments.output)
        base, new = measure_commits(*arguments.git, suites=suites, rows=arguments.rows, turns=arguments.turns)
        if arguments.output is not None:
            try:
                base.write(arguments.output / "base.json")
                new.write(arguments.output / "new.json")
            except OSError as error:
                raise GitError(f"cannot write into {arguments.output}: {error.strerror}") from None
        return base, new
    if len(arguments.files) != 2:
        raise ResultFileError(f"expected two result files, BASE and NEW, got {len(arguments.files)}")
    return read_results(arguments.files[0]), read_results(arguments.files[1])
