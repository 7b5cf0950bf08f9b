"""Choice of the `ptxas` that assembles a kernel, so that the driver can load the code.

A driver loads code from any `ptxas` of its own CUDA major version or an earlier one. It rejects code from a later
major version as an invalid image. The layout also changed: CUDA 13 writes ELF ABI 8 for every target, CUDA 12 writes
ABI 7 up to sm_90 and 8 from sm_100 on.

Triton's wheels contain two. Triton 3.9 uses 12.9 up to sm_89 and 13.4 from sm_90 on; 3.7 uses 12.8 and, from sm_100
on, 13.1. If Triton's choice is too new, the other one assembles. If both are too new, the driver compiles the PTX,
which then uses the version of the instruction set that the driver knows.

Source: CUDA Compatibility, "Minor Version Compatibility"; PTX ISA, "Release Notes" and "Target ISA".
"""

from __future__ import annotations

import functools
import re
import subprocess
from typing import Any

ABI_AT = 8
"""Offset of the ABI version in an ELF file."""

MIN_ISA = {80: 70, 86: 71, 89: 78, 90: 80, 100: 86, 103: 88, 110: 90, 120: 87, 121: 88}
"""Lowest PTX version, times ten, that supports each target in the form that Triton asks for."""

_TOOLS = ("ptxas", "ptxas_blackwell")


class NoAssemblerError(RuntimeError):
    """Error: there is no known way to compile code that the device's driver loads."""


def version_text(version: int) -> str:
    """Parse a CUDA version into CUDA's version number.

    Example:
        >>> version_text(13020)
        '13.2'
    """
    return f"{version // 1000}.{version % 1000 // 10}"


def ptx_version_of(cuda: int) -> int:
    """Return the newest PTX version, times ten, of a CUDA version; 0 before CUDA 11.

    Example:
        >>> ptx_version_of(12050), ptx_version_of(12080), ptx_version_of(13020)
        (85, 87, 92)
    """
    major, minor = cuda // 1000, cuda % 1000 // 10
    if major < 11:
        return 0
    # CUDA 12.6 added nothing to the instruction set.
    return 10 * major - 40 + minor - (major == 12 and minor >= 6)


CUDA_VERSIONS = (12080, 12090, 13000)
"""CUDA versions for ahead-of-time compilation; the first that supports a target is used."""


def least_cuda(capability: int) -> int:
    """Return the oldest CUDA version that supports a target, so that as many drivers as possible load the code.

    Raises NoAssemblerError for a target that no version supports.

    Example:
        >>> least_cuda(90), least_cuda(103)
        (12080, 12090)
    """
    for version in CUDA_VERSIONS:
        if ptx_version_of(version) >= MIN_ISA.get(capability, ptx_version_of(CUDA_VERSIONS[-1]) + 1):
            return version
    raise NoAssemblerError(f"no CUDA version is known whose code runs on sm_{capability}")


def fit_assembler(capability: int, cuda: int) -> int | None:
    """Make Triton, in this process, assemble for a target with a `ptxas` whose code the driver loads.

    Args:
        capability: Target, ``90`` for sm_90.
        cuda: CUDA version that the driver supports, 12080 for 12.8. 0 means that no driver of this process loads the
            code; Triton's choice then stays.

    Returns:
        None if a `ptxas` of Triton is old enough. Otherwise the PTX version, times ten, for the driver to compile.

    Raises:
        NoAssemblerError: If the driver knows no PTX of the target either.
    """
    return _fitted(capability, cuda) if cuda else None


@functools.cache
def _fitted(capability: int, cuda: int) -> int | None:
    from triton import knobs
    from triton.backends.nvidia import compiler

    default_tool = _tool(compiler.get_ptxas(capability))
    if _loads(default_tool, cuda):
        return None
    settings = vars(knobs.nvidia)  # setting an attribute would also set the environment of child processes
    tools = {name: _tool(getattr(knobs.nvidia, name)) for name in _TOOLS}
    fitting = [tool for tool in tools.values() if _loads(tool, cuda) and _knows(tool[0], capability)]
    if not fitting:
        return _ptx_for(capability, cuda, default_tool[1])
    path, _ = max(fitting, key=lambda tool: tool[1])
    settings.update({name: path for name, tool in tools.items() if not _loads(tool, cuda)})
    # Part of the key of Triton's own cache, which would otherwise return code from the newer `ptxas`.
    compiler.get_ptxas_version.cache_clear()
    return None


def _tool(tool: Any) -> tuple[str, int]:
    major, _, minor = tool.version.partition(".")
    return tool.path, 1000 * int(major) + 10 * int(minor)


def _loads(tool: tuple[str, int], cuda: int) -> bool:
    return tool[1] // 1000 <= cuda // 1000


@functools.cache
def _knows(path: str, capability: int) -> bool:
    """Return True if the help of a `ptxas` lists a target."""
    help_text = subprocess.run([path, "--help"], capture_output=True, text=True, check=True).stdout
    return re.search(rf"'sm_{capability}a?'", help_text) is not None


def _ptx_for(capability: int, cuda: int, assembler: int) -> int:
    known, least = ptx_version_of(cuda), MIN_ISA.get(capability, 0)
    if known < least:
        raise NoAssemblerError(
            f"sm_{capability} has code from PTX ISA {least / 10} on; the driver supports CUDA {version_text(cuda)}, "
            f"which compiles PTX up to {known / 10} and loads nothing that the ptxas of CUDA "
            f"{version_text(assembler)} assembled: update the NVIDIA driver"
        )
    return known


def described(image: bytes, ptx_version: int = 0) -> str:
    """Describe an image that a driver was asked to load, and the drivers that load it.

    Example:
        >>> described(b"//", 87)
        'PTX of version 8.7'
    """
    if ptx_version:
        return f"PTX of version {ptx_version / 10}"
    if image[:4] != b"\x7fELF":
        return "no cubin"
    match = re.search(rb"Cuda compilation tools, release ((\d+)\.\d+)", image)
    if match is None:  # recorded from ABI 8 on
        return f"a cubin of ELF ABI {image[ABI_AT]}, which drivers for CUDA 12 and later load"
    release, major = match[1].decode(), match[2].decode()
    return f"a cubin of CUDA {release}'s ptxas, which drivers for CUDA {major} and later load"
