"""Work on a CUDA device as slices: events around single runs, flushed L2, rotated input sets, and graph
replays.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from types import CodeType
from typing import Any

from ..gpu.timing import DeviceClock
from ..interleaved import Slice
from .libraries import Library, tt
from .results import OURS
from .workload import Workload

ROTATED_BYTES = 1 << 28
MAX_SETS = 4
WARM_UP = 3
FLUSH = "read"
"""How the L2 is flushed before each run (`triton_kernels/tuning/flush.py`)."""


class DeviceWork:
    """Slices of work on the device. In a rehearsal the baselines run and are timed on the host."""

    def __init__(self, rehearsal: bool, graph: bool) -> None:
        self._clock = DeviceClock(rehearsal, FLUSH)
        self._rehearsal = rehearsal
        self._graph = graph

    def sets_of(self, workload: Workload) -> int:
        """Return the number of input sets to rotate, so that together they far exceed the L2."""
        elements = sum(math.prod(operand.array().shape) for operand in workload.operands.values())
        return 2 if self._rehearsal else max(1, min(MAX_SETS, -(-ROTATED_BYTES // max(4 * elements, 1))))

    def slice(self, code: CodeType, namespaces: Sequence[dict[str, Any]], library: Library) -> Slice:
        """Seconds on the device of so many single runs, each over the next input set."""

        def work(number: int) -> object:
            return exec(code, namespaces[number])

        run = work
        if self._graph and library.name == OURS:
            replays = [
                self._captured(lambda number=number: work(number)) for number in range(len(namespaces))
            ]

            def run(number: int) -> object:
                return replays[number]()

        on_host = self._rehearsal and library.device == "cpu"
        turns = itertools.count()

        def timed(count: int) -> float:
            numbers = [next(turns) % len(namespaces) for _ in range(count)]
            return 1e-6 * sum(self._clock.microseconds(run, number, on_host=on_host) for number in numbers)

        return timed

    def _captured(self, work: Any) -> Any:
        side = tt.cuda.Stream()
        side.wait_stream(tt.cuda.current_stream())
        with tt.cuda.stream(side):
            for _ in range(WARM_UP):
                work()
        tt.cuda.current_stream().wait_stream(side)
        graph = tt.cuda.CUDAGraph()
        with tt.cuda.graph(graph):
            work()
        return graph.replay

    def copy_bytes_per_second(self, nbytes: int, rounds: int) -> float:
        """Bytes read and written in a second by a device-to-device copy."""
        return self._clock.copy_bandwidth(nbytes, rounds)[0]

    def empty_seconds(self, rounds: int) -> float:
        """Return the time between two events with no work between them."""
        return 1e-6 * min(self._clock.microseconds(lambda number: None, 0) for _ in range(rounds))
