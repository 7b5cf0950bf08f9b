"""On-disk store of compiled kernels: a process that finds its kernels there needs no compiler.

The directory is ``$TRITEN_CACHE_DIR/cubins``, else ``$XDG_CACHE_HOME/triten/cubins``, else
``~/.cache/triten/cubins``. An entry is one file, named by its key (see `kernel_key.py`): a checksum, a header, the
cubin. A writer renames a complete temporary file, so that a reader sees a whole entry or none. A damaged entry fails
its checksum and is compiled again. Nothing is synced to disk: after a crash the checksum decides.

Entries are code. An entry is ignored unless this user or root owns it, or if any user may write to it.

``TRITEN_CACHE_MAXSIZE`` bounds the directory in bytes (1 GiB; 0 disables the store). If a write exceeds the bound,
the least recently used entries are removed until nine tenths are left. The file's modification time records the last
use, updated once an hour at most. The store measures the directory after writing a sixteenth of the bound, so each
process can exceed the bound by that much.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...cache_files import make_own_folder, read_own_file, warn_once, write_own_file
from ...cache_folder import cache_folder
from ..driver import kernel_name
from .architecture import check_architecture
from .assembler import ptx_version_of
from .compile import KernelBinary, chosen_options, compile_kernel
from .kernel_archive import find_archived, missing_from_archives
from .kernel_key import KernelRequest, kernel_key
from .real_triton import TritonMissingError

MAGIC = b"TRITENCUBIN\x00"
DIGEST_SIZE = 32
SUFFIX = ".kernel"
DEFAULT_MAXSIZE = 1 << 30
KEPT = 0.9
"""Fraction of the bound that is left after an eviction."""
UNLOOKED = 1 / 16
"""Fraction of the bound that is written between two measurements of the directory."""
NOTED_EVERY = 3600.0
"""Seconds between two updates of an entry's last use; older temporary files of other writers are orphans."""

_HEADER_KINDS = {
    name: tuple if hint.startswith("tuple") else {"str": str, "int": int, "bool": bool}[hint]
    for name, hint in ((f.name, str(f.type)) for f in dataclasses.fields(KernelBinary))
    if name not in ("cubin", "asm")
}
_HEADER_FIELDS = sorted(_HEADER_KINDS)


class CubinStore:
    """Directory of compiled kernels, shared by threads and processes.

    Args:
        directory: The directory; the first write creates it.
        maxsize: Maximum total size of the entries in bytes.

    Example:
        >>> import tempfile
        >>> store = CubinStore(Path(tempfile.mkdtemp()), 1 << 20)
        >>> binary = KernelBinary("add", 90, b"code", {}, ("*fp32", "i32"), 4, 1, 0, 0, 1)
        >>> store.write("0123", binary)
        >>> store.read("0123") == binary, store.read("4567")
        (True, None)
    """

    def __init__(self, directory: Path, maxsize: int = DEFAULT_MAXSIZE) -> None:
        self.directory = directory
        self.maxsize = maxsize
        self._lock = threading.Lock()
        self._size: int | None = None
        self._unlooked = 0
        self._is_writable = True

    def _path(self, key: str) -> str:
        return f"{self.directory}{os.sep}{key}{SUFFIX}"

    def read(self, key: str) -> KernelBinary | None:
        """Return the kernel of a key, without its assembly; return None if it is missing or damaged."""
        path = self._path(key)
        try:
            found = read_own_file(path, max(self.maxsize, DEFAULT_MAXSIZE), self.directory.parent)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            self._warn(f"cannot be read ({error})")
            return None
        if found is None:
            return None
        data, used = found
        binary = unpack(key, data)
        if binary is not None and time.time() - used > NOTED_EVERY:
            with contextlib.suppress(OSError):  # a shared store may be read-only
                os.utime(path)
        return binary

    def write(self, key: str, binary: KernelBinary) -> None:
        """Store a kernel. On failure, emit a RuntimeWarning once and stop writing."""
        data = pack(key, binary)
        if not self._is_writable or len(data) > self.maxsize:
            return
        try:
            make_own_folder(self.directory)
            write_own_file(self._path(key), data)
            self._bound(len(data))
        except OSError as error:
            self._is_writable = False
            self._warn(f"cannot be written ({error}), kernels are compiled anew by each process")

    def _warn(self, what: str) -> None:
        warn_once(
            self.directory,
            f"the store of compiled kernels in {self.directory} {what}; TRITEN_CACHE_DIR names another folder",
        )

    def _bound(self, written: int) -> None:
        """Remove the least recently used entries if the directory has grown beyond its bound."""
        with self._lock:
            self._unlooked += written
            if self._size is not None:
                self._size += written
                if self._size <= self.maxsize and self._unlooked <= self.maxsize * UNLOOKED:
                    return
            entries = self._entries()
            size = sum(nbytes for _, nbytes, _ in entries)
            if size > self.maxsize:
                for _, nbytes, path in sorted(entries):
                    if size <= self.maxsize * KEPT:
                        break
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(path)
                    size -= nbytes
            self._size, self._unlooked = size, 0

    def _entries(self) -> list[tuple[float, int, str]]:
        """Return (last use, bytes, path) of each entry; remove orphans of killed writers."""
        found = []
        now = time.time()
        with os.scandir(self.directory) as files:
            for file in files:
                try:
                    status = file.stat(follow_symlinks=False)
                    if file.name.endswith(SUFFIX):
                        found.append((status.st_mtime, status.st_size, file.path))
                    elif SUFFIX in file.name and now - status.st_mtime > NOTED_EVERY:
                        os.unlink(file.path)
                except FileNotFoundError:
                    continue
        return found


