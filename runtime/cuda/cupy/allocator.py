"""Allocator for `cupy.cuda.set_allocator`: CuPy arrays and triten's tensors share one pool."""

from __future__ import annotations

import cupy

from ...device import device as Device
from ..driver import Driver
from ..memory.caching_allocator import CUDA_ALLOCATOR, CachingAllocator


def allocate_for_cupy(nbytes: int, allocator: CachingAllocator = CUDA_ALLOCATOR) -> cupy.cuda.MemoryPointer:
    """Allocate memory on CuPy's current device and stream; when CuPy drops it, it is freed in stream order."""
    check_real(allocator.driver)
    index, stream = current_place()
    data = allocator.allocate(nbytes, Device("cuda", index), stream)
    return cupy.cuda.MemoryPointer(cupy.cuda.UnownedMemory(data.address, nbytes, data, index), 0)


def current_place() -> tuple[int, int]:
    """Return CuPy's current device, and its current stream there."""
    return int(cupy.cuda.runtime.getDevice()), int(cupy.cuda.get_current_stream().ptr)


def check_real(cuda: Driver) -> None:
    """Raise RuntimeError unless addresses are GPU addresses: CuPy would dereference them."""
    if cuda.guard_bytes:
        raise RuntimeError(
            f"cupy_allocator: expected devices driven by CuPy, got {type(cuda).__name__}: CuPy cannot use the "
            "memory of simulated devices"
        )
