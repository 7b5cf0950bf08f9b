"""Cache files that are executed or control execution: other users cannot change them.

They are written without permissions for other users, and read only if no other user could have written them.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import warnings

ROOT = 0


class UntrustedFileError(OSError):
    """Error: another user has written a cache file, or could have."""


def make_own_folder(path: str | os.PathLike[str], mode: int = 0o700) -> None:
    """Create a cache folder and its missing parents, without write permission for other users.

    An existing folder keeps its permissions.

    Args:
        path: The folder.
        mode: Its permissions, from which the umask takes. Default: this user alone.

    Raises:
        OSError: It cannot be created.
    """
    folder = os.path.abspath(path)
    if os.path.isdir(folder):
        return
    make_own_folder(os.path.dirname(folder), mode)
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder, mode)


def _refuse_foreign_writers(path: str | os.PathLike[str], status: os.stat_result) -> None:
    """Raise UntrustedFileError if a file or folder belongs to another user, or if its group or anybody may write to it.

    Other users cannot replace this user's files in a folder with the sticky bit.
    """
    if status.st_uid not in (os.geteuid(), ROOT):
        raise UntrustedFileError(
            f"{os.fspath(path)} belongs to user {status.st_uid}, not to this one or root"
        )
    if stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX:
        return
    for bit, writer in ((stat.S_IWOTH, "anybody"), (stat.S_IWGRP, "its group")):
        if status.st_mode & bit:
            raise UntrustedFileError(
                f"{os.fspath(path)} may be written to by {writer}; chmod go-w makes it usable"
            )


def _refuse_foreign_folders(path: str | os.PathLike[str], root: str | os.PathLike[str] | None) -> None:
    """Raise UntrustedFileError for a folder of another user, from a file's folder up to a cache's root."""
    folder = os.path.dirname(os.path.abspath(path))
    last = folder if root is None else os.path.abspath(root)
    while True:
        _refuse_foreign_writers(folder, os.stat(folder))
        above = os.path.dirname(folder)
        if folder in (last, above):
            return
        folder = above


_warned: set[str] = set()


def warn_once(folder: str | os.PathLike[str], message: str) -> None:
    """Emit a RuntimeWarning that a cache's folder is unusable, once for each folder."""
    name = os.fspath(folder)
    if name not in _warned:
        _warned.add(name)
        warnings.warn(message, RuntimeWarning, stacklevel=3)


def read_own_file(
    path: str | os.PathLike[str], max_bytes: int, root: str | os.PathLike[str] | None = None
) -> tuple[bytes, float] | None:
    """Return the bytes of a file and its modification time; None for a file that has more than `max_bytes` bytes.

    The call does not wait for a FIFO.

    Args:
        path: The file.
        max_bytes: Largest size of the file in bytes.
        root: The cache's folder: those between it and the file are checked, too. Default: the file's own folder.

    Raises:
        FileNotFoundError: There is no such file.
        UntrustedFileError: The file or one of the folders belongs to another user than this one and root, or its group
            or all users may write to it.
        OSError: It cannot be read, or is no regular file.
    """
    flags = (
        os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    )
    descriptor = os.open(path, flags)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(f"{os.fspath(path)} is no regular file")
        if hasattr(os, "geteuid"):
            _refuse_foreign_writers(path, status)
            _refuse_foreign_folders(path, root)
        if status.st_size > max_bytes:
            return None
        with open(descriptor, "rb", buffering=0, closefd=False) as file:
            return file.read(), status.st_mtime
    finally:
        os.close(descriptor)


def write_own_file(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file atomically: a reader sees the old one, or the whole new one.

    A killed writer leaves a file beside it, whose name is the entry's with two more suffixes. Raises OSError on
    failure; nothing is left then.
    """
    temporary = f"{os.fspath(path)}.{os.getpid()}.{secrets.token_hex(4)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(temporary, flags, 0o644)
    try:
        try:
            written = memoryview(data)
            while written:
                written = written[os.write(descriptor, written) :]
        finally:
            os.close(descriptor)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
