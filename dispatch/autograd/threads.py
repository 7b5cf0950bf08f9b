"""Multithreading setting of backward (`torch.autograd.set_multithreading_enabled`).

Backward runs in the calling thread, which is valid under either setting. Programs query the setting, and set it
around code with thread-local state.
"""

from __future__ import annotations

import threading


class _Permission(threading.local):
    enabled = True


_permission = _Permission()


def is_multithreading_enabled() -> bool:
    """Return whether backward may use threads of its own, in this thread. Default: True."""
    return _permission.enabled


class set_multithreading_enabled:
    """Function and context manager that sets whether backward may use threads of its own.

    Args:
        mode: If True, allow threads.

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
        """Do nothing: the constructor has set the mode."""

    def __exit__(self, *error: object) -> None:
        _permission.enabled = self.prev


def is_view_replay_enabled() -> bool:
    """Return False: backward of writes recreates views from their strides (`torch.autograd.is_view_replay_enabled`)."""
    return False
