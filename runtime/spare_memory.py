"""Address space that must be there before a library is called that aborts the process without it."""

from __future__ import annotations

import mmap

CHECKED_FROM = 1 << 36
"""Bytes from which a result has to fit before anything is computed for it."""


def require_memory(nbytes: int, purpose: str) -> None:
    """Raise MemoryError unless so many bytes can be mapped now, in one piece; they are given back at once.

    Example:
        >>> from triten.runtime.spare_memory import require_memory
        >>> require_memory(1 << 20, "a table")
    """
    private = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_ANONYMOUS") else {}
    try:
        mmap.mmap(-1, nbytes, **private).close()
    except (OSError, ValueError) as error:
        raise MemoryError(
            f"{purpose} needs {nbytes >> 20} MiB of memory, which the system does not give"
        ) from error
