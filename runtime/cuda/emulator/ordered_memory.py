"""Shared memory whose accesses are ordered by more than barriers of a whole block.

Barriers in shared memory, named barriers and asynchronous units also order accesses. *Vector clocks* (Mattern, 1989)
track happens-before. Each warp has a clock, and so does each of its units: its matmuls (``wgmma``), its bulk
stores, and each barrier in shared memory to which bulk loads report. A warp stores the latest known value of every
clock. A piece of memory stores its last writer and the last read of each reader. An access that follows a conflicting
access without knowing of it is a race.

Asynchronous units see generic writes only after a ``fence.proxy.async``. A second vector tracks the fenced accesses.
Source: NVIDIA, PTX ISA 8.8, "Memory Consistency Model", "Async proxy".
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .contraction import StoreCheck
from .fault import RACE, UNINITIALISED, Fault
from .shared_memory import NEVER, PENDING, Pending, SharedMemory

Array = np.ndarray[Any, Any]

BARRIER = -3
"""Tag of memory that holds a barrier."""
KNOWN, FENCED = 0, 1
"""Indices of a warp's two vectors."""
CAUSE = {
    PENDING: "their asynchronous copy is not done",
    BARRIER: "a barrier lies there",
}


class OrderedSharedMemory(SharedMemory):
    """Shared memory of some blocks, with accesses ordered by vector clocks.

    Columns of a vector: the warps of a block, the matmuls of each warp, the bulk stores of each warp, then barriers.
    """

    def __init__(self, nbytes: int, blocks: int, threads: int, piece: int, stores: StoreCheck) -> None:
        super().__init__(nbytes, blocks, threads, piece, stores)
        self.warps = threads // 32
        self.readers = 3 * self.warps
        self.unproxied: dict[int, int] = {}
        """Times of writes to pieces that need no fence (``tcgen05.alloc``)."""
        self.products = "wgmma.mma_async"
        """Matmul instruction, for messages."""
        self.last_writer: Array = np.full(self.writer.size, NEVER, np.int16)
        self.write_clock: Array = np.zeros(self.writer.size, np.int32)
        self.read_at: Array = np.zeros((self.writer.size, self.readers), np.int32)
        self.clocks: Array = np.zeros((blocks, self.warps, 2, self.readers + 32), np.int32)
        own = np.arange(self.warps)
        self.clocks[:, own, KNOWN, own] = 1

    def column(self, number: int) -> int:
        """Return the column of a barrier, by its number in the block."""
        column = self.readers + number
        if column >= self.clocks.shape[3]:
            self.clocks = np.pad(self.clocks, ((0, 0), (0, 0), (0, 0), (0, 32)))
        return column

    def who(self, column: int) -> str:
        """Return the name of a column, for a message."""
        if column < self.warps:
            return f"warp {column}"
        if column < 2 * self.warps:
            return f"a product ({self.products}) of warp {column % self.warps}"
        if column < self.readers:
            return f"a bulk copy of warp {column % self.warps}"
        return "a bulk copy"

    # Happens-before

    def barrier(self, blocks: Any) -> None:
        self.clocks[blocks] = self.clocks[blocks].max(1, keepdims=True)
        own = np.arange(self.warps)
        self.clocks[:, own, KNOWN, own] += 1

    def meet(self, block: int, warps: Array, arrived: Array | None = None) -> None:
        """Synchronize some warps of a block; `arrived` is the knowledge of warps that arrived without waiting."""
        together = self.clocks[block, warps].max(0)
        if arrived is not None:
            together = np.maximum(together, arrived[:, : together.shape[1]])
        self.clocks[block, warps] = together
        self.clocks[block, warps, KNOWN, warps] += 1

    def release(self, block: int, warp: int) -> Array:
        """Return the knowledge of a warp, for later waiters, and advance the warp's clock."""
        clocks: Array = self.clocks[block, warp].copy()
        self.clocks[block, warp, KNOWN, warp] += 1
        return clocks

    def acquire(self, block: int, warps: Array, known: Array) -> None:
        """Merge others' knowledge into some warps."""
        width = known.shape[1]
        mine = self.clocks[block, warps]
        mine[:, :, :width] = np.maximum(mine[:, :, :width], known)
        self.clocks[block, warps] = mine

    def learn(self, block: int, warp: int, column: int, clock: int) -> None:
        """Record that a warp has waited for a unit of its own."""
        for vector in (KNOWN, FENCED):
            self.clocks[block, warp, vector, column] = max(self.clocks[block, warp, vector, column], clock)

    def fence(self, threads: Array) -> None:
        """Execute ``fence.proxy.async``: asynchronous units see what the threads' warps know from now on."""
        for number in np.unique(self.block[threads] * self.warps + self.warp[threads]).tolist():
            block, warp = divmod(number, self.warps)
            known, fenced = self.clocks[block, warp]
            fenced[:] = np.maximum(known, fenced)
            self.clocks[block, warp, KNOWN, warp] += 1

    # Accesses of threads

    def note_read(self, positions: Array, nbytes: int, threads: Array) -> None:
        pieces = self._pieces(positions, nbytes)
        block, warp = self.block[threads], self.warp[threads]
        writers = self.last_writer[pieces]
        known = self.clocks[block[:, None], warp[:, None], KNOWN, np.maximum(writers, 0)]
        bad = (writers < 0) | (known < self.write_clock[pieces])
        if bad.any():
            i, j = (int(k[0]) for k in np.nonzero(bad))
            where = f"{nbytes} bytes at {int(positions[i] - self.base[threads[i]]):#x} of shared memory"
            raise self._unread(int(writers[i, j]), where, int(threads[i]), f"by warp {int(warp[i])}")
        self.read_at[pieces, warp[:, None]] = self.clocks[block, warp, KNOWN, warp][:, None]

    def _unread(self, writer: int, where: str, thread: int, reader: str) -> Fault:
        """Return the fault of a read of uninitialized memory, or of an unordered write by `writer`."""
        if writer == NEVER:
            return Fault(f"{UNINITIALISED}: {where}", thread)
        if writer in CAUSE:
            return Fault(f"{RACE}: {where} are read {reader} while {CAUSE[writer]}", thread)
        if writer >= self.readers:
            return Fault(
                f"{RACE}: {where} are read {reader} before their bulk copy is done: no wait for its barrier",
                thread,
            )
        return Fault(
            f"{RACE}: {where} are read {reader} and were written by {self.who(writer)} without a barrier in between",
            thread,
        )

    def note_write(
        self, positions: Array, nbytes: int, threads: Array, same: Array | None, tag: int | None
    ) -> None:
        pieces = self._pieces(positions, nbytes)
        block, warp = self.block[threads], self.warp[threads]
        writers = self.last_writer[pieces]
        known = self.clocks[block, warp, KNOWN]
        late = (
            np.take_along_axis(known, np.maximum(writers, 0).astype(np.int64), 1) < self.write_clock[pieces]
        )
        late &= writers >= 0
        if same is not None:
            late &= ~same[:, None] | (writers >= self.readers)
        bad = late | (writers == PENDING) | (writers == BARRIER)
        crossed = self.read_at[pieces] > known[:, None, : self.readers]
        if bad.any():
            i, j = (int(k[0]) for k in np.nonzero(bad))
            raise self._unwritten(
                int(writers[i, j]), positions[i], nbytes, int(threads[i]), f"by warp {int(warp[i])}"
            )
        if crossed.any():
            i, _, column = (int(k[0]) for k in np.nonzero(crossed))
            raise self._still_read(column, positions[i], nbytes, int(threads[i]), f"by warp {int(warp[i])}")
        if tag is None:
            self.last_writer[pieces] = warp[:, None]
            self.write_clock[pieces] = self.clocks[block, warp, KNOWN, warp][:, None]
        else:
            self.last_writer[pieces] = tag

    def _where(self, position: Any, nbytes: int, thread: int) -> str:
        return f"{nbytes} bytes at {int(position - self.base[thread]):#x} of shared memory"

    def _unwritten(self, previous_writer: int, position: Any, nbytes: int, thread: int, writer: str) -> Fault:
        where = self._where(position, nbytes, thread)
        if previous_writer in CAUSE:
            return Fault(f"{RACE}: {where} are written {writer} while {CAUSE[previous_writer]}", thread)
        return Fault(
            f"{RACE}: {where} are written {writer} and by {self.who(previous_writer)} without a barrier in between",
            thread,
        )

    def _still_read(self, column: int, position: Any, nbytes: int, thread: int, writer: str) -> Fault:
        where = self._where(position, nbytes, thread)
        if column < self.warps:
            return Fault(
                f"{RACE}: {where} are written {writer} and were read by {self.who(column)} without a barrier in "
                "between",
                thread,
            )
        return Fault(
            f"{RACE}: {where} are written {writer} while {self.who(column)} still reads them", thread
        )

    def _arrive(self, copy: Pending, due: Array) -> None:
        super()._arrive(copy, due)
        positions, threads = copy.positions[due], copy.threads[due]
        pieces = self._pieces(positions, 4 * copy.data.shape[1])
        block, warp = self.block[threads], self.warp[threads]
        self.last_writer[pieces] = warp[:, None]
        self.write_clock[pieces] = self.clocks[block, warp, KNOWN, warp][:, None]

    # Accesses of asynchronous units

    def unit_reads(
        self,
        positions: Array,
        nbytes: int,
        thread: int,
        warps: Array,
        columns: Array,
        clocks: Array,
        unit: str,
    ) -> None:
        """Note that a unit begins to read for some warps of a block, each with a column and a clock."""
        block = int(self.block[thread])
        pieces = self._pieces(positions, nbytes).reshape(-1)
        writers, write_clocks = self.last_writer[pieces], self.write_clock[pieces]
        if (writers < 0).any():
            i = int(np.flatnonzero(writers < 0)[0])
            raise self._unread(int(writers[i]), self._piece(pieces[i], thread), thread, f"by {unit}")
        for warp in warps.tolist():
            known, fenced = self.clocks[block, warp]
            late = known[writers] < write_clocks
            if late.any():
                i = int(np.flatnonzero(late)[0])
                raise self._unread(
                    int(writers[i]), self._piece(pieces[i], thread), thread, f"by {unit} of warp {warp}"
                )
            self._check_fenced(fenced[writers] < write_clocks, writers, pieces, thread, f"read by {unit}")
        self.read_at[pieces[:, None], columns] = clocks

    def _piece(self, piece: Any, thread: int) -> str:
        return self._where(int(piece) * self.piece, self.piece, thread)

    def _check_fenced(self, late: Array, writers: Array, pieces: Array, thread: int, access: str) -> None:
        late = late & (writers >= 0) & (writers < self.warps)
        if self.unproxied and late.any():
            late &= np.array(
                [self.unproxied.get(piece) != self.write_clock[piece] for piece in pieces.tolist()]
            )
        if late.any():
            i = int(np.flatnonzero(late)[0])
            raise Fault(
                f"{RACE}: {self._piece(pieces[i], thread)} are {access} and were written by "
                f"{self.who(int(writers[i]))} without fence.proxy.async in between",
                thread,
            )

    def unit_writes(
        self, positions: Array, nbytes: int, thread: int, column: int, clock: int, unit: str
    ) -> None:
        """Note that a unit begins to write for a thread; the data arrives at a clock of the barrier in `column`."""
        block, warp = int(self.block[thread]), int(self.warp[thread])
        pieces = self._pieces(positions, nbytes).reshape(-1)
        writers, write_clocks = self.last_writer[pieces], self.write_clock[pieces]
        known, fenced = self.clocks[block, warp]
        # Several copies may bring parts of one phase.
        late = (writers >= 0) & (known[writers] < write_clocks) | (writers == PENDING) | (writers == BARRIER)
        if late.any():
            i = int(np.flatnonzero(late)[0])
            raise self._unwritten(
                int(writers[i]), int(pieces[i]) * self.piece, self.piece, thread, f"by {unit}"
            )
        crossed = self.read_at[pieces] > known[: self.readers]
        if crossed.any():
            i, reader = (int(k[0]) for k in np.nonzero(crossed))
            raise self._still_read(reader, int(pieces[i]) * self.piece, self.piece, thread, f"by {unit}")
        self._check_fenced(
            fenced[np.maximum(writers, 0)] < write_clocks, writers, pieces, thread, f"written by {unit}"
        )
        self.last_writer[pieces], self.write_clock[pieces] = column, clock

    def lay(self, positions: Array, values: Array) -> None:
        """Write rows of `values` whose accesses were noted."""
        count = 1 if values.ndim == 1 else values.shape[1]
        self._view(values.dtype.itemsize, count)[positions // (values.dtype.itemsize * count)] = values

    def write_unproxied(self, addresses: Array, values: Array, threads: Array) -> None:
        """Write words that other units may overwrite without a fence."""
        self.store(addresses, values, threads, 4)
        pieces = self._pieces(self.positions(addresses, 4, "store", threads), 4).reshape(-1)
        self.unproxied |= {piece: int(self.write_clock[piece]) for piece in pieces.tolist()}

    def hold_barrier(self, position: int, occupied: bool) -> None:
        """Record that a barrier begins or ceases to occupy the memory at a position."""
        pieces = self._pieces(np.array([position]), 8).reshape(-1)
        self.last_writer[pieces] = BARRIER if occupied else NEVER

    def holds_barrier(self, position: int) -> bool:
        """Return True if a barrier occupies the memory at a position."""
        return int(self.last_writer[position // self.piece]) == BARRIER

    def check_whole(
        self, addresses: Array, nbytes: int, operation: str, thread: int, alignment: int
    ) -> Array:
        """Return the positions of addresses from one thread. Raise Fault outside of its block's memory."""
        return self.positions(
            addresses.astype(np.uint64), nbytes, operation, np.full(addresses.size, thread), alignment
        )
