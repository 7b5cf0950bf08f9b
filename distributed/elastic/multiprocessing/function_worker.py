"""A worker that calls a function."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection
from typing import Any

from .errors import record
from .logs import WorkerLogs
from .worker import Worker, end_with_parent, is_of_mpi_launcher

__all__ = ["FunctionWorker"]


class FunctionWorker(Worker):
    """Worker that calls a function in a process and returns its result.

    Args:
        fn: Function that another process can import, or any function if `start_method` is ``"fork"``.
        arguments: Arguments of the function.
        environment: Variables that the process gets besides those of this process.
        logs: Destinations of its streams.
        start_method: ``"spawn"``, ``"fork"`` or ``"forkserver"``.
    """

    def __init__(
        self,
        fn: Callable[..., Any],
        arguments: Sequence[Any],
        environment: Mapping[str, str],
        logs: WorkerLogs,
        start_method: str,
    ) -> None:
        for path in (logs.stdout, logs.stderr):
            if path is not None:
                open(path, "wb").close()  # it is there to be read before the process has begun
        start: Any = multiprocessing.get_context(start_method)
        self._answer, answer = start.Pipe(duplex=False)
        # The parent of a process that comes from a fork server is not this one.
        parent = None if start_method == "forkserver" else os.getpid()
        self._process = start.Process(
            target=_call, args=(fn, tuple(arguments), dict(environment), logs, answer, parent), daemon=False
        )
        self._process.start()
        answer.close()
        self.pid = self._process.pid

    def poll(self) -> int | None:
        if self.exit_code is not None:
            return self.exit_code
        code: int | None = self._process.exitcode  # before the answer, which is whole if there is a code
        if not self._answer.closed and self._answer.poll():
            with contextlib.suppress(EOFError, OSError):  # it ended without an answer, or in its middle
                self.result = self._answer.recv()
            self._answer.close()
        self.exit_code = code
        return code

    def handles(self) -> list[int]:
        answer = [] if self._answer.closed else [self._answer.fileno()]
        return [self._process.sentinel, *answer]

    def close(self) -> None:
        self._answer.close()
        if self.exit_code is not None:
            self._process.close()


def _call(
    fn: Callable[..., Any],
    arguments: tuple[Any, ...],
    environment: Mapping[str, str],
    logs: WorkerLogs,
    answer: Connection,
    parent: int | None,
) -> None:
    os.setsid()
    if parent is not None:
        end_with_parent(parent)
    for name in [name for name in os.environ if is_of_mpi_launcher(name)]:
        del os.environ[name]
    os.environ.update(environment)
    for path, stream in ((logs.stdout, sys.stdout), (logs.stderr, sys.stderr)):
        if path is not None:
            stream.flush()
            file = os.open(path, os.O_WRONLY | os.O_APPEND)
            os.dup2(file, stream.fileno())
            os.close(file)
    answer.send(record(fn)(*arguments))
