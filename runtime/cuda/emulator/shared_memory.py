"""Shared memory of thread blocks that run together, with asynchronous copies into it.

Each piece has two tags: its last writer and its last reader. A tag is a warp in an *epoch*, the time between two
barriers of the block. Two warps that access a piece in one epoch, at least one of them writing, are a race. Threads
of one warp run together. The data of an asynchronous copy arrives only when its thread has waited for it; until then
no thread may access the piece.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .contraction import Bound, StoreCheck
from .fault import ILLEGAL, ILLEGAL_ADDRESS, MISALIGNED, MISALIGNED_ADDRESS, RACE, UNINITIALISED, Fault

Array = np.ndarray[Any, Any]

POISON = 0xCB
NEVER, PENDING = -1, -2
"""Tags of uninitialized memory, and of memory that a pending copy will write."""
WARPS, SEVERAL = 64, 63
"""Number of warps in a tag, and the number that stands for several warps."""
_UNSIGNED: dict[int, Any] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


class Pending(NamedTuple):
    """Pending copy: rows of bytes for some threads, and the group of each."""

    threads: Array
    positions: Array
    data: Array
    group: Array


class SharedMemory:
    """Shared memory of some blocks.

    Args:
        nbytes: Bytes per block.
        blocks: Number of blocks.
        threads: Threads per block.
        piece: Smallest access of the kernel in bytes, or a divisor of it.
        stores: Detector of conflicting stores to one address.
        cluster: Blocks of a cluster, which may read each other's memory.
    """

    def __init__(
        self, nbytes: int, blocks: int, threads: int, piece: int, stores: StoreCheck, cluster: int = 1
    ) -> None:
        self.nbytes, self.piece, self.stores = nbytes, piece, stores
        self.stride = nbytes + -nbytes % 16 + 16
        self.data: Array = np.full(self.stride * blocks, POISON, np.uint8)
        self.writer: Array = np.full(self.data.size // piece + 1, NEVER, np.int32)
        self.reader: Array = np.full(self.data.size // piece + 1, NEVER, np.int32)
        number = np.arange(blocks * threads)
        self.block: Array = number // threads
        self.base: Array = self.block * self.stride
        self.warp: Array = (number % threads // 32).astype(np.int32)
        self.epoch: Array = np.zeros(blocks, np.int32)
        self.committed: Array = np.zeros(blocks * threads, np.int32)
        self.pending: list[Pending] = []
        self.since: Array = np.zeros(blocks, np.int32)
        """Epoch of each block that began with the last barrier of its cluster."""
        self.remote: Array | None = None
        """The `since` at which another block last read a piece; None without clusters."""
        if cluster > 1:
            self.remote = np.full(self.writer.size, NEVER, np.int32)

    def barrier(self, blocks: Any) -> None:
        """Synchronize all threads of these blocks."""
        self.epoch[blocks] += 1

    def cluster_barrier(self, blocks: Any) -> None:
        """Synchronize all threads of the clusters that these blocks are."""
        self.epoch[blocks] += 1
        self.since[blocks] = self.epoch[blocks]

    def positions(
        self,
        addresses: Array,
        nbytes: int,
        operation: str,
        threads: Array,
        alignment: int = 0,
        owners: Array | None = None,
    ) -> Array:
        """Return the positions of accesses in `data`. Raise Fault outside of a block's memory."""
        alignment = alignment or nbytes
        astray = addresses & np.uint64(alignment - 1)
        if astray.any():
            i = int(np.flatnonzero(astray)[0])
            raise Fault(
                f"{MISALIGNED}: {operation} of {nbytes} bytes at {int(addresses[i]):#x} of shared memory",
                int(threads[i]),
                MISALIGNED_ADDRESS,
            )
        outside = (
            addresses > np.uint64(self.nbytes - nbytes) if self.nbytes >= nbytes else addresses == addresses
        )
        if outside.any():
            i = int(np.flatnonzero(outside)[0])
            raise Fault(
                f"{ILLEGAL}: {operation} of {nbytes} bytes at {int(addresses[i]):#x} of shared memory, of which a "
                f"block has {self.nbytes} bytes",
                int(threads[i]),
                ILLEGAL_ADDRESS,
            )
        base = self.base[threads] if owners is None else owners * self.stride
        return addresses.view(np.int64) + base

    def _pieces(self, positions: Array, nbytes: int) -> Array:
        return (positions // self.piece)[:, None] + np.arange(max(nbytes // self.piece, 1))

    def _tags(self, threads: Array) -> tuple[Array, Array]:
        epoch = self.epoch[self.block[threads]]
        return epoch[:, None], self.warp[threads][:, None]

    def note_read(self, positions: Array, nbytes: int, threads: Array) -> None:
        """Raise Fault if a read is of missing data, or races with another warp's write."""
        pieces = self._pieces(positions, nbytes)
        epoch, warp = self._tags(threads)
        wrote = self.writer[pieces]
        bad = (wrote < 0) | ((wrote // WARPS == epoch) & (wrote % WARPS != warp))
        if bad.any():
            i, j = (int(k[0]) for k in np.nonzero(bad))
            where = f"{int(positions[i] - self.base[threads[i]]):#x} of shared memory"
            thread, writer = int(threads[i]), int(wrote[i, j])
            if writer == NEVER:
                raise Fault(f"{UNINITIALISED}: {nbytes} bytes at {where}", thread)
            if writer == PENDING:
                raise Fault(
                    f"{RACE}: {nbytes} bytes at {where} are read before their asynchronous copy is done",
                    thread,
                )
            raise Fault(
                f"{RACE}: {nbytes} bytes at {where} are read by warp {int(warp[i, 0])} and were written by warp "
                f"{writer % WARPS} without a barrier in between",
                thread,
            )
        read = self.reader[pieces]
        tag = epoch * WARPS + warp
        several = (read // WARPS == epoch) & (read % WARPS != warp)
        tag = np.where(several, epoch * WARPS + SEVERAL, tag)
        self.reader[pieces] = tag
        other = self.reader[pieces] != tag
        if other.any():
            self.reader[pieces[other]] = np.broadcast_to(epoch * WARPS + SEVERAL, tag.shape)[other]

    def note_write(
        self, positions: Array, nbytes: int, threads: Array, same: Array | None, tag: int | None
    ) -> None:
        """Raise Fault if other warps access the positions; `same` marks values equal to the current ones."""
        pieces = self._pieces(positions, nbytes)
        epoch, warp = self._tags(threads)
        wrote, read = self.writer[pieces], self.reader[pieces]
        twice = (wrote == PENDING) | ((wrote >= 0) & (wrote // WARPS == epoch) & (wrote % WARPS != warp))
        if same is not None:
            twice &= ~same[:, None]
        crossed = (read >= 0) & (read // WARPS == epoch) & (read % WARPS != warp)
        bad = twice | crossed
        if self.remote is not None:
            self._check_remote(
                self.remote[pieces] == self.since[self.block[threads]][:, None], positions, threads
            )
        if bad.any():
            i, j = (int(k[0]) for k in np.nonzero(bad))
            where = f"{int(positions[i] - self.base[threads[i]]):#x} of shared memory"
            thread, mine = int(threads[i]), int(warp[i, 0])
            if crossed[i, j]:
                reader = int(read[i, j]) % WARPS
                whose = "other warps" if reader == SEVERAL else f"warp {reader}"
                raise Fault(
                    f"{RACE}: {nbytes} bytes at {where} are written by warp {mine} and were read by {whose} without "
                    "a barrier in between",
                    thread,
                )
            if wrote[i, j] == PENDING:
                raise Fault(
                    f"{RACE}: {nbytes} bytes at {where} are written while a copy to there is on its way",
                    thread,
                )
            raise Fault(
                f"{RACE}: {nbytes} bytes at {where} are written by warp {mine} and by warp {int(wrote[i, j]) % WARPS} "
                "without a barrier in between",
                thread,
            )
        self.writer[pieces] = epoch * WARPS + warp if tag is None else tag

    def load(self, addresses: Array, size: int, count: int, threads: Array) -> Array:
        """Return the contents at these addresses, one row per address."""
        nbytes = size * count
        positions = self.positions(addresses, nbytes, "load", threads)
        self.note_read(positions, nbytes, threads)
        return self.rows(positions, size, count)

    def load_from(self, owners: Array, addresses: Array, size: int, count: int, threads: Array) -> Array:
        """Return the contents at addresses in the memory of the blocks `owners` of the threads' clusters."""
        nbytes = size * count
        positions = self.positions(addresses, nbytes, "ld.shared::cluster", threads, owners=owners)
        is_own = owners == self.block[threads]
        if is_own.any():
            self.note_read(positions[is_own], nbytes, threads[is_own])
        if not is_own.all():
            away = ~is_own
            self._note_remote_read(positions[away], nbytes, threads[away], owners[away])
        return self.rows(positions, size, count)

    def _note_remote_read(self, positions: Array, nbytes: int, threads: Array, owners: Array) -> None:
        """Raise Fault if another block's memory is not written, or was since the last barrier of the cluster."""
        assert self.remote is not None
        pieces = self._pieces(positions, nbytes)
        wrote, since = self.writer[pieces], self.since[owners][:, None]
        bad = (wrote < 0) | (wrote // WARPS >= since)
        if bad.any():
            i, j = (int(k[0]) for k in np.nonzero(bad))
            offset, thread = int(positions[i] - owners[i] * self.stride), int(threads[i])
            where = f"{offset:#x} of the shared memory of another block of the cluster"
            if wrote[i, j] < 0:
                raise Fault(f"{UNINITIALISED}: {nbytes} bytes at {where}", thread)
            raise Fault(
                f"{RACE}: {nbytes} bytes at {where} are read and were written by its warp {int(wrote[i, j]) % WARPS} "
                "without a barrier of the cluster in between",
                thread,
            )
        self.remote[pieces] = since

    def _check_remote(self, crossed: Array, positions: Array, threads: Array) -> None:
        """Raise Fault for writes to what another block may still read."""
        if crossed.any():
            i = int(np.nonzero(crossed)[0][0])
            raise Fault(
                f"{RACE}: {int(positions[i] - self.base[threads[i]]):#x} of shared memory is written, which another "
                "block of the cluster has read without a barrier of the cluster in between",
                int(threads[i]),
            )

    def check_ended(self, block: int, thread: int) -> None:
        """Raise Fault if a block ends while other blocks may still read its memory."""
        if self.remote is None:
            return
        first = block * self.stride // self.piece
        if (self.remote[first : first + self.stride // self.piece] == self.since[block]).any():
            raise Fault(
                f"{RACE}: the block ends, and another block of the cluster has read its shared memory without a "
                "barrier of the cluster in between",
                thread,
            )

    def rows(self, positions: Array, size: int, count: int) -> Array:
        """Return the contents, one row per position."""
        return np.take(self._view(size, count), positions // (size * count), axis=0)

    def _view(self, size: int, count: int) -> Array:
        whole = self.data.size // (size * count) * size * count
        view: Array = self.data[:whole].view(_UNSIGNED[size])
        return view if count == 1 else view.reshape(-1, count)

    def store(
        self,
        addresses: Array,
        values: Array,
        threads: Array,
        nbytes: int,
        bounds: Sequence[Bound | None] = (),
    ) -> None:
        """Write a row of `values` to each address. Raise Fault if two threads write different values to one."""
        positions = self.positions(addresses, nbytes, "store", threads)
        count = 1 if values.ndim == 1 else values.shape[1]
        view, rows = self._view(values.dtype.itemsize, count), positions // nbytes
        same = np.take(view, rows, axis=0) == values
        self.note_write(positions, nbytes, threads, same if count == 1 else same.all(1), None)
        view[rows] = values
        other = np.take(view, rows, axis=0) != values
        if other.any():
            blocks, base = self.block[threads], self.base[threads]
            self.stores.check(other, values, positions, threads, blocks, nbytes, bounds, base)

    def put_atomically(self, positions: Array, values: Array) -> None:
        """Update the contents; atomic operations of several warps are no race among themselves."""
        nbytes = values.dtype.itemsize
        self._view(nbytes, 1)[positions // nbytes] = values.view(_UNSIGNED[nbytes])

    # Asynchronous copies

    def begin_copy(self, addresses: Array, data: Array, threads: Array) -> None:
        """Start a copy of rows of 32-bit words to these addresses."""
        nbytes = 4 * data.shape[1]
        positions = self.positions(addresses, nbytes, "cp.async", threads)
        self.note_write(positions, nbytes, threads, None, PENDING)
        self.pending.append(Pending(threads, positions, data, self.committed[threads].copy()))

    def commit(self, threads: Array) -> None:
        """Commit the copies that these threads have begun as a group."""
        self.committed[threads] += 1

    def wait(self, max_pending: int, active: Array, everything: bool) -> None:
        """Complete the copies of `active` threads (a mask), except the last `max_pending` groups."""
        left = []
        for copy in self.pending:
            due = active[copy.threads]
            if not everything:
                due = due & (copy.group < self.committed[copy.threads] - max_pending)
            if due.any():
                self._arrive(copy, due)
            if not due.all():
                stay = ~due
                left.append(Pending(*(part[stay] for part in copy)))
        self.pending = left

    def _arrive(self, copy: Pending, due: Array) -> None:
        positions, data, threads = copy.positions[due], copy.data[due], copy.threads[due]
        nbytes = 4 * data.shape[1]
        self._view(4, data.shape[1])[positions // nbytes] = data if data.shape[1] > 1 else data[:, 0]
        epoch, warp = self._tags(threads)
        self.writer[self._pieces(positions, nbytes)] = epoch * WARPS + warp
