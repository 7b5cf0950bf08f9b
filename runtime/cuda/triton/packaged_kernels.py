"""Compiled kernels in installed packages: ``triten-kernels-sm90`` and others, which `perf.kernel_wheels` builds.

A package registers the entry point ``sm_90`` of the group `GROUP`, which names a module with two files: an index in
JSON, and one archive of all kernels in the format of the kernel store. The packages are looked up when a kernel is
neither in an archive nor in the store. A package's modules are never imported, nor is Triton.

A package counts only if no installed Triton would compile other code: the identity of the Triton that compiled it is
the installed one's, or Triton is not installed, and no environment variable changes the compilation. Each kernel is
found by the request of a launch, so kernels of other sources are simply not there.
"""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .assembler import ptx_version_of
from .compile import KernelBinary
from .kernel_entry import unpack
from .kernel_key import KernelRequest, compilation_is_requested, environment, request_key, triton_identity

GROUP = "triten.kernels"
"""Group of entry points of the packages; the name is the target's."""
INDEX, ARCHIVE = "index.json", "kernels.bin"
FORMAT = 1
"""Version of the two files."""


class KernelPackage:
    """Kernels of an installed package.

    Args:
        folder: Folder of the index and the archive.

    Raises:
        OSError, ValueError, KeyError: The index is missing or damaged.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        index: dict[str, Any] = json.loads((folder / INDEX).read_text(encoding="utf-8"))
        if index["format"] != FORMAT:
            raise ValueError(f"format {index['format']}")
        self.cuda: int = index["cuda"]
        self.triton: tuple[str, str] | None = tuple(index["triton"])
        self.kernels: Mapping[str, tuple[int, int]] = index["kernels"]
        """Offset and size in the archive of each kernel, by `request_key`."""

    def read(self, key: str) -> KernelBinary | None:
        """Return a kernel; return None if the package lacks it or its entry is damaged."""
        place = self.kernels.get(key)
        if place is None:
            return None
        offset, size = place
        with open(self.folder / ARCHIVE, "rb") as file:
            file.seek(offset)
            return unpack(key, file.read(size))


def find_packaged(request: KernelRequest, cuda: int) -> KernelBinary | None:
    """Return a kernel from an installed package; return None if none has it.

    Args:
        request: The requested kernel.
        cuda: CUDA version that the driver supports.
    """
    packages = installed_packages(request.capability)
    if not packages or compilation_is_requested() or environment():
        return None
    key = request_key(request)
    if key is None:
        return None
    identity = triton_identity()
    for package in packages:
        if package.cuda // 1000 > cuda // 1000 or identity not in (None, package.triton):
            continue
        binary = package.read(key)
        if binary is not None and binary.ptx_version <= ptx_version_of(cuda):
            return binary
    return None


@functools.cache
def installed_packages(capability: int) -> tuple[KernelPackage, ...]:
    """Return the installed packages of kernels for a compute capability, without those that are damaged."""
    found = []
    for point in importlib.metadata.entry_points(group=GROUP, name=f"sm_{capability}"):
        spec = importlib.util.find_spec(point.value)
        for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
            try:
                found.append(KernelPackage(Path(os.fspath(folder))))
            except (OSError, ValueError, KeyError, TypeError):  # its kernels are compiled instead
                continue
    return tuple(found)
