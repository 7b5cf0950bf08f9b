"""Allocators: the source of a device type's memory, replaceable by a user (c10/core/Allocator.h)."""

from __future__ import annotations

import contextlib
import ctypes
import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from .data_ptr import DataPtr
from .device import CPU, META, check_device_type, on_rename
from .device import device as Device
from .errors import internal_assert

ALIGNMENT = 64
ALIGN_FROM = 1 << 16
"""Host memory of this many bytes or more is aligned to `ALIGNMENT`. Smaller memory is read from the L1 cache, where
alignment makes no difference, and NumPy's own allocation is four times as fast.
"""


class Allocator(ABC):
    """Allocator for one device type. Subclass it and call `set_allocator` to register your own.

    Only `allocate` and `copy_data` are required.
    """

    @abstractmethod
    def allocate(self, nbytes: int, device: Device) -> DataPtr:
        """Allocate at least `nbytes`; return a null pointer with its device for 0 bytes."""

    @abstractmethod
    def copy_data(self, dst: int, src: int, nbytes: int) -> None:
        """Copy `nbytes` between two addresses of this allocator."""

    def empty_array(self, sizes: tuple[int, ...], np_dtype: Any, strides: Any, nbytes: int) -> Any:
        """Return an ndarray over `nbytes` of new host memory; `strides` are in bytes, None if contiguous."""
        return array_over(self.allocate(nbytes, CPU), sizes, np_dtype, strides)

    def raw_deleter(self) -> Callable[[DataPtr], None] | None:
        """Return the deleter of the pointers if all have the same, else None."""
        return None

    def clone(self, data: DataPtr, nbytes: int) -> DataPtr:
        """Allocate a copy of `nbytes` from `data`."""
        out = self.allocate(nbytes, data.device)
        if nbytes:
            self.copy_data(out.address, data.address, nbytes)
        return out


class HostBuffer(np.ndarray[Any, Any]):
    """Bytes of an aligned array; a class of its own, so that NumPy views have the array over it as base."""


BYTE = np.dtype(np.uint8)


def _address_in_interface(array: Any) -> int:
    return array.__array_interface__["data"][0]  # type: ignore[no-any-return]


def _address_in_object(array: Any) -> int:
    return _pointer_at(id(array) + _HEADER).value


_pointer_at = ctypes.c_size_t.from_address
_HEADER = object.__basicsize__
"""In NumPy's ABI, an array's data pointer directly follows the object header."""


def _quickest_address() -> Callable[[Any], int]:
    """Return the fastest address getter: an object read, 0.1 us, if it agrees with the interface, 0.8 us."""
    probes = [np.empty(n, BYTE) for n in (1, 64, ALIGN_FROM)]
    if sys.implementation.name != "cpython":
        return _address_in_interface
    agree = all(_address_in_object(each) == _address_in_interface(each) for each in probes)
    return _address_in_object if agree else _address_in_interface


_address_of = _quickest_address()
LARGEST_HEAP_BLOCK = (1 << 25) - (1 << 16)
"""Bytes of a block that glibc's dynamic threshold of mapped blocks, at most 32 MiB with its header, still follows."""


def keep_freed_pages() -> None:
    """Make glibc's malloc keep up to 64 MiB of freed memory, unless the user's environment sets its thresholds.

    By default, malloc maps large blocks one by one and returns the free end of its heap to the system. Both thresholds
    start at 128 KiB and follow the largest mapped block that was freed (mallopt(3)). Until a program has freed such a
    block by chance, each training step faults its pages in again: a fifth of the time of a small transformer.
    """
    # A process without address space for the block keeps the thresholds.
    with contextlib.suppress(MemoryError):
        np.empty(LARGEST_HEAP_BLOCK, BYTE)


keep_freed_pages()


def _out_of_memory(nbytes: int) -> MemoryError:
    """Return the error of memory that NumPy could not allocate; its own text names an array of bytes."""
    return MemoryError(f"a tensor needs {nbytes} bytes of memory, which the system does not give")


class HostAllocator(Allocator):
    """Host memory from NumPy's allocator, 64-byte aligned."""

    def allocate(self, nbytes: int, device: Device) -> DataPtr:
        if nbytes == 0:
            return DataPtr(0, 0, device)
        try:
            buffer = HostBuffer((nbytes + ALIGNMENT,), np.uint8)
        except (MemoryError, ValueError):
            raise _out_of_memory(nbytes) from None
        address = buffer.__array_interface__["data"][0]
        return DataPtr(address + -address % ALIGNMENT, nbytes, device, context=buffer)

    def copy_data(self, dst: int, src: int, nbytes: int) -> None:
        ctypes.memmove(dst, src, nbytes)

    def empty_array(self, sizes: tuple[int, ...], np_dtype: Any, strides: Any, nbytes: int) -> Any:
        if nbytes < ALIGN_FROM and strides is None:
            return np.empty(sizes, np_dtype)
        return super().empty_array(sizes, np_dtype, strides, nbytes)


class MetaAllocator(Allocator):
    """Allocator of the meta device: no memory; addresses count from zero, so that views have offsets."""

    def allocate(self, nbytes: int, device: Device) -> DataPtr:
        return DataPtr(0, nbytes, device)

    def copy_data(self, dst: int, src: int, nbytes: int) -> None:
        return None


_HOST = HostAllocator()
_registry: dict[str, Allocator] = {"cpu": _HOST, "meta": MetaAllocator()}
host_is_custom: list[Allocator] = []
"""The user's host allocator while one is set; the list is the flag that disables NumPy's own allocation."""
on_change: list[Callable[[], None]] = []
"""Callbacks after an allocator was replaced, to invalidate caches of allocators."""


