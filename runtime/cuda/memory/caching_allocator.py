"""Caching allocator for CUDA memory: it reuses blocks in stream order, without waiting for the device.

A freed block lies in the list of its device, stream and size. Later work on that stream runs after the work that used
the block. The usual request is a `pop` from that list and the usual free an `append` to it. Both are lock-free, so
garbage collection may free blocks in any thread. Everything else takes the one lock: best fit, splitting, merging,
uses by other streams, private pools. Source: the policy of c10/cuda/CUDACachingAllocator, over segments from the
driver.
"""

from __future__ import annotations

import gc
import os
from collections import deque
from collections.abc import Callable
from typing import Any, NoReturn

from ...allocator import Allocator
from ...data_ptr import DataPtr
from ...device import device as Device
from ...errors import OutOfMemoryError
from ..driver import Driver, driver
from .block import GRANULARITY, Block, BlockPool, block_size
from .block_events import ACTIVE, ALLOCATED, LARGE, LOG_LIMIT, MAX_WASTE, SPLIT
from .cache import DeviceCache
from .exact_sizes import NOTHING, Exact, RoundedSizes
from .options import VARIABLE, AllocatorOptions, parse_options
from .pools import PrivatePools
from .report import out_of_memory_message
from .snapshot import live_blocks
from .stream_uses import PendingUses

WHOLE_UNITS = -GRANULARITY
"""Mask that rounds a size down to whole units."""


