"""Thread state that moves along when another thread continues a thread's work (ATen/ThreadLocalState.h).

Python limits the call depth of a thread. A recursion through backward also uses frames of the package. It therefore
continues in a new thread when half of the old thread's stack is used; the old thread waits. The new thread begins
with the modes, keys, devices and streams of the old one, and restores them at the end.
"""

from __future__ import annotations

import contextvars
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

Local = TypeVar("Local", bound=threading.local)
Result = TypeVar("Result")

captures: list[Callable[[], Callable[[], None]]] = []
"""Functions that capture a thread's state: each returns a function that applies it to its calling thread."""


def inherited(state: Local) -> Local:
    """Include the attributes of a thread-local object in the moved state; return the object."""
    captures.append(partial(_attributes_of, state))
    return state


def _attributes_of(state: threading.local) -> Callable[[], None]:
    values = dict(vars(state))

    def give() -> None:
        vars(state).update(values)

    return give


class _Origin(threading.local):
    """True in `is_native` while a composite or derivative of the package makes this thread's calls."""

    is_native = False


origin = inherited(_Origin())


def with_room(function: Callable[..., Result], *args: Any) -> Result:
    """Call a user's function; deep in nested calls of this kind, in a thread of its own.

    The limit is half of the call depth that Python allows. Calls of the function count as the program's (`origin`).
    """
    depth, is_native = _nesting.depth, origin.is_native
    if is_native:
        origin.is_native = False
    try:
        if depth >= SHALLOW and _is_half_full():
            return _in_another_thread(function, args)
        _nesting.depth = depth + 1
        return function(*args)
    finally:
        _nesting.depth = depth
        if is_native:
            origin.is_native = True


class _Nesting(threading.local):
    depth = 0


_nesting = _Nesting()
"""Number of active calls with room in this thread."""
SHALLOW = 4
"""Nesting depth that always leaves room for another call, without a check."""


def _is_half_full() -> bool:
    try:
        sys._getframe(sys.getrecursionlimit() // 2)
    except ValueError:
        return False
    return True


def _in_another_thread(function: Callable[..., Result], args: tuple[Any, ...]) -> Result:
    captured = [capture() for capture in captures]
    results: list[Result] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            for give in captured:
                give()
            results.append(function(*args))
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=contextvars.copy_context().run, args=(run,), daemon=True)
    thread.start()
    thread.join()
    if errors:
        try:
            raise errors[0]
        finally:
            errors.clear()  # whose traceback refers to this frame
    return results[0]
