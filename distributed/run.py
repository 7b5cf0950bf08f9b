r"""Launcher of distributed programs: ``python -m triten.distributed.run``, or ``tritenrun`` (`torchrun`).

One node, as many ranks as it has cores or GPUs, or a number::

    python -m triten.distributed.run --standalone --nproc-per-node=2 train.py --epochs=3

Several nodes, with the same line on each; the node with the endpoint's address serves the others::

    python -m triten.distributed.run --nnodes=2 --nproc-per-node=8 \
        --rdzv-backend=c10d --rdzv-endpoint=node0:29400 train.py

Options are torchrun's. Each option can also be set by an environment variable, as PET_NPROC_PER_NODE for
``--nproc-per-node``.
"""

from __future__ import annotations

import logging
import os
import sys
import uuid
from argparse import REMAINDER, ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from typing import Any

from .elastic.agent import LOCAL_RANK_ARGUMENT
from .elastic.multiprocessing.errors import ChildFailedError, record
from .elastic.multiprocessing.logs import LogsSpecs, Std
from .elastic.rendezvous.errors import RendezvousError
from .elastic.rendezvous.parameters import parse_rendezvous_config
from .elastic.signals import DEFAULT_SIGNALS, SignalException
from .launcher.api import LaunchConfig, elastic_launch

__all__ = ["config_from_args", "determine_local_world_size", "get_args_parser", "main", "run"]

DEFAULT_MASTER_PORT = 29500

OPTIONS: tuple[tuple[tuple[str, ...], type, Any, str], ...] = (
    (("--nnodes",), str, "1:1", "number of nodes, or MIN:MAX"),
    (("--nproc-per-node",), str, "1", "workers of this node: a number, cpu, gpu, or auto"),
    (("--rdzv-backend",), str, "static", "how nodes come together: static or c10d"),
    (("--rdzv-endpoint",), str, "", "where they do, HOST[:PORT]"),
    (("--rdzv-id",), str, "none", "the job's name, the same on all nodes"),
    (("--rdzv-conf",), str, "", "more of it: join_timeout=60,last_call_timeout=5,is_host=true"),
    (("--max-restarts",), int, 0, "how often all workers are started again after a failure"),
    (("--monitor-interval",), float, 0.1, "seconds between two looks at the workers"),
    (("--start-method",), str, "spawn", "how processes for --run-path begin: spawn, fork or forkserver"),
    (("--role",), str, "default", "what the workers are for"),
    (("--log-dir",), str, None, "where files of output go; a new directory for each run"),
    (
        ("-r", "--redirects"),
        str,
        "0",
        "streams that go to files: 1 stdout, 2 stderr, 3 both; or 0:1,1:3 by local rank",
    ),
    (("-t", "--tee"), str, "0", "streams that go to files and are shown with [ROLE RANK]: before each line"),
    (("--local-ranks-filter",), str, "", "local ranks of which output is shown, with commas"),
    (("--node-rank",), int, 0, "this node's rank, for the static rendezvous"),
    (("--master-addr",), str, "127.0.0.1", "the node of rank 0, for the static rendezvous"),
    (("--master-port",), int, None, f"its port, {DEFAULT_MASTER_PORT} by default"),
    (("--local-addr",), str, None, "the address by which other nodes reach this one"),
    (("--signals-to-handle",), str, DEFAULT_SIGNALS, "signals that are passed on to the workers"),
    (
        ("--shutdown-timeout",),
        float,
        None,
        "seconds that workers have to end before they are killed, 30 by default",
    ),
)
"""Options with a value: their names, type, default and description."""

FLAGS = (
    (("--standalone",), "one node, at a free port of 127.0.0.1"),
    (("-m", "--module"), "the script is a module's name, as for python -m"),
    (("--no-python",), "the script is a program of its own"),
    (("--run-path",), "the script runs in the workers' interpreter, by runpy.run_path"),
    (("--virtual-local-rank",), "each worker sees its own GPU alone, and LOCAL_RANK=0"),
)
"""Options without a value."""

logger = logging.getLogger(__name__)


def get_args_parser() -> ArgumentParser:
    """Return the parser of the command line (`torch.distributed.run.get_args_parser`)."""
    parser = ArgumentParser(
        prog="tritenrun", description="Start the ranks of a program, watch and restart them."
    )
    for names, kind, default, text in OPTIONS:
        known = _known(names)
        parser.add_argument(
            *_spellings(names), type=kind, default=os.environ.get(known, default), help=f"{text} [{known}]"
        )
    for names, text in FLAGS:
        known = _known(names)
        is_set = os.environ.get(known, "0").lower() not in ("0", "", "false")
        parser.add_argument(*_spellings(names), action="store_true", default=is_set, help=f"{text} [{known}]")
    parser.add_argument("training_script", help="the script, followed by its own arguments")
    parser.add_argument("training_script_args", nargs=REMAINDER)
    return parser


def _spellings(names: Sequence[str]) -> list[str]:
    """Return an option's names, including the spelling with underscores."""
    other = names[-1][:2] + names[-1][2:].replace("-", "_")
    return [*names, *([other] if other not in names else [])]


def _known(names: Sequence[str]) -> str:
    """Return the environment variable of an option."""
    return f"PET_{names[-1][2:].replace('-', '_').upper()}"


