"""Loader of object code: ELF for x86-64, as LLVM emits it in the large code model.

LLVM's own loader aborts the process when the system gives it no memory; this loader raises MemoryError. Code of the
large model refers to everything by absolute addresses of 64 bits, so that there is one kind of relocation. Elsewhere
than on Linux on x86-64, LLVM's loader is used (`object_code`).
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import platform
import struct
import sys
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

IS_SUPPORTED = sys.platform == "linux" and platform.machine() == "x86_64" and sys.maxsize > 1 << 32
ELF_X86_64 = b"\x7fELF\2\1\1"
"""The first bytes of a 64-bit little-endian file."""
SECTION = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")
RELOCATION = struct.Struct("<QQq")
SYMBOL_TABLE, RELOCATIONS, ZEROS, UNWIND = 2, 4, 8, 0x70000001
"""Types of sections; those for unwinding are left out, since no exception passes through a loop."""
WRITABLE, ALLOCATED = 1, 2
"""Flags of sections."""
UNDEFINED, ABSOLUTE, COMMON = 0, 0xFFF1, 0xFFF2
"""Sections of a symbol that are none."""
ABSOLUTE_64 = 1
"""R_X86_64_64: the address of a symbol, plus an addend."""


class Section(NamedTuple):
    """A section's header."""

    name: int
    type: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry_size: int


class LoadedObject:
    """Object code in memory that it owns, and frees when it is collected.

    Args:
        data: An ELF object file for x86-64.
        find: Return the address of a function or variable that the code refers to and does not define.

    Raises:
        MemoryError: The system gives no memory, or does not make it executable.
        ValueError: The file is another one than LLVM emits for a loop.
    """

    def __init__(self, data: bytes, find: Callable[[str], int]) -> None:
        if not data.startswith(ELF_X86_64):
            raise ValueError("object code is no ELF file of 64 bits")
        (table,) = struct.unpack_from("<Q", data, 40)
        entry_size, count = struct.unpack_from("<HH", data, 58)
        sections = [Section(*SECTION.unpack_from(data, table + i * entry_size)) for i in range(count)]
        offsets, size = _places(sections)
        self._memory = _mapped(size)
        base = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        for i, offset in offsets.items():
            section = sections[i]
            if section.type != ZEROS:
                content = data[section.offset : section.offset + section.size]
                self._memory[offset : offset + section.size] = content
        starts = {i: base + offset for i, offset in offsets.items()}
        self.addresses, symbols = _symbols(data, sections, starts, find)
        for section in sections:
            if section.type == RELOCATIONS and section.info in offsets:
                self._relocate(section, data, offsets[section.info], sections[section.info].size, symbols)
        _make_executable(base, size)

    def _relocate(
        self, section: Section, data: bytes, start: int, size: int, symbols: list[Callable[[], int]]
    ) -> None:
        entries = data[section.offset : section.offset + section.size]
        for offset, info, addend in RELOCATION.iter_unpack(entries):
            kind, symbol = info & 0xFFFFFFFF, info >> 32
            if kind != ABSOLUTE_64 or offset + 8 > size:
                raise ValueError(f"object code has a relocation of type {kind} at {offset} of {size} bytes")
            address = symbols[symbol]() + addend
            struct.pack_into("<Q", self._memory, start + offset, address & 0xFFFFFFFFFFFFFFFF)


def _places(sections: list[Section]) -> tuple[dict[int, int], int]:
    """Return where each section that is loaded begins, by its number, and the bytes of all."""
    offsets, size = {}, 0
    for i, section in enumerate(sections):
        if section.flags & ALLOCATED and section.type != UNWIND and section.size:
            if section.flags & WRITABLE:
                raise ValueError("object code has variables, whose memory must not be executable")
            alignment = max(section.alignment, 1)
            size = -(-size // alignment) * alignment
            offsets[i] = size
            size += section.size
    return offsets, size


def _symbols(
    data: bytes, sections: list[Section], starts: dict[int, int], find: Callable[[str], int]
) -> tuple[dict[str, int], list[Callable[[], int]]]:
    """Return the addresses of what the code defines by name, and for each entry of the table a function of its address.

    A symbol that is not defined is looked up when a relocation asks for it.
    """
    defined: dict[str, int] = {}
    address_of_entry: list[Callable[[], int]] = []
    for table in [each for each in sections if each.type == SYMBOL_TABLE]:
        names = sections[table.link].offset
        for entry in SYMBOL.iter_unpack(data[table.offset : table.offset + table.size]):
            name = data[names + entry[0] : data.index(b"\0", names + entry[0])].decode()
            section, value = entry[3], entry[4]
            if section in starts:
                address = starts[section] + value
                if name:
                    defined[name] = address
                address_of_entry.append(lambda address=address: address)  # type: ignore[misc]
            else:
                address_of_entry.append(lambda name=name, section=section: _outside(name, section, find))  # type: ignore[misc]
    return defined, address_of_entry


def _outside(name: str, section: int, find: Callable[[str], int]) -> int:
    if section != UNDEFINED:
        raise ValueError(f"object code refers to {name!r} in section {section}, which is not loaded")
    return find(name)


def _mapped(size: int) -> mmap.mmap:
    try:
        return mmap.mmap(
            -1,
            max(size, 1),
            flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS,
            prot=mmap.PROT_READ | mmap.PROT_WRITE,
        )
    except OSError as error:
        raise MemoryError(
            f"a compiled loop needs {size} bytes of memory, which the system does not give"
        ) from error


def _make_executable(base: int, size: int) -> None:
    """Let memory be read and executed, and no longer be written to."""
    if _library(None).mprotect(ctypes.c_void_p(base), ctypes.c_size_t(size), mmap.PROT_READ | mmap.PROT_EXEC):
        reason = os.strerror(ctypes.get_errno())
        raise MemoryError(f"the system makes no memory of a compiled loop executable: {reason}")


@cache
def _library(name: str | None) -> Any:
    return ctypes.CDLL(name, use_errno=True)


def library_address(name: str) -> int:
    """Return the address of a function of the process, or of one that LLVM calls instead of an instruction.

    Raises:
        ValueError: Neither the process nor libgcc has one of the name.
    """
    for library in (None, "libgcc_s.so.1"):
        with contextlib.suppress(OSError, AttributeError):
            return ctypes.cast(getattr(_library(library), name), ctypes.c_void_p).value or 0
    raise ValueError(f"object code refers to {name!r}, which no library has")
