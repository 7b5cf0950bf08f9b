"""Compilation of kernels by forked processes, which put them into the store of compiled kernels.

The processes inherit the kernels, whatever module or closure has defined them, and the imported compiler. None of them
touches a device.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any, NamedTuple

from .cubin_store import find_or_compile
from .kernel_key import KernelRequest
from .lazy_kernel import LazyKernel
from .library_hash import know_library_hash

MAX_TEXT = 2000
"""Characters of an error that a process reports."""


class Compiled(NamedTuple):
    """Result of one compilation: CPU seconds, and the error's text, empty for none."""

    request: KernelRequest
    seconds: float
    error: str


def fork() -> int:
    """Fork this process like `os.fork`, without the warning that it has other threads."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def compile_forked(requests: Sequence[KernelRequest], cuda: int, workers: int) -> Iterator[Compiled]:
    """Compile kernels into the store, at most `workers` at once, and yield each result as it comes.

    Kernels with long sources are first, since they take longest. A process that the compiler ends is replaced.

    Args:
        requests: The kernels.
        cuda: CUDA version of the driver that will load them (`compile_kernel`).
        workers: Number of processes.
    """
    if not requests:
        return
    _import_compiler()
    ordered = sorted(requests, key=lambda request: -_source_length(request.kernel))
    waiting = deque(range(len(ordered)))
    active: list[_Worker] = []
    try:
        while waiting or active:
            while waiting and len(active) < workers:
                worker = _Worker(ordered, cuda, active)
                active.append(worker)
                worker.ask(waiting.popleft())
            ready = wait([worker.connection for worker in active])
            for worker in [each for each in active if each.connection in ready]:
                seconds, error, is_alive = worker.answer()
                yield Compiled(ordered[worker.index], seconds, error)
                if is_alive and waiting:
                    worker.ask(waiting.popleft())
                else:
                    active.remove(worker)
                    worker.end()
    finally:
        for worker in active:
            worker.end()


def _source_length(kernel: Any) -> int:
    return len(kernel.source if isinstance(kernel, LazyKernel) else kernel.src)


def _import_compiler() -> None:
    """Import Triton and compute the hash of its files, once for all processes."""
    from triton import compiler  # noqa: F401

    know_library_hash()


class _Worker:
    """Forked process that compiles the kernels whose indices it is sent."""

    def __init__(self, requests: Sequence[KernelRequest], cuda: int, others: Sequence[_Worker]) -> None:
        self.connection, own = Pipe()
        self.index = -1
        self.pid = fork()
        if not self.pid:
            try:
                # The end of the parent shall end this process, and the end of this process its connection.
                for other in (self, *others):
                    other.connection.close()
                gc.freeze()
                _serve(own, requests, cuda)
            finally:
                os._exit(0)
        own.close()

    def ask(self, index: int) -> None:
        """Send the index of the next kernel."""
        self.index = index
        with contextlib.suppress(BrokenPipeError):  # it has ended, which `answer` says
            self.connection.send(index)

    def answer(self) -> tuple[float, str, bool]:
        """Return the CPU seconds and the error of a kernel, and True unless the process has ended."""
        try:
            seconds, error = self.connection.recv()
        except (EOFError, ConnectionResetError):
            _, status = os.waitpid(self.pid, 0)
            self.pid = 0
            code = os.waitstatus_to_exitcode(status)
            how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
            return 0.0, f"the compiler's process ended ({how})", False
        return seconds, error, True

    def end(self) -> None:
        """End the process."""
        self.connection.close()
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.pid = 0


def _serve(connection: Connection, requests: Sequence[KernelRequest], cuda: int) -> None:
    """Compile the kernels that the parent asks for, until it ends."""
    while True:
        try:
            index = connection.recv()
        except EOFError:
            return
        before, error = _cpu_seconds(), ""
        try:
            request: KernelRequest = requests[index]
            find_or_compile(*request, cuda)
        except Exception as raised:  # the caller of `compile_forked` decides
            error = f"{type(raised).__name__}: {raised}"[:MAX_TEXT]
        connection.send((_cpu_seconds() - before, error))


def _cpu_seconds() -> float:
    """Return the CPU seconds of this process and of `ptxas`, which it runs."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
