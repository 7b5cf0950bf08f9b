"""Copies of bytes between host arrays and device memory, and between two devices.

Everything crosses contiguous and in one dtype: strides and conversions are a kernel's work on one side. Copies
between devices are ordered by events alone; those with the host are complete when they return, unless asked not to
wait.
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

    Waits for the stream, unless `non_blocking`. Then it only enqueues the copy from or to page-locked memory, which
    its allocator keeps until the copy is done. From pageable memory it has read all when it returns, though nothing
    may have arrived yet, and to pageable memory it waits nevertheless: its owner may change it or give it back right
    after (CUDA Runtime API, "API synchronization behavior").

    While the stream is captured only copies that need no waiting are possible, of page-locked memory, which the graph
    keeps. Raises RuntimeError for others; and the error of a fault that kernels have reported (`faults`).
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
    """Have a block be reused only after the copy; memory that others have page-locked is theirs to keep."""
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
    """Copy `nbytes` from one CUDA device to another, on the source's current stream; the host waits for nothing.

    The copy waits for what the target's current stream was given until now, and that stream's later work for the
    copy, so that each side's memory is used in the order of its own stream (`copy_device_to_device` in
    ATen/native/cuda/Copy.cu). The source can reach the target's memory from its first copy on, where the hardware
    lets it; elsewhere the bytes go through the host.
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
    """Enable the access of two devices to each other's memory, once."""
    if (cuda, source, target) in _connected:
        return
    for device, peer in ((source, target), (target, source)):
        if cuda.can_access_peer(device, peer):
            cuda.enable_peer_access(device, peer)
    _connected.add((cuda, source, target))