def pack(key: str, binary: KernelBinary) -> bytes:
    """Return an entry's bytes: magic, SHA-256 of the rest, length of the header, header in JSON, cubin."""
    header = {name: getattr(binary, name) for name in _HEADER_FIELDS}
    text = json.dumps({"key": key, **header}).encode()
    body = len(text).to_bytes(4, "little") + text + binary.cubin
    return MAGIC + hashlib.sha256(body).digest() + body


def unpack(key: str, data: bytes) -> KernelBinary | None:
    """Return the kernel of an entry's bytes; return None unless they are complete and belong to the key."""
    start = len(MAGIC) + DIGEST_SIZE
    body = memoryview(data)[start:]
    if data[: len(MAGIC)] != MAGIC or hashlib.sha256(body).digest() != data[len(MAGIC) : start]:
        return None
    end = 4 + int.from_bytes(body[:4], "little")
    try:
        header: Any = json.loads(bytes(body[4:end]))
    except (ValueError, RecursionError):
        return None
    if not isinstance(header, dict) or header.pop("key", None) != key or sorted(header) != _HEADER_FIELDS:
        return None
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in header.items()
    }
    if any(type(value) is not _HEADER_KINDS[name] for name, value in values.items()):
        return None
    if not all(isinstance(each, str) for each in values["parameter_types"]):
        return None
    if not all(isinstance(each, dict) for each in values["tensor_maps"]):
        return None
    return KernelBinary(cubin=bytes(body[end:]), asm={}, **values)


def default_directory() -> Path:
    """Return the store's directory from the environment. Raise RuntimeError if the user has no home."""
    return cache_folder() / "cubins"


def default_maxsize() -> int:
    """Return the bound from the environment. Raise ValueError for anything but a number of bytes."""
    given = os.environ.get("TRITEN_CACHE_MAXSIZE", "")
    if not given:
        return DEFAULT_MAXSIZE
    if not given.isdecimal():
        raise ValueError(f"TRITEN_CACHE_MAXSIZE: expected a number of bytes, got {given!r}")
    return int(given)


_stores: dict[tuple[Path, int], CubinStore] = {}


def store() -> CubinStore | None:
    """Return the store that the environment names; return None if it is disabled or has no directory."""
    maxsize = default_maxsize()
    if maxsize == 0:
        return None
    try:
        directory = default_directory()
    except RuntimeError:  # a user without a home
        return None
    found = _stores.get((directory, maxsize))
    return found or _stores.setdefault((directory, maxsize), CubinStore(directory, maxsize))


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
    kept = store()
    key = None if kept is None else kernel_key(request, cuda)
    found = None if kept is None or key is None else kept.read(key)
    # PTX that a newer driver of the same major version compiled is too new for this driver.
    if found is not None and found.ptx_version <= ptx_version_of(cuda):
        return found
    try:
        found = compile_kernel(kernel, signature, constexprs, divisible, capability, chosen, cuda)
    except TritonMissingError as error:
        where = "" if kept is None else f" in {kept.directory}"
        raise RuntimeError(
            f"kernel '{name}' for sm_{capability} is not in the store of compiled kernels{where}"
            f"{missing_from_archives(name, capability)}. {error}"
        ) from error
    if kept is not None and key is not None:
        kept.write(key, found)
    return found
