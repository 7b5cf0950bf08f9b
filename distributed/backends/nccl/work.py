"""A communication of NCCL's that is under way."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from ....runtime.cuda.stream import current_stream
from ...errors import DistBackendError
from ...work import Work
from .device_communicator import Issued
from .health import GroupHealth
from .watchdog import WATCHDOG

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
        name: the function's, for errors.
        waits_for: what it waits for, for errors.
        device: the device's index.
        issued: NCCL's calls.
        health: the group's.
        results: the tensors that are written.
        source: where a message comes from.
        blocks: whether `wait` waits for the device.
    """

    def __init__(
        self,
        name: str,
        waits_for: str,
        device: int,
        issued: Issued,
        health: GroupHealth,
        results: Sequence[Tensor] = (),
        source: int = -1,
        blocks: bool = False,
    ) -> None:
        super().__init__(results)
        self.name, self.waits_for, self.device, self.issued, self.health = (
            name,
            waits_for,
            device,
            issued,
            health,
        )
        self._source = source
        self._blocks = blocks or os.environ.get(BLOCKING) == "1"

    def wait(self, timeout: timedelta | None = None) -> bool:
        self._check()
        if timeout is not None and not self.issued.is_captured:
            WATCHDOG.watch(self.name, self.waits_for, self.issued, timeout, self.health)
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

        future: Any = Future()

        def fill() -> None:
            try:
                self._wait_for_device()
                future.set_result(self._results)
            except Exception as error:  # whoever waits for the future gets it
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
    """Communications that are issued together, at the end of a block (`NCCLCommunicator.coalescing`)."""

    def __init__(self) -> None:
        super().__init__()
        self.works: list[NCCLWork] | None = None

    def wait(self, timeout: timedelta | None = None) -> bool:
        for work in self._issued():
            work.wait(timeout)
        return True

    def is_completed(self) -> bool:
        return all(work.is_completed() for work in self._issued())

    def exception(self) -> BaseException | None:
        return next((work.exception() for work in self._issued()), None)

    def result(self) -> list[Tensor]:
        self.wait()
        return [tensor for work in self._issued() for tensor in work.result()]

    def _issued(self) -> list[NCCLWork]:
        if self.works is None:
            raise DistBackendError("coalescing: its communications are issued at the end of the block")
        return self.works
