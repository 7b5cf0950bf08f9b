"""Futures of communications, completed by a thread or by their waiters.

By default, a separate thread completes the future of a communication. Callbacks given to `then` may start
further communications, as in a hook of `DistributedDataParallel` that compresses gradients. Threads would
start them in a different order on each rank. Inside `completed_by_waiters`, the thread that waits for a
future therefore runs the remaining work itself.
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
    """Return True if this thread is inside `completed_by_waiters`."""
    return _by_waiters.holds


class WorkFuture(Future[Any]):
    """Future that its first waiter completes.

    Args:
        produce: Function that waits and returns the value.
        is_there: Function that returns True if `produce` would not have to wait.
    """

    def __init__(self, produce: Callable[[], Any], is_there: Callable[[], bool]) -> None:
        super().__init__()
        self._produce, self._is_there = produce, is_there
        self._producing = threading.RLock()
        self._has_thread = False

    def done(self) -> bool:
        """Return True if a value or an error exists, or is available without waiting."""
        if not self._done and self._is_there():
            self._fill()
        return self._done

    def wait(self) -> Any:
        """Return the value, and produce it if no other call has."""
        self._fill()
        return self.value()

    def add_done_callback(self, callback: Callable[[Future[Any]], Any]) -> None:
        """Call ``callback(future)`` on completion. A thread ensures completion, since no caller might wait."""
        super().add_done_callback(callback)
        if not self._done and not self._has_thread:
            self._has_thread = True
            threading.Thread(target=self._fill, name="WorkFuture", daemon=True).start()

    def then(self, callback: Callable[[Future[Any]], Any]) -> Future[Any]:
        """Return a future of ``callback(future)``, which the first waiter runs."""

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
            except Exception as error:  # the waiting caller gets it
                self.set_exception(error)
            else:
                self.set_result(value)


def future_of(work: Work) -> Future[Any]:
    """Return a future of a communication's result."""
    future = WorkFuture(work.result, work.is_completed)
    if not _by_waiters.holds:
        future._has_thread = True
        threading.Thread(target=future._fill, name="Work.get_future", daemon=True).start()
    return future
