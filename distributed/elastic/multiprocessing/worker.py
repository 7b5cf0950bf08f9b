"""A worker: a process that is started, asked whether it has ended, and ended."""

from __future__ import annotations

import abc
import os
import signal
import sys
from typing import Any

__all__ = ["PARENT_DEATH_SIGNAL", "Worker", "end_with_parent", "is_of_mpi_launcher"]

PARENT_DEATH_SIGNAL = 1
"""Linux's number of ``prctl(PR_SET_PDEATHSIG)``."""

_OF_MPI_LAUNCHERS = (
    "PMI_",
    "PMI2_",
    "PMIX_",
    "PRTE_",
    "HYDI_",
    "MPI_LOCAL",
    "OMPI_COMM_WORLD_",
    "OMPI_UNIVERSE_",
)


def is_of_mpi_launcher(variable: str) -> bool:
    """Return True if the variable describes a process's place among those of `mpiexec`.

    An agent started by `mpiexec` does not pass these variables on, since its workers are other processes.
    """
    return variable.startswith(_OF_MPI_LAUNCHERS)


def end_with_parent(parent: int) -> None:
    """Have the system end this process (SIGTERM) when the thread that has started it is gone; on Linux only.

    Args:
        parent: the number of the parent, which may be gone already.
    """
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(PARENT_DEATH_SIGNAL, signal.SIGTERM)
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGTERM)


class Worker(abc.ABC):
    """A process in a session of its own, which signals reach together with the processes that it has started.

    Attributes:
        pid: Process id.
        exit_code: Exit code, negative for a signal; None while it runs. `poll` updates it.
        result: Return value of its function; None for a command.
    """

    pid: int
    exit_code: int | None = None
    result: Any = None

    @abc.abstractmethod
    def poll(self) -> int | None:
        """Look whether it has ended, and return its exit code."""

    @abc.abstractmethod
    def handles(self) -> list[int]:
        """Files of which one is readable when there is something for `poll`; none where the system has no such file."""

    @abc.abstractmethod
    def close(self) -> None:
        """Let go of its files, after its end."""

    def send(self, number: int) -> None:
        """Send a signal to the worker and its child processes."""
        if self.poll() is not None:
            return
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:  # it has no session yet
            os.kill(self.pid, number)