class CachingAllocator(PrivatePools, Allocator):
    """Caching allocator for all CUDA devices of the process.

    Args:
        cuda: Driver that allocates segments. Default: None, the process's driver, chosen at the first request.
        options: Allocator options. Default: None, read from ``TRITEN_CUDA_ALLOC_CONF`` at the first request.
    """

    def __init__(self, cuda: Driver | None = None, options: AllocatorOptions | None = None) -> None:
        super().__init__()
        self._driver: Driver | None = None
        self._options = options
        self._guard = 0
        self._slack = GRANULARITY - 1
        self._notes = False
        self._thread: Any = _NO_THREAD
        self._exact: Exact = {}
        self._returned: deque[Block] = deque()
        self._uses = PendingUses()
        self._recording = False
        self._raw: dict[int, DataPtr] = {}
        self.pool_observer: Callable[[Block], None] | None = None
        """Callback for each block that is allocated while a private pool is open; it sees what a capture allocates."""
        if cuda is not None:
            self._attach(cuda)

    def _attach(self, cuda: Driver) -> Driver:
        with self._lock:
            if self._driver is None:
                if self._options is None:
                    self._options = parse_options(os.environ.get(VARIABLE, ""))
                self._guard = block_size(cuda.guard_bytes)
                self._slack = self._guard + GRANULARITY - 1
                if self._options.roundup_power2_divisions:
                    self._exact = RoundedSizes(self._options, self._guard)
                # Only the interpreter tracks allocations. On a GPU no call is made.
                self._notes = type(cuda).note_allocated is not Driver.note_allocated
                self._thread = cuda.thread_state
                self._driver = cuda
                self._choose_path()
            return self._driver

    def _choose_path(self) -> None:
        everything_by_lock = self._notes or self._recording or self._open
        self._fast = NOTHING if everything_by_lock else self._exact

    def _cache(self, cuda: Driver, index: int) -> DeviceCache:
        cache = self._devices.get(index)
        if cache is None:
            assert self._options is not None
            cuda.check_device(index)
            cache = self._devices[index] = DeviceCache(index, self._guard, self._exact, self._options)
        return cache

    def cache(self, index: int) -> DeviceCache:
        """Return the state of a device. Raise RuntimeError if it does not exist."""
        return self._cache(self.driver, index)

    def caches(self) -> list[DeviceCache]:
        """Return the states of the devices used so far, ordered by index."""
        return [self._devices[index] for index in sorted(self._devices)]

    @property
    def driver(self) -> Driver:
        """Driver that allocates the segments."""
        return self._driver or self._attach(driver())

    @property
    def is_attached(self) -> bool:
        """True if the allocator has a driver; False until the first request or query."""
        return self._driver is not None

    @property
    def is_used(self) -> bool:
        """True if memory of any device was requested."""
        return any(cache.pools() for cache in self.caches())

    @property
    def options(self) -> AllocatorOptions:
        """Options of the allocator."""
        self.driver  # noqa: B018
        assert self._options is not None
        return self._options

    def set_recording(self, recording: bool) -> None:
        """Set whether devices record a history, which has to see every event. The caller holds the lock."""
        self._recording = recording
        self._choose_path()
        if recording:
            for cache in self.caches():
                for block in live_blocks(cache, self.waiting_blocks()):
                    if block.watch is None:
                        block.watch = set()

    def allocate(self, nbytes: int, device: Device, stream: int | None = None) -> DataPtr:
        """Allocate uninitialized memory on a stream of `device`, aligned to `GRANULARITY`.

        `stream` is the current stream by default.

        Raises OutOfMemoryError if the device is out of memory even after the cache has been emptied.
        """
        index = device.index
        try:
            if stream is None:
                # Inline `Driver.current_stream` to save a call: read the thread's own dictionary.
                own = self._thread.__dict__["streams"].get(index, 0)
            else:
                own = stream
            # `block_size` is inlined for the same reason.
            block = self._fast[index, own, nbytes + self._slack & WHOLE_UNITS].pop()  # type: ignore[index]
        except (KeyError, IndexError):
            return self._allocate(nbytes, device, stream)
        block.charge = charge = block.weight - nbytes
        log = block.log
        log.append(charge)
        if len(log) > LOG_LIMIT:
            self._count(block)
        return DataPtr(block.address, nbytes, device, None, self._give_back, block)

    def _allocate(self, nbytes: int, device: Device, stream: int | None) -> DataPtr:
        if nbytes <= 0:
            if nbytes < 0:
                raise RuntimeError(f"allocate: nbytes must not be negative, got {nbytes}")
            # Programs query by an empty tensor whether a device exists.
            self.driver.check_device(device.index or 0)
            return DataPtr(0, 0, device)
        cuda = self.driver
        index = device.index
        if index is None:
            index = cuda.current_device()
            device = Device("cuda", index)
        if stream is None:
            stream = cuda.current_stream(index)
        block = self._serve(cuda, index, stream, nbytes, False)
        if block is None:
            # Lock-free: a finalizer may need a lock whose holder waits for this one, so locking could deadlock.
            gc.collect()
            block = self._serve(cuda, index, stream, nbytes, True)
            assert block is not None
        if len(block.log) > LOG_LIMIT:
            self._count(block)
        if self.pool_observer is not None and self._open:
            self.pool_observer(block)
        return DataPtr(block.address, nbytes, device, None, self._give_back, block)

    def _serve(self, cuda: Driver, index: int, stream: int, nbytes: int, last_try: bool) -> Block | None:
        """Return an allocated block; return None if the caller should retry because memory was freed for it."""
        with self._lock:
            cache = self._cache(cuda, index)
            size = self._rounded(nbytes)
            if self._busy:
                return self._serve_nested(cuda, cache, stream, size, nbytes)
            self._busy = True
            try:
                self._settle(cuda)
                pool = cache.pool(stream, size, self._routed(cache, stream))
                try:
                    exact = pool.lists[size].pop()
                except (KeyError, IndexError):
                    free_block = cache.find(pool, size)
                else:
                    return self._hand_out(cuda, cache, exact, nbytes, exact.weight)
                if free_block is None and last_try:
                    self._make_room(cuda, cache)
                if free_block is None:
                    if not self._open:
                        cache.release_idle(cuda)
                    free_block = cache.grow(cuda, pool, size)
                if free_block is not None:
                    # The log already says what the block was before: free, and perhaps a split part of a segment.
                    block = self._hand_out(cuda, cache, free_block, nbytes, free_block.weight & ~SPLIT)
                    cache.stats.misses += 1
                    return block
                if last_try:
                    self._give_up(cuda, cache, pool, nbytes)
                cache.stats.num_alloc_retries += 1
                self._make_room(cuda, cache)
                return None
            finally:
                self._busy = False

    def _rounded(self, nbytes: int) -> int:
        assert self._options is not None
        return block_size(self._options.round(nbytes)) + self._guard

    def _hand_out(self, cuda: Driver, cache: DeviceCache, block: Block, nbytes: int, event: int) -> Block:
        pool = block.segment.pool
        if self._notes:
            try:
                cuda.note_allocated(block.address, nbytes, pool.device, pool.stream)
            except BaseException:
                if event != block.weight:
                    pool.events.inactive(block.counted, pool.small)
                block.home.append(block)
                raise
        waste = block.counted - nbytes
        if waste > MAX_WASTE:
            block.excess = waste - MAX_WASTE
            block.log.append(block.excess | (0 if pool.small else LARGE))
            nbytes += block.excess
        block.charge = block.weight - nbytes
        block.log.append(event - nbytes)
        if self._notes or cache.history is not None or block.excess:
            block.watch = set()
            if cache.history is not None:
                cache.history.allocated(block)
        return block

    def _serve_nested(self, cuda: Driver, cache: DeviceCache, stream: int, size: int, nbytes: int) -> Block:
        """Serve a finalizer that allocates while its own thread holds the lock, from a segment of its own."""
        pool = cache.nested_pool(stream, size)
        block = cache.grow(cuda, pool, size)
        if block is None:
            self._give_up(cuda, cache, pool, nbytes)
        cache.stats.misses += 1
        return self._hand_out(cuda, cache, block, nbytes, block.weight & ~SPLIT)

    def _give_up(self, cuda: Driver, cache: DeviceCache, pool: BlockPool, nbytes: int) -> NoReturn:
        free, total = cuda.memory_info(cache.index)
        cache.stats.num_ooms += 1
        if cache.history is not None:
            cache.history.out_of_memory(nbytes, pool.stream, pool.owner, free)
        raise OutOfMemoryError(
            out_of_memory_message(nbytes, cache, free, total, live_blocks(cache, self.waiting_blocks()))
        )

    def _count(self, block: Block) -> None:
        with self.exclusive() as nested:
            if not nested:
                self._devices[block.segment.pool.device].stats.count()

    def _give_back(self, data: DataPtr) -> None:
        block: Any = data.context
        if block.watch is None:
            block.log.append(-block.charge)
            block.home.append(block)
        else:
            self._give_back_watched(block)

    def _give_back_watched(self, block: Block) -> None:
        """Free a block that other streams use, or whose history is kept. Lock-free."""
        history = self._devices[block.segment.pool.device].history
        if history is not None:
            history.freed("free_requested", block)
        if block.excess:
            block.log.append(-(block.excess | (0 if block.segment.pool.small else LARGE)))
            block.excess = 0
        if block.watch:
            block.log.append(-(block.charge & ~(ACTIVE | SPLIT)))
            self._returned.append(block)
            # The next request takes the lock and records the events.
            self._fast = NOTHING
        else:
            self._finish(block, block.charge)

    def _finish(self, block: Block, event: int) -> None:
        """Mark a block as free."""
        pool = block.segment.pool
        cache = self._devices[pool.device]
        if self._notes:
            assert self._driver is not None
            self._driver.note_freed(block.address, pool.device, pool.stream)
        if cache.history is not None:
            cache.history.freed("free_completed", block)
        block.watch = block.frames = None
        block.log.append(-event)
        block.home.append(block)

    def _settle(self, cuda: Driver) -> None:
        """Do the work that finalizers deferred.

        While a pool is open, no event is recorded or queried: a capture may be active and would capture the events.
        """
        self._release_put_off()
        if self._open:
            return
        self._choose_path()
        returned = self._returned
        while returned:
            self._uses.record(cuda, returned.popleft())
        self._uses.poll(cuda)
        self._finish_done()

    def _finish_done(self) -> None:
        done = self._uses.done
        while done:
            block = done.pop()
            self._finish(block, block.charge & ~ALLOCATED)

    def _make_room(self, cuda: Driver, cache: DeviceCache) -> None:
        """Wait for blocks that other streams use, and return free segments to the driver."""
        if not self._open:
            cache.stats.num_sync_all_streams += 1
            self._uses.wait(cuda, cache.index)
            self._finish_done()
            cache.release(cuda)

    def waiting_blocks(self) -> list[Block]:
        """Return the freed blocks that other streams still use."""
        return [*self._returned, *self._uses.blocks()]

    def record_stream(self, data: DataPtr, stream: int) -> None:
        """Register that another stream uses the block; the block is reused only after that work is done."""
        block = data.root.context
        if not isinstance(block, Block):
            raise RuntimeError(f"record_stream: {data} was not allocated by the caching allocator")
        if stream != block.segment.pool.stream:
            with self._lock:
                if block.watch is None:
                    block.watch = set()
                block.watch.add(stream)

    def empty_cache(self, device: int | None = None) -> None:
        """Return every unused segment of one device, or of all, to the driver. Waits for other streams.

        Does nothing while a pool is open: the driver frees no memory during a capture.
        """
        cuda = self._driver
        if cuda is None:
            return
        with self.exclusive() as nested:
            if nested or self._open:
                return
            self._settle(cuda)
            for index in list(self._devices) if device is None else [device]:
                self._make_room(cuda, self._cache(cuda, index))

    def raw_allocate(self, nbytes: int, device: Device, stream: int) -> int:
        """Return an address that only `raw_delete` frees; return 0 for 0 bytes."""
        data = self.allocate(nbytes, device, stream)
        if data.address:
            self._raw[data.address] = data
        return data.address

    def raw_delete(self, address: int) -> None:
        """Free memory from `raw_allocate`. Raise RuntimeError for any other address."""
        if address and self._raw.pop(address, None) is None:
            raise RuntimeError(f"invalid device pointer: {address:#x}")

    def copy_data(self, dst: int, src: int, nbytes: int) -> None:
        """Enqueue a copy between devices on the current stream of the current device."""
        cuda = self.driver
        cuda.copy_device_to_device(dst, src, nbytes, cuda.current_stream(cuda.current_device()))

    def raw_deleter(self) -> Callable[[DataPtr], None]:
        return self._give_back


class _NoThread:
    """Placeholder for the driver's thread state until there is a driver."""

    def __init__(self) -> None:
        self.streams: dict[int, int] = {}


_NO_THREAD = _NoThread()


CUDA_ALLOCATOR = CachingAllocator()
"""The process's CUDA allocator. Creating it touches no device."""
