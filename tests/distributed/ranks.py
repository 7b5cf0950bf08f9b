"""Tests that run in several processes, which `mpiexec` starts once for all of them.

    @on_ranks(2, 4)
    def test_sum(rank: int, size: int) -> None:
        x = tt.ones(1)
        dist.all_reduce(x)
        assert x.item() == size

The decorator runs the body in 2 and then in 4 processes, with the default process group initialized. An error
in any process fails the test. `start_ranks` starts a program's processes for a test that ends them.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, Listener, wait
from pathlib import Path
from typing import Any

import pytest

needs_mpi = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="the tests' requirements have MPICH on Linux alone"
)
MPIEXEC = Path(sys.executable).parent / "mpiexec"
LIMIT = 120
"""Seconds after which processes that have not answered are ended: far beyond what any test needs."""
AFTER = 3
"""Seconds that others have to answer once one has failed."""
START = 60
"""Seconds within which processes are there."""


class Ranks:
    """Processes that run functions together.

    Args:
        size: how many.
        environment: variables for them.
    """

    def __init__(self, size: int, environment: dict[str, str]) -> None:
        self.size = size
        key = os.urandom(16)
        # Use a path instead of a port, so that no other process can connect.
        self._listener = Listener(family="AF_UNIX", authkey=key)
        self._processes = subprocess.Popen(
            [
                str(MPIEXEC),
                "-n",
                str(size),
                sys.executable,
                "-P",
                "-m",
                "triten.tests.distributed.rank",
                str(self._listener.address),
            ],
            env=os.environ | environment | {"RANKS_AUTHKEY": key.hex()},
            stdin=subprocess.DEVNULL,
        )
        found: dict[int, Connection] = {}
        self._listener._listener._socket.settimeout(START)  # type: ignore[attr-defined]
        for _ in range(size):
            connection = self._listener.accept()
            found[connection.recv()] = connection
        self._connections = [found[rank] for rank in range(size)]

    def run(self, module: str, name: str, *args: Any) -> None:
        """Run a test's function in all processes, with more arguments if there are any.

        Raises:
            AssertionError: one of them failed, or has not answered in time.
        """
        for connection in self._connections:
            connection.send((module, name, args))
        waiting = dict(zip(self._connections, range(self.size), strict=True))
        failures = []
        # After one rank has failed, others may wait for it forever.
        while waiting and (ready := wait(list(waiting), AFTER if failures else LIMIT)):
            for connection in ready:
                rank = waiting.pop(connection)  # type: ignore[call-overload]
                try:
                    answer = connection.recv()  # type: ignore[union-attr]
                except (EOFError, OSError):
                    answer = "has ended"
                if answer is not None:
                    failures.append(f"rank {rank} of {self.size}: {answer}")
        failures += [f"rank {rank} of {self.size} has not answered" for rank in waiting.values()]
        if failures:
            self.close()
            raise AssertionError("\n".join(failures))

    def close(self) -> None:
        """End the processes."""
        _started.pop(next((key for key, each in _started.items() if each is self), None), None)  # type: ignore[arg-type]
        self._processes.kill()
        self._processes.wait()
        self._listener.close()
        for connection in self._connections:
            connection.close()


_started: dict[tuple[int, str], Ranks] = {}


@atexit.register
def _close_all() -> None:
    for each in list(_started.values()):
        each.close()


def on_ranks(*sizes: int, cuda: str = "off") -> Callable[[Callable[..., None]], Any]:
    """Run a test in each of the given numbers of processes.

    Args:
        sizes: the numbers of processes, for each of which it is run.
        cuda: the processes' TRITEN_CUDA.

    The test takes the number of its process, and how many there are.
    """

    def decorate(function: Callable[..., None]) -> Any:
        # pytest knows the tests by another package's name than programs do.
        module = "triten.tests." + function.__module__.partition("tests.")[2]
        name = function.__name__

        @needs_mpi
        @pytest.mark.parametrize("ranks", sizes)
        def test(ranks: int) -> None:
            key = ranks, cuda
            if key not in _started:
                _started[key] = Ranks(
                    ranks, {"TRITEN_CUDA": cuda, "TRITON_INTERPRET": str(int(cuda == "interpret"))}
                )
            _started[key].run(module, name)

        test.__name__, test.__doc__ = function.__name__, function.__doc__
        test.in_ranks = function  # type: ignore[attr-defined]
        return test

    return decorate


def run_programs(programs: Sequence[str], environment: dict[str, str] | None = None) -> list[tuple[int, str]]:
    """Run programs as ranks that meet by a store of this process, as under a launcher.

    Args:
        programs: the source of each rank's. `tt`, `dist`, `rank` and `start`, which makes the group of all with a time
            limit in seconds, are there.
        environment: variables for them.

    Returns:
        How each ended, and what it wrote.
    """
    from triten.distributed import TCPStore

    store = TCPStore("localhost", 0, is_master=True)
    own = {
        "MASTER_ADDR": "localhost",
        "MASTER_PORT": str(store.port),
        "WORLD_SIZE": str(len(programs)),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "TRITEN_CUDA": "off",
    }
    started = [
        subprocess.Popen(
            [sys.executable, "-P", "-c", PRELUDE + program],
            env=os.environ | own | {"RANK": str(rank)} | (environment or {}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank, program in enumerate(programs)
    ]
    try:
        return [(each.returncode, text) for each in started for text in [each.communicate(timeout=LIMIT)[0]]]
    finally:
        for each in started:
            each.kill()


PRELUDE = """
import os, signal, sys, time
from datetime import timedelta
import triten as tt
from triten import distributed as dist
rank = int(os.environ["RANK"])
def start(seconds=60.0, backend="mpi", **how):
    dist.init_process_group(backend, timeout=timedelta(seconds=seconds), **how)
"""
