"""What `import triten` adds to `import numpy`: fresh interpreters, the two programs in turn."""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
from pathlib import Path

from .interleaved import paired_ratio
from .machine import write_report

PROGRAMS = {"numpy": "import numpy", "numpy, triten": "import numpy, triten"}


def import_seconds(python: str, statement: str) -> float:
    """Seconds that the statement takes in a new interpreter, its start not counted.

    Raises:
        subprocess.CalledProcessError: if the interpreter cannot import the modules.
    """
    program = f"import time; start = time.perf_counter(); {statement}; print(time.perf_counter() - start)"
    # -I: neither the working folder nor the user's variables decide which triten is imported.
    run = subprocess.run([python, "-I", "-c", program], stdout=subprocess.PIPE, text=True, check=True)
    return float(run.stdout)


def measure_imports(python: str, rounds: int) -> dict[str, list[float]]:
    """Seconds of each program in each round, after one round that fills the disk cache and `__pycache__`."""
    seconds: dict[str, list[float]] = {name: [] for name in PROGRAMS}
    for turn in range(rounds + 1):
        for name, statement in PROGRAMS.items():
            elapsed = import_seconds(python, statement)
            if turn:
                seconds[name].append(elapsed)
    return seconds


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `python -m triten.perf import-time`."""
    parser.add_argument(
        "--python", default=sys.executable, help="interpreter of an environment that has the wheel"
    )
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path, metavar="PATH", help="also write the result to this file")


def run(arguments: argparse.Namespace) -> int:
    """Measure, print, and write where `--json` says."""
    seconds = measure_imports(arguments.python, arguments.rounds)
    medians = {name: 1e3 * statistics.median(times) for name, times in seconds.items()}
    ratio = paired_ratio(seconds["numpy, triten"], seconds["numpy"])
    for name, milliseconds in medians.items():
        print(f"import {name:<14} {milliseconds:8.1f} ms")
    print(f"triten adds {medians['numpy, triten'] - medians['numpy']:.1f} ms; ratio {ratio:.2f}")
    if arguments.json:
        write_report(arguments.json, "import-time", {"milliseconds": medians, "ratio": ratio}, {})
    return 0
