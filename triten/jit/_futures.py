"""`fork` and `wait`: calls that PyTorch's compiled programs make beside each other, made at once here."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

_Value = TypeVar("_Value")
_Other = TypeVar("_Other")


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
            callback(self)

    def add_done_callback(self, callback: Callable[[Future[_Value]], Any]) -> None:
        """Call ``callback(future)`` when it is completed, now where it is."""
        with self._changed:
            if not self._done:
                self._callbacks.append(callback)
                return
        callback(self)

    def then(self, callback: Callable[[Future[_Value]], _Other]) -> Future[_Other]:
        """Return a future of the result of ``callback(future)``, or of the error that it raises."""
        following: Future[_Other] = Future()

        def complete(done: Future[_Value]) -> None:
            try:
                result = callback(done)
            except Exception as error:
                following.set_exception(error)
            else:
                following.set_result(result)

        self.add_done_callback(complete)
        return following


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
    """Wait for a future and return its value (`torch.jit.wait`)."""
    return future.wait()
