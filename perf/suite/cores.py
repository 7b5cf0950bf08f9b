"""Pinning of this process's threads to cores, and waiting until no other thread runs.

Without pinning, the system sometimes wakes a pool's thread on its master's core. Both then spin on each other
until their time slices end (some 8 ms).
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

STEP, MAX_WAIT = 0.001, 0.1  # seconds
TASKS = Path("/proc/self/task")


def available_cores() -> list[int]:
    """Return the cores that the calling thread may use; empty if the system does not report them."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


class Cores:
    """Holds the calling thread to the first core, and every other thread of the process to one of the others.

    Args:
        numbers: the cores' numbers. With one, all threads are held to it; with none, or where the system has no such
            calls, nothing is held.

    Attributes:
        held: the cores in use, the calling thread's first; empty where nothing is held, or may be.

    Example:
        >>> from triten.perf.suite.cores import Cores, available_cores
        >>> before = available_cores()
        >>> with Cores(before[:1]) as cores:
        ...     available_cores() == cores.held
        True
        >>> available_cores() == before
        True
    """

    def __init__(self, numbers: Sequence[int]) -> None:
        self.held = list(numbers) if TASKS.is_dir() and hasattr(os, "sched_setaffinity") else []
        self._core_of: dict[int, int] = {}
        self._before: dict[int, Collection[int]] = {}
        self._caller = 0

    def __enter__(self) -> Cores:
        if not self.held:
            return self
        self._caller = threading.get_native_id()
        self._before = {thread: _cores_of(thread) for thread in _threads()}
        try:
            self.hold_new_threads()
        except PermissionError:  # a sandbox's
            self._caller, self.held = 0, []
        except BaseException:  # __exit__ does not run then: an interrupt must not leave the process pinned
            self._restore()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self.held:
            self._restore()

    def _restore(self) -> None:
        whole = self._before[self._caller]
        for thread in _threads():
            _hold(thread, self._before.get(thread) or whole)
        self._core_of = {}
        self._caller = 0

    def hold_new_threads(self) -> None:
        """Hold the threads that were started since the last call: those of one pool to different cores."""
        if not self._caller:
            return
        threads = _threads()
        self._core_of = {thread: core for thread, core in self._core_of.items() if thread in threads}
        if self._caller not in self._core_of:
            self._core_of[self._caller] = self.held[0]
            _hold(self._caller, self.held[:1])
        load = Counter(self._core_of.values())
        free = sorted(self.held[1:] or self.held, key=lambda core: load[core])
        for index, thread in enumerate(sorted(threads - self._core_of.keys())):
            self._core_of[thread] = free[index % len(free)]
            _hold(thread, [self._core_of[thread]])

    @contextmanager
    def released(self) -> Iterator[None]:
        """Unpin the calling thread inside the context, so that a process started there begins with all of its
        cores.
        """
        if not self._caller:
            yield
            return
        _hold(self._caller, self._before[self._caller])
        try:
            yield
        finally:
            _hold(self._caller, self.held[:1])


def _threads() -> set[int]:
    return {int(name) for name in os.listdir(TASKS)}


def _cores_of(thread: int) -> Collection[int]:
    try:
        return os.sched_getaffinity(thread)
    except ProcessLookupError:
        return ()  # it has ended since it was listed, and is not restored


def _hold(thread: int, cores: Collection[int]) -> None:
    try:
        os.sched_setaffinity(thread, cores)
    except ProcessLookupError:
        return  # it has ended since it was listed


def settle() -> None:
    """Wait until no other thread of this process is running, for at most `MAX_WAIT` seconds.

    Thread pools spin while they wait for work, OpenMP's and OpenBLAS's for milliseconds, on the cores that
    the next library needs. CPU time does not reveal a spinning thread, since the system updates it only at
    ticks of 4 ms or more. Threads are therefore asked for their states, if the system reports them.
    """
    until = time.perf_counter() + MAX_WAIT
    used = time.process_time()
    while time.perf_counter() < until:
        time.sleep(STEP)
        if TASKS.is_dir():
            if not _others_run():
                return
            continue
        before, used = used, time.process_time()
        if used - before < STEP / 4:
            return


def _others_run() -> bool:
    """Return True if another thread of this process is running or runnable."""
    caller = threading.get_native_id()
    for thread in _threads():
        try:
            state = (TASKS / str(thread) / "stat").read_text().rpartition(")")[2].split(maxsplit=1)[0]
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended since it was listed
        if state == "R" and thread != caller:
            return True
    return False
