"""Copies of bytes between host arrays and device memory, and between two devices.

All copies are contiguous and keep the dtype: a kernel on one side handles strides and conversions. Events alone order
copies between devices. Copies with the host are complete on return, unless the caller asks not to wait.
"""

from __future__ import annotations

from typing import Any

from ..data_ptr import DataPtr
from . import sync_debug
from .capture import UNSUPPORTED, capture_error
from .device_guard import device_guard
from .driver import Driver, driver
from .faults import raise_faults
from .graph_capture import captures_of
from .memory.pinned import PINNED_ALLOCATOR


def copy_across(dst: Any, src: Any, nbytes: int, non_blocking: bool = False) -> None:
    """Copy `nbytes` between an ndarray and a `DataPtr`, in either direction, on the device's current stream.

    It waits for the stream, unless `non_blocking`. Then the effect depends on the host memory:

    - Page-locked memory: the copy is only enqueued, and the allocator keeps the memory until the copy is done.
    - From pageable memory: the source has been read on return, though the data may not have arrived.
    - To pageable memory: the call waits, because the caller may change or free the memory right after (CUDA Runtime
      API, "API synchronization behavior").

    During a capture, only asynchronous copies of page-locked memory are possible; the graph keeps that memory. Raises
    RuntimeError for others, and the error of a fault that kernels have reported (`faults`).
    """
    if nbytes == 0:
        return
    if isinstance(dst, DataPtr):
        index = dst.device.resolved_index
        with device_guard(index) as cuda:
            stream = cuda.current_stream(index)
            is_capturing = cuda.captures_underway and cuda.is_capturing(stream)
            if is_capturing and not (non_blocking and _is_page_locked(cuda, src)):
                raise RuntimeError(
                    "Cannot copy between CPU and CUDA tensors during CUDA graph capture unless the CPU tensor is "
                    "pinned, and the copy non_blocking. Please use tensor.pin_memory() or allocate the tensor with "
                    "pin_memory=True."
                )
            if not non_blocking:
                if sync_debug.mode:
                    sync_debug.report()
                cuda.copy_host_to_device(dst.address, src, stream)
                cuda.synchronize_stream(stream)
                raise_faults(cuda, index)
            elif _is_page_locked(cuda, src):
                cuda.copy_host_to_device(dst.address, src, stream)
                _keep(src, index, stream)
            else:
                cuda.stage_host_to_device(dst.address, src, stream)
        return
    index = src.device.resolved_index
    with device_guard(index) as cuda:
        stream = cuda.current_stream(index)
        if non_blocking and _is_page_locked(cuda, dst):
            cuda.copy_device_to_host_async(dst, src.address, stream)
            _keep(dst, index, stream)
        elif cuda.captures_underway and cuda.is_capturing(stream):
            raise capture_error(
                UNSUPPORTED,
                "the host cannot read values of a device tensor (item(), cpu(), tolist(), printing, shapes that depend "
                "on values) before a replay has computed them",
            )
        else:
            if sync_debug.mode:
                sync_debug.report()
            cuda.copy_device_to_host(dst, src.address, stream)
            raise_faults(cuda, index)


def _address(array: Any) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def _is_page_locked(cuda: Driver, array: Any) -> bool:
    address = _address(array)
    return PINNED_ALLOCATOR.find(address) is not None or cuda.is_page_locked(address)


def _keep(array: Any, device: int, stream: int) -> None:
    """Make a block's reuse wait for the copy; memory that others have page-locked is theirs to keep."""
    cuda = driver()
    if cuda.captures_underway:
        capture = captures_of(cuda).current(device)
        if capture is not None:
            capture.kept.append(array)
            return
    block = PINNED_ALLOCATOR.find(_address(array))
    if block is not None:
        PINNED_ALLOCATOR.record_event(block, device, stream)


def copy_between_devices(dst: DataPtr, src: DataPtr, nbytes: int) -> None:
    """Copy `nbytes` from one CUDA device to another, on the source's current stream, without a host wait.

    The copy waits for the current work of the target's current stream, and later work of that stream waits for the
    copy. Each side's memory is thus used in the order of its own stream (`copy_device_to_device` in
    ATen/native/cuda/Copy.cu). The first copy enables peer access if the hardware allows it; otherwise the bytes go
    through the host.
    """
    if nbytes == 0:
        return
    source, target = src.device.resolved_index, dst.device.resolved_index
    with device_guard(target) as cuda:
        target_stream = cuda.current_stream(target)
        _connect(cuda, source, target)
        ready = cuda.create_event()
        try:
            cuda.record_event(ready, target_stream)
            with device_guard(source):
                source_stream = cuda.current_stream(source)
                cuda.wait_event(source_stream, ready)
                cuda.copy_device_to_device(dst.address, src.address, nbytes, source_stream)
                arrived = cuda.create_event()
                cuda.record_event(arrived, source_stream)
        finally:
            cuda.destroy_event(ready)
        try:
            cuda.wait_event(target_stream, arrived)
        finally:
            cuda.destroy_event(arrived)


_connected: set[tuple[Driver, int, int]] = set()


def _connect(cuda: Driver, source: int, target: int) -> None:
    """Enable peer access between two devices, once."""
    if (cuda, source, target) in _connected:
        return
    for device, peer in ((source, target), (target, source)):
        if cuda.can_access_peer(device, peer):
            cuda.enable_peer_access(device, peer)
    _connected.add((cuda, source, target))
