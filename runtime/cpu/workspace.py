"""Memory that a kernel's thread works in, kept for its next call: fresh pages cost more than the work in them."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

KEPT = 16 << 20
"""Bytes that a thread keeps at most."""


class _Kept(threading.local):
    room: np.ndarray[Any, Any] | None = None


_kept = _Kept()


def borrow(size: int) -> np.ndarray[Any, Any]:
    """Return at least `size` bytes, not cleared, for the caller alone until it calls `give_back`."""
    room, _kept.room = _kept.room, None  # a nested request, as from a finalizer, gets another buffer
    return np.empty(size, np.uint8) if room is None or room.size < size else room


def give_back(room: np.ndarray[Any, Any]) -> None:
    """Keep what was borrowed for this thread's next caller."""
    if room.size <= KEPT:
        _kept.room = room
