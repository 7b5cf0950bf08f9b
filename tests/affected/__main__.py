"""`python -m triten.tests.affected`: run the tests that a change can reach, the most relevant first."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence

from .changes import Change, changes_since
from .selection import BUDGET, HERE, Selection, Selector, quick_files
from .tree import ROOT, Tree


def main(arguments: Sequence[str] | None = None) -> int:
    """Select and run; the exit status is pytest's."""
    parser = argparse.ArgumentParser(prog="python -m triten.tests.affected", description=__doc__)
    parser.add_argument("--base", help="compare with the merge base of HEAD and this commit; by default main")
    parser.add_argument(
        "--change",
        action="append",
        default=[],
        metavar="PATH[:LINE]",
        help="take this file as changed and ask Git for nothing; may be repeated",
    )
    parser.add_argument("--budget", type=float, default=BUDGET, metavar="SECONDS", help="CPU time at most")
    parser.add_argument("--list", action="store_true", help="print the files and run nothing")
    parser.add_argument(
        "--quick", action="store_true", help="run the representative tests of quick.txt instead"
    )
    parser.add_argument(
        "--measure", action="store_true", help="update costs.json with the CPU seconds of the files that run"
    )
    parser.add_argument("-n", "--workers", default="2", help="processes of pytest-xdist; 0 for this process")
    parser.add_argument("pytest", nargs="*", help="further arguments of pytest, after --")
    options = parser.parse_args(arguments)
    if options.quick:
        files, names = quick_files(), ()
    else:
        changes = [_change(each) for each in options.change] or changes_since(ROOT, options.base)
        selection = Selector(Tree()).select(changes, options.budget)
        _report(changes, selection)
        files, names = selection.files, selection.names
    if options.list or not files:
        print("\n".join(files))
        return 0
    command = [sys.executable, "-P", "-m", "pytest", "-q", *files]
    if options.measure:
        command += ["-n", "0", "--measure-to", str(HERE / "costs.json")]
    else:
        command += ["-n", options.workers]
    if names and not options.measure:
        command += ["--affected-names", ",".join(names)]
    started = time.monotonic()
    status = subprocess.run([*command, *options.pytest], cwd=ROOT).returncode
    spent = sum(os.times()[2:4])
    print(
        f"{time.monotonic() - started:.0f} s, {spent:.0f} s of CPU time: {spent / 2:.0f} s on two free cores"
    )
    return status


def _change(text: str) -> Change:
    path, _, line = text.partition(":")
    count = (ROOT / path).read_bytes().count(b"\n")
    return Change(path, (int(line),) if line else tuple(range(1, count + 1)))


def _report(changes: Sequence[Change], selection: Selection) -> None:
    print(f"{len(changes)} changed files reach {len(selection.files) + selection.left_out} test files")
    if selection.core:
        print("most of the package depends on one of them: the representative tests of quick.txt run too")
    if selection.left_out:
        print(f"{selection.left_out} less relevant files are left out; --budget SECONDS admits more")
    print(f"{len(selection.files)} files selected, about {selection.seconds:.0f} s of CPU time")


if __name__ == "__main__":
    sys.exit(main())
