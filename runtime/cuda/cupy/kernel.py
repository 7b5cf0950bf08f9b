"""Cubin on one device, and its launches: arguments packed into a buffer, and one driver call.

The launch function is generated when the kernel is loaded, with a parameter for each argument. A launch therefore
builds no tuple, runs no loop, and repeats no check whose result is known. A buffer belongs to one launch at a time.
Taking it off a list and putting it back are atomic, so that no other thread and no finalizer overwrites it.

The driver itself refuses grids beyond its limits; only its error leads to a check here.
"""

from __future__ import annotations

import ctypes
import functools
import struct
from collections.abc import Callable, Sequence
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
from cupy.cuda import driver as driver_api

from ...written_code import defined
from ..driver import CompiledKernel, DeviceProperties, Grid, LaunchObserver, check_grid
from ..tensor_map import ALIGNMENT, DescribedTensor, TensorMaps
from ..triton.assembler import described, version_text
from ..triton.compile import WARP_SIZE, KernelBinary, ParameterLayout
from .errors import INVALID_CONTEXT, INVALID_HANDLE, NATIVE, CUDAError, reported_as, runtime
from .libcuda import CAPTURED_PROGRAMMATIC, choose_launch_kernel, launch_attributes, launch_kernel_ex

if TYPE_CHECKING:
    from .driver import CuPyDriver

MAX_THREADS_PER_BLOCK = 0
MAX_DYNAMIC_SHARED_MEMORY = 8
NON_PORTABLE_CLUSTER_SIZE_ALLOWED = 14
DEFAULT_SHARED_MEMORY = 48 * 1024
PORTABLE_CLUSTER = 8


