"""Asynchronous matmuls of sm_100 (``tcgen05.mma``), and accesses of warps to tensor memory.

One thread issues a matmul. Its operands are in shared memory, the left operand possibly in tensor memory, and its
accumulator is in tensor memory. A later ``tcgen05.commit`` of the thread arrives at a barrier; threads that wait for
the barrier know that the matmul is done.

Two errors are not detected, because Triton's code has them everywhere. Code reads registers before
``tcgen05.wait::ld``: the assembler of Triton 3.9 waits for them as for those of any load, and the instruction itself
only allows tensor memory to be overwritten. Code also omits ``tcgen05.fence`` beside barriers.

Source: NVIDIA, PTX ISA 8.8, "TensorCore 5th Generation Family Instructions".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from . import block_scales, warp_group
from .arithmetic import u4
from .barriers import Barriers
from .block_scales import ScaledDescriptor
from .fault import DIVERGENT, ILLEGAL, ILLEGAL_ADDRESS, ILLEGAL_INSTRUCTION, Fault
from .ordered_memory import OrderedSharedMemory
from .tensor_memory import LANES_PER_PART, LANES_PER_WARP, PARTS, QUARTERS, TensorMemory
from .warp_group import ITEMSIZE, MatrixDescriptor

if TYPE_CHECKING:
    from .machine import Blocks

Array = np.ndarray[Any, Any]
Mask = Array | None

WARP = 32
STEP = 32
"""Bytes of a matmul's operands along the K dimension."""
TYPES: dict[str, dict[int, str]] = {
    "f16": {0: "f16", 1: "bf16"},
    "tf32": {2: "tf32"},
    "f8f6f4": {0: "e4m3", 1: "e5m2"},
    "i8": {0: "u8", 1: "s8"},
}
"""Operand types, by the kind of an instruction and the number in its descriptor."""
SUMS = {1: "f32", 2: "s32"}


class InstructionDescriptor(int):
    """Instruction descriptor: 32 bits with the types and the size of a matmul."""

    @property
    def saturates(self) -> bool:
        """True if integer accumulators saturate at 32 bits."""
        return bool(self >> 3 & 1)

    @property
    def signs(self) -> int:
        return -1 if (self >> 13 ^ self >> 14) & 1 else 1

    @property
    def transposed(self) -> tuple[bool, bool]:
        """For each operand, True if it is contiguous along the M or N dimension instead of K."""
        return bool(self >> 15 & 1), bool(self >> 16 & 1)

    @property
    def rows(self) -> int:
        """Rows of the accumulator."""
        return (self >> 24 & 31) << 4

    @property
    def columns(self) -> int:
        """Columns of the accumulator."""
        return (self >> 17 & 63) << 3

    def types(self, kind: str) -> tuple[str, str, str]:
        """Return the types of the accumulator and of both operands. Raise KeyError for one that is not emulated."""
        named = TYPES[kind]
        return SUMS[self >> 4 & 3], named[self >> 7 & 7], named[self >> 10 & 7]


class SharedDescriptor(MatrixDescriptor):
    """Matrix descriptor of sm_100: a version, and three bits for the swizzle."""

    @property
    def is_valid(self) -> bool:
        """True if it has the version of sm_100, and rows that begin where the swizzle's pattern begins."""
        return self >> 46 & 7 == 1 and not self >> 49 & 15

    @property
    def swizzle(self) -> int:
        """Swizzle, numbered as in tensor maps. Raises KeyError for that of 32 bytes within 128."""
        return {0: 0, 2: 3, 4: 2, 6: 1}[self >> 61 & 7]


