"""Blocks of device memory and the lists of free ones: best fit, splitting and merging.

A *segment* is what the driver gave; its *blocks* tile it, linked in order of address. A block that is free lies in
one `FreeList`; whoever takes it out of the list, by an atomic `pop`, owns it. So the lists need no lock, and giving
a block back is one `append`, which garbage collection may do at any point. Everything else here, links, splitting,
merging and the set of lists, belongs to the holder of the allocator's lock.

Merging is lazy, as that of the fast bins of dlmalloc (Lea, "A Memory Allocator"): a block that is given back keeps
its size, so that a program which asks for the same sizes again splits and merges nothing. Neighbours are merged when
nothing fits, before more is asked of the driver. The sizes and thresholds are those of c10/cuda/CUDACachingAllocator.
"""

from __future__ import annotations

from bisect import bisect_left, insort

from .block_events import BlockEvents

GRANULARITY = 512
SMALL_LIMIT = 2**20
SMALL_SEGMENT = 2 * 2**20
LARGE_SEGMENT = 20 * 2**20
LARGE_SEGMENT_LIMIT = 10 * 2**20
LARGE_GRANULARITY = 2 * 2**20
OVERSIZE_SLACK = 20 * 2**20
"""How much larger than a request an oversize block may be that serves it: such a block is never split."""

PoolId = tuple[int, int]
NO_POOL: PoolId = (0, 0)


def segment_size(nbytes: int) -> int:
    """Bytes that the driver is asked for where no free block serves a request of `nbytes`.

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
    """Free blocks that serve requests of one size; the last one given back is the first to be taken.

    `blocks` counts all whose home it is, free or not: without any it is forgotten.
    """

    __slots__ = ("blocks", "size")

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        self.blocks = 0


class Segment:
    """Memory from the driver, wholly of one pool. `first` is the block at its start."""

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
        """All blocks, by address."""
        found = []
        block: Block | None = self.first
        while block is not None:
            found.append(block)
            block = block.next
        return found


class Block:
    """A piece of a segment.

    `home` is the list that it goes back to. `charge` is the event of its last hand-out in the log of statistics, and
    `weight` that event for a request of 0 bytes. `watch` is None where giving back is a mere `append`; else the other
    streams that use it, and an empty set where somebody wants to be told.
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
        """Whether it shares its segment with others."""
        return self.prev is not None or self.next is not None

    @property
    def counted(self) -> int:
        """Bytes that statistics count for it while it is handed out."""
        return self.size - self.segment.pool.guard

    def __repr__(self) -> str:
        return f"Block({self.address:#x}, {self.size})"


class BlockPool:
    """The blocks of one device, stream and kind (small or large), of the common pool or of a private one.

    `exact` is the table in which the allocator finds lists without a lock, None for a private pool. `guard` bytes at
    the end of each block are never handed out.
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
        """Make the list for requests of `size` a block's home: it has at least that many bytes."""
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
        """Take its home from a block, and forget a home without blocks."""
        home = block.home
        if home is self.nowhere:
            return
        block.home = self.nowhere
        home.blocks -= 1
        if not home.blocks:
            del self.lists[home.size]
            del self.sizes[bisect_left(self.sizes, home.size)]
            place = self.device, self.stream, home.size
            # Small blocks may have a size that requests of the large pool have, too.
            if self.exact is not None and self.exact.get(place) is home:
                del self.exact[place]

    def file(self, block: Block) -> None:
        """Put a free block into the list of its own size."""
        block.weight = self.events.weight(block.counted, self.small, block.is_split)
        if block.home.size != block.size:
            self.settle(block, block.size)
        block.home.append(block)

    def take(self, size: int, max_split_size: int | None) -> Block | None:
        """The smallest free block of at least `size`, split if the rest is worth keeping; None if none fits."""
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
        """Make a taken block serve requests of `size`, and file what is left over."""
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
        """Take every free block, by address; until they are filed again nobody else gets one."""
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
        """Merge free neighbours. Returns the free blocks that are whole segments, not filed; the rest is."""
        free = self.claim()
        for block in list(free.values()):
            if free.get(block.address) is block:
                self._absorb_following(block, free)
        whole = []
        # Descending, so that of equal sizes the lowest address is taken first.
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
