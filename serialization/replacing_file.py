"""Writing a file so that the old one stays whole until the new one is.

The new bytes go to a temporary file in the same folder, which takes the old one's place when all of them are on the
disk. A writer that is killed, or meets a full disk, leaves the old file as it was; at most a temporary file, whose name
begins with ``.triten-``, remains of one that was killed. For a time both files are there, and a hard link to the old
one keeps its contents.
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
    """A block that writes a file, which then has the path; upon an error the path is as it was.

    Permissions and, where it is allowed, the owner of an existing file are kept, and symbolic links are followed. What
    is no regular file, such as a pipe, is written to directly, and so is a file in a folder that takes no other.
    Without `sync` the bytes need not be on the disk when the file has the path: a loss of power can lose them.
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
    """Whether a path is an open file of a process, such as ``/dev/stdout``, which is no name to be replaced."""
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
