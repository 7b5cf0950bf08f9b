"""Launches through `libcuda.so.1` itself, if CuPy's function is missing or different, or lacks an attribute.

Source: CUDA Driver API, "Execution Control": `cuLaunchKernel`, `cuLaunchKernelEx`, `CUlaunchConfig`,
`CUlaunchAttribute`.
"""

from __future__ import annotations

import ctypes
import functools
import struct
from collections.abc import Callable, Mapping
from typing import Any

from cupy.cuda import driver as driver_api

from .errors import CUDAError

LIBRARY = "libcuda.so.1"

LaunchKernel = Callable[..., None]
"""(function, gx, gy, gz, bx, by, bz, shared bytes, stream, address of the arguments' pointer table, 0)"""

PARAMETERS = (
    "f",
    "grid_dim_x",
    "grid_dim_y",
    "grid_dim_z",
    "block_dim_x",
    "block_dim_y",
    "block_dim_z",
    "shared_mem_bytes",
    "stream",
    "kernel_params",
    "extra",
)
"""Parameters of `cupy.cuda.driver.launchKernel` in CuPy 13 and 14; it is undocumented, so they are checked."""

CAPTURED_PROGRAMMATIC = 12030
"""CUDA version of the first driver that captures overlapping launches: graph edges then have data."""
COOPERATIVE = 2
CLUSTER_DIMENSION = 4
CLUSTER_SCHEDULING_POLICY = 5
PROGRAMMATIC_STREAM_SERIALIZATION = 6
SPREAD = 1


@functools.cache
def library() -> ctypes.CDLL:
    """Load the driver's library; calls through it release the GIL. Raise OSError if there is none."""
    return ctypes.CDLL(LIBRARY)


def check(status: int) -> None:
    """Raise CUDAError unless a call succeeded."""
    if status:
        raise CUDAError(status, driver_api.CUDADriverError(status))


def check_unsigned(gx: int, gy: int, gz: int) -> None:
    """Raise OverflowError unless a grid fits unsigned 32-bit integers, as CuPy does: ctypes does not check."""
    if (gx | gy | gz) >> 32:
        raise OverflowError(f"expected unsigned 32-bit integers, got the grid {(gx, gy, gz)}")


def choose_launch_kernel() -> LaunchKernel:
    """Return CuPy's `launchKernel` if it has the expected parameters, else `cuLaunchKernel` through ctypes.

    The former takes a third of the latter's host time.
    """
    launch_kernel = getattr(driver_api, "launchKernel", None)
    declared = (getattr(launch_kernel, "__doc__", None) or "").partition("\n")[0]
    names = tuple(
        parameter.split()[-1]
        for parameter in declared.partition("(")[2].partition(")")[0].split(",")
        if parameter
    )
    if launch_kernel is not None and names == PARAMETERS:
        return launch_kernel  # type: ignore[no-any-return]
    return ctypes_launch_kernel()


def ctypes_launch_kernel() -> LaunchKernel:
    """Call `cuLaunchKernel` through ctypes, with the arguments of CuPy's `launchKernel`. Raise CUDAError."""
    function = library().cuLaunchKernel
    address, number = ctypes.c_void_p, ctypes.c_uint
    function.argtypes = [address, *[number] * 7, address, address, address]
    function.restype = ctypes.c_int

    def launch_kernel(kernel: int, gx: int, gy: int, gz: int, *rest: int) -> None:
        check_unsigned(gx, gy, gz)
        status = function(kernel, gx, gy, gz, *rest)
        if status:
            check(status)

    return launch_kernel


class _Value(ctypes.Union):
    _fields_ = [
        ("numbers", ctypes.c_uint * 3),
        ("bytes", ctypes.c_char * 64),
    ]


class LaunchAttribute(ctypes.Structure):
    """CUlaunchAttribute, 72 bytes: an id, and a value of up to 64 bytes at offset 8."""

    _fields_ = [("id", ctypes.c_int), ("pad", ctypes.c_char * 4), ("value", _Value)]


LAUNCH_CONFIG = struct.Struct("@7IPPI4x")
"""CUlaunchConfig, 56 bytes: grid, block, bytes of shared memory, stream, attributes and their number."""


def launch_attributes(num_ctas: int, cooperative: bool, programmatic: bool) -> dict[int, tuple[int, ...]]:
    """Return a kernel's launch attributes with their values, as in Triton's own launcher.

    Example:
        >>> launch_attributes(2, False, True)
        {6: (1,), 4: (2, 1, 1), 5: (1,)}
    """
    attributes: dict[int, tuple[int, ...]] = {}
    if programmatic:
        attributes[PROGRAMMATIC_STREAM_SERIALIZATION] = (1,)
    if cooperative:
        attributes[COOPERATIVE] = (1,)
    if num_ctas > 1:
        attributes[CLUSTER_DIMENSION] = (num_ctas, 1, 1)
        attributes[CLUSTER_SCHEDULING_POLICY] = (SPREAD,)
    return attributes


def launch_kernel_ex(attributes: Mapping[int, tuple[int, ...]]) -> LaunchKernel:
    """Return a function that calls `cuLaunchKernelEx` with these attributes, like CuPy's `launchKernel`."""
    function = library().cuLaunchKernelEx
    function.argtypes = [ctypes.c_void_p] * 4
    function.restype = ctypes.c_int
    array: Any = (LaunchAttribute * len(attributes))()
    for entry, (number, values) in zip(array, attributes.items(), strict=True):
        entry.id = number
        entry.value.numbers[: len(values)] = values
    pack, attributes_address, count = LAUNCH_CONFIG.pack_into, ctypes.addressof(array), len(array)
    # Unused configurations. Taking one and putting it back are atomic. `array` lives as long as they do.
    idle: list[tuple[Any, int, Any]] = []

    def launch_kernel(
        kernel: int,
        gx: int,
        gy: int,
        gz: int,
        bx: int,
        by: int,
        bz: int,
        shared: int,
        stream: int,
        pointers: int,
        extra: int,
    ) -> None:
        try:
            config, config_address, _ = taken = idle.pop()
        except IndexError:
            config = ctypes.create_string_buffer(LAUNCH_CONFIG.size)
            config_address = ctypes.addressof(config)
            taken = config, config_address, array
        try:
            pack(config, 0, gx, gy, gz, bx, by, bz, shared, stream, attributes_address, count)
        except struct.error:
            check_unsigned(gx, gy, gz)
            raise
        status = function(config_address, kernel, pointers, extra)
        idle.append(taken)
        if status:
            check(status)

    return launch_kernel
