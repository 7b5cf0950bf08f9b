"""Atomic replacement of a file: the old file stays complete until the new one is.

The new bytes go to a temporary file in the same folder. It replaces the old file once all bytes are on the disk. A
writer that is killed, or meets a full disk, leaves the old file as it was. A killed writer leaves at most a temporary
file, whose name begins with ``.triten-``. Both files exist for a while, and a hard link to the old one keeps its
contents.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO

MAX_LINKS = 40
"""Symbolic links in a row, as Linux follows."""


@contextmanager
def replacing(path: str, sync: bool = True) -> Iterator[IO[bytes]]:
    """Write a file that replaces `path` at the end of the block; an error leaves `path` as it was.

    An existing file keeps its permissions and, if allowed, its owner. Symbolic links are followed. The writer writes
    directly to a path that is not a regular file, such as a pipe, and to a file in a folder that takes no new file.
    Without `sync` the bytes may not yet be on the disk when the file is replaced, so a power loss can lose them.
    """
    try:
        old = os.stat(path)
    except FileNotFoundError:
        old = None
    if (old is not None and not stat.S_ISREG(old.st_mode)) or _of_process(path):
        with open(path, "wb") as file:
            yield file
        return
    target = os.path.realpath(path)
    if old is not None:
        # A file that may not be written to is not replaced either.
        open(target, "r+b").close()
    folder = os.path.dirname(target)
    temporary = os.path.join(folder, f".triten-{os.getpid()}-{os.urandom(8).hex()}.tmp")
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        descriptor = os.open(temporary, flags, 0o666)
    except OSError as error:
        if old is None or not isinstance(error, PermissionError):
            raise OSError(error.errno, error.strerror, path) from None
        with open(target, "wb") as file:
            yield file
        return
    try:
        with open(descriptor, "wb") as file:
            if old is not None:
                _keep_owner_and_mode(descriptor, old)
            yield file
            file.flush()
            if sync:
                os.fsync(descriptor)
        os.replace(temporary, target)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    if sync:
        _sync_folder(folder)


def _of_process(path: str) -> bool:
    """Return whether a path is a process's open file, such as ``/dev/stdout``, which must not be replaced."""
    for _ in range(MAX_LINKS):
        if not os.path.islink(path):
            break
        path = os.path.join(os.path.dirname(path), os.readlink(path))
        if os.path.realpath(os.path.dirname(path)).startswith("/proc/"):
            return True
    return False


def _keep_owner_and_mode(descriptor: int, old: os.stat_result) -> None:
    if not hasattr(os, "fchmod"):
        return
    made = os.fstat(descriptor)
    if (made.st_uid, made.st_gid) != (old.st_uid, old.st_gid):
        with suppress(PermissionError):
            os.fchown(descriptor, old.st_uid, old.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(old.st_mode))


def _sync_folder(folder: str) -> None:
    """Have the new name survive a loss of power, where folders can be synchronized."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        with suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
