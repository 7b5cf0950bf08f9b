"""Cached memory of one device: its block pools, their segments, and the memory limit."""

from __future__ import annotations

import itertools

from ...errors import OutOfMemoryError
from ..capture import relaxed_capture
from ..driver import Driver
from .block import NO_POOL, SMALL_LIMIT, Block, BlockPool, FreeList, PoolId, Segment, segment_size
from .history import MemoryHistory
from .options import AllocatorOptions
from .statistics import DeviceStats

_pool_numbers = itertools.count(1)


def new_pool_id() -> PoolId:
    """Return a new, unique private pool id."""
    return 0, next(_pool_numbers)


class PrivatePool:
    """Private memory pool: its device addresses stay valid until its last user releases it."""

    __slots__ = ("id", "pools", "uses")

    def __init__(self, id: PoolId) -> None:
        self.id = id
        self.uses = 0
        self.pools: dict[tuple[int, bool], BlockPool] = {}


class DeviceCache:
    """Allocator state of one device. Callers of its methods hold the allocator's lock."""

    def __init__(
        self,
        index: int,
        guard: int,
        exact: dict[tuple[int, int, int], FreeList],
        options: AllocatorOptions,
    ) -> None:
        self.index = index
        self.guard = guard
        self.options = options
        self.stats = DeviceStats(guard)
        self.private: dict[PoolId, PrivatePool] = {}
        self.history: MemoryHistory | None = None
        self.fraction = 1.0
        self.limit: int | None = None
        self._exact = exact
        self._common: dict[tuple[int, bool], BlockPool] = {}
        self._nested: list[BlockPool] = []

    def pool(self, stream: int, size: int, private: PrivatePool | None = None) -> BlockPool:
        """Return the pool that serves blocks of `size` on a stream."""
        small = size - self.guard <= SMALL_LIMIT
        pools = self._common if private is None else private.pools
        pool = pools.get((stream, small))
        if pool is None:
            exact, owner = (self._exact, NO_POOL) if private is None else (None, private.id)
            pool = BlockPool(self.index, stream, small, self.stats.events, exact, owner)
            pools[stream, small] = pool
        return pool

    def nested_pool(self, stream: int, size: int) -> BlockPool:
        """Return a new pool for one block, used when another caller is at work on the other pools."""
        pool = BlockPool(self.index, stream, size - self.guard <= SMALL_LIMIT, self.stats.events, None)
        self._nested.append(pool)
        return pool

    def pools(self) -> list[BlockPool]:
        """Return all pools, the common ones first."""
        private = [pool for owner in list(self.private.values()) for pool in owner.pools.values()]
        return [*self._common.values(), *private, *self._nested]

    def segments(self) -> list[Segment]:
        """Return all segments, in address order."""
        return sorted((s for pool in self.pools() for s in pool.segments.values()), key=lambda s: s.address)

    def grow(self, cuda: Driver, pool: BlockPool, size: int) -> Block | None:
        """Allocate a segment and return a block of it; return None if the driver or the limit refuses."""
        nbytes = segment_size(size - self.guard)
        if self.limit is not None and self.stats.current("reserved_bytes") + nbytes > self.limit:
            return None
        try:
            # Memory allocated during a graph capture is no part of the captured work.
            with relaxed_capture(cuda):
                address = cuda.malloc(self.index, nbytes + self.guard)
        except OutOfMemoryError:
            return None
        segment = pool.segments[address] = Segment(address, nbytes + self.guard, pool)
        self.stats.segment_added(nbytes, pool.small)
        if self.history is not None:
            segment.frames = self.history.segment("segment_alloc", segment)
        pool.split(segment.first, size, self.options.max_split_size)
        return segment.first

    def find(self, pool: BlockPool, size: int) -> Block | None:
        """Return the best-fitting free block; merge neighbors if none fits at first."""
        max_split_size = self.options.max_split_size
        block = pool.take(size, max_split_size)
        if block is None:
            for whole in pool.merge():
                pool.file(whole)
            block = pool.take(size, max_split_size)
        return block

    def release(self, cuda: Driver) -> None:
        """Return every segment without live blocks to the driver; those of private pools only after their release."""
        for pool in self.pools():
            owner = self.private.get(pool.owner)
            if owner is None or not owner.uses:
                self._free(cuda, pool, pool.merge())
        for owner in list(self.private.values()):
            if not owner.uses and not any(pool.segments for pool in owner.pools.values()):
                del self.private[owner.id]
        self._nested = [pool for pool in self._nested if pool.segments]

    def release_idle(self, cuda: Driver) -> None:
        """Free the longest-unused segments if the reserved bytes exceed the garbage collection threshold.

        The age of a segment counts how often this device ran short of cached memory since its last use. Segments
        older than the average are freed first, as in c10's `garbage_collect_cached_blocks`.
        """
        threshold = self.options.garbage_collection_threshold
        if threshold is None or self.limit is None:
            return
        excess = self.stats.current("reserved_bytes") - int(threshold * self.limit)
        if excess <= 0:
            return
        for pool in self._common.values():
            if pool.small:
                continue
            whole = pool.merge()
            for block in whole:
                segment = block.segment
                # A block that was allocated in the meantime has a different event object.
                segment.idle = segment.idle + 1 if segment.last_charge is block.charge else 1
                segment.last_charge = block.charge
            average = sum(block.segment.idle for block in whole) / max(len(whole), 1)
            whole.sort(key=lambda block: -block.segment.idle)
            old = []
            for block in whole:
                if excess > 0 and block.segment.idle >= max(average, 1):
                    old.append(block)
                    excess -= block.size
                else:
                    pool.file(block)
            self._free(cuda, pool, old)

    def _free(self, cuda: Driver, pool: BlockPool, whole: list[Block]) -> None:
        try:
            while whole:
                segment = whole[-1].segment
                cuda.free(self.index, segment.address)
                pool.leave(whole.pop())
                del pool.segments[segment.address]
                self.stats.segment_freed(segment.size - self.guard, pool.small)
                if self.history is not None:
                    self.history.segment("segment_free", segment)
        finally:
            for block in whole:
                pool.file(block)
