"""Flags of oneDNN (`torch.backends.mkldnn`), which is not used here: programs can set and read them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .flags import KeptFlags, give_flags

__all__ = ["allow_tf32", "deterministic", "enabled", "flags", "is_acl_available", "is_available", "set_flags"]

# Properties of the module's class, declared for type checkers.
enabled: bool
deterministic: bool
allow_tf32: bool

_kept = KeptFlags("set_{}_mkldnn", enabled=True, deterministic=False, allow_tf32=True)


def is_available() -> bool:
    """Return False: no kernel uses oneDNN."""
    return False


def is_acl_available() -> bool:
    """Return False: no kernel uses the Arm Compute Library."""
    return False


def set_flags(
    _enabled: bool | None = None, _deterministic: bool | None = None, _allow_tf32: bool | None = None
) -> tuple[bool, ...]:
    """Set flags, and return their values before. None leaves a flag as it is."""
    before = tuple(_kept.values.values())
    _kept.set(enabled=_enabled, deterministic=_deterministic, allow_tf32=_allow_tf32)
    return before


@contextmanager
def flags(
    enabled: bool | None = False, deterministic: bool | None = False, allow_tf32: bool | None = True
) -> Iterator[None]:
    """Set flags for a block; None leaves a flag as it is (`torch.backends.mkldnn.flags`).

    Example:
        >>> import triten as tt
        >>> with tt.backends.mkldnn.flags(enabled=False):
        ...     tt.backends.mkldnn.enabled
        False
    """
    before = set_flags(enabled, deterministic, allow_tf32)
    try:
        yield
    finally:
        set_flags(*before)


give_flags(__name__, **{name: _kept.flag(name, "no kernel uses oneDNN") for name in _kept.values})
