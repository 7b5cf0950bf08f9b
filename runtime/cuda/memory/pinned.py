"""The caching allocator of page-locked host memory, which copies reach without staging (`Tensor.pin_memory`).

Locking pages is slow, so blocks are kept by size and reused. A copy that does not wait for its end leaves an event
with its block, and a block that was given back is reused only when all its events have happened. Source: the rules
of at::CachingHostAllocator (ATen/core/CachingHostAllocator.h); here the event stands right behind the copy instead of
at the end of what its stream was given until the block came back.

Giving back happens inside garbage collection: it appends to a queue and takes no lock.
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

LEAST_BLOCK = 64


class Duration:
    """Times that calls of the driver took, in microseconds."""

    __slots__ = ("count", "max", "min", "total")

    def __init__(self) -> None:
        self.count = self.total = self.max = self.min = 0

    def add(self, seconds: float) -> None:
        """Count one call."""
        taken = int(seconds * 1e6)
        self.min = taken if self.count == 0 else min(self.min, taken)
        self.max = max(self.max, taken)
        self.total += taken
        self.count += 1

    def as_dict(self) -> dict[str, float]:
        """All numbers and their average by PyTorch's names."""
        numbers: dict[str, float] = {name: getattr(self, name) for name in self.__slots__}
        return numbers | {"avg": self.total / self.count if self.count else 0.0}


class PinnedBlock:
    """Page-locked memory. `events` holds, by device and stream, the event behind the last copy there."""

    __slots__ = ("address", "events", "nbytes")

    def __init__(self, address: int, nbytes: int) -> None:
        self.address = address
        self.nbytes = nbytes
        self.events: dict[tuple[int, int], int] = {}

    def __lt__(self, other: PinnedBlock) -> bool:
        return self.address < other.address


class CachingHostAllocator(Allocator):
    """Page-locked memory of the process.

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
        """All blocks by address; replaced whole, so that `find` takes no lock."""
        self._given_back: deque[PinnedBlock] = deque()
        self._in_use: deque[PinnedBlock] = deque()
        self.allocations, self.allocated_bytes, self.active_requests, self.active_bytes = (
            Stat() for _ in range(4)
        )
        self.alloc_time, self.free_time = Duration(), Duration()

    def allocate(self, nbytes: int, device: Device = CPU) -> DataPtr:
        """Page-locked host memory, not initialised; a null pointer for 0 bytes.

        Raises RuntimeError where there is no CUDA device, OutOfMemoryError if the host cannot give it even after the
        cache has been emptied.
        """
        if nbytes <= 0:
            return DataPtr(0, 0, CPU)
        cuda = self._driver
        if cuda is None:
            cuda = self._driver = driver()
        size = max(LEAST_BLOCK, 1 << (nbytes - 1).bit_length())
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
        # No name of the module is looked up: the interpreter may have taken them away, as it ends.
        block: PinnedBlock = data.context  # type: ignore[assignment]
        self._given_back.append(block)

    def _reclaim(self, cuda: Driver) -> None:
        """Put blocks that were given back into their lists, except those that copies still use."""
        while self._given_back:
            self._in_use.append(self._given_back.popleft())
        if cuda.unsafe_calls_prohibited():
            return
        for _ in range(len(self._in_use)):
            # A block leaves only once it is done: a query may raise what failed on its stream.
            if _copies_are_done(cuda, self._in_use[0]):
                block = self._in_use.popleft()
                self._free.setdefault(block.nbytes, []).append(block)
                self.active_requests.decrease(1)
                self.active_bytes.decrease(block.nbytes)
            else:
                self._in_use.rotate(-1)

    def find(self, address: int) -> PinnedBlock | None:
        """The block around an address, free or not."""
        blocks = self._blocks
        place = bisect_right(blocks, address, key=_address_of) - 1
        if place < 0 or address >= blocks[place].address + blocks[place].nbytes:
            return None
        return blocks[place]

    def record_event(self, block: PinnedBlock, device: int, stream: int) -> None:
        """A copy from or to the block was enqueued on a stream of the current device: reuse waits for its end."""
        cuda = driver()
        with self._lock:
            event = block.events.get((device, stream))
            if event is None:
                event = cuda.create_event()
                block.events[device, stream] = event
            cuda.record_event(event, stream)

    def empty_cache(self) -> None:
        """Give blocks that nobody uses back to the host."""
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
        """The counters, up to date, by PyTorch's names (`torch.cuda.host_memory_stats_as_nested_dict`)."""
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
        """Start the peaks afresh from what is in use now."""
        with self._lock:
            for stat in self._stats().values():
                stat.peak = stat.current

    def reset_accumulated(self) -> None:
        """Start the totals and times afresh."""
        with self._lock:
            for stat in self._stats().values():
                stat.allocated = stat.freed = 0
            self.alloc_time, self.free_time = Duration(), Duration()

    def copy_data(self, dst: int, src: int, nbytes: int) -> None:
        ctypes.memmove(dst, src, nbytes)

    def raw_deleter(self) -> Callable[[DataPtr], None]:
        return self._give_back


def _copies_are_done(cuda: Driver, block: PinnedBlock) -> bool:
    for place, event in list(block.events.items()):
        if not cuda.query_event(event):
            return False
        del block.events[place]
        cuda.destroy_event(event)
    return True


def _address_of(block: PinnedBlock) -> int:
    return block.address


PINNED_ALLOCATOR = CachingHostAllocator()
"""The process's allocator of page-locked memory; making it touches no device."""


def is_pinned(address: int) -> bool:
    """Whether host memory is page-locked; False, and no device is touched, while none has been used."""
    if PINNED_ALLOCATOR.find(address) is not None:
        return True
    cuda = current_driver()
    return cuda is not None and cuda.is_page_locked(address)


def host_memory_stats() -> dict[str, Any]:
    """Statistics of page-locked memory (`torch.cuda.host_memory_stats`), empty until it is first used.

    ``allocations`` and ``allocated_bytes`` count blocks that the process has, ``active_requests`` and
    ``active_bytes`` those that tensors hold or copies still use; each with ``current``, ``peak``, ``allocated`` and
    ``freed``. ``num_host_alloc`` and ``num_host_free`` count calls of the driver, ``host_alloc_time`` and
    ``host_free_time`` tell how long they took, in microseconds.
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
    """`host_memory_stats`, a dict in a dict."""
    return {} if current_driver() is None else PINNED_ALLOCATOR.stats()


def reset_accumulated_host_memory_stats() -> None:
    """Start the totals of `host_memory_stats` afresh."""
    PINNED_ALLOCATOR.reset_accumulated()


def reset_peak_host_memory_stats() -> None:
    """Start the peaks of `host_memory_stats` afresh from what is in use now."""
    PINNED_ALLOCATOR.reset_peaks()
