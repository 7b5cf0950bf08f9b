"""Side effects: changes outside of tensors, which a graph would not repeat.

Capture runs the function, and then compares objects with their values from a walk before it. It reverts changes, and
the function runs eagerly, once. Side effects that leave no trace in the program's objects (output, clocks, seeds) are
refused when they are called.
"""

from __future__ import annotations

import builtins
import logging
import random
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import FrameType
from typing import Any

import numpy as np

from ...runtime.generator import Generator
from .frames import is_observed_file
from .guards import same
from .locations import Location
from .reachable import Walk
from .stand_ins import StandIns
from .unsupported import Unsupported, is_own, trail_from

OUTPUT = "would be done once, when the function is captured"
CLOCK = "gives something else each time"
THREAD = "runs code in another thread, which a capture does not see"


def changed_locations(before: Walk) -> list[tuple[Location, Any]]:
    """Return the locations whose values differ from those at a walk, with the old values."""
    changed = []
    for location, value in before.locations:
        now = location.read()
        if not (
            unchanged_elements(value, now)
            if location.kind == "elements"
            else value is now or same(value, now)
        ):
            changed.append((location, value))
    return changed


class Looks:
    """Metadata of the tensors that a walk found: a function that changes it has no graph."""

    def __init__(self, walk: Walk) -> None:
        self._looks = [
            (tensor, location, tensor._spec, tensor._data, gradient_of(tensor), dict(vars(tensor)))
            for tensor, location in walk.tensors.values()
        ]

    def changed(self) -> list[tuple[Any, Any, str]]:
        """Return the tensors with changed metadata, each with the old metadata and a name."""
        return [
            (tensor, (spec, data, grad, own), location.name)
            for tensor, location, spec, data, grad, own in self._looks
            if tensor._spec.requires_grad != spec.requires_grad
            or tensor._data is not data
            or gradient_of(tensor) is not grad
            or vars(tensor) != own
        ]

    def restore(self) -> str | None:
        """Put looks back. Returns the name of the first tensor that had another one."""
        first = None
        for tensor, (spec, data, grad, own), name in self.changed():
            first = first or name
            tensor._spec, tensor._data = spec, data
            if tensor._autograd is not None:
                tensor._autograd.grad = grad
            vars(tensor).clear()
            vars(tensor).update(own)
        return first


def gradient_of(tensor: Any) -> Any:
    """Return a tensor's gradient, or None."""
    return None if tensor._autograd is None else tensor._autograd.grad


def refuse_side_effects(before: Walk, looks: Looks) -> None:
    """Revert changes since a walk. Raise Unsupported if there were any."""
    changed = changed_locations(before)
    tensor = looks.restore()
    for location, value in reversed(changed):
        location.write(value)
    if changed:
        names = ", ".join(dict.fromkeys(location.name for location, _ in changed[:3]))
        raise Unsupported(f"the function changes {names}")
    if tensor is not None:
        raise Unsupported(f"the function sets the gradient or an attribute of {tensor}")


def unchanged_elements(value: tuple[Any, ...], now: tuple[Any, ...]) -> bool:
    """Return True if a container has the same elements; an equal tensor that is another object is a change."""
    return len(value) == len(now) and all(
        a is b or (a.__class__ in (bool, int, float, complex, str, bytes) and same(a, b))
        for a, b in zip(value, now, strict=True)
    )


class Refusals:
    """Unsupported actions of a function, even if it caught the errors."""

    def __init__(self) -> None:
        self.first: Unsupported | None = None

    def refuse(self, reason: str) -> None:
        """Raise Unsupported, and remember it."""
        frame = sys._getframe(1)
        error = Unsupported(reason, trail=trail_from(frame))
        self.first = self.first or error
        raise error


