"""Opening of regular files for reading. A FIFO, which would block, and a device, which may never end, are refused."""

from __future__ import annotations

import errno
import os
import stat
from typing import BinaryIO


def open_regular(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a regular file for reading bytes.

    The file is opened without blocking and examined afterwards, so that no other file can take its place in between.

    Args:
        path: The file. A symbolic link is followed.

    Returns:
        The open file.

    Raises:
        FileNotFoundError: There is no such file.
        IsADirectoryError: It is a folder.
        OSError: It is a FIFO, a socket or a device, or cannot be read.
    """
    flags = (
        os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    )
    descriptor = os.open(path, flags)
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
        if not stat.S_ISREG(mode):
            raise OSError(
                f"{os.fspath(path)!r} is no regular file; copy its bytes to a file, or open it yourself"
            )
        return open(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise
