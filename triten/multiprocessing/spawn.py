"""Processes that run one function and that fail together (`torch.multiprocessing.spawn`)."""

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
"""Seconds between a process's SIGTERM and its SIGKILL, without a `grace_period`."""

PARENT_DEATH_SIGNAL = 1
"""Linux's ``PR_SET_PDEATHSIG`` option of ``prctl``."""


class ProcessException(Exception):
    """One of several processes has failed; `error_index` is its rank, `error_pid` its process id."""

    def __init__(self, msg: str, error_index: int, error_pid: int) -> None:
        super().__init__(msg)
        self.msg = msg
        self.error_index = error_index
        self.error_pid = error_pid

    def __reduce__(self) -> Any:
        return type(self), (self.msg, self.error_index, self.error_pid)


class ProcessRaisedException(ProcessException):
    """A process has raised an exception; the message has the traceback."""


class ProcessExitedException(ProcessException):
    """A process has ended by a signal, or with a nonzero exit code."""

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
        # The kernel interrupts this process when its parent dies.
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
    """The started processes of a `start_processes` call."""

    def __init__(self, processes: Sequence[Any], error_files: Sequence[str]) -> None:
        self.processes = processes
        self.error_files = error_files
        self.sentinels = {process.sentinel: index for index, process in enumerate(processes)}

    def pids(self) -> list[int]:
        """Return the process ids."""
        return [int(process.pid) for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait until a process has ended. If it failed, end the others and raise its error.

        Args:
            timeout: The time to wait, in seconds. Default: no limit.
            grace_period: After a failure, the seconds that the others have to end by themselves, and then, after
                SIGTERM, before SIGKILL. Default: SIGTERM at once, and SIGKILL after 30 seconds.

        Returns:
            Whether all processes have ended.

        Raises:
            ProcessRaisedException: A process has raised an exception.
            ProcessExitedException: A process has ended by a signal, or with a nonzero exit code.
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
        fn: A module-level function, which another process can import. Its first argument is the process's index.
        args: The other arguments; their tensors are shared.
        nprocs: The number of processes. Default: 1.
        join: If True, wait until all processes have ended; a failure ends the others. Default: True.
        daemon: If True, the processes end with this process. Default: False.
        start_method: ``"spawn"``, ``"fork"`` or ``"forkserver"``.

    Returns:
        None, or a `ProcessContext` if `join` is False.

    Raises:
        ProcessRaisedException: A process has raised an exception.
        ProcessExitedException: A process has ended by a signal, or with a nonzero exit code.
    """
    start = multiprocessing.get_context(start_method)
    processes: list[Any] = []
    error_files: list[str] = []
    for index in range(nprocs):
        # Only the unused name is kept: the process writes the file if it raises an exception.
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
    """Start processes with the method ``"spawn"`` (`torch.multiprocessing.spawn`); see `start_processes`.

    Another `start_method` is ignored with a FutureWarning.
    """
    if start_method != "spawn":
        warnings.warn(
            f"This method only supports start_method=spawn (got: {start_method}).\nTo use a different start_method use:"
            "\n\t\t torch.multiprocessing.start_processes(...)",
            FutureWarning,
            stacklevel=2,
        )
    return start_processes(fn, args, nprocs, join, daemon, "spawn")
