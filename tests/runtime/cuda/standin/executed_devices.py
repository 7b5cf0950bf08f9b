"""Devices of a process in which the stand-in executes its work: memory, streams, captures and graphs.

The simulated driver provides them, with the library's handles for names. Streams run as late as possible, the
newest first. Every access is bounds-checked against live allocations. Memory is the library's, at its own
addresses. The live blocks are the driver's allocations, or the blocks that triten's allocator reports
(`Execution.follow_blocks`).
"""

from __future__ import annotations

import ctypes
import sys
import threading
import traceback
from collections.abc import Callable
from functools import partial
from typing import Any

from triten.runtime.cuda.emulator.driver import EmulatorDriver
from triten.runtime.cuda.emulator.global_memory import EmulatedMemory, Segment
from triten.runtime.cuda.simulated.stream import Event, Stream
from triten.runtime.errors import AcceleratorError

ILLEGAL_ADDRESS, LAUNCH_FAILED, UNKNOWN = 700, 719, 999
NON_BLOCKING = 1


class MappedMemory(EmulatedMemory):
    """Device memory that the library maps: segments come and go at given addresses."""

    __slots__ = ()

    def add_segment(self, address: int, nbytes: int) -> None:
        """Keep notes on memory of which nothing was written yet."""
        self._segments[address] = Segment(address, nbytes)
        self._starts = sorted(self._segments)

    def drop_segment(self, address: int) -> None:
        """Forget a segment and its blocks."""
        segment = self._segments.pop(address)
        self._starts = sorted(self._segments)
        for start, _ in self.blocks.overlapping(address, segment.end - segment.start):
            self.blocks.lingering.discard(start)
            self.blocks.of_graphs.discard(start)
            self.blocks.remove(start)

    def copy_notes(self, target: int, source: int, nbytes: int) -> None:
        """Copy the notes on written bytes: bytes that were never written stay so at the target."""
        to, given = self.segment_at(target), self.segment_at(source)
        if to is not None and given is not None:
            begin = source - given.start
            to.written[target - to.start :][:nbytes] = given.written[begin : begin + nbytes]


class GuardedStream(Stream):
    """Stream that skips its work once the devices are lost."""

    __slots__ = ("_devices",)

    def __init__(self, devices: ExecutedDevices, device: int, handle: int, priority: int) -> None:
        super().__init__(device, devices.scheduler, handle, priority)
        self._devices = devices

    def enqueue(self, work: Callable[[], None], kind: str = "work", name: str = "") -> None:
        super().enqueue(partial(self._devices.attempt, work), kind, name)


