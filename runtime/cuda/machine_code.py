"""Machine code that others compiled: what a driver must do to load and launch it, and CUDA's own structures for that.

A driver that launches kernels of its own needs none of this: it is for kernels that Triton compiles and launches
through triten (`triton_driver`), with whatever their authors ask for: clusters, cooperative grids, programmatic
dependent launch, tensor maps.
"""

from __future__ import annotations

import ctypes
import functools
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

from .driver import Grid

ATTRIBUTE_COOPERATIVE = 2
ATTRIBUTE_CLUSTER_DIMENSION = 4
ATTRIBUTE_CLUSTER_SCHEDULING_POLICY = 5
ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 6
POLICY_SPREAD = 1
MAX_PORTABLE_CLUSTER = 8


class LoadedCode(NamedTuple):
    """A function of a module on a device; `spills` counts 32-bit words of local memory for each thread."""

    module: int
    function: int
    registers: int
    spills: int
    max_threads: int


class LaunchShape(NamedTuple):
    """What a launch needs beside its grid: threads of a block, shared memory in bytes, blocks of a cluster."""

    threads: int
    shared: int = 0
    cluster: int = 1
    cooperative: bool = False
    programmatic: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether `cuLaunchKernel` can do it."""
        return self.cluster == 1 and not self.cooperative and not self.programmatic


class MachineCode(ABC):
    """How a driver loads and launches machine code, on the current device of the calling thread."""

    @abstractmethod
    def load(self, name: str, cubin: bytes, shared: int) -> LoadedCode:
        """Load a function. Raises RuntimeError for code that does not fit the device or its driver."""

    @abstractmethod
    def unload(self, module: int) -> None:
        """Give a module up. Called inside garbage collection: takes no lock, and may do the work later."""

    @abstractmethod
    def launch(self, function: int, grid: Grid, shape: LaunchShape, stream: int, pointers: int) -> None:
        """Enqueue a function; `pointers` is the address of a table of pointers to its parameters."""

    @abstractmethod
    def reaches(self, address: int) -> bool:
        """Whether the current device can access an address."""

    @abstractmethod
    def attributes(self, device: int) -> Mapping[str, int]:
        """What Triton and its users ask about a device beside its properties, by Triton's names."""


class ClusterDimension(ctypes.Structure):
    """Blocks of a cluster in each direction."""

    _fields_ = (("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint))


class LaunchAttributeValue(ctypes.Union):
    """`CUlaunchAttributeValue`."""

    _fields_ = (("padding", ctypes.c_char * 64), ("cluster", ClusterDimension), ("number", ctypes.c_int))


class LaunchAttribute(ctypes.Structure):
    """`CUlaunchAttribute`, 72 bytes."""

    _fields_ = (("id", ctypes.c_int), ("padding", ctypes.c_char * 4), ("value", LaunchAttributeValue))


class LaunchConfiguration(ctypes.Structure):
    """`CUlaunchConfig`, 56 bytes."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(LaunchAttribute)),
        ("count", ctypes.c_uint),
    )


def launch_configuration(grid: Grid, shape: LaunchShape, stream: int) -> LaunchConfiguration:
    """The argument of `cuLaunchKernelEx` for a launch; `grid` counts clusters.

    Example:
        >>> made = launch_configuration((7, 1, 1), LaunchShape(128, cluster=2), 0)
        >>> made.grid[0], made.count, made.attributes[0].value.cluster.x
        (14, 2, 2)
    """
    x, y, z = grid
    attributes = []
    if shape.programmatic:
        attributes.append(_number(ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, 1))
    if shape.cooperative:
        attributes.append(_number(ATTRIBUTE_COOPERATIVE, 1))
    if shape.cluster != 1:
        value = LaunchAttributeValue(cluster=ClusterDimension(shape.cluster, 1, 1))
        attributes.append(LaunchAttribute(ATTRIBUTE_CLUSTER_DIMENSION, b"", value))
        attributes.append(_number(ATTRIBUTE_CLUSTER_SCHEDULING_POLICY, POLICY_SPREAD))
    return LaunchConfiguration(
        (x * shape.cluster, y, z),
        (shape.threads, 1, 1),
        shape.shared,
        stream,
        (LaunchAttribute * len(attributes))(*attributes),
        len(attributes),
    )


def _number(attribute: int, value: int) -> LaunchAttribute:
    return LaunchAttribute(attribute, b"", LaunchAttributeValue(number=value))


@functools.cache
def libcuda() -> Any:
    """The CUDA driver's library. Raises RuntimeError where there is none."""
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise RuntimeError(f"the CUDA driver's library cannot be loaded: {error}") from error


def check_status(library: Any, operation: str, status: int) -> None:
    """Raise RuntimeError with the driver's own words unless an operation succeeded."""
    if status:
        text = ctypes.c_char_p()
        library.cuGetErrorString(status, ctypes.byref(text))
        reason = (text.value or b"unknown error").decode()
        raise RuntimeError(f"CUDA error: {reason}: {operation} returned {status}")
