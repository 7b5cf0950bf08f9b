"""Scheduling of threads: branches, calls, barriers and waits of the blocks that run together.

Threads at the same instruction run together. Among diverged threads, those at the lowest instruction run first, so
that the sides of a branch reconverge at the join. A thread at a barrier waits until all live threads of its block
have arrived, or as many as the barrier names. It is a fault if some never arrive, or if a thread waits for a phase of
a shared memory barrier that no thread will end.

A loop may spin on an atomic operation, or on a load that sees concurrent stores. A warp that returns to the head of a
spinning loop yields. All other warps then run as far as they can before its next turn, including the holder of a lock
(NVIDIA, CUDA C++ Programming Guide, "Independent Thread Scheduling").
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from .arithmetic import u4, u8
from .asynchronous import AsynchronousUnits
from .barriers import joined
from .basic_blocks import CLUSTER, BasicBlock
from .error_bounds import ErrorBounds
from .fault import DIVERGENT, Fault
from .ordered_memory import OrderedSharedMemory
from .ptx import Instruction
from .shared_memory import SharedMemory
from .translate import Translation
from .warp_group import merged

if TYPE_CHECKING:
    from .global_memory import GlobalAccess
    from .machine import Launch

Array = np.ndarray[Any, Any]
Mask = Array | None

WARP = 32
POLLS = 3
"""Number of polls for a phase that no thread can end, after which the program counts as deadlocked."""
_POISON = {
    1: np.bool_(True),
    8: np.uint8(0xCB),
    16: np.uint16(0xCBCB),
    32: u4(0xCBCBCBCB),
    64: u8(0xCBCBCBCBCBCBCBCB),
}


class Frame:
    """Call of a function: its parameters, the carry flag, and the local memory of each thread.

    `outer` is the frame of the caller. `depth` is part of generic addresses of the frame's memory.
    """

    __slots__ = ("bounds", "carry", "depth", "local", "outer", "parameters", "translation")

    def __init__(self, translation: Translation, outer: Frame | None = None) -> None:
        self.translation = translation
        self.outer = outer
        self.depth: int = 0 if outer is None else outer.depth + 1
        self.carry: Any = np.bool_(False)
        self.parameters: dict[tuple[str, int], Any] = {}
        self.local: Array | None = None
        self.bounds = ErrorBounds()


@dataclasses.dataclass(eq=False)
class Wait:
    """Threads that wait for the end of a phase; with `tests`, they are told if it does not end."""

    block: BasicBlock
    threads: Array
    address: Array
    value: Array
    by_parity: bool
    tests: bool


class Queue:
    """Threads of a call: `waiting` to run, by next basic block, `parked` at barriers, or in `waits`.

    - `yielded` has the spinning threads, by next basic block.
    - `parked` is by basic block and barrier.
    - `counts` has the thread count of each barrier.
    - `passed` has the count and knowledge of threads that arrived without waiting, by barrier and block.
    """

    __slots__ = ("blocks", "counts", "parked", "passed", "polls", "registers", "waiting", "waits", "yielded")

    def __init__(self, blocks: list[BasicBlock], registers: list[Any], waiting: dict[int, Mask]) -> None:
        self.blocks, self.registers, self.waiting = blocks, registers, waiting
        self.parked: dict[tuple[int, int], Array] = {}
        self.counts: dict[int, int] = {}
        self.passed: dict[tuple[int, int], tuple[int, Array]] = {}
        self.waits: list[Wait] = []
        self.polls = 0
        self.yielded: dict[int, Mask] = {}


class Schedule:
    """Control flow of blocks that run together; `machine.Blocks` has the state that instructions use."""

    launch: Launch
    n: int
    threads: int
    count: int
    all: Array
    block: Array
    blocks: Array
    access: GlobalAccess
    live: Array
    shared: SharedMemory
    units: AsynchronousUnits | None
    running: Mask
    tested_phase: tuple[Any, Any]
    _instruction: Instruction | None

    def full(self, value: Any) -> Array:
        """Return a value with an element for each thread."""
        return value if np.ndim(value) else np.broadcast_to(value, (self.n,))

    def some(self, mask: Mask) -> Array:
        """Return the indices of the threads of a mask."""
        return self.all if mask is None else np.flatnonzero(mask)

    def _run(self, translation: Translation, frame: Frame, mask: Mask) -> None:
        """Run a function for the threads of a mask."""
        registers: list[Any] = [_POISON[width] for width in translation.widths]
        blocks, stop = translation.blocks, len(translation.blocks)
        queue = Queue(blocks, registers, {0: mask})
        waiting, units = queue.waiting, self.units
        while waiting or self._take_turns(queue) or (queue.waits and self._resume(queue, True)):
            block_index = min(waiting)
            active = waiting.pop(block_index)
            if block_index >= stop:
                continue
            block = blocks[block_index]
            self.running = active
            translation.run_block(block, self, registers, active, frame)
            end = block.end
            if end.kind == "next":
                self._join(waiting, block.next, active)
            elif end.kind == "bra":
                taken, not_taken = self._split(end, registers, active)
                if taken is not False:
                    if end.polls:
                        self._yield(queue, end.target, taken)
                    else:
                        self._join(waiting, end.target, taken)
                if not_taken is not False:
                    self._join(waiting, block.next, not_taken)
            elif end.kind == "ret":
                taken, not_taken = self._split(end, registers, active)
                if translation.function.is_kernel and taken is not False:
                    self.live = self.live & ~taken if taken is not None else np.zeros(self.n, np.bool_)
                    if units is not None:
                        self._instruction = end.instruction
                        units.check_ended(self.some(taken))
                    if self.launch.cluster > 1:
                        self._instruction = end.instruction
                        self._check_left(self.some(taken))
                    self._release(queue)
                if not_taken is not False:
                    self._join(waiting, block.next, not_taken)
            elif end.kind == "wait":
                self._wait(block, queue, active)
            else:
                self._arrive(block, queue, active)
            if units is not None and queue.waits and units.changed():
                self._resume(queue, False)
        self._check_all_gone(queue)

    def _yield(self, queue: Queue, block_index: int, mask: Mask) -> None:
        """Let whole warps yield until their next turn. Partial warps continue: the rest may wait for them."""
        if mask is None:
            self._join(queue.waiting, block_index, mask)
            return
        whole = (mask | ~self.live).reshape(-1, WARP).all(1)
        yielding = mask & np.repeat(whole, WARP)
        rest = mask & ~yielding
        if yielding.any():
            self._join(queue.yielded, block_index, yielding)
        if rest.any():
            self._join(queue.waiting, block_index, rest)

    def _take_turns(self, queue: Queue) -> bool:
        """Resume the warps that have yielded; return True if there are any."""
        for block_index, mask in queue.yielded.items():
            self._join(queue.waiting, block_index, mask)
        queue.yielded.clear()
        return bool(queue.waiting)

    def _check_all_gone(self, queue: Queue) -> None:
        """Raise Fault for threads that wait forever."""
        for wait in queue.waits:
            self._instruction = wait.block.end.instruction
            thread = int(np.flatnonzero(wait.threads)[0])
            num_waiting = int((wait.threads & (self.block == self.block[thread])).sum())
            assert self.units is not None
            if wait.block.end.registers:
                raise Fault(
                    f"{DIVERGENT}: {num_waiting} of {self.threads} threads of a block wait for ever for "
                    f"{wait.block.end.registers} registers, of which a block has {self.units.pool}",
                    thread,
                )
            awaited = self.units.awaited(thread, int(wait.address[thread]))
            parity = f" of parity {int(wait.value[thread]) & 1}" if wait.by_parity else ""
            raise Fault(
                f"{DIVERGENT}: {num_waiting} of {self.threads} threads of a block wait for ever for the end of a "
                f"phase{parity} of {awaited}",
                thread,
            )
        for (block_index, _), mask in queue.parked.items():
            self._instruction = queue.blocks[block_index].end.instruction
            thread = int(np.flatnonzero(mask)[0])
            num_waiting = int((mask & (self.block == self.block[thread])).sum())
            raise Fault(
                f"{DIVERGENT}: {num_waiting} of {self.threads} threads of a block wait at a barrier to which the "
                "others never come",
                thread,
            )

    def _wait(self, block: BasicBlock, queue: Queue, active: Mask) -> None:
        """Test a phase of a shared memory barrier for some threads; those whose phase is not over wait."""
        end = block.end
        if end.guard >= 0:
            taken, not_taken = self._split(end, queue.registers, active)
            if not_taken is not False:
                self._join(queue.waiting, block.next, not_taken)
            if taken is False:
                return
            active = taken
        assert end.instruction is not None
        mask = np.ones(self.n, np.bool_) if active is None else active
        address, value = (self.full(u8(0) if end.registers else each) for each in self.tested_phase)
        modifiers = end.instruction.modifiers
        self._instruction = end.instruction
        wait = Wait(block, mask, address, value, "parity" in modifiers, modifiers[0] == "test_wait")
        if not self._go_on(wait, queue):
            queue.waits.append(wait)

    def _go_on(self, wait: Wait, queue: Queue) -> bool:
        """Resume the threads of a wait whose phase is over; return True if none is left."""
        assert self.units is not None
        if wait.block.end.registers:
            ready = self.units.take_registers(wait.block.end.registers, wait.threads)
        else:
            ready = self.units.over(wait.address, wait.value, wait.by_parity, wait.threads)
        if ready.any():
            self._answer(wait, ready, True, queue)
            wait.threads = wait.threads & ~ready
        return not wait.threads.any()

    def _answer(self, wait: Wait, threads: Array, is_over: bool, queue: Queue) -> None:
        result = wait.block.end.result
        if result >= 0:
            queue.registers[result] = merged(threads, np.bool_(is_over), queue.registers[result])
        self._join(queue.waiting, wait.block.next, None if threads.all() else threads)

    def _resume(self, queue: Queue, stuck: bool) -> bool:
        """Resume threads that can proceed; return True if any. If `stuck`, answer those that only test."""
        assert self.units is not None
        if self.units.changed():
            queue.polls = 0
        self.units.barriers.changed = self.units.gave = False
        for wait in list(queue.waits):
            self._instruction = wait.block.end.instruction
            if self._go_on(wait, queue):
                queue.waits.remove(wait)
        if stuck and not queue.waiting and queue.polls < POLLS:
            queue.polls += 1
            for wait in [each for each in queue.waits if each.tests]:
                self._answer(wait, wait.threads, False, queue)
                queue.waits.remove(wait)
        return bool(queue.waiting)

    def _join(self, waiting: dict[int, Mask], block_index: int, mask: Mask) -> None:
        if block_index in waiting:
            present = waiting[block_index]
            assert present is not None and mask is not None
            mask = present | mask
            if mask.all():
                mask = None
        waiting[block_index] = mask

    def _split(self, end: Any, registers: list[Any], active: Mask) -> tuple[Any, Any]:
        """Return the masks of the threads that take a branch and that do not; False for none, None for all."""
        if end.guard < 0:
            return active, False
        predicate = registers[end.guard]
        if end.negated:
            predicate = ~predicate
        if np.ndim(predicate) == 0:
            return (active, False) if predicate else (False, active)
        taken = predicate if active is None else predicate & active
        if not taken.any():
            return False, active
        not_taken = ~predicate if active is None else ~predicate & active
        if not not_taken.any():
            return active, False
        return taken, not_taken

    def _arrive(self, block: BasicBlock, queue: Queue, active: Mask) -> None:
        """Park threads at a barrier; they continue after the instruction when all expected threads have arrived."""
        end = block.end
        if end.guard >= 0:
            taken, not_taken = self._split(end, queue.registers, active)
            if not_taken is not False:
                self._join(queue.waiting, block.next, not_taken)
            if taken is False:
                return
            active = taken
        number, count = end.barrier
        if active is None and not queue.parked and count is None and isinstance(number, int):
            if number == CLUSTER:
                self._meet_clusters(np.ones(self.count, np.bool_))
            else:
                self.shared.barrier(slice(None))
            self._join(queue.waiting, block.next, None)
            return
        mask = np.ones(self.n, np.bool_) if active is None else active
        self._instruction = end.instruction
        if number == CLUSTER:
            key = block.index, CLUSTER
            queue.parked[key] = queue.parked[key] | mask if key in queue.parked else mask
            return self._release(queue)
        numbers = self._of_operand(number, queue.registers)
        for each in np.unique(numbers[mask]).tolist():
            own = mask & (numbers == each)
            if count is not None:
                queue.counts[each] = int(self._of_operand(count, queue.registers)[own].max())
            assert end.instruction is not None
            if end.instruction.modifiers[0] == "arrive":
                self._pass(each, own, queue)
                self._join(queue.waiting, block.next, None if own.all() else own)
            else:
                key = block.index, each
                queue.parked[key] = queue.parked[key] | own if key in queue.parked else own
        return self._release(queue)

    def _check_left(self, ended: Array) -> None:
        """Check the shared memory of blocks whose last thread has ended."""
        alive: Array = np.asarray(self.live.reshape(self.count, self.threads).any(axis=1))
        for block in np.unique(self.block[ended]).tolist():
            if not alive[block]:
                self.shared.check_ended(block, block * self.threads)

    def _of_clusters(self, counts: Array) -> Array:
        """Return the sum over the cluster of each block."""
        cluster = self.launch.cluster
        sums: Array = counts.reshape(-1, cluster).sum(axis=1)
        return np.repeat(sums, cluster)

    def _meet_clusters(self, ready: Array) -> None:
        """Order accesses before the barrier of some clusters, given by their blocks, ahead of those after it."""
        self.shared.cluster_barrier(ready)
        # The barrier also releases and acquires global memory.
        blocks = self.blocks[:: self.threads][ready]
        self.access.synchronised(blocks, "release")
        self.access.synchronised(blocks, "acquire")

    def _of_operand(self, operand: Any, registers: list[Any]) -> Array:
        """Return the number of a barrier or of threads, for each thread."""
        return self.full(u4(operand) if isinstance(operand, int) else registers[operand[1]])

    def _pass(self, number: int, mask: Array, queue: Queue) -> None:
        """Register arrivals of threads that do not wait (``bar.arrive``)."""
        assert isinstance(self.shared, OrderedSharedMemory)
        for number_of_warp in np.unique(np.flatnonzero(mask) // WARP).tolist():
            block, own = divmod(number_of_warp, self.threads // WARP)
            known = self.shared.release(block, own)
            before = queue.passed.get((number, block))
            queue.passed[number, block] = (
                (WARP, known) if before is None else (before[0] + WARP, joined(before[1], known))
            )

    def _release(self, queue: Queue) -> None:
        """Resume the threads at each barrier whose expected threads have all arrived."""
        parked = queue.parked
        for number in {number for _, number in parked}:
            block_indices = [block_index for block_index, own in parked if own == number]
            come = np.zeros(self.count, np.int64)
            for block_index in block_indices:
                come += np.bincount(self.block[parked[block_index, number]], minlength=self.count)
            has_waiting = come > 0
            count = queue.counts.get(number)
            for (own, block), (passed, _) in queue.passed.items():
                if own == number:
                    come[block] += passed
            expected = np.bincount(self.block[self.live], minlength=self.count) if count is None else count
            if number == CLUSTER:
                come, expected = self._of_clusters(come), self._of_clusters(np.asarray(expected))
                has_waiting = come > 0
            ready = has_waiting & (come >= expected)
            if not ready.any():
                continue
            self._meet(
                number,
                ready,
                np.logical_or.reduce([parked[block_index, number] for block_index in block_indices]),
                queue,
            )
            for block_index in block_indices:
                mask = parked[block_index, number]
                going = mask & ready[self.block]
                rest = mask & ~going
                if rest.any():
                    parked[block_index, number] = rest
                else:
                    del parked[block_index, number]
                if going.any():
                    self._join(queue.waiting, queue.blocks[block_index].next, None if going.all() else going)

    def _meet(self, number: int, ready: Array, threads: Array, queue: Queue) -> None:
        """Order accesses before a barrier ahead of those after it, in the blocks that are ready."""
        memory = self.shared
        if number == CLUSTER:
            return self._meet_clusters(ready)
        if not isinstance(memory, OrderedSharedMemory):
            return memory.barrier(ready)
        for block in np.flatnonzero(ready).tolist():
            own = threads.reshape(self.count, -1, WARP)[block].any(1)
            passed = queue.passed.pop((number, block), (0, None))
            memory.meet(block, np.flatnonzero(own), passed[1])
        return None

    def guarded(self, mask: Mask, predicate: Any) -> Any:
        """Return the threads of a mask for which a predicate holds."""
        if np.ndim(predicate) == 0:
            predicate = np.full(self.n, bool(predicate))
        return predicate if mask is None else mask & predicate

    def call(
        self, name: str, frame: Frame, results: tuple[str, ...], arguments: tuple[str, ...], mask: Mask
    ) -> None:
        """Call a function of the module."""
        translation = self.launch.program.translation(name)
        inner = Frame(translation, frame)
        for argument, parameter in zip(arguments, translation.function.parameters, strict=True):
            for (own, offset), value in list(frame.parameters.items()):
                if own == argument:
                    inner.parameters[parameter.name, offset] = value
        if mask is None or mask.any():
            self._run(translation, inner, mask)
        for taken, parameter in zip(results, translation.function.results, strict=True):
            for (own, offset), value in inner.parameters.items():
                if own == parameter.name:
                    frame.parameters[taken, offset] = value
