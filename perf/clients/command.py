"""Run third-party packages on triten, each in its own process, and report which ones work.

Exit status 1: a client fails; 2: the request cannot be met.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from ..programs.command import pinned_versions
from ..refusal import RefusalError, expression, require_positive
from ..report.markdown import escaped, table
from ..result_file import ROOT, write_whole
from .catalogue import CLIENTS, Client

HERE = Path(__file__).resolve().parent
REQUIREMENTS = HERE / "requirements.txt"
EXPECTED = HERE / "expected.json"
PAGE = ROOT / "docs" / "clients.md"
TOLERANCE = 1e-3
"""The largest relative difference from a number that PyTorch gave."""


class Outcome(NamedTuple):
    """Outcome of a client: the error's last line, or an empty string."""

    client: Client
    version: str
    error: str
    seconds: float


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `python -m triten.perf clients`."""
    parser.add_argument(
        "--packages", type=Path, default=Path(".clients"), metavar="FOLDER",
        help="with packages/ and a folder for each other version, as `make clients` installs them",
    )  # fmt: skip
    parser.add_argument("--only", default="", metavar="REGEX", help="clients whose package or script matches")
    parser.add_argument("--quick", action="store_true", help="those that .ci/run runs")
    parser.add_argument("--seconds", type=float, default=600, help="the most that one client may take")
    parser.add_argument("--record", metavar="PYTHON", help="write expected.json by a Python with PyTorch")
    parser.add_argument("--log", action="store_true", help="print what a failing client printed")


def run(arguments: argparse.Namespace) -> int:
    """Run the clients and print a line for each; without a choice of clients, write the page too."""
    require_positive(arguments, "seconds")
    if not (arguments.packages / "packages").is_dir():
        raise RefusalError(f"--packages {arguments.packages}: there is no packages/; `make clients` makes it")
    pattern = expression(arguments.only, "--only")
    clients = [
        each
        for each in CLIENTS
        if pattern.search(f"{each.package} {each.script}") and (each.quick or not arguments.quick)
    ]
    if not clients:
        raise RefusalError(f"--only {arguments.only!r}: no client matches")
    if arguments.record:
        return record(clients, arguments.record, arguments.packages, arguments.seconds)
    versions, expected = pinned_versions(REQUIREMENTS), json.loads(EXPECTED.read_text())
    outcomes = []
    for client in clients:
        outcome, output = outcome_of(client, versions, expected, arguments.packages, arguments.seconds)
        outcomes.append(outcome)
        print(
            f"{client.package} {outcome.version}: {outcome.error or 'passes'} ({outcome.seconds:.0f} s)",
            flush=True,
        )
        if outcome.error and arguments.log:
            print(output, flush=True)
    failed = sum(bool(outcome.error) for outcome in outcomes)
    print(f"clients: {len(outcomes) - failed} of {len(outcomes)} pass")
    if len(outcomes) == len(CLIENTS):
        write_whole(PAGE, page(outcomes))
        print(f"written to {PAGE}")
    return 1 if failed else 0


def record(clients: list[Client], python: str, packages: Path, seconds: float) -> int:
    """Write the numbers that clients print under PyTorch."""
    expected = json.loads(EXPECTED.read_text()) if EXPECTED.exists() else {}
    for client in clients:
        done = finished([python, "-P", str(script_of(client))], client, packages, seconds)
        numbers = numbers_of(done.stdout)
        if done.returncode == 0 and numbers:
            expected[key_of(client)] = numbers
        else:
            print(f"{client.package}: nothing recorded: {last_line(done.stderr)}")
    write_whole(EXPECTED, json.dumps(expected, indent=1) + "\n")
    return 0


def outcome_of(
    client: Client,
    versions: Mapping[str, str],
    expected: Mapping[str, Mapping[str, float]],
    packages: Path,
    seconds: float,
) -> tuple[Outcome, str]:
    """Run a client, and return its outcome and its output."""
    started = time.monotonic()
    done = finished(
        [sys.executable, "-P", "-m", "triten.as_torch", str(script_of(client))], client, packages, seconds
    )
    taken = time.monotonic() - started
    own = dict(each.split("==") for each in client.versions)
    version = own.get(client.package, versions[client.package])
    error = (
        last_line(done.stderr)
        if done.returncode
        else difference(numbers_of(done.stdout), expected.get(key_of(client), {}))
    )
    return Outcome(client, version, error, taken), done.stdout + done.stderr


def script_of(client: Client) -> Path:
    """Return the path of a client's program."""
    return HERE / "scripts" / f"run_{client.script}.py"


def key_of(client: Client) -> str:
    """Return a client's key in `expected.json`."""
    return " ".join((client.script, *client.versions))


def finished(
    command: list[str], client: Client, packages: Path, seconds: float
) -> subprocess.CompletedProcess[str]:
    """Run a command with a client's packages in front of the path and no network."""
    folders = [*(packages / each for each in client.versions), packages / "packages", HERE / "scripts"]
    missing = [folder for folder in folders if not folder.is_dir()]
    if missing:
        raise RefusalError(f"there is no {missing[0]}; `make clients` installs it")
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(str(folder.resolve()) for folder in folders),
        "TRITEN_CUDA": client.cuda,
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
    }
    environment.pop("TRITON_INTERPRET", None)
    try:
        # Some packages write the code that they generate into the working directory.
        with tempfile.TemporaryDirectory() as folder:
            return subprocess.run(
                command, capture_output=True, text=True, env=environment, timeout=seconds, cwd=folder
            )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 1, "", f"more than {seconds:.0f} s")


def numbers_of(output: str) -> dict[str, float]:
    """Return the numbers that a program printed last, as a line of JSON."""
    line = last_line(output)
    return json.loads(line) if line.startswith("{") else {}


def last_line(text: str) -> str:
    """Return the last line that is not empty."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")


def difference(numbers: Mapping[str, float], expected: Mapping[str, float]) -> str:
    """Return the differences from PyTorch's results; empty for none."""
    if numbers.keys() != expected.keys():
        return f"printed {sorted(numbers)}, expected {sorted(expected)}"
    wrong = [
        f"{name} is {numbers[name]:.6g}, PyTorch's {value:.6g}"
        for name, value in expected.items()
        if not math.isclose(numbers[name], value, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    ]
    return "; ".join(wrong)


def page(outcomes: list[Outcome]) -> str:
    """Return the page of the documentation."""
    body = [
        [
            escaped(outcome.client.package),
            outcome.version,
            outcome.client.does,
            escaped(outcome.error or "passes"),
        ]
        for outcome in outcomes
    ]
    passed = sum(not outcome.error for outcome in outcomes)
    return f"""\
# Third-party packages

<!-- Written by `make clients`. -->

{passed} of {len(outcomes)} clients pass. Each is a package from PyPI, unmodified, in a process without PyTorch:
`python -m triten.as_torch`. Triton kernels are compared with the CPU; models with the numbers that PyTorch
2.13 gave. `make clients` installs the packages and runs the clients; `.ci/run` runs the quick ones.

{table(["package", "version", "what runs", "result"], body, 4)}
"""
