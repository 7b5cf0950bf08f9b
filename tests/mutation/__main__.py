"""`python -m triten.tests.mutation`: sample mutants, run the affected tests on each, and list those that survive."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from triten.tests.affected.changes import Change
from triten.tests.affected.selection import BUDGET, Selector
from triten.tests.affected.tree import Tree

from .areas import AREAS, draw, is_valid, mutants_in
from .copies import Copy
from .mutants import Mutant
from .tasks import TASKS, killed_by

BATCHES = (4, 12)
"""Test files of the first pytest processes; a process more costs less than the collection of all files."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; the exit status is 1 if an injected fault of a task survives."""
    parser = argparse.ArgumentParser(prog="python -m triten.tests.mutation", description=__doc__)
    parser.add_argument("-n", "--number", type=int, default=20, help="how many mutants")
    parser.add_argument("--seed", type=int, default=0, help="seed of the draw")
    parser.add_argument(
        "--area", action="append", choices=AREAS, help="draw from this part alone; may be repeated"
    )
    parser.add_argument(
        "--budget", type=float, default=BUDGET, help="CPU seconds of the tests of a mutant, at most"
    )
    parser.add_argument(
        "--at",
        action="append",
        default=[],
        metavar="PATH:LINE",
        help="take every mutant of this line; may be repeated",
    )
    parser.add_argument("--list", action="store_true", help="print the mutants and run nothing")
    parser.add_argument(
        "--tasks", action="store_true", help="plant the fault of each task of CONTRIBUTING.md instead"
    )
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        if options.tasks:
            copy = Copy(Path(folder))
            killers = {task: killed_by(copy, task) for task in TASKS}
            for task, killer in killers.items():
                print(
                    f"{'killed  ' if killer else 'SURVIVED'} {task.title}: {task.path}: {killer or task.tests}"
                )
            return int(not all(killers.values()))
        tree = Tree()
        mutants = [mutant for place in options.at for mutant in _at(tree, place)]
        if not options.at:
            mutants = draw(tree, options.number, options.seed, tuple(options.area or AREAS))
        if options.list:
            print(*mutants, sep="\n")
            return 0
        copy, selector = Copy(Path(folder)), Selector(tree)
        killed = 0
        for number, mutant in enumerate(mutants, 1):
            killer, seconds = _try(copy, selector, mutant, options.budget)
            killed += killer is not None
            state = "killed  " if killer else "SURVIVED"
            print(f"{number:3} {state} {seconds:4.0f} s {mutant}   {killer or ''}", flush=True)
        print(f"{killed} of {len(mutants)} mutants killed ({100 * killed / max(len(mutants), 1):.0f} %)")
    return 0


def _at(tree: Tree, place: str) -> list[Mutant]:
    """Return the mutants of a line, given as ``path:line``."""
    path, _, line = place.rpartition(":")
    text = (tree.root / path).read_text(encoding="utf-8")
    return [each for each in mutants_in(path, text) if each.line == int(line) and is_valid(each, text)]


def _try(copy: Copy, selector: Selector, mutant: Mutant, budget: float) -> tuple[str | None, float]:
    """Return the test that kills a mutant and passes without it, or None, and the CPU seconds of the tests."""
    selection = selector.select([Change(mutant.path, (mutant.line,))], budget)
    text = (copy.root / mutant.path).read_text(encoding="utf-8")
    files, seconds, start = list(selection.files), 0.0, 0
    names = f"--affected-names={','.join(selection.names)}"
    for size in (*BATCHES, len(files)):
        batch = files[start : start + size]
        start += size
        while batch:
            with copy.fault(mutant.path, mutant.apply(text)):
                outcome = copy.run(batch, names, cpu_seconds=4 * budget)
            seconds += outcome.seconds
            if outcome.failed is None:
                break
            node = outcome.failed.partition("[")[0]
            if "::" not in node or copy.run([node]).failed is None:
                return outcome.failed, seconds
            # The test fails without the mutant, too: it says nothing.
            batch = [each for each in batch if each != node.partition("::")[0]]
    return None, seconds


if __name__ == "__main__":
    sys.exit(main())
