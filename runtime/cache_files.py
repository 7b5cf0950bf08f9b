"""Files of the caches that hold what is executed, or decides it: written so that no other user may change them, and
read only where none could have.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat

ROOT = 0


class UntrustedFileError(OSError):
    """A file of a cache that another user has written, or could."""


def make_own_folder(path: str | os.PathLike[str]) -> None:
    """Create a folder of a cache, and those above it that are missing, for this user alone, whatever the umask.

    A folder that is there keeps its permissions. Raises OSError where it cannot be created.
    """
    folder = os.path.abspath(path)
    if os.path.isdir(folder):
        return
    make_own_folder(os.path.dirname(folder))
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder, 0o700)


def _refuse_foreign_writers(path: str | os.PathLike[str], mode: int) -> None:
    """Raise UntrustedFileError if a group, or anybody, may write to a file or folder."""
    if mode & stat.S_IWOTH:
        raise UntrustedFileError(
            f"{os.fspath(path)} may be written to by anybody; chmod go-w makes it usable"
        )
    if mode & stat.S_IWGRP:
        raise UntrustedFileError(
            f"{os.fspath(path)} may be written to by its group; chmod go-w makes it usable"
        )


def read_own_file(path: str | os.PathLike[str], most: int) -> tuple[bytes, float] | None:
    """The bytes of a file and its modification time; None for one that has more than `most` bytes.

    Whoever waits for a pipe in the place of an entry waits for ever: what is no regular file is not opened for long.

    Raises:
        FileNotFoundError: there is no such file.
        UntrustedFileError: it belongs to another user than this one and root, or its group or anybody may write to it
            or its folder.
        OSError: it cannot be read, or is no regular file.
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
            if status.st_uid not in (os.geteuid(), ROOT):
                raise UntrustedFileError(
                    f"{os.fspath(path)} belongs to user {status.st_uid}, not to this one or root"
                )
            _refuse_foreign_writers(path, status.st_mode)
            folder = os.path.dirname(os.path.abspath(path))
            _refuse_foreign_writers(folder, os.stat(folder).st_mode)
        if status.st_size > most:
            return None
        with open(descriptor, "rb", buffering=0, closefd=False) as file:
            return file.read(), status.st_mtime
    finally:
        os.close(descriptor)


def write_own_file(path: str | os.PathLike[str], data: bytes) -> None:
    """Put a file in its place at once: a reader sees the old one, or the whole new one.

    A writer that is killed leaves a file beside it, whose name is that of the entry with two more suffixes. Raises
    OSError where that cannot be done; nothing is left then.
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
