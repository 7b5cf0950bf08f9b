"""The CUDA driver without a GPU: kernels run in Triton's interpreter over simulated memory and streams.

It is stricter than a GPU where it can be: work runs only when something waits for it, memory outside live
blocks cannot be touched, uninitialised memory and masked-off lanes hold poison, and a kernel cannot reach the
memory of another device. ``CUDA_LAUNCH_BLOCKING=1`` runs every launch at once, so that a failing one is found
in the traceback of its caller.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import threading
from collections.abc import Mapping
from typing import Any

from .driver import CompiledKernel, DeviceProperties, Driver, Grid, HostArray, check_grid, kernel_name
from .interpreter_memory import DeviceMemory
from .interpreter_semantics import ProgramRunner, argument_type, scalar_or_pointer
from .interpreter_stream import Event, Stream
from .real_triton import real, real_constants

DEVICE_COUNT = 2
DIVISIBILITY = 16
PROPERTIES = DeviceProperties(
    name="Triton interpreter",
    major=9,
    minor=0,
    total_memory=4 * 2**30,
    multi_processor_count=4,
    warp_size=32,
    max_shared_memory=232_448,
)
"""An sm_90 device with few multiprocessors, so that persistent kernels stay small."""


class InterpretedKernel(CompiledKernel):
    """A kernel bound to its constants; its arguments are given the signature's exact types."""

    __slots__ = ("_constexprs", "_divisible", "_driver", "_kernel", "_names", "_types")

    def __init__(
        self,
        driver: InterpreterDriver,
        kernel: Any,
        signature: Mapping[str, str],
        constexprs: Mapping[str, object],
        divisible: frozenset[str],
    ) -> None:
        self.name = kernel_name(kernel)
        self._driver = driver
        self._kernel = kernel
        self._names = [name for name in kernel.arg_names if name in signature]
        self._types = [argument_type(signature[name]) for name in self._names]
        self._constexprs = dict(constexprs)
        self._divisible = divisible

    def launch(self, grid: Grid, stream: int, *values: int | float) -> None:
        check_grid(self.name, grid)
        if 0 in grid:
            return
        if len(values) != len(self._names):
            raise TypeError(
                f"kernel '{self.name}': expected {len(self._names)} arguments {self._names}, "
                f"got {len(values)}"
            )
        arguments = dict(self._constexprs)
        for name, type_, value in zip(self._names, self._types, values, strict=True):
            if name in self._divisible and int(value) % DIVISIBILITY:
                raise RuntimeError(
                    f"CUDA error: misaligned address: kernel '{self.name}': argument '{name}' was declared "
                    f"divisible by {DIVISIBILITY}, got {int(value):#x}"
                )
            try:
                arguments[name] = scalar_or_pointer(type_, value)
            except (OverflowError, TypeError, ValueError) as error:
                raise TypeError(
                    f"kernel '{self.name}': argument '{name}': expected {type_}, got {value!r}"
                ) from error
        driver = self._driver
        on = driver.stream(stream)
        blocks = driver.memory(on.device).blocks
        if on.is_full:
            on.run()
        on.enqueue(lambda: driver.runner.run(self._kernel, self.name, arguments, grid, blocks))
        driver.launches += 1
        if driver.launch_blocking:
            on.run()


