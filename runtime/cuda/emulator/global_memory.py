"""Global memory as kernels see it: real addresses, with each access bounds-checked against live blocks.

Every byte of a segment is marked as written or uninitialized. During a launch, each piece is tagged with the thread
block that wrote it, which detects dependencies on the order of blocks. That order is undefined, unless a release and
an acquire define it (PTX ISA, "Memory Consistency Model"). A second tag has the writing warp and its barrier interval
in the block, because the order of warps is undefined too.
"""

from __future__ import annotations

import ctypes
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..simulated.memory import DeviceMemory, HostMemory, LiveBlocks
from .contraction import Bound, StoreCheck
from .fault import ILLEGAL, ILLEGAL_ADDRESS, MISALIGNED, MISALIGNED_ADDRESS, RACE, UNINITIALISED, Fault
from .shared_memory import WARPS, SharedMemory

Array = np.ndarray[Any, Any]

_BASE = 4096
"""First address of the view of memory; a multiple of every access's size."""
_END = 1 << 47
_UNSIGNED: dict[int, Any] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_memory: Any = (ctypes.c_uint8 * (_END - _BASE)).from_address(_BASE)
_everything: Array = np.frombuffer(_memory, np.uint8)
_views: dict[tuple[int, int], Array] = {}


def memory_view(size: int, count: int) -> Array:
    """Return all addresses as rows of `count` unsigned numbers of `size` bytes; `row_of` maps an address to its row.

    Only allocated memory may be accessed.
    """
    view = _views.get((size, count))
    if view is None:
        whole = _everything.size // (size * count) * size * count
        view = _everything[:whole].view(_UNSIGNED[size])
        view = _views[size, count] = view if count == 1 else view.reshape(-1, count)
    return view


def row_of(addresses: Array, nbytes: int) -> Array:
    """Return the rows of `memory_view` at addresses that are aligned to the row size."""
    return (addresses.view(np.int64) - _BASE) // nbytes


