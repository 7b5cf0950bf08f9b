"""Origin of a call that a dispatch mode sees: the program, or a composite or derivative of this package.

PyTorch writes its composites and derivatives in C++, where ``x * 2`` calls ``mul.Scalar``. The same expression in
Python calls ``mul.Tensor``. `dispatched_overload` reads the origin to report PyTorch's overload. Calls that no mode or
subclass sees never set it.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any

from ...runtime.thread_state import origin


class _From:
    """Context manager that sets the origin of this thread's calls."""

    __slots__ = ("before", "is_native")

    def __init__(self, is_native: bool) -> None:
        self.is_native = is_native

    def __enter__(self) -> None:
        self.before = origin.is_native
        origin.is_native = self.is_native

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        origin.is_native = self.before


def from_composites() -> _From:
    """Return a context for calls that PyTorch makes in C++."""
    return _From(True)


def from_python() -> _From:
    """Return a context for calls of user-written code: handlers, hooks, custom functions."""
    return _From(False)


def as_native(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a composite so that its calls count as PyTorch's in C++."""

    def native(*args: Any) -> Any:
        before = origin.is_native
        origin.is_native = True
        try:
            return function(*args)
        finally:
            origin.is_native = before

    return native
