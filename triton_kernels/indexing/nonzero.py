"""Places of elements that are not zero: counted by block, the counts summed, and written in order.

The host waits for the number of places, which is the result's size.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.cuda.transfer import copy_across
from ...runtime.memory_format import contiguous_strides
from ...runtime.scalar_type import int32, int64
from ...runtime.tensor_spec import TensorSpec
from ..conversion import compute_type
from ..elementwise.copy import copy_kernel
from ..elementwise.elementwise import check_dtypes
from ..launch import cdiv
from ..sorting.prefix_sum import plan_running_total
from ..sorting.prefix_sum_kernels import count_nonzero, write_nonzero
from .index_bounds import allocate
from .index_space import block_for, launch_over

WARPS = 8
"""Of a program that writes places: four 64-bit offsets for each lane and their sums, instead of eight."""


def nonzero(call: StructuredCall) -> PlannedKernel:
    """Gives the places, as (n, rank) over a (rank, n) block, and n."""
    spec = call.args["self"]
    check_dtypes(call, [spec])
    device, n = spec.device, spec.numel
    if n == 0:
        return PlannedKernel(lambda *_: None, lambda data: (allocate(0, device), 0))
    flat = TensorSpec.contiguous(spec.sizes, spec.dtype, device)
    straighten = None if spec.is_contiguous else copy_kernel(flat, spec)
    dtype = int32 if n < 2**31 else int64
    pointers = {"x": f"*{spec.dtype.triton_name}", "counts": f"*{dtype.triton_name}"}
    constants: dict[str, object] = {"TYPE": compute_type(spec.dtype)}
    count = launch_over(device, count_nonzero, n, pointers, [], {}, constants)
    programs = cdiv(n, block_for(n))
    total = plan_running_total(device, programs, dtype)
    targets = {"x": pointers["x"], "starts": pointers["counts"], "out": "*i64"}
    writes = [
        launch_over(
            device, write_nonzero, n, targets, [], {"divisor": stride, "size": size}, constants, warps=WARPS
        )
        for size, stride in zip(spec.sizes, contiguous_strides(spec.sizes), strict=True)
    ]

    def fresh(data: Any) -> Any:
        if straighten is not None:
            buffer = allocate(flat.nbytes, device)
            straighten(buffer, data)
            data = buffer
        starts = allocate((programs + 1) * dtype.itemsize, device)
        count(data.address, starts.address)
        total(starts.address)
        found = np.zeros((), dtype.np)
        copy_across(found, starts.offset_by(programs * dtype.itemsize), dtype.itemsize)
        places = int(found)
        nbytes = places * int64.itemsize
        out = allocate(nbytes * len(writes), device)
        if places:
            for d, write in enumerate(writes):
                write(data.address, starts.address, out.address + d * nbytes)
        return out, places

    return PlannedKernel(lambda *_: None, fresh)


register_stub("nonzero_stub", "cuda", nonzero)
