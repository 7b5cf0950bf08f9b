"""A communication that is under way."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..dispatch.tensor import Tensor

__all__ = ["DoneWork", "Work"]


class Work:
    """A communication that may not have ended yet (`torch.distributed.Work`).

    Functions of `tt.distributed` give one where ``async_op=True``. Tensors that it reads must stay as they are, and
    those that it writes hold nothing of use, until `wait` returns.
    """

    def __init__(self, results: Sequence[Tensor] = ()) -> None:
        self._results = list(results)

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait for the end.

        Args:
            timeout: Time limit. None means the group's timeout.

        Returns:
            True.

        Raises:
            DistBackendError: the communication failed, or did not end in time.
        """
        raise NotImplementedError

    def is_completed(self) -> bool:
        """Return True if the work has ended, successfully or not."""
        raise NotImplementedError

    def is_success(self) -> bool:
        """Return True if the work has ended successfully."""
        return self.is_completed() and self.exception() is None

    def exception(self) -> BaseException | None:
        """Return the error of the work, if any."""
        return None

    def result(self) -> list[Tensor]:
        """Wait for the end, and return the tensors that were written."""
        self.wait()
        return self._results

    def synchronize(self) -> None:
        """Wait for the end."""
        self.wait()

    def source_rank(self) -> int:
        """Return the rank that sent the message; -1 if there is none."""
        return -1

    def get_future(self) -> Any:
        """Return a `tt.futures.Future` of the result."""
        from .work_future import future_of

        return future_of(self)


class DoneWork(Work):
    """A communication that had nothing to wait for."""

    def wait(self, timeout: timedelta | None = None) -> bool:
        return True

    def is_completed(self) -> bool:
        return True


class FollowedWork(Work):
    """A communication after whose end something is left to do, such as taking parts out of one buffer.

    Args:
        work: the communication.
        finish: Callback that runs once, in the first thread that waits.
    """

    def __init__(self, work: Work, finish: Callable[[], None], results: Sequence[Tensor]) -> None:
        super().__init__(results)
        self._work = work
        self._finish: Callable[[], None] | None = finish
        self._lock = threading.Lock()

    def wait(self, timeout: timedelta | None = None) -> bool:
        self._work.wait(timeout)
        with self._lock:
            if self._finish is not None:
                self._finish()
                self._finish = None
        return True

    def is_completed(self) -> bool:
        return self._work.is_completed()

    def exception(self) -> BaseException | None:
        return self._work.exception()

    def source_rank(self) -> int:
        return self._work.source_rank()
