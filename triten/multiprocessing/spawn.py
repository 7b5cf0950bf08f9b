"""Several processes of one function that are waited for, and that fail, together (`torch.multiprocessing.spawn`)."""

from __future__ import annotations

import ctypes
import multiprocessing
import multiprocessing.connection
import os
import pickle
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from typing import Any

__all__ = [
    "ProcessContext",
    "ProcessException",
    "ProcessExitedException",
    "ProcessRaisedException",
    "spawn",
    "start_processes",
]

LAST_WAIT = 30.0
"""Seconds that a process which was asked to end has for it before it is killed."""

PARENT_DEATH_SIGNAL = 1
"""Linux's number of ``prctl(PR_SET_PDEATHSIG)``."""


class ProcessException(Exception):
    """One of several processes has failed: its number, and its number with the system."""

    def __init__(self, msg: str, error_index: int, error_pid: int) -> None:
        super().__init__(msg)
        self.msg = msg
        self.error_index = error_index
        self.error_pid = error_pid

    def __reduce__(self) -> Any:
        return type(self), (self.msg, self.error_index, self.error_pid)


class ProcessRaisedException(ProcessException):
    """A process has raised an exception, whose traceback is in the message."""


class ProcessExitedException(ProcessException):
    """A process has ended by a signal, or with another code than 0."""

    def __init__(
        self, msg: str, error_index: int, error_pid: int, exit_code: int, signal_name: str | None = None
    ) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code = exit_code
        self.signal_name = signal_name

    def __reduce__(self) -> Any:
        return type(self), (self.msg, self.error_index, self.error_pid, self.exit_code, self.signal_name)


def _run(fn: Callable[..., Any], index: int, args: Sequence[Any], error_file: str) -> None:
    if sys.platform == "linux":
        # A process whose parent is gone ends too.
        ctypes.CDLL(None).prctl(PARENT_DEATH_SIGNAL, signal.SIGINT)
    try:
        fn(index, *args)
    except KeyboardInterrupt:
        pass  # of the parent, which knows
    except Exception:
        with open(error_file, "wb") as file:
            pickle.dump(traceback.format_exc(), file)
        sys.exit(1)


class ProcessContext:
    """Processes that have been started: see `start_processes`."""

    def __init__(self, processes: Sequence[Any], error_files: Sequence[str]) -> None:
        self.processes = processes
        self.error_files = error_files
        self.sentinels = {process.sentinel: index for index, process in enumerate(processes)}

    def pids(self) -> list[int]:
        """The processes' numbers with the system."""
        return [int(process.pid) for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait until a process has ended; where it failed, end the others and raise what it failed with.

        Args:
            timeout: how long to wait, in seconds.
            grace_period: how long the others have to end by themselves before they are told to, and then before they
                are killed.

        Returns:
            Whether all have ended.

        Raises:
            ProcessRaisedException: one has raised an exception.
            ProcessExitedException: one has ended by a signal, or with a code.
        """
        if not self.sentinels:
            return True
        failed = None
        for sentinel in multiprocessing.connection.wait(self.sentinels.keys(), timeout=timeout):
            index = self.sentinels.pop(sentinel)
            self.processes[index].join()
            if self.processes[index].exitcode != 0:
                failed = index
                break
        if failed is None:
            return not self.sentinels
        self._end(grace_period)
        raise self._error(failed)

    def _end(self, grace_period: float | None) -> None:
        if grace_period is not None:
            self._wait(grace_period)
        for process in self.processes:
            if process.is_alive():
                process.terminate()
        self._wait(LAST_WAIT if grace_period is None else grace_period)
        for process in self.processes:
            if process.is_alive():
                process.kill()
            process.join()

    def _wait(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        for process in self.processes:
            process.join(max(0.0, end - time.monotonic()))

    def _error(self, index: int) -> ProcessException:
        process = self.processes[index]
        if os.path.exists(self.error_files[index]):
            with open(self.error_files[index], "rb") as file:
                text = pickle.load(file)
            os.remove(self.error_files[index])
            message = f"\n\n-- Process {index:d} terminated with the following error:\n{text}"
            return ProcessRaisedException(message, index, process.pid)
        code = process.exitcode
        if code >= 0:
            message = f"process {index:d} terminated with exit code {code:d}"
            return ProcessExitedException(message, index, process.pid, code)
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"<Unknown signal {-code}>"
        return ProcessExitedException(
            f"process {index:d} terminated with signal {name}", index, process.pid, code, name
        )


def start_processes(
    fn: Callable[..., Any],
    args: Sequence[Any] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Start processes that call ``fn(i, *args)`` (`torch.multiprocessing.start_processes`).

    Args:
        fn: a function of a module's own, which another process can import. Its first argument is the process's number.
        args: the other arguments; their tensors are shared.
        nprocs: how many processes.
        join: whether to wait for them; one that fails has the others ended.
        daemon: whether they are ended with this process.
        start_method: ``"spawn"``, ``"fork"`` or ``"forkserver"``.

    Returns:
        None, or a `ProcessContext` where nobody waits.

    Raises:
        ProcessRaisedException: one has raised an exception.
        ProcessExitedException: one has ended by a signal, or with a code.
    """
    start = multiprocessing.get_context(start_method)
    processes: list[Any] = []
    error_files: list[str] = []
    for index in range(nprocs):
        # A name that is free: the file is there if the process has failed.
        descriptor, name = tempfile.mkstemp(prefix="triten-error-", suffix=".pickle")
        os.close(descriptor)
        os.remove(name)
        process = start.Process(target=_run, args=(fn, index, args, name), daemon=daemon)  # type: ignore[attr-defined]
        try:
            process.start()
        except BaseException:
            ProcessContext(processes, error_files)._end(None)
            raise
        processes.append(process)
        error_files.append(name)
    context = ProcessContext(processes, error_files)
    if not join:
        return context
    while not context.join():
        pass
    return None


def spawn(
    fn: Callable[..., Any],
    args: Sequence[Any] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """`start_processes` by the method ``"spawn"``, whatever the last argument says (`torch.multiprocessing.spawn`)."""
    if start_method != "spawn":
        warnings.warn(
            f"This method only supports start_method=spawn (got: {start_method}).\nTo use a different start_method use:"
            "\n\t\t torch.multiprocessing.start_processes(...)",
            FutureWarning,
            stacklevel=2,
        )
    return start_processes(fn, args, nprocs, join, daemon, "spawn")
