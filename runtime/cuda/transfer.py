"""Copies of bytes between host arrays and device memory, and between two devices, complete when they return.

Everything crosses contiguous and in one dtype: strides and conversions are a kernel's work on one side.
"""

from __future__ import annotations

from typing import Any

from ..data_ptr import DataPtr
from .capture import UNSUPPORTED, capture_error
from .device_guard import device_guard
from .graph_capture import raise_faults


def copy_across(dst: Any, src: Any, nbytes: int) -> None:
    """Copy `nbytes` between an ndarray and a `DataPtr`, in either direction, on the device's current stream.

    Waits for the stream: pageable host memory may be changed or given back by its owner right after. So it raises
    RuntimeError while the stream is captured; and the error of a graph that was replayed there and found one.
    """
    if nbytes == 0:
        return
    if isinstance(dst, DataPtr):
        index = dst.device.resolved_index
        with device_guard(index) as cuda:
            stream = cuda.current_stream(index)
            if cuda.captures_underway and cuda.is_capturing(stream):
                raise RuntimeError(
                    "Cannot copy between CPU and CUDA tensors during CUDA graph capture unless the CPU tensor is "
                    "pinned. Please use tensor.pin_memory() or allocate the tensor with pin_memory=True."
                )
            cuda.copy_host_to_device(dst.address, src, stream)
            cuda.synchronize_stream(stream)
        return
    index = src.device.resolved_index
    with device_guard(index) as cuda:
        stream = cuda.current_stream(index)
        if cuda.captures_underway and cuda.is_capturing(stream):
            raise capture_error(
                UNSUPPORTED,
                "the host cannot read values of a device tensor (item(), cpu(), tolist(), printing, shapes that depend "
                "on values) before a replay has computed them",
            )
        cuda.copy_device_to_host(dst, src.address, stream)
        raise_faults(cuda, index, stream)


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
