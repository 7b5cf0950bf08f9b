"""Simulated device memory: host memory that only launches and copies may touch, inside live blocks.

A *segment* is what the driver gives to an allocator; a *block* is what the allocator has handed out of it. An
address outside every live block is an illegal access, as is one that its element's size does not divide.
"""

from __future__ import annotations

import ctypes
from bisect import bisect_left, bisect_right
from typing import Any

import numpy as np

from ...errors import AcceleratorError, OutOfMemoryError

SEGMENT_ALIGNMENT = 512
POISON = 0xCB
INVALID_VALUE, ALREADY_REGISTERED, NOT_REGISTERED = 1, 712, 713
"""Fills memory that was never written: -2.7e7 as float32 or bfloat16, and no plausible index."""

Addresses = np.ndarray[Any, np.dtype[np.uint64]]


class LiveBlocks:
    """The blocks of one device that work may touch at this point of its execution.

    `of_graphs` are those that outlive the capture they were made in. When such a one is given back it is `lingering`:
    its memory stays the graph's, and what one replay wrote there another one may read, until something else takes its
    place.
    """

    __slots__ = ("_ends", "_ends_array", "_stale", "_starts", "_starts_array", "lingering", "of_graphs")

    def __init__(self) -> None:
        self.lingering: set[int] = set()
        self.of_graphs: set[int] = set()
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._stale = True
        self._starts_array: Addresses = np.empty(0, np.uint64)
        self._ends_array: Addresses = np.empty(0, np.uint64)

    def add(self, address: int, nbytes: int) -> None:
        """A block becomes live. Its bytes are poisoned: nobody may rely on what an earlier block left."""
        if self.lingering:
            self.drop_lingering(address, nbytes)
        ctypes.memset(address, POISON, nbytes)
        i = bisect_left(self._starts, address)
        self._starts.insert(i, address)
        self._ends.insert(i, address + nbytes)
        self._stale = True

    def remove(self, address: int) -> None:
        """A block is no longer live. Raises RuntimeError if it was not."""
        i = bisect_left(self._starts, address)
        if i == len(self._starts) or self._starts[i] != address:
            raise RuntimeError(f"CUDA error: invalid argument: no block at {address:#x} to free")
        del self._starts[i], self._ends[i]
        self._stale = True

    def give_back(self, address: int) -> None:
        """Whoever held a block does no longer."""
        if address in self.of_graphs:
            self.of_graphs.discard(address)
            self.lingering.add(address)
        else:
            self.remove(address)

    def drop_lingering(self, address: int, nbytes: int) -> None:
        """No longer let graphs read what they left in this range."""
        for start, _ in self.overlapping(address, nbytes):
            if start in self.lingering:
                self.lingering.discard(start)
                self.remove(start)

    def size_at(self, address: int) -> int | None:
        """The size of the block that begins here."""
        i = bisect_left(self._starts, address)
        if i == len(self._starts) or self._starts[i] != address:
            return None
        return self._ends[i] - address

    def overlapping(self, address: int, nbytes: int) -> list[tuple[int, int]]:
        """(address, size) of the blocks that share bytes with a range."""
        found = []
        i = max(bisect_right(self._starts, address) - 1, 0)
        while i < len(self._starts) and self._starts[i] < address + nbytes:
            if self._ends[i] > address:
                found.append((self._starts[i], self._ends[i] - self._starts[i]))
            i += 1
        return found

    def holds(self, address: int, nbytes: int) -> bool:
        """Whether the range lies within one live block."""
        i = bisect_right(self._starts, address) - 1
        return i >= 0 and address + nbytes <= self._ends[i]

    def first_outside(self, addresses: Addresses, itemsize: int) -> int | None:
        """The first address whose element is not wholly within a live block."""
        lowest, highest = int(addresses.min()), int(addresses.max())
        if self.holds(lowest, highest - lowest + itemsize):
            return None
        if self._stale:
            self._starts_array = np.array(self._starts, np.uint64)
            self._ends_array = np.array(self._ends, np.uint64)
            self._stale = False
        if not self._starts:
            return int(addresses.flat[0])
        flat = addresses.ravel()
        index = np.searchsorted(self._starts_array, flat, side="right").astype(np.int64) - 1
        inside = (index >= 0) & (flat <= self._ends_array[index] - np.uint64(itemsize))
        # A block smaller than the element makes the subtraction above point before its start.
        inside &= flat >= self._starts_array[index]
        return None if inside.all() else int(flat[~inside][0])

    def describe(self, address: int) -> str:
        """Where an address lies among the live blocks."""
        i = bisect_right(self._starts, address) - 1
        if i >= 0 and address < self._ends[i]:
            return f"in the block at {self._starts[i]:#x}, {self._ends[i] - address} bytes before its end"
        places = []
        if i >= 0:
            size = self._ends[i] - self._starts[i]
            places.append(
                f"{address - self._ends[i]} bytes past the end of the block at {self._starts[i]:#x} of {size}"
            )
        if i + 1 < len(self._starts):
            size = self._ends[i + 1] - self._starts[i + 1]
            before = self._starts[i + 1] - address
            places.append(f"{before} bytes before the block at {self._starts[i + 1]:#x} of {size}")
        return " and ".join(places) or "and the device has no live block"


