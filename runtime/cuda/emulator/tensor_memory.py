"""Tensor memory of sm_100: 128 lanes of 512 columns of 32 bits for each block, allocated by columns.

Warps read and write it (``tcgen05.ld``, ``tcgen05.st``), each the quarter of the lanes that is its own, and products
add up in it. None of them waits for another by itself: what has happened before what is known by the vector clocks of
`ordered_memory`, kept here for each column of 16 lanes, which are what 64 rows take of a quarter.

A load of columns to which nothing was written is no fault, since the compiler loads sums of a loop that was not gone
through, and drops them: it gives NaN. A product that reads them is one.

Source: NVIDIA, PTX ISA 8.8, "TensorCore 5th Generation Family Instructions": "Tensor Memory", "Memory Consistency
Model".
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .fault import DIVERGENT, ILLEGAL, ILLEGAL_ADDRESS, ILLEGAL_INSTRUCTION, RACE, UNINITIALISED, Fault
from .ordered_memory import KNOWN, OrderedSharedMemory

Array = np.ndarray[Any, Any]

LANES, COLUMNS = 128, 512
QUARTERS, LANES_OF_A_WARP = 4, 32
PARTS, LANES_OF_A_PART = 8, 16
LEAST_COLUMNS = 32
"""Columns are allocated in powers of two from this one on."""
NEVER, PENDING = -1, -2
"""Who wrote a column, where that is no clock's column: nobody, or a store that its warp did not wait for."""
NAN = 0xFFFFFFFF
UNDER_WAY = np.iinfo(np.int32).max
"""When a column was read by a load that its warp did not wait for."""


