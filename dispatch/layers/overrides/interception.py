"""Interception of public calls by function modes; calls outside of modes pay nothing.

While any thread is in a mode, the code object of each public function is replaced by one that checks for modes.
Function objects stay, so that all references to ``tt.add`` remain the same object. Arguments arrive as the caller wrote
them. After the last mode is left, a function gets its own code back at its next call. The next mode replaces only those
functions again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any

from ....runtime.fork_lock import forkable
from ....runtime.traceback_filter import hide_inner_frames
from ...core.flat_signature import FlatSignature, declare
from ...core.op_overload import OpOverload, OpOverloadGroup
from ...core.tensor_function import ALL_DISABLED, handle, handle_operator, overloaded, state
from .overridable import (
    MODES_ONLY,
    UNSEEN,
    accessors,
    overridable_attributes,
    presented,
    public_functions,
)
from .subclass_attributes import is_operator

_lock = forkable(threading.Lock())
_active = 0
_all: list[Interception] = []
_restored: list[Interception] = []


def _asking(*args: Any, **kwargs: Any) -> Any:
    ask: Any = "ask"
    return ask(args, kwargs)


class Interception:
    """Replacement of one function's code.

    Args:
        function: A Python function without free variables.
        func: The function that handlers receive; None for a callable object's ``__call__``, whose first argument is
            that object.
        by_arguments: If True, arguments may handle the call too.
        operator: If True, return NotImplemented instead of raising TypeError.
    """

    __slots__ = ("asking", "by_arguments", "func", "function", "operator", "original", "own", "wrapped")

    def __init__(
        self, function: FunctionType, func: Any, by_arguments: bool = True, operator: bool = False
    ) -> None:
        self.function = function
        self.func = func
        self.by_arguments = by_arguments
        self.operator = operator
        self.own: CodeType = function.__code__
        self.wrapped: Any = function.__dict__.get("__wrapped__")
        self.original = FunctionType(
            self.own, function.__globals__, function.__name__, function.__defaults__, function.__closure__
        )
        self.original.__kwdefaults__ = function.__kwdefaults__
        self.original.__qualname__ = function.__qualname__
        self.original.__annotations__ = function.__annotations__
        if isinstance(self.wrapped, FlatSignature):
            declare([self.original])
        code = _asking.__code__
        self.asking: CodeType = code.replace(
            co_name=self.own.co_name,
            co_qualname=self.own.co_qualname,
            co_consts=tuple([self.ask if each == "ask" else each for each in code.co_consts]),
        )

    def exchange(self) -> None:
        """Make the function check for handlers; `inspect.signature` still finds its own."""
        wrapped = None if isinstance(self.wrapped, FlatSignature) else self.wrapped
        self.function.__wrapped__ = wrapped or self.original  # type: ignore[attr-defined]
        self.function.__code__ = self.asking

    def _restore(self) -> None:
        with _lock:
            if not _active and self.function.__code__ is self.asking:
                self.function.__code__ = self.own
                if self.wrapped is None:
                    del self.function.__wrapped__  # type: ignore[attr-defined]
                else:
                    self.function.__wrapped__ = self.wrapped  # type: ignore[attr-defined]
                _restored.append(self)

    def ask(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Handle a call of the function while its code is replaced."""
        try:
            if not _active:
                self._restore()
                return self.original(*args, **kwargs)
            disabled = state.disabled
            askers = overloaded(args, kwargs) if self.by_arguments and not disabled else []
            if not askers and (not state.modes or disabled == ALL_DISABLED):
                return self.original(*args, **kwargs)
            func = self.func
            if func is None:
                func, args = args[0], args[1:]
            return (handle_operator if self.operator else handle)(func, askers, args, kwargs)
        except BaseException:
            hide_inner_frames()
            raise


def _interceptions() -> Iterator[Interception]:
    seen: set[Callable[..., Any]] = set()
    for _, name, function in public_functions():
        if function not in seen and name not in UNSEEN:
            seen.add(function)
            yield Interception(function, function, name not in MODES_ONLY)
    for name, attribute in overridable_attributes():
        if isinstance(attribute, property):
            for _, function, func in accessors(attribute):
                yield Interception(function, func)
        elif attribute not in seen:
            seen.add(attribute)
            yield Interception(attribute, presented(name), operator=is_operator(name))
    for kind in (OpOverload, OpOverloadGroup):
        yield Interception(kind.__dict__["__call__"], None)


def enter() -> None:
    """Enter a mode in a thread: replace the code of functions that still have their own."""
    global _active
    with _lock:
        if not _all:
            _all.extend(_interceptions())
            _restored.extend(_all)
        _active += 1
        for each in _restored:
            each.exchange()
        _restored.clear()


def leave() -> None:
    """Leave a mode in a thread. After the last mode, functions get their own code back as they are called."""
    global _active
    with _lock:
        _active -= 1
