"""Locks that are free in a forked child, and attributes that are computed once without a lock.

At a fork another thread may hold any lock, and that thread does not exist in the child to release it. There are three
remedies:

- `forkable`: the child gets a new lock. The data that it guards only changes by single steps of Python's dictionaries
  and lists, so that the child may continue from any point.
- `hold_across_fork`: a fork waits for the lock. The lock guards native code, whose state a child cannot repair.
- CPython's module locks: the child imports a module again that another thread was importing.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
import weakref
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property as cached_property
else:

    class cached_property:
        """`functools.cached_property` without its lock, which all objects and threads share up to Python 3.11."""

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
    """Return the same lock, which is free in a forked child unless the forking thread holds it itself.

    Args:
        lock: A `threading.Lock` or `threading.RLock`.

    Example:
        >>> import threading
        >>> from triten.runtime.fork_lock import forkable
        >>> lock = forkable(threading.RLock())
    """
    _locks.add(lock)
    return lock


_awaited: list[Any] = []
_held: list[Any] = []


def hold_across_fork(lock: Any) -> None:
    """Make every later fork acquire a lock before, and release it in both processes.

    Locks are acquired in the order of these calls. A thread that holds one may acquire a later one, and never an
    earlier one.

    Args:
        lock: A reentrant lock, or another reentrant context manager.

    Example:
        >>> import threading
        >>> from triten.runtime.fork_lock import hold_across_fork
        >>> hold_across_fork(threading.RLock())
    """
    if not any(each is lock for each in _awaited):
        _awaited.append(lock)


def _take() -> None:
    for lock in _awaited:
        lock.__enter__()
        _held.append(lock)


def _give_back() -> None:
    while _held:
        _held.pop().__exit__(None, None, None)


def _free() -> None:
    for lock in list(_locks):
        is_owned = getattr(lock, "_is_owned", None)
        if is_owned is None or not is_owned():
            lock._at_fork_reinit()  # as the standard library does with its own


def _abandon_imports() -> None:
    """Discard the modules that other threads were importing, and the locks that CPython has for them."""
    bootstrap: Any = importlib._bootstrap
    locks, own = bootstrap._module_locks, threading.get_ident()
    for name, reference in list(locks.items()):
        owner = getattr(reference(), "owner", None)
        if owner is None or owner == own:
            continue
        locks.pop(name, None)
        spec = getattr(sys.modules.get(name), "__spec__", None)
        if getattr(spec, "_initializing", False):
            del sys.modules[name]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_take, after_in_parent=_give_back)
    for _after in (_give_back, _free, _abandon_imports):
        os.register_at_fork(after_in_child=_after)
