"""Parameters of a kernel in its PTX, compared with those that a launch passes to the driver.

A launch packs its arguments by `ParameterLayout`, with a pointer to each. The driver copies as many bytes
from there as the compiled kernel declares. Neither detects a mismatch.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from itertools import zip_longest
from typing import NamedTuple

from ...runtime.cuda.tensor_map import ALIGNMENT, NBYTES, descriptor_type
from ...runtime.cuda.triton.compile import ParameterLayout, format_of
from .disassembly import entry_of

SCRATCH = 2
"""Pointers to scratch memory at the end, which the compiler leaves out where a kernel uses neither."""

_PARAMETER = re.compile(r"\.param(?:\s+\.align\s+(\d+))?\s+\.[bsuf](\d+)[^,\[\n]*(?:\[(\d+)\])?")


class Parameter(NamedTuple):
    """Offset, size and alignment of a parameter, in bytes."""

    offset: int
    size: int
    alignment: int

    def __str__(self) -> str:
        return f"{self.size} bytes at {self.offset}, aligned to {self.alignment}"


def taken(ptx: str) -> list[Parameter]:
    """Return a kernel's parameters with the layout of the PTX ISA: in order, each at its alignment.

    Example:
        >>> taken(".entry k( .param .u64 .ptr .global .align 1 k_0, .param .u8 k_1, .param .f32 k_2 ) { }")[1:]
        [Parameter(offset=8, size=1, alignment=1), Parameter(offset=12, size=4, alignment=4)]
    """
    entry = entry_of(ptx)
    parameters: list[Parameter] = []
    offset = 0
    for aligned, bits, length in _PARAMETER.findall(entry[: entry.index(")")].replace(",", ",\n")):
        element = int(bits) // 8
        alignment = int(aligned or element)
        offset += -offset % alignment
        parameters.append(Parameter(offset, element * int(length or 1), alignment))
        offset += parameters[-1].size
    return parameters


def passed(types: Sequence[str]) -> list[Parameter]:
    """Return the parameters that a launch passes for these argument types, the scratch pointers last."""
    sizes: list[tuple[int, int]] = []
    for type_name in types:
        described = descriptor_type(type_name)
        if described is None:
            nbytes = struct.calcsize(f"@{format_of(type_name)}")
            sizes.append((nbytes, nbytes))
        else:
            rank = len(described.block)
            sizes += [(NBYTES, ALIGNMENT), *[(4, 4)] * rank, *[(8, 8)] * rank]
    sizes += [(8, 8)] * SCRATCH
    offsets = ParameterLayout(tuple(types)).offsets
    return [Parameter(offset, *size) for offset, size in zip(offsets, sizes, strict=True)]


def layout_faults(ptx: str, types: Sequence[str]) -> list[str]:
    """List the parameters whose size or offset differs from that of the launch.

    A launch puts tensor maps first, where its buffer is aligned for them, and passes pointers to all
    arguments. With tensor maps, the offsets therefore only need to be aligned. Without them, the buffer has
    the kernel's own layout.
    """
    own, launch_parameters = taken(ptx), passed(types)
    if len(own) == len(launch_parameters) - SCRATCH:
        launch_parameters = launch_parameters[:-SCRATCH]
    has_maps = any(descriptor_type(type_name) is not None for type_name in types)
    return [
        f"parameter {i} is {'absent' if expected is None else expected}, where a launch gives "
        f"{'nothing' if other is None else other}"
        for i, (expected, other) in enumerate(zip_longest(own, launch_parameters))
        if expected is None or other is None or not _agree(expected, other, has_maps)
    ]


def _agree(expected: Parameter, other: Parameter, has_maps: bool) -> bool:
    if has_maps:
        return expected.size == other.size and other.alignment % expected.alignment == 0
    return expected == other
