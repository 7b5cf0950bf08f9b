"""Global memory as kernels see it: real addresses, each access held against the live blocks.

Every byte of a segment has a note whether it was ever written, and during a launch, each piece that a thread block
wrote has a note which one it was, so that blocks that depend on each other's order are found: the order of blocks is
not defined, unless a release and an acquire stand between them (PTX ISA, "Memory Consistency Model"). A second note has
the warp that wrote, and the time between two barriers of the block in which it did: the order of warps is not defined
either.
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
"""The first address of the view of memory; a multiple of every access's size."""
_END = 1 << 47
_UNSIGNED: dict[int, Any] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_memory: Any = (ctypes.c_uint8 * (_END - _BASE)).from_address(_BASE)
_everything: Array = np.frombuffer(_memory, np.uint8)
_views: dict[tuple[int, int], Array] = {}


def memory_view(size: int, count: int) -> Array:
    """All addresses as rows of `count` unsigned numbers of `size` bytes; `row_of` has the row of an address.

    Only what is allocated may be touched.
    """
    found = _views.get((size, count))
    if found is None:
        whole = _everything.size // (size * count) * size * count
        found = _everything[:whole].view(_UNSIGNED[size])
        found = _views[size, count] = found if count == 1 else found.reshape(-1, count)
    return found


def row_of(addresses: Array, nbytes: int) -> Array:
    """The rows of `memory_view` at these addresses, which are multiples of a row's bytes."""
    return (addresses.view(np.int64) - _BASE) // nbytes


