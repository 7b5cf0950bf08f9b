"""Tensor memory of sm_100: 128 lanes of 512 columns of 32 bits for each block, allocated by columns.

Each warp reads and writes its own quarter of the lanes (``tcgen05.ld``, ``tcgen05.st``), and matmuls accumulate in
it. None of them waits for another. The vector clocks of `ordered_memory` track happens-before, here for each column
of 16 lanes, which is the share of 64 rows in a quarter.

A load of uninitialized columns gives NaN and is no fault: the compiler loads the accumulator of a loop without
iterations and drops it. A matmul that reads uninitialized columns is a fault.

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
QUARTERS, LANES_PER_WARP = 4, 32
PARTS, LANES_PER_PART = 8, 16
MIN_COLUMNS = 32
"""Smallest allocation in columns; allocations are powers of two."""
NEVER, PENDING = -1, -2
"""Writers of a column without a clock: none, or a store that its warp has not waited for."""
NAN = 0xFFFFFFFF
UNDER_WAY = np.iinfo(np.int32).max
"""Read time of a load that its warp has not waited for."""


class TensorMemory:
    """Tensor memory of blocks that run together.

    Args:
        memory: Shared memory of the blocks, which keeps their clocks: those of warps, then of their matmuls.
        blocks: Number of blocks.
    """

    def __init__(self, memory: OrderedSharedMemory, blocks: int) -> None:
        self.memory = memory
        self.data: Array = np.full((blocks, LANES, COLUMNS), NAN, np.uint32)
        self.allocated: list[dict[int, int]] = [{} for _ in range(blocks)]
        """Number of columns of each allocation of a block, by its first column."""
        self.relinquished: Array = np.zeros(blocks, np.bool_)
        self.last_writer: Array = np.full((blocks, PARTS, COLUMNS), NEVER, np.int16)
        self.write_clock: Array = np.zeros((blocks, PARTS, COLUMNS), np.int32)
        self.read_at: Array = np.zeros((blocks, PARTS, COLUMNS, 2 * memory.warps), np.int32)
        self.loads: list[tuple[int, int, slice, slice]] = []
        """Pending loads: the block, the warp, the parts and the columns."""
        self.stores: list[tuple[int, int, slice, slice]] = []

    # Allocation

    def allocate(self, block: int, count: int, thread: int) -> int:
        """Execute ``tcgen05.alloc``: return the address of `count` columns.

        Raises Fault for an invalid number, and if too few columns are free: no other block would free them.
        """
        if count & (count - 1) or not MIN_COLUMNS <= count <= COLUMNS:
            raise Fault(
                f"{ILLEGAL}: tcgen05.alloc of {count} columns, expected a power of two from {MIN_COLUMNS} to "
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
        """Execute ``tcgen05.dealloc``. Raise Fault for columns that are not such an allocation, or are in use."""
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
        self.last_writer[block, :, columns] = NEVER
        self.read_at[block, :, columns] = 0

    def check_ended(self, block: int, thread: int) -> None:
        """Raise Fault if a block ends without freeing its columns."""
        for first, count in self.allocated[block].items():
            raise Fault(
                f"{ILLEGAL}: a block ends with {count} columns at {first:#x} of tensor memory: no tcgen05.dealloc",
                thread,
            )

    def columns(self, block: int, address: int, count: int, thread: int, operation: str) -> slice:
        """Return the columns of an access. Raise Fault unless all are in one allocation."""
        first = address & 0xFFFF
        for start, size in self.allocated[block].items():
            if start <= first and first + count <= start + size:
                return slice(first, first + count)
        raise Fault(
            f"{ILLEGAL}: {operation} of {count} columns at {address:#x} of tensor memory, which are not allocated",
            thread,
            ILLEGAL_ADDRESS,
        )

    # Accesses

    def _where(self, part: int, column: int, parts: slice, columns: slice) -> str:
        lane = range(*parts.indices(PARTS))[part] * LANES_PER_PART
        last = lane + LANES_PER_PART - 1
        return f"column {columns.start + column} of tensor memory, lanes {lane} to {last},"

    def _check_read(
        self,
        block: int,
        warp: int,
        parts: slice,
        columns: slice,
        unit: int | None,
        thread: int,
        operation: str,
    ) -> None:
        """Raise Fault for missing data; `unit` is the clock column of matmuls that run in order."""
        writers, write_clocks = (
            self.last_writer[block, parts, columns],
            self.write_clock[block, parts, columns],
        )
        known = self.memory.clocks[block, warp, KNOWN]
        late = (writers == PENDING) | ((writers >= 0) & (known[np.maximum(writers, 0)] < write_clocks))
        if unit is not None:
            late = (late & (writers != unit)) | (writers == NEVER)
        if not late.any():
            return
        i, j = (int(k[0]) for k in np.nonzero(late))
        where, writer, warps = self._where(i, j, parts, columns), int(writers[i, j]), self.memory.warps
        if writer == NEVER:
            raise Fault(f"{UNINITIALISED}: {where} by {operation}", thread)
        if writer == PENDING:
            raise Fault(
                f"{RACE}: {where} is read by {operation} while it is stored: no tcgen05.wait::st", thread
            )
        if writer >= warps:
            raise Fault(
                f"{RACE}: {where} is read by {operation} before the products of warp {writer - warps} are done: no "
                "wait for the barrier of their tcgen05.commit",
                thread,
            )
        raise Fault(
            f"{RACE}: {where} is read by {operation} and was written by warp {writer} without a barrier in between",
            thread,
        )

    def _check_write(
        self,
        block: int,
        warp: int,
        parts: slice,
        columns: slice,
        unit: int | None,
        thread: int,
        operation: str,
    ) -> None:
        """Raise Fault for columns that are still being read, or whose write was not waited for."""
        writers, write_clocks = (
            self.last_writer[block, parts, columns],
            self.write_clock[block, parts, columns],
        )
        memory = self.memory
        known = memory.clocks[block, warp, KNOWN]
        late = (writers >= 0) & (known[np.maximum(writers, 0)] < write_clocks)
        if unit is not None:
            late &= writers != unit
        pending = (writers == PENDING) & (
            (write_clocks != warp) | (unit is not None) | (operation == "freed by")
        )
        if (late | pending).any():
            i, j = (int(k[0]) for k in np.nonzero(late | pending))
            writer = memory.who(int(writers[i, j]))
            if pending[i, j]:
                writer = f"warp {int(write_clocks[i, j])}, without tcgen05.wait::st"
            raise Fault(
                f"{RACE}: {self._where(i, j, parts, columns)} is {operation} warp {warp} and was written by {writer} "
                "and not waited for",
                thread,
            )
        crossed = self.read_at[block, parts, columns] > known[: 2 * memory.warps]
        if unit is not None:
            crossed[:, :, unit] = False
        if crossed.any():
            i, j, reader = (int(k[0]) for k in np.nonzero(crossed))
            raise Fault(
                f"{RACE}: {self._where(i, j, parts, columns)} is {operation} warp {warp} while {memory.who(reader)} "
                "still reads it",
                thread,
            )

    def load_begins(self, block: int, warp: int, parts: slice, columns: slice, thread: int) -> None:
        """Note that a warp begins to read columns of its lanes."""
        self._check_read(block, warp, parts, columns, None, thread, f"warp {warp}")
        self.read_at[block, parts, columns, warp] = UNDER_WAY
        self.loads.append((block, warp, parts, columns))

    def store_begins(self, block: int, warp: int, parts: slice, columns: slice, thread: int) -> None:
        """Note that a warp begins to write columns of its lanes."""
        self._check_write(block, warp, parts, columns, None, thread, "written by")
        self.last_writer[block, parts, columns], self.write_clock[block, parts, columns] = PENDING, warp
        self.stores.append((block, warp, parts, columns))

    def wait_for_loads(self, block: int, warp: int) -> None:
        """Execute ``tcgen05.wait::ld``: the warp's loads have completed."""
        clock = self.memory.clocks[block, warp, KNOWN, warp]
        for _, _, parts, columns in (each for each in self.loads if each[:2] == (block, warp)):
            self.read_at[block, parts, columns, warp] = clock
        self.loads = [each for each in self.loads if each[:2] != (block, warp)]

    def wait_for_stores(self, block: int, warp: int) -> None:
        """Execute ``tcgen05.wait::st``: the warp's stores have completed."""
        clock = self.memory.clocks[block, warp, KNOWN, warp]
        for _, _, parts, columns in (each for each in self.stores if each[:2] == (block, warp)):
            self.last_writer[block, parts, columns], self.write_clock[block, parts, columns] = warp, clock
        self.stores = [each for each in self.stores if each[:2] != (block, warp)]

    def product_reads(
        self, block: int, warp: int, parts: slice, columns: slice, clock: int, thread: int
    ) -> None:
        """Note that a matmul reads an operand, until a clock of the warp's matmuls."""
        unit = self.memory.warps + warp
        self._check_read(block, warp, parts, columns, unit, thread, f"a product of warp {warp}")
        self.read_at[block, parts, columns, unit] = clock

    def product_writes(
        self, block: int, warp: int, parts: slice, columns: slice, clock: int, adds: bool, thread: int
    ) -> None:
        """Note that a matmul writes its accumulator, after a read if it `adds`; a warp's matmuls run in order."""
        unit = self.memory.warps + warp
        if adds:
            self._check_read(block, warp, parts, columns, unit, thread, f"a product of warp {warp}")
        self._check_write(block, warp, parts, columns, unit, thread, "written by a product of")
        self.last_writer[block, parts, columns], self.write_clock[block, parts, columns] = unit, clock
