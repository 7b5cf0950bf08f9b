"""Kernel images as the stand-in is given them, and the PTX that is executed in their place.

A cubin holds the PTX that it was made from in the section ``.nv_debug_ptx_txt``, without comments and without the lines
of source: ``ptxas -lineinfo`` puts it there, and Triton asks for line information unless
``TRITON_DISABLE_LINE_INFO=1`` is set. So what runs belongs to the very bytes that were loaded, wherever they come from:
the compiler, triten's store, or another process.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from triten.runtime.cuda.emulator.machine import Program
from triten.runtime.cuda.emulator.ptx import Module, parse

ELF = b"\x7fELF"
SECTION = b".nv_debug_ptx_txt"
MADE_UP = b"standin"


class ImageError(Exception):
    """An image that cannot be executed; the message says why."""


def ptx_of(image: bytes) -> str:
    """The PTX of a cubin, or of an image that is PTX. Raises ImageError for a cubin without it."""
    if not image.startswith(ELF):
        return image.decode()
    (start,) = struct.unpack_from("<Q", image, 40)
    size, count, names_at = struct.unpack_from("<HHH", image, 58)
    headers = [struct.unpack_from("<IIQQQQIIQQ", image, start + i * size) for i in range(count)]
    names = headers[names_at][4]
    for header in headers:
        begin = names + header[0]
        if image[begin : image.index(b"\0", begin)] == SECTION:
            return image[header[4] : header[4] + header[5]].replace(b"\0", b"\n").decode()
    raise ImageError(
        f"a cubin without the section {SECTION.decode()} has no PTX to execute: it was compiled without line "
        "information (TRITON_DISABLE_LINE_INFO)"
    )


@dataclass
class LoadedImage:
    """An image on one device: its PTX taken apart, where its variables lie, and its kernels."""

    device: int
    module: Module
    variables: dict[str, int]
    programs: dict[str, Program] = field(default_factory=dict)

    def program(self, name: str) -> Program:
        """A kernel of it, ready to run."""
        found = self.programs.get(name)
        if found is None:
            found = self.programs[name] = Program(self.module, name, self.variables)
        return found


def read(image: bytes) -> Module:
    """The PTX of an image, taken apart. Raises ImageError."""
    return parse(ptx_of(image))


def check_parameters(name: str, module: Module, told: list[tuple[int, int]] | None) -> list[tuple[int, int]]:
    """(offset, size) of each parameter of a kernel; raises ImageError where the cubin says otherwise than its PTX."""
    try:
        kernel = module.kernel(name)
    except KeyError:
        raise ImageError(f"the PTX of the image has no kernel '{name}'") from None
    taken = [(parameter.offset, parameter.size) for parameter in kernel.parameters]
    if told is not None and told != taken:
        raise ImageError(f"kernel '{name}' takes (offset, size) {told} by its cubin, {taken} by its PTX")
    return taken
