"""Threads for host kernels: `parallel_for`, `parallel_reduce` and their thread pool (ATen/Parallel.h).

A range is split into more chunks than there are threads, and each thread claims the next free one. A thread that wakes
late (an idle core needs some 70 us) finds fewer chunks. The caller does not wait for it if none is left. The first call
with work creates the pool, as does the first after a fork. NumPy kernels release the GIL for long enough from some tens
of thousands of elements; between two kernels a thread may have to wait for it.
"""

from __future__ import annotations

import contextvars
import itertools
import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from . import blas_threads
from .available_cores import available_cores
from .thread_state import inherited

if TYPE_CHECKING:
    from queue import SimpleQueue

T = TypeVar("T")

GRAIN_SIZE = 32768
"""Default minimum of elements for each thread."""
CHUNKS_OF_THREAD = 4
"""Chunks for each thread if the grain size allows it: a thread that finishes early takes unclaimed chunks."""


def _default_num_threads() -> int:
    named = os.environ.get("OMP_NUM_THREADS", "")
    if named.isdecimal() and int(named) > 0:
        return int(named)
    cores = available_cores()
    if cores < (os.cpu_count() or 1):
        blas_threads.set_blas_threads(cores)  # OpenBLAS knows no quota.
    return cores


class _Job:
    """One call of `parallel_for`: its chunks, which threads claim one by one, and their outcome."""

    __slots__ = ("chunks", "claim", "completed", "context", "errors", "finished", "fn")

    def __init__(self, fn: Callable[[int, int], object], chunks: list[tuple[int, int]]) -> None:
        self.fn: Callable[[int, int], object] | None = fn
        self.chunks = chunks
        # Counters of itertools are atomic under the GIL.
        self.claim = itertools.count().__next__
        self.completed = itertools.count(1).__next__
        self.finished = threading.Lock()
        self.finished.acquire()
        self.errors: dict[int, BaseException] = {}

    def work(self, thread_num: int) -> None:
        """Claim and run chunks until none is left."""
        chunks, claim = self.chunks, self.claim
        count = len(chunks)
        _region.is_inside, _region.thread_num = True, thread_num
        try:
            while (i := claim()) < count:
                try:
                    fn = self.fn  # another thread may clear it at any time
                    if fn is not None:
                        fn(*chunks[i])
                except BaseException as error:
                    self.errors[i] = error
                    if not isinstance(error, Exception):
                        self.fn = None  # interrupted: the remaining chunks are not started
                if self.completed() == count:
                    self.finished.release()
        finally:
            _region.is_inside, _region.thread_num = False, 0


class _Pool:
    """The threads other than the caller's."""

    def __init__(self) -> None:
        self.num_threads = _default_num_threads()
        self.forget_threads()

    def forget_threads(self) -> None:
        """Reset to no threads and a new lock, in a forked child."""
        self.lock = threading.Lock()
        self.jobs: SimpleQueue[tuple[contextvars.Context, _Job] | None] | None = None
        self.running = 0

    def resize(self, num_threads: int) -> None:
        """Change the number of threads; busy threads finish their work first."""
        with self.lock:
            if num_threads != self.num_threads:
                self.num_threads = num_threads
                if self.jobs is not None:
                    for _ in range(self.running):
                        self.jobs.put(None)
                self.jobs, self.running = None, 0

    def get(self) -> SimpleQueue[tuple[contextvars.Context, _Job] | None]:
        """Return the job queue of the threads; start them if none is running."""
        from queue import SimpleQueue

        with self.lock:
            if self.jobs is None:
                jobs: SimpleQueue[tuple[contextvars.Context, _Job] | None] = SimpleQueue()
                for number in range(1, self.num_threads):
                    threading.Thread(
                        target=_serve, args=(jobs, number), name=f"triten-parallel_{number}", daemon=True
                    ).start()
                # Assigned last: after an interrupt the next call starts all of them.
                self.jobs, self.running = jobs, self.num_threads - 1
            return self.jobs


def _serve(jobs: SimpleQueue[tuple[contextvars.Context, _Job] | None], thread_num: int) -> None:
    """Run jobs in a pool thread. It holds no reference to a job while it waits for the next one."""
    while True:
        taken = jobs.get()
        if taken is None:
            return
        taken[0].run(taken[1].work, thread_num)
        del taken


class _Region(threading.local):
    """Thread-local state of parallel regions: whether the thread is inside one, and its number there."""

    is_inside = False
    thread_num = 0


_pool = _Pool()
_region = inherited(_Region())
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.forget_threads)


