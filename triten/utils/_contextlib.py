"""Base class of context managers that decorate functions, too (`torch.utils._contextlib`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self, TypeVar

from ..dispatch.autograd.grad_mode import decorated

__all__ = ["_DecoratorContextManager", "_NoParamDecoratorContextManager"]

Function = TypeVar("Function", bound=Callable[..., Any])


class _DecoratorContextManager:
    """A context manager whose instances decorate functions and generator functions.

    A subclass defines `__enter__`, `__exit__`, and `clone` if its `__init__` takes arguments. Each call of a decorated
    function enters a clone; each step of a generator function does.
    """

    def __call__(self, function: Function) -> Function:
        return decorated(function, self.clone)

    def __enter__(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} must define __enter__")

    def __exit__(self, *error: object) -> Any:
        raise NotImplementedError(f"{type(self).__name__} must define __exit__")

    def clone(self) -> Self:
        """Return a context manager of the same kind."""
        return type(self)()


class _NoParamDecoratorContextManager(_DecoratorContextManager):
    """One that decorates without parentheses as well: ``@no_grad`` as ``@no_grad()``."""

    def __new__(cls, function: Callable[..., Any] | None = None) -> Any:
        made = super().__new__(cls)
        return made if function is None else made(function)
