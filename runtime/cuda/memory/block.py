"""Device memory blocks and free lists: best fit, splitting and merging.

A *segment* is one allocation from the driver. Its *blocks* tile it, linked in address order. A free block lies in one
`FreeList`; the thread that takes it out by an atomic `pop` owns it. The lists are therefore lock-free, and freeing a
block is one `append`, which garbage collection may run at any point. Links, splitting, merging and the set of lists
belong to the thread that holds the allocator's lock.

Merging is lazy, like the fast bins of dlmalloc (Lea, "A Memory Allocator"). A freed block keeps its size, so a
program that repeats the same sizes splits and merges nothing. The allocator merges neighbors when no block fits,
before it asks the driver for a segment. Sizes and thresholds are those of c10/cuda/CUDACachingAllocator.
"""

from __future__ import annotations

from bisect import bisect_left, insort

from .block_events import UNIT_BITS, BlockEvents

GRANULARITY = 1 << UNIT_BITS
"""Unit of block sizes, and alignment of addresses, in bytes."""
SMALL_LIMIT = 2**20
SMALL_SEGMENT = 2 * 2**20
LARGE_SEGMENT = 20 * 2**20
LARGE_SEGMENT_LIMIT = 10 * 2**20
LARGE_GRANULARITY = 2 * 2**20
OVERSIZE_SLACK = 20 * 2**20
"""Largest excess of an oversize block over the request that it serves; an oversize block is never split."""

PoolId = tuple[int, int]
NO_POOL: PoolId = (0, 0)


def block_size(nbytes: int) -> int:
    """Return the size of the smallest block that holds `nbytes`.

    Example:
        >>> from triten.runtime.cuda.memory.block import block_size
        >>> block_size(1), block_size(512), block_size(513)
        (512, 512, 1024)
    """
    return nbytes + GRANULARITY - 1 & -GRANULARITY


def segment_size(nbytes: int) -> int:
    """Return the size of the segment to allocate when no free block serves a request of `nbytes`.

    Example:
        >>> from triten.runtime.cuda.memory.block import segment_size
        >>> [segment_size(mib * 2**20) // 2**20 for mib in (1, 2, 9, 10, 11)]
        [2, 20, 20, 10, 12]
    """
    if nbytes <= SMALL_LIMIT:
        return SMALL_SEGMENT
    if nbytes < LARGE_SEGMENT_LIMIT:
        return LARGE_SEGMENT
    return nbytes + -nbytes % LARGE_GRANULARITY


class FreeList(list["Block"]):
    """Free list for requests of one size, used last in, first out.

    `blocks` counts all blocks whose home is this list, free or not. The pool drops the list when the count is 0.
    """

    __slots__ = ("blocks", "size")

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        self.blocks = 0


class Segment:
    """Memory from one driver allocation, which belongs to one pool. `first` is the block at its start."""

    __slots__ = ("address", "first", "frames", "idle", "last_charge", "pool", "size")

    def __init__(self, address: int, size: int, pool: BlockPool) -> None:
        self.address = address
        self.size = size
        self.pool = pool
        self.frames: object = None
        self.idle = 0
        self.last_charge = 0
        self.first = Block(address, size, self)

    def blocks(self) -> list[Block]:
        """Return all blocks, in address order."""
        blocks = []
        block: Block | None = self.first
        while block is not None:
            blocks.append(block)
            block = block.next
        return blocks


class Block:
    """Block of device memory: a part of a segment.

    `home` is the list that the block returns to. `charge` is the event of its last allocation in the statistics log,
    and `weight` is that event for a request of 0 bytes. `watch` is None if freeing is a mere `append`. Otherwise it
    holds the other streams that use the block; it is an empty set if only the history watches the block.
    """

    __slots__ = (
        "address",
        "charge",
        "excess",
        "frames",
        "home",
        "log",
        "next",
        "pending",
        "prev",
        "segment",
        "size",
        "watch",
        "weight",
    )

    def __init__(self, address: int, size: int, segment: Segment) -> None:
        self.address = address
        self.size = size
        self.segment = segment
        self.prev: Block | None = None
        self.next: Block | None = None
        self.home: FreeList = segment.pool.nowhere
        self.log: list[int] = segment.pool.events.log
        self.weight = 0
        self.charge = 0
        self.excess = 0
        self.pending = 0
        self.watch: set[int] | None = None
        self.frames: object = None

    @property
    def is_split(self) -> bool:
        """True if the segment has other blocks."""
        return self.prev is not None or self.next is not None

    @property
    def counted(self) -> int:
        """Bytes that statistics count for the block while it is allocated."""
        return self.size - self.segment.pool.guard

    def __repr__(self) -> str:
        return f"Block({self.address:#x}, {self.size})"


