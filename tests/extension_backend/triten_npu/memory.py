"""The simulated devices' memory: blocks by handle, at addresses that mean nothing to the host.

An address is ``handle << 32 | offset``. What it holds is found by `array_of` alone.
"""

from __future__ import annotations

import threading

import numpy as np

import triten as tt

DEVICES = 2
_blocks: list[dict[int, bytearray]] = [{} for _ in range(DEVICES)]
_handles = iter(range(0x7000_0000, 1 << 62))
_current = threading.local()


def current_device() -> int:
    """Return the index of this thread's current device."""
    return getattr(_current, "index", 0)


def set_device(device: int) -> None:
    """Make a device current in this thread."""
    if not 0 <= device < DEVICES:
        raise RuntimeError(f"npu device {device} does not exist: there are {DEVICES}")
    _current.index = device


def device_count() -> int:
    """How many devices there are."""
    return DEVICES


def memory_allocated(device: int = 0) -> int:
    """Bytes in use on a device."""
    return sum(len(block) for block in _blocks[device].values())


class NpuGuard(tt.library.DeviceGuardImpl):
    """Tells triten of the devices."""

    def current_device(self) -> int:
        return current_device()

    def set_device(self, index: int) -> None:
        set_device(index)

    def device_count(self) -> int:
        return device_count()


def _free(pointer: tt.library.DataPtr) -> None:
    del _blocks[pointer.device.index][pointer.address >> 32]


class NpuAllocator(tt.library.Allocator):
    """Gives out blocks, each under a handle of its own."""

    def allocate(self, nbytes: int, device: tt.device) -> tt.library.DataPtr:
        if not 0 <= device.index < DEVICES:
            raise RuntimeError(f"npu device {device.index} does not exist: there are {DEVICES}")
        if nbytes == 0:
            return tt.library.DataPtr(0, 0, device)
        handle = next(_handles)
        _blocks[device.index][handle] = bytearray(b"\xcb" * nbytes)
        return tt.library.DataPtr(handle << 32, nbytes, device, deleter=_free)

    def copy_data(self, dst: int, src: int, nbytes: int) -> None:
        _bytes_at(dst, nbytes)[:] = _bytes_at(src, nbytes)


def _block_of(address: int) -> bytearray:
    for blocks in _blocks:
        if address >> 32 in blocks:
            return blocks[address >> 32]
    raise RuntimeError(f"npu: {address:#x} is the address of no block")


def _bytes_at(address: int, nbytes: int) -> np.ndarray:
    return np.ndarray((nbytes,), np.uint8, _block_of(address), address & 0xFFFF_FFFF)


def array_at(address: int, sizes: tuple[int, ...], strides: tuple[int, ...], dtype: tt.dtype) -> np.ndarray:
    """Return the elements at an address as the array that the device computes on."""
    if 0 in sizes:
        return np.empty(sizes, dtype.np)
    byte_strides = tuple(stride * dtype.itemsize for stride in strides)
    return np.ndarray(sizes, dtype.np, _block_of(address), address & 0xFFFF_FFFF, byte_strides)


def array_of(tensor: tt.Tensor) -> np.ndarray:
    """Return a tensor's elements as the device's array."""
    if not tensor.is_npu:
        raise RuntimeError(f"npu: a tensor on {tensor.device} is out of reach")
    if tensor.device.index != current_device():
        raise RuntimeError(f"npu: a tensor on {tensor.device} while npu:{current_device()} is current")
    return array_at(tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype)
