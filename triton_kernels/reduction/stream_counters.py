"""Counters of programs that have ended, for launches whose last program finishes: some for each stream, all zero."""

from __future__ import annotations

import threading

from ...runtime.cuda.device_guard import device_guard
from ...runtime.cuda.driver import Driver
from ...runtime.data_ptr import DataPtr
from ...runtime.device import device as Device
from ..indexing.index_bounds import filled_bytes
from ..launch import next_power_of_2

COUNTER_BYTES = 4
ROOM = 4096
"""Bytes that a stream has at first: the counters of 1,024 blocks of outputs."""
STREAMS = 16
"""That one allocation at the driver has room for."""


class Counters:
    """Counters for each stream of a device, zero between launches.

    Launches on a stream share them, since each begins after the one before has ended and has set them back.
    """

    def __init__(self, cuda: Driver, device: Device) -> None:
        self._driver, self._device = cuda, device
        self._by_stream: dict[int, DataPtr] = {}
        self._free: list[DataPtr] = []
        self._adding = threading.Lock()

    def current(self, count: int = 1) -> DataPtr:
        """`count` counters of launches on the current stream. A graph has its own, which its replays clear."""
        cuda, index = self._driver, self._device.resolved_index
        nbytes = count * COUNTER_BYTES
        stream = cuda.current_stream(index)
        if cuda.captures_underway and cuda.is_capturing(stream):
            return filled_bytes(nbytes, 0, self._device)
        counters = self._by_stream.get(stream)
        if counters is None or counters.nbytes < nbytes:
            with self._adding:
                counters = self._by_stream.get(stream)
                if counters is None or counters.nbytes < nbytes:
                    counters = self._by_stream[stream] = self._added(stream, nbytes)
        return counters

    def _added(self, stream: int, nbytes: int) -> DataPtr:
        """Room for a stream. That which it had before stays, since launches underway may still count there."""
        if nbytes > ROOM:
            return self._cleared(stream, next_power_of_2(nbytes))
        if not self._free:
            rows = self._cleared(stream, STREAMS * ROOM)
            self._free = [
                DataPtr(rows.address + slot * ROOM, ROOM, self._device, rows) for slot in range(STREAMS)
            ]
        return self._free.pop()

    def _cleared(self, stream: int, nbytes: int) -> DataPtr:
        """Zeros at the driver: the allocator's pools come and go, and streams keep their counters."""
        cuda, index = self._driver, self._device.resolved_index
        with device_guard(index):
            address = cuda.malloc(index, nbytes)
            cuda.note_allocated(address, nbytes, index, stream)
            cuda.memset(address, 0, nbytes, stream)
            cuda.synchronize_stream(stream)
        return DataPtr(address, nbytes, self._device)


_counters: dict[tuple[Driver, int], Counters] = {}


def counters_of(cuda: Driver, device: Device) -> Counters:
    """Return the counters of a device's streams."""
    key = cuda, device.resolved_index
    counters = _counters.get(key)
    return _counters.setdefault(key, Counters(cuda, device)) if counters is None else counters
