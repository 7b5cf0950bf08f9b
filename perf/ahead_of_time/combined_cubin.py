"""The code of several cubins in one ELF file: the disassembler takes longer to start than to read a kernel.

Source: the System V ABI, chapter 4, for ELF's headers; a cubin's code is in sections ``.text.<kernel>``.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

FILE = struct.Struct("<16sHHIQQQIHHHHHH")
SECTION = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")
SYMBOLS, STRINGS, EMPTY = 2, 3, 8
"""Types of sections."""
ALIGNMENT = 128
CODE = b".text."


class Section(NamedTuple):
    """Section of an ELF file: its number, name, header and data."""

    number: int
    name: bytes
    header: tuple[int, ...]
    data: bytes


class Strings:
    """A table of strings that end with a zero, the first of them empty."""

    def __init__(self) -> None:
        self.data = bytearray(1)

    def add(self, text: bytes) -> int:
        """Append a string, and return its offset."""
        offset = len(self.data)
        self.data += text + b"\0"
        return offset


def _string(table: bytes, offset: int) -> bytes:
    return table[offset : table.index(b"\0", offset)]


def _sections(cubin: bytes) -> list[Section]:
    file = FILE.unpack_from(cubin)
    start, count, names = file[6], file[12], file[13]
    headers = [SECTION.unpack_from(cubin, start + SECTION.size * i) for i in range(count)]
    contents = [b"" if h[1] == EMPTY else cubin[h[4] : h[4] + h[5]] for h in headers]
    return [
        Section(i, _string(contents[names], header[0]), header, contents[i])
        for i, header in enumerate(headers)
    ]


def target_of(cubin: bytes) -> tuple[int, ...]:
    """Return the properties that combinable cubins must share: the ABI version and the flags, which name the
    target.
    """
    file = FILE.unpack_from(cubin)
    return (*file[0], file[7])


def combine(cubins: Sequence[bytes]) -> bytes:
    """Combine the code and the function symbols of cubins for one target in an ELF file.

    Each section ``.text.<kernel>`` is renamed to ``.text.<position>_<kernel>``, by the cubin's position.
    """
    names, strings = Strings(), Strings()
    code: list[tuple[int, tuple[int, ...], bytes]] = []
    symbols = [bytes(SYMBOL.size)]
    for position, cubin in enumerate(cubins):
        sections = _sections(cubin)
        moved, number_of = {}, {}
        for section in sections:
            if section.name.startswith(CODE):
                moved[section.number] = len(code) + 1
                name = names.add(b"%s%d_%s" % (CODE, position, section.name.removeprefix(CODE)))
                code.append((name, section.header, section.data))
        (table,) = (section for section in sections if section.header[1] == SYMBOLS)
        texts = sections[table.header[6]].data
        for number, symbol in enumerate(SYMBOL.iter_unpack(table.data)):
            name, info, other, owner, value, size = symbol
            if owner in moved:
                number_of[number] = len(symbols)
                name_offset = strings.add(_string(texts, name))
                symbols.append(SYMBOL.pack(name_offset, info, other, moved[owner], value, size))
        for code_number in moved.values():
            name, header, data = code[code_number - 1]
            # The lower bits of `info` say which symbol is the kernel, the upper ones how many registers it has.
            info = header[7] & ~0xFFFFFF | number_of[header[7] & 0xFFFFFF]
            code[code_number - 1] = name, (*header[:7], info, *header[8:]), data
    return _file(cubins[0], names, strings, code, symbols)


def _file(
    first: bytes,
    names: Strings,
    strings: Strings,
    code: Sequence[tuple[int, tuple[int, ...], bytes]],
    symbols: Sequence[bytes],
) -> bytes:
    table = len(code) + 1
    sections = [
        *((name, h[1], h[2], table, h[7], h[9], data) for name, h, data in code),
        (names.add(b".symtab"), SYMBOLS, 0, table + 1, 1, SYMBOL.size, b"".join(symbols)),
        (names.add(b".strtab"), STRINGS, 0, 0, 0, 0, bytes(strings.data)),
    ]
    sections.append((names.add(b".shstrtab"), STRINGS, 0, 0, 0, 0, bytes(names.data)))
    body = bytearray(FILE.size)
    headers = [bytes(SECTION.size)]
    for name, kind, flags, link, info, entry, data in sections:
        body += bytes(-len(body) % ALIGNMENT)
        headers.append(SECTION.pack(name, kind, flags, 0, len(body), len(data), link, info, ALIGNMENT, entry))
        body += data
    body += bytes(-len(body) % ALIGNMENT)
    file = list(FILE.unpack_from(first))
    # Offsets of program and section headers, their counts, and the index of the section with the names.
    file[5], file[6], file[10], file[12], file[13] = 0, len(body), 0, len(headers), len(headers) - 1
    FILE.pack_into(body, 0, *file)
    return bytes(body) + b"".join(headers)


def codes(disassembly: str) -> Iterator[tuple[int, str]]:
    """Yield the position and the code of each kernel in the disassembly of a combined cubin."""
    _, *parts = re.split(r"^\t\.section\t\.text\.(\d+)_.*$", disassembly, flags=re.M)
    for position, text in zip(parts[::2], parts[1::2], strict=True):
        yield int(position), text
