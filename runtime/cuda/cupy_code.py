"""Machine code of others on CuPy's devices."""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Mapping

from cupy.cuda import driver as cuda
from cupy.cuda import runtime

from .driver import Driver, Grid
from .machine_code import (
    MAX_PORTABLE_CLUSTER,
    LaunchShape,
    LoadedCode,
    MachineCode,
    check_status,
    launch_configuration,
    libcuda,
)

MAX_THREADS_PER_BLOCK, LOCAL_SIZE_BYTES, NUM_REGISTERS, MAX_DYNAMIC_SHARED_MEMORY = 0, 3, 4, 8
NON_PORTABLE_CLUSTER_SIZE = 14
DEFAULT_SHARED_MEMORY = 48 * 1024
MEMORY_TYPE_DEVICE, MEMORY_TYPE_MANAGED = 2, 3


class CuPyCode(MachineCode):
    """Loads and launches through CuPy's bindings; what they lack goes to the driver's library itself."""

    def __init__(self, owner: Driver) -> None:
        self._owner = owner
        self._given_up: deque[int] = deque()

    def load(self, name: str, cubin: bytes, shared: int) -> LoadedCode:
        self._owner.current_device()
        while self._given_up:
            cuda.moduleUnload(self._given_up.popleft())
        try:
            module = cuda.moduleLoadData(cubin)
        except cuda.CUDADriverError as error:
            raise RuntimeError(
                f"kernel '{name}' does not load with a driver for CUDA {runtime.driverGetVersion()}; Triton's ptxas "
                f"may be newer than the driver: {error}"
            ) from error
        function = cuda.moduleGetFunction(module, name)
        if shared > DEFAULT_SHARED_MEMORY:
            cuda.funcSetAttribute(function, MAX_DYNAMIC_SHARED_MEMORY, shared)
        return LoadedCode(
            module,
            function,
            cuda.funcGetAttribute(NUM_REGISTERS, function),
            cuda.funcGetAttribute(LOCAL_SIZE_BYTES, function) // 4,
            cuda.funcGetAttribute(MAX_THREADS_PER_BLOCK, function),
        )

    def unload(self, module: int) -> None:
        # Garbage is collected at any time, during the capture of a graph too, where unloading is an error.
        self._given_up.append(module)

    def launch(self, function: int, grid: Grid, shape: LaunchShape, stream: int, pointers: int) -> None:
        if shape.is_plain:
            cuda.launchKernel(function, *grid, shape.threads, 1, 1, shape.shared, stream, pointers, 0)
            return
        library = libcuda()
        if shape.cluster > MAX_PORTABLE_CLUSTER:
            cuda.funcSetAttribute(function, NON_PORTABLE_CLUSTER_SIZE, 1)
        configuration = launch_configuration(grid, shape, stream)
        status = library.cuLaunchKernelEx(
            ctypes.byref(configuration), ctypes.c_void_p(function), ctypes.c_void_p(pointers), None
        )
        check_status(library, "cuLaunchKernelEx", status)

    def reaches(self, address: int) -> bool:
        found = runtime.pointerGetAttributes(address)
        return bool(found.devicePointer) or found.type in (MEMORY_TYPE_DEVICE, MEMORY_TYPE_MANAGED)

    def attributes(self, device: int) -> Mapping[str, int]:
        def attribute(number: int) -> int:
            return int(runtime.deviceGetAttribute(number, device))

        return {
            "max_num_regs": attribute(runtime.cudaDevAttrMaxRegistersPerBlock),
            "sm_clock_rate": attribute(runtime.cudaDevAttrClockRate),
            "mem_clock_rate": attribute(runtime.cudaDevAttrMemoryClockRate),
            "mem_bus_width": attribute(runtime.cudaDevAttrGlobalMemoryBusWidth),
        }
