"""Caching allocator for page-locked host memory, which copies reach without staging (`Tensor.pin_memory`).

Page-locking is slow, so blocks are cached by size and reused. An asynchronous copy records an event with its block. A
freed block is reused only when all its events have happened. Source: the rules of at::CachingHostAllocator
(ATen/core/CachingHostAllocator.h). Here the event follows the copy immediately, instead of being recorded on the
stream when the block is freed.

Garbage collection may free blocks: freeing appends to a queue and is lock-free.
"""

from __future__ import annotations

import ctypes
import threading
import time
from bisect import bisect_right, insort
from collections import deque
from collections.abc import Callable
from typing import Any

from ...allocator import Allocator
from ...data_ptr import DataPtr
from ...device import CPU
from ...device import device as Device
from ...errors import OutOfMemoryError
from ..driver import Driver, current_driver, driver
from .statistics import Stat

MIN_BLOCK = 64


class Duration:
    """Durations of driver calls, in microseconds."""

    __slots__ = ("count", "max", "min", "total")

    def __init__(self) -> None:
        self.count = self.total = self.max = self.min = 0

    def add(self, seconds: float) -> None:
        """Add the duration of one call."""
        taken = int(seconds * 1e6)
        self.min = taken if self.count == 0 else min(self.min, taken)
        self.max = max(self.max, taken)
        self.total += taken
        self.count += 1

    def as_dict(self) -> dict[str, float]:
        """Return all statistics and their average under PyTorch's names."""
        numbers: dict[str, float] = {name: getattr(self, name) for name in self.__slots__}
        return numbers | {"avg": self.total / self.count if self.count else 0.0}


class PinnedBlock:
    """Block of page-locked memory. `events` holds the event behind the last copy of each device and stream."""

    __slots__ = ("address", "events", "nbytes")

    def __init__(self, address: int, nbytes: int) -> None:
        self.address = address
        self.nbytes = nbytes
        self.events: dict[tuple[int, int], int] = {}

    def __lt__(self, other: PinnedBlock) -> bool:
        return self.address < other.address


class CachingHostAllocator(Allocator):
    """Caching allocator for the process's page-locked memory.

    Example:
        >>> import triten as tt
        >>> x = tt.empty(1000, pin_memory=True)
        >>> tt.cuda.host_memory_stats()["active_bytes.current"] >= 4096
        True
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._driver: Driver | None = None
        self._free: dict[int, list[PinnedBlock]] = {}
        self._blocks: list[PinnedBlock] = []
        """All blocks, sorted by address. The list is replaced as a whole, so `find` is lock-free."""
        self._given_back: deque[PinnedBlock] = deque()
        self._in_use: deque[PinnedBlock] = deque()
        self.allocations, self.allocated_bytes, self.active_requests, self.active_bytes = (
            Stat() for _ in range(4)
        )
        self.alloc_time, self.free_time = Duration(), Duration()

    def allocate(self, nbytes: int, device: Device = CPU) -> DataPtr:
        """Allocate uninitialized page-locked host memory; return a null pointer for 0 bytes.

        Raises RuntimeError without a CUDA device, OutOfMemoryError if the host is out of memory even after the cache
        has been emptied.
        """
        if nbytes <= 0:
            return DataPtr(0, 0, CPU)
        cuda = self._driver
        if cuda is None:
            cuda = self._driver = driver()
        size = max(MIN_BLOCK, 1 << (nbytes - 1).bit_length())
        with self._lock:
            self._reclaim(cuda)
            waiting = self._free.get(size)
            block = waiting.pop() if waiting else self._new_block(cuda, size)
            self.active_requests.increase(1)
            self.active_bytes.increase(size)
        return DataPtr(block.address, nbytes, CPU, None, self._give_back, block)

    def _new_block(self, cuda: Driver, size: int) -> PinnedBlock:
        start = time.perf_counter()
        try:
            address = cuda.malloc_host(size)
        except OutOfMemoryError:
            self.empty_cache()
            address = cuda.malloc_host(size)
        self.alloc_time.add(time.perf_counter() - start)
        block = PinnedBlock(address, size)
        blocks = self._blocks.copy()
        insort(blocks, block)
        self._blocks = blocks
        self.allocations.increase(1)
        self.allocated_bytes.increase(size)
        return block

    def _give_back(self, data: DataPtr) -> None:
        # Look up no module globals: the interpreter may have cleared them at shutdown.
        block: PinnedBlock = data.context  # type: ignore[assignment]
        self._given_back.append(block)

    def _reclaim(self, cuda: Driver) -> None:
        """Move freed blocks into the free lists, except those that copies still use."""
        while self._given_back:
            self._in_use.append(self._given_back.popleft())
        if cuda.unsafe_calls_prohibited():
            return
        for _ in range(len(self._in_use)):
            # Remove a block only once it is done: a query may raise a failure of its stream.
            if _copies_are_done(cuda, self._in_use[0]):
                block = self._in_use.popleft()
                self._free.setdefault(block.nbytes, []).append(block)
                self.active_requests.decrease(1)
                self.active_bytes.decrease(block.nbytes)
            else:
                self._in_use.rotate(-1)

    def find(self, address: int) -> PinnedBlock | None:
        """Return the block that contains an address, free or not."""
        blocks = self._blocks
        index = bisect_right(blocks, address, key=_address_of) - 1
        if index < 0 or address >= blocks[index].address + blocks[index].nbytes:
            return None
        return blocks[index]

    def record_event(self, block: PinnedBlock, device: int, stream: int) -> None:
        """Record that a copy uses the block on a stream of the current device; reuse waits for the copy."""
        cuda = driver()
        with self._lock:
            event = block.events.get((device, stream))
            if event is None:
                event = cuda.create_event()
                block.events[device, stream] = event
            cuda.record_event(event, stream)

    def empty_cache(self) -> None:
        """Return unused blocks to the host."""
        cuda = self._driver
        if cuda is None:
            return
        with self._lock:
            self._reclaim(cuda)
            gone = {id(block) for waiting in self._free.values() for block in waiting}
            self._blocks = [block for block in self._blocks if id(block) not in gone]
            for waiting in self._free.values():
                while waiting:
                    block = waiting.pop()
                    start = time.perf_counter()
                    cuda.free_host(block.address)
                    self.free_time.add(time.perf_counter() - start)
                    self.allocations.decrease(1)
                    self.allocated_bytes.decrease(block.nbytes)

    def stats(self) -> dict[str, Any]:
        """Return the up-to-date counters under PyTorch's names (`torch.cuda.host_memory_stats_as_nested_dict`)."""
        with self._lock:
            if self._driver is not None:
                self._reclaim(self._driver)
            return {name: stat.as_dict() for name, stat in self._stats().items()} | {
                "num_host_alloc": self.allocations.allocated,
                "num_host_free": self.allocations.freed,
                "host_alloc_time": self.alloc_time.as_dict(),
                "host_free_time": self.free_time.as_dict(),
            }

    def _stats(self) -> dict[str, Stat]:
        return {
            "allocations": self.allocations,
            "allocated_bytes": self.allocated_bytes,
            "active_requests": self.active_requests,
            "active_bytes": self.active_bytes,
        }

    def reset_peaks(self) -> None:
        """Reset the peaks to the current values."""
        with self._lock:
            for stat in self._stats().values():
                stat.peak = stat.current

    def reset_accumulated(self) -> None:
        """Reset the totals and times."""
        with self._lock:
            for stat in self._stats().values():
                stat.allocated = stat.freed = 0
            self.alloc_time, self.free_time = Duration(), Duration()

    def copy_data(self, dst: int, src: int, nbytes: int) -> None:
        ctypes.memmove(dst, src, nbytes)

    def raw_deleter(self) -> Callable[[DataPtr], None]:
        return self._give_back


