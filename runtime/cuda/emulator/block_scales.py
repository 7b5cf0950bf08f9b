"""Block scales in tensor memory for matmuls of sm_100 (``tcgen05.mma`` with ``.block_scale``).

The scale of a row is in lane ``row % 32``, replicated in all four quarters of the lanes, and in column ``row // 32``.
It takes one, two or all four bytes of the column, as the instruction descriptor says.

Source: NVIDIA, PTX ISA 8.8, "Block Scaling for tcgen05.mma", "Instruction descriptor".
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .arithmetic import f8, u1
from .fault import ILLEGAL, ILLEGAL_INSTRUCTION, Fault
from .tensor_memory import LANES_PER_WARP, PARTS, QUARTERS, TensorMemory

Array = np.ndarray[Any, Any]

TYPES: dict[str, dict[int, str]] = {
    "mxf8f6f4": {0: "e4m3", 1: "e5m2"},
    "mxf4": {1: "e2m1"},
    "mxf4nvf4": {1: "e2m1"},
}
"""Emulated operand types, by the kind of an instruction and the number in its descriptor."""
BYTES_OF_A_COLUMN = 4
_MAGNITUDES = np.array([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
NUMBERS = np.concatenate([_MAGNITUDES, -_MAGNITUDES])


class ScaledDescriptor(int):
    """Instruction descriptor: 32 bits with the operand types, the size, and the position of the scales."""

    @property
    def rows(self) -> int:
        """Rows of the accumulator."""
        return (self >> 24 & 31) << 4

    @property
    def columns(self) -> int:
        """Columns of the accumulator."""
        return (self >> 17 & 63) << 3

    @property
    def signs(self) -> int:
        return -1 if (self >> 13 ^ self >> 14) & 1 else 1

    @property
    def powers_of_two(self) -> bool:
        """True if scales are powers of two, False if they are unsigned 8-bit floats."""
        return bool(self >> 23 & 1)

    @property
    def bytes_of_scales(self) -> tuple[int, int]:
        """Byte of a column at which the scales of each operand begin."""
        return self >> 29 & 3, self >> 4 & 3

    def types(self, kind: str) -> tuple[str, str]:
        """Return the types of both operands. Raise KeyError for a type that is not emulated."""
        named, bits = TYPES[kind], 7 if kind == "mxf8f6f4" else 3
        return named[self >> 7 & 7], named[self >> 10 & bits]


def unpacked(raw: Array) -> Array:
    """Unpack two 4-bit numbers from each byte, the low bits first."""
    codes = raw.astype(u1)
    return NUMBERS[np.stack([codes & 15, codes >> 4], -1)].reshape(codes.shape[0], -1)


def scales_of(
    memory: TensorMemory,
    block: int,
    warp: int,
    address: int,
    lines: int,
    first: int,
    count: int,
    powers: bool,
    clock: int,
    thread: int,
) -> Array:
    """Return scales (lines, count) in double precision.

    Raises Fault if the quarters differ, or if a column does not have that many bytes.
    """
    operation = "scales of tcgen05.mma"
    if first % count or address >> 16:
        raise Fault(
            f"{ILLEGAL}: {count} {operation} from byte {first} of a column and lane {address >> 16} on",
            thread,
            ILLEGAL_INSTRUCTION,
        )
    columns = memory.columns(block, address, -(-lines // LANES_PER_WARP), thread, operation)
    memory.product_reads(block, warp, slice(PARTS), columns, clock, thread)
    words = memory.data[block, :, columns].reshape(QUARTERS, LANES_PER_WARP, -1)
    if (words != words[0]).any():
        raise Fault(
            f"{ILLEGAL}: {operation} at {address:#x} of tensor memory, which are not alike in all quarters of the "
            "lanes",
            thread,
            ILLEGAL_INSTRUCTION,
        )
    scale_bytes = np.ascontiguousarray(words[0].T).view(u1).reshape(-1, BYTES_OF_A_COLUMN)
    return decoded(scale_bytes[:lines, first : first + count], powers)


def decoded(codes: Array, powers: bool) -> Array:
    """Convert bytes to scale factors."""
    import ml_dtypes

    dtype = ml_dtypes.float8_e8m0fnu if powers else ml_dtypes.float8_e4m3fn
    made: Array = codes.view(dtype).astype(f8)
    return made if powers else np.abs(made)
