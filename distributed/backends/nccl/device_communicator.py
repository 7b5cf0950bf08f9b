"""NCCL's communicator on one device, and the stream on which its kernels run."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from weakref import WeakSet

from ....runtime.cuda.device_guard import device_guard
from ....runtime.cuda.event import Event
from ....runtime.cuda.stream import Stream, current_stream

__all__ = ["Call", "DeviceCommunicator", "Issued"]

Call = Callable[[Any, int], None]
"""Calls functions of NCCL, given its communicator and a stream."""


class Issued(NamedTuple):
    """Calls that are on their way.

    Attributes:
        start: the event before them.
        end: the event after them.
        is_captured: whether they became part of a graph.
    """

    start: Event
    end: Event
    is_captured: bool


class DeviceCommunicator:
    """NCCL's communicator on one device.

    Args:
        nccl: the module with NCCL's functions.
        unique_id: the id, which all processes have.
        rank: Rank of this process.
        size: the number of processes.
        device: the device's index.
        series: a name that its calls have in all processes.

    Raises:
        RuntimeError: NCCL refuses, or the current stream is being captured.
    """

    def __init__(self, nccl: Any, unique_id: bytes, rank: int, size: int, device: int, series: str) -> None:
        self.nccl, self.device, self.series = nccl, device, series
        with device_guard(device):
            self._communicator = nccl.NcclCommunicator(size, unique_id, rank)
        self.stream = Stream(f"cuda:{device}")
        self._ready = Event()
        self._is_open = True
        self._lock = threading.Lock()
        _open.add(self)

    def issue(self, calls: Sequence[Call]) -> Issued:
        """Issue NCCL calls together, ordered after the current work of the current stream."""
        start, end = Event(), Event()
        with device_guard(self.device) as cuda:
            current, own = current_stream(self.device), self.stream
            is_captured = bool(cuda.captures_underway) and cuda.is_capturing(current.cuda_stream)
            self._ready.record(current)
            self._ready.wait(own)
            if not is_captured:
                start.record(own)
            if len(calls) > 1:
                self.nccl.groupStart()
            try:
                for call in calls:
                    call(self._communicator, own.cuda_stream)
            finally:
                if len(calls) > 1:
                    self.nccl.groupEnd()
            end.record(own)
        return Issued(start, end, is_captured)

    def late_error(self) -> str | None:
        """Return the asynchronous error that NCCL reports, if any."""
        with self._lock:
            try:
                if self._is_open:
                    self._communicator.check_async_error()
            except self.nccl.NcclError as error:
                return str(error)
        return None

    def abort(self) -> None:
        """End it; kernels that run end without a result."""
        with self._lock, device_guard(self.device):
            if self._is_open:
                self._is_open = False
                self._communicator.abort()

    def close(self) -> None:
        """Destroy the communicator after the issued work."""
        self.stream.synchronize()
        with self._lock, device_guard(self.device):
            if self._is_open:
                self._is_open = False
                self._communicator.destroy()


_open: WeakSet[DeviceCommunicator] = WeakSet()
"""The process's communicators."""


@atexit.register
def _abort_all() -> None:
    """Abort communicators that the program has left open, without waiting for other ranks."""
    for each in list(_open):
        each.abort()