def parts_of(lane: int, lanes: int) -> slice:
    """Return the parts of tensor memory for `lanes` lanes from `lane` on."""
    return slice(lane // LANES_PER_PART, (lane + lanes) // LANES_PER_PART)


class TensorCores:
    """Tensor cores and tensor memory of the multiprocessors on which some blocks run together."""

    def __init__(self, blocks: Blocks, memory: OrderedSharedMemory, barriers: Barriers) -> None:
        self.blocks, self.shared, self.barriers = blocks, memory, barriers
        self.memory = TensorMemory(memory, blocks.count)
        count = blocks.n // WARP
        self.committed: Array = np.zeros(count, np.int64)
        """Number of commits of each warp."""
        self.issuer: Array = np.full(count, -1, np.int64)
        """Thread of each warp with uncommitted matmuls; -1 if there is none."""
        memory.products = "tcgen05.mma"

    def _of_warps(self, mask: Mask, operation: str, *values: Any) -> list[tuple[int, int, int, list[int]]]:
        """Return block, warp, first thread and the warp-uniform values of the warps of a mask.

        Raises Fault for a partial warp, and for values that differ within a warp.
        """
        uniform_values = []
        rows = [self.blocks.full(value).reshape(-1, WARP) for value in values]
        for number in self.blocks._whole_warps(mask, operation).tolist():
            own = [row[number] for row in rows]
            if any((each != each[0]).any() for each in own):
                raise Fault(
                    f"{DIVERGENT}: the threads of a warp differ in what they give {operation}", number * WARP
                )
            block, warp = divmod(number, self.shared.warps)
            uniform_values.append((block, warp, number * WARP, [int(each[0]) for each in own]))
        return uniform_values

    # Allocation

    def allocate(self, address: Any, count: Any, mask: Mask) -> None:
        """Execute ``tcgen05.alloc``: write the address of the columns to shared memory."""
        for block, _, thread, (target, columns) in self._of_warps(mask, "tcgen05.alloc", address, count):
            column = self.memory.allocate(block, columns, thread)
            self.shared.write_unproxied(
                np.array([target], np.uint64), np.array([column], u4), np.array([thread])
            )

    def free(self, address: Any, count: Any, mask: Mask) -> None:
        """Execute ``tcgen05.dealloc``."""
        for block, warp, thread, (column, columns) in self._of_warps(mask, "tcgen05.dealloc", address, count):
            self.memory.free(block, warp, column, columns, thread)

    def relinquish(self, mask: Mask) -> None:
        """Execute ``tcgen05.relinquish_alloc_permit``."""
        for block, *_ in self._of_warps(mask, "tcgen05.relinquish_alloc_permit"):
            self.memory.relinquished[block] = True

    # Loads and stores

    def _accessed(
        self, shape: str, count: int, address: Any, split: int, mask: Mask, operation: str
    ) -> list[tuple[int, int, int, int, list[slice]]]:
        """Yield block, warp, first thread, first lane, and the columns of each half of the threads, for each warp."""
        accesses = []
        lanes = LANES_PER_WARP if shape == "32x32b" else LANES_PER_WARP // 2
        for block, warp, thread, (start,) in self._of_warps(mask, operation, address):
            lane = start >> 16
            if not (lane // LANES_PER_WARP == warp % QUARTERS and lane % lanes == 0):
                first = warp % QUARTERS * LANES_PER_WARP
                raise Fault(
                    f"{ILLEGAL}: {operation} of {lanes} lanes from lane {lane} of tensor memory on by warp {warp}, "
                    f"which has lanes {first} to {first + LANES_PER_WARP - 1}",
                    thread,
                    ILLEGAL_ADDRESS,
                )
            starts = [start] if shape == "32x32b" else [start, start + split]
            accesses.append(
                (
                    block,
                    warp,
                    thread,
                    lane,
                    [self.memory.columns(block, s, count, thread, operation) for s in starts],
                )
            )
        return accesses

    def load(self, count: int, shape: str, address: Any, split: int, mask: Mask) -> Array:
        """Execute ``tcgen05.ld``: return rows of registers; the assembler delays reads until they have arrived."""
        values = np.zeros((count, self.blocks.n), u4)
        for block, warp, thread, lane, halves in self._accessed(
            shape, count, address, split, mask, "tcgen05.ld"
        ):
            threads = WARP // len(halves)
            for i, columns in enumerate(halves):
                self.memory.load_begins(block, warp, parts_of(lane, threads), columns, thread)
                first = thread + i * threads
                values[:, first : first + threads] = self.memory.data[block, lane : lane + threads, columns].T
        return values

    def store(self, shape: str, address: Any, split: int, values: tuple[Any, ...], mask: Mask) -> None:
        """Execute ``tcgen05.st``."""
        rows = np.stack([self.blocks.full(value) for value in values])
        for block, warp, thread, lane, halves in self._accessed(
            shape, len(values), address, split, mask, "tcgen05.st"
        ):
            threads = WARP // len(halves)
            for i, columns in enumerate(halves):
                self.memory.store_begins(block, warp, parts_of(lane, threads), columns, thread)
                first = thread + i * threads
                self.memory.data[block, lane : lane + threads, columns] = rows[:, first : first + threads].T

    def wait_for_loads(self, mask: Mask) -> None:
        """Execute ``tcgen05.wait::ld``."""
        for block, warp, *_ in self._of_warps(mask, "tcgen05.wait::ld"):
            self.memory.wait_for_loads(block, warp)

    def wait_for_stores(self, mask: Mask) -> None:
        """Execute ``tcgen05.wait::st``."""
        for block, warp, *_ in self._of_warps(mask, "tcgen05.wait::st"):
            self.memory.wait_for_stores(block, warp)

    # Matmuls

    def _issues(self, thread: int, operation: str) -> None:
        """Raise Fault if another thread of the warp has uncommitted matmuls."""
        number = thread // WARP
        if self.issuer[number] not in (-1, thread):
            raise Fault(
                f"{DIVERGENT}: {operation} by a thread beside thread "
                f"{int(self.issuer[number]) % self.blocks.threads} of its warp, whose products it does not commit",
                thread,
            )

    def commit(self, barrier: Any, mask: Mask) -> None:
        """Execute ``tcgen05.commit``: arrive at a barrier when all matmuls of the thread so far are done."""
        chosen = self.blocks.some(mask)
        for thread, barrier_address in zip(
            chosen.tolist(), self.blocks.integers(barrier, chosen), strict=True
        ):
            number, warp = thread // WARP, int(self.shared.warp[thread])
            self._issues(thread, "tcgen05.commit")
            self.issuer[number] = -1
            self.committed[number] += 1
            done = self.shared.warps + warp, int(self.committed[number])
            self.barriers.arrive(thread, barrier_address, operation="tcgen05.commit", done=done)

    def multiply(
        self,
        kind: str,
        sums: Any,
        left: Any,
        right: Any,
        descriptor: Any,
        adds: Any,
        from_tensor_memory: bool,
        mask: Mask,
    ) -> None:
        """Execute ``tcgen05.mma``: accumulate in tensor memory, with the left operand in shared or tensor memory.

        The matmul is exact and accumulated in double precision, and rounded once for each instruction. NVIDIA does
        not document the order and the width of additions.
        """
        blocks = self.blocks
        chosen = blocks.some(mask)
        operands = zip(
            chosen.tolist(),
            *(blocks.integers(each, chosen) for each in (sums, left, right, descriptor, adds)),
            strict=True,
        )
        for thread, sums_address, a_bits, b_bits, bits, added in operands:
            self._issues(thread, "tcgen05.mma")
            self.issuer[thread // WARP] = thread
            self._multiply(
                thread,
                kind,
                sums_address,
                a_bits,
                b_bits,
                InstructionDescriptor(bits),
                bool(added),
                from_tensor_memory,
            )

    def _multiply(
        self,
        thread: int,
        kind: str,
        sums_address: int,
        left: int,
        right: int,
        instruction: InstructionDescriptor,
        adds: bool,
        from_tensor_memory: bool,
    ) -> None:
        rows, columns = instruction.rows, instruction.columns
        try:
            sum_type, a_type, b_type = instruction.types(kind)
        except KeyError:
            raise Fault(
                f"tcgen05.mma of kind {kind} with types of {int(instruction):#x} is not emulated", thread
            ) from None
        self._check_size(rows, columns, int(instruction), thread)
        block, warp = int(self.shared.block[thread]), int(self.shared.warp[thread])
        clock = int(self.committed[thread // WARP]) + 1
        depth = STEP // ITEMSIZE[a_type]
        turned = instruction.transposed
        if from_tensor_memory:
            a = self._left(left, rows, depth, a_type, block, warp, clock, thread)
        else:
            a = self._operand(left, rows, depth, a_type, turned[0], clock, thread)
        b = self._operand(right, columns, depth, b_type, turned[1], clock, thread)
        taken = self.memory.columns(block, sums_address, columns, thread, "sums of tcgen05.mma")
        parts, lanes = self._lanes(sums_address, rows, thread)
        self.memory.product_writes(block, warp, parts, taken, clock, adds, thread)
        before = self.memory.data[block, lanes, taken] if adds else None
        product = instruction.signs * (a @ b.T)
        self.memory.data[block, lanes, taken] = warp_group.added(
            product, before, sum_type, instruction.saturates
        )

    def multiply_scaled(
        self,
        kind: str,
        vector: int,
        sums: Any,
        left: Any,
        right: Any,
        descriptor: Any,
        scale_a: Any,
        scale_b: Any,
        adds: Any,
        mask: Mask,
    ) -> None:
        """Execute ``tcgen05.mma`` with ``.block_scale``, like `multiply`, with a scale for each `vector` elements."""
        blocks = self.blocks
        chosen = blocks.some(mask)
        values = (sums, left, right, descriptor, scale_a, scale_b, adds)
        operand_rows = zip(chosen.tolist(), *(blocks.integers(each, chosen) for each in values), strict=True)
        for thread, sums_address, a_bits, b_bits, bits, a_scale, b_scale, added in operand_rows:
            self._issues(thread, "tcgen05.mma")
            self.issuer[thread // WARP] = thread
            instruction = ScaledDescriptor(bits)
            try:
                types = instruction.types(kind)
            except KeyError:
                raise Fault(
                    f"tcgen05.mma of kind {kind} with types of {bits:#x} is not emulated", thread
                ) from None
            rows, columns = instruction.rows, instruction.columns
            self._check_size(rows, columns, bits, thread)
            block, warp = int(self.shared.block[thread]), int(self.shared.warp[thread])
            clock = int(self.committed[thread // WARP]) + 1
            operands = []
            for matrix, scales, lines, type_name, first in zip(
                (a_bits, b_bits),
                (a_scale, b_scale),
                (rows, columns),
                types,
                instruction.bytes_of_scales,
                strict=True,
            ):
                packed = type_name == "e2m1"
                numbers = self._operand(
                    matrix, lines, STEP, "u8" if packed else type_name, False, clock, thread
                )
                numbers = block_scales.unpacked(numbers) if packed else numbers
                factors = block_scales.scales_of(
                    self.memory, block, warp, scales, lines, first, numbers.shape[1] // vector,
                    instruction.powers_of_two, clock, thread,
                )  # fmt: skip
                operands.append(numbers * factors.repeat(vector, 1))
            taken = self.memory.columns(block, sums_address, columns, thread, "sums of tcgen05.mma")
            parts, lanes = self._lanes(sums_address, rows, thread)
            self.memory.product_writes(block, warp, parts, taken, clock, bool(added), thread)
            before = self.memory.data[block, lanes, taken] if added else None
            product = instruction.signs * (operands[0] @ operands[1].T)
            self.memory.data[block, lanes, taken] = warp_group.added(product, before, "f32", False)

    def _check_size(self, rows: int, columns: int, bits: int, thread: int) -> None:
        least = {64: 8, 128: 16}.get(rows)
        if least is None or columns % least or not least <= columns <= 256:
            raise Fault(
                f"{ILLEGAL}: tcgen05.mma of {rows} x {columns} sums (descriptor {bits:#x}), expected 64 rows and a "
                "multiple of 8 columns, or 128 and a multiple of 16, to 256",
                thread,
                ILLEGAL_INSTRUCTION,
            )

    def _lanes(self, address: int, rows: int, thread: int) -> tuple[slice, Array]:
        """Return the lanes of `rows` rows, all or half of each warp's, by part and lane."""
        first = address >> 16
        if first not in ((0,) if rows == 128 else (0, 16)):
            raise Fault(
                f"{ILLEGAL}: {rows} rows of tcgen05.mma from lane {first} of tensor memory on",
                thread,
                ILLEGAL_ADDRESS,
            )
        row = np.arange(rows)
        if rows == 128:
            return slice(PARTS), row
        return slice(first // 16, PARTS, 2), first + row // 16 * LANES_PER_WARP + row % 16

    def _left(
        self,
        address: int,
        rows: int,
        depth: int,
        type_name: str,
        block: int,
        warp: int,
        clock: int,
        thread: int,
    ) -> Array:
        """Return the left operand in tensor memory: a lane for each row, elements packed in columns."""
        operation = "the left operand of tcgen05.mma"
        columns = self.memory.columns(block, address, STEP // 4, thread, operation)
        parts, lanes = self._lanes(address, rows, thread)
        self.memory.product_reads(block, warp, parts, columns, clock, thread)
        raw = self.memory.data[block, lanes, columns]
        return warp_group.exact(np.ascontiguousarray(raw).view(np.uint8), type_name)

    def _operand(
        self, bits: int, lines: int, depth: int, type_name: str, transposed: bool, clock: int, thread: int
    ) -> Array:
        """Return a shared memory operand (lines, depth), wide enough to be multiplied exactly."""
        memory, itemsize = self.shared, ITEMSIZE[type_name]
        matrix = SharedDescriptor(bits)
        try:
            swizzle = matrix.swizzle
        except KeyError:
            raise Fault(f"a matrix descriptor of {bits:#x} is not emulated", thread) from None
        if not matrix.is_valid:
            raise Fault(
                f"{ILLEGAL}: a matrix descriptor of {bits:#x}, whose version or offset are not those of tcgen05.mma",
                thread,
                ILLEGAL_INSTRUCTION,
            )
        if transposed and itemsize == 4 and swizzle:
            raise Fault(
                "tcgen05.mma of elements of 32 bits that do not adjoin along the inner side is not emulated",
                thread,
            )
        addresses = warp_group.chunk_addresses(matrix, lines, depth, itemsize, transposed)
        positions = memory.check_whole(addresses.reshape(-1), 16, "a matrix of tcgen05.mma", thread, 16)
        warp = int(memory.warp[thread])
        memory.unit_reads(
            positions,
            16,
            thread,
            np.array([warp]),
            np.array([memory.warps + warp]),
            np.array([clock]),
            "a product (tcgen05.mma)",
        )
        raw = memory.rows(positions, 8, 2).view(np.uint8).reshape(addresses.shape[0], -1)
        numbers = warp_group.exact(raw, type_name)
        return numbers.T if transposed else numbers
