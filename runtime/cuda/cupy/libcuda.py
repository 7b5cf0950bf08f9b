"""Launches through `libcuda.so.1` itself: where CuPy's function is missing or another, and for what it does not take.

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
"""(function, gx, gy, gz, bx, by, bz, shared bytes, stream, address of the table of pointers to the arguments, 0)"""

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
"""What `cupy.cuda.driver.launchKernel` takes in CuPy 13 and 14; it is in no reference, so it is looked at."""

CAPTURED_PROGRAMMATIC = 12030
"""The CUDA version of the first driver that captures launches which overlap: edges of graphs have data from there."""
COOPERATIVE = 2
CLUSTER_DIMENSION = 4
CLUSTER_SCHEDULING_POLICY = 5
PROGRAMMATIC_STREAM_SERIALIZATION = 6
SPREAD = 1


@functools.cache
def library() -> ctypes.CDLL:
    """The driver's library. Calls through it let other threads run. Raises OSError where there is none."""
    return ctypes.CDLL(LIBRARY)


def check(status: int) -> None:
    """Raise CUDAError unless a call succeeded."""
    if status:
        raise CUDAError(status, driver_api.CUDADriverError(status))


def check_unsigned(gx: int, gy: int, gz: int) -> None:
    """Raise OverflowError unless a grid fits unsigned 32-bit integers, as CuPy does: ctypes takes any."""
    if (gx | gy | gz) >> 32:
        raise OverflowError(f"expected unsigned 32-bit integers, got the grid {(gx, gy, gz)}")


def choose_launch_kernel() -> LaunchKernel:
    """CuPy's `launchKernel` where it is what it was found to be, and `cuLaunchKernel` by ctypes elsewhere.

    The former takes a third of the latter's host time.
    """
    found = getattr(driver_api, "launchKernel", None)
    declared = (getattr(found, "__doc__", None) or "").partition("\n")[0]
    names = tuple(
        parameter.split()[-1]
        for parameter in declared.partition("(")[2].partition(")")[0].split(",")
        if parameter
    )
    if found is not None and names == PARAMETERS:
        return found  # type: ignore[no-any-return]
    return ctypes_launch_kernel()


def ctypes_launch_kernel() -> LaunchKernel:
    """`cuLaunchKernel` through ctypes, called as CuPy's `launchKernel` is. Raises CUDAError."""
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
    """CUlaunchAttribute, 72 bytes: what it sets, and a value of up to 64 bytes at offset 8."""

    _fields_ = [("id", ctypes.c_int), ("pad", ctypes.c_char * 4), ("value", _Value)]


LAUNCH_CONFIG = struct.Struct("@7IPPI4x")
"""CUlaunchConfig, 56 bytes: grid, block, bytes of shared memory, stream, attributes and how many these are."""


def launch_attributes(num_ctas: int, cooperative: bool, programmatic: bool) -> dict[int, tuple[int, ...]]:
    """What a kernel asks of its launch, as Triton's own launcher sets it: attribute to value.

    Example:
        >>> launch_attributes(2, False, True)
        {6: (1,), 4: (2, 1, 1), 5: (1,)}
    """
    asked: dict[int, tuple[int, ...]] = {}
    if programmatic:
        asked[PROGRAMMATIC_STREAM_SERIALIZATION] = (1,)
    if cooperative:
        asked[COOPERATIVE] = (1,)
    if num_ctas > 1:
        asked[CLUSTER_DIMENSION] = (num_ctas, 1, 1)
        asked[CLUSTER_SCHEDULING_POLICY] = (SPREAD,)
    return asked


def launch_kernel_ex(attributes: Mapping[int, tuple[int, ...]]) -> LaunchKernel:
    """`cuLaunchKernelEx` with these attributes through ctypes, called as CuPy's `launchKernel` is."""
    function = library().cuLaunchKernelEx
    function.argtypes = [ctypes.c_void_p] * 4
    function.restype = ctypes.c_int
    array: Any = (LaunchAttribute * len(attributes))()
    for entry, (number, values) in zip(array, attributes.items(), strict=True):
        entry.id = number
        entry.value.numbers[: len(values)] = values
    pack, given, count = LAUNCH_CONFIG.pack_into, ctypes.addressof(array), len(array)
    # Configurations that no launch is using: taken off and put back, which is atomic. `array` lives as long as they do.
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
            config, at, _ = taken = idle.pop()
        except IndexError:
            config = ctypes.create_string_buffer(LAUNCH_CONFIG.size)
            at = ctypes.addressof(config)
            taken = config, at, array
        try:
            pack(config, 0, gx, gy, gz, bx, by, bz, shared, stream, given, count)
        except struct.error:
            check_unsigned(gx, gy, gz)
            raise
        status = function(at, kernel, pointers, extra)
        idle.append(taken)
        if status:
            check(status)

    return launch_kernel
