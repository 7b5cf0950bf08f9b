"""Tensor memory of sm_100: 128 lanes of 512 columns of 32 bits for each block, allocated by columns.

Warps read and write it (``tcgen05.ld``, ``tcgen05.st``), each the quarter of the lanes that is its own, and products
add up in it. None of them waits for another by itself: what has happened before what is known by the vector clocks of
`ordered_memory`, kept here for each column of each quarter. Source: NVIDIA, PTX ISA 8.8, "TensorCore 5th Generation
Family Instructions": "Tensor Memory", "Memory Consistency Model".
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .fault import DIVERGENT, ILLEGAL, ILLEGAL_ADDRESS, ILLEGAL_INSTRUCTION, RACE, UNINITIALISED, Fault
from .ordered_memory import KNOWN, OrderedSharedMemory

Array = np.ndarray[Any, Any]

LANES, COLUMNS = 128, 512
QUARTERS, LANES_OF_A_WARP = 4, 32
LEAST_COLUMNS = 32
"""Columns are allocated in powers of two from this one on."""
NEVER, PENDING = -1, -2
"""Who wrote a column, where that is no clock's column: nobody, or a store that its warp did not wait for."""
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
        self.data: Array = np.zeros((blocks, LANES, COLUMNS), np.uint32)
        self.allocated: list[dict[int, int]] = [{} for _ in range(blocks)]
        """The columns of each allocation of a block, by its first."""
        self.relinquished: Array = np.zeros(blocks, np.bool_)
        self.by: Array = np.full((blocks, QUARTERS, COLUMNS), NEVER, np.int16)
        self.at: Array = np.zeros((blocks, QUARTERS, COLUMNS), np.int32)
        self.read_at: Array = np.zeros((blocks, QUARTERS, COLUMNS, 2 * memory.warps), np.int32)
        self.loads: list[tuple[int, int, slice]] = []
        """Those that were not waited for: the block, the warp, and the columns in its quarter."""
        self.stores: list[tuple[int, int, slice]] = []

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
        for quarter in range(QUARTERS):
            self._check_write(block, warp, quarter, columns, None, thread, "freed")
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

    def _where(self, first: int, quarter: int, columns: slice) -> str:
        return (
            f"column {columns.start + first} of tensor memory, lanes {32 * quarter} to {32 * quarter + 31},"
        )

    def _who(self, column: int) -> str:
        return self.memory.who(column)

    def _check_read(
        self, block: int, warp: int, quarter: int, columns: slice, unit: int | None, thread: int, what: str
    ) -> None:
        """Raise Fault for what is not there yet; `unit` is the clock's column of products that come in order."""
        by, at = self.by[block, quarter, columns], self.at[block, quarter, columns]
        known = self.memory.clocks[block, warp, KNOWN]
        late = (by < 0) | (known[np.maximum(by, 0)] < at)
        if unit is not None:
            late &= by != unit
        if not late.any():
            return
        i = int(np.flatnonzero(late)[0])
        where, writer = self._where(i, quarter, columns), int(by[i])
        if writer == NEVER:
            raise Fault(f"{UNINITIALISED}: {where} by {what}", thread)
        if writer == PENDING:
            raise Fault(f"{RACE}: {where} is read by {what} while it is stored: no tcgen05.wait::st", thread)
        if writer >= self.memory.warps:
            raise Fault(
                f"{RACE}: {where} is read by {what} before the products of warp {writer - self.memory.warps} are "
                "done: no wait for the barrier of their tcgen05.commit",
                thread,
            )
        raise Fault(
            f"{RACE}: {where} is read by {what} and was written by warp {writer} without a barrier in between",
            thread,
        )

    def _check_write(
        self, block: int, warp: int, quarter: int, columns: slice, unit: int | None, thread: int, what: str
    ) -> None:
        """Raise Fault for what others still read, or wrote and nobody waited for."""
        by, at = self.by[block, quarter, columns], self.at[block, quarter, columns]
        known = self.memory.clocks[block, warp, KNOWN]
        late = (by >= 0) & (known[np.maximum(by, 0)] < at)
        if unit is not None:
            late &= by != unit
        pending = (by == PENDING) & ((at != warp) | (unit is not None) | (what == "freed"))
        if (late | pending).any():
            i = int(np.flatnonzero(late | pending)[0])
            where = self._where(i, quarter, columns)
            writer = f"warp {int(at[i])}, without tcgen05.wait::st" if pending[i] else self._who(int(by[i]))
            raise Fault(
                f"{RACE}: {where} is {what} by warp {warp} and was written by {writer} and not waited for",
                thread,
            )
        crossed = self.read_at[block, quarter, columns] > known[: 2 * self.memory.warps]
        if unit is not None:
            crossed[:, unit] = False
        if crossed.any():
            i, reader = (int(k[0]) for k in np.nonzero(crossed))
            raise Fault(
                f"{RACE}: {self._where(i, quarter, columns)} is {what} by warp {warp} while {self._who(reader)} still "
                "reads it",
                thread,
            )

    def load_begins(self, block: int, warp: int, quarter: int, columns: slice, thread: int) -> None:
        """A warp begins to read columns of its quarter."""
        self._check_read(block, warp, quarter, columns, None, thread, f"warp {warp}")
        self.read_at[block, quarter, columns, warp] = UNDER_WAY
        self.loads.append((block, warp, columns))

    def store_begins(self, block: int, warp: int, quarter: int, columns: slice, thread: int) -> None:
        """A warp begins to write columns of its quarter."""
        self._check_write(block, warp, quarter, columns, None, thread, "written")
        self.by[block, quarter, columns], self.at[block, quarter, columns] = PENDING, warp
        self.stores.append((block, warp, columns))

    def wait_for_loads(self, block: int, warp: int) -> None:
        """``tcgen05.wait::ld``: what the warp reads has come."""
        clock, quarter = self.memory.clocks[block, warp, KNOWN, warp], warp % QUARTERS
        for _, _, columns in (each for each in self.loads if each[:2] == (block, warp)):
            self.read_at[block, quarter, columns, warp] = clock
        self.loads = [each for each in self.loads if each[:2] != (block, warp)]

    def wait_for_stores(self, block: int, warp: int) -> None:
        """``tcgen05.wait::st``: what the warp writes is there."""
        clock, quarter = self.memory.clocks[block, warp, KNOWN, warp], warp % QUARTERS
        for _, _, columns in (each for each in self.stores if each[:2] == (block, warp)):
            self.by[block, quarter, columns], self.at[block, quarter, columns] = warp, clock
        self.stores = [each for each in self.stores if each[:2] != (block, warp)]

    def product_reads(self, block: int, warp: int, columns: slice, clock: int, thread: int) -> None:
        """A product of a warp's thread reads an operand, until a clock of the warp's products."""
        unit = self.memory.warps + warp
        for quarter in range(QUARTERS):
            self._check_read(block, warp, quarter, columns, unit, thread, f"a product of warp {warp}")
        self.read_at[block, :, columns, unit] = clock

    def product_writes(
        self, block: int, warp: int, columns: slice, clock: int, adds: bool, thread: int
    ) -> None:
        """A product writes its sums, which it reads first if it `adds` to them; products of one warp come in order."""
        unit = self.memory.warps + warp
        for quarter in range(QUARTERS):
            if adds:
                self._check_read(block, warp, quarter, columns, unit, thread, f"a product of warp {warp}")
            self._check_write(block, warp, quarter, columns, unit, thread, "written by a product")
        self.by[block, :, columns], self.at[block, :, columns] = unit, clock
