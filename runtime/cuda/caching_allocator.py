"""The caching allocator of CUDA memory: blocks are kept by stream and size, and reused in stream order.

Small blocks are cut from shared segments, large ones have a segment each. A block that is given back waits in
the list of its device, stream and size class; work that is enqueued on that stream later comes after the work
that used it, so reuse needs no waiting. Source: the rules of c10/cuda/CUDACachingAllocator, without splitting
and merging.

Giving back happens inside garbage collection: it appends to a queue and takes no lock.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from ..allocator import Allocator
from ..data_ptr import DataPtr
from ..device import device as Device
from ..errors import OutOfMemoryError
from .driver import Driver, driver

GRANULARITY = 512
FINE_LIMIT = 4096
SMALL_LIMIT = 2**20
SMALL_SEGMENT = 2 * 2**20


@dataclass(slots=True)
class DeviceStats:
    """Counters of one device. `allocated` counts what tensors hold, `reserved` the segments behind it."""

    allocated: int = 0
    allocated_peak: int = 0
    reserved: int = 0
    reserved_peak: int = 0
    allocations: int = 0
    frees: int = 0
    hits: int = 0
    segments: int = 0
    retries: int = 0
    out_of_memory: int = 0


class Segment:
    """Memory from the driver: one large block, or small ones cut off one after the other."""

    __slots__ = ("address", "cut", "device", "nbytes", "used")

    def __init__(self, address: int, nbytes: int, device: int) -> None:
        self.address = address
        self.nbytes = nbytes
        self.device = device
        self.cut = 0
        self.used = 0


class Block:
    """A piece of a segment. `waiting` is the list that it goes back to; `counted` what its holder asked for,
    rounded, and 0 while it has none.
    """

    __slots__ = ("address", "counted", "other_streams", "segment", "stats", "stream", "waiting")

    def __init__(
        self, address: int, segment: Segment, stream: int, waiting: list[Block], stats: DeviceStats
    ) -> None:
        self.address = address
        self.segment = segment
        self.stream = stream
        self.waiting = waiting
        self.stats = stats
        self.counted = 0
        self.other_streams: set[int] | None = None


def size_class(nbytes: int) -> int:
    """The size of the block for a request: multiples of 512 to 4 KiB, then eight steps to a power of two."""
    step = GRANULARITY if nbytes <= FINE_LIMIT else 1 << ((nbytes - 1).bit_length() - 4)
    return nbytes + -nbytes % step


class CachingAllocator(Allocator):
    """Memory of all CUDA devices of the process.

    Example:
        >>> from triten.runtime.cuda.caching_allocator import size_class
        >>> size_class(1), size_class(5000), size_class(2**20 + 1)
        (512, 5120, 1179648)
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._driver: Driver | None = None
        self._free: dict[tuple[int, int, int], list[Block]] = {}
        self._open: dict[tuple[int, int], Segment] = {}
        self._segments: dict[int, Segment] = {}
        self._stats: dict[int, DeviceStats] = {}
        self._given_back: deque[Block] = deque()
        self._in_use_elsewhere: list[tuple[Block, list[int]]] = []

    def allocate(self, nbytes: int, device: Device) -> DataPtr:
        """Memory on the current stream of `device`, aligned to 512 bytes and not initialised.

        Raises OutOfMemoryError if the device cannot give it even after the cache has been emptied.
        """
        if nbytes <= 0:
            if nbytes < 0:
                raise RuntimeError(f"allocate: nbytes must not be negative, got {nbytes}")
            return DataPtr(0, 0, device)
        cuda = self._driver
        if cuda is None:
            cuda = self._driver = driver()
        index = device.index
        if index is None:
            index = cuda.current_device()
            device = Device("cuda", index)
        stream = cuda.current_stream(index)
        size = size_class(nbytes + cuda.guard_bytes)
        with self._lock:
            if self._given_back or self._in_use_elsewhere:
                self._reclaim(cuda)
            stats = self._stats.get(index)
            if stats is None:
                cuda.check_device(index)
                stats = self._stats[index] = DeviceStats()
            waiting = self._free.get((index, stream, size))
            if waiting:
                block = waiting.pop()
                stats.hits += 1
            else:
                block = self._new_block(cuda, index, stream, size, nbytes, stats)
            block.segment.used += 1
            block.counted = counted = nbytes + -nbytes % GRANULARITY
            stats.allocations += 1
            stats.allocated = allocated = stats.allocated + counted
            if allocated > stats.allocated_peak:
                stats.allocated_peak = allocated
            cuda.note_allocated(block.address, nbytes, index, stream)
        return DataPtr(block.address, nbytes, device, None, self._give_back, block)

    def _new_block(
        self, cuda: Driver, device: int, stream: int, size: int, nbytes: int, stats: DeviceStats
    ) -> Block:
        if size > SMALL_LIMIT:
            segment = self._new_segment(cuda, device, size, nbytes, stats)
        else:
            found = self._open.get((device, stream))
            if found is None or found.cut + size > found.nbytes:
                found = self._new_segment(cuda, device, SMALL_SEGMENT, nbytes, stats)
                self._open[device, stream] = found
            segment = found
        waiting = self._free.setdefault((device, stream, size), [])
        block = Block(segment.address + segment.cut, segment, stream, waiting, stats)
        segment.cut += size
        return block

    def _new_segment(self, cuda: Driver, device: int, size: int, nbytes: int, stats: DeviceStats) -> Segment:
        try:
            address = cuda.malloc(device, size)
        except OutOfMemoryError:
            stats.retries += 1
            self._empty(cuda, device)
            try:
                address = cuda.malloc(device, size)
            except OutOfMemoryError as error:
                stats.out_of_memory += 1
                raise OutOfMemoryError(self._explain(cuda, device, nbytes, stats)) from error
        segment = self._segments[address] = Segment(address, size, device)
        stats.segments += 1
        stats.reserved += size
        stats.reserved_peak = max(stats.reserved_peak, stats.reserved)
        return segment

    def _explain(self, cuda: Driver, device: int, nbytes: int, stats: DeviceStats) -> str:
        free, total = cuda.memory_info(device)
        return (
            f"CUDA out of memory. Tried to allocate {_readable(nbytes)}. GPU {device} has a total capacity "
            f"of {_readable(total)} of which {_readable(free)} is free. {_readable(stats.allocated)} is "
            f"allocated by triten, and {_readable(stats.reserved - stats.allocated)} is reserved by triten "
            "but unallocated."
        )

    def _give_back(self, data: DataPtr) -> None:
        block = data.context
        assert isinstance(block, Block) and self._driver is not None
        if block.other_streams is None:
            self._driver.note_freed(block.address, block.segment.device, block.stream)
        self._given_back.append(block)

    def _reclaim(self, cuda: Driver) -> None:
        """Put blocks that were given back into their lists, except those that other streams still use."""
        given_back = self._given_back
        while given_back:
            block = given_back[0]
            # First what may fail: until its events are recorded the block stays where it is.
            events = None if block.other_streams is None else self._record(cuda, block)
            given_back.popleft()
            stats = block.stats
            stats.frees += 1
            stats.allocated -= block.counted
            block.counted = 0
            if events is None:
                block.segment.used -= 1
                block.waiting.append(block)
            else:
                self._in_use_elsewhere.append((block, events))
        if self._in_use_elsewhere:
            self._in_use_elsewhere = [
                (block, events)
                for block, events in self._in_use_elsewhere
                if not self._release_if_done(cuda, block, events)
            ]

    def _record(self, cuda: Driver, block: Block) -> list[int]:
        current = cuda.current_device()
        cuda.set_device(block.segment.device)
        events = []
        try:
            for stream in block.other_streams or ():
                events.append(cuda.create_event())
                cuda.record_event(events[-1], stream)
        finally:
            cuda.set_device(current)
        return events

    def _release_if_done(self, cuda: Driver, block: Block, events: list[int]) -> bool:
        while events and cuda.query_event(events[-1]):
            cuda.destroy_event(events.pop())
        if events:
            return False
        block.other_streams = None
        cuda.note_freed(block.address, block.segment.device, block.stream)
        block.segment.used -= 1
        block.waiting.append(block)
        return True

    def record_stream(self, data: DataPtr, stream: int) -> None:
        """Tell that a stream of the block's device uses it: it is reused only when that work is done."""
        block = data.root.context
        if not isinstance(block, Block):
            raise RuntimeError(f"record_stream: {data} was not allocated by the caching allocator")
        if stream != block.stream:
            with self._lock:
                if block.other_streams is None:
                    block.other_streams = set()
                block.other_streams.add(stream)

    def empty_cache(self, device: int | None = None) -> None:
        """Give every segment that nobody uses back to the driver; of one device, or of all."""
        cuda = self._driver
        if cuda is None:
            return
        with self._lock:
            for index in list(self._stats) if device is None else [device]:
                self._empty(cuda, index)

    def _empty(self, cuda: Driver, device: int) -> None:
        for _, events in self._in_use_elsewhere:
            for event in events:
                cuda.synchronize_event(event)
        self._reclaim(cuda)
        unused = [s for s in self._segments.values() if s.device == device and not s.used]
        gone = set(map(id, unused))
        for (index, _, _), waiting in self._free.items():
            if index == device:
                waiting[:] = [block for block in waiting if id(block.segment) not in gone]
        for place in [place for place, segment in self._open.items() if segment in unused]:
            del self._open[place]
        for segment in unused:
            del self._segments[segment.address]
            self._stats[device].reserved -= segment.nbytes
            cuda.free(device, segment.address)

    def stats(self, device: int) -> DeviceStats:
        """The device's counters, up to date. The object lives on: copy it to compare."""
        with self._lock:
            if self._driver is not None:
                self._reclaim(self._driver)
            return self._stats.setdefault(device, DeviceStats())

    def reset_peaks(self, device: int) -> None:
        """Start both peaks afresh from what is in use now."""
        stats = self.stats(device)
        stats.allocated_peak, stats.reserved_peak = stats.allocated, stats.reserved

    def copy_data(self, dst: int, src: int, nbytes: int) -> None:
        """Enqueue the copy on the current stream of the current device."""
        cuda = driver()
        cuda.copy_device_to_device(dst, src, nbytes, cuda.current_stream(cuda.current_device()))

    def raw_deleter(self) -> Callable[[DataPtr], None]:
        return self._give_back


def _readable(nbytes: int) -> str:
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if nbytes >= size:
            return f"{nbytes / size:.2f} {unit}"
    return f"{nbytes} bytes"


CUDA_ALLOCATOR = CachingAllocator()
"""The process's allocator of CUDA memory; making it touches no device."""
