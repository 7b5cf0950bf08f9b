"""Show result files of `run`: a page that works offline, tables of markdown for a log, or the derived data as JSON.

Several files, or a store, make a history, ordered by the time of their commits. Profiles of training steps are shown
below the benchmarks. Exit status 2: a file is no result,
or the report cannot be written.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from ..history import History
from ..history.exporting import export_runs
from ..refusal import RefusalError
from ..result_file import write_whole
from ..suite.compare import THRESHOLD
from ..suite.results import ResultFileError
from .data import report_data
from .markdown import format_markdown
from .page import PageError, format_page


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `python -m triten.perf report`."""
    parser.add_argument(
        "files", nargs="*", type=Path, metavar="FILE", help="result files; several are a history"
    )
    parser.add_argument(
        "--history", type=Path, metavar="FILE", help="also the runs of this store, of `history add`"
    )
    parser.add_argument(
        "--profile",
        nargs="+",
        action="extend",
        default=[],
        type=Path,
        metavar="FILE",
        help="also show these traces of tt.profiler, or snapshots of tt.cuda.memory (.pickle); alone: only them",
    )
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="default: standard output")
    parser.add_argument("--format", choices=("html", "markdown", "json"), default="html")
    parser.add_argument(
        "--threshold",
        type=float,
        default=THRESHOLD,
        metavar="SHARE",
        help="by how much a row's time may change from the first file to the last; default: %(default)s",
    )


def run(arguments: argparse.Namespace) -> int:
    """Read, arrange, write."""
    output: Path | None = arguments.output
    try:
        _check(arguments)
        data = _data(arguments)
        if arguments.format == "html":
            text = format_page(data)
        elif arguments.format == "markdown":
            text = format_markdown(data)
        else:
            text = json.dumps(data, indent=1, allow_nan=False) + "\n"
        if output is None:
            encoding = sys.stdout.encoding or "utf-8"
            sys.stdout.write(_encodable(text, encoding))
        else:
            write_whole(output, _encodable(text, "utf-8"))
    except RefusalError as error:
        raise RefusalError(_encodable(str(error), "utf-8")) from None
    except BrokenPipeError:
        raise
    except OSError as error:
        raise RefusalError(f"cannot write {output or 'the report'}: {error.strerror}") from None
    return 0


def _data(arguments: argparse.Namespace) -> dict[str, Any]:
    """Arrange the files and the runs of the store."""
    if arguments.history is None:
        return report_data(arguments.files, arguments.threshold, arguments.profile)
    with (
        History(arguments.history) as history,
        tempfile.TemporaryDirectory(prefix="triten-report-") as folder,
    ):
        stored = export_runs(history, Path(folder), last_states=True)
        if not stored and not arguments.files:
            raise ResultFileError(f"{arguments.history}: the store has no run")
        return report_data([*arguments.files, *stored], arguments.threshold, arguments.profile)


def _check(arguments: argparse.Namespace) -> None:
    """Raise an error for arguments that would overwrite a file or have no effect, before reading anything."""
    if not (arguments.files or arguments.history or arguments.profile):
        raise ResultFileError("the following arguments are required: FILE, --history FILE, or --profile FILE")
    if arguments.profile and arguments.format == "markdown":
        raise ResultFileError("--format markdown has no profiles; html and json have")
    if not arguments.threshold >= 0:
        raise ResultFileError(f"--threshold must not be negative, got {arguments.threshold}")
    if arguments.output is None:
        if arguments.format == "html":
            raise PageError("--format html needs -o FILE, such as -o dashboard.html")
        return
    read = [*arguments.files, *arguments.profile, *([arguments.history] if arguments.history else [])]
    if arguments.output.resolve() in {path.resolve() for path in read}:
        raise ResultFileError(f"{arguments.output} is one of the files to read: it would be lost")


def _encodable(text: str, encoding: str) -> str:
    """Escape characters that an encoding lacks, such as a lone surrogate in a file."""
    return text.encode(encoding, "backslashreplace").decode(encoding)
