"""The program of a launch that ends last, which finishes what all of them began: a reduction in one launch.

Programs leave their parts in memory, and each adds one to a counter. The one that finds all others there combines the
parts in the order of the programs, whichever it is, so that results do not depend on the order in which they end. It
sets the counter back to zero for the next launch, which on the same stream begins after it.
"""

from __future__ import annotations

import threading

from ...runtime.cuda.device_guard import device_guard
from ...runtime.cuda.driver import Driver
from ...runtime.cuda.triton.lazy_triton import tl, triton
from ...runtime.data_ptr import DataPtr
from ...runtime.device import device as Device
from ..indexing.index_bounds import filled_bytes
from .reduction_kernels import sum_of

COUNTER_BYTES = 16
"""A counter has 4; the next one is as aligned as tensors are."""
COUNTERS = 256
"""Of streams, that one allocation at the driver has room for."""


@triton.jit
def is_last(counter, programs):
    """Whether all other programs have been here, so that what they stored before can be read; the counter is then 0."""
    # Every lane's stores come before the one lane that counts.
    tl.debug_barrier()
    last = tl.atomic_add(counter, 1, sem="acq_rel") == programs - 1
    tl.atomic_xchg(counter, 0, mask=last, sem="relaxed")
    return last


@triton.jit
def sum_in_order(parts, programs, BLOCK: tl.constexpr):
    """The sum of the parts that all programs left, one after another."""
    lane = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), parts.dtype.element_ty)
    for base in range(0, programs, BLOCK):
        total += tl.load(parts + base + lane, mask=base + lane < programs, other=0)
    return tl.reduce(total, 0, sum_of)


class Counters:
    """A counter for each stream of a device, zero between launches."""

    def __init__(self, cuda: Driver, device: Device) -> None:
        self._driver, self._device = cuda, device
        self._by_stream: dict[int, DataPtr] = {}
        self._adding = threading.Lock()

    def current(self) -> DataPtr:
        """The counter of launches on the current stream. A graph has one for each, which its replays clear."""
        cuda, index = self._driver, self._device.resolved_index
        stream = cuda.current_stream(index)
        if cuda.captures_underway and cuda.is_capturing(stream):
            return filled_bytes(COUNTER_BYTES, 0, self._device)
        found = self._by_stream.get(stream)
        if found is None:
            with self._adding:
                found = self._by_stream.get(stream) or self._added(stream)
        return found

    def _added(self, stream: int) -> DataPtr:
        cuda, device = self._driver, self._device
        index, place = device.resolved_index, len(self._by_stream) % COUNTERS
        if place == 0:
            # At the driver: the allocator's pools come and go, and streams keep their counters.
            nbytes = COUNTERS * COUNTER_BYTES
            with device_guard(index):
                address = cuda.malloc(index, nbytes)
                cuda.note_allocated(address, nbytes, index, stream)
                cuda.memset(address, 0, nbytes, stream)
                cuda.synchronize_stream(stream)
            self._row = DataPtr(address, nbytes, device)
        row = self._row
        found = DataPtr(row.address + place * COUNTER_BYTES, COUNTER_BYTES, device, row)
        self._by_stream[stream] = found
        return found


_counters: dict[tuple[Driver, int], Counters] = {}


def counters_of(cuda: Driver, device: Device) -> Counters:
    """The counters of a device's streams."""
    key = cuda, device.resolved_index
    found = _counters.get(key)
    return _counters.setdefault(key, Counters(cuda, device)) if found is None else found