class Segment:
    """Tags of a segment: `written` marks each written byte, `owner` has the block that wrote a piece last.

    `moment` has the writing warp and the block's epoch, like the tags of shared memory. `stored` has the moment of
    the launch.
    """

    __slots__ = ("end", "moment", "owner", "piece", "start", "stored", "written")

    def __init__(self, start: int, nbytes: int) -> None:
        self.start, self.end = start, start + nbytes
        self.written: Array = np.zeros(nbytes, np.uint8)
        self.piece = 0
        self.owner: Array = np.empty(0, np.int64)
        self.moment: Array = np.empty(0, np.int32)
        self.stored: Array = np.empty(0, np.int64)

    def rows(self, nbytes: int) -> Array:
        """Return `written` in rows of `nbytes`; a segment begins at a multiple of every access's size."""
        return self.written[: self.written.size // nbytes * nbytes].reshape(-1, nbytes)

    def owners(self, piece: int) -> Array:
        """Return the tags of pieces of that many bytes."""
        if self.piece != piece:
            self.owner = np.full(self.written.size // piece + 1, -1, np.int64)
            self.moment = np.full(self.owner.size, -1, np.int32)
            self.stored = np.zeros(self.owner.size, np.int64)
            self.piece = piece
        return self.owner


class NotedBlocks(LiveBlocks):
    """Live blocks; a new block counts as uninitialized."""

    __slots__ = ("_memory",)

    def __init__(self, memory: EmulatedMemory) -> None:
        super().__init__()
        self._memory = memory

    def add(self, address: int, nbytes: int) -> None:
        super().add(address, nbytes)
        self._memory.note_forgotten(address, nbytes)


class EmulatedMemory(DeviceMemory):
    """Memory of an emulated device, with its tags."""

    __slots__ = ("_segments", "_starts", "tags")

    def __init__(self, total: int) -> None:
        super().__init__(total)
        self.blocks = NotedBlocks(self)
        self._segments: dict[int, Segment] = {}
        self._starts: list[int] = []
        self.tags = 0
        """First unused tag; a tag identifies a block of a launch."""

    def malloc(self, nbytes: int) -> int:
        address = super().malloc(nbytes)
        self._segments[address] = Segment(address, nbytes)
        self._starts = sorted(self._segments)
        return address

    def free(self, address: int) -> None:
        super().free(address)
        del self._segments[address]
        self._starts = sorted(self._segments)

    def segment_at(self, address: int) -> Segment | None:
        """Return the segment that contains an address, or None."""
        i = bisect_right(self._starts, address) - 1
        if i < 0:
            return None
        segment = self._segments[self._starts[i]]
        return segment if address < segment.end else None

    def note_written(self, address: int, nbytes: int) -> None:
        segment = self.segment_at(address)
        if segment is not None:
            segment.written[address - segment.start : address - segment.start + nbytes] = 1

    def note_forgotten(self, address: int, nbytes: int) -> None:
        """Mark memory as uninitialized."""
        segment = self.segment_at(address)
        if segment is not None:
            segment.written[address - segment.start : address - segment.start + nbytes] = 0

    def by_segment(self, addresses: Array, nbytes: int) -> list[tuple[Segment, Any]]:
        """Return the segments of some addresses, each with its selection of them; omit addresses in no segment."""
        low, high = int(addresses.min()), int(addresses.max()) + nbytes
        first = self.segment_at(low)
        if first is not None and high <= first.end:
            return [(first, slice(None))]
        selections = []
        for start in self._starts:
            segment = self._segments[start]
            inside = (addresses >= np.uint64(start)) & (addresses < np.uint64(segment.end))
            if inside.any():
                selections.append((segment, inside))
        return selections


class Read(NamedTuple):
    """Addresses that blocks read at a moment of a launch, with the epochs of the blocks at that moment."""

    moment: int
    addresses: Array
    nbytes: int
    blocks: Array
    threads: Array
    epochs: Array | None
    order: SharedMemory | None

    def tags(self) -> Array:
        """Return epoch and warp of each thread as one number."""
        assert self.order is not None and self.epochs is not None
        return _tags(self.order, self.epochs, self.threads)


def _tags(order: SharedMemory, epochs: Array, threads: Array) -> Array:
    return epochs[order.block[threads]] * WARPS + order.warp[threads]


class GlobalAccess:
    """Memory accesses of one launch.

    Args:
        memory: Memory of the device.
        host: Page-locked memory, which kernels access too.
        block_count: Blocks of the grid. A single block has no races between blocks; a single warp has none within.
        piece: Smallest access of the kernel in bytes.
        strict: If True, reading uninitialized memory is a fault.
        stores: Detector of conflicting stores to one address.
    """

    def __init__(
        self,
        memory: EmulatedMemory,
        host: HostMemory,
        block_count: int,
        piece: int,
        strict: bool,
        stores: StoreCheck,
    ) -> None:
        self.memory, self.host = memory, host
        self.piece, self.strict, self.stores = piece, strict, stores
        self.moment = 0
        self.many = block_count > 1
        self.first_tag = memory.tags
        memory.tags += block_count
        self.reads: list[Read] = []
        self.lowest, self.highest = _END, 0
        self.acquired: dict[int, list[int]] = {}
        self.released: dict[int, list[int]] = {}
        """Moments at which each block acquired and released, in order."""
        self.order: SharedMemory | None = None
        """Shared memory whose barriers order the warps of the running blocks; None if other units also order them."""

    def check(self, addresses: Array, nbytes: int, operation: str, threads: Array) -> None:
        """Raise Fault unless each access lies within a live block and is aligned to its size."""
        self.moment += 1
        if nbytes > 1:
            astray = addresses & np.uint64(nbytes - 1)
            if astray.any():
                i = int(np.flatnonzero(astray)[0])
                raise Fault(
                    f"{MISALIGNED}: {operation} of {nbytes} bytes at {int(addresses[i]):#x}",
                    int(threads[i]),
                    MISALIGNED_ADDRESS,
                )
        outside = self.memory.blocks.first_outside(addresses, nbytes)
        if outside is None or (self.host.holds(outside, nbytes) and self._all_on_host(addresses, nbytes)):
            return
        i = int(np.flatnonzero(addresses == np.uint64(outside))[0])
        raise Fault(
            f"{ILLEGAL}: {operation} of {nbytes} bytes at {outside:#x}, {self.memory.blocks.describe(outside)}",
            int(threads[i]),
            ILLEGAL_ADDRESS,
        )

    def _all_on_host(self, addresses: Array, nbytes: int) -> bool:
        low, high = int(addresses.min()), int(addresses.max())
        return self.host.holds(low, high - low + nbytes)

    def load(self, addresses: Array, size: int, count: int, threads: Array, blocks: Array) -> Array:
        """Return the contents at these addresses, a row for each."""
        nbytes = size * count
        self.check(addresses, nbytes, "load", threads)
        rows = np.take(memory_view(size, count), row_of(addresses, nbytes), axis=0)
        if self.strict:
            self._check_written(addresses, nbytes, threads)
        order = self.order
        if order is not None:
            self.reads.append(
                Read(self.moment, addresses, nbytes, blocks, threads, order.epoch.copy(), order)
            )
            if int(addresses.min()) < self.highest and int(addresses.max()) + nbytes > self.lowest:
                self._check_warps(self.reads[-1], "were written")
        elif self.many:
            self.reads.append(Read(self.moment, addresses, nbytes, blocks, threads, None, None))
        return rows

    def _check_warps(self, read: Read, written: str) -> None:
        """Raise Fault if two warps of a block read and write an address between the same two barriers."""
        for segment, chosen in self.memory.by_segment(read.addresses, read.nbytes):
            if segment.piece != self.piece:
                continue
            addresses, blocks = read.addresses[chosen], read.blocks[chosen]
            pieces = self._pieces((addresses - np.uint64(segment.start)).view(np.int64), read.nbytes)
            own = segment.owner[pieces] == (self.first_tag + blocks)[:, None]
            if not own.any():
                continue
            tags, wrote = read.tags()[chosen][:, None], segment.moment[pieces]
            bad = own & (wrote // WARPS == tags // WARPS) & (wrote != tags)
            if bad.any():
                # If a tile has fewer elements than threads, several warps hold each element, and one of them stores
                # it. That warp reads what it writes, and the other warps' reads have no effect.
                readers = np.unique(pieces * WARPS + tags % WARPS)
                bad &= ~np.isin(pieces * WARPS + wrote % WARPS, readers)
            if bad.any():
                i, j = (int(k[0]) for k in np.nonzero(bad))
                reader, writer = int(tags[i, 0]) % WARPS, int(wrote[i, j]) % WARPS
                raise Fault(
                    f"{RACE}: {read.nbytes} bytes at {int(addresses[i]):#x} are read by warp {reader} of block "
                    f"{int(blocks[i])} and {written} by its warp {writer} without a barrier in between",
                    int(read.threads[chosen][i]),
                )

    def _pieces(self, offsets: Array, nbytes: int) -> Array:
        """Return the pieces of a segment at these offsets, a row for each."""
        return (offsets // self.piece)[:, None] + np.arange(max(nbytes // self.piece, 1))

    def _check_written(self, addresses: Array, nbytes: int, threads: Array) -> None:
        for segment, chosen in self.memory.by_segment(addresses, nbytes):
            some = addresses[chosen]
            offsets = (some - np.uint64(segment.start)).view(np.int64)
            low, high = int(offsets.min()), int(offsets.max()) + nbytes
            if high - low <= 4 * offsets.size * nbytes and segment.written[low:high].all():
                continue
            notes = segment.rows(nbytes)[offsets // nbytes]
            if not notes.all():
                i = int(np.flatnonzero(~notes.all(1))[0])
                raise Fault(
                    f"{UNINITIALISED}: load of {nbytes} bytes at {int(some[i]):#x}", int(threads[chosen][i])
                )

    def store(
        self,
        addresses: Array,
        values: Array,
        nbytes: int,
        threads: Array,
        blocks: Array,
        bounds: Sequence[Bound | None] = (),
    ) -> None:
        """Write a row of `values` to each address."""
        self.check(addresses, nbytes, "store", threads)
        count = 1 if values.ndim == 1 else values.shape[1]
        view, rows = memory_view(values.dtype.itemsize, count), row_of(addresses, nbytes)
        owns = self.many or self.order is not None
        old = np.take(view, rows, axis=0) if owns else None
        view[rows] = values
        other = np.take(view, rows, axis=0) != values
        if other.any():
            self.stores.check(other, values, addresses, threads, blocks, nbytes, bounds)
        self.lowest = min(self.lowest, int(addresses.min()))
        self.highest = max(self.highest, int(addresses.max()) + nbytes)
        for segment, chosen in self.memory.by_segment(addresses, nbytes):
            offsets = (addresses[chosen] - np.uint64(segment.start)).view(np.int64)
            self._note(segment, offsets, nbytes)
            if owns:
                assert old is not None
                same = old[chosen] == values[chosen]
                self._own(
                    segment,
                    offsets,
                    nbytes,
                    threads[chosen],
                    blocks[chosen],
                    same if count == 1 else same.all(1),
                )

    def _note(self, segment: Segment, offsets: Array, nbytes: int) -> None:
        segment.rows(nbytes)[offsets // nbytes] = 1

    def _own(
        self, segment: Segment, offsets: Array, nbytes: int, threads: Array, blocks: Array, same: Array
    ) -> None:
        """Tag the writing block and warp. Raise Fault for an unordered write of another value by others."""
        owners = segment.owners(self.piece)
        pieces = self._pieces(offsets, nbytes)
        tags = (self.first_tag + blocks.astype(np.int64))[:, None]
        before = owners[pieces]
        of_other_blocks = (before >= self.first_tag) & (before != tags) & ~same[:, None]
        if of_other_blocks.any():
            stored = segment.stored[pieces]
            for i, j in zip(*np.nonzero(of_other_blocks), strict=True):
                writer = int(before[i, j]) - self.first_tag
                if not self._happens_before(writer, int(stored[i, j]), int(blocks[i]), self.moment):
                    raise Fault(
                        f"{RACE}: blocks {writer} and {int(blocks[i])} store to "
                        f"{segment.start + int(offsets[i]):#x} in no order",
                        int(threads[i]),
                    )
        if self.order is not None:
            mine = _tags(self.order, self.order.epoch, threads)[:, None]
            wrote = segment.moment[pieces]
            crossed = (before == tags) & (wrote // WARPS == mine // WARPS) & (wrote != mine) & ~same[:, None]
            if crossed.any():
                i, j = (int(k[0]) for k in np.nonzero(crossed))
                raise Fault(
                    f"{RACE}: warps {int(wrote[i, j]) % WARPS} and {int(mine[i, 0]) % WARPS} of block {int(blocks[i])} "
                    f"store to {segment.start + int(offsets[i]):#x} without a barrier in between",
                    int(threads[i]),
                )
            segment.moment[pieces] = mine
        owners[pieces] = tags
        segment.stored[pieces] = self.moment

    def get_atomically(self, addresses: Array, dtype: Any) -> Array:
        """Return the contents at checked addresses."""
        nbytes = np.dtype(dtype).itemsize
        return np.take(memory_view(nbytes, 1), row_of(addresses, nbytes)).view(dtype)

    def put_atomically(self, addresses: Array, values: Array) -> None:
        """Write to checked addresses; atomic operations of several blocks are no race."""
        nbytes = values.dtype.itemsize
        memory_view(nbytes, 1)[row_of(addresses, nbytes)] = values.view(_UNSIGNED[nbytes])
        for segment, chosen in self.memory.by_segment(addresses, nbytes):
            self._note(segment, (addresses[chosen] - np.uint64(segment.start)).view(np.int64), nbytes)

    def _happens_before(self, first: int, then: int, second: int, now: int) -> bool:
        """Return True if a release after the first access and an acquire before the second order two blocks.

        An acquire counts for every earlier release, regardless of the location that carried the value.
        """
        released, acquired = self.released.get(first, ()), self.acquired.get(second, ())
        i, j = bisect_left(released, then), bisect_right(acquired, now) - 1
        return i < len(released) and j >= 0 and released[i] <= acquired[j]

    def synchronised(self, blocks: Array, order: str) -> None:
        """Note that blocks execute an atomic operation or a fence that orders their accesses."""
        noted = self.acquired if order == "acquire" else self.released
        for block in np.unique(blocks).tolist():
            moments = noted.setdefault(block, [])
            if not moments or moments[-1] < self.moment:
                moments.append(self.moment)

    def finish(self) -> None:
        """Finish the launch. Raise Fault for an unordered read of another block's write."""
        for read in self.reads:
            low, high = int(read.addresses.min()), int(read.addresses.max()) + read.nbytes
            if high <= self.lowest or low >= self.highest:
                continue
            if read.order is not None:
                self._check_warps(read, "are written later")
            if not self.many:
                continue
            for segment, chosen in self.memory.by_segment(read.addresses, read.nbytes):
                if segment.piece != self.piece:
                    continue
                addresses, blocks = read.addresses[chosen], read.blocks[chosen]
                offsets = (addresses - np.uint64(segment.start)).view(np.int64)
                pieces = self._pieces(offsets, read.nbytes)
                owners, stored = segment.owner[pieces], segment.stored[pieces]
                of_other_blocks = (owners >= self.first_tag) & (owners - self.first_tag != blocks[:, None])
                for i, j in zip(*np.nonzero(of_other_blocks), strict=True):
                    reader, writer = int(blocks[i]), int(owners[i, j]) - self.first_tag
                    when = int(stored[i, j])
                    accesses = [(writer, when), (reader, read.moment)]
                    if read.moment < when:
                        accesses.reverse()
                    if not self._happens_before(*accesses[0], *accesses[1]):
                        raise Fault(
                            f"{RACE}: block {reader} reads at {int(addresses[i]):#x} what block {writer} "
                            "writes, in no order"
                        )
        self.reads.clear()
