"""What a capture collects besides work: generators whose draws it holds, and faults that kernels may report.

A draw inside a capture reads its seed and offset from device memory, which every replay fills anew. A kernel
that checks its input raises a flag, for which the host waits; in a capture it cannot, so the flag stands in
memory of the graph, stays up across replays, and is looked at when the host next waits for the stream that the
graph was replayed on.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..data_ptr import DataPtr
from ..device import device as Device
from ..generator import Generator, SeedInMemory, default_generator, set_captured_draws
from .driver import Driver

FLAGS = 4096
FLAG_BYTES = 4
FLAGS_ALIGNMENT = 4
"""Each call's flags begin at a multiple of 16 bytes, as they do outside a capture: the same kernels take them."""
STATE_BYTES = 16

Allocate = Callable[[int, Device], DataPtr]


class GraphGenerator:
    """A generator as a graph sees it: where a replay puts seed and offset, and how many counters it takes."""

    __slots__ = ("counters", "generator", "memory")

    def __init__(self, generator: Generator, memory: DataPtr) -> None:
        self.generator = generator
        self.memory = memory
        self.counters = 0

    def reserve(self, counters: int) -> tuple[SeedInMemory, int]:
        """The next counters of the graph, relative to the offset in memory."""
        first = self.counters
        self.counters += counters
        return SeedInMemory(self.memory.address), first

    def fill(self, cuda: Driver, stream: int) -> None:
        """Take the graph's counters from the generator, and put where they begin into memory for one replay."""
        if self.counters:
            seed, offset = self.generator.reserve(self.counters)
            cuda.stage_host_to_device(self.memory.address, np.array([seed, offset], np.uint64), stream)


class GraphFlags(DataPtr):
    """Flags that a graph holds: kernels raise them, and nobody waits for them where the kernels are called."""

    __slots__ = ()


class FaultFlags:
    """Flags in device memory that kernels of a graph raise, and the error that each stands for."""

    __slots__ = ("_errors", "_memory")

    def __init__(self, cuda: Driver, allocate: Allocate, device: Device, stream: int) -> None:
        self._memory = allocate(FLAGS * FLAG_BYTES, device)
        self._errors: list[Exception | None] = []
        cuda.memset(self._memory.address, 0, FLAGS * FLAG_BYTES, stream)

    def __len__(self) -> int:
        return len(self._errors)

    @property
    def memory(self) -> DataPtr:
        """The flags, 4 bytes each."""
        return self._memory

    def add(self, errors: list[Exception]) -> GraphFlags:
        """A flag for each error, one after the other. Raises RuntimeError when there are too many."""
        first = len(self._errors)
        if first + len(errors) > FLAGS:
            raise RuntimeError(
                f"a graph can hold {FLAGS} checks of indices or values, and has no room for more"
            )
        self._errors += errors
        self._errors += [None] * (-len(errors) % FLAGS_ALIGNMENT)
        memory, offset = self._memory, first * FLAG_BYTES
        return GraphFlags(memory.address + offset, memory.nbytes - offset, memory.device, memory)

    def check(self, cuda: Driver, stream: int) -> None:
        """Wait for the stream. Raises the error of the first flag that is up, and lowers all of them."""
        found = np.empty(len(self._errors), np.int32)
        cuda.copy_device_to_host(found, self._memory.address, stream)
        if found.any():
            cuda.memset(self._memory.address, 0, found.nbytes, stream)
            error = self._errors[int((found != 0).argmax())]
            assert error is not None
            raise error.with_traceback(None)


class GraphCapture:
    """A capture that a graph has underway. `number` is the driver's, `kept` holds what its copies reach on the host."""

    def __init__(
        self, cuda: Driver, allocate: Allocate, device: int, stream: int, generators: list[Generator]
    ) -> None:
        on = Device("cuda", device)
        self.device = device
        self.number = 0
        self.generators: dict[Generator, GraphGenerator] = {}
        for generator in [default_generator(on), *generators]:
            if generator not in self.generators:
                self.generators[generator] = GraphGenerator(generator, allocate(STATE_BYTES, on))
        self.faults = FaultFlags(cuda, allocate, on, stream)
        self.kept: list[object] = []


