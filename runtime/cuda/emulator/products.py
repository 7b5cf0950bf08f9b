"""Asynchronous warpgroup matmuls (``wgmma``); `warp_group` has the layouts of operands and accumulators.

Source: NVIDIA, PTX ISA 8.8, "Asynchronous Warpgroup Level Matrix Instructions".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from . import warp_group
from .fault import DIVERGENT, RACE, Fault
from .ordered_memory import OrderedSharedMemory
from .warp_group import GROUP, ITEMSIZE, InFlight, MatrixDescriptor, Sums

if TYPE_CHECKING:
    from .machine import Blocks

Array = np.ndarray[Any, Any]
Mask = Array | None

WARP = 32


class Products:
    """Matmuls of blocks that run together."""

    def __init__(self, blocks: Blocks, memory: OrderedSharedMemory) -> None:
        self.blocks, self.memory = blocks, memory
        count = blocks.n // WARP
        self.committed: Array = np.zeros(count, np.int64)
        """Number of matmul groups that each warp has committed."""
        self.fenced: Array = np.zeros(count, np.bool_)
        """True for each warp that has executed ``wgmma.fence`` since its last wait."""
        self.seen: dict[int, list[Any]] = {}
        """Registers of each warpgroup at its last ``wgmma.fence``."""
        self.flying: list[Sums] = []
        """Accumulators in flight."""
        self.operands: list[tuple[Array, int, int, Any]] = []
        """Registers that a matmul reads: the threads, the group, the register's place, its value."""
        self.landed: dict[int, Any] = {}
        """Registers as a wait left them, by place: a matmul may continue with them without a fence."""

    def fence(self, registers: list[Any], mask: Mask) -> None:
        """Execute ``wgmma.fence``."""
        groups = self.blocks.groups_of_warps(mask, "wgmma.fence")
        self.fenced.reshape(-1, 4)[groups] = True
        self.seen |= dict.fromkeys(groups.tolist(), registers.copy())

    def commit(self, mask: Mask) -> None:
        """Execute ``wgmma.commit_group``."""
        groups = self.blocks.groups_of_warps(mask, "wgmma.commit_group")
        self.committed.reshape(-1, 4)[groups] += 1

    def wait(self, max_pending: int, registers: list[Any], mask: Mask) -> None:
        """Execute ``wgmma.wait_group``: the accumulators of all but the last groups are ready."""
        blocks, memory = self.blocks, self.memory
        groups = self.blocks.groups_of_warps(mask, "wgmma.wait_group")
        self.fenced.reshape(-1, 4)[groups] = False
        due_until = np.repeat(self.committed - max_pending, WARP)
        waiting = np.zeros((blocks.n // GROUP, GROUP), np.bool_)
        waiting[groups] = True
        active = waiting.reshape(-1)
        due_lanes: dict[int, Array] = {}
        columns: dict[int, set[int]] = {}

        def due(sums: Sums) -> Array:
            lanes = due_lanes.get(id(sums))
            if lanes is None:
                lanes = due_lanes[id(sums)] = sums.lanes & active & (sums.issued < due_until)
            return lanes

        for index, register in enumerate(registers):
            if isinstance(register, InFlight):
                after = warp_group.settled(register, due, columns)
                if after is not register:
                    registers[index] = self.landed[index] = after
        for sums in self.flying:
            lanes = due(sums)
            if lanes.any() and len(columns.get(id(sums), ())) < sums.count:
                raise Fault(
                    f"{RACE}: a register is written before its product is done: no wgmma.wait_group",
                    int(np.flatnonzero(lanes)[0]),
                )
            sums.lanes = sums.lanes & ~lanes
        self._check_operands(registers, active, due_until)
        self.flying = [sums for sums in self.flying if sums.lanes.any()]
        for number in (groups[:, None] * 4 + np.arange(4)).reshape(-1).tolist():
            block, warp = divmod(number, memory.warps)
            memory.learn(block, warp, memory.warps + warp, int(self.committed[number]) - max_pending)

    def _check_operands(self, registers: list[Any], active: Array, due_until: Array) -> None:
        """Raise Fault if a register was written while a now completed matmul was reading it."""
        left = []
        for lanes, group, index, held in self.operands:
            due = lanes & active & (group < due_until)
            now = registers[index]
            if due.any() and now is not held:
                other = due & (self.blocks.full(now) != self.blocks.full(held))
                if other.any() and not self.blocks.launch.program.is_mended():
                    raise Fault(
                        f"{RACE}: a register is written while a product reads it: no wgmma.wait_group",
                        int(np.flatnonzero(other)[0]),
                    )
            if (lanes & ~due).any():
                left.append((lanes & ~due, group, index, held))
        self.operands = left

    def multiply(
        self,
        registers: list[Any],
        targets: tuple[int, ...],
        shape: tuple[int, int],
        types: tuple[str, str, str],
        left: Any,
        right: Any,
        scale: Any,
        signs: tuple[int, int],
        transposed: tuple[bool, bool],
        saturates: bool,
        mask: Mask,
    ) -> None:
        """Execute ``wgmma.mma_async``: 64 accumulator rows for each warpgroup, in the registers `targets`.

        The matmul is exact and accumulated in double precision, and rounded once for each instruction. NVIDIA does
        not document the order and the width of additions.
        """
        blocks = self.blocks
        groups = self.blocks.groups_of_warps(mask, "wgmma.mma_async")
        if not groups.size:
            return
        apart = _by_accumulators(registers[targets[0]], groups)
        if len(apart) > 1:
            for some in apart:
                lanes = np.zeros((blocks.n // GROUP, GROUP), np.bool_)
                lanes[some] = True
                self.multiply(
                    registers, targets, shape, types, left, right, scale, signs, transposed, saturates,
                    lanes.reshape(-1),
                )  # fmt: skip
            return
        columns, depth = shape
        d_type, a_type, b_type = types
        sums = self._sums(registers, targets, groups, d_type == "f16")
        if isinstance(left, tuple):
            self._check_seen(registers, left, groups)
            lanes = np.zeros((blocks.n // GROUP, GROUP), np.bool_)
            lanes[groups] = True
            for index in left:
                for group in np.unique(self.committed[groups * 4]).tolist():
                    own = lanes & (self.committed[::4] == group)[:, None]
                    self.operands.append((own.reshape(-1), group, index, registers[index]))
            left = tuple(registers[index] for index in left)
            a = warp_group.operand_of_registers([blocks.full(each) for each in left], a_type, groups)
        else:
            a = self._operand(left, 64, depth, a_type, transposed[0], groups)
        b = self._operand(right, columns, depth, b_type, transposed[1], groups)
        if signs[0] * signs[1] < 0:
            a = -a
        product = a @ b.transpose(0, 2, 1)
        adds = blocks.full(scale).reshape(-1, GROUP)[groups]
        if (adds != adds[:, :1]).any():
            raise Fault(
                f"{DIVERGENT}: the threads of four warps differ in scale-d of wgmma.mma_async",
                int(groups[0]) * GROUP,
            )
        if adds[:, 0].all():
            result = warp_group.added(product, sums.values, d_type, saturates)
        elif not adds.any():
            result = warp_group.added(product, None, d_type, saturates)
        else:
            with_sums = warp_group.added(product, sums.values, d_type, saturates)
            result = np.where(
                adds[:, :1, None], with_sums, warp_group.added(product, None, d_type, saturates)
            )
        sums.put(result)
        threads = (groups[:, None] * GROUP + np.arange(GROUP)).reshape(-1)
        sums.issued[threads] = np.repeat(self.committed, WARP)[threads]

    def _check_seen(self, registers: list[Any], indices: tuple[int, ...], groups: Array) -> None:
        """Raise Fault if a register operand was written since the last fence of its warps."""
        for group in groups.tolist():
            fenced_registers, lanes = self.seen.get(group), slice(group * GROUP, group * GROUP + GROUP)
            for index in indices:
                now = registers[index]
                if fenced_registers is not None and (
                    now is fenced_registers[index]
                    or np.array_equal(
                        self.blocks.full(now)[lanes], self.blocks.full(fenced_registers[index])[lanes]
                    )
                ):
                    continue
                raise Fault(
                    f"{RACE}: wgmma.mma_async reads a register that was written since the last wgmma.fence",
                    group * GROUP,
                )

    def _sums(self, registers: list[Any], targets: tuple[int, ...], groups: Array, packed: bool) -> Sums:
        """Return the accumulators of some groups, in flight from now on."""
        blocks = self.blocks
        lanes = np.zeros((blocks.n // GROUP, GROUP), np.bool_)
        lanes[groups] = True
        flat = lanes.reshape(-1)
        going_on = self._in_flight(registers, targets, groups, flat)
        if going_on is not None:
            return going_on
        warps = (groups[:, None] * 4 + np.arange(4)).reshape(-1)
        if not self.fenced[warps].all() and any(registers[i] is not self.landed.get(i) for i in targets):
            raise Fault(
                f"{RACE}: wgmma.mma_async whose sums were touched since the last wait, without wgmma.fence",
                int(groups[0]) * GROUP,
            )
        values = []
        for index in targets:
            register = registers[index]
            values.append(blocks.full(register.known() if isinstance(register, InFlight) else register))
        sums = Sums(warp_group.gathered(values, groups, packed), groups, flat, packed, len(targets))
        self.flying.append(sums)
        for i, index in enumerate(targets):
            registers[index] = InFlight(blocks, sums, i, registers[index])
        return sums

    def _in_flight(
        self, registers: list[Any], targets: tuple[int, ...], groups: Array, flat: Array
    ) -> Sums | None:
        """Return the in-flight accumulators of earlier matmuls in the same registers, or None."""
        parts: list[InFlight] = []
        for index in targets:
            if isinstance(register := registers[index], InFlight):
                parts += [part for part in register.parts() if (part.sums.lanes & flat).any()]
        if not parts:
            return None
        sums = parts[0].sums
        if (
            len(parts) != len(targets)
            or sums.count != len(targets)
            or (flat & ~sums.lanes).any()
            or any(part.sums is not sums or part.index != i for i, part in enumerate(parts))
        ):
            raise Fault(
                f"{RACE}: wgmma.mma_async adds to registers to which one of another shape adds",
                int(groups[0]) * GROUP,
            )
        if np.array_equal(sums.lanes, flat) and sums.groups.size == groups.size:
            return sums
        # Some continue alone.
        own = Sums(sums.values[np.isin(sums.groups, groups)], groups, flat, sums.packed, sums.count)
        own.issued[:] = sums.issued
        self.flying.append(own)
        sums.lanes = sums.lanes & ~flat
        for index, register in enumerate(registers):
            if isinstance(register, InFlight):
                for part in register.parts():
                    if part.sums is sums:
                        registers[index] = InFlight(self.blocks, own, part.index, register)
                        break
        return own

    def _operand(
        self, descriptor: Any, lines: int, depth: int, type_name: str, transposed: bool, groups: Array
    ) -> Array:
        """Return a shared memory operand (groups, lines, depth), wide enough to be multiplied exactly."""
        memory, itemsize = self.memory, ITEMSIZE[type_name]
        descriptors = self.blocks.full(descriptor).reshape(-1, GROUP)[groups]
        if (descriptors != descriptors[:, :1]).any():
            raise Fault(
                f"{DIVERGENT}: the threads of four warps differ in a matrix descriptor",
                int(groups[0]) * GROUP,
            )
        rows = []
        for group, bits in zip(groups.tolist(), descriptors[:, 0].tolist(), strict=True):
            matrix, thread = MatrixDescriptor(bits), group * GROUP
            if matrix.base_offset:
                raise Fault(f"a matrix descriptor with a base offset ({bits:#x}) is not emulated", thread)
            addresses = warp_group.chunk_addresses(matrix, lines, depth, itemsize, transposed)
            positions = memory.check_whole(
                addresses.reshape(-1), 16, "a matrix of wgmma.mma_async", thread, 16
            )
            warps = group * 4 % memory.warps + np.arange(4)
            memory.unit_reads(
                positions,
                16,
                thread,
                warps,
                memory.warps + warps,
                self.committed[group * 4 : group * 4 + 4] + 1,
                "a product (wgmma.mma_async)",
            )
            raw = memory.rows(positions, 8, 2).view(np.uint8).reshape(addresses.shape[0], -1)
            rows.append(raw)
        numbers = warp_group.exact(np.stack(rows), type_name)
        return numbers.transpose(0, 2, 1) if transposed else numbers


def _by_accumulators(register: Any, groups: Array) -> list[Array]:
    """Split warpgroups by the accumulators that they have in flight in a register.

    Warpgroups of several blocks execute an instruction together, and one of them may begin a sum while another goes on.
    """
    if not isinstance(register, InFlight):
        return [groups]
    numbers = np.zeros(groups.size, np.int64)
    for number, part in enumerate(register.parts(), 1):
        numbers[part.sums.lanes[groups * GROUP]] = number
    return [groups[numbers == number] for number in np.unique(numbers)]
