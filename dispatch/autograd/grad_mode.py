"""`no_grad`, `enable_grad`, `set_grad_enabled`, `inference_mode`: context managers and decorators."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from typing import Any, Self, TypeVar, overload

from ...runtime import grad_mode
from ...runtime.local_dispatch_key_set import modes

Function = TypeVar("Function", bound=Callable[..., Any])


def decorated(function: Function, context: Callable[[], AbstractContextManager[None]]) -> Function:
    """Wrap a function so that every call runs inside a context of its own.

    The body of a generator function runs as its values are requested. Each step enters the context, and the caller's
    mode is restored between steps.
    """
    if inspect.isclass(function):
        warnings.warn(
            "Decorating classes is deprecated and will be disabled in future versions. You should only decorate "
            f"functions or methods, here {function.__name__}.__init__.",
            FutureWarning,
            stacklevel=3,
        )
    if inspect.isgeneratorfunction(function):

        @functools.wraps(function)
        def steps(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
            with context():
                generator = function(*args, **kwargs)
            resume = functools.partial(next, generator)
            while True:
                try:
                    with context():
                        value = resume()
                except StopIteration as end:
                    return end.value
                try:
                    sent = yield value
                except GeneratorExit:
                    with context():
                        generator.close()
                    raise
                except BaseException as error:
                    resume = functools.partial(generator.throw, error)
                else:
                    resume = functools.partial(generator.send, sent)

        return steps  # type: ignore[return-value]

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with context():
            return function(*args, **kwargs)

    return wrapped  # type: ignore[return-value]


class _GradContext:
    """A context manager that sets grad mode for its thread; calling it decorates a function."""

    __slots__ = ("_before", "_enabled")

    def __init__(self, enabled: bool) -> None:
        self._enabled = enabled
        self._before: list[bool] = []

    def __enter__(self) -> None:
        self._before.append(grad_mode.set_grad_enabled(self._enabled))

    def __exit__(self, *error: object) -> None:
        grad_mode.set_grad_enabled(self._before.pop())

    def __call__(self, function: Function) -> Function:
        return decorated(function, functools.partial(_GradContext, self._enabled))


class no_grad(_GradContext):
    """Context manager and decorator in which this thread's operators record nothing (`torch.no_grad`).

    Example:
        >>> import triten as tt
        >>> x = tt.ones(2, requires_grad=True)
        >>> with tt.no_grad():
        ...     y = x * 2
        >>> y.requires_grad
        False
    """

    __slots__ = ()

    @overload
    def __new__(cls, function: None = None) -> Self: ...
    @overload
    def __new__(cls, function: Function) -> Function: ...  # type: ignore[misc]
    def __new__(cls, function: Callable[..., Any] | None = None) -> Any:
        made = object.__new__(cls)
        if function is None:
            return made
        made.__init__()  # type: ignore[misc]  # used as a bare decorator, @no_grad
        return made(function)

    def __init__(self, function: Callable[..., Any] | None = None) -> None:
        super().__init__(False)


class enable_grad(_GradContext):
    """Context manager and decorator in which operators record, even inside `no_grad` (`torch.enable_grad`)."""

    __slots__ = ()

    @overload
    def __new__(cls, function: None = None) -> Self: ...
    @overload
    def __new__(cls, function: Function) -> Function: ...  # type: ignore[misc]
    def __new__(cls, function: Callable[..., Any] | None = None) -> Any:
        made = object.__new__(cls)
        if function is None:
            return made
        made.__init__()  # type: ignore[misc]  # used as a bare decorator, @enable_grad
        return made(function)

    def __init__(self, function: Callable[..., Any] | None = None) -> None:
        super().__init__(True)


class set_grad_enabled(_GradContext):
    """Function that sets grad mode at once; as a context manager, it restores the mode before the call on exit.

    An object may be entered any number of times. Each exit restores the mode before the call.
    """

    __slots__ = ("_restored",)

    def __init__(self, mode: bool) -> None:
        super().__init__(bool(mode))
        self._restored = grad_mode.set_grad_enabled(bool(mode))

    def __enter__(self) -> None:
        grad_mode.set_grad_enabled(self._enabled)

    def __exit__(self, *error: object) -> None:
        grad_mode.set_grad_enabled(self._restored)

    def __call__(self, function: Function) -> Function:
        grad_mode.set_grad_enabled(self._restored)
        return super().__call__(function)


class inference_mode:
    """Context manager in which new tensors have no version counter and no autograd keys (`torch.inference_mode`).

    Example:
        >>> import triten as tt
        >>> with tt.inference_mode():
        ...     y = tt.ones(2) + 1
        >>> y.is_inference()
        True
    """

    __slots__ = ("_before", "_mode")

    @overload
    def __new__(cls, mode: bool = True) -> Self: ...
    @overload
    def __new__(cls, mode: Function) -> Function: ...  # type: ignore[misc]
    def __new__(cls, mode: bool | Callable[..., Any] = True) -> Any:
        made = object.__new__(cls)
        if isinstance(mode, bool):
            return made
        made.__init__()  # type: ignore[misc]  # used as a bare decorator, @inference_mode
        return made(mode)

    def __init__(self, mode: bool = True) -> None:
        self._mode = mode
        self._before: list[tuple[bool, bool]] = []

    def __enter__(self) -> None:
        self._before.append(
            (grad_mode.set_inference_mode(self._mode), grad_mode.set_grad_enabled(not self._mode))
        )
        modes.append(self)

    def __exit__(self, *error: object) -> None:
        modes.remove(self)
        inference, grad = self._before.pop()
        grad_mode.set_inference_mode(inference)
        grad_mode.set_grad_enabled(grad)

    def __call__(self, function: Function) -> Function:
        return decorated(function, functools.partial(inference_mode, self._mode))