class DeviceMemory:
    """The memory of one simulated device."""

    __slots__ = ("_buffers", "blocks", "reserved", "total")

    def __init__(self, total: int) -> None:
        self.total = total
        self.reserved = 0
        self.blocks = LiveBlocks()
        self._buffers: dict[int, tuple[np.ndarray[Any, Any], int]] = {}

    def malloc(self, nbytes: int) -> int:
        """A segment. Raises OutOfMemoryError beyond the device's total."""
        if self.reserved + nbytes > self.total:
            raise OutOfMemoryError(
                f"CUDA out of memory: {nbytes} bytes requested, {self.total - self.reserved} are free"
            )
        buffer = np.empty(nbytes + SEGMENT_ALIGNMENT, np.uint8)
        address = buffer.__array_interface__["data"][0]
        address += -address % SEGMENT_ALIGNMENT
        self._buffers[address] = (buffer, nbytes)
        self.reserved += nbytes
        return int(address)

    def note_written(self, address: int, nbytes: int) -> None:
        """Something other than a kernel wrote there; a memory that keeps account of it overrides this."""

    def owns(self, address: int) -> bool:
        """Whether an address lies in a segment."""
        return any(start <= address < start + nbytes for start, (_, nbytes) in list(self._buffers.items()))

    def free(self, address: int) -> None:
        """Give a segment back. Raises RuntimeError for an address that `malloc` did not give."""
        found = self._buffers.pop(address, None)
        if found is None:
            raise RuntimeError(f"CUDA error: invalid argument: no segment at {address:#x} to free")
        self.blocks.drop_lingering(address, found[1])
        self.reserved -= found[1]


class HostMemory:
    """Page-locked host memory: pieces whose address and size the driver knows."""

    __slots__ = ("_buffers", "_registered", "total", "used")

    def __init__(self, total: int) -> None:
        self.total = total
        self.used = 0
        self._buffers: dict[int, np.ndarray[Any, Any]] = {}
        self._registered: dict[int, int] = {}

    def malloc(self, nbytes: int) -> int:
        """A piece, poisoned. Raises OutOfMemoryError beyond the total."""
        if self.used + nbytes > self.total:
            raise OutOfMemoryError(
                f"CUDA error: out of memory: {nbytes} bytes of page-locked memory requested, "
                f"{self.total - self.used} are free"
            )
        buffer = np.full(nbytes + SEGMENT_ALIGNMENT, POISON, np.uint8)
        start = buffer.__array_interface__["data"][0]
        piece = buffer[-start % SEGMENT_ALIGNMENT :][:nbytes]
        address = int(piece.__array_interface__["data"][0])
        self._buffers[address] = piece
        self.used += nbytes
        return address

    def free(self, address: int) -> None:
        """Give a piece back. Raises RuntimeError for an address that `malloc` did not give."""
        found = self._buffers.pop(address, None)
        if found is None:
            raise RuntimeError(f"CUDA error: invalid argument: no page-locked memory at {address:#x} to free")
        self.used -= found.nbytes

    def register(self, address: int, nbytes: int) -> None:
        """Have memory of somebody else's count as page-locked, as ``cudaHostRegister`` does.

        Raises AcceleratorError for an empty range, and for one that overlaps another.
        """
        if nbytes <= 0 or address <= 0:
            raise AcceleratorError(
                f"CUDA error: invalid argument: cannot page-lock {nbytes} bytes at {address:#x}",
                INVALID_VALUE,
            )
        if any(start < address + nbytes and address < end for start, end in self._ranges()):
            raise AcceleratorError(
                "CUDA error: part or all of the requested memory range is already mapped: "
                f"{nbytes} bytes at {address:#x}",
                ALREADY_REGISTERED,
            )
        self._registered[address] = nbytes

    def unregister(self, address: int) -> None:
        """Undo `register`. Raises AcceleratorError for another address."""
        if self._registered.pop(address, None) is None:
            raise AcceleratorError(
                f"CUDA error: pointer does not correspond to a registered memory region: {address:#x}",
                NOT_REGISTERED,
            )

    def holds(self, address: int, nbytes: int) -> bool:
        """Whether the range lies within one piece."""
        return any(start <= address and address + nbytes <= end for start, end in self._ranges())

    def _ranges(self) -> list[tuple[int, int]]:
        taken = [(start, start + piece.nbytes) for start, piece in list(self._buffers.items())]
        return taken + [(start, start + nbytes) for start, nbytes in list(self._registered.items())]
