"""Both sides of a gate: measured commits, result files, or runs of a store."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ..history import History, HistoryError
from ..history.changes import branch_commits
from ..history.series import last_comparable, last_result
from ..refusal import RefusalError, require_positive
from ..result_file import ROOT
from ..suite.compare import compare_results
from ..suite.git_runs import measure_commits
from ..suite.processes import rows_pattern
from ..suite.results import Result, read_results
from ..suite.run import chosen
from ..suite.workload import Scale

DEFAULT_SUITES = ("overhead",)


def both_sides(arguments: argparse.Namespace) -> tuple[Result, Result]:
    """Return the baseline and the new result that the options name. Raises RefusalError."""
    require_positive(arguments, "turns")
    if arguments.history is not None:
        return _from_history(arguments)
    if arguments.baseline is None:
        raise RefusalError("name a baseline: --baseline BRANCH, --baseline RESULT.json or --history FILE")
    path = Path(arguments.baseline)
    if path.is_file() or path.suffix == ".json":
        base = read_results(path)
        return base, read_results(arguments.new) if arguments.new else _measured_like(base, arguments)
    if arguments.new:
        raise RefusalError(
            f"--new is a result file, so --baseline must be one too, not the branch {arguments.baseline!r}; "
            "--history finds a run of a branch"
        )
    return _measured_commits(arguments)


def _from_history(arguments: argparse.Namespace) -> tuple[Result, Result]:
    commits = None if arguments.baseline is None else branch_commits(arguments.baseline)
    with History(arguments.history) as history:
        new = read_results(arguments.new) if arguments.new else last_result(history)[1]
        for _, base in last_comparable(history, new, commits=commits):
            if not base.by_key.keys().isdisjoint(new.by_key):
                return base, new
    branch = f" of {arguments.baseline}" if arguments.baseline is not None else ""
    raise HistoryError(
        f"{arguments.history}: no run{branch} is comparable: another commit on the same machine, with the same "
        "device, threads and benchmarks"
    )


def _measured_commits(arguments: argparse.Namespace) -> tuple[Result, Result]:
    """Measure HEAD and its merge base with the branch, interleaved."""
    suites = arguments.suite or list(DEFAULT_SUITES)
    chosen(suites, arguments.rows, Scale(quick=True))
    base, head = merge_base(arguments.baseline), _git("rev-parse", "HEAD").stdout.strip()
    if base == head:
        raise RefusalError(
            f"HEAD has no commit that {arguments.baseline!r} lacks; name an older commit, such as --baseline HEAD~1"
        )
    if _git("status", "--porcelain", "--untracked-files=no").stdout:
        print("gate: the working tree differs from HEAD: its changes are not measured", file=sys.stderr)

    def measure(rows: str) -> tuple[Result, Result]:
        sides = measure_commits(base, head, suites=suites, rows=rows, turns=arguments.turns)
        for side in sides:
            # The worktree had the `perf/` of this checkout; all that it measured was the commit's.
            side.commit = {**(side.commit or {}), "dirty": False} if side.commit else None
        return sides

    return confirmed(*measure(arguments.rows), measure, arguments.tolerance, arguments.relative_to)


def confirmed(
    base: Result,
    new: Result,
    measure: Callable[[str], tuple[Result, Result]],
    tolerance: float,
    relative_to: str = "",
) -> tuple[Result, Result]:
    """Measure slower rows again, and replace their samples by the second ones, which alone decide.

    Among many rows, one may be slower by chance; that it is slower twice is far less likely.

    Args:
        measure: Function from an expression of rows to both sides.
    """
    compared = compare_results(
        base, new, threshold=tolerance, confidence=new.confidence, relative_to=relative_to
    )
    slower = [new.by_key[each.key] for each in compared if each.is_regression]
    if not slower:
        return base, new
    print(f"gate: {len(slower)} benchmarks are slower; they are measured again", file=sys.stderr)
    again = measure(rows_pattern(slower))
    return _with_rows_of(base, again[0]), _with_rows_of(new, again[1])


def _with_rows_of(result: Result, other: Result) -> Result:
    rows = other.by_key
    return replace(result, rows=[rows.get(row.key, row) for row in result.rows])


def merge_base(branch: str) -> str:
    """Return the last commit that HEAD and a branch share. Raise RefusalError if there is none."""
    known = _git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{branch}^{{commit}}")
    if known.returncode:
        raise RefusalError(
            f"{branch!r} is neither a branch or commit of {ROOT} nor a result file; a shallow clone has no other "
            "branch (fetch-depth: 0 of actions/checkout)"
        )
    result = _git("merge-base", known.stdout.strip(), "HEAD")
    if result.returncode:
        raise RefusalError(
            f"HEAD and {branch!r} have no common commit in this clone: fetch its whole history"
        )
    return result.stdout.strip()


def _measured_like(base: Result, arguments: argparse.Namespace) -> Result:
    """Run the suites of a baseline with its settings."""
    suites = arguments.suite or list(dict.fromkeys(row.suite for row in base.rows))
    settings = base.settings
    command = [
        "run", "--suite", *suites, "--rows", arguments.rows, "--peers", "--device", str(settings.get("device", "cpu")),
        "--processes", str(settings.get("processes", 1)), "--threads", str(settings.get("threads", 1)),
        *(["--quick"] if settings.get("quick") else []), *(["--graph"] if settings.get("graph") else []),
    ]  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="triten-gate-") as folder:
        path = Path(folder) / "new.json"
        done = subprocess.run(
            [sys.executable, "-P", "-m", "triten.perf", *command, "-o", str(path)], stdout=subprocess.DEVNULL
        )
        # Status 1: a row is wrong or failed, which the decision reports.
        if done.returncode not in (0, 1) or not path.exists():
            raise RefusalError(f"the run for {arguments.baseline} ended with status {done.returncode}")
        return read_results(path)


def _git(*arguments: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True)
    except FileNotFoundError:
        raise RefusalError("git is not installed") from None
