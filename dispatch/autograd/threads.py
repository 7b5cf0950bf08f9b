"""Whether backward may use threads of its own (`torch.autograd.set_multithreading_enabled`).

Backward runs in the thread that calls it, so that either answer is obeyed; programs ask, and set it around parts that
hold thread-local state.
"""

from __future__ import annotations

import threading


class _Permission(threading.local):
    enabled = True


_permission = _Permission()


def is_multithreading_enabled() -> bool:
    """Whether backward may use threads of its own, in this thread: at first True."""
    return _permission.enabled


class set_multithreading_enabled:
    """Let backward use threads of its own or not, from now on or for a block.

    Args:
        mode: whether it may.

    Example:
        >>> import triten as tt
        >>> with tt.autograd.set_multithreading_enabled(False):
        ...     tt.autograd.is_multithreading_enabled()
        False
        >>> tt.autograd.is_multithreading_enabled()
        True
    """

    def __init__(self, mode: bool) -> None:
        self.prev = _permission.enabled
        self.mode = mode
        _permission.enabled = mode

    def __enter__(self) -> None:
        """It is set already."""

    def __exit__(self, *error: object) -> None:
        _permission.enabled = self.prev


def is_view_replay_enabled() -> bool:
    """False: views are made anew from their strides in backward of writes (`torch.autograd.is_view_replay_enabled`)."""
    return False
