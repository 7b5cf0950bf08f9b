"""Side effects: what a function changes outside of tensors, which a graph would not change again.

A function is captured by running it, and so what it changed is seen: a walk before it has the old values. They are put
back, and the function runs eagerly, once, as the program meant. What leaves no trace in the program's objects (output,
clocks, seeds) is refused where it is called.
"""

from __future__ import annotations

import builtins
import logging
import random
import sys
import threading
import time
import warnings
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ...dispatch.tensor import Tensor
from ...runtime.generator import Generator
from .frames import is_observed_file
from .guards import same
from .reachable import Walk
from .unsupported import Unsupported, is_own

OUTPUT = "would be done once, when the function is captured"
READS = ("item", "host_array", "numpy")
"""Methods through which every value of a tensor is read."""
CLOCK = "gives something else each time"


def refuse_side_effects(before: Walk) -> None:
    """Put back what was changed since a walk. Raises Unsupported if anything was."""
    changed = []
    for location, value in before.places:
        now = location.read()
        if not (
            unchanged_elements(value, now)
            if location.kind == "elements"
            else value is now or same(value, now)
        ):
            changed.append((location, value))
    for location, value in reversed(changed):
        location.write(value)
    if changed:
        names = ", ".join(dict.fromkeys(location.name for location, _ in changed[:3]))
        raise Unsupported(f"the function changes {names}")


def unchanged_elements(value: tuple[Any, ...], now: tuple[Any, ...]) -> bool:
    """Whether a container has the very elements that it had; a tensor for another one is a change."""
    return len(value) == len(now) and all(
        a is b or (a.__class__ in (bool, int, float, complex, str, bytes) and same(a, b))
        for a, b in zip(value, now, strict=True)
    )


class Refusals:
    """What a function did that no graph does, even if it caught the error that told it so."""

    def __init__(self) -> None:
        self.first: Unsupported | None = None

    def refuse(self, reason: str) -> None:
        """Raise Unsupported, and remember it."""
        error = Unsupported(reason)
        self.first = self.first or error
        raise error


@contextmanager
def refusing_effects(held: Container[int]) -> Iterator[Refusals]:
    """Raise Unsupported where the user's code, in this thread, does what no graph does.

    That is output, a look at a clock, and a seed; at the end of the block, a draw from the random numbers of Python's
    or NumPy's own generators. So is reading the value of a tensor that was there before, whose ids are `held`: it is
    another one in later calls, and what the function has written to it is not there yet.
    """
    thread, refusals = threading.get_ident(), Refusals()
    state, numpy_state = random.getstate(), np.random.get_state(legacy=False)

    def refusing(name: str, reason: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def refused(*args: Any, **kwargs: Any) -> Any:
            if threading.get_ident() == thread and is_users(sys._getframe(1).f_code.co_filename):
                refusals.refuse(f"{name} {reason}")
            return original(*args, **kwargs)

        return refused

    places: list[tuple[Any, str, str]] = [
        (builtins, "print", OUTPUT),
        (builtins, "input", OUTPUT),
        (builtins, "open", OUTPUT),
        (warnings, "warn", OUTPUT),
        *(
            (time, name, CLOCK)
            for name in ("time", "time_ns", "perf_counter", "perf_counter_ns", "monotonic")
        ),
    ]
    before = [(holder, name, getattr(holder, name)) for holder, name, _ in places]
    handle, streams = logging.Logger.handle, (sys.stdout, sys.stderr)
    seed, restore = Generator.manual_seed, Generator.set_state_bytes

    def handled(logger: Any, record: Any) -> Any:
        if threading.get_ident() == thread and is_users(record.pathname):
            refusals.refuse(f"logging {OUTPUT}")
        return handle(logger, record)

    def seeded(generator: Any, value: int) -> Any:
        if threading.get_ident() == thread:
            refusals.refuse(f"a seed {OUTPUT}")
        return seed(generator, value)

    def restored(generator: Any, value: bytes) -> None:
        if threading.get_ident() == thread:
            refusals.refuse(f"the state of a generator {OUTPUT}")
        restore(generator, value)

    def reading(original: Callable[..., Any]) -> Callable[..., Any]:
        def read(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            if id(tensor) in held and threading.get_ident() == thread:
                refusals.refuse("the function reads the value of a tensor that it holds")
            return original(tensor, *args, **kwargs)

        return read

    for (holder, name, original), (_, _, reason) in zip(before, places, strict=True):
        setattr(holder, name, refusing(f"{name}()", reason, original))
    logging.Logger.handle = handled  # type: ignore[method-assign,assignment]
    Generator.manual_seed, Generator.set_state_bytes = seeded, restored  # type: ignore[method-assign,assignment]
    reads = {name: vars(Tensor)[name] for name in READS}
    for name, method in reads.items():
        setattr(Tensor, name, reading(method))
    sys.stdout, sys.stderr = (_Stream(stream, thread, refusals) for stream in streams)
    try:
        yield refusals
    finally:
        sys.stdout, sys.stderr = streams
        logging.Logger.handle = handle  # type: ignore[method-assign]
        Generator.manual_seed, Generator.set_state_bytes = seed, restore  # type: ignore[method-assign]
        for name, method in reads.items():
            setattr(Tensor, name, method)
        for holder, name, original in before:
            setattr(holder, name, original)
    if random.getstate() != state:
        random.setstate(state)
        raise Unsupported("the function draws from Python's random numbers; draw from tt.rand and its kin")
    if not same_state(numpy_state, np.random.get_state(legacy=False)):
        np.random.set_state(numpy_state)
        raise Unsupported("the function draws from NumPy's random numbers; draw from tt.rand and its kin")


class _Stream:
    """A stream that refuses what the user's code writes in one thread."""

    def __init__(self, stream: Any, thread: int, refusals: Refusals) -> None:
        self._own = (stream, thread, refusals)

    def write(self, text: str) -> Any:
        stream, thread, refusals = self._own
        if threading.get_ident() == thread and is_users(sys._getframe(1).f_code.co_filename):
            refusals.refuse(f"output {OUTPUT}")
        return stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own[0], name)


def is_users(filename: str) -> bool:
    """Whether code is the program's: neither this package's nor the standard library's."""
    return is_observed_file(filename) and not is_own(filename)


def same_state(a: Any, b: Any) -> bool:
    """Whether two states of NumPy's generator are equal."""
    if isinstance(a, dict):
        return all(same_state(a[key], b[key]) for key in a)
    return bool(np.array_equal(a, b))
