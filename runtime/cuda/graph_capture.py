"""State of a capture besides its work: generators whose random ops it holds, and fault words of its kernels.

A random op inside a capture reads its seed and offset from device memory, which every replay fills again. A kernel
that checks its input writes to the same word as outside of a capture (`faults`). The graph keeps that word alive.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..data_ptr import DataPtr
from ..device import device as Device
from ..generator import Generator, SeedInMemory, default_generator, set_captured_draws
from .driver import Driver

STATE_BYTES = 16

Allocate = Callable[[int, Device], DataPtr]


class GraphGenerator:
    """Generator state of a graph: where a replay writes seed and offset, and how many counters it takes."""

    __slots__ = ("counters", "generator", "memory")

    def __init__(self, generator: Generator, memory: DataPtr) -> None:
        self.generator = generator
        self.memory = memory
        self.counters = 0

    def reserve(self, counters: int) -> tuple[SeedInMemory, int]:
        """Return the graph's next counters, relative to the offset in memory."""
        first = self.counters
        self.counters += counters
        return SeedInMemory(self.memory.address), first

    def fill(self, cuda: Driver, stream: int) -> None:
        """Take the graph's counters from the generator, and write seed and offset to memory for one replay."""
        if self.counters:
            seed, offset = self.generator.reserve(self.counters)
            cuda.stage_host_to_device(self.memory.address, np.array([seed, offset], np.uint64), stream)


class GraphCapture:
    """Active capture of a graph.

    `number` is the driver's capture id. `kept` holds the host memory that its copies access, `faults` the fault words
    that its kernels raise.
    """

    def __init__(self, allocate: Allocate, device: int, generators: list[Generator]) -> None:
        on = Device("cuda", device)
        self.device = device
        self.number = 0
        self.generators: dict[Generator, GraphGenerator] = {}
        for generator in [default_generator(on), *generators]:
            if generator not in self.generators:
                self.generators[generator] = GraphGenerator(generator, allocate(STATE_BYTES, on))
        self.faults: list[object] = []
        self.kept: list[object] = []


class CapturesUnderway:
    """Active captures of this process's graphs, by the driver's capture id. Random ops query them."""

    def __init__(self, cuda: Driver) -> None:
        self._driver = cuda
        self._captures: dict[int, GraphCapture] = {}

    def begin(self, capture: GraphCapture, stream: int) -> None:
        """Register a capture that has begun on a stream."""
        capture.number = self._driver.capture_id(stream)
        self._captures[capture.number] = capture
        set_captured_draws(self)

    def end(self, capture: GraphCapture) -> None:
        """Unregister a capture that has ended."""
        del self._captures[capture.number]
        if not self._captures:
            set_captured_draws(None)

    def current(self, device: int) -> GraphCapture | None:
        """Return the capture that this thread's current stream of a device takes part in, or None.

        Raises RuntimeError for an invalidated capture, or one begun at the driver without `CUDAGraph`.
        """
        if not self._driver.captures_underway:
            return None
        stream = self._driver.current_stream(device)
        if not self._driver.is_capturing(stream):
            return None
        capture = self._captures.get(self._driver.capture_id(stream))
        if capture is None:
            raise RuntimeError(
                "CUDA error: operation failed due to a previous error during capture, or not part of a capture "
                "that a CUDAGraph began"
            )
        return capture

    def reserve(self, generator: Generator, counters: int) -> tuple[SeedInMemory, int] | None:
        """Return the seed and counters of a random op; see `CapturedDraws`."""
        if generator.device.type != "cuda":
            return None
        capture = self.current(generator.device.resolved_index)
        if capture is None:
            return None
        draws = capture.generators.get(generator)
        if draws is None:
            raise RuntimeError(
                "Attempt to increase offset for a CUDA generator not in capture mode: register it by "
                "CUDAGraph.register_generator_state before the capture begins"
            )
        return draws.reserve(counters)

    def check_may_change(self, generator: Generator, method: str) -> None:
        """Refuse to change a generator's state during a capture; see `CapturedDraws`."""
        if generator.device.type == "cuda" and self.current(generator.device.resolved_index) is not None:
            raise RuntimeError(
                f"Cannot call Generator.{method} during CUDA graph capture: a replay takes the state that the "
                "generator has then"
            )


_underway: CapturesUnderway | None = None


def captures_of(cuda: Driver) -> CapturesUnderway:
    """Return the active captures of the driver's graphs."""
    global _underway
    if _underway is None or _underway._driver is not cuda:
        _underway = CapturesUnderway(cuda)
    return _underway
