"""Disk cache: compiled kernels, object code, generated sources and measurements, in one folder under one bound.

The folder is ``$TRITEN_CACHE_DIR``, else ``$XDG_CACHE_HOME/triten``, else ``~/.cache/triten``. Each of its `PARTS` is a
subfolder. A writer renames a complete temporary file, so that a reader sees a whole entry or none. Nothing is synced to
disk: after a crash, checksums decide (`is_sealed`, or the format of a part's own).

Entries are code, or choose code. An entry is read only if no other user could have written it (`cache_files`).

``TRITEN_CACHE_MAXSIZE`` bounds all parts together, in bytes (1 GiB; 0 disables the cache). If a write exceeds it,
the least recently used entries are removed until nine tenths are left. The file's modification time records the last
use, updated once an hour at most. A process measures the folder with its first write and after writing a sixteenth of
the bound, so each process can exceed the bound by that much.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from .cache_files import make_own_folder, read_own_file, write_own_file
from .fork_lock import forkable

PARTS = {"cubins": ".kernel", "objects": ".o", "sources": ".py", "tuning": ".json"}
"""Suffix of the entries in each subfolder. Other files are neither counted nor removed."""
DEFAULT_MAXSIZE = 1 << 30
DIGEST_SIZE = 32
KEPT = 0.9
"""Fraction of the bound that is left after an eviction."""
UNMEASURED = 1 / 16
"""Fraction of the bound that is written between two measurements of the folder."""
TOUCHED_EVERY = 3600.0
"""Seconds between two updates of an entry's last use; older temporary files of other writers are orphans."""


class DiskCache:
    """Folder of entries with one bound, shared by threads and processes.

    Args:
        root: The folder; the first write creates it for this user alone.
        maxsize: Maximum total size of the entries in bytes.

    Example:
        >>> import tempfile
        >>> cache = DiskCache(Path(tempfile.mkdtemp()), 1 << 20)
        >>> cache.write("objects", "0123", b"code", is_sealed=True)
        >>> cache.read("objects", "0123", is_sealed=True), cache.read("objects", "4567")
        (b'code', None)
    """

    def __init__(self, root: Path, maxsize: int = DEFAULT_MAXSIZE) -> None:
        self.root = root
        self.maxsize = maxsize
        self._lock = forkable(threading.Lock())
        self._size: int | None = None
        self._unmeasured = 0

    def folder(self, part: str) -> Path:
        """Return the folder of a part."""
        return self.root / part

    def path(self, part: str, name: str) -> str:
        """Return the path of an entry; its name may contain folders."""
        return f"{self.root}{os.sep}{part}{os.sep}{name}{PARTS[part]}"

    def names(self, part: str, folder: str) -> list[str]:
        """Return the sorted names of the entries in a folder of a part. Raise OSError if it cannot be read."""
        suffix = PARTS[part]
        try:
            files = os.listdir(self.folder(part) / folder)
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted(f"{folder}/{file.removesuffix(suffix)}" for file in files if file.endswith(suffix))

    def read(
        self, part: str, name: str, *, is_sealed: bool = False, max_bytes: int = DEFAULT_MAXSIZE
    ) -> bytes | None:
        """Return the bytes of an entry, and record its use. Return None if it is missing, too large or damaged.

        Args:
            part: One of `PARTS`.
            name: The entry's name.
            is_sealed: If True, the entry begins with a checksum of its name and bytes. Default: False.
            max_bytes: Largest size of the entry in bytes. Default: 1 GiB.

        Raises:
            UntrustedFileError: Another user has written the entry or its folders, or could have.
            OSError: It cannot be read.
        """
        path = self.path(part, name)
        try:
            content = read_own_file(path, max_bytes, self.root)
        except (FileNotFoundError, NotADirectoryError):
            return None
        if content is None:
            return None
        data, used = content
        if is_sealed:
            digest, data = data[:DIGEST_SIZE], data[DIGEST_SIZE:]
            if digest != _digest(part, name, data):
                return None
        if time.time() - used > TOUCHED_EVERY:
            with contextlib.suppress(OSError):  # a shared cache may be read-only
                os.utime(path)
        return data

    def write(self, part: str, name: str, data: bytes, *, is_sealed: bool = False) -> None:
        """Store an entry in place of an earlier one; entries larger than the bound are not stored.

        Args:
            part: One of `PARTS`.
            name: The entry's name.
            data: Its bytes.
            is_sealed: If True, precede them with a checksum (`read`). Default: False.

        Raises:
            OSError: It cannot be written.
        """
        if is_sealed:
            data = _digest(part, name, data) + data
        if len(data) > self.maxsize:
            return
        path = self.path(part, name)
        make_own_folder(os.path.dirname(path))
        write_own_file(path, data)
        self._evict(len(data))

    def _evict(self, written: int) -> None:
        """Remove the least recently used entries if the cache has grown beyond its bound."""
        with self._lock:
            self._unmeasured += written
            if self._size is not None:
                self._size += written
                if self._size <= self.maxsize and self._unmeasured <= self.maxsize * UNMEASURED:
                    return
            entries = [each for part, suffix in PARTS.items() for each in _entries(self.folder(part), suffix)]
            size = sum(nbytes for _, nbytes, _ in entries)
            if size > self.maxsize:
                for _, nbytes, path in sorted(entries):
                    if size <= self.maxsize * KEPT:
                        break
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(path)
                    size -= nbytes
            self._size, self._unmeasured = size, 0


def _digest(part: str, name: str, data: bytes) -> bytes:
    return hashlib.sha256(f"{part}/{name}\n".encode() + data).digest()


def _entries(folder: str | os.PathLike[str], suffix: str) -> Iterator[tuple[float, int, str]]:
    """Yield (last use, bytes, path) of each entry below a folder; remove orphans of killed writers."""
    now = time.time()
    try:
        files = list(os.scandir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return
    for file in files:
        try:
            if file.is_dir(follow_symlinks=False):
                yield from _entries(file.path, suffix)
                continue
            status = file.stat(follow_symlinks=False)
            if file.name.endswith(suffix):
                yield status.st_mtime, status.st_size, file.path
            elif f"{suffix}." in file.name and now - status.st_mtime > TOUCHED_EVERY:
                os.unlink(file.path)
        except FileNotFoundError:
            continue


def default_root() -> Path:
    """Return the cache's folder from the environment. Raise RuntimeError if the user has no home."""
    own = os.environ.get("TRITEN_CACHE_DIR")
    if own:
        return Path(own)
    cache = os.environ.get("XDG_CACHE_HOME", "")
    # The specification says to ignore a path that is not absolute.
    base = Path(cache) if os.path.isabs(cache) else Path.home() / ".cache"
    return base / "triten"


def default_maxsize() -> int:
    """Return the bound from the environment. Raise ValueError for anything but a number of bytes."""
    text = os.environ.get("TRITEN_CACHE_MAXSIZE", "")
    if not text:
        return DEFAULT_MAXSIZE
    if not text.isdecimal():
        raise ValueError(f"TRITEN_CACHE_MAXSIZE: expected a number of bytes, got {text!r}")
    return int(text)


_caches: dict[tuple[Path, int], DiskCache] = {}


def disk_cache() -> DiskCache | None:
    """Return the cache that the environment names; return None if it is disabled or has no folder."""
    maxsize = default_maxsize()
    if maxsize == 0:
        return None
    try:
        root = default_root()
    except RuntimeError:  # a user without a home
        return None
    cache = _caches.get((root, maxsize))
    return cache or _caches.setdefault((root, maxsize), DiskCache(root, maxsize))
