"""The flag of NNPACK (`torch.backends.nnpack`), which is not used here: programs can set it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .flags import KeptFlags

__all__ = ["flags", "is_available", "set_flags"]

_kept = KeptFlags("set_{}_nnpack", enabled=True)


def is_available() -> bool:
    """Return False: no kernel uses NNPACK."""
    return False


def set_flags(_enabled: bool) -> tuple[bool]:
    """Set the flag, and return its value before in a tuple."""
    before = _kept.values["enabled"]
    _kept.set(enabled=_enabled)
    return (before,)


@contextmanager
def flags(enabled: bool = False) -> Iterator[None]:
    """Set the flag for a block (`torch.backends.nnpack.flags`)."""
    before = set_flags(enabled)
    try:
        yield
    finally:
        set_flags(*before)
