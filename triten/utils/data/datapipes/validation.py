"""Decorators that validate pipes: their determinism and their types."""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable, Iterator
from typing import Any

from .datapipe import IterDataPipe

__all__ = [
    "argument_validation",
    "guaranteed_datapipes_determinism",
    "non_deterministic",
    "runtime_validation",
    "runtime_validation_disabled",
]


class _Asked:
    determinism = False
    types = True


class guaranteed_datapipes_determinism:
    """Refuse pipes that are `non_deterministic`, from now on or for a block."""

    def __init__(self) -> None:
        self.prev = _Asked.determinism
        _Asked.determinism = True

    def __enter__(self) -> None:
        """Do nothing: the constructor has enabled it."""

    def __exit__(self, *error: object) -> None:
        _Asked.determinism = self.prev


class non_deterministic:
    """Decorator of pipe classes whose samples vary between iterations (`torch.utils.data.non_deterministic`).

    Args:
        arg: the class; or a function of the constructor's arguments that tells whether such a pipe is.

    Raises:
        TypeError: for what is neither; and by the class, where determinism is guaranteed.

    Example:
        >>> from triten.utils.data import IterDataPipe, guaranteed_datapipes_determinism, non_deterministic
        >>> @non_deterministic
        ... class Shuffled(IterDataPipe):
        ...     pass
        >>> with guaranteed_datapipes_determinism():
        ...     Shuffled()
        Traceback (most recent call last):
        TypeError: Shuffled is non-deterministic, but you set 'guaranteed_datapipes_determinism'. You can turn off...
    """

    cls: type[IterDataPipe[Any]] | None = None

    def __init__(self, arg: Any) -> None:
        self._tells: Callable[..., Any] | None = None
        if isinstance(arg, type):
            if not issubclass(arg, IterDataPipe):
                raise TypeError(
                    f"Only `IterDataPipe` can be decorated with `non_deterministic`, but {arg.__name__} is found"
                )
            self.cls = arg
        elif callable(arg):
            self._tells = arg
        else:
            raise TypeError(f"{arg} can not be decorated by non_deterministic")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.cls is None:
            if not (isinstance(args[0], type) and issubclass(args[0], IterDataPipe)):
                raise TypeError(f"Only `IterDataPipe` can be decorated, but {args[0]} is found")
            self.cls = args[0]
            return self.deterministic_wrapper_fn
        if _Asked.determinism:
            raise TypeError(self._refusal(""))
        return self.cls(*args, **kwargs)

    def deterministic_wrapper_fn(self, *args: Any, **kwargs: Any) -> IterDataPipe[Any]:
        """Build the pipe if its arguments make it deterministic."""
        assert self._tells is not None and self.cls is not None
        is_deterministic = self._tells(*args, **kwargs)
        if not isinstance(is_deterministic, bool):
            raise TypeError(
                "deterministic_fn of `non_deterministic` decorator is required to return a boolean value, but "
                f"{type(is_deterministic)} is found"
            )
        if is_deterministic and _Asked.determinism:
            raise TypeError(self._refusal(" with the inputs"))
        return self.cls(*args, **kwargs)

    def _refusal(self, suffix: str) -> str:
        assert self.cls is not None
        return (
            f"{self.cls.__name__} is non-deterministic{suffix}, but you set 'guaranteed_datapipes_determinism'. You "
            "can turn off determinism for this DataPipe if that is acceptable for your application"
        )


def argument_validation(f: Callable[..., Any]) -> Callable[..., Any]:
    """Check the arguments that a function annotates as pipes (`torch.utils.data.argument_validation`).

    Raises:
        TypeError: by the function, for an argument that is none.
    """
    signature = inspect.signature(f)

    @functools.wraps(f)
    def checked(*args: Any, **kwargs: Any) -> Any:
        hints = typing.get_type_hints(f)
        for name, value in signature.bind(*args, **kwargs).arguments.items():
            hint = typing.get_origin(hints.get(name)) or hints.get(name)
            is_pipe = isinstance(hint, type) and issubclass(hint, IterDataPipe)
            if is_pipe and not isinstance(value, IterDataPipe):
                raise TypeError(f"Expected argument '{name}' as a IterDataPipe, but found {type(value)}")
        return f(*args, **kwargs)

    return checked


def runtime_validation(f: Callable[[Any], Any]) -> Callable[[Any], Iterator[Any]]:
    """Wrap ``__iter__`` to check samples against its hint (`torch.utils.data.runtime_validation`).

    Classes are: ``Iterator[int]``, ``Iterator[int | str]``, and of ``Iterator[tuple[int, str]]`` the tuple.

    Raises:
        TypeError: for a function of another name.
        RuntimeError: by the iterator, for a sample of another class.

    Example:
        >>> from collections.abc import Iterator
        >>> from triten.utils.data import IterDataPipe, runtime_validation
        >>> class Numbers(IterDataPipe[int]):
        ...     @runtime_validation
        ...     def __iter__(self) -> Iterator[int]:
        ...         yield "one"
        >>> list(Numbers())
        Traceback (most recent call last):
        RuntimeError: Expected an instance as subtype of <class 'int'>, but found one(<class 'str'>)
        This exception is thrown by __iter__ of Numbers()
    """
    if f.__name__ != "__iter__":
        raise TypeError(f"Can not decorate function {f.__name__} with 'runtime_validation'")

    @functools.wraps(f)
    def checked(self: Any) -> Iterator[Any]:
        expected = _sample_classes(f)
        for sample in f(self):
            if _Asked.types and expected is not None and not isinstance(sample, expected):
                raise RuntimeError(
                    f"Expected an instance as subtype of {expected}, but found {sample}({type(sample)})"
                )
            yield sample

    return checked


def _sample_classes(f: Callable[[Any], Any]) -> Any:
    """Return the classes to check a sample against with `isinstance`; None if the hint allows no check."""
    arguments = typing.get_args(typing.get_type_hints(f).get("return"))
    hint = arguments[0] if arguments else None
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        return hint if all(isinstance(each, type) for each in typing.get_args(hint)) else None
    plain = origin or hint
    return plain if isinstance(plain, type) else None


class runtime_validation_disabled:
    """Let samples of all classes through `runtime_validation`, from now on or for a block."""

    def __init__(self) -> None:
        self.prev = _Asked.types
        _Asked.types = False

    def __enter__(self) -> None:
        """Return None, since `__init__` has already switched the checks off."""

    def __exit__(self, *error: object) -> None:
        _Asked.types = self.prev