def refuse_effects(stand_ins: StandIns, refusals: Refusals) -> None:
    """Make the user's code raise Unsupported for side effects: output, reads of a clock, seeds.

    Args:
        stand_ins: Stand-ins that activate and end this.
        refusals: Record of the first one.
    """
    functions: list[tuple[Any, str, str]] = [
        (builtins, "print", OUTPUT),
        (builtins, "input", OUTPUT),
        (builtins, "open", OUTPUT),
        (warnings, "warn", OUTPUT),
        *(
            (time, name, CLOCK)
            for name in ("time", "time_ns", "perf_counter", "perf_counter_ns", "monotonic")
        ),
    ]

    def refusing(
        name: str, reason: str, asks: Callable[[FrameType], bool] = _is_in_program
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            def refused(*args: Any, **kwargs: Any) -> Any:
                if asks(sys._getframe(2)):
                    refusals.refuse(f"{name} {reason}")
                return original(*args, **kwargs)

            return refused

        return make

    def handling(handle: Callable[..., Any]) -> Callable[..., Any]:
        def handled(logger: Any, record: Any) -> Any:
            if is_users(record.pathname):
                refusals.refuse(f"logging {OUTPUT}")
            return handle(logger, record)

        return handled

    def always_refusing(reason: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        return lambda original: lambda *args, **kwargs: refusals.refuse(f"{reason} {OUTPUT}")

    for holder, name, reason in functions:
        stand_ins.replace_function(holder, name, refusing(f"{name}()", reason))
    for kind, name in ((threading.Thread, "start"), (ThreadPoolExecutor, "submit")):
        stand_ins.replace_function(kind, name, refusing(f"{kind.__name__}.{name}()", THREAD, _is_for_program))
    stand_ins.replace_function(logging.Logger, "handle", handling)
    stand_ins.replace_function(Generator, "manual_seed", always_refusing("a seed"))
    stand_ins.replace_function(Generator, "set_state_bytes", always_refusing("the state of a generator"))
    for name in ("stdout", "stderr"):
        stand_ins.replace(sys, name, lambda stream: _Stream(stream, stand_ins, refusals))


@contextmanager
def refusing_draws() -> Iterator[None]:
    """Raise Unsupported at the end of a block that drew random numbers of Python's or NumPy's own generators."""
    state, numpy_state = random.getstate(), np.random.get_state(legacy=False)
    yield
    if random.getstate() != state:
        random.setstate(state)
        raise Unsupported("the function draws from Python's random numbers; draw from tt.rand and its kin")
    if not same_state(numpy_state, np.random.get_state(legacy=False)):
        np.random.set_state(numpy_state)
        raise Unsupported("the function draws from NumPy's random numbers; draw from tt.rand and its kin")


class _Stream:
    """Stream that refuses writes of the user's code during a capture."""

    def __init__(self, stream: Any, stand_ins: StandIns, refusals: Refusals) -> None:
        self._own = (stream, stand_ins, refusals)

    def write(self, text: str) -> Any:
        stream, stand_ins, refusals = self._own
        if stand_ins.is_active() and is_users(sys._getframe(1).f_code.co_filename):
            refusals.refuse(f"output {OUTPUT}")
        return stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own[0], name)


def is_users(filename: str) -> bool:
    """Return True for code of the program, neither of this package nor of the standard library."""
    return is_observed_file(filename) and not is_own(filename)


def _is_in_program(frame: FrameType) -> bool:
    """Return True for a frame of the program."""
    return is_users(frame.f_code.co_filename)


def _is_for_program(frame: FrameType | None) -> bool:
    """Return True for a frame of the program, or of a library that the program called."""
    while frame is not None and not is_own(frame.f_code.co_filename):
        if _is_in_program(frame):
            return True
        frame = frame.f_back
    return False


def same_state(a: Any, b: Any) -> bool:
    """Return True if two states of a NumPy generator are equal."""
    if isinstance(a, dict):
        return all(same_state(a[key], b[key]) for key in a)
    return bool(np.array_equal(a, b))
