"""CUDA array interface, version 3: zero-copy sharing of device memory between libraries.

Source: numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..data_ptr import DataPtr
from ..device import device as Device
from ..scalar_type import from_numpy_dtype
from ..tensor_spec import TensorSpec
from .driver import driver
from .stream_order import wait_for_stream

LEGACY_DEFAULT_STREAM = 1
"""The interface's number for the default stream: 0 would be ambiguous with None."""


def exported(data: DataPtr, spec: TensorSpec) -> dict[str, Any]:
    """Return the interface's dictionary for a tensor; the consumer waits for the current stream of its device."""
    stream = driver().current_stream(spec.device.resolved_index)
    strides = None if spec.is_contiguous else tuple(s * spec.itemsize for s in spec.strides)
    return {
        "typestr": np.dtype(spec.np_dtype).str,
        "shape": spec.sizes,
        "strides": strides,
        "data": (data.address if spec.numel else 0, spec.read_only),
        "version": 3,
        "stream": stream or LEGACY_DEFAULT_STREAM,
    }


def imported(exporter: Any) -> tuple[DataPtr, TensorSpec]:
    """Return bytes and spec over an object's device memory; the bytes keep the object alive.

    The current stream of the memory's device waits for the stream that the object names.

    Raises:
        TypeError: For a dtype without a counterpart, or for an object without a valid dictionary.
        ValueError: For negative strides or strides that the item size does not divide, and for a stream of 0, which
            the interface forbids.
        NotImplementedError: For a mask.
        RuntimeError: For an address that is not device memory.
    """
    shown = exporter.__cuda_array_interface__
    if not isinstance(shown, dict) or not {"typestr", "shape", "data", "version"} <= shown.keys():
        raise TypeError(
            f"__cuda_array_interface__ of {type(exporter).__name__}: expected a dict with typestr, shape, data and "
            f"version, got {shown!r}"
        )
    if shown.get("mask") is not None:
        raise NotImplementedError(
            f"__cuda_array_interface__ of {type(exporter).__name__}: masks are not supported"
        )
    np_dtype = np.dtype(shown["typestr"])
    if not np_dtype.isnative:
        raise ValueError("given cuda array has byte order different from the native byte order.")
    dtype = from_numpy_dtype(np_dtype)
    sizes = tuple(int(size) for size in shown["shape"])
    strides = _strides(shown.get("strides"), sizes, dtype.itemsize)
    address, read_only = shown["data"]
    stream = shown.get("stream")
    if stream == 0:
        raise ValueError("__cuda_array_interface__: stream 0 is ambiguous; expected None, 1, 2 or a handle")
    empty = 0 in sizes or not address
    if empty and 0 not in sizes:
        raise RuntimeError(f"__cuda_array_interface__: a null pointer for an array of shape {sizes}")
    device = Device("cuda", driver().current_device() if empty else driver().device_of_address(address))
    spec = TensorSpec.of(sizes, strides, dtype, device, read_only=bool(read_only))
    last = sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
    nbytes = 0 if empty else (last + 1) * dtype.itemsize
    if stream is not None and not empty:
        wait_for_stream(device.resolved_index, 0 if stream == LEGACY_DEFAULT_STREAM else stream)
    return DataPtr(0 if empty else address, nbytes, device, context=exporter), spec


def _strides(byte_strides: Any, sizes: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Convert strides from bytes to elements; None is contiguous."""
    if byte_strides is None:
        strides: list[int] = []
        step = 1
        for size in reversed(sizes):
            strides.append(step)
            step *= max(size, 1)
        return tuple(reversed(strides))
    if len(byte_strides) != len(sizes):
        raise ValueError(
            f"strides must be a sequence of the same length as shape, got {byte_strides} for {sizes}"
        )
    if any(stride < 0 for stride in byte_strides):
        raise ValueError("At least one stride in the given cuda array is negative: copy it first.")
    if any(stride % itemsize for stride, size in zip(byte_strides, sizes, strict=True) if size > 1):
        raise ValueError("given cuda array strides not a multiple of the element byte size. Copy it first.")
    return tuple(int(stride) // itemsize for stride in byte_strides)
