"""Simulated device memory: host memory that only launches and copies may access, inside live blocks.

A *segment* is an allocation from the driver; a *block* is a part of it that the allocator has allocated. An address
outside every live block is an illegal access, as is an address that is not aligned to its element size.
"""

from __future__ import annotations

import ctypes
from bisect import bisect_left, bisect_right
from typing import Any

import numpy as np

from ...errors import AcceleratorError, OutOfMemoryError
from ..memory.block import GRANULARITY

POISON = 0xCB
INVALID_VALUE, ALREADY_REGISTERED, NOT_REGISTERED = 1, 712, 713
"""Fills uninitialized memory: -2.7e7 as float32 or bfloat16, and no plausible index."""

Addresses = np.ndarray[Any, np.dtype[np.uint64]]


class LiveBlocks:
    """Blocks of one device that work may access at this point of its execution.

    `of_graphs` are the blocks that outlive their capture. A freed block of a graph is `lingering`: its memory stays
    the graph's, and a replay may read what an earlier replay wrote, until another block takes its place.
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
        """Make a block live and poison its bytes, since callers must not rely on an earlier block's contents."""
        if self.lingering:
            self.drop_lingering(address, nbytes)
        ctypes.memset(address, POISON, nbytes)
        i = bisect_left(self._starts, address)
        self._starts.insert(i, address)
        self._ends.insert(i, address + nbytes)
        self._stale = True

    def remove(self, address: int) -> None:
        """Remove a live block. Raise RuntimeError if it was not live."""
        i = bisect_left(self._starts, address)
        if i == len(self._starts) or self._starts[i] != address:
            raise RuntimeError(f"CUDA error: invalid argument: no block at {address:#x} to free")
        del self._starts[i], self._ends[i]
        self._stale = True

    def give_back(self, address: int) -> None:
        """Note that the owner of a block freed it."""
        if address in self.of_graphs:
            self.of_graphs.discard(address)
            self.lingering.add(address)
        else:
            self.remove(address)

    def drop_lingering(self, address: int, nbytes: int) -> None:
        """Remove lingering blocks of graphs from this range."""
        for start, _ in self.overlapping(address, nbytes):
            if start in self.lingering:
                self.lingering.discard(start)
                self.remove(start)

    def size_at(self, address: int) -> int | None:
        """Return the size of the block that begins here, or None."""
        i = bisect_left(self._starts, address)
        if i == len(self._starts) or self._starts[i] != address:
            return None
        return self._ends[i] - address

    def overlapping(self, address: int, nbytes: int) -> list[tuple[int, int]]:
        """Return (address, size) of the blocks that overlap a range."""
        blocks = []
        i = max(bisect_right(self._starts, address) - 1, 0)
        while i < len(self._starts) and self._starts[i] < address + nbytes:
            if self._ends[i] > address:
                blocks.append((self._starts[i], self._ends[i] - self._starts[i]))
            i += 1
        return blocks

    def holds(self, address: int, nbytes: int) -> bool:
        """Return True if the range lies within one live block."""
        i = bisect_right(self._starts, address) - 1
        return i >= 0 and address + nbytes <= self._ends[i]

    def first_outside(self, addresses: Addresses, itemsize: int) -> int | None:
        """Return the first address whose element is not wholly within a live block, or None."""
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
        """Describe the position of an address among the live blocks."""
        i = bisect_right(self._starts, address) - 1
        if i >= 0 and address < self._ends[i]:
            return f"in the block at {self._starts[i]:#x}, {self._ends[i] - address} bytes before its end"
        descriptions = []
        if i >= 0:
            size = self._ends[i] - self._starts[i]
            descriptions.append(
                f"{address - self._ends[i]} bytes past the end of the block at {self._starts[i]:#x} of {size}"
            )
        if i + 1 < len(self._starts):
            size = self._ends[i + 1] - self._starts[i + 1]
            before = self._starts[i + 1] - address
            descriptions.append(f"{before} bytes before the block at {self._starts[i + 1]:#x} of {size}")
        return " and ".join(descriptions) or "and the device has no live block"