class ExecutedDevices(EmulatorDriver):
    """Emulated devices with the memory, streams and events of the library.

    Args:
        device_count: The number of devices.
    """

    def __init__(self, device_count: int) -> None:
        super().__init__(device_count)
        self._default_streams = [GuardedStream(self, i, 0, 0) for i in range(device_count)]
        self._blocking: set[int] = set()
        self.findings: list[str] = []
        """What work did that it must not, in words."""
        self.lost = 0
        """CUDA's code of the first such, as which every later call of the process fails."""
        self.following = threading.local()

    def new_memory(self, total: int) -> MappedMemory:
        return MappedMemory(total)

    def mapped(self, device: int) -> MappedMemory:
        """Return the memory of a device."""
        found = self.memory(device)
        assert isinstance(found, MappedMemory)
        return found

    def _streams_of(self, device: int) -> list[Stream]:
        return super()._streams_of(device)[::-1]

    def attempt(self, work: Callable[[], None]) -> None:
        """Do a piece of work, unless the devices are lost; they are when it fails."""
        if self.lost:
            return
        try:
            work()
        except Exception as error:
            self.lose(error)
            raise

    def lose(self, error: Exception) -> int:
        """Note what work did; the code of the fault."""
        if isinstance(error, AcceleratorError):
            code, text = error.error_code, str(error)
        elif "illegal memory access" in str(error):
            code, text = ILLEGAL_ADDRESS, str(error)
        elif isinstance(error, NotImplementedError):
            code, text = LAUNCH_FAILED, f"not emulated: {error}"
        else:
            code, text = UNKNOWN, "".join(traceback.format_exception(error))
        self.lost = code
        self.findings.append(text)
        print(f"standin: {text}", file=sys.stderr, flush=True)
        return code

    def begin(self) -> None:
        """Let what is left of a test before come to its end, and forget what it did."""
        self.settle()
        self.lost = 0
        self.findings.clear()

    def settle(self) -> None:
        """Run everything that is pending. A fault is among the findings."""
        for device in range(self.device_count()):
            streams = self._streams_of(device)
            for stream in streams:
                if stream.releaser is not None:
                    self.scheduler.release(stream)
            while any(stream.queue for stream in streams):
                try:
                    self.scheduler.run_all(streams)
                except Exception as error:
                    if not self.lost:
                        self.lose(error)

    # Streams

    def add_stream(self, handle: int, device: int, flags: int, priority: int) -> None:
        """Register a stream of the library."""
        self._streams[handle] = GuardedStream(self, device, handle, priority)
        if not flags & NON_BLOCKING:
            self._blocking.add(handle)

    def order(self, handle: int, device: int) -> None:
        """Order new work: the default stream and blocking streams wait for each other (CUDA Driver API,
        "Stream synchronization behavior").
        """
        default = self._default_streams[device]
        if handle == 0:
            for other in [self._streams[each] for each in self._blocking if each in self._streams]:
                if other.device == device and other.queue and other.capture is None:
                    default.wait_for(other.record())
        elif handle in self._blocking and default.queue:
            on = self._streams[handle]
            if on.capture is None:
                on.wait_for(default.record())

    def add_event(self, handle: int, device: int, timing: bool) -> None:
        """Register an event of the library."""
        self._events[handle] = Event(timing, device)

    # Work

    def copy(self, target: int, source: int, nbytes: int, stream: int, staged: bool, pinned: int) -> None:
        """Enqueue a copy.

        Args:
            target, source, nbytes: The addresses, and the number of bytes.
            stream: The handle of the stream that orders the copy.
            staged: If True, read the source now, since it may change after the return.
            pinned: The address that is page-locked memory, or 0. It must still be page-locked when the copy runs.
        """
        taken = ctypes.string_at(source, nbytes) if staged else None
        self.stream(stream).enqueue(
            partial(self._copy, target, source, nbytes, taken, pinned),
            "copy",
        )

    def _copy(self, target: int, source: int, nbytes: int, taken: bytes | None, pinned: int) -> None:
        if pinned and not self.host_memory.holds(pinned, nbytes):
            raise AcceleratorError(
                f"CUDA error: an illegal memory access was encountered: copy of {nbytes} bytes: page-locked memory at "
                f"{pinned:#x} was given back before",
                ILLEGAL_ADDRESS,
            )
        to, given = self._device_at(target), self._device_at(source)
        if to is not None:
            self.check_range("copy to device", target, nbytes)
        if given is not None and taken is None:
            self.check_range("copy from device", source, nbytes)
        ctypes.memmove(target, source if taken is None else taken, nbytes)
        if to is not None:
            to.note_written(target, nbytes)
            if to is given:
                to.copy_notes(target, source, nbytes)

    def _device_at(self, address: int) -> MappedMemory | None:
        for device in range(self.device_count()):
            memory = self.mapped(device)
            if memory.segment_at(address) is not None:
                return memory
        return None

    def fill(self, target: int, value: int, nbytes: int, stream: int) -> None:
        """Enqueue a fill."""
        self.memset(target, value, nbytes, stream)

    # Memory

    def add_memory(self, address: int, nbytes: int, device: int) -> None:
        """Register device memory from the library; all of it is live unless it is a segment of triten's
        allocator.
        """
        with self._lock:
            memory = self.mapped(device)
            memory.add_segment(address, nbytes)
            if not getattr(self.following, "on", False):
                memory.blocks.add(address, nbytes)

    def drop_memory(self, address: int, device: int) -> None:
        """Release device memory to the library after the device has finished its work."""
        with self._lock:
            try:
                self.scheduler.run_all(self._streams_of(device))
            finally:
                self.mapped(device).drop_segment(address)

    def drop_variables(self, device: int, addresses: list[int]) -> None:
        """Free the variables of an unloaded module after the device has finished its work."""
        with self._lock:
            self.scheduler.run_all(self._streams_of(device))
            memory = self.mapped(device)
            for address in addresses:
                memory.blocks.remove(address)
                memory.free(address)

    # Captures: the library has refused what they forbid, by the modes of its threads.

    def refuse_unsafe(self, what: str) -> None:
        del what

    def refuse_on_device(self, device: int, what: str) -> None:
        del device, what

    def finish_capture(self, stream: int, graph: int) -> None:
        """End the capture of a stream, and store the graph under the library's handle."""
        self._graphs[graph] = self._graphs.pop(self.end_capture(stream))

    def make_executable(self, executable: int, graph: int) -> None:
        """Instantiate a graph under the library's handle."""
        self._executables[executable] = self._executables.pop(self.instantiate_graph(graph))

    def drop_graph(self, handle: int) -> None:
        """Forget a destroyed graph or executable."""
        self._graphs.pop(handle, None)
        self._executables.pop(handle, None)

    def on(self, device: int) -> Any:
        """Make a device current in this thread."""
        self._thread.device = device
