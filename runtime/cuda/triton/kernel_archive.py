"""Compiled kernels that came with a program, for processes that have no compiler.

They are looked for before the store of compiled kernels and Triton. A kernel is taken if it was compiled from the very
source, types, constants and options that a launch asks for (`kernel_key.request_key`), whichever Triton compiled it.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping

from .assembler import ptx_version_of
from .compile import KernelBinary
from .kernel_key import KernelRequest, request_key

_archives: weakref.WeakSet[KernelArchive] = weakref.WeakSet()


class KernelArchive:
    """Kernels by their keys; launches find them for as long as the object lives.

    Args:
        name: what it is called in messages.
        kernels: by `request_key`.
        cuda: the least CUDA version whose driver loads them, 12080 for 12.8.
    """

    def __init__(self, name: str, kernels: Mapping[str, KernelBinary], cuda: int) -> None:
        self.name = name
        self.kernels = dict(kernels)
        self.cuda = cuda
        self.found = 0
        """How many kernels were taken from it."""
        _archives.add(self)

    @property
    def capabilities(self) -> tuple[int, ...]:
        """The targets that it has kernels for."""
        return tuple(sorted({binary.capability for binary in self.kernels.values()}))


def find_archived(request: KernelRequest, cuda: int) -> KernelBinary | None:
    """A kernel from an archive; None if none has it.

    Args:
        request: what is asked.
        cuda: the version that the driver supports.
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
    """What a message says of archives, none of which has a kernel; empty where there are none."""
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
