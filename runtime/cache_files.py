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


def read_own_file(path: str | os.PathLike[str], most: int) -> tuple[bytes, float] | None:
    """The bytes of a file and its modification time; None for one that has more than `most` bytes.

    Whoever waits for a pipe in the place of an entry waits for ever: what is no regular file is not opened for long.

    Raises:
        FileNotFoundError: there is no such file.
        UntrustedFileError: it is none of this user's, nor root's, or anybody may write to it.
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
            if status.st_mode & stat.S_IWOTH:
                raise UntrustedFileError(f"{os.fspath(path)} may be written to by anybody")
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
