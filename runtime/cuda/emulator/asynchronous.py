"""The units of sm_90 that work while threads go on: bulk copies, products by four warps, barriers in shared memory.

What a unit does is done at once, and counts as done when the program has waited for it: what reads or writes earlier is
found by the clocks of `ordered_memory`, and a register that is read earlier by `warp_group.InFlight`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from . import warp_group
from .barriers import Barriers
from .fault import (
    DIVERGENT,
    ILLEGAL,
    ILLEGAL_INSTRUCTION,
    MISALIGNED,
    MISALIGNED_ADDRESS,
    RACE,
    Fault,
)
from .ordered_memory import OrderedSharedMemory
from .ptx import Function
from .tensor_maps import NAN_BITS, ROUNDED_TYPES, Box, TensorMap, box_at, decode, replaced, swizzled
from .translate import PARAMETERS
from .warp_group import GROUP, ITEMSIZE, InFlight, MatrixDescriptor, Sums

if TYPE_CHECKING:
    from .machine import Blocks

Array = np.ndarray[Any, Any]
Mask = Array | None

WARP = 32
MAP_ALIGNMENT, BOX_ALIGNMENT = 64, 128
_UNSIGNED: dict[int, Any] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def needs_units(function: Function) -> bool:
    """Whether a function works with asynchronous units, or with barriers of a part of a block.

    Such a kernel pays for `OrderedSharedMemory`; others are kept in order by the barriers of whole blocks.
    """
    for each in function.instructions:
        if each.opcode in ("mbarrier", "wgmma", "setmaxnreg", "tensormap") or (
            each.opcode == "cp" and "bulk" in each.modifiers
        ):
            return True
        if each.opcode in ("bar", "barrier") and "warp" not in each.modifiers and len(each.operands) > 1:
            return True
    return False


class AsynchronousUnits:
    """The units of the multiprocessors on which some blocks run together."""

    def __init__(self, blocks: Blocks, memory: OrderedSharedMemory) -> None:
        self.blocks, self.memory = blocks, memory
        self.barriers = Barriers(memory)
        count = blocks.n // WARP
        self.committed: Array = np.zeros(count, np.int64)
        """The groups of products that each warp has committed."""
        self.fenced: Array = np.zeros(count, np.bool_)
        """Whether each warp has executed ``wgmma.fence`` since it last waited."""
        self.stores: list[list[int]] = []
        """Bulk stores that were not waited for: thread, its group, number of its warp, whether it was read."""
        self.store_groups: Array = np.zeros(blocks.n, np.int64)
        self.store_numbers: Array = np.zeros(count, np.int64)
        self.maps: dict[bytes, TensorMap] = {}
        self.unacquired: set[tuple[int, int]] = set()
        """Maps that a block has changed and not acquired since: the block's place, and the address."""
        kernel = blocks.launch.program.kernel.function
        self.pool = kernel.max_registers * blocks.threads
        """The registers of a block, to be given and taken (``setmaxnreg``); 0 where the kernel does not say."""
        self.registers: Array = np.full(blocks.n // GROUP, kernel.max_registers, np.int64)
        self.gave = False
        """Whether anybody has given registers since somebody last looked."""
        self.flying: list[Sums] = []
        """Sums that were not waited for."""
        self.landed: dict[int, Any] = {}
        """Registers as a wait left them, by place: a product may go on with them without a fence."""

    # Barriers

    def _each(self, value: Any, chosen: Array) -> list[int]:
        found: list[int] = self.blocks.full(value)[chosen].tolist()
        return found

    def make_barrier(self, address: Any, count: Any, mask: Mask) -> None:
        """``mbarrier.init``."""
        chosen = self.blocks.some(mask)
        for thread, at, each in zip(
            chosen.tolist(), self._each(address, chosen), self._each(count, chosen), strict=True
        ):
            self.barriers.make(thread, at, each)

    def end_barrier(self, address: Any, mask: Mask) -> None:
        """``mbarrier.inval``."""
        chosen = self.blocks.some(mask)
        for thread, at in zip(chosen.tolist(), self._each(address, chosen), strict=True):
            self.barriers.end(thread, at)

    def arrive(self, address: Any, count: Any, expected: Any, mask: Mask) -> Array:
        """``mbarrier.arrive``: the phase at which each thread arrived."""
        chosen = self.blocks.some(mask)
        found = np.zeros(self.blocks.n, np.uint64)
        for thread, at, one, nbytes in zip(
            chosen.tolist(),
            self._each(address, chosen),
            self._each(count, chosen),
            self._each(expected, chosen),
            strict=True,
        ):
            found[thread] = self.barriers.arrive(thread, at, one, nbytes)
        return found

    def expect(self, address: Any, expected: Any, mask: Mask) -> None:
        """``mbarrier.expect_tx``."""
        chosen = self.blocks.some(mask)
        for thread, at, nbytes in zip(
            chosen.tolist(), self._each(address, chosen), self._each(expected, chosen), strict=True
        ):
            self.barriers.expect(thread, at, nbytes)

    def over(self, address: Array, value: Array, by_parity: bool, waiting: Array) -> Array:
        """Of the threads of a mask those for which a phase is over; their warps then know what happened before."""
        ready = np.zeros(self.blocks.n, np.bool_)
        chosen = np.flatnonzero(waiting)
        seen: dict[tuple[int, int, int], bool] = {}
        numbers = (chosen // WARP).tolist()
        for thread, number, at, given in zip(
            chosen.tolist(), numbers, address[chosen].tolist(), value[chosen].tolist(), strict=True
        ):
            key = number, at, given
            if key not in seen:
                over = self.barriers.is_over(
                    thread, at, given if by_parity else None, None if by_parity else given
                )
                if over:
                    self.barriers.learn(thread, at)
                seen[key] = over
            ready[thread] = seen[key]
        return ready

    def awaited(self, thread: int, address: int) -> str:
        """What is missing at a barrier, for a message."""
        found = self.barriers.at(thread, address, "mbarrier.try_wait")
        return (
            f"the barrier at {address:#x} of shared memory, whose phase {found.phase} (parity {found.phase & 1}) waits "
            f"for {found.missing()}"
        )

    # Fences

    def fence_proxy(self, mask: Mask) -> None:
        """``fence.proxy.async``."""
        self.memory.fence(self.blocks.some(mask))

    # Bulk copies

    def _map(self, address: int, thread: int) -> TensorMap:
        """The tensor map at a generic address."""
        blocks = self.blocks
        if address % MAP_ALIGNMENT:
            raise Fault(f"{MISALIGNED}: a tensor map at {address:#x}", thread, MISALIGNED_ADDRESS)
        if address >= PARAMETERS:
            start = address - PARAMETERS
            data = blocks.launch.parameters[start : start + 128]
        else:
            if (int(blocks.block[thread]), address) in self.unacquired:
                raise Fault(
                    f"{RACE}: the tensor map at {address:#x} was changed and is read without "
                    "fence.proxy.tensormap",
                    thread,
                )
            here = np.array([thread])
            rows = blocks.access.load(
                np.arange(address, address + 128, 8, dtype=np.uint64),
                8,
                1,
                np.repeat(here, 16),
                np.repeat(blocks.blocks[here], 16),
            )
            data = rows.tobytes()
        found = self.maps.get(data)
        if found is None:
            try:
                found = self.maps[data] = decode(data)
            except ValueError as error:
                raise Fault(f"{ILLEGAL}: {error}", thread, ILLEGAL_INSTRUCTION) from None
        return found

    def replace_field(self, field: str, place: int, address: Any, value: Any, mask: Mask) -> None:
        """``tensormap.replace``: a field of a map in shared memory is another."""
        chosen = self.blocks.some(mask)
        for thread, at, new in zip(
            chosen.tolist(), self._each(address, chosen), self._each(value, chosen), strict=True
        ):
            here = np.repeat(thread, 16)
            places = np.arange(at, at + 128, 8, dtype=np.uint64)
            data = self.memory.load(places, 8, 1, here).tobytes()
            try:
                changed = replaced(data, field, place, new)
            except ValueError as error:
                raise Fault(f"{ILLEGAL}: {error}", thread, ILLEGAL_INSTRUCTION) from None
            self.memory.store(places, np.frombuffer(changed, np.uint64), here, 8)

    def publish_map(self, address: Any, shared: Any, mask: Mask) -> None:
        """``tensormap.cp_fenceproxy``: whole warps copy a map from shared to global memory."""
        blocks = self.blocks
        for warp in blocks._whole_warps(mask, "tensormap.cp_fenceproxy").tolist():
            threads = warp * WARP + np.arange(WARP)
            steps = 4 * np.arange(WARP, dtype=np.uint64)
            rows = self.memory.load(blocks.full(shared)[threads] + steps, 4, 1, threads)
            to = blocks.full(address)[threads]
            blocks.access.store(to + steps, rows, 4, threads, blocks.blocks[threads])
            self.unacquired.add((int(blocks.block[threads[0]]), int(to[0])))

    def acquire_map(self, address: Any, mask: Mask) -> None:
        """``fence.proxy.tensormap``: a map that was changed may be read."""
        chosen = self.blocks.some(mask)
        for thread, at in zip(chosen.tolist(), self._each(address, chosen), strict=True):
            self.unacquired.discard((int(self.blocks.block[thread]), at))

    def _box(
        self, shared: int, tensor: TensorMap, coordinates: list[int], thread: int, what: str
    ) -> tuple[Box, Array]:
        """A box, and where its units lie in the data of shared memory."""
        if len(coordinates) != len(tensor.sizes):
            raise Fault(
                f"{ILLEGAL}: {what} with {len(coordinates)} coordinates in a tensor of {len(tensor.sizes)} dimensions",
                thread,
                ILLEGAL_INSTRUCTION,
            )
        if tensor.type in ROUNDED_TYPES:
            raise Fault(f"{what} of elements that are rounded on their way is not emulated", thread)
        row = tensor.counts[0] * tensor.itemsize
        if tensor.swizzle and row != (16, 32, 64, 128)[tensor.swizzle]:
            raise Fault(f"{what} of a box of {row} bytes, narrower than its swizzle, is not emulated", thread)
        if shared % BOX_ALIGNMENT:
            raise Fault(
                f"{MISALIGNED}: {what} at {shared:#x} of shared memory, no multiple of {BOX_ALIGNMENT}",
                thread,
                MISALIGNED_ADDRESS,
            )
        box = box_at(tensor, coordinates)
        self.memory.check_whole(
            np.array([shared, shared + tensor.nbytes - 16]),
            16,
            f"{what} of {tensor.nbytes} bytes",
            thread,
            16,
        )
        places = swizzled(shared + box.offsets, tensor.swizzle) + int(self.memory.base[thread])
        return box, places

    def load_box(
        self, shared: Any, address: Any, coordinates: tuple[Any, ...], barrier: Any, mask: Mask
    ) -> None:
        """``cp.async.bulk.tensor`` from global to shared memory."""
        blocks, what = self.blocks, "cp.async.bulk.tensor"
        chosen = blocks.some(mask)
        where = [
            self._each(coordinate.view(np.int32), chosen) for coordinate in map(blocks.full, coordinates)
        ]
        for i, (thread, at, to, reports) in enumerate(
            zip(
                chosen.tolist(),
                self._each(address, chosen),
                self._each(shared, chosen),
                self._each(barrier, chosen),
                strict=True,
            )
        ):
            tensor = self._map(at, thread)
            box, places = self._box(to, tensor, [each[i] for each in where], thread, what)
            size = min(box.unit, 8)
            count = box.unit // size
            outside = np.uint64(NAN_BITS[tensor.type]) if tensor.fill else np.uint64(0)
            filling = np.full(8 // tensor.itemsize, outside, _UNSIGNED[tensor.itemsize]).view(
                _UNSIGNED[size]
            )[0]
            values = np.full((places.size, count), filling, _UNSIGNED[size])
            if box.inside.any():
                addresses = box.addresses[box.inside]
                rows = blocks.access.load(
                    addresses,
                    size,
                    count,
                    np.full(addresses.size, thread),
                    np.full(addresses.size, blocks.blocks[thread]),
                )
                values[box.inside] = rows.reshape(-1, count)
            self._bring(places, values, box.unit, thread, reports, tensor.nbytes, what)

    def _bring(
        self, places: Array, values: Array, unit: int, thread: int, reports: int, nbytes: int, what: str
    ) -> None:
        """Put what a bulk copy brings into shared memory, and report it to a barrier."""
        found, phase = self.barriers.begin(thread, reports, what)
        self.memory.unit_writes(places, unit, thread, found.column, phase, "a bulk copy")
        self.memory.lay(places, values if values.shape[1] > 1 else values[:, 0])
        self.barriers.complete(thread, reports, found, nbytes)

    def load_bytes(self, shared: Any, address: Any, nbytes: Any, barrier: Any, mask: Mask) -> None:
        """``cp.async.bulk`` from global to shared memory, bytes that adjoin."""
        blocks, what = self.blocks, "cp.async.bulk"
        chosen = blocks.some(mask)
        for thread, to, at, size, reports in zip(
            chosen.tolist(),
            *(self._each(value, chosen) for value in (shared, address, nbytes, barrier)),
            strict=True,
        ):
            addresses, places = self._adjoining(to, at, size, thread, what)
            here = np.full(addresses.size, thread)
            values = blocks.access.load(addresses, 8, 2, here, blocks.blocks[here])
            self._bring(places, values, 16, thread, reports, size, what)

    def _adjoining(
        self, shared: int, address: int, nbytes: int, thread: int, what: str
    ) -> tuple[Array, Array]:
        if shared % 16 or address % 16 or nbytes % 16 or nbytes == 0:
            raise Fault(
                f"{MISALIGNED}: {what} of {nbytes} bytes between {address:#x} and {shared:#x} of shared memory, "
                "expected multiples of 16",
                thread,
                MISALIGNED_ADDRESS,
            )
        steps = np.arange(0, nbytes, 16)
        places = self.memory.check_whole(shared + steps, 16, what, thread, 16)
        return (address + steps).astype(np.uint64), places

    def _stored(self, places: Array, unit: int, thread: int) -> None:
        """A bulk copy of a thread begins to read shared memory."""
        number = thread // WARP
        self.store_numbers[number] += 1
        clock, memory = int(self.store_numbers[number]), self.memory
        warp = int(memory.warp[thread])
        memory.unit_reads(
            places,
            unit,
            thread,
            np.array([warp]),
            np.array([2 * memory.warps + warp]),
            np.array([clock]),
            "a bulk copy",
        )
        self.stores.append([thread, int(self.store_groups[thread]), clock, 0])

    def store_box(self, address: Any, coordinates: tuple[Any, ...], shared: Any, mask: Mask) -> None:
        """``cp.async.bulk.tensor`` from shared to global memory; what lies outside of the tensor is left out."""
        blocks, what = self.blocks, "cp.async.bulk.tensor"
        chosen = blocks.some(mask)
        where = [
            self._each(coordinate.view(np.int32), chosen) for coordinate in map(blocks.full, coordinates)
        ]
        for i, (thread, at, source) in enumerate(
            zip(chosen.tolist(), self._each(address, chosen), self._each(shared, chosen), strict=True)
        ):
            tensor = self._map(at, thread)
            box, places = self._box(source, tensor, [each[i] for each in where], thread, what)
            self._stored(places, box.unit, thread)
            self._write_global(box.addresses[box.inside], places[box.inside], box.unit, thread)

    def _write_global(self, addresses: Array, places: Array, unit: int, thread: int) -> None:
        if not addresses.size:
            return
        size = min(unit, 8)
        values = self.memory.rows(places, size, unit // size)
        here = np.full(addresses.size, thread)
        self.blocks.access.store(addresses, values, unit, here, self.blocks.blocks[here])

    def store_bytes(self, address: Any, shared: Any, nbytes: Any, mask: Mask) -> None:
        """``cp.async.bulk`` from shared to global memory."""
        chosen = self.blocks.some(mask)
        for thread, at, source, size in zip(
            chosen.tolist(), *(self._each(value, chosen) for value in (address, shared, nbytes)), strict=True
        ):
            addresses, places = self._adjoining(source, at, size, thread, "cp.async.bulk")
            self._stored(places, 16, thread)
            self._write_global(addresses, places, 16, thread)

    def commit_stores(self, mask: Mask) -> None:
        """``cp.async.bulk.commit_group``."""
        self.store_groups[self.blocks.some(mask)] += 1

    def wait_for_stores(self, kept: int, mask: Mask) -> None:
        """``cp.async.bulk.wait_group``: all but the last groups have read what they store."""
        left = []
        warps: set[int] = set()
        for store in self.stores:
            thread, group, _, _ = store
            if (mask is None or mask[thread]) and group < self.store_groups[thread] - kept:
                warps.add(thread // WARP)
            else:
                left.append(store)
        self.stores = left
        memory = self.memory
        for number in warps:
            oldest = min(
                (s[2] for s in left if s[0] // WARP == number), default=int(self.store_numbers[number]) + 1
            )
            block, warp = divmod(number, memory.warps)
            memory.learn(block, warp, 2 * memory.warps + warp, oldest - 1)

    def check_ended(self, ended: Array) -> None:
        """Raise Fault if blocks whose last thread has ended have copies on their way."""
        blocks = self.blocks
        for block in np.unique(blocks.block[ended]).tolist():
            first = block * blocks.threads
            if blocks.live[first : first + blocks.threads].any():
                continue
            self.barriers.check_ended(block, first)
            for thread, *_ in self.stores:
                if blocks.block[thread] == block:
                    raise Fault(
                        f"{RACE}: a block ends while a bulk copy still reads its shared memory: no "
                        "cp.async.bulk.wait_group",
                        thread,
                    )

    # Products by four warps

    def _groups(self, mask: Mask, what: str) -> Array:
        """The groups of four warps that are there. Raises Fault for a part of one."""
        if self.blocks.threads % GROUP:
            raise Fault(f"{DIVERGENT}: {what} by a part of four warps", int(self.blocks.some(mask)[0]))
        if mask is None:
            return np.arange(self.blocks.n // GROUP)
        rows = mask.reshape(-1, GROUP)
        some, every = rows.any(1), rows.all(1)
        if (some & ~every).any():
            raise Fault(f"{DIVERGENT}: {what} by a part of four warps", int(np.flatnonzero(mask)[0]))
        return np.flatnonzero(every)

    def fence_products(self, mask: Mask) -> None:
        """``wgmma.fence``."""
        groups = self._groups(mask, "wgmma.fence")
        self.fenced.reshape(-1, 4)[groups] = True

    def commit_products(self, mask: Mask) -> None:
        """``wgmma.commit_group``."""
        groups = self._groups(mask, "wgmma.commit_group")
        self.committed.reshape(-1, 4)[groups] += 1

    def wait_for_products(self, kept: int, registers: list[Any], mask: Mask) -> None:
        """``wgmma.wait_group``: the sums of all but the last groups are in their registers."""
        blocks, memory = self.blocks, self.memory
        groups = self._groups(mask, "wgmma.wait_group")
        self.fenced.reshape(-1, 4)[groups] = False
        due_until = np.repeat(self.committed - kept, WARP)
        waiting = np.zeros((blocks.n // GROUP, GROUP), np.bool_)
        waiting[groups] = True
        active = waiting.reshape(-1)
        found: dict[int, Array] = {}
        columns: dict[int, set[int]] = {}

        def due(sums: Sums) -> Array:
            lanes = found.get(id(sums))
            if lanes is None:
                lanes = found[id(sums)] = sums.lanes & active & (sums.issued < due_until)
            return lanes

        for place, register in enumerate(registers):
            if isinstance(register, InFlight):
                after = warp_group.settled(register, due, columns)
                if after is not register:
                    registers[place] = self.landed[place] = after
        for sums in self.flying:
            lanes = due(sums)
            if lanes.any() and len(columns.get(id(sums), ())) < sums.count:
                raise Fault(
                    f"{RACE}: a register is written before its product is done: no wgmma.wait_group",
                    int(np.flatnonzero(lanes)[0]),
                )
            sums.lanes = sums.lanes & ~lanes
        self.flying = [sums for sums in self.flying if sums.lanes.any()]
        for number in (groups[:, None] * 4 + np.arange(4)).reshape(-1).tolist():
            block, warp = divmod(number, memory.warps)
            memory.learn(block, warp, memory.warps + warp, int(self.committed[number]) - kept)

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
        """``wgmma.mma_async``: 64 rows of sums for each group of four warps, in the registers `targets`.

        Products are exact and added up in double precision with the accumulator, and the sum is rounded once for each
        instruction. NVIDIA does not document the order and the width of additions.
        """
        blocks = self.blocks
        groups = self._groups(mask, "wgmma.mma_async")
        if not groups.size:
            return
        columns, depth = shape
        d_type, a_type, b_type = types
        sums = self._sums(registers, targets, groups, d_type == "f16")
        if isinstance(left, tuple):
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
            found = warp_group.added(product, sums.values, d_type, saturates)
        elif not adds.any():
            found = warp_group.added(product, None, d_type, saturates)
        else:
            with_sums = warp_group.added(product, sums.values, d_type, saturates)
            found = np.where(adds[:, :1, None], with_sums, warp_group.added(product, None, d_type, saturates))
        sums.put(found)
        lanes = (groups[:, None] * GROUP + np.arange(GROUP)).reshape(-1)
        sums.issued[lanes] = np.repeat(self.committed, WARP)[lanes]

    def _sums(self, registers: list[Any], targets: tuple[int, ...], groups: Array, packed: bool) -> Sums:
        """The accumulators of some groups, in flight from here on."""
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
        for place in targets:
            register = registers[place]
            values.append(blocks.full(register.known() if isinstance(register, InFlight) else register))
        sums = Sums(warp_group.gathered(values, groups, packed), groups, flat, packed, len(targets))
        self.flying.append(sums)
        for i, place in enumerate(targets):
            registers[place] = InFlight(blocks, sums, i, registers[place])
        return sums

    def _in_flight(
        self, registers: list[Any], targets: tuple[int, ...], groups: Array, flat: Array
    ) -> Sums | None:
        """The sums of earlier products in the same registers that were not waited for; None where there are none."""
        found: list[InFlight] = []
        for place in targets:
            if isinstance(register := registers[place], InFlight):
                found += [part for part in register.parts() if (part.sums.lanes & flat).any()]
        if not found:
            return None
        sums = found[0].sums
        if (
            len(found) != len(targets)
            or sums.count != len(targets)
            or (flat & ~sums.lanes).any()
            or any(part.sums is not sums or part.index != i for i, part in enumerate(found))
        ):
            raise Fault(
                f"{RACE}: wgmma.mma_async adds to registers to which one of another shape adds",
                int(groups[0]) * GROUP,
            )
        if np.array_equal(sums.lanes, flat) and sums.groups.size == groups.size:
            return sums
        # Some go on alone.
        own = Sums(sums.values[np.isin(sums.groups, groups)], groups, flat, sums.packed, sums.count)
        own.issued[:] = sums.issued
        self.flying.append(own)
        sums.lanes = sums.lanes & ~flat
        for place, register in enumerate(registers):
            if isinstance(register, InFlight):
                for part in register.parts():
                    if part.sums is sums:
                        registers[place] = InFlight(self.blocks, own, part.index, register)
                        break
        return own

    def _operand(
        self, descriptor: Any, lines: int, depth: int, type_name: str, transposed: bool, groups: Array
    ) -> Array:
        """An operand in shared memory, (groups, lines, depth), of numbers that can be multiplied exactly."""
        memory, itemsize = self.memory, ITEMSIZE[type_name]
        given = self.blocks.full(descriptor).reshape(-1, GROUP)[groups]
        if (given != given[:, :1]).any():
            raise Fault(
                f"{DIVERGENT}: the threads of four warps differ in a matrix descriptor",
                int(groups[0]) * GROUP,
            )
        rows = []
        for group, bits in zip(groups.tolist(), given[:, 0].tolist(), strict=True):
            found, thread = MatrixDescriptor(bits), group * GROUP
            if found.base_offset:
                raise Fault(f"a matrix descriptor with a base offset ({bits:#x}) is not emulated", thread)
            addresses = warp_group.chunk_addresses(found, lines, depth, itemsize, transposed)
            places = memory.check_whole(addresses.reshape(-1), 16, "a matrix of wgmma.mma_async", thread, 16)
            warps = group * 4 % memory.warps + np.arange(4)
            memory.unit_reads(
                places,
                16,
                thread,
                warps,
                memory.warps + warps,
                self.committed[group * 4 : group * 4 + 4] + 1,
                "a product (wgmma.mma_async)",
            )
            raw = memory.rows(places, 8, 2).view(np.uint8).reshape(addresses.shape[0], -1)
            rows.append(raw)
        numbers = warp_group.exact(np.stack(rows), type_name)
        return numbers.transpose(0, 2, 1) if transposed else numbers

    # Registers

    def changed(self) -> bool:
        """Whether anybody who waits might go on."""
        return self.barriers.changed or self.gave

    def _check_registers(self, count: int, mask: Mask) -> Array:
        """The groups of four warps that change their registers. Raises Fault for a number that none can have."""
        groups = self._groups(mask, "setmaxnreg")
        if count % 8 or not 24 <= count <= 256:
            raise Fault(
                f"{ILLEGAL}: setmaxnreg of {count} registers, expected a multiple of 8 from 24 to 256",
                int(groups[0]) * GROUP if groups.size else -1,
                ILLEGAL_INSTRUCTION,
            )
        return groups

    def _refuse_registers(self, wrong: Array, groups: Array, count: int, what: str) -> None:
        if wrong.any():
            have = int(self.registers[groups[wrong][0]])
            raise Fault(
                f"{ILLEGAL}: {what} to {count} registers by warps that have {have}",
                int(groups[wrong][0]) * GROUP,
                ILLEGAL_INSTRUCTION,
            )

    def give_registers(self, count: int, mask: Mask) -> None:
        """``setmaxnreg.dec``."""
        groups = self._check_registers(count, mask)
        if self.pool:
            self._refuse_registers(self.registers[groups] < count, groups, count, "setmaxnreg.dec")
            self.registers[groups] = count
            self.gave = True

    def take_registers(self, count: int, threads: Array) -> Array:
        """``setmaxnreg.inc``: the threads for which there are as many; the others wait."""
        groups = self._check_registers(count, threads)
        if not self.pool:
            return threads
        self._refuse_registers(self.registers[groups] > count, groups, count, "setmaxnreg.inc")
        ready = np.zeros((self.blocks.n // GROUP, GROUP), np.bool_)
        each = self.blocks.threads // GROUP
        for group in groups.tolist():
            first = group // each * each
            others = self.registers[first : first + each].sum() - self.registers[group]
            if (others + count) * GROUP <= self.pool:
                self.registers[group] = count
                ready[group] = True
        return ready.reshape(-1)
