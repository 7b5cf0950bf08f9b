"""Barriers in shared memory (``mbarrier``): expected arrivals and bytes, phase after phase.

Source: NVIDIA, PTX ISA 8.8, "Parallel Synchronization and Communication Instructions: mbarrier".
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .fault import DIVERGENT, RACE, Fault
from .ordered_memory import OrderedSharedMemory

Array = np.ndarray[Any, Any]

MAX_COUNT = (1 << 20) - 1


class Barrier:
    """Barrier of one block.

    `phase` counts the completed phases; `arrivals` and `bytes` are still missing in the current one. `known` is what
    the threads knew whose arrivals ended the last phase, `gathered` what those of the current phase know so far.
    `brought` is the phase of the last bulk copy, `observed` the last phase for which a thread waited.
    """

    __slots__ = (
        "arrivals",
        "brought",
        "bytes",
        "column",
        "expected",
        "gathered",
        "known",
        "maker",
        "observed",
        "phase",
    )

    def __init__(self, column: int, maker: tuple[int, int]) -> None:
        self.column, self.maker = column, maker
        self.expected = self.arrivals = self.bytes = 0
        self.phase = self.brought = self.observed = 0
        self.known: Array = np.zeros((2, 0), np.int32)
        self.gathered: Array = np.zeros((2, 0), np.int32)

    def missing(self) -> str:
        """Describe what the current phase still waits for."""
        awaited = [f"{self.arrivals} of {self.expected} arrivals"] if self.arrivals else []
        awaited += [f"{self.bytes} bytes"] if self.bytes else []
        return " and ".join(awaited) or "nothing"


def joined(first: Array, second: Array) -> Array:
    """Return the elementwise maximum of two vector clocks, either of which may have more columns."""
    if first.shape[1] < second.shape[1]:
        first, second = second, first
    result = first.copy()
    result[:, : second.shape[1]] = np.maximum(result[:, : second.shape[1]], second)
    return result


class Barriers:
    """Barriers of the blocks that run together, by block and address.

    Args:
        memory: Shared memory in which they lie.
    """

    def __init__(self, memory: OrderedSharedMemory) -> None:
        self.memory = memory
        self.found: dict[tuple[int, int], Barrier] = {}
        self._numbers: dict[int, dict[int, int]] = {}
        self.changed = False
        """True if a phase has ended since the last check."""

    def at(self, thread: int, address: int, operation: str) -> Barrier:
        """Return the barrier at an address. Raise Fault if the thread knows of none there."""
        memory = self.memory
        block, warp = int(memory.block[thread]), int(memory.warp[thread])
        memory.check_whole(np.array([address]), 8, operation, thread, 8)
        barrier = self.found.get((block, address))
        if barrier is None:
            raise Fault(
                f"{DIVERGENT}: {operation} at {address:#x} of shared memory, where no barrier was made",
                thread,
            )
        maker, clock = barrier.maker
        if memory.clocks[block, warp, 0, maker] < clock:
            raise Fault(
                f"{RACE}: {operation} at {address:#x} of shared memory, a barrier that warp {maker} makes without a "
                "barrier in between",
                thread,
            )
        return barrier

    def make(self, thread: int, address: int, count: int) -> None:
        """Execute ``mbarrier.init``."""
        memory = self.memory
        block, warp = int(memory.block[thread]), int(memory.warp[thread])
        if not 1 <= count <= MAX_COUNT:
            raise Fault(f"{DIVERGENT}: mbarrier.init of {count} arrivals, expected 1 to {MAX_COUNT}", thread)
        positions = memory.check_whole(np.array([address]), 8, "mbarrier.init", thread, 8)
        if memory.holds_barrier(int(positions[0])):
            raise Fault(
                f"{RACE}: mbarrier.init at {address:#x} of shared memory, where a barrier lies", thread
            )
        memory.note_write(positions, 8, np.array([thread]), None, None)
        memory.hold_barrier(int(positions[0]), True)
        numbers = self._numbers.setdefault(block, {})
        column = memory.column(numbers.setdefault(address, len(numbers)))
        made = Barrier(column, (warp, int(memory.clocks[block, warp, 0, warp])))
        made.expected = made.arrivals = count
        # Phases continue from an earlier barrier at the same place, so that its clock never goes back.
        made.phase = made.brought = made.observed = 2 * int(-(-memory.clocks[block, :, 0, column].max() // 2))
        self.found[block, address] = made

    def end(self, thread: int, address: int) -> None:
        """Execute ``mbarrier.inval``."""
        memory = self.memory
        block, warp = int(memory.block[thread]), int(memory.warp[thread])
        barrier = self.at(thread, address, "mbarrier.inval")
        self._check_observed(barrier, address, thread)
        positions = memory.check_whole(np.array([address]), 8, "mbarrier.inval", thread, 8)
        memory.hold_barrier(int(positions[0]), False)
        del self.found[block, address]
        # Later accesses to this place are ordered after the end of the barrier, as after a write.
        pieces = memory._pieces(positions, 8).reshape(-1)
        memory.last_writer[pieces], memory.write_clock[pieces] = warp, memory.clocks[block, warp, 0, warp]

    def _check_observed(self, barrier: Barrier, address: int, thread: int) -> None:
        if barrier.brought > barrier.observed:
            raise Fault(
                f"{RACE}: nobody waits for what a bulk copy brings with the barrier at {address:#x} of shared memory",
                thread,
            )

    def check_ended(self, block: int, thread: int) -> None:
        """Raise Fault if a block ends while a bulk copy into it is pending."""
        for (own, address), barrier in self.found.items():
            if own == block:
                self._check_observed(barrier, address, thread)

    def arrive(
        self,
        thread: int,
        address: int,
        count: int = 1,
        expected: int = 0,
        operation: str = "mbarrier.arrive",
        done: tuple[int, int] | None = None,
    ) -> int:
        """Execute ``mbarrier.arrive``, with bytes to expect from now on; return the phase that was arrived at.

        `done` is a unit that arrives on behalf of the thread: the column of its clock, and the clock.
        """
        barrier = self.at(thread, address, operation)
        barrier.bytes += expected
        if barrier.arrivals < count:
            raise Fault(
                f"{DIVERGENT}: {count} arrivals at the barrier at {address:#x} of shared memory, which waits for "
                f"{barrier.arrivals} of {barrier.expected}",
                thread,
            )
        memory = self.memory
        block, warp = int(memory.block[thread]), int(memory.warp[thread])
        known = memory.release(block, warp)
        if done is not None:
            known[:, done[0]] = done[1]
        barrier.gathered = joined(barrier.gathered, known)
        barrier.arrivals -= count
        phase = barrier.phase
        self._look(barrier)
        return phase

    def expect(self, thread: int, address: int, nbytes: int) -> None:
        """Execute ``mbarrier.expect_tx``."""
        self.at(thread, address, "mbarrier.expect_tx").bytes += nbytes

    def begin(self, thread: int, address: int, operation: str) -> tuple[Barrier, int]:
        """Register a copy that reports to a barrier; return the barrier and its phase when the copy is done."""
        barrier = self.at(thread, address, operation)
        barrier.brought = barrier.phase + 1
        return barrier, barrier.phase + 1

    def complete(self, thread: int, address: int, barrier: Barrier, nbytes: int) -> None:
        """Count the bytes that have arrived, ``mbarrier.complete_tx``."""
        barrier.bytes -= nbytes
        if barrier.bytes < 0 and barrier.arrivals == 0:
            raise Fault(
                f"{RACE}: {-barrier.bytes} bytes more than were expected come to the barrier at {address:#x} of shared "
                "memory",
                thread,
            )
        self._look(barrier)

    def _look(self, barrier: Barrier) -> None:
        if barrier.arrivals or barrier.bytes:
            return
        barrier.phase += 1
        width = self.memory.clocks.shape[3]
        known = np.zeros((2, width), np.int32)
        known[:, : barrier.gathered.shape[1]] = barrier.gathered
        known[:, barrier.column] = barrier.phase
        barrier.known = known
        barrier.gathered = np.zeros((2, 0), np.int32)
        barrier.arrivals = barrier.expected
        self.changed = True

    def is_over(self, thread: int, address: int, parity: int | None, phase: int | None) -> bool:
        """Return True if the phase of a parity, or the phase that was arrived at, is over."""
        barrier = self.at(thread, address, "mbarrier.try_wait")
        if parity is not None:
            return (barrier.phase & 1) != (parity & 1)
        assert phase is not None
        return barrier.phase > phase

    def learn(self, thread: int, address: int) -> None:
        """Let the warp of a thread that has waited learn what was known when the last phase ended."""
        block, warp = int(self.memory.block[thread]), int(self.memory.warp[thread])
        barrier = self.found[block, address]
        barrier.observed = max(barrier.observed, barrier.phase)
        if barrier.known.shape[1]:
            self.memory.acquire(block, np.array([warp]), barrier.known)