class BlockPool:
    """Blocks of one device, stream and kind (small or large), in the common pool or a private one.

    `exact` is the table in which the allocator finds lists without a lock; None for a private pool. The last `guard`
    bytes of each block are never allocated.
    """

    __slots__ = (
        "device",
        "events",
        "exact",
        "guard",
        "lists",
        "nowhere",
        "owner",
        "segments",
        "sizes",
        "small",
        "stream",
    )

    def __init__(
        self,
        device: int,
        stream: int,
        small: bool,
        events: BlockEvents,
        exact: dict[tuple[int, int, int], FreeList] | None,
        owner: PoolId = NO_POOL,
    ) -> None:
        self.device = device
        self.stream = stream
        self.small = small
        self.events = events
        self.exact = exact
        self.owner = owner
        self.guard = events.guard
        self.lists: dict[int, FreeList] = {}
        self.sizes: list[int] = []
        self.segments: dict[int, Segment] = {}
        self.nowhere = FreeList(0)

    def settle(self, block: Block, size: int) -> None:
        """Make the list for requests of `size` the home of a block of at least that size."""
        home = self.lists.get(size)
        if home is None:
            home = self.lists[size] = FreeList(size)
            insort(self.sizes, size)
            if self.exact is not None and self.small == (size - self.guard <= SMALL_LIMIT):
                self.exact[self.device, self.stream, size] = home
        home.blocks += 1
        self.leave(block)
        block.home = home

    def leave(self, block: Block) -> None:
        """Remove a block from its home, and drop a home that has no more blocks."""
        home = block.home
        if home is self.nowhere:
            return
        block.home = self.nowhere
        home.blocks -= 1
        if not home.blocks:
            del self.lists[home.size]
            del self.sizes[bisect_left(self.sizes, home.size)]
            key = self.device, self.stream, home.size
            # A small block may have the same size as requests to the large pool.
            if self.exact is not None and self.exact.get(key) is home:
                del self.exact[key]

    def file(self, block: Block) -> None:
        """Put a free block into the list of its own size."""
        block.weight = self.events.weight(block.counted, self.small, block.is_split)
        if block.home.size != block.size:
            self.settle(block, block.size)
        block.home.append(block)

    def take(self, size: int, max_split_size: int | None) -> Block | None:
        """Return the smallest free block of at least `size`, split if the rest is worth it; None if none fits."""
        for index in range(bisect_left(self.sizes, size), len(self.sizes)):
            waiting = self.lists[self.sizes[index]]
            try:
                block = waiting.pop()
            except IndexError:
                continue
            if max_split_size is not None and not self._may_serve(block, size, max_split_size):
                waiting.append(block)
                return None
            if block.is_split:
                self.events.not_inactive(block.counted, self.small)
            self.split(block, size, max_split_size)
            return block
        return None

    @staticmethod
    def _may_serve(block: Block, size: int, max_split_size: int) -> bool:
        if size < max_split_size:
            return block.size < max_split_size
        return block.size < size + OVERSIZE_SLACK

    def split(self, block: Block, size: int, max_split_size: int | None) -> None:
        """Make a taken block serve requests of `size`, and put the rest into its free list."""
        rest_size = block.size - size
        if self.small:
            worth_it = rest_size >= GRANULARITY + self.guard
        else:
            worth_it = rest_size > SMALL_LIMIT and (max_split_size is None or size < max_split_size)
        if worth_it:
            rest = Block(block.address + size, rest_size, block.segment)
            after = block.next
            rest.prev, rest.next = block, after
            if after is not None:
                after.prev = rest
            block.next = rest
            block.size = size
            self.events.inactive(rest.counted, self.small)
            self.file(rest)
        self.settle(block, size)
        block.weight = self.events.weight(block.counted, self.small, block.is_split)

    def claim(self) -> dict[int, Block]:
        """Take every free block and return them by address; no other thread gets one until they are filed again."""
        claimed = {}
        for waiting in self.lists.values():
            while waiting:
                try:
                    block = waiting.pop()
                except IndexError:
                    break
                claimed[block.address] = block
        return claimed

    def merge(self) -> list[Block]:
        """Merge free neighbors. Return the free blocks that are whole segments, not filed; all others are filed."""
        free = self.claim()
        for block in list(free.values()):
            if free.get(block.address) is block:
                self._absorb_following(block, free)
        whole = []
        # Descending, so that among equal sizes the lowest address is taken first.
        for address in sorted(free, reverse=True):
            block = free[address]
            if block.is_split:
                self.file(block)
            else:
                whole.append(block)
        return whole

    def _absorb_following(self, block: Block, free: dict[int, Block]) -> None:
        after = block.next
        if after is None or after.address not in free:
            return
        self.events.not_inactive(block.counted, self.small)
        while after is not None and free.pop(after.address, None) is not None:
            self.events.not_inactive(after.counted, self.small)
            beyond = after.next
            block.size += after.size
            block.next = beyond
            if beyond is not None:
                beyond.prev = block
            after.prev = after.next = None
            self.leave(after)
            after = beyond
        if block.is_split:
            self.events.inactive(block.counted, self.small)
