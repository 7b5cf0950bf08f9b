"""Loader and launcher of machine code on CuPy's devices."""

from __future__ import annotations

from collections import deque
from typing import Any

from cupy.cuda import driver as driver_api

from ..driver import Driver, Grid
from ..machine_code import LaunchShape, LoadedCode, MachineCode
from ..triton.assembler import described, version_text
from . import libcuda
from .errors import INVALID_CONTEXT, INVALID_HANDLE, NATIVE, CUDAError, reported_as, runtime
from .kernel import (
    DEFAULT_SHARED_MEMORY,
    MAX_DYNAMIC_SHARED_MEMORY,
    MAX_THREADS_PER_BLOCK,
    NON_PORTABLE_CLUSTER_SIZE_ALLOWED,
    PORTABLE_CLUSTER,
    launch_kernel,
)

LOCAL_SIZE_BYTES, NUM_REGISTERS = 3, 4
MEMORY_TYPE_DEVICE, MEMORY_TYPE_MANAGED = 2, 3


class CuPyCode(MachineCode):
    """Loads and launches through CuPy's bindings, or through the driver's library for calls that they lack."""

    def __init__(self, owner: Driver) -> None:
        self._owner = owner
        self._given_up: deque[int] = deque()
        self._launchers: dict[LaunchShape, libcuda.LaunchKernel] = {}
        self._names: dict[int, str] = {}

    def load(self, name: str, cubin: bytes, shared: int) -> LoadedCode:
        self._owner.current_device()
        self._owner.check_may_load(name)
        while self._given_up:
            driver_api.moduleUnload(self._given_up.popleft())
        try:
            module = driver_api.moduleLoadData(cubin)
        except NATIVE as error:
            raise reported_as(
                error,
                f"kernel '{name}' does not load with a driver for CUDA {version_text(runtime.driverGetVersion())}: "
                f"it is {described(cubin)}",
            ) from error
        try:
            function = driver_api.moduleGetFunction(module, name)
            if shared > DEFAULT_SHARED_MEMORY:
                driver_api.funcSetAttribute(function, MAX_DYNAMIC_SHARED_MEMORY, shared)
            registers, local, threads = (
                driver_api.funcGetAttribute(attribute, function)
                for attribute in (NUM_REGISTERS, LOCAL_SIZE_BYTES, MAX_THREADS_PER_BLOCK)
            )
        except NATIVE as error:
            self._given_up.append(module)
            raise reported_as(error, f"kernel '{name}'") from error
        self._names[function] = name
        return LoadedCode(module, function, registers, local // 4, threads)

    def unload(self, module: int) -> None:
        # Garbage collection may run during the capture of a graph, when unloading is an error.
        self._given_up.append(module)

    def launch(self, function: int, grid: Grid, shape: LaunchShape, stream: int, pointers: int) -> None:
        x, y, z = grid
        launcher = self._launchers.get(shape)
        if launcher is None:
            launcher = self._launchers[shape] = _launcher(shape)
        arguments = (
            function,
            x * shape.cluster,
            y,
            z,
            shape.threads,
            1,
            1,
            shape.shared,
            stream,
            pointers,
            0,
        )
        if shape.cluster > PORTABLE_CLUSTER:
            driver_api.funcSetAttribute(function, NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1)
        observer = self._owner.launch_observer
        if observer is not None:
            name = self._names.get(function, "kernel")
            observer(name, grid, stream, lambda: self._call(launcher, arguments))
        else:
            self._call(launcher, arguments)

    def _call(self, launcher: libcuda.LaunchKernel, arguments: tuple[int, ...]) -> None:
        try:
            launcher(*arguments)
        except (CUDAError, *NATIVE) as error:
            reported = reported_as(error) if isinstance(error, NATIVE) else error
            device = self._owner.current_device()
            if reported.status not in (INVALID_CONTEXT, INVALID_HANDLE) or runtime.getDevice() == device:
                raise reported from error
            # Another library, such as CuPy, made another device current.
            runtime.setDevice(device)
            launcher(*arguments)

    def reaches(self, address: int) -> bool:
        attributes = runtime.pointerGetAttributes(address)
        return bool(attributes.devicePointer) or attributes.type in (MEMORY_TYPE_DEVICE, MEMORY_TYPE_MANAGED)

    def library(self) -> Any:
        return libcuda.library()

    def check(self, status: int, doing: str) -> None:
        if status:
            raise CUDAError(status, driver_api.CUDADriverError(status), doing)


def _launcher(shape: LaunchShape) -> libcuda.LaunchKernel:
    attributes = libcuda.launch_attributes(shape.cluster, shape.cooperative, shape.programmatic)
    return libcuda.launch_kernel_ex(attributes) if attributes else launch_kernel()
