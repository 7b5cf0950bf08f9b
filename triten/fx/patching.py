"""Patches during tracing: functions in the program's modules, and methods of `Module`."""

from __future__ import annotations

import builtins
import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, TypeVar, overload

from ..dispatch.layers.overrides import interception
from .node import map_aggregate
from .proxy import Proxy

Function = TypeVar("Function", bound=Callable[..., Any])

wrapped_globals: dict[tuple[int, str], dict[str, Any]] = {}
"""The globals that hold a function which `wrap` named, by their identity and the function's name."""

_MISSING: Any = object()


def find_proxy(*values: Any) -> Proxy | None:
    """Return a proxy among values, nested ones too; None if there is none."""
    proxies: list[Proxy] = []
    map_aggregate(values, lambda leaf: proxies.append(leaf) if isinstance(leaf, Proxy) else None)
    return proxies[-1] if proxies else None


def recording(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function so that a call with proxies is recorded as one node."""

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        proxy = find_proxy(args, kwargs)
        if proxy is None:
            return function(*args, **kwargs)
        result = proxy.tracer.create_proxy("call_function", function, args, kwargs)
        result.node.meta["is_wrapped"] = True
        return result

    wrapped.__fx_already_patched = True  # type: ignore[attr-defined]
    return wrapped


@contextmanager
def arguments_as_written() -> Iterator[None]:
    """Pass arguments to handlers as written, by position or by name, inside the block."""
    interception.enter()
    try:
        yield
    finally:
        interception.leave()


class Patcher:
    """Patcher that undoes its patches at the end of its block, newest first.

    In the block public functions give their arguments to handlers as they were written.
    """

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []
        self._visited: set[int] = set()

    def __enter__(self) -> Patcher:
        interception.enter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._put_back()
        finally:
            self._put_back()  # what is left after an interrupt
            self._visited.clear()
            interception.leave()

    def _put_back(self) -> None:
        while self._undo:
            self._undo[-1]()
            self._undo.pop()

    def patch_method(self, cls: type, name: str, function: Callable[..., Any]) -> None:
        """Exchange a method of a class."""
        before = getattr(cls, name)
        self._undo.append(lambda: setattr(cls, name, before))
        setattr(cls, name, function)

    def record_calls(self, holder: MutableMapping[str, Any], name: str) -> None:
        """Have calls of the function that globals know by a name be recorded."""
        present = holder.get(name, _MISSING)
        function = getattr(builtins, name, None) if present is _MISSING else present
        if function is None or getattr(function, "__fx_already_patched", False):
            return
        if present is _MISSING:
            self._undo.append(lambda: holder.pop(name, None))
        else:
            self._undo.append(lambda: holder.__setitem__(name, present))
        holder[name] = recording(function)

    def record_wrapped(self) -> None:
        """Have calls of all functions that `wrap` named be recorded."""
        for (_, name), holder in list(wrapped_globals.items()):
            self.record_calls(holder, name)

    def record_known(self, holder: MutableMapping[str, Any], identities: Iterable[int]) -> None:
        """Have calls of those functions in globals be recorded that are among `identities`; looks once."""
        if id(holder) in self._visited:
            return
        self._visited.add(id(holder))
        for name, value in list(holder.items()):
            if not name.startswith("_") and callable(value) and id(value) in identities:
                self.record_calls(holder, name)


@overload
def wrap(fn_or_name: str) -> str: ...
@overload
def wrap(fn_or_name: Function) -> Function: ...
def wrap(fn_or_name: Any) -> Any:
    """Have calls of a function be recorded as one step instead of being traced through (`torch.fx.wrap`).

    Call it at the top level of the module that holds the function, or use it there as a decorator.

    Args:
        fn_or_name: the function, or its name, which may be that of a built-in function.

    Raises:
        RuntimeError: for what is neither.
        NotImplementedError: inside a function.

    Example:
        >>> import triten as tt
        >>> @tt.fx.wrap
        ... def total(values):
        ...     return sum(values[i] for i in range(len(values)))
        >>> module = tt.fx.symbolic_trace(lambda x: total(x) + 1)
        >>> [node.name for node in module.graph.nodes]
        ['x', 'total', 'add', 'output']
        >>> module([tt.ones(2), tt.ones(2)])
        tensor([3., 3.])
    """
    if isinstance(fn_or_name, str):
        name = fn_or_name
    elif callable(fn_or_name):
        name = fn_or_name.__name__
    else:
        raise RuntimeError(
            f"wrap(): expected a callable or the name of a global function, got {type(fn_or_name).__name__}"
        )
    frame = inspect.currentframe()
    caller = None if frame is None else frame.f_back
    if caller is None or caller.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    wrapped_globals[id(caller.f_globals), name] = caller.f_globals
    return fn_or_name
