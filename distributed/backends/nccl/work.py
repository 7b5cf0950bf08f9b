"""A communication of NCCL's that is under way."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from ....runtime.cuda.stream import current_stream
from ...errors import DistBackendError
from ...work import Work
from .watchdog import WATCHDOG, Watched

if TYPE_CHECKING:
    from ....dispatch.tensor import Tensor

__all__ = ["CoalescedWork", "NCCLWork"]

BLOCKING = "TORCH_NCCL_BLOCKING_WAIT"
"""The environment variable that has `Work.wait` wait for the device."""


class NCCLWork(Work):
    """Work on the stream of a communicator.

    `wait` returns at once and has the current stream wait; it waits for the device itself if it is given a time limit,
    where `blocks`, or under ``TORCH_NCCL_BLOCKING_WAIT=1``.

    Args:
        watched: the communication, as the watchdog knows it.
        device: the device's index.
        results: the tensors that are written.
        source: Rank that sent the message.
        blocks: True if `wait` waits for the device.
    """

    def __init__(
        self,
        watched: Watched,
        device: int,
        results: Sequence[Tensor] = (),
        source: int = -1,
        blocks: bool = False,
    ) -> None:
        super().__init__(results)
        self.watched, self.device = watched, device
        self.issued, self.health = watched.issued, watched.health
        self._source = source
        self._blocks = blocks or os.environ.get(BLOCKING) == "1"

    def wait(self, timeout: timedelta | None = None) -> bool:
        self._check()
        if timeout is not None and not self.issued.is_captured:
            WATCHDOG.watch(self.watched._replace(limit=timeout.total_seconds()))
        if (timeout is not None or self._blocks) and not self.issued.is_captured:
            self._wait_for_device()
        self.issued.end.wait(current_stream(self.device))
        return True

    def is_completed(self) -> bool:
        return self.health.error is not None or self.issued.end.query()

    def exception(self) -> BaseException | None:
        return self.health.error

    def result(self) -> list[Tensor]:
        self.wait()
        return self._results

    def source_rank(self) -> int:
        return self._source

    def get_future(self) -> Any:
        from ....futures import Future
        from ...work_future import WorkFuture, are_completed_by_waiters

        if are_completed_by_waiters():  # on the stream, where the waiter continues
            return WorkFuture(self.result, self.is_completed)
        future: Any = Future()

        def fill() -> None:
            try:
                self._wait_for_device()
                future.set_result(self._results)
            except Exception as error:  # the caller that waits for the future gets it
                future.set_exception(error)

        threading.Thread(target=fill, name="Work.get_future", daemon=True).start()
        return future

    def _wait_for_device(self) -> None:
        self.issued.end.synchronize()
        self._check()

    def _check(self) -> None:
        if self.health.error is not None:
            raise self.health.error


class CoalescedWork(Work):
    """Communications issued together at the end of a block (`NCCLCommunicator.coalescing`).

    Waiting for the work earlier issues the calls made so far.

    Args:
        issue: issues them, and calls `begin`.
    """

    def __init__(self, issue: Callable[[], None]) -> None:
        super().__init__()
        self._issue: Callable[[], None] | None = issue
        self._works: list[NCCLWork] = []

    def begin(self, works: list[NCCLWork]) -> None:
        """They have been issued."""
        self._issue, self._works = None, works

    def wait(self, timeout: timedelta | None = None) -> bool:
        if self._issue is not None:
            self._issue()
        if self._issue is not None:  # another thread has the block, or an error ended it
            raise DistBackendError(
                "wait: the communication has not been issued yet; wait after the coalesced block"
            )
        for work in self._works:
            work.wait(timeout)
        return True

    def is_completed(self) -> bool:
        return self._issue is None and all(work.is_completed() for work in self._works)

    def exception(self) -> BaseException | None:
        return next((work.exception() for work in self._works), None)

    def result(self) -> list[Tensor]:
        self.wait()
        return [tensor for work in self._works for tensor in work.result()]
