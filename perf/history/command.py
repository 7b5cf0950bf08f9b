"""Keep the runs of `run` in one SQLite file, and find the commits at which benchmarks became slower or faster.

A result file is added once, however often it is given. Exit status 1: `changes` found a slowdown and
`--fail` was given; 2: a file is no result, or the store cannot be used.
"""

from __future__ import annotations

import argparse
import csv
import json
import sqlite3
import sys
from pathlib import Path

from ..refusal import RefusalError, expression, require_writable_folder
from ..suite.results import ResultFileError, read_results
from .change_points import MIN_SHIFT, SIGNIFICANCE
from .changes import branch_commits, find_changes, format_changes
from .exporting import export_runs
from .series import read_series
from .store import History, HistoryError, Name

DEFAULT_STORE = Path("perf-history.sqlite")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions of `python -m triten.perf history`."""
    actions = parser.add_subparsers(dest="action", required=True)
    add = actions.add_parser("add", help="add result files; what is there already is left as it is")
    add.add_argument("files", nargs="+", type=Path, metavar="RESULT.json")
    listed = actions.add_parser("list", help="print the runs, the oldest commit first")
    listed.add_argument(
        "--every-state", action="store_true", help="also partial states that a later one replaced"
    )
    listed.add_argument("--output", choices=("text", "json"), default="text")
    export = actions.add_parser(
        "export", help="write the runs back as result files, or all times as one table of CSV"
    )
    export.add_argument(
        "target", type=Path, metavar="FOLDER|FILE.csv", help="folder for result files, or a CSV file"
    )
    changes = actions.add_parser("changes", help="change points: commits at which a benchmark's time shifted")
    changes.add_argument(
        "--rows", default="", metavar="REGEX", help="only benchmarks that match, as of `run`"
    )
    changes.add_argument(
        "--machine", default="", metavar="TEXT", help="only machines whose name contains this"
    )
    changes.add_argument("--branch", metavar="NAME", help="only commits of this branch, in its order")
    changes.add_argument(
        "--relative-to", default="", metavar="PEER", help="ratios to this baseline in place of seconds"
    )
    changes.add_argument(
        "--significance", type=float, default=SIGNIFICANCE, metavar="P",
        help="probability of any false alarm in the whole store (default %(default)s)",
    )  # fmt: skip
    changes.add_argument(
        "--least", type=float, default=MIN_SHIFT, metavar="SHARE",
        help="smallest shift to report (default %(default)s)",
    )  # fmt: skip
    changes.add_argument(
        "--fail", action="store_true", help="exit with status 1 if a benchmark became slower"
    )
    changes.add_argument("--output", choices=("text", "json"), default="text")
    alias = actions.add_parser("alias", help="read a renamed benchmark's earlier times under its new name")
    alias.add_argument("--old", nargs=3, metavar=("SUITE", "OPERATOR", "NAME"))
    alias.add_argument("--new", nargs=3, metavar=("SUITE", "OPERATOR", "NAME"))
    for action in (add, listed, export, changes, alias):
        action.add_argument(
            "--history", type=Path, default=DEFAULT_STORE, metavar="FILE",
            help="the store (default %(default)s)",
        )  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    """Run the action. Raises RefusalError."""
    actions = {"add": _add, "list": _list, "export": _export, "changes": _changes, "alias": _alias}
    try:
        return actions[arguments.action](arguments)
    except sqlite3.Error as error:
        raise HistoryError(f"{arguments.history}: {error}") from None


def _add(arguments: argparse.Namespace) -> int:
    refused = 0
    with History(arguments.history, create=True) as history:
        for path in arguments.files:
            try:
                added = history.add(read_results(path))
            except ResultFileError as error:
                print(f"history: {error}", file=sys.stderr)
                refused += 1
                continue
            print(f"{path}: {'added' if added else 'already there'}")
    return 2 if refused else 0


def _list(arguments: argparse.Namespace) -> int:
    with History(arguments.history) as history:
        runs = history.runs(every_state=arguments.every_state)
    if arguments.output == "json":
        descriptions = [
            {
                "digest": run.digest, "started": run.started, "commit": run.commit, "commit_time": run.commit_time,
                "dirty": run.dirty, "complete": run.complete, "rehearsal": run.rehearsal, "machine": run.machine,
                "device": run.device, "rows": run.rows, "versions": dict(run.versions),
            }
            for run in runs
        ]  # fmt: skip
        print(json.dumps(descriptions, indent=1))
        return 0
    for run in runs:
        state = ["" if run.complete else "incomplete", "rehearsal" if run.rehearsal else ""]
        print(
            f"{run.digest[:12]}  {run.label:<26}{run.started:<27}{run.rows:>5} benchmarks  {run.device:<5} "
            f"{run.machine}"
            f"{''.join(f', {each}' for each in state if each)}"
        )
    print(f"{len(runs)} runs")
    return 0


def _export(arguments: argparse.Namespace) -> int:
    target: Path = arguments.target
    with History(arguments.history) as history:
        if target.suffix == ".csv":
            return _export_table(history, target)
        require_writable_folder(target)
        written = export_runs(history, target)
    print(f"{len(written)} result files in {target}")
    return 0


def _export_table(history: History, target: Path) -> int:
    table = history.timings()
    try:
        with target.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(table[0])
            writer.writerows(table[1:])
    except OSError as error:
        raise HistoryError(f"cannot write {target}: {error.strerror}") from None
    print(f"{len(table) - 1} times in {target}")
    return 0


def _changes(arguments: argparse.Namespace) -> int:
    if not 0 < arguments.significance < 1:
        raise RefusalError(f"--significance must be between 0 and 1, got {arguments.significance}")
    if not arguments.least >= 0:
        raise RefusalError(f"--least must not be negative, got {arguments.least}")
    commits = None if arguments.branch is None else branch_commits(arguments.branch)
    with History(arguments.history) as history:
        series = read_series(
            history, rows=expression(arguments.rows), machine=arguments.machine, relative_to=arguments.relative_to,
            commits=commits,
        )  # fmt: skip
    changes = find_changes(series, significance=arguments.significance, least_shift=arguments.least)
    if arguments.output == "json":
        print(json.dumps({"series": len(series), "changes": [each.as_json() for each in changes]}, indent=1))
    else:
        print(format_changes(changes, series, arguments.significance))
    return 1 if arguments.fail and any(each.shift.ratio > 1 for each in changes) else 0


def _alias(arguments: argparse.Namespace) -> int:
    if (arguments.old is None) != (arguments.new is None):
        raise RefusalError("give both --old and --new, or neither to list the aliases")
    if arguments.old is None:
        with History(arguments.history) as history:
            for old, new in history.aliases().items():
                print(f"{' / '.join(old)} is read as {' / '.join(new)}")
        return 0
    with History(arguments.history, create=True) as history:
        history.add_alias(Name(*arguments.old), Name(*arguments.new))
    return 0
