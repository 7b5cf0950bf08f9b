"""On-disk store of compiled kernels: a process that finds its kernels there needs no compiler.

Kernels are the part ``cubins`` of the disk cache (`runtime/disk_cache.py`). An entry is one file, named by its key (see
`kernel_key.py`): a checksum, a header, the cubin. A damaged entry fails its checksum and is compiled again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...cache_files import warn_once
from ...disk_cache import DiskCache, disk_cache
from ..driver import kernel_name
from .architecture import check_architecture
from .assembler import ptx_version_of
from .compile import KernelBinary, chosen_options, compile_kernel
from .kernel_archive import find_archived, missing_from_archives
from .kernel_entry import pack, unpack
from .kernel_key import KernelRequest, kernel_key
from .packaged_kernels import find_packaged
from .real_triton import TritonMissingError

PART = "cubins"
OLDEST_CUDA = 12000
"""Oldest CUDA version for which kernels are compiled."""


class CubinStore:
    """Compiled kernels in a disk cache, shared by threads and processes.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> store = CubinStore(DiskCache(Path(tempfile.mkdtemp()), 1 << 20))
        >>> binary = KernelBinary("add", 90, b"code", {}, ("*fp32", "i32"), 4, 1, 0, 0, 1)
        >>> store.write("0123", binary)
        >>> store.read("0123") == binary, store.read("4567")
        (True, None)
    """

    def __init__(self, cache: DiskCache) -> None:
        self.cache = cache
        self.directory = cache.folder(PART)
        self._is_writable = True

    def read(self, key: str) -> KernelBinary | None:
        """Return the kernel of a key, without its assembly; return None if it is missing or damaged."""
        try:
            data = self.cache.read(PART, key)
        except OSError as error:
            self._warn(f"cannot be read ({error})")
            return None
        return None if data is None else unpack(key, data)

    def write(self, key: str, binary: KernelBinary) -> None:
        """Store a kernel. On failure, emit a RuntimeWarning once and stop writing."""
        if not self._is_writable:
            return
        try:
            self.cache.write(PART, key, pack(key, binary))
        except OSError as error:
            self._is_writable = False
            self._warn(f"cannot be written ({error}), kernels are compiled anew by each process")

    def _warn(self, problem: str) -> None:
        warn_once(
            self.directory,
            f"the store of compiled kernels in {self.directory} {problem}; TRITEN_CACHE_DIR names another folder",
        )


_stores: dict[DiskCache, CubinStore] = {}


def store() -> CubinStore | None:
    """Return the store that the environment names; return None if it is disabled or has no directory."""
    cache = disk_cache()
    if cache is None:
        return None
    cubin_store = _stores.get(cache)
    return cubin_store or _stores.setdefault(cache, CubinStore(cache))


def find_or_compile(
    kernel: Any,
    signature: Mapping[str, str],
    constexprs: Mapping[str, object],
    divisible: frozenset[str] = frozenset(),
    capability: int = 90,
    options: Mapping[str, object] | None = None,
    cuda: int = 0,
) -> KernelBinary:
    """Return a kernel from an archive or the store, or compile and store it; arguments as in `compile_kernel`.

    A kernel that was found has no `asm`, and Triton is not imported for it.

    Raises:
        NotImplementedError: For a dtype that the architecture does not have.
        RuntimeError: If it must be compiled and Triton is missing, or the driver is too old for the target.
    """
    name = kernel_name(kernel)
    check_architecture(name, signature, constexprs.values(), capability)
    chosen = chosen_options(options)
    request = KernelRequest(kernel, signature, constexprs, divisible, capability, chosen)
    archived = find_archived(request, cuda)
    if archived is not None:
        return archived
    binary = find_stored(request, cuda) or find_packaged(request, cuda)
    if binary is not None:
        return binary
    try:
        binary = compile_kernel(kernel, signature, constexprs, divisible, capability, chosen, cuda)
    except TritonMissingError as error:
        kernel_store = store()
        where = "" if kernel_store is None else f" in {kernel_store.directory}"
        raise RuntimeError(
            f"kernel '{name}' for sm_{capability} is not in the store of compiled kernels{where}"
            f"{missing_from_archives(name, capability)}. {error}"
        ) from error
    kernel_store = store()
    key = None if kernel_store is None else kernel_key(request, cuda)
    if kernel_store is not None and key is not None:
        kernel_store.write(key, binary)
    return binary


def find_stored(request: KernelRequest, cuda: int) -> KernelBinary | None:
    """Return a kernel from the store; return None if it has none that the driver loads.

    A kernel that was compiled for drivers of an earlier major version also serves: `precompile` without a GPU compiles
    for the oldest.

    Args:
        request: The requested kernel.
        cuda: CUDA version that the driver supports.
    """
    kernel_store = store()
    if kernel_store is None:
        return None
    for version in (cuda, *range(cuda // 1000 * 1000 - 1000, OLDEST_CUDA - 1, -1000)):
        key = kernel_key(request, version)
        if key is None:
            return None
        binary = kernel_store.read(key)
        # PTX that a newer driver of the same major version compiled is too new for this driver.
        if binary is not None and binary.ptx_version <= ptx_version_of(cuda):
            return binary
    return None
