"""Stack of this thread's dispatch modes, which composites and derivatives may ask about."""

from __future__ import annotations

import threading
from typing import Any

from ...runtime.dispatch_key import Functionality, functionality_bit
from ...runtime.local_dispatch_key_set import local
from ...runtime.thread_state import inherited

_PYTHON_BIT = functionality_bit(Functionality.Python)


class _Stack(threading.local):
    """The modes that this thread is in, outermost first."""

    def __init__(self) -> None:
        self.modes: list[Any] = []  # of `TensorDispatchMode`, which a layer above defines


stack = inherited(_Stack())


def sees_whole() -> bool:
    """Return True if this thread's innermost mode sees the operators that PyTorch dispatches.

    A composite or derivative that has a shorter way than PyTorch takes PyTorch's steps for such a mode.
    """
    return bool(stack.modes) and not stack.modes[-1].sees_parts


class _Below:
    """Context in which this thread has only its first modes: `left` is their number, or, if negative, the number
    dropped.
    """

    __slots__ = ("included", "left", "modes")

    def __init__(self, left: int) -> None:
        self.left = left

    def __enter__(self) -> None:
        self.modes, self.included = stack.modes, local.included
        stack.modes = self.modes[: self.left]
        if not stack.modes:
            local.included &= ~_PYTHON_BIT

    def __exit__(self, *_: object) -> None:
        stack.modes, local.included = self.modes, self.included


def below_innermost() -> _Below:
    """Return a context that excludes this thread's innermost mode, whose handler runs."""
    return _Below(-1)


def without_modes() -> _Below:
    """Run this thread without modes."""
    return _Below(0)
