"""CUDA driver over CuPy: memory from its pool, everything else by its bindings of the runtime API.

`kernel.py` launches kernels. CUDA errors are raised as `errors.CUDAError`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from weakref import WeakSet

import cupy

from ...data_ptr import DataPtr
from ...device import device as Device
from ...errors import OutOfMemoryError
from ..device_properties import DeviceProperties
from ..driver import CompiledKernel, Driver, LaunchObserver, ThreadState, current_driver
from ..fourier import FourierTransform, PlanCache
from ..machine_code import MachineCode
from ..memory.caching_allocator import CUDA_ALLOCATOR, CachingAllocator
from ..solver import Solver
from ..triton.assembler import version_text
from ..triton.cubin_store import find_or_compile
from .copies import CuPyCopies
from .devices import device_properties, library_handle
from .errors import error_text, reported, runtime
from .fourier import cufft_transform
from .graph import CuPyCapture
from .kernel import CuPyKernel

SUCCESS, OUT_OF_MEMORY, INSUFFICIENT_DRIVER, NOT_READY = 0, 2, 35, 600
STREAM_NON_BLOCKING = 1
PEER_ACCESS_ALREADY_ENABLED = 704


def count_devices() -> tuple[int, str]:
    """Return the number of usable GPUs, and the reason if there is none."""
    if getattr(runtime, "is_hip", False):
        return 0, "the installed CuPy is built for ROCm, and triten has no driver for AMD GPUs"
    try:
        count = int(runtime.getDeviceCount())
    except runtime.CUDARuntimeError as error:
        if error.status == INSUFFICIENT_DRIVER:
            return 0, _without_driver()
        return 0, str(error)
    return count, "" if count else "the CUDA driver reports no device"


def _without_driver() -> str:
    """Return the reason why the runtime API finds no usable driver: it has one error for two cases."""
    supported, needed = runtime.driverGetVersion(), runtime.runtimeGetVersion()
    if supported == 0:
        return (
            "Found no NVIDIA driver on your system: libcuda.so.1 does not load. Please check that you have an NVIDIA "
            "GPU and installed a driver from https://www.nvidia.com/Download/index.aspx"
        )
    instead = ", or install CuPy for CUDA 12: pip install 'triten[cuda12]'" if supported >= 12000 else ""
    return (
        f"The NVIDIA driver on your system is too old: it supports CUDA {version_text(supported)}, the installed "
        f"CuPy is built for CUDA {version_text(needed)}. Please update your GPU driver{instead}"
    )


class _ThreadState(ThreadState):
    """Makes a device's context current in each new thread: a raw launch does not."""

    def __init__(self) -> None:
        super().__init__()
        runtime.setDevice(self.device)


def _device_memory(nbytes: int) -> Any:
    """Allocate memory for CuPy's pool.

    For an OutOfMemoryError, the pool neither empties its caches nor collects garbage. The caching allocator does
    that, outside of its lock.
    """
    try:
        return cupy.cuda.MemoryPointer(cupy.cuda.Memory(nbytes), 0)
    except cupy.cuda.runtime.CUDARuntimeError as error:
        if error.status != OUT_OF_MEMORY:
            raise
        raise OutOfMemoryError(f"CUDA out of memory: the device could not give {nbytes} bytes") from error


