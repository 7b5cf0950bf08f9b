"""Both sides of a gate: measured commits, result files, or runs of a store."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from ..history import History, HistoryError
from ..history.changes import branch_commits
from ..history.series import last_comparable, last_result
from ..refusal import RefusalError, require_positive
from ..result_file import ROOT
from ..suite.git_runs import measure_commits
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
        "device, threads and rows"
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
    return measure_commits(base, head, suites=suites, rows=arguments.rows, turns=arguments.turns)


def merge_base(branch: str) -> str:
    """Return the last commit that HEAD and a branch share. Raise RefusalError if there is none."""
    known = _git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{branch}^{{commit}}")
    if known.returncode:
        raise RefusalError(
            f"{branch!r} is neither a branch or commit of {ROOT} nor a result file; a shallow clone has no other "
            "branch (fetch-depth: 0 of actions/checkout)"
        )
    found = _git("merge-base", known.stdout.strip(), "HEAD")
    if found.returncode:
        raise RefusalError(
            f"HEAD and {branch!r} have no common commit in this clone: fetch its whole history"
        )
    return found.stdout.strip()


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
