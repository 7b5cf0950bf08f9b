"""Device time by events: interleaved implementations, flushed L2, rotated inputs.

The work is enqueued while the flush runs. The host is therefore well ahead, and the time between the events
contains no enqueue time. Without a flush, the time of a short run contains the time of its enqueuing.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Mapping
from types import ModuleType

from ...triton_kernels.tuning.flush import Flush
from ..interleaved import rotated

tt: ModuleType = importlib.import_module("..", __package__.rpartition(".")[0])

# Takes a fifth of a millisecond on the fastest card: longer than any call takes to be enqueued.
FLUSH_BYTES, REHEARSED_FLUSH_BYTES = 1 << 30, 1 << 12
WARM_UP = 3
MIN_ROUNDS = 5

Work = Callable[[int], object]
"""Enqueues one run over the input set of this number."""


class DeviceClock:
    """Two events on the default stream and the flush of the L2.

    Args:
        rehearsal: If True, flush by a buffer smaller than the L2.
        flush: One of `FLUSHES` (`triton_kernels/tuning/flush.py`). Default: "read".
    """

    def __init__(self, rehearsal: bool, flush: str = "read") -> None:
        self._cuda = tt.library.driver()
        self._index = self._cuda.current_device()
        self._start = self._cuda.create_event(timing=True)
        self._end = self._cuda.create_event(timing=True)
        nbytes = REHEARSED_FLUSH_BYTES if rehearsal else FLUSH_BYTES
        self._flush = Flush(tt.device("cuda", self._index), flush, nbytes, whole=not rehearsal)

    def microseconds(self, work: Work, number: int, *, on_host: bool = False) -> float:
        """Return the device time of one run, or the host time for work on the host."""
        cuda = self._cuda
        if on_host:
            started = time.perf_counter()
            work(number)
            return (time.perf_counter() - started) * 1e6
        self._flush()
        cuda.record_event(self._start, 0)
        work(number)
        cuda.record_event(self._end, 0)
        cuda.synchronize_event(self._end)
        return max(cuda.elapsed(self._start, self._end), 1e-6) * 1e3

    def contest(
        self,
        rivals: Mapping[str, Work],
        *,
        sets: int,
        rounds: int,
        seconds: float,
        on_host: tuple[str, ...] = (),
    ) -> dict[str, list[float]]:
        """Microseconds of each rival, one for each round, in another order each round.

        At most `rounds`, at least five, and no more begin after `seconds`.
        """
        for work in rivals.values():
            for number in range(WARM_UP):
                work(number % sets)
        self._cuda.synchronize()
        times: dict[str, list[float]] = {name: [] for name in rivals}
        until = time.monotonic() + seconds
        for turn in range(rounds):
            if turn >= MIN_ROUNDS and time.monotonic() > until:
                break
            for name in rotated(list(rivals), turn):
                times[name].append(self.microseconds(rivals[name], turn % sets, on_host=name in on_host))
        return times

    def copy_bandwidth(self, nbytes: int, rounds: int) -> tuple[float, list[float]]:
        """Bytes read and written in a second by a device-to-device copy, and the microseconds of each round."""
        source, target = (tt.empty(nbytes, dtype=tt.uint8, device="cuda") for _ in range(2))

        def copy(_: int) -> None:
            self._cuda.copy_device_to_device(target.data_ptr(), source.data_ptr(), nbytes, 0)

        times = self.contest({"copy": copy}, sets=1, rounds=rounds, seconds=5.0)["copy"]
        return 2 * nbytes / (sorted(times)[len(times) // 2] * 1e-6), times
