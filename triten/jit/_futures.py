"""`fork` and `wait`: calls that PyTorch's compiled programs make beside each other, made at once here."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any, Generic, NoReturn, TypeVar

_Value = TypeVar("_Value")
_Other = TypeVar("_Other")

_log = logging.getLogger(__name__)


class Future(Generic[_Value]):
    """A value that is there now or will be (`torch.futures.Future`, `torch.jit.Future`).

    Example:
        >>> import triten as tt
        >>> future = tt.jit.Future()
        >>> later = future.then(lambda done: done.value() + 1)
        >>> future.set_result(1)
        >>> later.wait()
        2
    """

    def __init__(self, *, devices: Any = None) -> None:
        self._changed = threading.Condition()
        self._done = False
        self._value: Any = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Future[_Value]], Any]] = []

    def done(self) -> bool:
        """Return whether the future has a value or an error."""
        return self._done

    def wait(self) -> _Value:
        """Wait for the value and return it; raise the error if one was set."""
        with self._changed:
            self._changed.wait_for(self.done)
        return self.value()

    def value(self) -> _Value:
        """Return the value; raise the error if one was set.

        Raises:
            RuntimeError: The future is not completed.
        """
        if not self._done:
            raise RuntimeError("Future.value: the future is not completed; wait() waits for it")
        if self._error is not None:
            raise self._error
        value: _Value = self._value
        return value

    def set_result(self, result: _Value) -> None:
        """Complete the future with a value.

        Raises:
            RuntimeError: The future is complete already.
        """
        self._complete(result, None)

    def set_exception(self, result: BaseException) -> None:
        """Complete the future with an error, which `wait` and `value` raise.

        Raises:
            AssertionError: `result` is not an exception.
            RuntimeError: The future is complete already.
        """
        if not isinstance(result, BaseException):
            raise AssertionError(f"{result} is of type {type(result)}, not an Exception.")
        self._complete(None, result)

    def _complete(self, value: Any, error: BaseException | None) -> None:
        with self._changed:
            if self._done:
                raise RuntimeError(
                    "Attempting to mark a completed Future as complete again. Note that a Future can only be marked "
                    "completed once."
                )
            self._done, self._value, self._error = True, value, error
            callbacks, self._callbacks = self._callbacks, []
            self._changed.notify_all()
        for callback in callbacks:
            self._call_back(callback)

    def _call_back(self, callback: Callable[[Future[_Value]], Any]) -> None:
        """Call a callback; log its error, since the program that completes the future did not cause it."""
        try:
            callback(self)
        except Exception as error:
            _log.error(_describe(error), exc_info=error)

    def add_done_callback(self, callback: Callable[[Future[_Value]], Any]) -> None:
        """Call ``callback(future)`` when it is completed, now if it is. An error of the callback is logged."""
        with self._changed:
            if not self._done:
                self._callbacks.append(callback)
                return
        self._call_back(callback)

    def then(self, callback: Callable[[Future[_Value]], _Other]) -> Future[_Other]:
        """Return a future of the result of ``callback(future)``.

        If the callback raises an error, that future has a RuntimeError with the error as its ``__cause__``.
        """
        following: Future[_Other] = Future()

        def complete(done: Future[_Value]) -> None:
            try:
                result = callback(done)
            except Exception as error:
                failure = RuntimeError(_describe(error))
                failure.__cause__ = error
                following.set_exception(failure)
            else:
                following.set_result(result)

        self.add_done_callback(complete)
        return following

    def __reduce__(self) -> NoReturn:
        raise RuntimeError("Can not pickle torch.futures.Future")


def _describe(error: Exception) -> str:
    return f"Got the following error when running the callback: {type(error).__name__}: {error}"


def check_future(future: object) -> None:
    """Raise RuntimeError for None, and TypeError for another object that is not a future."""
    if future is None:
        raise RuntimeError("Future can't be None")
    if not isinstance(future, Future):
        raise TypeError(f"expected a Future, got {type(future).__name__}")


def fork(func: Callable[..., _Value], *args: Any, **kwargs: Any) -> Future[_Value]:
    """Call a function now, and return its result as a future (`torch.jit.fork`). Its errors propagate to the caller.

    Example:
        >>> import triten as tt
        >>> tt.jit.wait(tt.jit.fork(tt.add, tt.ones(2), 1))
        tensor([2., 2.])
    """
    future: Future[_Value] = Future()
    future.set_result(func(*args, **kwargs))
    return future


def wait(future: Future[_Value]) -> _Value:
    """Wait for a future and return its value (`torch.jit.wait`).

    Raises:
        RuntimeError: `future` is None.
        TypeError: `future` is not a future.
    """
    check_future(future)
    return future.wait()
