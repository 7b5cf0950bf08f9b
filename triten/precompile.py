"""Command that compiles the kernels of a script before it runs: ``python -m triten.precompile train.py``.

The script runs as under ``python train.py``, on devices that run no kernel, until it ends or reads a value of a CUDA
tensor. The kernels that it planned so far are then compiled by several processes into the disk cache::

    python -m triten.precompile --target 90 train.py --epochs 3
    python -m triten.precompile --target 90 -m package.train

No GPU is needed if ``--target`` names the device. ``--placeholder 1.0`` makes every read return 1.0, so that the plan
continues beyond it. The script's own effects on files are real.

The exit status is 0 if all planned kernels are compiled, 1 if a kernel does not compile or there is nothing to compile
for, and 2 for wrong arguments. An exception of the script passes on.
"""

from __future__ import annotations

import argparse
import os
import runpy
import sys
from collections.abc import Sequence

from .cuda.precompilation import find_target, make_plan, planned_and_compiled

__all__ = ["main"]

PATIENCE = 20_000
"""Number of launches without a new kernel after which the script is ended, unless an option says otherwise."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m triten.precompile",
        description="Compile the kernels of a script, without running them, into the disk cache.",
    )
    parser.add_argument(
        "--target", metavar="SM", help="compute capability, such as 90. Default: this machine's GPU"
    )
    parser.add_argument(
        "--cuda", metavar="VERSION", help="CUDA version that the target's driver supports, such as 12.8"
    )
    parser.add_argument("--workers", type=int, help="compiling processes. Default: the available cores")
    parser.add_argument(
        "--placeholder",
        type=float,
        metavar="VALUE",
        help="value that each read of a CUDA tensor returns. Default: the plan ends at the first read",
    )
    parser.add_argument(
        "--patience",
        type=int,
        default=PATIENCE,
        metavar="N",
        help=f"end the plan after N launches without a new kernel. Default: {PATIENCE}",
    )
    parser.add_argument("-m", dest="is_module", action="store_true", help="the script is a module's name")
    parser.add_argument("script", help="a Python file, or with -m a module")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="the script's own arguments")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Plan a script, compile its kernels, print their numbers, and return the exit status."""
    parser = _parser()
    given = parser.parse_args(arguments)
    script, own = given.script, given.arguments
    try:
        if given.target is not None:
            find_target(given.target)
        if given.patience < 1:
            raise ValueError(f"--patience: expected a positive number, got {given.patience}")
        if not given.is_module and not os.path.isfile(script):
            raise ValueError(f"there is no file {script}")
        plan = make_plan(given.target, given.cuda, given.workers, given.placeholder, True, given.patience)
    except ValueError as error:
        parser.error(str(error))
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 1

    def run() -> None:
        sys.argv = [script, *own]
        if given.is_module:
            sys.path.insert(0, os.getcwd())
            runpy.run_module(script, run_name="__main__", alter_sys=True)
        else:
            sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
            runpy.run_path(script, run_name="__main__")

    try:
        result = planned_and_compiled(run, plan)
    except RuntimeError as error:
        if not str(error).startswith("precompile: "):
            raise
        print(error, file=sys.stderr)
        return 1
    print(f"precompile: {result}", file=sys.stderr)
    if result.stopped:
        print(f"precompile: the plan ended early, since {result.stopped}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
