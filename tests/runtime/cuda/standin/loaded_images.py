"""Kernel images that the stand-in loads, and the PTX that it executes instead of them.

A cubin holds the PTX that it was made from (`ptx_of`). The executed code thus belongs to the loaded bytes,
from the compiler, triten's store or another process.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from triten.runtime.cuda.emulator.images import ImageError, parameters_begin, ptx_of
from triten.runtime.cuda.emulator.machine import Program
from triten.runtime.cuda.emulator.ptx import Module, parse

MADE_UP = b"standin"


@dataclass
class LoadedImage:
    """Image on one device: its bytes, its parsed PTX, the addresses of its variables, and its kernels."""

    device: int
    image: bytes
    module: Module
    variables: dict[str, int]
    programs: dict[str, Program] = field(default_factory=dict)

    def program(self, name: str) -> Program:
        """Return a kernel of the module, ready to run."""
        found = self.programs.get(name)
        if found is None:
            found = self.programs[name] = Program(self.module, name, self.variables, mends=True)
        return found

    def check_parameters(self, name: str, told: list[tuple[int, int]] | None) -> list[tuple[int, int]]:
        """Return (offset, size) of each parameter of a kernel in its PTX.

        Raise ImageError if the cubin disagrees with its PTX. In a constant bank a parameter is aligned by its
        address, in PTX by its offset.
        """
        try:
            kernel = self.module.kernel(name)
        except KeyError:
            raise ImageError(f"the PTX of the image has no kernel '{name}'") from None
        if told is not None:
            base = end = parameters_begin(self.image, name)
            laid = []
            for parameter in kernel.parameters:
                begin = end + -end % parameter.alignment
                end = begin + parameter.size
                laid.append((begin - base, parameter.size))
            if told != laid:
                raise ImageError(
                    f"kernel '{name}' takes (offset, size) {told} by its cubin, {laid} by its PTX"
                )
        return [(parameter.offset, parameter.size) for parameter in kernel.parameters]


def read(image: bytes) -> Module:
    """Parse the PTX of an image. Raise ImageError."""
    return parse(ptx_of(image))
