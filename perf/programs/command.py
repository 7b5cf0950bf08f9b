"""Run third-party programs under triten and under PyTorch, and compare results, times and memory.

Each program runs in two separate processes with one thread each. Without `--only`, the result file and the
documentation page are rewritten. `--training-steps` runs five networks of ours on all cores instead. Exit status 1: a
result differs from PyTorch's; 2: the request cannot be met.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from ..machine import describe_machine
from ..refusal import RefusalError, expression, require_positive
from ..result_file import FOLDER, ROOT, write_whole
from .catalogue import PROGRAMS
from .contest import ROUNDS, SECONDS, Effort, Outcome, hold_contest, worker_environment
from .program import Program
from .table import gaps, page, summary
from .training_steps import TRAINING_STEPS, operator_table, operators_of

RESULTS = FOLDER / "programs.json"
PAGE = ROOT / "docs" / "programs.md"
REQUIREMENTS = Path(__file__).with_name("requirements.txt")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `python -m triten.perf programs`."""
    parser.add_argument(
        "--pytorch", metavar="PYTHON", default=".oracle/bin/python", help="one that has PyTorch"
    )
    parser.add_argument(
        "--packages", type=Path, default=Path(".programs/packages"), metavar="FOLDER",
        help="where requirements.txt is installed: pip install --no-deps --target FOLDER -r ...",
    )  # fmt: skip
    parser.add_argument("--only", default="", metavar="REGEX", help="programs whose name or package matches")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of timing; 0 times nothing")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="the most that one request may take")
    parser.add_argument("--traceback", action="store_true", help="show where a program stopped")
    parser.add_argument(
        "--training-steps", action="store_true", help="run our networks on all cores; they need no --packages"
    )
    parser.add_argument(
        "--operators",
        type=int,
        default=0,
        metavar="N",
        help="with --training-steps: the N slowest operators of each",
    )
    parser.add_argument("--list", action="store_true", help="print the programs and run nothing")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="a result file, whatever was chosen"
    )


def run(arguments: argparse.Namespace) -> int:
    """Run, print, keep."""
    require_positive(arguments, "seconds")
    programs = chosen(arguments.only, TRAINING_STEPS if arguments.training_steps else PROGRAMS)
    versions = pinned_versions()
    if arguments.list:
        print("\n".join(f"{each.name}  {each.package} {versions.get(each.package, '')}" for each in programs))
        return 0
    packages = None if arguments.training_steps else arguments.packages
    if packages is not None and not packages.is_dir():
        raise RefusalError(
            f"--packages {arguments.packages}: there is no such folder; `make programs` makes it"
        )
    pytorch_version = version_of_pytorch(arguments.pytorch)
    threads = None if arguments.training_steps else 1
    effort = Effort(arguments.seconds, arguments.rounds, threads=threads)
    outcomes = []
    for index, program in enumerate(programs):
        version = versions.get(program.package, "")
        outcome, trace = hold_contest(program, version, arguments.pytorch, packages, effort)
        outcomes.append(outcome)
        print(f"{index + 1:3}/{len(programs)}  {described(outcome)}", flush=True)
        if arguments.traceback and trace:
            print(trace, flush=True)
        if arguments.training_steps and arguments.operators:
            operators = operators_of(program, arguments.pytorch, arguments.seconds)
            print(operator_table(operators, arguments.operators), flush=True)
    report = reported(outcomes, pytorch_version)
    rows = report["results"]
    for gap, count in gaps(rows):
        print(f"{count:4}  {gap}")
    counts = summary(rows)
    print(
        f"{counts['agree']} of {counts['programs']} agree; {counts['stop']} stop, {counts['differ']} differ"
    )
    if arguments.output:
        write_report(report, arguments.output)
    elif not arguments.only and not arguments.training_steps:
        write_report(report, RESULTS)
        write_whole(PAGE, page(report))
        print(f"written to {PAGE}")
    return 1 if counts["differ"] else 0


def chosen(only: str, programs: Sequence[Program] = PROGRAMS) -> list[Program]:
    """Return the programs whose name or package matches. Raise RefusalError if none does."""
    pattern = expression(only, "--only")
    selected = [each for each in programs if pattern.search(f"{each.name} {each.package}")]
    if not selected:
        raise RefusalError(f"--only {only!r}: no program's name or package matches (--list)")
    return selected


def pinned_versions(requirements: Path = REQUIREMENTS) -> dict[str, str]:
    """Return the version of each package that a requirements file pins."""
    lines = (line.partition("#")[0].strip() for line in requirements.read_text().splitlines())
    parted = (line.partition("==") for line in lines if line)
    return {name.strip(): version.strip() for name, _, version in parted}


def version_of_pytorch(python: str) -> str:
    """Return the version of PyTorch in a Python environment. Raise RefusalError if it has none."""
    command = [python, "-P", "-c", "import torch; print(torch.__version__)"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, env=worker_environment(None), check=True
        )
    except OSError as error:
        raise RefusalError(f"--pytorch {python}: {error.strerror}") from None
    except subprocess.CalledProcessError as error:
        raise RefusalError(f"--pytorch {python}: {error.stderr.strip().splitlines()[-1]}") from None
    return done.stdout.strip()


def described(outcome: Outcome) -> str:
    """Format a line about one program."""
    if outcome.gap:
        return f"{outcome.name:36} {outcome.status}: {outcome.gap} ({outcome.at})"
    ratio = "" if outcome.ratio is None else f", {outcome.ratio:.2f} of PyTorch's time"
    return f"{outcome.name:36} {outcome.status}{ratio}"


def reported(outcomes: list[Outcome], pytorch_version: str) -> dict[str, object]:
    """Return the content of the result file."""
    import numpy

    from ...version import __version__

    return {
        "measurement": "programs",
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": describe_machine(),
        "versions": {"triten": __version__, "PyTorch": pytorch_version, "NumPy": numpy.__version__},
        "results": [outcome.as_json() for outcome in outcomes],
    }


def write_report(report: dict[str, object], path: Path) -> None:
    """Write the result file. Raises RefusalError if it cannot be written."""
    try:
        write_whole(path, json.dumps(report, indent=1) + "\n")
    except OSError as error:
        raise RefusalError(f"cannot write {path}: {error.strerror}") from None
    print(f"written to {path}")
