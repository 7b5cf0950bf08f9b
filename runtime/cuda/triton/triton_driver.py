"""Triton's runtime driver over triten's devices: ``kernel[grid](x, y, n, BLOCK=1024)`` accepts tensors.

A `@triton.jit` function asks `triton.runtime.driver.active` for the current device, stream and target, and for a
loader and launcher of machine code. Triton's own driver uses PyTorch, or a C program that gcc builds at run time.
This one uses triten's driver: the kernel runs on the current stream of `tt.cuda`, in order with every operator,
without gcc and PyTorch. Triton's versions 3.6 to 3.9 use the same interface.

As in Triton, the process has one driver.
"""

from __future__ import annotations

import importlib.abc
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from triton import testing
from triton.backends.compiler import BaseBackend, GPUTarget
from triton.backends.driver import DriverBase
from triton.runtime import driver as config
from triton.runtime.jit import MockTensor, native_specialize_impl

from ...data_ptr import DataPtr
from ...device import device as Device
from ...scalar_type import dtype as ScalarType
from ..driver import Driver, is_simulated
from ..machine_code import LoadedCode, MachineCode
from ..memory.caching_allocator import CUDA_ALLOCATOR
from .assembler import fit_assembler
from .compile import WARP_SIZE
from .import_hook import torch_has_cuda
from .launcher import TritonLauncher
from .library_hash import know_library_hash

L2_FLUSH = 256 * 2**20
"""Bytes written between timed runs to flush the L2 cache; larger than any L2 cache."""


class _LauncherMade(threading.local):
    """Thread-local state: the launcher that the thread created last."""

    launcher: TritonLauncher | None = None


class TritonDriver(DriverBase):  # type: ignore[misc]
    """Triton driver that launches through triten's driver.

    Args:
        owner: Triten's driver.
        automatic: If True, it was installed by default and gives way to PyTorch in the same process.
    """

    flush_bytes = L2_FLUSH

    def __init__(self, owner: Driver, automatic: bool = False) -> None:
        self.owner = owner
        self._code: MachineCode | None = None
        self._is_ready = False
        self._knows_torch = not automatic
        self._thread = _LauncherMade()
        self.utils = Utilities(self)
        self.get_current_stream = owner.current_stream
        self.launcher_cls = self.make_launcher

    @classmethod
    def is_active(cls) -> bool:
        """Return False, so that Triton never chooses it by itself; it must be set."""
        return False

    @property
    def code(self) -> MachineCode:
        """Loader and launcher of machine code. Raises RuntimeError under the interpreter."""
        if self._code is None:
            self._code = self.owner.machine_code()
        return self._code

    def make_launcher(self, source: Any, metadata: Any) -> TritonLauncher:
        """Return the launcher of a compiled kernel; Triton loads the kernel next."""
        made = self._thread.launcher = TritonLauncher(self.owner, self.code, source, metadata)
        return made

    def load(self, name: str, cubin: bytes, shared: int) -> LoadedCode:
        """Load the kernel of the launcher that this thread created last."""
        try:
            return self.code.load(name, cubin, shared)
        except RuntimeError:
            launcher = self._thread.launcher
            if launcher is not None and launcher.name == name:
                launcher.keep(cubin)
            raise

    def get_current_device(self) -> int:
        """Return the index of the thread's current device."""
        if not self._knows_torch and "torch" in sys.modules:
            self._knows_torch = hasattr(sys.modules["torch"], "cuda")
            if torch_has_cuda():
                return self._give_way()
        return self.owner.current_device()

    def _give_way(self) -> int:
        # Every launch first asks for the device; all later queries then go to Triton's own driver.
        if config.active is self:
            config._active = None
            warnings.warn(
                "PyTorch was imported: kernels called as kernel[grid](...) run on its current stream from here on. "
                "Call triten.library.use_triton_driver() to have them on triten's.",
                RuntimeWarning,
                stacklevel=4,
            )
        return int(config.active.get_current_device())

    def set_current_device(self, device: int) -> None:
        """Make a device current in this thread."""
        self.owner.set_device(device)

    def get_device_capability(self, device: int | None = None) -> tuple[int, int]:
        """Return the compute capability (major, minor) of a device."""
        properties = self.owner.properties(self.owner.current_device() if device is None else device)
        return properties.major, properties.minor

    def get_current_target(self) -> GPUTarget:
        """Return the compilation target of the current device."""
        if not self._is_ready:
            _prepare_specialization()
            know_library_hash()
            self._is_ready = True
        major, minor = self.get_device_capability()
        fit_assembler(major * 10 + minor, self.owner.cuda_version)
        return GPUTarget("cuda", major * 10 + minor, WARP_SIZE)

    def get_active_torch_device(self) -> Device:
        """Return the current device, for programs that allocate on it."""
        return Device("cuda", self.owner.current_device())

    def map_python_to_cpp_type(self, ty: str) -> str:
        """Return the C type of a parameter."""
        from triton.backends.nvidia.driver import ty_to_cpp

        return str(ty_to_cpp(ty))

    def get_device_interface(self) -> DeviceInterface:
        """Return the part of `torch.cuda` that `triton.testing.do_bench` uses."""
        return DeviceInterface(self.owner)

    def get_benchmarker(self) -> Callable[..., Any]:
        """Return the timer of `@triton.autotune`: CUDA events, with the L2 cache flushed before each run."""
        benchmark: Callable[..., Any] = testing.do_bench
        return benchmark

    def get_empty_cache_for_benchmark(self) -> DataPtr:
        """Return a buffer; writing it flushes the L2 cache."""
        return CUDA_ALLOCATOR.allocate(self.flush_bytes, self.get_active_torch_device())

    def clear_cache(self, cache: DataPtr) -> None:
        """Write the buffer on the current stream."""
        owner = self.owner
        owner.memset(cache.address, 0, cache.nbytes, owner.current_stream(owner.current_device()))


