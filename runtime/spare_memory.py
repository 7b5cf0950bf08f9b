"""Reservation checks of address space, for libraries that abort the process without it."""

from __future__ import annotations

import mmap
from pathlib import Path

STRICT = Path("/proc/sys/vm/overcommit_memory")
"""Linux's overcommit policy; with 2, all processes together get no more than there is."""
CHECKED_FROM = 1 << 36
"""Size in bytes from which a result must fit before it is computed."""


def require_memory(nbytes: int, purpose: str) -> None:
    """Raise MemoryError unless this many bytes can be mapped now, in one piece; unmap them at once.

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
    """Return True if an allocation may fail here: the system limits the memory of this process.

    Otherwise the system overcommits address space, and kills a process when there is no memory for its pages.

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