class CapturesUnderway:
    """The captures of this process's graphs, by the driver's number; what draws ask."""

    def __init__(self, cuda: Driver) -> None:
        self._driver = cuda
        self._captures: dict[int, GraphCapture] = {}

    def begin(self, capture: GraphCapture, stream: int) -> None:
        """The stream captures for it from here on."""
        capture.number = self._driver.capture_id(stream)
        self._captures[capture.number] = capture
        set_captured_draws(self)

    def end(self, capture: GraphCapture) -> None:
        """It no longer does."""
        del self._captures[capture.number]
        if not self._captures:
            set_captured_draws(None)

    def current(self, device: int) -> GraphCapture | None:
        """The capture that this thread's current stream of a device takes part in.

        Raises RuntimeError for one that was begun at the driver, past `CUDAGraph`, or that was invalidated.
        """
        if not self._driver.captures_underway:
            return None
        stream = self._driver.current_stream(device)
        if not self._driver.is_capturing(stream):
            return None
        found = self._captures.get(self._driver.capture_id(stream))
        if found is None:
            raise RuntimeError(
                "CUDA error: operation failed due to a previous error during capture, or not part of a capture "
                "that a CUDAGraph began"
            )
        return found

    def reserve(self, generator: Generator, counters: int) -> tuple[SeedInMemory, int] | None:
        """The numbers of a draw; see `CapturedDraws`."""
        if generator.device.type != "cuda":
            return None
        capture = self.current(generator.device.resolved_index)
        if capture is None:
            return None
        found = capture.generators.get(generator)
        if found is None:
            raise RuntimeError(
                "Attempt to increase offset for a CUDA generator not in capture mode: register it by "
                "CUDAGraph.register_generator_state before the capture begins"
            )
        return found.reserve(counters)

    def check_may_change(self, generator: Generator, method: str) -> None:
        """Refuse to change a generator's state in a capture; see `CapturedDraws`."""
        if generator.device.type == "cuda" and self.current(generator.device.resolved_index) is not None:
            raise RuntimeError(
                f"Cannot call Generator.{method} during CUDA graph capture: a replay takes the state that the "
                "generator has then"
            )


_underway: CapturesUnderway | None = None
_replayed: dict[FaultFlags, int] = {}
"""Flags of graphs that were replayed and not looked at since, with the stream."""


def captures_of(cuda: Driver) -> CapturesUnderway:
    """The captures of the driver's graphs."""
    global _underway
    if _underway is None or _underway._driver is not cuda:
        _underway = CapturesUnderway(cuda)
    return _underway


def captured_flags(cuda: Driver, device: int, errors: Callable[[], list[Exception]]) -> GraphFlags | None:
    """Lowered flags for kernels that are being captured on the device's current stream; None outside a capture.

    Args:
        errors: makes the error for each flag. It is raised when a replay's flag is found up.
    """
    if not cuda.captures_underway:
        return None
    capture = captures_of(cuda).current(device)
    return None if capture is None else capture.faults.add(errors())


def note_replay(faults: FaultFlags, stream: int) -> None:
    """A graph was replayed: its flags are to be looked at."""
    if len(faults):
        _replayed[faults] = stream


def forget_replays(faults: FaultFlags) -> None:
    """The graph is gone."""
    _replayed.pop(faults, None)


def raise_faults(cuda: Driver, device: int, stream: int | None = None) -> None:
    """Raise what replays reported, on a stream of a device or on all of them, that the host has waited for."""
    for faults, replayed_on in list(_replayed.items()):
        is_waited_for = faults.memory.device.index == device and stream in (None, replayed_on)
        if is_waited_for and _replayed.pop(faults, None) is not None:
            faults.check(cuda, replayed_on)
