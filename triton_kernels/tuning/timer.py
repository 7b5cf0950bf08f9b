"""Device time of a run: CUDA events around it, the L2 flushed before by reading."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ...runtime.cuda.device_guard import device_guard
from ...runtime.cuda.event import Event
from ...runtime.device import device as Device
from .flush import Flush

FLUSH_BYTES = 1 << 29
"""Takes a tenth of a millisecond on the fastest card, in which the host enqueues the call."""


class Timer(Protocol):
    """Takes the time of one run."""

    def microseconds(self, work: Callable[[], object]) -> float:
        """Return the device time of one call of `work`."""


class EventTimer:
    """Timer with CUDA events on the current stream of a device.

    Nothing waits between the flush and the run, so the host is ahead of the device. If a function's own host
    work takes longer than the flush, it is timed too.

    Args:
        device: a CUDA device.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self._flush = Flush(device, "read", FLUSH_BYTES)
        self._start, self._end = Event(enable_timing=True), Event(enable_timing=True)

    def microseconds(self, work: Callable[[], object]) -> float:
        """Return the device time of one call of `work`."""
        with device_guard(self._device.resolved_index):
            self._flush()
            self._start.record()
            work()
            self._end.record()
            self._end.synchronize()
            return self._start.elapsed_time(self._end) * 1e3