def set_num_threads(num_threads: int) -> None:
    """Set the number of threads of host kernels, including NumPy's and SciPy's OpenBLAS (`torch.set_num_threads`).

    Args:
        num_threads: Number of threads; 1 means no pool.

    Raises:
        RuntimeError: `num_threads` is not a positive integer.
        ValueError: It does not fit into 32 bits.

    Example:
        >>> import triten as tt
        >>> before = tt.get_num_threads()
        >>> tt.set_num_threads(2); tt.get_num_threads()
        2
        >>> tt.set_num_threads(before)
    """
    if isinstance(num_threads, bool) or not isinstance(num_threads, int):
        raise RuntimeError(f"set_num_threads expects an int, but got {type(num_threads).__name__}")
    if num_threads >= 2**31:
        raise ValueError(
            f"Overflow when unpacking long: set_num_threads expects 32 bits, but got {num_threads}"
        )
    if num_threads < 1:
        raise RuntimeError("set_num_threads expects a positive integer")
    _pool.resize(num_threads)
    blas_threads.set_blas_threads(num_threads)


def get_num_threads() -> int:
    """Return the number of threads of host kernels (`torch.get_num_threads`).

    Returns:
        A number; at first that of the environment variable OMP_NUM_THREADS, or of the cores that the affinity mask and
            the CPU quota of the control group allow.

    Example:
        >>> import triten as tt
        >>> tt.get_num_threads() > 0
        True
    """
    return _pool.num_threads


def in_parallel_region() -> bool:
    """Return whether the caller runs inside `parallel_for`, where nested calls do not split further."""
    return _region.is_inside


def get_thread_num() -> int:
    """Return the number of the thread that runs the caller's chunk of a parallel region, 0 outside."""
    return _region.thread_num


def chunk_ranges(begin: int, end: int, grain_size: int, max_chunks: int) -> list[tuple[int, int]]:
    """Return at most `max_chunks` equal ranges of at least `grain_size`.

    >>> chunk_ranges(0, 10, 4, 8)
    [(0, 4), (4, 8), (8, 10)]
    """
    if end <= begin:
        return []
    size = max(-(-(end - begin) // max_chunks), grain_size, 1)
    return [(start, min(start + size, end)) for start in range(begin, end, size)]


def parallel_for(begin: int, end: int, grain_size: int, fn: Callable[[int, int], object]) -> None:
    """Call ``fn(chunk_begin, chunk_end)`` over chunks of a range, on several threads if there are several chunks.

    The calling thread also takes chunks, beginning with the first. A range has up to `CHUNKS_OF_THREAD` chunks per
    thread. Chunks run in copies of the caller's context (`contextvars`), and NumPy's BLAS uses one thread in each.
    After all chunks have ended, the exception of the first failed chunk, in range order, is raised.

    Example:
        >>> seen = []
        >>> parallel_for(0, 4, 8, lambda i, j: seen.append((i, j)))
        >>> seen
        [(0, 4)]
    """
    if grain_size < 0:
        raise RuntimeError(f"parallel_for expects a grain size of 0 or more, but got {grain_size}")
    if end <= begin:
        return
    threads = _pool.num_threads
    if threads == 1 or end - begin <= grain_size or _region.is_inside:
        fn(begin, end)
        return
    job = _Job(fn, chunk_ranges(begin, end, grain_size, CHUNKS_OF_THREAD * threads))
    jobs = _pool.get()
    of_blas = blas_threads.numpy_threads()
    try:
        blas_threads.hold(of_blas)
        for _ in range(min(threads, len(job.chunks)) - 1):
            jobs.put((contextvars.copy_context(), job))
        job.work(0)
        job.finished.acquire()
    finally:
        blas_threads.restore(of_blas)
    job.fn = None  # a thread that wakes late must not keep its arrays alive
    for i in sorted(job.errors):
        raise job.errors[i]


def parallel_reduce(
    begin: int,
    end: int,
    grain_size: int,
    identity: T,
    fn: Callable[[int, int, T], T],
    combine: Callable[[T, T], T],
) -> T:
    """Reduce a range: call ``fn(chunk_begin, chunk_end, identity)`` for each chunk, and combine in range order.

    Chunks depend on the grain size and not on the number of threads, so rounding errors do not either.

    Example:
        >>> parallel_reduce(0, 10, 4, 0, lambda i, j, start: start + sum(range(i, j)), lambda a, b: a + b)
        45
    """
    if grain_size < 1:
        raise RuntimeError(f"parallel_reduce expects a positive grain size, but got {grain_size}")
    starts = range(begin, end, grain_size)
    partial: list[T] = [identity] * len(starts)

    def reduce_chunks(first: int, last: int) -> None:
        for i in range(first, last):
            partial[i] = fn(starts[i], min(starts[i] + grain_size, end), identity)

    parallel_for(0, len(starts), 1, reduce_chunks)
    total = identity
    for value in partial:
        total = combine(total, value)
    return total