class CuPyKernel(CompiledKernel):
    """Cubin loaded on one device. `launch(grid, stream, *values)` is a function generated for each kernel.

    The constructor raises RuntimeError if the device or its driver cannot run it. A launch raises TypeError for
    values that do not fit the signature, RuntimeError for a grid beyond CUDA's limits and for other CUDA errors.
    """

    __slots__ = ("_binary", "_device", "_driver", "_function", "_layout", "_module", "_names", "launch")

    launch: Callable[..., None]

    def __init__(self, driver: CuPyDriver, binary: KernelBinary, properties: DeviceProperties) -> None:
        self.name = binary.name
        self._driver = driver
        self._device = driver.current_device()
        self._binary = binary
        self._layout = ParameterLayout(binary.parameter_types)
        if binary.shared > properties.max_shared_memory:
            raise RuntimeError(
                f"kernel '{self.name}' needs {binary.shared} bytes of shared memory, {properties.name} has "
                f"{properties.max_shared_memory}: take smaller blocks or fewer stages"
            )
        try:
            self._module = driver_api.moduleLoadData(binary.cubin)
        except driver_api.CUDADriverError as error:
            raise self._not_loaded(error, properties) from error
        try:
            self._function = self._prepared()
            self._names = self._launcher_names()
            self.launch = self._launcher()
            driver.kernels.add(self)
            self.observe(driver.launch_observer)
        except driver_api.CUDADriverError as error:
            raise reported_as(error, f"kernel '{self.name}'") from error

    def __del__(self) -> None:
        # Kernels live as long as the process; a kernel whose preparation failed is unloaded at once.
        if not hasattr(self, "launch") and hasattr(self, "_module"):
            driver_api.moduleUnload(self._module)

    def _not_loaded(self, error: Any, properties: DeviceProperties) -> CUDAError:
        binary = self._binary
        return reported_as(
            error,
            f"kernel '{self.name}', compiled for sm_{binary.capability} by {_triton()}, does not load on "
            f"{properties.name} (sm_{properties.major}{properties.minor}), whose driver supports CUDA "
            f"{version_text(runtime.driverGetVersion())}: it is {described(binary.cubin, binary.ptx_version)}; "
            "update the NVIDIA driver, or install an older Triton",
        )

    def _prepared(self) -> int:
        """Return the function with its required attributes set. Raise RuntimeError if the device refuses them."""
        binary = self._binary
        function = int(driver_api.moduleGetFunction(self._module, binary.name))
        if binary.shared > DEFAULT_SHARED_MEMORY:
            driver_api.funcSetAttribute(function, MAX_DYNAMIC_SHARED_MEMORY, binary.shared)
        if binary.num_ctas > PORTABLE_CLUSTER:
            driver_api.funcSetAttribute(function, NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1)
        max_threads = driver_api.funcGetAttribute(MAX_THREADS_PER_BLOCK, function)
        threads = WARP_SIZE * binary.num_warps
        if threads > max_threads:
            raise RuntimeError(
                f"kernel '{self.name}' wants {threads} threads in a block, its registers allow {max_threads}: "
                "take fewer warps"
            )
        return function

    def bound(self, tensors: Sequence[DescribedTensor]) -> Callable[..., None]:
        code = self._driver.machine_code()
        bound = self._launcher()
        bound.__kwdefaults__ = {
            f"map{i}": TensorMaps(code, tensor, meta)
            for i, tensor, meta in zip(self._layout.maps, tensors, self._binary.tensor_maps, strict=True)
        }
        return bound

    def observe(self, observer: LaunchObserver | None) -> None:
        """Route launches through `observer`; None restores direct launches."""
        call = self._names["call"]
        if observer is None:
            self._names["launch_kernel"] = call
            return

        def observed(*arguments: int) -> None:
            # In the order of cuLaunchKernel: function, grid, block, shared memory, stream, parameters, extra.
            grid = (arguments[1] // self._binary.num_ctas, arguments[2], arguments[3])
            observer(self.name, grid, arguments[8], functools.partial(call, *arguments))

        self._names["launch_kernel"] = observed

    def _launcher(self) -> FunctionType:
        binary = self._binary
        code = launcher_code(
            len(binary.parameter_types),
            self._layout.bfloat16,
            binary.num_ctas,
            binary.global_scratch_size > 0,
            self._layout.maps,
        )
        name = self.name if self.name.isidentifier() else "kernel"
        return FunctionType(code.replace(co_name=name, co_qualname=name), self._names, name)

    def _launcher_names(self) -> dict[str, Any]:
        """Return the globals of the launcher's code."""
        binary = self._binary
        # Without the attribute, a launch begins after the previous one has ended, and the kernel's wait returns at
        # once.
        overlaps = binary.launch_pdl and self._driver.cuda_version >= CAPTURED_PROGRAMMATIC
        attributes = launch_attributes(binary.num_ctas, binary.launch_cooperative_grid, overlaps)
        call = launch_kernel_ex(attributes) if attributes else launch_kernel()
        idle: list[tuple[Any, int]] = []
        return {
            "__builtins__": {},
            "__name__": __name__,
            "IndexError": IndexError,
            "Refused": (struct.error, OverflowError, TypeError, CUDAError, *NATIVE),
            "bfloat16_bits": bfloat16_bits,
            "call": call,
            "counter": self._driver,
            "function": self._function,
            "give_back": idle.append,
            "launch_kernel": call,
            "new_buffer": functools.partial(new_buffer, self._layout),
            "pack": self._layout.values.pack_into,
            "pack_scratch": struct.Struct("Q").pack_into,
            "refuse": self._refuse,
            "scratch_at": self._layout.offsets[-2],
            "scratch_for": self._scratch_for,
            "shared": binary.shared,
            "take": idle.pop,
            "threads": WARP_SIZE * binary.num_warps,
        }

    def _scratch_for(self, programs: int, stream: int) -> Any:
        return self._driver.scratch(programs * self._binary.global_scratch_size, stream)

    def _refuse(self, error: Exception, grid: Grid, stream: int, values: tuple[Any, ...]) -> None:
        """Raise the error of a failed launch; if only the thread's context was wrong, launch again."""
        check_grid(self.name, grid)
        if isinstance(error, NATIVE):
            error = reported_as(error, f"kernel '{self.name}'")
        if not isinstance(error, CUDAError):
            raise TypeError(
                f"kernel '{self.name}': arguments {values} do not fit {self._binary.parameter_types}: {error}"
            ) from error
        if error.status in (INVALID_CONTEXT, INVALID_HANDLE) and not self._is_current():
            other = runtime.getDevice()
            runtime.setDevice(self._device)
            try:
                return self.launch(grid, stream, *values)
            finally:
                runtime.setDevice(other)
        raise error

    def _is_current(self) -> bool:
        """Return True if this thread has a current context on the kernel's device; CuPy may have set another."""
        return bool(driver_api.ctxGetCurrent()) and runtime.getDevice() == self._device


@functools.cache
def launch_kernel() -> Callable[..., None]:
    """Return the launch function of this process."""
    return choose_launch_kernel()


@functools.lru_cache(maxsize=512)
def launcher_code(
    count: int, bfloat16: tuple[int, ...], num_ctas: int, has_scratch: bool, maps: tuple[int, ...] = ()
) -> CodeType:
    """Return the code of `launch(grid, stream, value0, ...)` for `count` arguments; the kernel supplies its globals.

    The values at `maps` are tensor addresses whose maps are looked up in the keywords ``map0`` and so on.
    """
    names = [f"value{i}" for i in range(count)]
    values = ", ".join(names)
    comma = ", " if names else ""
    plain = (i for i in range(count) if i not in maps)
    packed = ", ".join(
        [f"map{i}[value{i}]" for i in maps]
        + [f"bfloat16_bits(value{i})" if i in bfloat16 else f"value{i}" for i in plain]
    )
    keywords = ", *, " + ", ".join(f"map{i}" for i in maps) if maps else ""
    clusters = f"gx * {num_ctas}" if num_ctas > 1 else "gx"
    scratch = (
        f"""
        scratch = scratch_for({clusters} * gy * gz, stream)
        pack_scratch(buffer, scratch_at, scratch.address)"""
        if has_scratch
        else ""
    )
    source = f"""
def launch(grid, stream{comma}{values}{keywords}):
    gx, gy, gz = grid
    if not (gx and gy and gz):
        return
    try:
        buffer, pointers = taken = take()
    except IndexError:
        buffer, pointers = taken = new_buffer()
    try:
        pack(buffer, 0{comma}{packed}){scratch}
        launch_kernel(function, {clusters}, gy, gz, threads, 1, 1, shared, stream, pointers, 0)
    except Refused as error:
        refuse(error, grid, stream, ({values}{"," if names else ""}))
        return
    give_back(taken)
    counter.launches += 1
"""
    code: CodeType = defined("launch", source, "launch of a kernel", {}).__code__
    return code


def new_buffer(layout: ParameterLayout) -> tuple[Any, int]:
    """Return a buffer of arguments followed by their pointer table, and the address of the table."""
    start = layout.struct.size + -layout.struct.size % 8
    nbytes = start + 8 * len(layout.offsets)
    buffer: Any = ctypes.create_string_buffer(nbytes + ALIGNMENT if layout.maps else nbytes)
    base = ctypes.addressof(buffer)
    if layout.maps:
        skipped = -base % ALIGNMENT
        base, buffer = base + skipped, memoryview(buffer)[skipped : skipped + nbytes]
    struct.pack_into(f"{len(layout.offsets)}Q", buffer, start, *(base + offset for offset in layout.offsets))
    return buffer, base + start


def bfloat16_bits(value: float) -> int:
    """Return the bits of a number as bfloat16, rounded to nearest."""
    return int(np.array(value, ml_dtypes.bfloat16).view(np.uint16))


def _triton() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return f"Triton {version('triton')}"
    except PackageNotFoundError:
        return "Triton"
