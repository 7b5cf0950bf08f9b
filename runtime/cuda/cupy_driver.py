"""The CUDA driver over CuPy: memory from its pool, launches through the driver API with packed arguments.

A launch packs the arguments into a buffer of the calling thread and calls `cuLaunchKernel`, which copies them
before it returns. It needs neither Triton's launcher nor a C compiler.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Mapping
from threading import local
from typing import Any

import cupy
import ml_dtypes
import numpy as np
from cupy.cuda import driver as cuda
from cupy.cuda import runtime

from ..data_ptr import DataPtr
from ..device import device as Device
from ..errors import OutOfMemoryError
from .caching_allocator import CUDA_ALLOCATOR, CachingAllocator
from .compile import WARP_SIZE, KernelBinary, ParameterLayout
from .cubin_store import find_or_compile
from .cupy_copies import CuPyCopies
from .cupy_devices import device_properties, library_handle
from .cupy_graph import CuPyCapture
from .device_properties import DeviceProperties
from .driver import (
    MAX_GRID,
    CompiledKernel,
    Driver,
    Grid,
    ThreadState,
    check_grid,
    current_driver,
)

SUCCESS, OUT_OF_MEMORY, NOT_READY = 0, 2, 600
STREAM_NON_BLOCKING = 1
PEER_ACCESS_ALREADY_ENABLED = 704
MAX_THREADS_PER_BLOCK = 0
MAX_DYNAMIC_SHARED_MEMORY = 8
DEFAULT_SHARED_MEMORY = 48 * 1024


def count_devices() -> tuple[int, str]:
    """How many GPUs answer, and why none does where that is the case."""
    try:
        count = int(runtime.getDeviceCount())
    except runtime.CUDARuntimeError as error:
        return 0, str(error)
    return count, "" if count else "the CUDA driver reports no device"


class _ThreadState(ThreadState):
    """Makes a device's context current in each thread that comes along: a raw launch does not do it."""

    def __init__(self) -> None:
        super().__init__()
        runtime.setDevice(self.device)


class _Arguments(local):
    """The packed arguments of one kernel in one thread, and the table of pointers into them."""

    def __init__(self, layout: ParameterLayout, driver: Driver) -> None:
        driver.current_device()
        self.buffer = ctypes.create_string_buffer(layout.struct.size)
        base = ctypes.addressof(self.buffer)
        self.table = (ctypes.c_void_p * len(layout.offsets))(*(base + offset for offset in layout.offsets))
        self.pointers = ctypes.addressof(self.table)


class CuPyKernel(CompiledKernel):
    """A cubin loaded on one device."""

    __slots__ = ("_arguments", "_binary", "_driver", "_function", "_layout", "_module", "_pack", "_threads")

    def __init__(self, driver: CuPyDriver, binary: KernelBinary, properties: DeviceProperties) -> None:
        self.name = binary.name
        self._driver = driver
        self._binary = binary
        self._layout = ParameterLayout(binary.parameter_types)
        self._pack = self._layout.struct.pack_into
        self._arguments = _Arguments(self._layout, driver)
        self._threads = WARP_SIZE * binary.num_warps
        if binary.shared > properties.max_shared_memory:
            raise RuntimeError(
                f"kernel '{self.name}' needs {binary.shared} bytes of shared memory, {properties.name} has "
                f"{properties.max_shared_memory}: take smaller blocks or fewer stages"
            )
        self._module = cupy.cuda.Module()
        try:
            self._module.load(binary.cubin)
        except cuda.CUDADriverError as error:
            raise RuntimeError(
                f"kernel '{self.name}', compiled for sm_{binary.capability}, does not load on "
                f"{properties.name} with a driver for CUDA {runtime.driverGetVersion()}; Triton's ptxas may "
                f"be newer than the driver: {error}"
            ) from error
        self._function = self._module.get_function(binary.name).ptr
        if binary.shared > DEFAULT_SHARED_MEMORY:
            cuda.funcSetAttribute(self._function, MAX_DYNAMIC_SHARED_MEMORY, binary.shared)
        most = cuda.funcGetAttribute(MAX_THREADS_PER_BLOCK, self._function)
        if self._threads > most:
            raise RuntimeError(
                f"kernel '{self.name}' wants {self._threads} threads in a block, its registers allow {most}: "
                "take fewer warps"
            )

    def launch(self, grid: Grid, stream: int, *values: int | float) -> None:
        gx, gy, gz = grid
        if not (gx and gy and gz):
            return
        if not (0 < gx <= MAX_GRID[0] and 0 < gy <= MAX_GRID[1] and 0 < gz <= MAX_GRID[2]):
            check_grid(self.name, grid)
        arguments = self._arguments
        binary = self._binary
        if self._layout.bfloat16:
            values = self._with_bfloat16_bits(values)
        scratch: Any = None
        address = 0
        if binary.global_scratch_size:
            nbytes = gx * gy * gz * binary.num_ctas * binary.global_scratch_size
            scratch = self._driver.scratch(nbytes, stream)
            address = scratch.address
        try:
            self._pack(arguments.buffer, 0, *values, address, 0)
        except struct.error as error:
            raise TypeError(
                f"kernel '{self.name}': arguments {values} do not fit {binary.parameter_types}: {error}"
            ) from error
        cuda.launchKernel(
            self._function,
            gx * binary.num_ctas,
            gy,
            gz,
            self._threads,
            1,
            1,
            binary.shared,
            stream,
            arguments.pointers,
            0,
        )
        self._driver.launches += 1

    def _with_bfloat16_bits(self, values: tuple[int | float, ...]) -> tuple[int | float, ...]:
        changed = list(values)
        for i in self._layout.bfloat16:
            changed[i] = int(np.array(values[i], ml_dtypes.bfloat16).view(np.uint16))
        return tuple(changed)


