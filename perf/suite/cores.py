"""Which core each thread of this process runs on, and waiting until none of them runs.

Left to itself the system now and then wakes a pool's thread on its master's core, where both wait for each other by
spinning until their time slices are over (some 8 ms).
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path

STEP, MOST = 0.001, 0.1  # seconds
TASKS = Path("/proc/self/task")


class Cores:
    """Holds the calling thread to the first core, and the threads of every pool to the others in turn.

    Args:
        cores: their numbers; where the system has no such calls, nothing is held (`are_held`).
    """

    def __init__(self, cores: Sequence[int]) -> None:
        self._cores = list(cores)
        self.are_held = len(self._cores) > 1 and TASKS.is_dir() and hasattr(os, "sched_setaffinity")
        self._held: set[str] = set()

    def __enter__(self) -> Cores:
        if self.are_held:
            caller = str(threading.get_native_id())
            self._held = {caller}
            _hold(caller, self._cores[:1])
            self.hold_new_threads()
        return self

    def __exit__(self, *_: object) -> None:
        if self.are_held:
            for name in os.listdir(TASKS):
                _hold(name, self._cores)

    def hold_new_threads(self) -> None:
        """Hold the threads that were started since the last call: those of one pool, in the order of their making."""
        if not self.are_held:
            return
        found = set(os.listdir(TASKS))
        others = itertools.cycle(self._cores[1:])
        for name in sorted(found - self._held, key=int):
            _hold(name, [next(others)])
        self._held = found


def _hold(thread: str, cores: Sequence[int]) -> None:
    try:
        os.sched_setaffinity(int(thread), cores)
    except ProcessLookupError:
        return  # it has ended since it was listed


def settle() -> None:
    """Wait until no thread of this process is running.

    Pools of threads wait for their next work by spinning, OpenMP's and OpenBLAS's for milliseconds: on the cores that
    the next library needs.
    """
    until = time.perf_counter() + MOST
    used = time.process_time()
    while time.perf_counter() < until:
        time.sleep(STEP)
        before, used = used, time.process_time()
        if used - before < STEP / 4:
            return
