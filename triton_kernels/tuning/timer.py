"""Device time of a run: CUDA events around it, the L2 flushed before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ...runtime.allocator import get_allocator
from ...runtime.cuda.device_guard import device_guard
from ...runtime.cuda.event import Event
from ...runtime.device import device as Device

FLUSH_BYTES = 1 << 29
"""Takes a tenth of a millisecond on the fastest card, in which the host enqueues the call."""
L2_SIZES = 2
"""So many times the L2's size is written at least, whatever it keeps of what was there before."""


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
        with device_guard(device.resolved_index) as cuda:
            l2 = cuda.properties(device.resolved_index).L2_cache_size
            self._flush = get_allocator("cuda").allocate(max(FLUSH_BYTES, L2_SIZES * l2), device)
        self._start, self._end = Event(enable_timing=True), Event(enable_timing=True)
        self._turn = 0

    def microseconds(self, work: Callable[[], object]) -> float:
        """Return the device time of one call of `work`."""
        index = self._device.resolved_index
        self._turn += 1
        with device_guard(index) as cuda:
            cuda.memset(
                self._flush.address, self._turn & 0xFF, self._flush.nbytes, cuda.current_stream(index)
            )
            self._start.record()
            work()
            self._end.record()
            self._end.synchronize()
            return self._start.elapsed_time(self._end) * 1e3