def get_allocator(device_type: str) -> Allocator:
    """Return the allocator of a device type; CUDA's is the caching one, loaded at first use.

    Raises NotImplementedError if none is registered.
    """
    allocator = _registry.get(device_type)
    if allocator is None:
        if device_type != "cuda":
            raise NotImplementedError(
                f"Allocator for {device_type} is not set. A backend brings its own by "
                f"set_allocator('{device_type}', ...); those with one: {', '.join(sorted(_registry))}."
            )
        from .cuda.memory.caching_allocator import CUDA_ALLOCATOR

        allocator = _registry[device_type] = CUDA_ALLOCATOR
    return allocator


def set_allocator(device_type: str, allocator: Allocator | None) -> Allocator | None:
    """Register the allocator of a device type and return the previous one; None restores the host's own.

    Raises RuntimeError for an unknown device type, and for None if there is no default to restore.

    Example:
        >>> import triten as tt
        >>> class Counting(tt.library.Allocator):
        ...     bytes = 0
        ...     def allocate(self, nbytes, device):
        ...         self.bytes += nbytes
        ...         return tt.library.DataPtr(0, nbytes, device)
        ...     def copy_data(self, dst, src, nbytes):
        ...         pass
        >>> counting = Counting()
        >>> before = tt.library.set_allocator("hpu", counting)
        >>> tt.empty(2, 3, device="hpu").device, counting.bytes
        (device(type='hpu', index=0), 24)
    """
    device_type = check_device_type(device_type)
    before = _registry.get(device_type)
    if allocator is None:
        if device_type != "cpu":
            raise RuntimeError(f"the allocator of {device_type} can be replaced, not removed")
        allocator = _HOST
    _registry[device_type] = allocator
    if device_type == "cpu":
        host_is_custom[:] = [] if allocator is _HOST else [allocator]
    for changed in on_change:
        changed()
    return before


def _follow_rename(old: str, new: str) -> None:
    if old in _registry:
        _registry[new] = _registry.pop(old)


on_rename.append(_follow_rename)


def empty_array(sizes: tuple[int, ...], strides: tuple[int, ...], np_dtype: Any, contiguous: bool) -> Any:
    """Return an uninitialized ndarray for a host tensor; strides count elements.

    The array owns its memory or lies over a `HostBuffer`, so it is the root of all its views. For strides with gaps
    it is itself a view of such a root.
    """
    itemsize = np_dtype.itemsize
    if contiguous and not host_is_custom:
        nbytes = itemsize
        for size in sizes:
            nbytes *= size
        if nbytes < ALIGN_FROM:
            return np.empty(sizes, np_dtype)
    else:
        nbytes = itemsize * storage_size(sizes, strides)
    if not contiguous and math.prod(sizes) * itemsize != nbytes:
        # With gaps or overlaps, an array over all of the memory is the root, and the result is a view of it.
        flat = empty_array((nbytes // itemsize,), (1,), np_dtype, True)
        return np.ndarray(sizes, np_dtype, flat, 0, tuple(s * itemsize for s in strides))
    byte_strides = None if contiguous else tuple(s * itemsize for s in strides)
    if not host_is_custom and nbytes:
        # Inline the host allocator without its pointer object: large results use this path.
        try:
            buffer = HostBuffer((nbytes + ALIGNMENT,), BYTE)
        except (MemoryError, ValueError):
            raise _out_of_memory(nbytes) from None
        return np.ndarray(sizes, np_dtype, buffer, -_address_of(buffer) % ALIGNMENT, byte_strides)
    return (host_is_custom[0] if host_is_custom else _HOST).empty_array(sizes, np_dtype, byte_strides, nbytes)


def aligned_allocator(sizes: tuple[int, ...], np_dtype: Any, nbytes: int) -> Callable[[], Any]:
    """Return a specialized `empty_array` for one contiguous geometry of `ALIGN_FROM` bytes or more."""
    shape, array, address_of = (nbytes + ALIGNMENT,), np.ndarray, _address_of

    def allocate() -> Any:
        if host_is_custom:
            return host_is_custom[0].empty_array(sizes, np_dtype, None, nbytes)
        try:
            buffer = HostBuffer(shape, BYTE)
        except (MemoryError, ValueError):
            raise _out_of_memory(nbytes) from None
        return array(sizes, np_dtype, buffer, -address_of(buffer) % ALIGNMENT)

    return allocate


def storage_size(sizes: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """Return the number of elements that the memory of a tensor spans."""
    last = 1
    for size, stride in zip(sizes, strides, strict=True):
        if size == 0:
            return 0
        last += (size - 1) * stride
    return last


class _ForeignBytes:
    """Exports a user allocator's bytes to NumPy and keeps the pointer, so its deleter runs when no array is left."""

    def __init__(self, pointer: DataPtr) -> None:
        self.pointer = pointer
        self.__array_interface__ = {
            "shape": (pointer.nbytes,),
            "typestr": "|u1",
            "data": (pointer.address, False),
            "version": 3,
        }


def array_over(
    pointer: DataPtr, sizes: tuple[int, ...], np_dtype: Any, byte_strides: tuple[int, ...] | None
) -> Any:
    """Return an ndarray over host memory that keeps the memory alive."""
    if pointer.nbytes == 0:
        return np.empty(sizes, np_dtype)
    buffer = pointer.context
    if isinstance(buffer, HostBuffer):
        offset = pointer.address - buffer.__array_interface__["data"][0]
    else:
        buffer, offset = np.asarray(_ForeignBytes(pointer)).view(HostBuffer), 0
    return np.ndarray(sizes, np_dtype, buffer, offset, byte_strides)


internal_assert(META.type in _registry, "the meta device has no allocator")
