"""Memory for results: conversion of a spec to a function that allocates memory for it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ...runtime import allocator as allocators
from ...runtime.allocator import ALIGN_FROM, aligned_allocator, empty_array, get_allocator, storage_size
from ...runtime.data_ptr import DataPtr
from ...runtime.device import CPU
from ...runtime.tensor_spec import TensorSpec


def numpy_may_allocate(spec: TensorSpec) -> bool:
    """Return True if NumPy may allocate a result: small, contiguous, and without a user-defined allocator."""
    return spec.ndim > 0 and spec.is_contiguous and spec.nbytes < ALIGN_FROM and not allocators.host_is_custom


def numpy_may_make_number(spec: TensorSpec) -> bool:
    """Return True if NumPy may create a 0-d result, which `numpy_may_allocate` excludes: NumPy would return a
    scalar.
    """
    return spec.ndim == 0 and spec.device is CPU and not allocators.host_is_custom


def allocator_of(spec: TensorSpec) -> Callable[[], Any]:
    """Return a function without arguments that allocates the bytes of a tensor of this spec."""
    device = spec.device
    if device is CPU:
        if spec.is_contiguous and spec.nbytes < ALIGN_FROM and not allocators.host_is_custom:
            return partial(np.empty, spec.sizes, spec.np_dtype)
        if spec.is_contiguous and spec.nbytes >= ALIGN_FROM:
            return aligned_allocator(spec.sizes, spec.np_dtype, spec.nbytes)
        return partial(empty_array, spec.sizes, spec.strides, spec.np_dtype, spec.is_contiguous)
    if spec.is_meta:
        return partial(DataPtr, 0, spec.nbytes, device)
    nbytes = storage_size(spec.sizes, spec.strides) * spec.itemsize
    allocate = get_allocator(device.type).allocate
    return partial(allocate, nbytes, device)


def pinned_allocator_of(spec: TensorSpec, operator: str) -> Callable[[], Any]:
    """Return `allocator_of` page-locked host memory; a meta tensor has no memory.

    Raises RuntimeError for a tensor elsewhere, and where there is no CUDA device.
    """
    from ...runtime.cuda.driver import is_available
    from ...runtime.cuda.memory.pinned import PINNED_ALLOCATOR

    if spec.is_meta:
        return allocator_of(spec)
    if spec.device is not CPU:
        raise RuntimeError(f"{operator}(): only dense CPU tensors can be pinned, got device '{spec.device}'")
    if not is_available():
        raise RuntimeError(
            f"{operator}(): pin_memory=True requires a CUDA device; no pinned memory allocator is available on this "
            "system."
        )
    strides = None if spec.is_contiguous else tuple(s * spec.itemsize for s in spec.strides)
    nbytes = storage_size(spec.sizes, spec.strides) * spec.itemsize
    return partial(PINNED_ALLOCATOR.empty_array, spec.sizes, spec.np_dtype, strides, nbytes)