class CuPyDriver(CuPyCopies, CuPyCapture):
    """CUDA devices through CuPy's bindings of the runtime and driver API."""

    stores_kernels = True

    def __init__(self, device_count: int) -> None:
        super().__init__(_ThreadState())
        self._device_count = device_count
        self.cuda_version = int(runtime.driverGetVersion())
        self._pool = cupy.cuda.MemoryPool(_device_memory)
        self._segments: dict[int, Any] = {}
        self._properties: dict[int, DeviceProperties] = {}
        self._stream_devices: dict[int, int] = {}
        self._destroyed: set[int] = set()
        """Destroyed handles, which must not be passed to CUDA: it may not detect them."""
        self._events: set[int] = set()
        self._priorities: dict[int, tuple[int, int]] = {}
        self._peer_access: set[tuple[int, int]] = set()
        self._scratch: CachingAllocator | None = None
        self.kernels: WeakSet[CuPyKernel] = WeakSet()

    def observe_launches(self, observer: LaunchObserver | None) -> LaunchObserver | None:
        before = super().observe_launches(observer)
        for kernel in list(self.kernels):
            kernel.observe(observer)
        return before

    def device_count(self) -> int:
        return self._device_count

    def properties(self, device: int) -> DeviceProperties:
        properties = self._properties.get(device)
        if properties is None:
            self.check_device(device)
            properties = self._properties[device] = device_properties(device)
        return properties

    def set_device(self, device: int) -> None:
        self.check_device(device)
        own = self._thread.__dict__  # current already, unless the thread is new
        runtime.setDevice(device)
        own["device"] = device

    def malloc(self, device: int, nbytes: int) -> int:
        with _current(self, device), reported():
            pointer = self._pool.malloc(nbytes)
        self._segments[pointer.ptr] = pointer
        return int(pointer.ptr)

    def free(self, device: int, address: int) -> None:
        with _current(self, device):
            runtime.deviceSynchronize()
            with reported():
                del self._segments[address]
                self._pool.free_all_blocks()

    def scratch(self, nbytes: int, stream: int) -> DataPtr:
        """Allocate memory for one launch; the caller may drop it at once, as reuse is in stream order."""
        if self._scratch is None:
            self._scratch = CUDA_ALLOCATOR if current_driver() is self else CachingAllocator(self)
        return self._scratch.allocate(nbytes, Device("cuda", self.current_device()), stream)

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
            # CUDA knows the handle, so another library created a stream with a handle that was ours before.
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
        priorities = self._priorities.get(device)
        if priorities is None:
            # CUDA clamps priorities, and CuPy does not bind the call that returns the range.
            ends = []
            for priority in (2**31 - 1, -(2**31)):
                stream = runtime.streamCreateWithPriority(STREAM_NON_BLOCKING, priority)
                ends.append(int(runtime.streamGetPriority(stream)))
                runtime.streamDestroy(stream)
            priorities = self._priorities[device] = (ends[0], ends[1])
        return priorities

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

    def export_memory(self, device: int, address: int) -> bytes:
        with _current(self, device):
            return bytes(runtime.ipcGetMemHandle(address))

    def import_memory(self, device: int, name: bytes) -> int:
        self.check_device(device)
        with _current(self, device):
            return int(runtime.ipcOpenMemHandle(name))

    def close_memory(self, device: int, address: int) -> None:
        with _current(self, device):
            runtime.ipcCloseMemHandle(address)

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

    def start_profiler(self) -> None:
        runtime.profilerStart()

    def stop_profiler(self) -> None:
        runtime.profilerStop()

    def error_text(self, status: int) -> str:
        return error_text(status)

    def library_handle(self, name: str) -> int:
        device = self.current_device()
        return library_handle(name, self.current_stream(device))

    def solver(self) -> Solver:
        solver, products = self.library_handle("cusolver"), self.library_handle("cublas")
        # Import late: if the libraries are missing, the error of the bindings names a file.
        from .solver import CuPySolver

        return CuPySolver(solver, products, self.current_device())

    def transform(self, dst: int, src: int, transform: FourierTransform, stream: int) -> None:
        """Enqueue a Fourier transform by cuFFT, whose work areas come from CuPy's own pool."""
        cufft_transform(dst, src, transform, self.current_device(), stream)

    def fourier_plans(self, device: int) -> PlanCache:
        from cupy.fft.config import get_plan_cache

        self.check_device(device)
        with _current(self, device):
            plans: PlanCache = get_plan_cache()
        return plans

    def machine_code(self) -> MachineCode:
        from .machine_code import CuPyCode

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
        capability = properties.capability
        binary = find_or_compile(
            kernel, signature, constexprs, divisible, capability, options, self.cuda_version
        )
        return CuPyKernel(self, binary, properties)


class _current:
    """Context manager that makes a device current and restores the previous one, which CuPy may have chosen."""

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
    """Return True if a query found all work done; raise the error of failed work."""
    if status == SUCCESS:
        return True
    if status == NOT_READY:
        return False
    raise runtime.CUDARuntimeError(status)