class Segment:
    """Notes on a segment: `written` has a byte for each of its own, `owner` the block that wrote a piece last.

    `moment` has the epoch of that block in which it did, and the warp, as shared memory's tags have them; `stored` has
    the moment of the launch.
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
        """`written`, a row for each `nbytes`; a segment begins at a multiple of every access's size."""
        return self.written[: self.written.size // nbytes * nbytes].reshape(-1, nbytes)

    def owners(self, piece: int) -> Array:
        """The tags of pieces of that many bytes."""
        if self.piece != piece:
            self.owner = np.full(self.written.size // piece + 1, -1, np.int64)
            self.moment = np.full(self.owner.size, -1, np.int32)
            self.stored = np.zeros(self.owner.size, np.int64)
            self.piece = piece
        return self.owner


class NotedBlocks(LiveBlocks):
    """Live blocks of which a new one counts as never written."""

    __slots__ = ("_memory",)

    def __init__(self, memory: EmulatedMemory) -> None:
        super().__init__()
        self._memory = memory

    def add(self, address: int, nbytes: int) -> None:
        super().add(address, nbytes)
        self._memory.note_forgotten(address, nbytes)


class EmulatedMemory(DeviceMemory):
    """The memory of an emulated device, with its notes."""

    __slots__ = ("_segments", "_starts", "tags")

    def __init__(self, total: int) -> None:
        super().__init__(total)
        self.blocks = NotedBlocks(self)
        self._segments: dict[int, Segment] = {}
        self._starts: list[int] = []
        self.tags = 0
        """The first tag that no launch has used: a tag is a block of a launch."""

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
        """The segment in which an address lies."""
        i = bisect_right(self._starts, address) - 1
        if i < 0:
            return None
        found = self._segments[self._starts[i]]
        return found if address < found.end else None

    def note_written(self, address: int, nbytes: int) -> None:
        found = self.segment_at(address)
        if found is not None:
            found.written[address - found.start : address - found.start + nbytes] = 1

    def note_forgotten(self, address: int, nbytes: int) -> None:
        """Nothing that lies there counts as written any more."""
        found = self.segment_at(address)
        if found is not None:
            found.written[address - found.start : address - found.start + nbytes] = 0

    def by_segment(self, addresses: Array, nbytes: int) -> list[tuple[Segment, Any]]:
        """The segments of some addresses, each with the selection that lies in it; what lies in none is left out."""
        low, high = int(addresses.min()), int(addresses.max()) + nbytes
        first = self.segment_at(low)
        if first is not None and high <= first.end:
            return [(first, slice(None))]
        found = []
        for start in self._starts:
            segment = self._segments[start]
            inside = (addresses >= np.uint64(start)) & (addresses < np.uint64(segment.end))
            if inside.any():
                found.append((segment, inside))
        return found


class Read(NamedTuple):
    """Addresses that blocks have read at a moment of a launch, in the epochs of their blocks at that moment."""

    moment: int
    addresses: Array
    nbytes: int
    blocks: Array
    threads: Array
    epochs: Array | None
    order: SharedMemory | None

    def tags(self) -> Array:
        """Epoch and warp of each thread, in one number."""
        assert self.order is not None and self.epochs is not None
        return _tags(self.order, self.epochs, self.threads)


def _tags(order: SharedMemory, epochs: Array, threads: Array) -> Array:
    return epochs[order.block[threads]] * WARPS + order.warp[threads]


class GlobalAccess:
    """The accesses of one launch.

    Args:
        memory: of the device.
        host: page-locked memory, which kernels reach too.
        block_count: of the grid; with one block there is no race between blocks, with one warp in each none within.
        piece: the least bytes that an access of the kernel has.
        strict: whether memory that was never written must not be read.
        stores: decides about stores of different values to one place.
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
        """The moments at which each block acquired and released, in order."""
        self.order: SharedMemory | None = None
        """Whose barriers order the warps of the blocks that run; None where more than those do."""

    def check(self, addresses: Array, nbytes: int, what: str, threads: Array) -> None:
        """Raise Fault unless each access lies within a live block, at a multiple of its size."""
        self.moment += 1
        if nbytes > 1:
            astray = addresses & np.uint64(nbytes - 1)
            if astray.any():
                i = int(np.flatnonzero(astray)[0])
                raise Fault(
                    f"{MISALIGNED}: {what} of {nbytes} bytes at {int(addresses[i]):#x}",
                    int(threads[i]),
                    MISALIGNED_ADDRESS,
                )
        outside = self.memory.blocks.first_outside(addresses, nbytes)
        if outside is None or (self.host.holds(outside, nbytes) and self._all_on_host(addresses, nbytes)):
            return
        i = int(np.flatnonzero(addresses == np.uint64(outside))[0])
        raise Fault(
            f"{ILLEGAL}: {what} of {nbytes} bytes at {outside:#x}, {self.memory.blocks.describe(outside)}",
            int(threads[i]),
            ILLEGAL_ADDRESS,
        )

    def _all_on_host(self, addresses: Array, nbytes: int) -> bool:
        low, high = int(addresses.min()), int(addresses.max())
        return self.host.holds(low, high - low + nbytes)

    def load(self, addresses: Array, size: int, count: int, threads: Array, blocks: Array) -> Array:
        """What lies at these addresses, a row for each."""
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
        """Raise Fault for what a warp has read and another one of its block writes between the same two barriers."""
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
                # Where a tile has fewer elements than threads, several warps hold each, and one of them stores it: that
                # one reads what it writes, and what the others read comes to nothing.
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
        """The pieces of a segment that lie at these offsets, a row for each."""
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
        """Note which block and warp wrote, and raise Fault where others had, with another value and in no order."""
        owners = segment.owners(self.piece)
        pieces = self._pieces(offsets, nbytes)
        tags = (self.first_tag + blocks.astype(np.int64))[:, None]
        before = owners[pieces]
        others = (before >= self.first_tag) & (before != tags) & ~same[:, None]
        if others.any():
            stored = segment.stored[pieces]
            for i, j in zip(*np.nonzero(others), strict=True):
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
        """What lies at addresses that were checked."""
        nbytes = np.dtype(dtype).itemsize
        return np.take(memory_view(nbytes, 1), row_of(addresses, nbytes)).view(dtype)

    def put_atomically(self, addresses: Array, values: Array) -> None:
        """Change what lies at addresses that were checked; atomic operations of several blocks are no race."""
        nbytes = values.dtype.itemsize
        memory_view(nbytes, 1)[row_of(addresses, nbytes)] = values.view(_UNSIGNED[nbytes])
        for segment, chosen in self.memory.by_segment(addresses, nbytes):
            self._note(segment, (addresses[chosen] - np.uint64(segment.start)).view(np.int64), nbytes)

    def _happens_before(self, first: int, then: int, second: int, now: int) -> bool:
        """Return whether a release of one block after its access, and an acquire of another before its own, order them.

        An acquire counts for every release that came before it: which location carried the value is not looked at.
        """
        released, acquired = self.released.get(first, ()), self.acquired.get(second, ())
        i, j = bisect_left(released, then), bisect_right(acquired, now) - 1
        return i < len(released) and j >= 0 and released[i] <= acquired[j]

    def synchronised(self, blocks: Array, order: str) -> None:
        """Blocks came to an atomic operation, or to a fence, that orders what they do."""
        noted = self.acquired if order == "acquire" else self.released
        for block in np.unique(blocks).tolist():
            moments = noted.setdefault(block, [])
            if not moments or moments[-1] < self.moment:
                moments.append(self.moment)

    def finish(self) -> None:
        """The launch is over. Raises Fault if a block read what another one wrote, in no order."""
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
                others = (owners >= self.first_tag) & (owners - self.first_tag != blocks[:, None])
                for i, j in zip(*np.nonzero(others), strict=True):
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
