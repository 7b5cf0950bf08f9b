"""Locks that a forked child finds free, and attributes that are computed once without a lock.

At a fork another thread may hold any lock, and it is not there in the child to give it back. What the locks guard is
changed by single steps of Python's dictionaries and lists, so that the child may go on from wherever that thread was.
"""

from __future__ import annotations

import os
import sys
import weakref
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property as cached_property
else:

    class cached_property:
        """`functools.cached_property`, which up to Python 3.11 has one lock for all objects of all threads."""

        def __init__(self, func: Any) -> None:
            self.func, self.__doc__ = func, func.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self.name = name

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            return instance.__dict__.setdefault(self.name, self.func(instance))


LockType = TypeVar("LockType")

_locks: weakref.WeakSet[Any] = weakref.WeakSet()


def forkable(lock: LockType) -> LockType:
    """The same lock, which is free in a forked child unless the thread that forked holds it itself.

    Args:
        lock: a `threading.Lock` or `threading.RLock`.

    Example:
        >>> import threading
        >>> from triten.runtime.fork_lock import forkable
        >>> lock = forkable(threading.RLock())
    """
    _locks.add(lock)
    return lock


def _free() -> None:
    for lock in list(_locks):
        is_owned = getattr(lock, "_is_owned", None)
        if is_owned is None or not is_owned():
            lock._at_fork_reinit()  # as the standard library does with its own


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_free)
