"""A worker that runs a command."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence

from .logs import WorkerLogs
from .worker import PARENT_DEATH_SIGNAL, Worker, is_of_mpi_launcher

__all__ = ["CommandWorker"]

_START = f"""
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl({PARENT_DEATH_SIGNAL}, signal.SIGTERM)
if os.getppid() != int(sys.argv[1]):
    sys.exit("the agent is gone")
for ignored in (signal.SIGPIPE, signal.SIGXFSZ):
    signal.signal(ignored, signal.SIG_DFL)
try:
    os.execvp(sys.argv[2], sys.argv[2:])
except OSError as error:
    sys.stderr.write(f"{{sys.argv[2]}}: {{error.strerror}}\\n")
    os._exit(127)
"""
"""The program that becomes the command. The system ends it with its agent, however that ends, which `subprocess` could
ask for by Python code between fork and exec alone: unsafe in a process with threads."""


class CommandWorker(Worker):
    """A command in a process.

    Args:
        command: the program and its arguments.
        environment: the variables that it gets beside those of this process.
        logs: Destinations of its streams.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], logs: WorkerLogs) -> None:
        starts = (
            [sys.executable, "-S", "-P", "-c", _START, str(os.getpid())] if sys.platform == "linux" else []
        )
        with contextlib.ExitStack() as files:
            out, err = (
                None if path is None else files.enter_context(open(path, "wb"))
                for path in (logs.stdout, logs.stderr)
            )
            self._process = subprocess.Popen(
                [*starts, *command],
                env={name: os.environ[name] for name in os.environ if not is_of_mpi_launcher(name)}
                | dict(environment),
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        self.pid = self._process.pid
        self._handle = -1
        if sys.platform == "linux":
            with contextlib.suppress(
                OSError
            ):  # systems before Linux 5.3 have none, and are asked now and then
                self._handle = os.pidfd_open(self.pid)

    def poll(self) -> int | None:
        self.exit_code = self._process.poll()
        return self.exit_code

    def handles(self) -> list[int]:
        return [self._handle] if self._handle >= 0 else []

    def close(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1
