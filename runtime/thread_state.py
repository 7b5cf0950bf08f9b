"""State of a thread that goes along where another thread goes on in its place (ATen/ThreadLocalState.h).

Python bounds the calls that one thread may be in the middle of. A recursion through backward, which is no recursion of
the user's own functions alone, goes on in a new thread where the old one's stack is half full; the old one waits. So
the new thread begins with the modes, keys, devices and streams of the old one, and leaves them as it found them.
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
"""What tells a thread's state: each returns a function that gives the state to the thread which calls it."""


def inherited(state: Local) -> Local:
    """Have the attributes of a thread-local object go along; returns the object."""
    captures.append(partial(_attributes_of, state))
    return state


def _attributes_of(state: threading.local) -> Callable[[], None]:
    values = dict(vars(state))

    def give() -> None:
        vars(state).update(values)

    return give


def with_room(function: Callable[..., Result], *args: Any) -> Result:
    """Call a function of the user's; deep in others that were called so, in a thread of its own.

    That is where half of the calls that Python allows are underway.
    """
    depth = _nesting.depth
    if depth >= SHALLOW and _is_half_full():
        return _in_another_thread(function, args)
    _nesting.depth = depth + 1
    try:
        return function(*args)
    finally:
        _nesting.depth = depth


class _Nesting(threading.local):
    depth = 0


_nesting = _Nesting()
"""How many functions this thread has called with room and not come back from."""
SHALLOW = 4
"""So many of them leave room for another, which is not asked about then."""


def _is_half_full() -> bool:
    try:
        sys._getframe(sys.getrecursionlimit() // 2)
    except ValueError:
        return False
    return True


def _in_another_thread(function: Callable[..., Result], args: tuple[Any, ...]) -> Result:
    given = [capture() for capture in captures]
    results: list[Result] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            for give in given:
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
