"""Interleaved measurement of two commits on this machine: a worktree and many short processes each.

The suite of this checkout measures both, copied over each worktree's own, so that only triten differs. A
sample is the median of one process (`merging`). Samples of one turn are paired, in another order each turn.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ..interleaved import rotated
from ..refusal import RefusalError
from ..result_file import ROOT
from .merging import merged
from .results import Result, read_results

TURNS = 9


class GitError(RefusalError):
    """A commit could not be checked out or measured; the message says which and why."""


def measure_commits(
    base: str, new: str, *, suites: Sequence[str], rows: str = "", turns: int = TURNS
) -> tuple[Result, Result]:
    """Measure two commits with interleaved samples.

    Raises:
        GitError: if this is no checkout, a commit is not known, or one of them cannot be measured.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="triten-compare-")))
        sides = {
            name: stack.enter_context(checked_out(commit, folder / name))
            for name, commit in (("base", base), ("new", new))
        }
        results: dict[str, list[Result]] = {name: [] for name in sides}
        for turn in range(turns):
            for name in rotated(list(sides), turn):
                path = folder / f"{name}-{turn}.json"
                results[name].append(_measured(sides[name], path, suites, rows))
    pairing = uuid.uuid4().hex
    base_result, new_result = (
        merged(results[name], everywhere=True, pairing=pairing) for name in ("base", "new")
    )
    return base_result, new_result


@contextmanager
def checked_out(commit: str, folder: Path) -> Iterator[Path]:
    """Check out a commit at `folder`/triten with this checkout's `perf/`; remove the worktree afterwards.

    Raise GitError if it is not a commit.
    """
    known = _git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{commit}^{{commit}}")
    if known.returncode:
        raise GitError(f"{commit!r} is no commit of {ROOT}")
    tree = folder / "triten"
    made = _git("worktree", "add", "--detach", "--quiet", str(tree), known.stdout.strip())
    if made.returncode:
        raise GitError(f"no worktree of {commit!r}: {made.stderr.strip()}")
    try:
        shutil.rmtree(tree / "perf", ignore_errors=True)
        shutil.copytree(ROOT / "perf", tree / "perf", ignore=shutil.ignore_patterns("__pycache__", "results"))
        yield folder
    finally:
        _git("worktree", "remove", "--force", str(tree))


def _git(*arguments: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True)
    except FileNotFoundError:
        raise GitError("git is not installed") from None


def _measured(folder: Path, path: Path, suites: Sequence[str], rows: str) -> Result:
    command = [
        sys.executable, "-P", "-m", "triten.perf", "run", "--quick", "--processes", "1", "--peers", "--suite", *suites,
        "--rows", rows, "-o", str(path),
    ]  # fmt: skip
    # Before its modules moved to `triten`, the root was the package.
    tree = folder / "triten"
    environment = os.environ | {"PYTHONPATH": str(tree if (tree / "triten").is_dir() else folder)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=path.parent)
    # Status 1: a call failed, of which its row says so; the others are there.
    if done.returncode not in (0, 1) or not path.exists():
        raise GitError(f"the run of {folder.name} failed: {' '.join(done.stderr.strip().splitlines()[-1:])}")
    return read_results(path)
