"""Consumed capsules of other libraries. Every field of a capsule is validated before use.

A refused capsule is unchanged, and frees its memory itself.
"""

from __future__ import annotations

import ctypes
import threading
from typing import Any

import numpy as np

from ..data_ptr import DataPtr
from ..device import CPU
from ..device import device as Device
from ..fork_lock import forkable
from ..memory_format import contiguous_strides
from ..scalar_type import dtype as ScalarType
from ..tensor_spec import MAX_BYTES, TensorSpec
from .device_type import DLDeviceType
from .structures import (
    DTYPES,
    MANAGED,
    NAME,
    READ_ONLY,
    USED,
    VERSION,
    VERSIONED_NAME,
    address_in,
    has_name,
    rename,
)

MAX_DIMENSIONS = 64
"""Maximum number of dimensions of an ndarray."""
HOST_KINDS = DLDeviceType.kDLCPU, DLDeviceType.kDLCUDAHost
CUDA_KINDS = DLDeviceType.kDLCUDA, DLDeviceType.kDLCUDAManaged
_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_USED_NAMES = {name: USED + name for name in (NAME, VERSIONED_NAME)}
_taking = forkable(threading.Lock())


class ManagedTensor:
    """Memory from a capsule, freed when no tensor uses it any more."""

    __slots__ = ("__array_interface__", "__weakref__", "_address", "_deleter")

    def __init__(self, address: int, deleter: int | None, data: int, nbytes: int, read_only: bool) -> None:
        self._address = address
        self._deleter = _DELETER(deleter) if deleter else None
        self.__array_interface__ = {
            "data": (data, read_only),
            "shape": (nbytes,),
            "typestr": "|u1",
            "version": 3,
        }

    def __del__(self) -> None:
        deleter, self._deleter = self._deleter, None
        if deleter is not None:
            deleter(self._address)


def taken(capsule: Any, *, is_inference: bool = False) -> tuple[Any, TensorSpec]:
    """Consume a capsule and return the bytes and the spec of its tensor.

    Raises:
        RuntimeError: For an object that is no DLPack capsule, or a capsule that was consumed before.
        BufferError: For a version, a device or a dtype without a counterpart.
        ValueError: For an impossible geometry: negative sizes or strides, or more bytes than 64 bits count.
    """
    with _taking:
        name = next((each for each in (VERSIONED_NAME, NAME) if has_name(capsule, each)), None)
        if name is None:
            raise RuntimeError(
                "from_dlpack received an invalid capsule. Note that DLTensor capsules can be consumed only once, so "
                "you might have already constructed a tensor from it once."
            )
        address = address_in(capsule, name)
        managed: Any = MANAGED[name].from_address(address)
        flags = 0
        if name is VERSIONED_NAME:
            if managed.major != VERSION[0]:
                raise BufferError(
                    f"from_dlpack: expected a capsule of DLPack {VERSION[0]}, got version {managed.major}."
                    f"{managed.minor}"
                )
            flags = managed.flags
        tensor = managed.tensor
        device, dtype = _device(tensor.device), _dtype(tensor.dtype)
        sizes, strides = _geometry(tensor)
        span = _span(sizes, strides, dtype)
        data = (tensor.data or 0) + tensor.byte_offset
        if span and not tensor.data:
            raise ValueError(f"from_dlpack: a null pointer for a tensor of shape {list(sizes)}")
        rename(capsule, _USED_NAMES[name])
    read_only = bool(flags & READ_ONLY)
    holder = ManagedTensor(address, managed.deleter, data, span, read_only)
    spec = TensorSpec.of(sizes, strides, dtype, device, is_inference=is_inference, read_only=read_only)
    if device is not CPU:
        return DataPtr(data if span else 0, span, device, context=holder), spec
    if not span:
        return np.ndarray(sizes, dtype.np), spec
    steps = tuple(stride * dtype.itemsize for stride in strides)
    return np.ndarray(sizes, dtype.np, np.asarray(holder), 0, steps), spec


def _device(dl_device: Any) -> Device:
    if dl_device.kind in HOST_KINDS:
        return CPU
    if dl_device.kind in CUDA_KINDS:
        return Device("cuda", dl_device.index)
    raise BufferError(
        f"from_dlpack: expected memory of the CPU or of CUDA, got DLPack's device {dl_device.kind}"
    )


def _dtype(dl_dtype: Any) -> ScalarType:
    dtype = DTYPES.get((dl_dtype.code, dl_dtype.bits, dl_dtype.lanes))
    if dtype is None:
        raise BufferError(
            f"from_dlpack: no dtype is DLPack's of code {dl_dtype.code}, {dl_dtype.bits} bits and {dl_dtype.lanes} "
            "lanes"
        )
    return dtype


def _geometry(tensor: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    ndim = tensor.ndim
    if not 0 <= ndim <= MAX_DIMENSIONS or (ndim and not tensor.shape):
        raise ValueError(f"from_dlpack: expected 0 to {MAX_DIMENSIONS} dimensions with sizes, got {ndim}")
    sizes = tuple(tensor.shape[:ndim])
    strides = tuple(tensor.strides[:ndim]) if ndim and tensor.strides else contiguous_strides(sizes)
    if min((*sizes, *strides), default=0) < 0:
        raise ValueError(
            f"from_dlpack: tensors have no negative sizes or strides, got sizes {list(sizes)} and strides "
            f"{list(strides)}; copy the array first"
        )
    return sizes, strides


def _span(sizes: tuple[int, ...], strides: tuple[int, ...], dtype: ScalarType) -> int:
    """Return the bytes from the first element to the end of the last."""
    if 0 in sizes:
        return 0
    last = sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
    elements = 1
    for size in sizes:
        elements *= size
    span = (last + 1) * dtype.itemsize
    if max(span, elements * dtype.itemsize) > MAX_BYTES:
        raise ValueError(f"from_dlpack: a tensor of shape {list(sizes)} has more bytes than 64 bits count")
    return span
