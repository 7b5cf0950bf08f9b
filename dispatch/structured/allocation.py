"""Memory for results: from a spec to a function that allocates such bytes each time it is called."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ...runtime import allocator as allocators
from ...runtime.allocator import ALIGN_FROM, empty_array, get_allocator, storage_size
from ...runtime.data_ptr import DataPtr
from ...runtime.device import CPU
from ...runtime.tensor_spec import TensorSpec


def numpy_may_allocate(spec: TensorSpec) -> bool:
    """Whether NumPy's own allocation of a result is as good as ours: small, contiguous, no user's allocator."""
    return spec.is_contiguous and spec.nbytes < ALIGN_FROM and not allocators.host_is_custom and spec.ndim > 0


def allocator_of(spec: TensorSpec) -> Callable[[], Any]:
    """A function without arguments that allocates the bytes of a tensor of this spec."""
    device = spec.device
    if device is CPU:
        if spec.is_contiguous and spec.nbytes < ALIGN_FROM and not allocators.host_is_custom:
            return partial(np.empty, spec.sizes, spec.np_dtype)
        return partial(empty_array, spec.sizes, spec.strides, spec.np_dtype, spec.is_contiguous)
    if spec.is_meta:
        return partial(DataPtr, 0, spec.nbytes, device)
    nbytes = storage_size(spec.sizes, spec.strides) * spec.itemsize
    allocate = get_allocator(device.type).allocate
    return partial(allocate, nbytes, device)
