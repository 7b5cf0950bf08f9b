"""Copies of bytes between host arrays and device memory, and between two devices, complete when they return.

Everything crosses contiguous and in one dtype: strides and conversions are a kernel's work on one side.
"""

from __future__ import annotations

from typing import Any

from ..data_ptr import DataPtr
from .device_guard import device_guard


def copy_across(dst: Any, src: Any, nbytes: int) -> None:
    """Copy `nbytes` between an ndarray and a `DataPtr`, in either direction, on the device's current stream.

    Waits for the stream: pageable host memory may be changed or given back by its owner right after.
    """
    if nbytes == 0:
        return
    if isinstance(dst, DataPtr):
        index = dst.device.resolved_index
        with device_guard(index) as cuda:
            stream = cuda.current_stream(index)
            cuda.copy_host_to_device(dst.address, src, stream)
            cuda.synchronize_stream(stream)
        return
    index = src.device.resolved_index
    with device_guard(index) as cuda:
        cuda.copy_device_to_host(dst, src.address, cuda.current_stream(index))


def copy_between_devices(dst: DataPtr, src: DataPtr, nbytes: int) -> None:
    """Copy `nbytes` from one CUDA device to another, on the target's current stream.

    Work on the source's current stream is waited for before, the copy itself too, because neither side's
    allocator knows of the other's stream.
    """
    if nbytes == 0:
        return
    source = src.device.resolved_index
    with device_guard(source) as cuda:
        cuda.synchronize_stream(cuda.current_stream(source))
    target = dst.device.resolved_index
    with device_guard(target) as cuda:
        stream = cuda.current_stream(target)
        cuda.copy_device_to_device(dst.address, src.address, nbytes, stream)
        cuda.synchronize_stream(stream)
