"""Which `ptxas` assembles a kernel: one whose code the driver at hand takes.

A driver loads what any `ptxas` of its own major version of CUDA assembled, or of an earlier one, never of a later: it
calls that an invalid image. (The layout changed as well: CUDA 13 writes ELF ABI 8 for every target, CUDA 12 ABI 7 up to
sm_90 and 8 from sm_100 on.) Triton's wheels have two of them: 3.9 takes 12.9 up to sm_89 and 13.4 from sm_90 on, 3.7
takes 12.8 and, from sm_100 on, 13.1. Where the one that Triton would take is too new, the other one does its work;
where both are, the driver compiles the PTX, which then keeps to the version of the instruction set that it knows.

Source: CUDA Compatibility, "Minor Version Compatibility"; PTX ISA, "Release Notes" and "Target ISA".
"""

from __future__ import annotations

import functools
import re
import subprocess
from typing import Any

ABI_AT = 8
"""The byte of an ELF file that has the version of its ABI."""

LEAST_ISA = {80: 70, 86: 71, 89: 78, 90: 80, 100: 86, 103: 88, 110: 90, 120: 87, 121: 88}
"""The version of the PTX instruction set, times ten, that brought each target in the form that Triton asks for."""

_TOOLS = ("ptxas", "ptxas_blackwell")


class NoAssemblerError(RuntimeError):
    """No way is known to make code for a device that its driver loads."""


def version_text(version: int) -> str:
    """CUDA's number of a version as it is written.

    Example:
        >>> version_text(13020)
        '13.2'
    """
    return f"{version // 1000}.{version % 1000 // 10}"


def ptx_version_of(cuda: int) -> int:
    """The newest PTX instruction set, times ten, of a CUDA version; 0 before CUDA 11.

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
"""Versions for which kernels are compiled ahead of time: the first that knows a target is taken."""


def least_cuda(capability: int) -> int:
    """The CUDA version for which to compile ahead of time, so that drivers of as many versions as can be load the code.

    Raises NoAssemblerError for a target that none knows.

    Example:
        >>> least_cuda(90), least_cuda(103)
        (12080, 12090)
    """
    for version in CUDA_VERSIONS:
        if ptx_version_of(version) >= LEAST_ISA.get(capability, ptx_version_of(CUDA_VERSIONS[-1]) + 1):
            return version
    raise NoAssemblerError(f"no CUDA version is known whose code runs on sm_{capability}")


def fit_assembler(capability: int, cuda: int) -> int | None:
    """Let Triton, in this process, assemble for a target with a `ptxas` whose code the driver loads.

    Args:
        capability: the target, ``90`` for sm_90.
        cuda: the CUDA version that the driver supports, 12080 for 12.8; 0 for code that no driver of this process
            loads, which leaves Triton's choice as it is.

    Returns:
        None; or the version of the PTX instruction set, times ten, that the driver compiles itself, where no `ptxas`
        of Triton is old enough.

    Raises:
        NoAssemblerError: where the driver knows no PTX of the target either.
    """
    return _fitted(capability, cuda) if cuda else None


@functools.cache
def _fitted(capability: int, cuda: int) -> int | None:
    from triton import knobs
    from triton.backends.nvidia import compiler

    found = _tool(compiler.get_ptxas(capability))
    if _loads(found, cuda):
        return None
    settings = vars(knobs.nvidia)  # setting an attribute would also set the environment of child processes
    tools = {name: _tool(getattr(knobs.nvidia, name)) for name in _TOOLS}
    fitting = [tool for tool in tools.values() if _loads(tool, cuda) and _knows(tool[0], capability)]
    if not fitting:
        return _ptx_for(capability, cuda, found[1])
    path, _ = max(fitting, key=lambda tool: tool[1])
    settings.update({name: path for name, tool in tools.items() if not _loads(tool, cuda)})
    # Part of the key of Triton's own cache, which would otherwise give what the newer one assembled.
    compiler.get_ptxas_version.cache_clear()
    return None


def _tool(tool: Any) -> tuple[str, int]:
    major, _, minor = tool.version.partition(".")
    return tool.path, 1000 * int(major) + 10 * int(minor)


def _loads(tool: tuple[str, int], cuda: int) -> bool:
    return tool[1] // 1000 <= cuda // 1000


@functools.cache
def _knows(path: str, capability: int) -> bool:
    """Whether a `ptxas` assembles for a target: its help lists them."""
    told = subprocess.run([path, "--help"], capture_output=True, text=True, check=True).stdout
    return re.search(rf"'sm_{capability}a?'", told) is not None


def _ptx_for(capability: int, cuda: int, assembler: int) -> int:
    known, least = ptx_version_of(cuda), LEAST_ISA.get(capability, 0)
    if known < least:
        raise NoAssemblerError(
            f"sm_{capability} has code from PTX ISA {least / 10} on; the driver supports CUDA {version_text(cuda)}, "
            f"which compiles PTX up to {known / 10} and loads nothing that the ptxas of CUDA "
            f"{version_text(assembler)} assembled: update the NVIDIA driver"
        )
    return known


def described(image: bytes, ptx_version: int = 0) -> str:
    """What a driver was given to load, and which drivers load it.

    Example:
        >>> described(b"//", 87)
        'PTX of version 8.7'
    """
    if ptx_version:
        return f"PTX of version {ptx_version / 10}"
    if image[:4] != b"\x7fELF":
        return "no cubin"
    found = re.search(rb"Cuda compilation tools, release ((\d+)\.\d+)", image)
    if found is None:  # written down from ABI 8 on
        return f"a cubin of ELF ABI {image[ABI_AT]}, which drivers for CUDA 12 and later load"
    release, major = found[1].decode(), found[2].decode()
    return f"a cubin of CUDA {release}'s ptxas, which drivers for CUDA {major} and later load"
