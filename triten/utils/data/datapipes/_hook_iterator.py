"""The rule that a pipe has one valid iterator at a time, and what a pipe counts while it is iterated over.

`hook_iterator` wraps ``__iter__``, ``__next__`` and ``reset`` of each subclass of `IterDataPipe`. A new iterator
invalidates the previous one and resets the pipe.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Generator, Iterator
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .datapipe import IterDataPipe

    Pipe = IterDataPipe[Any]


class _SnapshotState(Enum):
    """How a pipe's next iterator begins.

    Attributes:
        NotStarted: It has had no iterator; the next one resets it.
        Restored: It was advanced to a snapshot; the next iterator goes on from there, without a reset.
        Iterating: It has an iterator; the next one resets it.
    """

    NotStarted = 0
    Restored = 1
    Iterating = 2


def describe(pipe: Pipe) -> str:
    """Return a pipe's class and constructor arguments, for error messages."""
    values = vars(pipe)
    names = [name for name in inspect.signature(type(pipe)).parameters if name in values]
    shown = (f"{name}={_short(values[name])}" for name in sorted(names))
    return f"{type(pipe).__name__}({', '.join(shown)})"


def _short(value: object) -> str:
    return value.__name__ if inspect.isfunction(value) else repr(value)


def invalidated(pipe: Pipe) -> RuntimeError:
    """Return the error of an iterator that a newer one has replaced."""
    return RuntimeError(
        "This iterator has been invalidated because another iterator has been created from the same IterDataPipe: "
        f"{describe(pipe)}\nThis may be caused by multiple references to the same IterDataPipe. We recommend using "
        "`.fork()` if that is necessary."
    )


class _CheckedIterator(Iterator[Any]):
    """The iterator of an ``__iter__`` that is no generator function; other attributes are those of the iterator."""

    def __init__(self, pipe: Pipe, iterator: Iterator[Any], number: int, does_count: bool) -> None:
        self.datapipe, self.iterator = pipe, iterator
        self._number, self._does_count = number, does_count

    def __next__(self) -> Any:
        pipe = self.datapipe
        pipe._check_iterator(self._number)
        sample = next(self.iterator)
        if self._does_count:
            pipe._number_of_samples_yielded += 1
        return sample

    def __getattr__(self, name: str) -> Any:
        if name == "iterator":  # a copy that has no attributes yet
            raise AttributeError(name)
        return getattr(self.iterator, name)


def _generating(iterate: Callable[[Any], Generator[Any, Any, Any]]) -> Callable[[Any], Iterator[Any]]:
    """Wrap an ``__iter__`` that is a generator function; the pipe is reset when the first sample is asked for."""

    def samples(pipe: Pipe) -> Generator[Any, Any, None]:
        ahead = pipe._fast_forward_iterator
        if ahead is not None:
            pipe._fast_forward_iterator = None
            pipe._snapshot_state = _SnapshotState.Iterating
            yield from ahead
            return
        number = pipe._begin_iterator()
        generator = iterate(pipe)
        request = None
        while True:
            pipe._check_iterator(number)
            pipe._is_running = True  # an ``__iter__`` may ask that of its base
            try:
                sample = generator.send(request)
            except StopIteration:
                return
            except Exception as error:
                _tell_pipe(error, pipe)
                raise
            finally:
                pipe._is_running = False
            pipe._number_of_samples_yielded += 1
            request = yield sample

    @functools.wraps(iterate)
    def begin(self: Pipe) -> Iterator[Any]:
        return iterate(self) if self._is_running else samples(self)

    return begin


def _tell_pipe(error: Exception, pipe: Pipe) -> None:
    """Add the pipe whose ``__iter__`` has failed to an error's message, once."""
    note = f"\nThis exception is thrown by __iter__ of {describe(pipe)}"
    if not error.args or not isinstance(error.args[0], str):
        error.args = (note,)
    elif "thrown by __iter__ of" not in error.args[0] and "has been invalidated" not in error.args[0]:
        error.args = (error.args[0] + note, *error.args[1:])


def _returning(iterate: Callable[[Any], Iterator[Any]], has_next: bool) -> Callable[[Any], Iterator[Any]]:
    """Wrap an ``__iter__`` that returns an iterator.

    Args:
        iterate: The method.
        has_next: True if its class also has ``__next__``, which then counts the samples.
    """

    @functools.wraps(iterate)
    def begin(self: Pipe) -> Iterator[Any]:
        if self._is_running:
            return iterate(self)
        self._is_running = True
        try:
            iterator = iterate(self)
        finally:
            self._is_running = False
        self._snapshot_state = _SnapshotState.Iterating
        ahead = self._fast_forward_iterator
        if ahead is not None:
            self._fast_forward_iterator = None
            return ahead
        number = self._begin_iterator()
        return _CheckedIterator(self, iterator, number, not (has_next and iterator is self))

    return begin


def _advancing(advance: Callable[[Any], Any]) -> Callable[[Any], Any]:
    @functools.wraps(advance)
    def counted(self: Pipe) -> Any:
        sample = advance(self)
        self._number_of_samples_yielded += 1
        return sample

    return counted


def _resetting(reset: Callable[[Any], None]) -> Callable[[Any], None]:
    @functools.wraps(reset)
    def unless_restored(self: Pipe) -> None:
        if self._snapshot_state is not _SnapshotState.Restored:
            self._number_of_samples_yielded = 0
            reset(self)
        self._snapshot_state = _SnapshotState.Iterating

    return unless_restored


def hook_iterator(cls: type[Pipe]) -> None:
    """Wrap the methods of a subclass of `IterDataPipe` that it defines itself."""
    own: dict[str, Any] = dict(vars(cls))
    if "reset" in own:
        cls.reset = _resetting(own["reset"])  # type: ignore[method-assign]
    iterate = own.get("__iter__")
    if iterate is None:
        return
    if inspect.isgeneratorfunction(iterate):
        cls.__iter__ = _generating(iterate)  # type: ignore[method-assign]
        return
    has_next = "__next__" in own
    cls.__iter__ = _returning(iterate, has_next)  # type: ignore[method-assign]
    if has_next:
        cls.__next__ = _advancing(own["__next__"])  # type: ignore[attr-defined]
