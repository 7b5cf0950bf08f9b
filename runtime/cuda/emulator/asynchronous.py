"""Asynchronous units: bulk copies, matmuls of a warpgroup or of one thread, barriers.

The emulator executes a unit's work immediately, but it counts as done only when the program has waited for it. The
clocks of `ordered_memory` detect earlier reads and writes of memory. `warp_group.InFlight` detects earlier reads of
registers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .barriers import Barriers
from .bulk_copies import BulkCopies
from .fault import ILLEGAL, ILLEGAL_INSTRUCTION, Fault
from .ordered_memory import OrderedSharedMemory
from .products import Products
from .ptx import Function
from .tensor_cores import TensorCores

if TYPE_CHECKING:
    from .machine import Blocks

Array = np.ndarray[Any, Any]
Mask = Array | None

WARP = 32


def needs_units(function: Function) -> bool:
    """Return True if a function uses asynchronous units, or barriers for a part of a block.

    Only then the kernel pays for `OrderedSharedMemory`; otherwise barriers of whole blocks order all accesses.
    """
    for each in function.instructions:
        if each.opcode in ("mbarrier", "wgmma", "tcgen05", "setmaxnreg", "tensormap") or (
            each.opcode == "cp" and "bulk" in each.modifiers
        ):
            return True
        if each.opcode in ("bar", "barrier") and "warp" not in each.modifiers and len(each.operands) > 1:
            return True
    return False


class AsynchronousUnits:
    """Asynchronous units of the multiprocessors on which some blocks run together."""

    def __init__(self, blocks: Blocks, memory: OrderedSharedMemory) -> None:
        self.blocks, self.memory = blocks, memory
        self.barriers = Barriers(memory)
        self.copies = BulkCopies(blocks, memory, self.barriers)
        self.products = Products(blocks, memory)
        self._cores: TensorCores | None = None
        kernel = blocks.launch.program.kernel.function
        self.pool = kernel.max_registers * blocks.threads
        """Free registers of a block (``setmaxnreg``); 0 if the kernel does not say."""
        self.registers: Array = np.full(blocks.n // WARP, kernel.max_registers, np.int64)
        """Registers per thread of each warp. All four warps of a group change theirs together. If their work differs,
        the compiler puts an instruction into the code of each.
        """
        self.gave = False
        """True if a warp has released registers since the last check."""

    @property
    def cores(self) -> TensorCores:
        """Tensor cores with tensor memory, created only for kernels that use them."""
        if self._cores is None:
            self._cores = TensorCores(self.blocks, self.memory, self.barriers)
        return self._cores

    def check_ended(self, ended: Array) -> None:
        """Raise Fault if blocks whose last thread has ended have pending copies, or tensor memory."""
        blocks = self.blocks
        for block in np.unique(blocks.block[ended]).tolist():
            first = block * blocks.threads
            if blocks.live[first : first + blocks.threads].any():
                continue
            self.copies.check_ended(block, first)
            if self._cores is not None:
                self._cores.memory.check_ended(block, first)

    # Barriers

    def make_barrier(self, address: Any, count: Any, mask: Mask) -> None:
        """Execute ``mbarrier.init``."""
        chosen = self.blocks.some(mask)
        for thread, barrier_address, arrivals in zip(
            chosen.tolist(),
            self.blocks.integers(address, chosen),
            self.blocks.integers(count, chosen),
            strict=True,
        ):
            self.barriers.make(thread, barrier_address, arrivals)

    def end_barrier(self, address: Any, mask: Mask) -> None:
        """Execute ``mbarrier.inval``."""
        chosen = self.blocks.some(mask)
        for thread, barrier_address in zip(
            chosen.tolist(), self.blocks.integers(address, chosen), strict=True
        ):
            self.barriers.end(thread, barrier_address)

    def arrive(self, address: Any, count: Any, expected: Any, mask: Mask) -> Array:
        """Execute ``mbarrier.arrive`` and return the phase at which each thread arrived."""
        chosen = self.blocks.some(mask)
        phases = np.zeros(self.blocks.n, np.uint64)
        for thread, barrier_address, arrivals, nbytes in zip(
            chosen.tolist(),
            self.blocks.integers(address, chosen),
            self.blocks.integers(count, chosen),
            self.blocks.integers(expected, chosen),
            strict=True,
        ):
            phases[thread] = self.barriers.arrive(thread, barrier_address, arrivals, nbytes)
        return phases

    def expect(self, address: Any, expected: Any, mask: Mask) -> None:
        """Execute ``mbarrier.expect_tx``."""
        chosen = self.blocks.some(mask)
        for thread, barrier_address, nbytes in zip(
            chosen.tolist(),
            self.blocks.integers(address, chosen),
            self.blocks.integers(expected, chosen),
            strict=True,
        ):
            self.barriers.expect(thread, barrier_address, nbytes)

    def over(self, address: Array, value: Array, by_parity: bool, waiting: Array) -> Array:
        """Return the threads of a mask whose phase is over; their warps then know the events before it."""
        ready = np.zeros(self.blocks.n, np.bool_)
        chosen = np.flatnonzero(waiting)
        results: dict[tuple[int, int, int], bool] = {}
        numbers = (chosen // WARP).tolist()
        for thread, number, barrier_address, phase_or_parity in zip(
            chosen.tolist(), numbers, address[chosen].tolist(), value[chosen].tolist(), strict=True
        ):
            key = number, barrier_address, phase_or_parity
            if key not in results:
                over = self.barriers.is_over(
                    thread,
                    barrier_address,
                    phase_or_parity if by_parity else None,
                    None if by_parity else phase_or_parity,
                )
                if over:
                    self.barriers.learn(thread, barrier_address)
                results[key] = over
            ready[thread] = results[key]
        return ready

    def awaited(self, thread: int, address: int) -> str:
        """Describe what a barrier waits for, for a message."""
        barrier = self.barriers.at(thread, address, "mbarrier.try_wait")
        return (
            f"the barrier at {address:#x} of shared memory, whose phase {barrier.phase} (parity {barrier.phase & 1}) "
            f"waits for {barrier.missing()}"
        )

    # Fences

    def fence_proxy(self, mask: Mask) -> None:
        """Execute ``fence.proxy.async``."""
        self.memory.fence(self.blocks.some(mask))

    # Registers

    def changed(self) -> bool:
        """Return True if a waiting thread might proceed."""
        return self.barriers.changed or self.gave

    def _check_registers(self, count: int, mask: Mask) -> Array:
        """Return the warps that change their registers. Raise Fault for an invalid number."""
        warps = self.blocks._whole_warps(mask, "setmaxnreg")
        if count % 8 or not 24 <= count <= 256:
            raise Fault(
                f"{ILLEGAL}: setmaxnreg of {count} registers, expected a multiple of 8 from 24 to 256",
                int(warps[0]) * WARP if warps.size else -1,
                ILLEGAL_INSTRUCTION,
            )
        return warps

    def _refuse_registers(self, wrong: Array, warps: Array, count: int, operation: str) -> None:
        if wrong.any():
            have = int(self.registers[warps[wrong][0]])
            raise Fault(
                f"{ILLEGAL}: {operation} to {count} registers by warps that have {have}",
                int(warps[wrong][0]) * WARP,
                ILLEGAL_INSTRUCTION,
            )

    def give_registers(self, count: int, mask: Mask) -> None:
        """Execute ``setmaxnreg.dec``."""
        warps = self._check_registers(count, mask)
        if self.pool:
            self._refuse_registers(self.registers[warps] < count, warps, count, "setmaxnreg.dec")
            self.registers[warps] = count
            self.gave = True

    def take_registers(self, count: int, threads: Array) -> Array:
        """Execute ``setmaxnreg.inc`` and return the threads with enough registers; the others wait."""
        warps = self._check_registers(count, threads)
        if not self.pool:
            return threads
        self._refuse_registers(self.registers[warps] > count, warps, count, "setmaxnreg.inc")
        ready = np.zeros((self.blocks.n // WARP, WARP), np.bool_)
        warps_per_block = self.blocks.threads // WARP
        for warp in warps.tolist():
            first = warp // warps_per_block * warps_per_block
            other_registers = self.registers[first : first + warps_per_block].sum() - self.registers[warp]
            if (other_registers + count) * WARP <= self.pool:
                self.registers[warp] = count
                ready[warp] = True
        return ready.reshape(-1)
