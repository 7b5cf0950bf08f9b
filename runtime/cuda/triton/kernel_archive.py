"""Archives of compiled kernels that are shipped with a program, for processes without a compiler.

They are searched before the kernel store and Triton. A kernel matches if it was compiled from the same source, types,
constants and options that a launch requests (`kernel_key.request_key`), by any version of Triton.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping

from .assembler import ptx_version_of
from .compile import KernelBinary
from .kernel_key import KernelRequest, request_key

_archives: weakref.WeakSet[KernelArchive] = weakref.WeakSet()


class KernelArchive:
    """Compiled kernels by key; launches search the archive for as long as the object lives.

    Args:
        name: Name of the archive in messages.
        kernels: Kernels by `request_key`.
        cuda: Lowest CUDA version whose driver loads them, 12080 for 12.8.
    """

    def __init__(self, name: str, kernels: Mapping[str, KernelBinary], cuda: int) -> None:
        self.name = name
        self.kernels = dict(kernels)
        self.cuda = cuda
        self.found = 0
        """Number of kernels that were found in it."""
        _archives.add(self)

    @property
    def capabilities(self) -> tuple[int, ...]:
        """Compute capabilities for which the archive has kernels."""
        return tuple(sorted({binary.capability for binary in self.kernels.values()}))


def find_archived(request: KernelRequest, cuda: int) -> KernelBinary | None:
    """Return a kernel from an archive; return None if no archive has it.

    Args:
        request: The requested kernel.
        cuda: CUDA version that the driver supports.
    """
    if not _archives:
        return None
    key = request_key(request)
    if key is None:
        return None
    signature, capability = request.signature, request.capability
    types = tuple([signature[name] for name in request.kernel.arg_names if name in signature])
    for archive in list(_archives):
        binary = archive.kernels.get(key)
        if binary is None or (binary.capability, binary.parameter_types) != (capability, types):
            continue
        if binary.ptx_version <= ptx_version_of(cuda) and archive.cuda // 1000 <= cuda // 1000:
            archive.found += 1
            return binary
    return None


def missing_from_archives(name: str, capability: int) -> str:
    """Return the part of an error message that lists the archives without the kernel; empty without archives."""
    if not _archives:
        return ""
    named = ", ".join(
        f"{archive.name} ({', '.join(f'sm_{c}' for c in archive.capabilities) or 'no kernels'})"
        for archive in sorted(_archives, key=lambda each: each.name)
    )
    return (
        f", nor among the kernels of {named}; save the program with targets=('sm_{capability}',) where Triton is "
        f"installed, of a call that launches '{name}'"
    )
