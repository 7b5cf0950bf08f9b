"""Address space that must be there before a library is called that aborts the process without it."""

from __future__ import annotations

import mmap
from pathlib import Path

STRICT = Path("/proc/sys/vm/overcommit_memory")
"""Linux's policy; by 2 all processes together are given no more than there is."""
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


def can_run_out() -> bool:
    """Return whether an allocation may fail here: the system limits the memory that this process may ask for.

    Otherwise the system gives address space freely, and ends a process when there is no memory for its pages.

    Example:
        >>> from triten.runtime.spare_memory import can_run_out
        >>> can_run_out() in (False, True)
        True
    """
    try:
        import resource
    except ImportError:  # not on Windows
        return False
    limits = (resource.RLIMIT_AS, resource.RLIMIT_DATA)
    if any(resource.getrlimit(limit)[0] != resource.RLIM_INFINITY for limit in limits):
        return True
    try:
        return STRICT.read_text().strip() == "2"
    except OSError:
        return False