def _device_memory(nbytes: int) -> Any:
    """What CuPy's pool takes its memory from. With an error of ours it neither empties caches nor collects garbage
    on its own: that is for the caching allocator, outside of its lock."""
    try:
        return cupy.cuda.MemoryPointer(cupy.cuda.Memory(nbytes), 0)
    except cupy.cuda.runtime.CUDARuntimeError as error:
        if error.status != OUT_OF_MEMORY:
            raise
        raise OutOfMemoryError(f"CUDA out of memory: the device could not give {nbytes} bytes") from error


class CuPyDriver(CuPyCopies, CuPyCapture):
    """CUDA devices through CuPy's bindings of the runtime and driver API."""

    def __init__(self, device_count: int) -> None:
        super().__init__(_ThreadState())
        self._device_count = device_count
        self._pool = cupy.cuda.MemoryPool(_device_memory)
        self._segments: dict[int, Any] = {}
        self._properties: dict[int, DeviceProperties] = {}
        self._stream_devices: dict[int, int] = {}
        self._destroyed: set[int] = set()
        """Handles that CUDA may not be asked about any more: it does not promise to notice."""
        self._events: set[int] = set()
        self._priorities: dict[int, tuple[int, int]] = {}
        self._peer_access: set[tuple[int, int]] = set()
        self._scratch: CachingAllocator | None = None

    def device_count(self) -> int:
        return self._device_count

    def properties(self, device: int) -> DeviceProperties:
        found = self._properties.get(device)
        if found is None:
            self.check_device(device)
            found = self._properties[device] = device_properties(device)
        return found

    def set_device(self, device: int) -> None:
        super().set_device(device)
        runtime.setDevice(device)

    def malloc(self, device: int, nbytes: int) -> int:
        with _current(self, device):
            pointer = self._pool.malloc(nbytes)
        self._segments[pointer.ptr] = pointer
        return int(pointer.ptr)

    def free(self, device: int, address: int) -> None:
        with _current(self, device):
            runtime.deviceSynchronize()
            del self._segments[address]
            self._pool.free_all_blocks()

    def scratch(self, nbytes: int, stream: int) -> DataPtr:
        """Memory for one launch on the current device. It is reused in stream order, so it may be dropped at once."""
        if self._scratch is None:
            self._scratch = CUDA_ALLOCATOR if current_driver() is self else CachingAllocator(self)
        return self._scratch.allocate_on(nbytes, Device("cuda", self.current_device()), stream)

    def memory_info(self, device: int) -> tuple[int, int]:
        with _current(self, device):
            free, total = runtime.memGetInfo()
        return int(free), int(total)

    def create_stream(self, device: int, priority: int = 0) -> int:
        with _current(self, device):
            stream = int(runtime.streamCreateWithPriority(STREAM_NON_BLOCKING, priority))
        self._destroyed.discard(stream)
        self._stream_devices[stream] = device
        return stream

    def destroy_stream(self, stream: int) -> None:
        if stream == 0:
            raise RuntimeError("CUDA error: invalid resource handle: the default stream cannot be destroyed")
        self._check_alive(stream)
        runtime.streamDestroy(stream)
        self._stream_devices.pop(stream, None)
        self._destroyed.add(stream)

    def check_stream(self, device: int, stream: int) -> None:
        self.check_device(device)
        if stream == 0:
            return
        own = self._stream_devices.get(stream)
        if own is None:
            with _current(self, device):
                runtime.streamGetPriority(stream)
            # CUDA knows it: whoever else made it was given an address that was ours before.
            self._destroyed.discard(stream)
        elif own != device:
            raise RuntimeError(
                f"CUDA error: invalid resource handle: stream {stream:#x} of device {own} was given for device {device}"
            )

    def _check_alive(self, stream: int) -> None:
        if stream in self._destroyed:
            raise RuntimeError(f"CUDA error: invalid resource handle: stream {stream:#x} was destroyed")

    def stream_priority_range(self) -> tuple[int, int]:
        device = self.current_device()
        found = self._priorities.get(device)
        if found is None:
            # CUDA clamps priorities, and CuPy does not bind the call that tells the range.
            ends = []
            for priority in (2**31 - 1, -(2**31)):
                stream = runtime.streamCreateWithPriority(STREAM_NON_BLOCKING, priority)
                ends.append(int(runtime.streamGetPriority(stream)))
                runtime.streamDestroy(stream)
            found = self._priorities[device] = (ends[0], ends[1])
        return found

    def stream_priority(self, stream: int) -> int:
        self._check_alive(stream)
        return int(runtime.streamGetPriority(stream))

    def query_stream(self, stream: int) -> bool:
        self._check_alive(stream)
        return _is_done(runtime.streamQuery(stream))

    def synchronize_stream(self, stream: int) -> None:
        self._check_alive(stream)
        runtime.streamSynchronize(stream)

    def synchronize(self, device: int | None = None) -> None:
        with _current(self, self.current_device() if device is None else device):
            runtime.deviceSynchronize()

    def create_event(self, timing: bool = False, blocking: bool = False, interprocess: bool = False) -> int:
        self.current_device()
        flags = 0 if timing else runtime.eventDisableTiming
        flags |= runtime.eventBlockingSync if blocking else 0
        flags |= runtime.eventInterprocess if interprocess else 0
        event = int(runtime.eventCreateWithFlags(flags))
        self._events.add(event)
        return event

    def _check_event(self, event: int) -> None:
        if event not in self._events:
            raise RuntimeError(f"CUDA error: invalid resource handle: event {event:#x}")

    def export_event(self, event: int) -> bytes:
        self._check_event(event)
        return bytes(runtime.ipcGetEventHandle(event))

    def import_event(self, name: bytes) -> int:
        self.current_device()
        event = int(runtime.ipcOpenEventHandle(name))
        self._events.add(event)
        return event

    def record_event(self, event: int, stream: int) -> None:
        self._check_event(event)
        self._check_alive(stream)
        runtime.eventRecord(event, stream)

    def wait_event(self, stream: int, event: int) -> None:
        self._check_event(event)
        self._check_alive(stream)
        runtime.streamWaitEvent(stream, event)

    def query_event(self, event: int) -> bool:
        self._check_event(event)
        return _is_done(runtime.eventQuery(event))

    def synchronize_event(self, event: int) -> None:
        self._check_event(event)
        runtime.eventSynchronize(event)

    def elapsed(self, start: int, end: int) -> float:
        self._check_event(start)
        self._check_event(end)
        return float(runtime.eventElapsedTime(start, end))

    def destroy_event(self, event: int) -> None:
        self._check_event(event)
        self._events.discard(event)
        runtime.eventDestroy(event)

    def can_access_peer(self, device: int, peer: int) -> bool:
        self.check_device(device)
        self.check_device(peer)
        return bool(runtime.deviceCanAccessPeer(device, peer))

    def enable_peer_access(self, device: int, peer: int) -> None:
        if (device, peer) in self._peer_access:
            return
        with _current(self, device):
            try:
                runtime.deviceEnablePeerAccess(peer)
            except runtime.CUDARuntimeError as error:
                if error.status != PEER_ACCESS_ALREADY_ENABLED:
                    raise
        self._peer_access.add((device, peer))

    def library_handle(self, name: str) -> int:
        device = self.current_device()
        return library_handle(name, self.current_stream(device))

    def _compile(
        self,
        kernel: Any,
        signature: Mapping[str, str],
        constexprs: Mapping[str, object],
        divisible: frozenset[str],
        options: Mapping[str, object],
    ) -> CompiledKernel:
        properties = self.properties(self.current_device())
        capability = properties.major * 10 + properties.minor
        binary = find_or_compile(kernel, signature, constexprs, divisible, capability, options)
        return CuPyKernel(self, binary, properties)


class _current:
    """Makes a device current for a block of code and goes back to the thread's own."""

    __slots__ = ("_device", "_own")

    def __init__(self, driver: Driver, device: int) -> None:
        driver.check_device(device)
        self._own = driver.current_device()
        self._device = device

    def __enter__(self) -> None:
        if self._device != self._own:
            runtime.setDevice(self._device)

    def __exit__(self, *_: object) -> None:
        if self._device != self._own:
            runtime.setDevice(self._own)


def _is_done(status: int) -> bool:
    """Whether a query found all work done; raises the error of work that failed."""
    if status == SUCCESS:
        return True
    if status == NOT_READY:
        return False
    raise runtime.CUDARuntimeError(status)
