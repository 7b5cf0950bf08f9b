"""Pool of compiling processes: this one and workers, which are started for a graph and ended afterwards.

A worker takes longer to start than most kernels to compile. So this process begins, and starts workers if the rest
would take it longer than that. A worker that is not ready when nothing is left is ended. Workers are programs of their
own (`worker`), not forks: no state of this process, no CUDA and no main module reaches them.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import Sequence

from ...runtime.cuda.driver import kernel_name
from ...runtime.cuda.triton.kernel_key import KernelRequest
from .worker import READY, compile_request, import_triton

MAX_PROCESSES = 8
"""Maximum number of concurrent processes, unless ``TRITEN_COMPILE_THREADS`` sets another number."""
WORKER = f"{__package__}.worker"
START = 3.0
"""Seconds after which a process is ready; it imports Triton."""


def thread_count() -> int:
    """Return the maximum number of compiling processes. Raise ValueError if ``TRITEN_COMPILE_THREADS`` is not a
    number."""
    setting = os.environ.get("TRITEN_COMPILE_THREADS", "")
    if not setting:
        return min(MAX_PROCESSES, os.cpu_count() or 1)
    if not setting.isdecimal():
        raise ValueError(f"TRITEN_COMPILE_THREADS: expected a number of processes, got {setting!r}")
    return int(setting)


def compile_all(requests: Sequence[KernelRequest], cuda: int, count: int) -> None:
    """Compile kernels of generated sources into the cubin cache, at most `count` at once.

    A failed kernel is named in a RuntimeWarning; its launch compiles it again and raises the error. If no worker
    process can be started, this process compiles all kernels.

    Args:
        requests: The kernels.
        cuda: The CUDA version of the driver.
        count: The maximum number of processes, including this one.
    """
    in_process = deque([request for request in requests if not _is_text(request)])
    waiting = deque([request for request in requests if _is_text(request)])
    progress = _Progress(len(requests))
    errors: list[str] = []
    workers: list[_Worker] = []
    is_asked = False
    import_triton()
    try:
        while request := taken(in_process) or taken(waiting):
            before = time.perf_counter()
            failed = compile_request(request, cuda)
            took = time.perf_counter() - before
            if failed is not None:
                errors.append(f"kernel '{kernel_name(request.kernel)}' does not compile: {failed}")
            progress.step()
            if waiting and not is_asked and len(waiting) * took >= START:
                is_asked = True
                workers = _started(min(count - 1, len(waiting)), waiting, cuda, progress, errors)
        for worker in workers:
            worker.finish()
    finally:
        for worker in workers:
            worker.end()
        progress.end()
    for error in errors:
        warnings.warn(f"compile: {error}", RuntimeWarning, stacklevel=2)


def taken(waiting: deque[KernelRequest]) -> KernelRequest | None:
    """Take the next kernel, or None."""
    try:
        return waiting.popleft()
    except IndexError:
        return None


def _is_text(request: KernelRequest) -> bool:
    """Return True if a kernel can be sent to a worker: its constants are not functions."""
    return all(isinstance(value, int | float | str | None) for value in request.constexprs.values())


def request_to_json(request: KernelRequest, cuda: int) -> str:
    """Return a request to a worker, as a line of JSON."""
    return json.dumps(
        {
            "text": request.kernel.module_source,
            "name": request.kernel.__name__,
            "signature": dict(request.signature),
            "constexprs": dict(request.constexprs),
            "divisible": sorted(request.divisible),
            "capability": request.capability,
            "options": dict(request.options),
            "cuda": cuda,
        }
    )


def _started(
    count: int, waiting: deque[KernelRequest], cuda: int, progress: _Progress, errors: list[str]
) -> list[_Worker]:
    workers: list[_Worker] = []
    while len(workers) < count:
        try:
            workers.append(_Worker(waiting, cuda, progress, errors))
        except OSError as error:
            errors.append(f"no process can be started to compile kernels: {error}")
            break
    return workers


class _Worker:
    """Worker process, and the thread that sends it one kernel after the other.

    Raises:
        OSError: No process can be started.
    """

    def __init__(
        self, waiting: deque[KernelRequest], cuda: int, progress: _Progress, errors: list[str]
    ) -> None:
        self.waiting, self.cuda, self.progress, self.errors = waiting, cuda, progress, errors
        self.is_ready = self.is_ended = False
        # Triton's interpreter must be off in the worker, and this process's import path must be set.
        environment = {k: v for k, v in os.environ.items() if k not in ("TRITEN_CUDA", "TRITON_INTERPRET")}
        environment["PYTHONPATH"] = os.pathsep.join(each for each in sys.path if each)
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", WORKER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self.thread = threading.Thread(target=self._work, daemon=True)
        self.thread.start()

    def _work(self) -> None:
        requests, answers = self.process.stdin, self.process.stdout
        assert requests is not None and answers is not None
        if answers.readline() != READY:
            if not self.is_ended:
                self.errors.append("a process that was to compile kernels ended at its start")
            return
        self.is_ready = True
        while request := taken(self.waiting):
            name = kernel_name(request.kernel)
            try:
                requests.write(request_to_json(request, self.cuda) + "\n")
                requests.flush()
                failed = json.loads(answers.readline())["error"]
            except (OSError, ValueError) as error:
                if not self.is_ended:
                    self.errors.append(f"the process that compiled kernel '{name}' gave no answer: {error}")
                return
            if failed is not None:
                self.errors.append(f"kernel '{name}' does not compile: {failed}")
            self.progress.step()

    def finish(self) -> None:
        """Wait for the kernel that it compiles; end one that has none yet."""
        if not self.is_ready:
            self.end()
        self.thread.join()

    def end(self) -> None:
        """End the process, whatever it does."""
        self.is_ended = True
        self.process.kill()
        self.thread.join()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):  # unsent requests to a process that has ended
                pipe.close()
        self.process.wait()


class _Progress:
    """Progress line on the terminal; nothing if stderr is not a terminal."""

    def __init__(self, count: int) -> None:
        self.count, self.done = count, 0
        self.is_shown = sys.stderr is not None and sys.stderr.isatty()
        self._lock = threading.Lock()
        self._show()

    def step(self) -> None:
        """Record that one more kernel is done."""
        with self._lock:
            self.done += 1
            self._show()

    def end(self) -> None:
        """Take the line away."""
        if self.is_shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def _show(self) -> None:
        if self.is_shown:
            sys.stderr.write(f"\rcompiling kernels: {self.done} of {self.count}")
            sys.stderr.flush()
