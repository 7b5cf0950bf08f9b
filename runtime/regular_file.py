"""Opening of regular files. FIFOs, which would block, and devices, which may never end, are refused."""

from __future__ import annotations

import errno
import os
import stat
from typing import BinaryIO


def open_regular(path: str | os.PathLike[str], mode: str = "rb") -> BinaryIO:
    """Open a regular file of bytes.

    The file is opened without blocking and examined afterwards, so that no other file can take its place in between.

    Args:
        path: The file. A symbolic link is followed.
        mode: A mode of `open` for bytes. Default: reading. A new file may be written to by this user alone.

    Returns:
        The open file.

    Raises:
        FileNotFoundError: There is no such file.
        IsADirectoryError: It is a folder.
        OSError: It is a FIFO, a socket or a device, or cannot be opened.
    """
    return open(os.fspath(path), mode, opener=_opened)  # type: ignore[return-value]


def _opened(path: str, flags: int) -> int:
    """Return a descriptor of a file, without waiting for a FIFO's other end."""
    descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0), 0o644)
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if not stat.S_ISREG(mode):
            raise OSError(f"{path!r} is no regular file; copy its bytes to a file, or open it yourself")
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
