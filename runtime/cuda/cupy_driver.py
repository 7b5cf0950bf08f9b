"""The CUDA driver over CuPy: memory from its pool, everything else by its bindings of the runtime API.

Kernels are launched by `cupy_kernel.py`. What CUDA refuses is raised as `cupy_errors.CUDAError`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import cupy

from ..errors import OutOfMemoryError
from .compile import compile_kernel
from .cupy_errors import reported, runtime
from .cupy_kernel import CuPyKernel, version_text
from .driver import CompiledKernel, DeviceProperties, Driver, HostArray, ThreadState, kernel_name
from .machine_code import MachineCode

SUCCESS, INSUFFICIENT_DRIVER, NOT_READY = 0, 35, 600
STREAM_NON_BLOCKING = 1
EVENT_DISABLE_TIMING = 2
OLDEST_CAPABILITY = 80
"""The oldest compute capability that Triton compiles for, major times 10 plus minor."""


def count_devices() -> tuple[int, str]:
    """How many GPUs answer, and why none does where that is the case."""
    try:
        count = int(runtime.getDeviceCount())
    except runtime.CUDARuntimeError as error:
        if error.status == INSUFFICIENT_DRIVER:
            return 0, _without_driver()
        return 0, str(error)
    return count, "" if count else "the CUDA driver reports no device"


def _without_driver() -> str:
    """What is wrong where the runtime API finds no driver that it can work with: it has one error for both cases."""
    found, needed = runtime.driverGetVersion(), runtime.runtimeGetVersion()
    if found == 0:
        return (
            "Found no NVIDIA driver on your system: libcuda.so.1 does not load. Please check that you have an NVIDIA "
            "GPU and installed a driver from https://www.nvidia.com/Download/index.aspx"
        )
    return (
        f"The NVIDIA driver on your system is too old: it supports CUDA {version_text(found)}, the installed CuPy is "
        f"built for CUDA {version_text(needed)}. Please update your GPU driver, or install the extra for CUDA 12: "
        "pip install 'triten[cuda12]'"
    )


class _ThreadState(ThreadState):
    """Makes a device's context current in each thread that comes along: a raw launch does not do it."""

    def __init__(self) -> None:
        super().__init__()
        runtime.setDevice(self.device)


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
        self.check_device(device)
        runtime.setDevice(device)
        self._thread.device = device

    def malloc(self, device: int, nbytes: int) -> int:
        with _current(self, device), reported():
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
            with reported():
                del self._segments[address]
                self._pool.free_all_blocks()

    def scratch(self, nbytes: int, stream: int) -> Any:
        """Memory for one launch. CuPy's pool reuses it on this stream only, so it may be dropped at once."""
        with cupy.cuda.ExternalStream(stream), reported():
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
        if capability < OLDEST_CAPABILITY:
            raise NotImplementedError(
                f"kernel '{kernel_name(kernel)}' is not implemented for sm_{capability} ({properties.name}): Triton "
                f"supports sm_{OLDEST_CAPABILITY} (compute capability 8.0) and later"
            )
        binary = compile_kernel(kernel, signature, constexprs, divisible, capability, options)
        return CuPyKernel(self, binary, properties)


class _current:
    """Makes a device current for a block of code and goes back to the one before, which CuPy may have chosen."""

    __slots__ = ("_before", "_device")

    def __init__(self, driver: Driver, device: int) -> None:
        driver.check_device(device)
        self._device = device

    def __enter__(self) -> None:
        self._before = runtime.getDevice()
        if self._before != self._device:
            runtime.setDevice(self._device)

    def __exit__(self, *_: object) -> None:
        if self._before != self._device:
            runtime.setDevice(self._before)


def _is_done(status: int) -> bool:
    """Whether a query found all work done; raises the error of work that failed."""
    if status == SUCCESS:
        return True
    if status == NOT_READY:
        return False
    raise runtime.CUDARuntimeError(status)
