"""Wheels of compiled kernels, which an installed triten finds instead of compiling: one for each target.

The kernels are those of the calls that `aot` checks, in float32, float16 and bfloat16, or those of your own samples.
Each target has a process of its own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

from ..runtime.available_cores import available_cores
from ..runtime.cuda.occupancy import KNOWN
from .ahead_of_time.compilation import compiling_environment
from .aot import SAMPLES, require_compiler
from .refusal import require_positive, require_writable_folder

DEFAULT_TARGETS = (80, 86, 89, 90, 100, 120)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `python -m triten.perf kernel-wheels`."""
    parser.add_argument(
        "--target", nargs="+", type=int, default=list(DEFAULT_TARGETS), choices=list(KNOWN), metavar="SM"
    )
    parser.add_argument("--output", type=Path, default=Path("dist"), metavar="FOLDER", help="default: dist")
    parser.add_argument("--workers", type=int, default=available_cores(), help="compiling processes")
    parser.add_argument(
        "--samples", default=SAMPLES, metavar="MODULE", help="calls whose kernels are compiled"
    )


def run(arguments: argparse.Namespace) -> int:
    """Build the wheels and print their paths. Raises RefusalError."""
    require_positive(arguments, "workers")
    require_writable_folder(arguments.output)
    require_compiler(arguments.samples)
    environment = compiling_environment()
    del environment["TRITON_DISABLE_LINE_INFO"]  # users compile with it
    for target in arguments.target:
        done = subprocess.run(
            [
                *(sys.executable, "-P", "-m", f"{__package__}.ahead_of_time.kernel_wheel", str(target)),
                *(arguments.samples, str(arguments.output), str(arguments.workers)),
            ],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        if done.returncode:
            print(f"kernel-wheels: the wheel for sm_{target} failed", file=sys.stderr)
            return 1
        built = json.loads(done.stdout.splitlines()[-1])
        print(f"{built['path']}: {built['kernels']} kernels, {built['bytes'] / 2**20:.1f} MiB")
    return 0
