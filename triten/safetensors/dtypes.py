"""The dtypes of the safetensors format."""

from __future__ import annotations

import math
from typing import Final

from ..runtime import scalar_type as types
from ..runtime.scalar_type import PACKED
from ..runtime.scalar_type import dtype as ScalarType

DTYPES: Final[dict[str, ScalarType]] = {
    "BOOL": types.bool_,
    "U8": types.uint8,
    "I8": types.int8,
    "U16": types.uint16,
    "I16": types.int16,
    "U32": types.uint32,
    "I32": types.int32,
    "U64": types.uint64,
    "I64": types.int64,
    "F4": types.float4_e2m1fn_x2,
    "F8_E4M3": types.float8_e4m3fn,
    "F8_E5M2": types.float8_e5m2,
    "F8_E8M0": types.float8_e8m0fnu,
    "F16": types.float16,
    "BF16": types.bfloat16,
    "F32": types.float32,
    "F64": types.float64,
    "C64": types.complex64,
}
BITS: Final = {"F4": 4, "F6_E2M3": 6, "F6_E3M2": 6} | {
    name: 8 * dtype.itemsize for name, dtype in DTYPES.items() if dtype is not PACKED
}
"""Bits of an element, by the format's dtype name."""
BITS_ELSEWHERE: Final = 8
"""Bits of an element of the dtypes that `BITS` does not list."""

SAVED: Final = frozenset(DTYPES.values())


def size_of(name: str, shape: tuple[int, ...]) -> int:
    """Return the number of bytes of a tensor in a file whose header was checked."""
    return math.prod(shape) * BITS.get(name, BITS_ELSEWHERE) // 8


def geometry_of(name: str, shape: tuple[int, ...]) -> tuple[ScalarType, tuple[int, ...]]:
    """Return triten's dtype and shape of a tensor in a file.

    The format counts 4-bit numbers, which triten packs in pairs: the last size is halved.

    Raises:
        TypeError: triten does not have the dtype, or the last size of 4-bit numbers is odd.
    """
    dtype = DTYPES.get(name)
    if dtype is None:
        raise TypeError(f"safetensors: no dtype is {name}; those known are {', '.join(DTYPES)}")
    if dtype is PACKED:
        if not shape or shape[-1] % 2:
            raise TypeError(
                f"safetensors: a tensor of {dtype} has an even last size, got shape {list(shape)}"
            )
        shape = (*shape[:-1], shape[-1] // 2)
    return dtype, shape
