"""Native threads that share the parts of compiled loops without Python (`task_pool_source`).

They are as many as those of `parallel_for`, and the caller is one of them. They need Linux on x86-64 or AArch64;
elsewhere `parallel_for` shares a loop.
"""

from __future__ import annotations

import ctypes
import functools
import os
import platform
import sys
import threading
from _thread import start_new_thread
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..parallel import get_num_threads, in_parallel_region, parallel_for
from ..spare_memory import require_memory
from .loop_requests import Sharing
from .object_code import loop_function, part_address, target
from .task_pool_source import FUTEX, LENGTH, WAKE, WORDS, share_text, worker_text
from .workspace import borrow, give_back

STACK_BYTES = 1 << 24
"""Memory that must be there to start a thread."""
GAP = 256
"""Bytes between the workspaces of threads."""
Array = np.ndarray[Any, Any]
Loop = Callable[..., None]


class TaskPool:
    """Threads, and the memory through which they receive work.

    Args:
        threads: The number of threads, including the caller.
    """

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.words = np.zeros(LENGTH + 8, np.int64)
        begin = -self.words.ctypes.data // 8 % 8
        self.words = self.words[begin : begin + LENGTH]
        self.words[WORDS["threads"]] = threads
        worker = loop_function(worker_text(_machine()))
        self.numbers = [np.array([number]) for number in range(1, threads)]
        require_memory(threads * STACK_BYTES, "a pool of threads")
        try:
            for number in self.numbers:
                # `Thread.start` would wait for ever for a thread that has no memory for Python's part of its start.
                start_new_thread(worker, (self.words, number))
        except RuntimeError:  # The system has no more threads.
            self.stop()
            raise

    def stop(self) -> None:
        """Stop the threads after their current work."""
        self.words[WORDS["stopped"]] = 1
        self.words[WORDS["generation"]] += 1
        address = ctypes.c_void_p(self.words.ctypes.data + 8 * WORDS["generation"])
        ctypes.CDLL(None).syscall(
            ctypes.c_long(FUTEX[_machine()]), address, WAKE, self.threads, None, None, 0
        )


class _Pools:
    """The pool of this process; a fork's child has none of the threads, and makes its own."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Reset the state after a fork."""
        self.lock = threading.Lock()
        self.pool: TaskPool | None = None

    def get(self) -> TaskPool:
        """Return the pool with as many threads as `parallel_for` has."""
        pool, threads = self.pool, get_num_threads()
        if pool is not None and pool.threads == threads:
            return pool
        with self.lock:
            pool = self.pool
            if pool is None or pool.threads != threads:
                self.pool = None  # an interrupt must not leave one that is stopped
                if pool is not None:
                    pool.stop()
                pool = self.pool = TaskPool(threads)
            return pool


_pools = _Pools()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pools.forget)


def _machine() -> str:
    machine = platform.machine().lower()
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(machine, machine)


@functools.cache
def _share() -> Loop | None:
    """Return the function that shares a loop; None if there is no pool."""
    if target() is None or sys.platform != "linux" or _machine() not in FUTEX:
        return None
    return loop_function(share_text(_machine()))


def shared_loop(
    loop: Loop,
    parts: Sequence[Array],
    sharing: Sharing,
    workspace: tuple[int, int] | None = None,
) -> Loop:
    """Return a function of a loop's arrays that computes all parts of an index space, on several threads if shared.

    Args:
        loop: The loop, called with the numbers of a part, and the arrays.
        parts: The numbers of each part, equally many for all.
        sharing: How threads share the parts.
        workspace: The position of the workspace among the arrays, and its bytes: the function is called without it.
            Default: None.
    """
    if len(parts) == 1 and workspace is None:
        (whole,) = parts
        return functools.partial(loop, whole)
    share = _share() if sharing and len(parts) > 1 else None
    if share is None:
        return _by_parallel_for(loop, parts, sharing, workspace)
    return _SharedLoop(share, loop, np.array(parts), workspace, waking=sharing is Sharing.WAKING)


class _SharedLoop:
    """Loop that threads of the pool share. It holds the loop, whose code they call by its address."""

    __slots__ = ("loop", "numbers", "place", "share", "size", "table")

    def __init__(
        self, share: Loop, loop: Loop, table: Array, workspace: tuple[int, int] | None, *, waking: bool
    ) -> None:
        self.share, self.loop, self.table = share, loop, table
        position, size = workspace or (-1, 0)
        self.place, self.size = position, _apart(size)
        self.numbers = np.array([part_address(loop), *table.shape, position, self.size, int(waking)])

    def __call__(self, *arrays: Array) -> None:
        words, position = _words(), self.place
        if position < 0:
            self.share(words, self.numbers, self.table, *arrays)
            return
        room = borrow(self.size * int(words[WORDS["threads"]]) - GAP)
        try:
            self.share(words, self.numbers, self.table, *arrays[:position], room, *arrays[position:])
        finally:
            give_back(room)


def _apart(size: int) -> int:
    """Return the bytes of a thread's workspace, and a gap to the next one: threads share none of its cache lines.

    The memory starts anywhere in a line, and processors fetch lines in pairs.
    """
    return -(-size // 64) * 64 + GAP


_alone = np.zeros(LENGTH, np.int64)
_alone[WORDS["threads"]] = 1


def _words() -> Array:
    """Return those of the pool; a lone caller's inside a parallel region and without memory for threads."""
    if in_parallel_region() or get_num_threads() == 1:
        return _alone
    try:
        return _pools.get().words
    except (MemoryError, RuntimeError):
        return _alone


def _by_parallel_for(
    loop: Loop, parts: Sequence[Array], sharing: Sharing, workspace: tuple[int, int] | None
) -> Loop:
    grain = 1 if sharing is Sharing.WAKING else len(parts)

    def compute(*arrays: Array) -> None:
        def some(first: int, last: int) -> None:
            if workspace is None:
                for part in parts[first:last]:
                    loop(part, *arrays)
                return
            position, size = workspace
            room = borrow(size)
            try:
                for part in parts[first:last]:
                    loop(part, *arrays[:position], room, *arrays[position:])
            finally:
                give_back(room)

        parallel_for(0, len(parts), grain, some)

    return compute
