"""Side effects: what a function changes of Python's objects, which a graph would not change again.

A function is captured by running it, and so what it changed is seen: a walk before it has the old values. They are put
back, and the function runs eagerly, once, as the program meant.
"""

from __future__ import annotations

import builtins
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from .guards import same_elements
from .reachable import NUMBERS, Walk
from .unsupported import Unsupported


def refuse_side_effects(before: Walk) -> None:
    """Put back what was changed since a walk. Raises Unsupported if anything was."""
    changed = []
    for location, value in before.places:
        now = location.read()
        if value is now or (location.kind == "elements" and is_same_tuple(value, now)):
            continue
        if isinstance(value, NUMBERS) and now.__class__ is value.__class__ and value == now:
            continue
        changed.append((location, value))
    for location, value in reversed(changed):
        location.write(value)
    if changed:
        names = ", ".join(dict.fromkeys(location.name for location, _ in changed[:3]))
        raise Unsupported(f"the function changes {names}")


def is_same_tuple(value: Any, now: Any) -> bool:
    """Whether a container has the elements that it had."""
    return len(value) == len(now) and all(
        a is b or (isinstance(a, NUMBERS) and same_elements((a,), (b,)))
        for a, b in zip(value, now, strict=True)
    )


@contextmanager
def refusing_output() -> Iterator[None]:
    """Raise Unsupported where this thread prints, or draws from Python's or NumPy's random numbers."""
    thread, print_before = threading.get_ident(), builtins.print
    state, numpy_state = random.getstate(), np.random.get_state(legacy=False)

    def refused(*args: Any, **kwargs: Any) -> None:
        if threading.get_ident() != thread:
            print_before(*args, **kwargs)
            return None
        raise Unsupported("print() would be called once, when the function is captured")

    builtins.print = refused
    try:
        yield
    finally:
        builtins.print = print_before
    if random.getstate() != state:
        random.setstate(state)
        raise Unsupported("the function draws from Python's random numbers; draw from tt.rand and its kin")
    if not same_state(numpy_state, np.random.get_state(legacy=False)):
        np.random.set_state(numpy_state)
        raise Unsupported("the function draws from NumPy's random numbers; draw from tt.rand and its kin")


def same_state(a: Any, b: Any) -> bool:
    """Whether two states of NumPy's generator are equal."""
    if isinstance(a, dict):
        return all(same_state(a[key], b[key]) for key in a)
    return bool(np.array_equal(a, b))
