"""``python -m triten.distributed.launch``: `triten.distributed.run` by its older name (`torch.distributed.launch`).

Unless ``--use-env`` is there, each script gets ``--local-rank=N`` as its first argument, beside LOCAL_RANK.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence

from . import run

__all__ = ["launch", "main"]


def launch(args: Namespace) -> None:
    """Do what a parsed command line says.

    Raises:
        ValueError: a program that is not Python would get ``--local-rank``.
    """
    if args.no_python and not args.use_env:
        raise ValueError(
            "no-python: a program that is not Python takes no --local-rank; pass --use-env, which sets LOCAL_RANK"
        )
    run.run(args)


def main(args: Sequence[str] | None = None) -> None:
    """Do what a command line says (`torch.distributed.launch.main`).

    Args:
        args: its words; None for this process's.
    """
    parser = run.get_args_parser()
    parser.add_argument("--use-env", "--use_env", action="store_true", help="give the script no --local-rank")
    launch(parser.parse_args(args))


if __name__ == "__main__":
    sys.exit(run.console(main))