def parse_min_max_nnodes(nnodes: str) -> tuple[int, int]:
    """Parse the minimum and maximum from ``"2"`` or ``"1:4"``.

    Raises:
        ValueError: it is neither.
    """
    numbers = nnodes.split(":")
    if len(numbers) > 2 or not all(number.isdecimal() for number in numbers):
        raise ValueError(f"nnodes: expected a number or MIN:MAX, but got {nnodes!r}")
    return int(numbers[0]), int(numbers[-1])


def determine_local_world_size(nproc_per_node: str) -> int:
    """Return the number of workers that ``--nproc-per-node`` requests.

    Raises:
        ValueError: it is neither a number nor ``"cpu"``, ``"gpu"`` or ``"auto"``, or there is no GPU.
    """
    if nproc_per_node.isdecimal():
        return int(nproc_per_node)
    if nproc_per_node not in ("cpu", "gpu", "auto"):
        raise ValueError(f"nproc-per-node: expected a number, cpu, gpu or auto, but got {nproc_per_node!r}")
    if nproc_per_node != "cpu":
        from .. import cuda

        if cuda.is_available():
            return cuda.device_count()
        if nproc_per_node == "gpu":
            raise ValueError("nproc-per-node: got 'gpu', but CUDA is not available; pass a number or 'cpu'")
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def config_from_args(args: Namespace) -> tuple[LaunchConfig, Callable[..., Any] | str, list[str]]:
    """Return the agent's configuration, the workers' program or function, and its arguments.

    Raises:
        ValueError: options have values that make no sense, or do not go together.
    """
    min_nodes, max_nodes = parse_min_max_nnodes(args.nnodes)
    backend, endpoint, run_id = args.rdzv_backend, args.rdzv_endpoint, args.rdzv_id
    is_anywhere = backend == "static" and not endpoint and args.master_port is None and max_nodes == 1
    if args.standalone or is_anywhere:
        if max_nodes != 1:
            raise ValueError(f"standalone: expected one node, but nnodes is {args.nnodes}")
        backend, endpoint, run_id = "c10d", "127.0.0.1:0", str(uuid.uuid4())
    elif backend == "static" and not endpoint:
        host = f"[{args.master_addr}]" if args.master_addr.count(":") > 1 else args.master_addr
        endpoint = f"{host.replace('[[', '[').replace(']]', ']')}:{args.master_port or DEFAULT_MASTER_PORT}"
    if backend != "static" and args.node_rank:
        logger.warning("node-rank is for the static rendezvous, and is not used")
    try:
        shown = (
            {int(rank) for rank in args.local_ranks_filter.split(",")} if args.local_ranks_filter else None
        )
    except ValueError:
        raise ValueError(
            f"local-ranks-filter: expected numbers with commas, but got {args.local_ranks_filter!r}"
        ) from None
    config = LaunchConfig(
        min_nodes,
        max_nodes,
        determine_local_world_size(args.nproc_per_node),
        LogsSpecs(args.log_dir, Std.from_str(args.redirects), Std.from_str(args.tee), shown),
        run_id,
        args.role,
        endpoint,
        backend,
        parse_rendezvous_config(args.rdzv_conf)
        | ({"rank": str(args.node_rank)} if backend == "static" else {}),
        args.max_restarts,
        args.monitor_interval,
        args.start_method,
        os.environ.get("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"),
        args.local_addr,
        args.signals_to_handle,
        args.virtual_local_rank,
        args.shutdown_timeout,
    )
    return config, *_command(args)


def _command(args: Namespace) -> tuple[Callable[..., Any] | str, list[str]]:
    """Return the workers' program or function, and its arguments."""
    script, script_args = args.training_script, list(args.training_script_args)
    if not getattr(args, "use_env", True):
        script_args.insert(0, f"--local-rank={LOCAL_RANK_ARGUMENT}")
    if args.run_path:
        return run_script_path, [script, *script_args]
    if args.no_python:
        if args.module:
            raise ValueError("no-python: cannot be combined with --module, because a module is Python")
        return script, script_args
    module = ["-m"] if args.module else []
    return os.environ.get("PYTHON_EXEC", sys.executable), ["-u", *module, script, *script_args]


def run_script_path(training_script: str, *training_script_args: str) -> None:
    """Run a script in this process."""
    import runpy

    sys.argv = [training_script, *training_script_args]
    runpy.run_path(training_script, run_name="__main__")


def run(args: Namespace) -> None:
    """Do what a parsed command line says (`torch.distributed.run.run`).

    Raises:
        ChildFailedError: workers failed, and no restart was left.
        SignalException: a signal ended the agent, and its workers with it.
        RendezvousError: the nodes did not come together, or the job ended on another node.
        ValueError: options have values that make no sense, or do not go together.
    """
    config, entrypoint, arguments = config_from_args(args)
    elastic_launch(config, entrypoint)(*arguments)


@record
def main(args: Sequence[str] | None = None) -> None:
    """Do what a command line says (`torch.distributed.run.main`).

    Args:
        args: its words; None for this process's.
    """
    run(get_args_parser().parse_args(args))


def console(command: Callable[[], object] = main) -> int:
    """Run the command, print an error without the agent's traceback, and return the exit status."""
    logging.basicConfig(
        level=os.environ.get("LOGLEVEL", "WARNING"), format="%(asctime)s %(levelname)s %(message)s"
    )
    try:
        command()
    except (ChildFailedError, SignalException, RendezvousError, ValueError, OSError) as error:
        sys.stdout.flush()
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(console())
