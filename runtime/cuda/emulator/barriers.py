"""Barriers that lie in shared memory (``mbarrier``): arrivals and bytes that are awaited, phase after phase.

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
    """One barrier of a block.

    `phase` counts the phases that are over; `arrivals` and `bytes` are still missing in the present one. `known` is
    what those knew whose arrivals ended the last phase, `gathered` what those of the present one know so far. `brought`
    is the phase of the last bulk copy, `observed` the last phase for which anybody waited.
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
        """What the present phase still waits for."""
        wanted = [f"{self.arrivals} of {self.expected} arrivals"] if self.arrivals else []
        wanted += [f"{self.bytes} bytes"] if self.bytes else []
        return " and ".join(wanted) or "nothing"


def joined(first: Array, second: Array) -> Array:
    """The later of two vectors of clocks, of which one may have columns that the other has not yet."""
    if first.shape[1] < second.shape[1]:
        first, second = second, first
    found = first.copy()
    found[:, : second.shape[1]] = np.maximum(found[:, : second.shape[1]], second)
    return found


class Barriers:
    """The barriers of the blocks that run together, by block and address.

    Args:
        memory: in which they lie.
    """

    def __init__(self, memory: OrderedSharedMemory) -> None:
        self.memory = memory
        self.found: dict[tuple[int, int], Barrier] = {}
        self._numbers: dict[int, dict[int, int]] = {}
        self.changed = False
        """Whether a phase has ended since somebody last looked."""

    def at(self, thread: int, address: int, what: str) -> Barrier:
        """The barrier at an address, for a thread. Raises Fault where there is none that it knows of."""
        memory = self.memory
        block, warp = int(memory.block[thread]), int(memory.warp[thread])
        memory.check_whole(np.array([address]), 8, what, thread, 8)
        found = self.found.get((block, address))
        if found is None:
            raise Fault(
                f"{DIVERGENT}: {what} at {address:#x} of shared memory, where no barrier was made", thread
            )
        maker, clock = found.maker
        if memory.clocks[block, warp, 0, maker] < clock:
            raise Fault(
                f"{RACE}: {what} at {address:#x} of shared memory, a barrier that warp {maker} makes without a barrier "
                "in between",
                thread,
            )
        return found

    def make(self, thread: int, address: int, count: int) -> None:
        """``mbarrier.init``."""
        memory = self.memory
        block, warp = int(memory.block[thread]), int(memory.warp[thread])
        if not 1 <= count <= MAX_COUNT:
            raise Fault(f"{DIVERGENT}: mbarrier.init of {count} arrivals, expected 1 to {MAX_COUNT}", thread)
        place = memory.check_whole(np.array([address]), 8, "mbarrier.init", thread, 8)
        if memory.holds_barrier(int(place[0])):
            raise Fault(
                f"{RACE}: mbarrier.init at {address:#x} of shared memory, where a barrier lies", thread
            )
        memory.note_write(place, 8, np.array([thread]), None, None)
        memory.hold_barrier(int(place[0]), True)
        numbers = self._numbers.setdefault(block, {})
        column = memory.column(numbers.setdefault(address, len(numbers)))
        made = Barrier(column, (warp, int(memory.clocks[block, warp, 0, warp])))
        made.expected = made.arrivals = count
        # Phases go on where an earlier barrier at the place ended, so that the clock of the place never goes back.
        made.phase = made.brought = made.observed = 2 * int(-(-memory.clocks[block, :, 0, column].max() // 2))
        self.found[block, address] = made

    def end(self, thread: int, address: int) -> None:
        """``mbarrier.inval``."""
        memory = self.memory
        block, warp = int(memory.block[thread]), int(memory.warp[thread])
        found = self.at(thread, address, "mbarrier.inval")
        self._check_observed(found, address, thread)
        place = memory.check_whole(np.array([address]), 8, "mbarrier.inval", thread, 8)
        memory.hold_barrier(int(place[0]), False)
        del self.found[block, address]
        # What comes to lie there is ordered after the end as after a write.
        pieces = memory._pieces(place, 8).reshape(-1)
        memory.by[pieces], memory.at[pieces] = warp, memory.clocks[block, warp, 0, warp]

    def _check_observed(self, found: Barrier, address: int, thread: int) -> None:
        if found.brought > found.observed:
            raise Fault(
                f"{RACE}: nobody waits for what a bulk copy brings with the barrier at {address:#x} of shared memory",
                thread,
            )

    def check_ended(self, block: int, thread: int) -> None:
        """Raise Fault if a block ends while a bulk copy into it is on its way."""
        for (own, address), barrier in self.found.items():
            if own == block:
                self._check_observed(barrier, address, thread)

    def arrive(
        self,
        thread: int,
        address: int,
        count: int = 1,
        expected: int = 0,
        what: str = "mbarrier.arrive",
        done: tuple[int, int] | None = None,
    ) -> int:
        """``mbarrier.arrive``, with bytes that are expected from now on; the phase that was arrived at.

        `done` is a unit that arrives in the thread's stead: the column of its clock, and the clock.
        """
        found = self.at(thread, address, what)
        found.bytes += expected
        if found.arrivals < count:
            raise Fault(
                f"{DIVERGENT}: {count} arrivals at the barrier at {address:#x} of shared memory, which waits for "
                f"{found.arrivals} of {found.expected}",
                thread,
            )
        memory = self.memory
        block, warp = int(memory.block[thread]), int(memory.warp[thread])
        known = memory.release(block, warp)
        if done is not None:
            known[:, done[0]] = done[1]
        found.gathered = joined(found.gathered, known)
        found.arrivals -= count
        phase = found.phase
        self._look(found)
        return phase

    def expect(self, thread: int, address: int, nbytes: int) -> None:
        """``mbarrier.expect_tx``."""
        self.at(thread, address, "mbarrier.expect_tx").bytes += nbytes

    def begin(self, thread: int, address: int, what: str) -> tuple[Barrier, int]:
        """A copy that reports to a barrier begins: the barrier, and its phase when the copy is done."""
        found = self.at(thread, address, what)
        found.brought = found.phase + 1
        return found, found.phase + 1

    def complete(self, thread: int, address: int, found: Barrier, nbytes: int) -> None:
        """Bytes have come, ``mbarrier.complete_tx``."""
        found.bytes -= nbytes
        if found.bytes < 0 and found.arrivals == 0:
            raise Fault(
                f"{RACE}: {-found.bytes} bytes more than were expected come to the barrier at {address:#x} of shared "
                "memory",
                thread,
            )
        self._look(found)

    def _look(self, found: Barrier) -> None:
        if found.arrivals or found.bytes:
            return
        found.phase += 1
        width = self.memory.clocks.shape[3]
        known = np.zeros((2, width), np.int32)
        known[:, : found.gathered.shape[1]] = found.gathered
        known[:, found.column] = found.phase
        found.known = known
        found.gathered = np.zeros((2, 0), np.int32)
        found.arrivals = found.expected
        self.changed = True

    def is_over(self, thread: int, address: int, parity: int | None, phase: int | None) -> bool:
        """Whether the phase of a parity, or the one that was arrived at, is over."""
        found = self.at(thread, address, "mbarrier.try_wait")
        if parity is not None:
            return (found.phase & 1) != (parity & 1)
        assert phase is not None
        return found.phase > phase

    def learn(self, thread: int, address: int) -> None:
        """The warp of a thread has waited: it knows what was known when the last phase ended."""
        block, warp = int(self.memory.block[thread]), int(self.memory.warp[thread])
        found = self.found[block, address]
        found.observed = max(found.observed, found.phase)
        if found.known.shape[1]:
            self.memory.acquire(block, np.array([warp]), found.known)
