"""cummax and cummin: the last of equals, and NaN from the first NaN on.

A few long lines are split as in `scan.py`. Nothing is rounded, so the result does not depend on the tile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.allocator import get_allocator
from ...runtime.cuda.triton.lazy_triton import tl
from ..contiguous import contiguous_copy
from ..elementwise.copy import copy_kernel
from ..elementwise.elementwise import check_dtypes
from ..launch import launch_nothing
from .extreme_index import comparable_type
from .pair_scan import PairScan, plan_pair_scan
from .reduction import highest, lowest
from .scan_kernels import (
    larger_across,
    larger_along,
    later_larger,
    later_smaller,
    smaller_across,
    smaller_along,
)
from .sides import Sides, line_sides


def running_extreme(largest: bool) -> Callable[[StructuredCall], PlannedKernel]:
    """Return the kernel factory of ``cummax`` and ``cummin`` along ``call.extra["dim"]``."""

    def factory(call: StructuredCall) -> PlannedKernel:
        spec, values, indices = call.args["self"], *call.outputs
        check_dtypes(call, [spec])
        if values.numel == 0:
            return PlannedKernel(launch_nothing)
        sides = line_sides([spec, values], call.extra["dim"])
        if not sides.fits() or values.strides != indices.strides:
            return through_contiguous_results(call, factory)
        return plan_running_extreme(call, sides, largest)

    return factory


def through_contiguous_results(
    call: StructuredCall, factory: Callable[[StructuredCall], PlannedKernel]
) -> PlannedKernel:
    """`factory`'s kernel over a contiguous input and contiguous results, which are copied to the outputs."""
    source, copied = contiguous_copy(call.args["self"])
    results = tuple(source.replace(dtype=out.dtype) for out in call.outputs)
    scatters = [copy_kernel(out, result) for out, result in zip(call.outputs, results, strict=True)]
    inner = factory(call._replace(args={**call.args, "self": source}, outputs=results)).into
    allocate = get_allocator("cuda").allocate

    def into(out_data: Any, where: Any, x: Any, *_: Any) -> None:
        data = [allocate(result.nbytes, result.device) for result in results]
        inner(*data, copied(x))
        for out, scatter, result in zip((out_data, where), scatters, data, strict=True):
            scatter(out, result)

    return PlannedKernel(into)


def plan_running_extreme(call: StructuredCall, sides: Sides, largest: bool) -> PlannedKernel:
    """Return the scan of elements with their indices."""
    spec, values = call.args["self"], call.outputs[0]
    type_ = comparable_type(spec.dtype)
    if largest:
        row = PairScan(later_larger, larger_across, larger_along, lowest(type_), type_, tl.int64)
    else:
        row = PairScan(later_smaller, smaller_across, smaller_along, highest(type_), type_, tl.int64)
    source, result = f"*{spec.dtype.triton_name}", f"*{values.dtype.triton_name}"
    run = plan_pair_scan(call, row, sides, [source], [result, "*i64"])
    return PlannedKernel(lambda out, where, x, *_: run([x.address], [out.address, where.address]))


register_stub("cummax_stub", "cuda", running_extreme(True))
register_stub("cummin_stub", "cuda", running_extreme(False))
