"""Host kernels of unpooling: zeros with each element at its place in its plane; of several for one the last."""

from __future__ import annotations

import math
from typing import Any

from ...dispatch.structured.stub import HostKernel, StructuredCall, register_stub
from ...runtime.memory_format import contiguous_format
from ...runtime.scalar_type import int64
from ...runtime.tensor_spec import TensorSpec
from ..indexing.index_bounds import is_within
from ..plain_numpy import np

Array = np.ndarray[Any, Any]


def max_unpool(call: StructuredCall) -> HostKernel | None:
    """Compute `max_unpool2d` and `max_unpool3d` of contiguous floats."""
    spec, indices, size, *window = call.args.values()
    rank = len(size)
    if not (spec.is_contiguous and indices.is_contiguous and spec.numel and spec.sizes == indices.sizes):
        return None
    if indices.dtype is not int64 or not spec.dtype.is_floating_point:
        return None
    if rank != (3 if window else 2) or spec.ndim not in (rank + 1, rank + 2):
        return None
    if min(size) <= 0 or any(len(values) != rank for values in window) or (window and min(window[0]) <= 0):
        return None
    if rank == 2 and spec.ndim == 4 and spec.suggest_memory_format() is not contiguous_format:
        return None
    sizes, np_dtype = (*spec.sizes[:-rank], *size), spec.np_dtype
    volume = math.prod(size)
    planes = math.prod(spec.sizes[:-rank])
    if planes * volume >= 1 << 63:
        return None
    starts = (np.arange(planes) * volume).reshape(planes, 1)
    lines = (planes, spec.numel // planes)

    def fresh(x: Array, indices_data: Array) -> Array | None:
        if not is_within(indices_data, volume):
            return None
        made = np.zeros(sizes, np_dtype)
        made.put(indices_data.reshape(lines) + starts, x)
        return made

    def into(out: Array, x: Array, indices_data: Array) -> bool:
        made = fresh(x, indices_data)
        if made is None:
            return False
        np.copyto(out, made)
        return True

    return HostKernel((TensorSpec.contiguous(sizes, spec.dtype, spec.device),), fresh, into)


register_stub("max_unpool2d_host_stub", "cpu", max_unpool)
register_stub("max_unpool3d_host_stub", "cpu", max_unpool)