def _copies_are_done(cuda: Driver, block: PinnedBlock) -> bool:
    for key, event in list(block.events.items()):
        if not cuda.query_event(event):
            return False
        del block.events[key]
        cuda.destroy_event(event)
    return True


def _address_of(block: PinnedBlock) -> int:
    return block.address


PINNED_ALLOCATOR = CachingHostAllocator()
"""The process's allocator for page-locked memory. Creating it touches no device."""


def is_pinned(address: int) -> bool:
    """Return True if host memory is page-locked. Touches no device while none has been used."""
    if PINNED_ALLOCATOR.find(address) is not None:
        return True
    cuda = current_driver()
    return cuda is not None and cuda.is_page_locked(address)


def host_memory_stats() -> dict[str, Any]:
    """Return statistics of page-locked memory (`torch.cuda.host_memory_stats`), empty until its first use.

    ``allocations`` and ``allocated_bytes`` count the process's blocks. ``active_requests`` and ``active_bytes`` count
    the blocks that tensors hold or copies still use. Each has ``current``, ``peak``, ``allocated`` and ``freed``.
    ``num_host_alloc`` and ``num_host_free`` count driver calls; ``host_alloc_time`` and ``host_free_time`` are their
    durations in microseconds.
    """
    flat: dict[str, Any] = {}
    for name, value in host_memory_stats_as_nested_dict().items():
        flat |= (
            {f"{name}.{key}": number for key, number in value.items()}
            if isinstance(value, dict)
            else {name: value}
        )
    return dict(sorted(flat.items()))


def host_memory_stats_as_nested_dict() -> dict[str, Any]:
    """Return `host_memory_stats` as a nested dict."""
    return {} if current_driver() is None else PINNED_ALLOCATOR.stats()


def reset_accumulated_host_memory_stats() -> None:
    """Reset the totals of `host_memory_stats`."""
    PINNED_ALLOCATOR.reset_accumulated()


def reset_peak_host_memory_stats() -> None:
    """Reset the peaks of `host_memory_stats` to the current values."""
    PINNED_ALLOCATOR.reset_peaks()