class TensorMemory:
    """The tensor memory of some blocks that run together.

    Args:
        memory: the shared memory of the blocks, which keeps their clocks: those of warps, then of their products.
        blocks: how many there are.
    """

    def __init__(self, memory: OrderedSharedMemory, blocks: int) -> None:
        self.memory = memory
        self.data: Array = np.full((blocks, LANES, COLUMNS), NAN, np.uint32)
        self.allocated: list[dict[int, int]] = [{} for _ in range(blocks)]
        """The columns of each allocation of a block, by its first."""
        self.relinquished: Array = np.zeros(blocks, np.bool_)
        self.by: Array = np.full((blocks, PARTS, COLUMNS), NEVER, np.int16)
        self.at: Array = np.zeros((blocks, PARTS, COLUMNS), np.int32)
        self.read_at: Array = np.zeros((blocks, PARTS, COLUMNS, 2 * memory.warps), np.int32)
        self.loads: list[tuple[int, int, slice, slice]] = []
        """Those that were not waited for: the block, the warp, the parts and the columns."""
        self.stores: list[tuple[int, int, slice, slice]] = []

    # Allocation

    def allocate(self, block: int, count: int, thread: int) -> int:
        """``tcgen05.alloc``: the address of so many columns.

        Raises Fault for a number that none can have, and where fewer are free: nobody else would free them.
        """
        if count & (count - 1) or not LEAST_COLUMNS <= count <= COLUMNS:
            raise Fault(
                f"{ILLEGAL}: tcgen05.alloc of {count} columns, expected a power of two from {LEAST_COLUMNS} to "
                f"{COLUMNS}",
                thread,
                ILLEGAL_INSTRUCTION,
            )
        if self.relinquished[block]:
            raise Fault(
                f"{ILLEGAL}: tcgen05.alloc after tcgen05.relinquish_alloc_permit", thread, ILLEGAL_INSTRUCTION
            )
        own = self.allocated[block]
        for first in range(0, COLUMNS, count):
            if all(other + size <= first or first + count <= other for other, size in own.items()):
                own[first] = count
                self.data[block, :, first : first + count] = NAN
                return first
        raise Fault(
            f"{DIVERGENT}: tcgen05.alloc of {count} columns waits for ever: the block has "
            f"{sum(own.values())} of {COLUMNS}",
            thread,
        )

    def free(self, block: int, warp: int, address: int, count: int, thread: int) -> None:
        """``tcgen05.dealloc``. Raises Fault for columns that were not allocated so, or are in use."""
        if self.allocated[block].get(address) != count:
            raise Fault(
                f"{ILLEGAL}: tcgen05.dealloc of {count} columns at {address:#x} of tensor memory, which were not "
                "allocated so",
                thread,
                ILLEGAL_ADDRESS,
            )
        columns = slice(address, address + count)
        self._check_write(block, warp, slice(PARTS), columns, None, thread, "freed by")
        del self.allocated[block][address]
        self.by[block, :, columns] = NEVER
        self.read_at[block, :, columns] = 0

    def check_ended(self, block: int, thread: int) -> None:
        """Raise Fault if a block that ends has columns left."""
        for first, count in self.allocated[block].items():
            raise Fault(
                f"{ILLEGAL}: a block ends with {count} columns at {first:#x} of tensor memory: no tcgen05.dealloc",
                thread,
            )

    def columns(self, block: int, address: int, count: int, thread: int, what: str) -> slice:
        """The columns of an access. Raises Fault where they are not all of one allocation."""
        first = address & 0xFFFF
        for start, size in self.allocated[block].items():
            if start <= first and first + count <= start + size:
                return slice(first, first + count)
        raise Fault(
            f"{ILLEGAL}: {what} of {count} columns at {address:#x} of tensor memory, which are not allocated",
            thread,
            ILLEGAL_ADDRESS,
        )

    # Accesses

    def _where(self, part: int, column: int, parts: slice, columns: slice) -> str:
        lane = range(*parts.indices(PARTS))[part] * LANES_OF_A_PART
        last = lane + LANES_OF_A_PART - 1
        return f"column {columns.start + column} of tensor memory, lanes {lane} to {last},"

    def _check_read(
        self, block: int, warp: int, parts: slice, columns: slice, unit: int | None, thread: int, what: str
    ) -> None:
        """Raise Fault for what is not there yet; `unit` is the clock's column of products that come in order."""
        by, at = self.by[block, parts, columns], self.at[block, parts, columns]
        known = self.memory.clocks[block, warp, KNOWN]
        late = (by == PENDING) | ((by >= 0) & (known[np.maximum(by, 0)] < at))
        if unit is not None:
            late = (late & (by != unit)) | (by == NEVER)
        if not late.any():
            return
        i, j = (int(k[0]) for k in np.nonzero(late))
        where, writer, warps = self._where(i, j, parts, columns), int(by[i, j]), self.memory.warps
        if writer == NEVER:
            raise Fault(f"{UNINITIALISED}: {where} by {what}", thread)
        if writer == PENDING:
            raise Fault(f"{RACE}: {where} is read by {what} while it is stored: no tcgen05.wait::st", thread)
        if writer >= warps:
            raise Fault(
                f"{RACE}: {where} is read by {what} before the products of warp {writer - warps} are done: no wait for "
                "the barrier of their tcgen05.commit",
                thread,
            )
        raise Fault(
            f"{RACE}: {where} is read by {what} and was written by warp {writer} without a barrier in between",
            thread,
        )

    def _check_write(
        self, block: int, warp: int, parts: slice, columns: slice, unit: int | None, thread: int, what: str
    ) -> None:
        """Raise Fault for what others still read, or wrote and nobody waited for."""
        by, at = self.by[block, parts, columns], self.at[block, parts, columns]
        memory = self.memory
        known = memory.clocks[block, warp, KNOWN]
        late = (by >= 0) & (known[np.maximum(by, 0)] < at)
        if unit is not None:
            late &= by != unit
        pending = (by == PENDING) & ((at != warp) | (unit is not None) | (what == "freed by"))
        if (late | pending).any():
            i, j = (int(k[0]) for k in np.nonzero(late | pending))
            writer = memory.who(int(by[i, j]))
            if pending[i, j]:
                writer = f"warp {int(at[i, j])}, without tcgen05.wait::st"
            raise Fault(
                f"{RACE}: {self._where(i, j, parts, columns)} is {what} warp {warp} and was written by {writer} and "
                "not waited for",
                thread,
            )
        crossed = self.read_at[block, parts, columns] > known[: 2 * memory.warps]
        if unit is not None:
            crossed[:, :, unit] = False
        if crossed.any():
            i, j, reader = (int(k[0]) for k in np.nonzero(crossed))
            raise Fault(
                f"{RACE}: {self._where(i, j, parts, columns)} is {what} warp {warp} while {memory.who(reader)} "
                "still reads it",
                thread,
            )

    def load_begins(self, block: int, warp: int, parts: slice, columns: slice, thread: int) -> None:
        """A warp begins to read columns of its lanes."""
        self._check_read(block, warp, parts, columns, None, thread, f"warp {warp}")
        self.read_at[block, parts, columns, warp] = UNDER_WAY
        self.loads.append((block, warp, parts, columns))

    def store_begins(self, block: int, warp: int, parts: slice, columns: slice, thread: int) -> None:
        """A warp begins to write columns of its lanes."""
        self._check_write(block, warp, parts, columns, None, thread, "written by")
        self.by[block, parts, columns], self.at[block, parts, columns] = PENDING, warp
        self.stores.append((block, warp, parts, columns))

    def wait_for_loads(self, block: int, warp: int) -> None:
        """``tcgen05.wait::ld``: what the warp reads has come."""
        clock = self.memory.clocks[block, warp, KNOWN, warp]
        for _, _, parts, columns in (each for each in self.loads if each[:2] == (block, warp)):
            self.read_at[block, parts, columns, warp] = clock
        self.loads = [each for each in self.loads if each[:2] != (block, warp)]

    def wait_for_stores(self, block: int, warp: int) -> None:
        """``tcgen05.wait::st``: what the warp writes is there."""
        clock = self.memory.clocks[block, warp, KNOWN, warp]
        for _, _, parts, columns in (each for each in self.stores if each[:2] == (block, warp)):
            self.by[block, parts, columns], self.at[block, parts, columns] = warp, clock
        self.stores = [each for each in self.stores if each[:2] != (block, warp)]

    def product_reads(
        self, block: int, warp: int, parts: slice, columns: slice, clock: int, thread: int
    ) -> None:
        """A product of a warp's thread reads an operand, until a clock of the warp's products."""
        unit = self.memory.warps + warp
        self._check_read(block, warp, parts, columns, unit, thread, f"a product of warp {warp}")
        self.read_at[block, parts, columns, unit] = clock

    def product_writes(
        self, block: int, warp: int, parts: slice, columns: slice, clock: int, adds: bool, thread: int
    ) -> None:
        """A product writes its sums, which it reads first if it `adds` to them; products of one warp come in order."""
        unit = self.memory.warps + warp
        if adds:
            self._check_read(block, warp, parts, columns, unit, thread, f"a product of warp {warp}")
        self._check_write(block, warp, parts, columns, unit, thread, "written by a product of")
        self.by[block, parts, columns], self.at[block, parts, columns] = unit, clock