class InterpreterDriver(Driver):
    """Simulated sm_90 devices. Only the interpreter's one lock lets work run, in one thread at a time."""

    guard_bytes = 256

    def __init__(self, device_count: int = DEVICE_COUNT) -> None:
        super().__init__()
        self.runner = ProgramRunner()
        self.launch_blocking = os.environ.get("CUDA_LAUNCH_BLOCKING") == "1"
        self._lock = threading.RLock()
        self._memories = [DeviceMemory(PROPERTIES.total_memory) for _ in range(device_count)]
        self._default_streams = [Stream(device, self._lock) for device in range(device_count)]
        self._streams: dict[int, Stream] = {}
        self._events: dict[int, Event] = {}
        self._handles = itertools.count(0x1000)

    def device_count(self) -> int:
        return len(self._memories)

    def properties(self, device: int) -> DeviceProperties:
        self.check_device(device)
        return PROPERTIES

    def memory(self, device: int) -> DeviceMemory:
        """The memory of a device."""
        self.check_device(device)
        return self._memories[device]

    def stream(self, handle: int, device: int | None = None) -> Stream:
        """The stream behind a handle; 0 is the default stream of `device`, or of the current one."""
        if handle == 0:
            return self._default_streams[self._thread.device if device is None else device]
        found = self._streams.get(handle)
        if found is None:
            raise RuntimeError(f"CUDA error: invalid resource handle: stream {handle:#x}")
        return found

    def _streams_of(self, device: int) -> list[Stream]:
        return [self._default_streams[device], *(s for s in self._streams.values() if s.device == device)]

    def malloc(self, device: int, nbytes: int) -> int:
        with self._lock:
            return self.memory(device).malloc(nbytes)

    def free(self, device: int, address: int) -> None:
        with self._lock:
            self.synchronize(device)
            self.memory(device).free(address)

    def memory_info(self, device: int) -> tuple[int, int]:
        memory = self.memory(device)
        return memory.total - memory.reserved, memory.total

    def note_allocated(self, address: int, nbytes: int, device: int, stream: int) -> None:
        blocks = self._memories[device].blocks
        self.stream(stream, device).enqueue(lambda: blocks.add(address, nbytes))

    def note_freed(self, address: int, device: int, stream: int) -> None:
        blocks = self._memories[device].blocks
        self.stream(stream, device).enqueue(lambda: blocks.remove(address))

    def _check_range(self, what: str, address: int, nbytes: int) -> None:
        if not any(memory.blocks.holds(address, nbytes) for memory in self._memories):
            places = "; ".join(
                f"device {i}: {memory.blocks.describe(address)}" for i, memory in enumerate(self._memories)
            )
            raise RuntimeError(
                "CUDA error: an illegal memory access was encountered: "
                f"{what} of {nbytes} bytes at {address:#x}: {places}"
            )

    def copy_host_to_device(self, dst: int, src: HostArray, stream: int) -> None:
        def copy() -> None:
            self._check_range("copy from host to device", dst, src.nbytes)
            ctypes.memmove(dst, src.__array_interface__["data"][0], src.nbytes)

        _check_contiguous("copy_host_to_device", src)
        if src.nbytes:
            self.stream(stream).enqueue(copy)

    def copy_device_to_host(self, dst: HostArray, src: int, stream: int) -> None:
        def copy() -> None:
            self._check_range("copy from device to host", src, dst.nbytes)
            ctypes.memmove(dst.__array_interface__["data"][0], src, dst.nbytes)

        _check_contiguous("copy_device_to_host", dst)
        on = self.stream(stream)
        if dst.nbytes:
            on.enqueue(copy)
        on.run()

    def copy_device_to_device(self, dst: int, src: int, nbytes: int, stream: int) -> None:
        def copy() -> None:
            self._check_range("copy into device", dst, nbytes)
            self._check_range("copy from device", src, nbytes)
            ctypes.memmove(dst, src, nbytes)

        if nbytes:
            self.stream(stream).enqueue(copy)

    def memset(self, dst: int, value: int, nbytes: int, stream: int) -> None:
        def fill() -> None:
            self._check_range("memset", dst, nbytes)
            ctypes.memset(dst, value, nbytes)

        if nbytes:
            self.stream(stream).enqueue(fill)

    def create_stream(self, device: int, priority: int = 0) -> int:
        self.check_device(device)
        handle = next(self._handles)
        self._streams[handle] = Stream(device, self._lock)
        return handle

    def query_stream(self, stream: int) -> bool:
        """As the base class says; a query lets the stream make one step, so that polling comes to an end."""
        on = self.stream(stream)
        if on.is_idle:
            return True
        on.step()
        return False

    def synchronize_stream(self, stream: int) -> None:
        self.stream(stream).run()

    def synchronize(self, device: int | None = None) -> None:
        if device is None:
            device = self._thread.device
        self.check_device(device)
        for stream in self._streams_of(device):
            stream.run()

    def create_event(self, timing: bool = False) -> int:
        handle = next(self._handles)
        self._events[handle] = Event(timing)
        return handle

    def _event(self, handle: int) -> Event:
        found = self._events.get(handle)
        if found is None:
            raise RuntimeError(f"CUDA error: invalid resource handle: event {handle:#x}")
        return found

    def record_event(self, event: int, stream: int) -> None:
        self._event(event).record = self.stream(stream).record()

    def wait_event(self, stream: int, event: int) -> None:
        record = self._event(event).record
        if record is not None:
            self.stream(stream).enqueue(record.wait)

    def query_event(self, event: int) -> bool:
        """As the base class says; a query lets the stream make one step, so that polling comes to an end."""
        record = self._event(event).record
        if record is None or record.done:
            return True
        record.stream.step()
        return False

    def synchronize_event(self, event: int) -> None:
        record = self._event(event).record
        if record is not None:
            record.wait()

    def elapsed(self, start: int, end: int) -> float:
        first, last = self._event(start), self._event(end)
        if not (first.timing and last.timing):
            raise RuntimeError("Both events must be created with argument 'enable_timing=True'.")
        if first.record is None or last.record is None:
            raise RuntimeError("Both events must be recorded before calculating elapsed time.")
        if not (first.record.done and last.record.done):
            raise RuntimeError("CUDA error: device not ready: both events must have happened")
        return (last.record.seconds - first.record.seconds) * 1e3

    def destroy_event(self, event: int) -> None:
        self._event(event)
        del self._events[event]

    def _compile(
        self,
        kernel: Any,
        signature: Mapping[str, str],
        constexprs: Mapping[str, object],
        divisible: frozenset[str],
        options: Mapping[str, object],
    ) -> CompiledKernel:
        return InterpretedKernel(self, real(kernel), signature, real_constants(constexprs), divisible)


def _check_contiguous(operation: str, array: HostArray) -> None:
    if not (array.flags.c_contiguous or array.flags.f_contiguous):
        raise ValueError(f"{operation}(): expected a contiguous array, got strides {array.strides}")