class DeviceMemory:
    """Memory of one simulated device."""

    __slots__ = ("_buffers", "blocks", "reserved", "total")

    def __init__(self, total: int) -> None:
        self.total = total
        self.reserved = 0
        self.blocks = LiveBlocks()
        self._buffers: dict[int, tuple[np.ndarray[Any, Any], int]] = {}

    def malloc(self, nbytes: int) -> int:
        """Allocate a segment. Raise OutOfMemoryError beyond the device's total."""
        if self.reserved + nbytes > self.total:
            raise OutOfMemoryError(
                f"CUDA out of memory: {nbytes} bytes requested, {self.total - self.reserved} are free"
            )
        buffer = np.empty(nbytes + GRANULARITY, np.uint8)
        address = buffer.__array_interface__["data"][0]
        address += -address % GRANULARITY
        self._buffers[address] = (buffer, nbytes)
        self.reserved += nbytes
        return int(address)

    def note_written(self, address: int, nbytes: int) -> None:
        """Note a write by something other than a kernel; subclasses that track writes override this."""

    def owns(self, address: int) -> bool:
        """Return True if an address lies in a segment."""
        return any(start <= address < start + nbytes for start, (_, nbytes) in list(self._buffers.items()))

    def free(self, address: int) -> None:
        """Free a segment. Raise RuntimeError for an address that is not from `malloc`."""
        buffer = self._buffers.pop(address, None)
        if buffer is None:
            raise RuntimeError(f"CUDA error: invalid argument: no segment at {address:#x} to free")
        self.blocks.drop_lingering(address, buffer[1])
        self.reserved -= buffer[1]


class HostMemory:
    """Page-locked host memory: allocations whose address and size the driver knows."""

    __slots__ = ("_buffers", "_registered", "total", "used")

    def __init__(self, total: int) -> None:
        self.total = total
        self.used = 0
        self._buffers: dict[int, np.ndarray[Any, Any]] = {}
        self._registered: dict[int, int] = {}

    def malloc(self, nbytes: int) -> int:
        """Allocate poisoned memory. Raise OutOfMemoryError beyond the total."""
        if self.used + nbytes > self.total:
            raise OutOfMemoryError(
                f"CUDA error: out of memory: {nbytes} bytes of page-locked memory requested, "
                f"{self.total - self.used} are free"
            )
        buffer = np.full(nbytes + GRANULARITY, POISON, np.uint8)
        start = buffer.__array_interface__["data"][0]
        piece = buffer[-start % GRANULARITY :][:nbytes]
        address = int(piece.__array_interface__["data"][0])
        self._buffers[address] = piece
        self.used += nbytes
        return address

    def free(self, address: int) -> None:
        """Free an allocation. Raise RuntimeError for an address that is not from `malloc`."""
        buffer = self._buffers.pop(address, None)
        if buffer is None:
            raise RuntimeError(f"CUDA error: invalid argument: no page-locked memory at {address:#x} to free")
        self.used -= buffer.nbytes

    def register(self, address: int, nbytes: int) -> None:
        """Register memory of another allocator as page-locked, like ``cudaHostRegister``.

        Raises AcceleratorError for an empty range, and for a range that overlaps another.
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
        """Undo `register`. Raise AcceleratorError for another address."""
        if self._registered.pop(address, None) is None:
            raise AcceleratorError(
                f"CUDA error: pointer does not correspond to a registered memory region: {address:#x}",
                NOT_REGISTERED,
            )

    def holds(self, address: int, nbytes: int) -> bool:
        """Return True if the range lies within one allocation."""
        return any(start <= address and address + nbytes <= end for start, end in self._ranges())

    def _ranges(self) -> list[tuple[int, int]]:
        taken = [(start, start + piece.nbytes) for start, piece in list(self._buffers.items())]
        return taken + [(start, start + nbytes) for start, nbytes in list(self._registered.items())]
