"""Bulk copies between global and shared memory (``cp.async.bulk``), of tensor boxes and of contiguous bytes.

A load reports to a barrier in shared memory; a thread waits for its stores in groups. Source: NVIDIA, PTX ISA 8.8,
"Data Movement and Conversion Instructions: Asynchronous copy", "tensormap.replace".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .barriers import Barriers
from .fault import ILLEGAL, ILLEGAL_INSTRUCTION, MISALIGNED, MISALIGNED_ADDRESS, RACE, Fault
from .instructions.writer import PARAMETERS
from .ordered_memory import OrderedSharedMemory
from .tensor_maps import (
    ELEMENTS,
    NAN_BITS,
    ROUNDED_TYPES,
    SPANS,
    Box,
    TensorMap,
    box_at,
    decode,
    replaced,
    swizzled,
)

if TYPE_CHECKING:
    from .machine import Blocks

Array = np.ndarray[Any, Any]
Mask = Array | None

WARP = 32
MAP_ALIGNMENT, BOX_ALIGNMENT = 64, 128
_UNSIGNED: dict[int, Any] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


class BulkCopies:
    """Bulk copies of blocks that run together."""

    def __init__(self, blocks: Blocks, memory: OrderedSharedMemory, barriers: Barriers) -> None:
        self.blocks, self.memory, self.barriers = blocks, memory, barriers
        self.stores: list[tuple[int, int, int]] = []
        """Pending stores: the thread, its group, and the number among its warp's stores."""
        self.store_groups: Array = np.zeros(blocks.n, np.int64)
        self.store_numbers: Array = np.zeros(blocks.n // WARP, np.int64)
        self.maps: dict[bytes, TensorMap] = {}
        self.unacquired: set[tuple[int, int]] = set()
        """Maps that a block has changed but not acquired: the block's place, and the address."""

    def _map(self, address: int, thread: int) -> TensorMap:
        """Return the tensor map at a generic address."""
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
            threads = np.array([thread])
            rows = blocks.access.load(
                np.arange(address, address + 128, 8, dtype=np.uint64),
                8,
                1,
                np.repeat(threads, 16),
                np.repeat(blocks.blocks[threads], 16),
            )
            data = rows.tobytes()
        tensor_map = self.maps.get(data)
        if tensor_map is None:
            try:
                tensor_map = self.maps[data] = decode(data)
            except ValueError as error:
                raise Fault(f"{ILLEGAL}: {error}", thread, ILLEGAL_INSTRUCTION) from None
        return tensor_map

    def replace_field(self, field: str, index: int, address: Any, value: Any, mask: Mask) -> None:
        """Execute ``tensormap.replace``: change a field of a map in shared memory."""
        chosen = self.blocks.some(mask)
        for thread, map_address, new in zip(
            chosen.tolist(),
            self.blocks.integers(address, chosen),
            self.blocks.integers(value, chosen),
            strict=True,
        ):
            threads = np.repeat(thread, 16)
            word_addresses = np.arange(map_address, map_address + 128, 8, dtype=np.uint64)
            data = self.memory.load(word_addresses, 8, 1, threads).tobytes()
            try:
                changed = replaced(data, field, index, new)
            except ValueError as error:
                raise Fault(f"{ILLEGAL}: {error}", thread, ILLEGAL_INSTRUCTION) from None
            self.memory.store(word_addresses, np.frombuffer(changed, np.uint64), threads, 8)

    def publish_map(self, address: Any, shared: Any, mask: Mask) -> None:
        """Execute ``tensormap.cp_fenceproxy``: whole warps copy a map from shared to global memory."""
        blocks = self.blocks
        for warp in blocks._whole_warps(mask, "tensormap.cp_fenceproxy").tolist():
            threads = warp * WARP + np.arange(WARP)
            steps = 4 * np.arange(WARP, dtype=np.uint64)
            rows = self.memory.load(blocks.full(shared)[threads] + steps, 4, 1, threads)
            targets = blocks.full(address)[threads]
            blocks.access.store(targets + steps, rows, 4, threads, blocks.blocks[threads])
            self.unacquired.add((int(blocks.block[threads[0]]), int(targets[0])))

    def acquire_map(self, address: Any, mask: Mask) -> None:
        """Execute ``fence.proxy.tensormap``: a changed map may be read from now on."""
        chosen = self.blocks.some(mask)
        for thread, map_address in zip(chosen.tolist(), self.blocks.integers(address, chosen), strict=True):
            self.unacquired.discard((int(self.blocks.block[thread]), map_address))

    def _box(
        self, shared: int, tensor: TensorMap, coordinates: list[int], thread: int, operation: str
    ) -> tuple[Box, Array]:
        """Return a box, and the positions of its units in shared memory."""
        if len(coordinates) != len(tensor.sizes):
            raise Fault(
                f"{ILLEGAL}: {operation} with {len(coordinates)} coordinates in a tensor of {len(tensor.sizes)} "
                "dimensions",
                thread,
                ILLEGAL_INSTRUCTION,
            )
        if tensor.type in ROUNDED_TYPES:
            raise Fault(f"{operation} of elements that are rounded on their way is not emulated", thread)
        row = tensor.counts[0] * tensor.itemsize
        if tensor.swizzle and row != SPANS[tensor.swizzle]:
            raise Fault(
                f"{operation} of a box of {row} bytes, narrower than its swizzle, is not emulated", thread
            )
        if shared % BOX_ALIGNMENT:
            raise Fault(
                f"{MISALIGNED}: {operation} at {shared:#x} of shared memory, no multiple of {BOX_ALIGNMENT}",
                thread,
                MISALIGNED_ADDRESS,
            )
        box = box_at(tensor, coordinates)
        self.memory.check_whole(
            np.array([shared, shared + tensor.nbytes - 16]),
            16,
            f"{operation} of {tensor.nbytes} bytes",
            thread,
            16,
        )
        positions = swizzled(shared + box.offsets, tensor.swizzle) + int(self.memory.base[thread])
        return box, positions

    def load_box(
        self, shared: Any, address: Any, coordinates: tuple[Any, ...], barrier: Any, mask: Mask
    ) -> None:
        """Execute ``cp.async.bulk.tensor`` from global to shared memory."""
        blocks, operation = self.blocks, "cp.async.bulk.tensor"
        chosen = blocks.some(mask)
        where = [
            self.blocks.integers(coordinate.view(np.int32), chosen)
            for coordinate in map(blocks.full, coordinates)
        ]
        for i, (thread, map_address, target, reports) in enumerate(
            zip(
                chosen.tolist(),
                self.blocks.integers(address, chosen),
                self.blocks.integers(shared, chosen),
                self.blocks.integers(barrier, chosen),
                strict=True,
            )
        ):
            tensor = self._map(map_address, thread)
            box, positions = self._box(target, tensor, [each[i] for each in where], thread, operation)
            size = min(box.unit, 8)
            count = box.unit // size
            outside = np.uint64(NAN_BITS[tensor.type]) if tensor.fill else np.uint64(0)
            filling = np.full(8 // tensor.itemsize, outside, _UNSIGNED[tensor.itemsize]).view(
                _UNSIGNED[size]
            )[0]
            values = np.full((positions.size, count), filling, _UNSIGNED[size])
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
            self._bring(positions, values, box.unit, thread, reports, tensor.nbytes, operation)

    def _bring(
        self,
        positions: Array,
        values: Array,
        unit: int,
        thread: int,
        reports: int,
        nbytes: int,
        operation: str,
    ) -> None:
        """Write the data of a bulk copy to shared memory, and report it to a barrier."""
        barrier, phase = self.barriers.begin(thread, reports, operation)
        self.memory.unit_writes(positions, unit, thread, barrier.column, phase, "a bulk copy")
        self.memory.lay(positions, values if values.shape[1] > 1 else values[:, 0])
        self.barriers.complete(thread, reports, barrier, nbytes)

    def load_bytes(self, shared: Any, address: Any, nbytes: Any, barrier: Any, mask: Mask) -> None:
        """Execute ``cp.async.bulk`` of contiguous bytes from global to shared memory."""
        blocks, operation = self.blocks, "cp.async.bulk"
        chosen = blocks.some(mask)
        for thread, target, source, size, reports in zip(
            chosen.tolist(),
            *(self.blocks.integers(value, chosen) for value in (shared, address, nbytes, barrier)),
            strict=True,
        ):
            addresses, positions = self._adjoining(target, source, size, thread, operation)
            threads = np.full(addresses.size, thread)
            values = blocks.access.load(addresses, 8, 2, threads, blocks.blocks[threads])
            self._bring(positions, values, 16, thread, reports, size, operation)

    def _adjoining(
        self, shared: int, address: int, nbytes: int, thread: int, operation: str
    ) -> tuple[Array, Array]:
        if shared % 16 or address % 16 or nbytes % 16 or nbytes == 0:
            raise Fault(
                f"{MISALIGNED}: {operation} of {nbytes} bytes between {address:#x} and {shared:#x} of shared memory, "
                "expected multiples of 16",
                thread,
                MISALIGNED_ADDRESS,
            )
        steps = np.arange(0, nbytes, 16)
        positions = self.memory.check_whole(shared + steps, 16, operation, thread, 16)
        return (address + steps).astype(np.uint64), positions

    def _stored(self, positions: Array, unit: int, thread: int) -> None:
        """Note that a thread's bulk copy begins to read shared memory."""
        number = thread // WARP
        self.store_numbers[number] += 1
        clock, memory = int(self.store_numbers[number]), self.memory
        warp = int(memory.warp[thread])
        memory.unit_reads(
            positions,
            unit,
            thread,
            np.array([warp]),
            np.array([2 * memory.warps + warp]),
            np.array([clock]),
            "a bulk copy",
        )
        self.stores.append((thread, int(self.store_groups[thread]), clock))

    def store_box(
        self, address: Any, coordinates: tuple[Any, ...], shared: Any, mask: Mask, reduction: str = ""
    ) -> None:
        """Execute ``cp.async.bulk.tensor`` from shared to global memory, without elements outside of the tensor.

        ``cp.reduce.async.bulk.tensor`` combines the elements with those of the tensor by a `reduction`.
        """
        blocks = self.blocks
        operation = "cp.reduce.async.bulk.tensor" if reduction else "cp.async.bulk.tensor"
        chosen = blocks.some(mask)
        where = [
            self.blocks.integers(coordinate.view(np.int32), chosen)
            for coordinate in map(blocks.full, coordinates)
        ]
        for i, (thread, map_address, source) in enumerate(
            zip(
                chosen.tolist(),
                self.blocks.integers(address, chosen),
                self.blocks.integers(shared, chosen),
                strict=True,
            )
        ):
            tensor = self._map(map_address, thread)
            box, positions = self._box(source, tensor, [each[i] for each in where], thread, operation)
            self._stored(positions, box.unit, thread)
            addresses, sources = box.addresses[box.inside], positions[box.inside]
            if reduction and addresses.size:
                self._combine_global(addresses, sources, box.unit, thread, reduction, ELEMENTS[tensor.type])
            else:
                self._write_global(addresses, sources, box.unit, thread)

    def _combine_global(
        self, addresses: Array, positions: Array, unit: int, thread: int, reduction: str, dtype: Any
    ) -> None:
        size, itemsize = min(unit, 8), np.dtype(dtype).itemsize
        values = self.memory.rows(positions, size, unit // size).reshape(-1).view(dtype)
        steps = np.arange(0, unit, itemsize, dtype=np.uint64)
        self.blocks.combine_global((addresses[:, None] + steps).reshape(-1), reduction, values, thread)

    def _write_global(self, addresses: Array, positions: Array, unit: int, thread: int) -> None:
        if not addresses.size:
            return
        size = min(unit, 8)
        values = self.memory.rows(positions, size, unit // size)
        threads = np.full(addresses.size, thread)
        self.blocks.access.store(addresses, values, unit, threads, self.blocks.blocks[threads])

    def store_bytes(self, address: Any, shared: Any, nbytes: Any, mask: Mask) -> None:
        """Execute ``cp.async.bulk`` from shared to global memory."""
        chosen = self.blocks.some(mask)
        for thread, target, source, size in zip(
            chosen.tolist(),
            *(self.blocks.integers(value, chosen) for value in (address, shared, nbytes)),
            strict=True,
        ):
            addresses, positions = self._adjoining(source, target, size, thread, "cp.async.bulk")
            self._stored(positions, 16, thread)
            self._write_global(addresses, positions, 16, thread)

    def commit_stores(self, mask: Mask) -> None:
        """Execute ``cp.async.bulk.commit_group``."""
        self.store_groups[self.blocks.some(mask)] += 1

    def wait_for_stores(self, max_pending: int, mask: Mask) -> None:
        """Execute ``cp.async.bulk.wait_group``: wait until all but the last groups have read their source."""
        left = []
        warps: set[int] = set()
        for store in self.stores:
            thread, group, _ = store
            if (mask is None or mask[thread]) and group < self.store_groups[thread] - max_pending:
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

    def check_ended(self, block: int, first: int) -> None:
        """Raise Fault if a block that ends, whose first thread is `first`, has pending copies."""
        self.barriers.check_ended(block, first)
        for thread, *_ in self.stores:
            if self.blocks.block[thread] == block:
                raise Fault(
                    f"{RACE}: a block ends while a bulk copy still reads its shared memory: no "
                    "cp.async.bulk.wait_group",
                    thread,
                )
