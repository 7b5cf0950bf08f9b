"""Gate a change on its benchmarks: compare it with a baseline, print Markdown, and exit by policy.

`--baseline BRANCH` measures HEAD and its merge base with the branch, interleaved on this machine. Slower rows
are measured a second time, which decides. With `--baseline RESULT.json`, the suites of that file are measured
now, unless `--new` names a result.
`--history FILE` takes the last comparable run of the store, and its newest run without `--new`.

Exit status 0: no row is slower by more than the tolerance.
Exit status 1: a row is slower, has a wrong result, or fails.
Exit status 2: the input is missing or invalid; with `--strict`, also that a slowdown is not excluded.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from ..refusal import RefusalError, require_writable, require_writable_folder
from ..result_file import write_whole
from ..suite.compare import THRESHOLD
from ..suite.git_runs import TURNS
from .decision import decide
from .markdown import format_decision
from .openmetrics import format_openmetrics
from .sources import DEFAULT_SUITES, both_sides


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `python -m triten.perf gate`."""
    parser.add_argument(
        "--baseline", metavar="BRANCH|RESULT.json",
        help="branch or commit, or a result file; with --history, the branch whose runs count",
    )  # fmt: skip
    parser.add_argument("--new", type=Path, metavar="RESULT.json", help="result to judge; default: see above")
    parser.add_argument(
        "--history", type=Path, metavar="FILE", help="take the baseline from this store of runs"
    )
    parser.add_argument(
        "--tolerance", type=float, default=THRESHOLD, metavar="SHARE",
        help="accepted slowdown of a benchmark (default %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--strict", action="store_true",
        help="exit with status 2 if a slowdown by more than the tolerance is not excluded for a benchmark",
    )  # fmt: skip
    parser.add_argument("--relative-to", default="", metavar="PEER", help="compare times over this peer's")
    parser.add_argument("--output", choices=("markdown", "json"), default="markdown")
    parser.add_argument("--openmetrics", type=Path, metavar="FILE", help="write the metrics for Prometheus")
    parser.add_argument(
        "--save", type=Path, metavar="FOLDER", help="keep base.json and new.json there, such as for `history add`"
    )  # fmt: skip
    measured = parser.add_argument_group("measured baselines")
    measured.add_argument(
        "--suite", nargs="+", action="extend", metavar="NAME",
        help=f"as of `run`; default: {', '.join(DEFAULT_SUITES)}, or those of the baseline's file",
    )  # fmt: skip
    measured.add_argument("--rows", default="", metavar="REGEX", help="as of `run`")
    measured.add_argument(
        "--turns", type=int, default=TURNS, help="runs of each commit (default %(default)s); six at least decide"
    )  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    """Measure or read, decide, print. Raises RefusalError."""
    if not arguments.tolerance >= 0:
        raise RefusalError(f"--tolerance must not be negative, got {arguments.tolerance}")
    require_writable(arguments.openmetrics)
    if arguments.save is not None:
        require_writable_folder(arguments.save)
    base, new = both_sides(arguments)
    decision = decide(
        base, new, tolerance=arguments.tolerance, strict=arguments.strict, relative_to=arguments.relative_to
    )
    try:
        if arguments.save is not None:
            base.write(arguments.save / "base.json")
            new.write(arguments.save / "new.json")
        if arguments.openmetrics is not None:
            write_whole(arguments.openmetrics, format_openmetrics(decision))
    except OSError as error:
        raise RefusalError(f"cannot write {error.filename}: {error.strerror}") from None
    if arguments.output == "json":
        print(json.dumps(decision.as_json(), indent=1, allow_nan=False))
    else:
        print(format_decision(decision), end="")
    return decision.status