class SimulatedTritonDriver(TritonDriver):
    """Triton driver for simulated devices, whose timings are meaningless."""

    flush_bytes = 2**16

    def get_benchmarker(self) -> Callable[..., Any]:
        """Return a timer with one run per configuration: a simulated device's times say nothing about a GPU."""
        return self._time_once

    def _time_once(
        self, call: Callable[[], object], quantiles: Sequence[float] | None = None, **_: object
    ) -> list[float]:
        interface = self.get_device_interface()
        start, end = interface.Event(True), interface.Event(True)
        start.record()
        call()
        end.record()
        interface.synchronize()
        return [start.elapsed_time(end)] * (1 if quantiles is None else len(quantiles))


class Utilities:
    """The `utils` object of Triton's driver."""

    def __init__(self, driver: TritonDriver) -> None:
        self._driver = driver

    def load_binary(
        self, name: str, cubin: bytes, shared: int, device: int
    ) -> tuple[int, int, int, int, int]:
        """Load a kernel; return (module, function, registers, spilled words, maximum threads per block)."""
        return self._driver.load(name, cubin, shared)

    def unload_module(self, module: int) -> None:
        """Unload a kernel."""
        self._driver.code.unload(module)

    def get_device_properties(self, device: int) -> dict[str, int]:
        """Return a device's properties by Triton's names: memory in bytes, clock rates in kHz, bus width in bits."""
        known = self._driver.owner.properties(device)
        return {
            "max_shared_mem": known.max_shared_memory,
            # A block may use every register of a multiprocessor (CUDA C++ Programming Guide, "Technical
            # Specifications per Compute Capability").
            "max_num_regs": known.regs_per_multiprocessor,
            "multiprocessor_count": known.multi_processor_count,
            "warpSize": known.warp_size,
            "sm_clock_rate": known.clock_rate,
            "mem_clock_rate": known.memory_clock_rate,
            "mem_bus_width": known.memory_bus_width,
        }


class TimingEvent:
    """CUDA event with timing."""

    __slots__ = ("_handle", "_owner")

    def __init__(self, owner: Driver, handle: int) -> None:
        self._owner = owner
        self._handle = handle

    def record(self) -> None:
        """Record the event on the current stream."""
        owner = self._owner
        owner.record_event(self._handle, owner.current_stream(owner.current_device()))

    def elapsed_time(self, end: TimingEvent) -> float:
        """Return the milliseconds until another event."""
        return self._owner.elapsed(self._handle, end._handle)

    def __del__(self) -> None:
        self._owner.destroy_event(self._handle)


class DeviceInterface:
    """Subset of `torch.cuda` that times kernels."""

    def __init__(self, owner: Driver) -> None:
        self._owner = owner
        self.synchronize = owner.synchronize
        self.current_device = owner.current_device

    def Event(self, enable_timing: bool = False) -> TimingEvent:
        """Return a new event."""
        return TimingEvent(self._owner, self._owner.create_event(enable_timing))


def install(owner: Driver, *, automatic: bool) -> None:
    """Make Triton launch through `owner`; by default only if neither PyTorch nor another driver is in use."""
    if automatic and (config._active is not None or torch_has_cuda()):
        return
    kind = SimulatedTritonDriver if is_simulated() else TritonDriver
    MockTensor.wrap_dtype = staticmethod(_wrap_dtype)
    config.set_active(kind(owner, automatic))


def active() -> Any:
    """Return Triton's driver if one has been chosen."""
    return config._active


def restore(driver: Any) -> None:
    """Restore a driver from `active`; None lets Triton choose at its next launch."""
    config._active = driver
    if driver is None and isinstance(config._default, TritonDriver):
        config._default = None


_wrap_torch_dtype = MockTensor.wrap_dtype


def _wrap_dtype(arg: Any) -> Any:
    """Wrap a dtype that replaces a tensor in ``kernel.warmup(tt.float32, ...)``."""
    return MockTensor(arg) if isinstance(arg, ScalarType) else _wrap_torch_dtype(arg)


class _WithoutTorch(importlib.abc.MetaPathFinder):
    """Import hook that hides PyTorch from one thread's imports."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()

    def find_spec(self, name: str, path: object, target: ModuleType | None = None) -> None:
        if name == "torch" and threading.get_ident() == self._thread:
            raise ModuleNotFoundError("No module named 'torch'", name=name)


def _prepare_specialization() -> None:
    """Make Triton look for PyTorch now, since its argument typing would import it, which takes seconds."""
    if "torch" in sys.modules:
        return
    finder = _WithoutTorch()
    try:
        sys.meta_path.insert(0, finder)
        native_specialize_impl(BaseBackend, 0, False, False, False)
    finally:
        sys.meta_path[:] = [each for each in sys.meta_path if each is not finder]
