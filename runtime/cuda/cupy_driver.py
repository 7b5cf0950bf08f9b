"""The CUDA driver over CuPy: memory from its pool, launches through the driver API with packed arguments.

A launch packs the arguments into a buffer of the calling thread and calls `cuLaunchKernel`, which copies them
before it returns. It needs neither Triton's launcher nor a C compiler.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Mapping
from threading import local
from typing import TYPE_CHECKING, Any

import cupy
import ml_dtypes
import numpy as np
from cupy.cuda import driver as cuda
from cupy.cuda import runtime

from ..errors import OutOfMemoryError
from .compile import WARP_SIZE, KernelBinary, ParameterLayout, compile_kernel
from .driver import (
    MAX_GRID,
    CompiledKernel,
    DeviceProperties,
    Driver,
    Grid,
    HostArray,
    ThreadState,
    check_grid,
)

SUCCESS, NOT_READY = 0, 600
STREAM_NON_BLOCKING = 1
EVENT_DISABLE_TIMING = 2
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


if TYPE_CHECKING:
    from .machine_code import MachineCode


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
            address = scratch.ptr
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


class CuPyDriver(Driver):
    """CUDA devices through CuPy's bindings of the runtime and driver API."""

    def __init__(self, device_count: int) -> None:
        super().__init__(_ThreadState())
        self._device_count = device_count
        self._pool = cupy.cuda.MemoryPool()
        self._segments: dict[int, Any] = {}
        self._properties: dict[int, DeviceProperties] = {}

    def device_count(self) -> int:
        return self._device_count

    def properties(self, device: int) -> DeviceProperties:
        found = self._properties.get(device)
        if found is None:
            self.check_device(device)
            raw = runtime.getDeviceProperties(device)
            found = self._properties[device] = DeviceProperties(
                name=raw["name"].decode(),
                major=raw["major"],
                minor=raw["minor"],
                total_memory=raw["totalGlobalMem"],
                multi_processor_count=raw["multiProcessorCount"],
                warp_size=raw["warpSize"],
                max_shared_memory=raw["sharedMemPerBlockOptin"],
            )
        return found

    def set_device(self, device: int) -> None:
        super().set_device(device)
        runtime.setDevice(device)

    def malloc(self, device: int, nbytes: int) -> int:
        with _current(self, device):
            try:
                pointer = self._pool.malloc(nbytes)
            except cupy.cuda.memory.OutOfMemoryError as error:
                raise OutOfMemoryError(
                    f"CUDA out of memory: device {device} could not give {nbytes} bytes"
                ) from error
        self._segments[pointer.ptr] = pointer
        return int(pointer.ptr)

    def free(self, device: int, address: int) -> None:
        with _current(self, device):
            runtime.deviceSynchronize()
            del self._segments[address]
            self._pool.free_all_blocks()

    def scratch(self, nbytes: int, stream: int) -> Any:
        """Memory for one launch. CuPy's pool reuses it on this stream only, so it may be dropped at once."""
        with cupy.cuda.ExternalStream(stream):
            return self._pool.malloc(nbytes)

    def memory_info(self, device: int) -> tuple[int, int]:
        with _current(self, device):
            free, total = runtime.memGetInfo()
        return int(free), int(total)

    def copy_host_to_device(self, dst: int, src: HostArray, stream: int) -> None:
        address = src.__array_interface__["data"][0]
        runtime.memcpyAsync(dst, address, src.nbytes, runtime.memcpyHostToDevice, stream)

    def copy_device_to_host(self, dst: HostArray, src: int, stream: int) -> None:
        address = dst.__array_interface__["data"][0]
        runtime.memcpyAsync(address, src, dst.nbytes, runtime.memcpyDeviceToHost, stream)
        runtime.streamSynchronize(stream)

    def copy_device_to_device(self, dst: int, src: int, nbytes: int, stream: int) -> None:
        # "Default" lets the driver tell devices apart by address, so that copies between two of them work.
        runtime.memcpyAsync(dst, src, nbytes, runtime.memcpyDefault, stream)

    def memset(self, dst: int, value: int, nbytes: int, stream: int) -> None:
        runtime.memsetAsync(dst, value, nbytes, stream)

    def create_stream(self, device: int, priority: int = 0) -> int:
        with _current(self, device):
            return int(runtime.streamCreateWithPriority(STREAM_NON_BLOCKING, priority))

    def query_stream(self, stream: int) -> bool:
        return _is_done(runtime.streamQuery(stream))

    def synchronize_stream(self, stream: int) -> None:
        runtime.streamSynchronize(stream)

    def synchronize(self, device: int | None = None) -> None:
        with _current(self, self.current_device() if device is None else device):
            runtime.deviceSynchronize()

    def create_event(self, timing: bool = False) -> int:
        self.current_device()
        return int(runtime.eventCreateWithFlags(0 if timing else EVENT_DISABLE_TIMING))

    def record_event(self, event: int, stream: int) -> None:
        runtime.eventRecord(event, stream)

    def wait_event(self, stream: int, event: int) -> None:
        runtime.streamWaitEvent(stream, event)

    def query_event(self, event: int) -> bool:
        return _is_done(runtime.eventQuery(event))

    def synchronize_event(self, event: int) -> None:
        runtime.eventSynchronize(event)

    def elapsed(self, start: int, end: int) -> float:
        return float(runtime.eventElapsedTime(start, end))

    def destroy_event(self, event: int) -> None:
        runtime.eventDestroy(event)

    def machine_code(self) -> MachineCode:
        from .cupy_code import CuPyCode

        return CuPyCode(self)

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
        binary = compile_kernel(kernel, signature, constexprs, divisible, capability, options)
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
