"""Futures of communications, and who completes them.

A future of a communication is completed by a thread of its own. Where several communications follow each other in
functions given to `then`, as in a hook of `DistributedDataParallel` that compresses gradients, threads would begin them
in another order in each process. So while `completed_by_waiters` is entered, whoever waits for a future does what is
left to do, in its own thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from ..futures import Future
from .work import Work

__all__ = ["WorkFuture", "are_completed_by_waiters", "completed_by_waiters", "future_of"]


class _ByWaiters(threading.local):
    holds = False


_by_waiters = _ByWaiters()


@contextmanager
def completed_by_waiters() -> Iterator[None]:
    """Inside, in this thread, futures of communications are completed by those who wait for them."""
    before, _by_waiters.holds = _by_waiters.holds, True
    try:
        yield
    finally:
        _by_waiters.holds = before


def are_completed_by_waiters() -> bool:
    """Whether this thread is inside of `completed_by_waiters`."""
    return _by_waiters.holds


class WorkFuture(Future[Any]):
    """A future that is completed by whoever waits for it first.

    Args:
        produce: waits, and gives the value.
        is_there: whether `produce` would not have to wait.
    """

    def __init__(self, produce: Callable[[], Any], is_there: Callable[[], bool]) -> None:
        super().__init__()
        self._produce, self._is_there = produce, is_there
        self._producing = threading.RLock()
        self._has_thread = False

    def done(self) -> bool:
        """Whether there is a value, or an error, or could be at once."""
        if not self._done and self._is_there():
            self._fill()
        return self._done

    def wait(self) -> Any:
        """The value, which this call produces if nobody has."""
        self._fill()
        return self.value()

    def add_done_callback(self, callback: Callable[[Future[Any]], Any]) -> None:
        """Call ``callback(future)`` when it is completed: a thread sees to it, as nobody might wait."""
        super().add_done_callback(callback)
        if not self._done and not self._has_thread:
            self._has_thread = True
            threading.Thread(target=self._fill, name="WorkFuture", daemon=True).start()

    def then(self, callback: Callable[[Future[Any]], Any]) -> Future[Any]:
        """A future of what ``callback(future)`` will return to whoever waits for it."""

        def produce() -> Any:
            with suppress(Exception):  # the callback asks for the value, and gets the error
                self.wait()
            return callback(self)

        return WorkFuture(produce, self.done)

    def _fill(self) -> None:
        if self._done:
            return
        with self._producing:
            if self._done:
                return
            try:
                value = self._produce()
            except Exception as error:  # whoever waits gets it
                self.set_exception(error)
            else:
                self.set_result(value)


def future_of(work: Work) -> Future[Any]:
    """A future of a communication's result."""
    future = WorkFuture(work.result, work.is_completed)
    if not _by_waiters.holds:
        future._has_thread = True
        threading.Thread(target=future._fill, name="Work.get_future", daemon=True).start()
    return future
