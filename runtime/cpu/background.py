"""Background compiler of loops: a thread that compiles requested loops while NumPy computes."""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import time
import weakref
from _thread import start_new_thread
from collections.abc import Callable

from ..fork_lock import hold_across_fork
from ..spare_memory import require_memory

THREAD_BYTES = 1 << 25
"""Memory required to start a thread: its stack, and Python's start-up."""
POLL = 0.001
"""Seconds between checks whether the thread has ended."""


class _Token:
    """Thread argument; it is garbage-collected when the thread has ended, or died before its first instruction."""


class _Background:
    """Background compiler: it compiles queued loops one by one, in a thread that ends when the queue is empty.

    `threading.Thread.start` would wait forever for a thread without enough memory to report its start. Therefore the
    thread comes from `_thread`, which has no such wait.
    """

    def __init__(self) -> None:
        self.busy = threading.RLock()  # compiling a loop may plan a kernel that requests a loop at once
        self.forget()

    def forget(self) -> None:
        """Reset the state in a forked child."""
        self.lock = threading.Lock()
        self.requests: list[Callable[[], None]] = []
        self.is_warm = False
        self.starting: list[_Token] = []  # no local variable, which an interrupt's traceback would keep
        self.token: weakref.ref[_Token] | None = None

    def is_running(self) -> bool:
        """Return whether the thread makes loops now."""
        token = self.token
        return token is not None and token() is not None and not self.starting

    def ask(self, request: Callable[[], None]) -> None:
        """Queue the loop that `request` makes."""
        with self.lock:
            self.requests.append(request)
            if not self.is_running():
                self.starting = [_Token()]
                self.token = weakref.ref(self.starting[0])
                try:
                    require_memory(THREAD_BYTES, "a thread")
                    start_new_thread(self._work, (self.starting.pop(),))
                except (RuntimeError, MemoryError):  # at interpreter shutdown, or without threads or memory
                    self.requests.clear()

    def _work(self, token: _Token) -> None:
        while True:
            with self.lock:
                if not self.requests:
                    self.token = None
                    return
                request = self.requests.pop(0)
            # Without enough memory there is no loop, or no library for it: the kernel stays NumPy's.
            with contextlib.suppress(MemoryError, ImportError):
                with self.busy:
                    request()
                self.is_warm = True

    def wait(self) -> None:
        """Wait until all requested loops are compiled or have failed."""
        while self.is_running():
            time.sleep(POLL)


background = _Background()
atexit.register(background.wait)  # LLVM must not be interrupted
if hasattr(os, "register_at_fork"):
    # A forked child has no other threads: do not fork during another thread's compilation.
    hold_across_fork(background.busy)
    os.register_at_fork(after_in_child=background.forget)
