"""Segment reductions: for lengths, the prefix sums first, then one launch over all segments."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...dispatch.structured.meta.segments import DESCENDING, NEGATIVE, NOTHING, REDUCTIONS, UNEQUAL
from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.allocator import get_allocator
from ...runtime.cuda.device_guard import device_guard
from ...runtime.cuda.faults import Fault, fault_flags
from ...runtime.cuda.triton.lazy_triton import tl
from ...runtime.scalar_type import int64
from ...runtime.tensor_spec import TensorSpec
from ..contiguous import contiguous_copy
from ..conversion import compute_type
from ..elementwise.elementwise import check_dtypes
from ..folded_grid import folded
from ..launch import Launch, cdiv, integer_type, interpreted, next_power_of_2
from .reduction_kernels import (
    largest,
    largest_across,
    product,
    product_across,
    smallest,
    smallest_across,
    sum_across,
    sum_of,
)
from .scan import sums
from .segments_kernels import reduce_segments, segments_backward

KINDS = {"sum": 0, "mean": 1, "max": 2, "min": 3, "prod": 4}
COMBINED = {
    "sum": (sum_of, sum_across),
    "mean": (sum_of, sum_across),
    "max": (largest, largest_across),
    "min": (smallest, smallest_across),
    "prod": (product, product_across),
}


class Problem:
    """Problem that forward and backward share: data as [rows, size, inner], and the bounds of each row's
    segments.
    """

    def __init__(self, call: StructuredCall) -> None:
        data, dim = call.args["data"], call.extra["dim"]
        check_dtypes(call, [data])
        self.kind = REDUCTIONS[call.args["reduce"]]
        offsets = call.args["offsets"]
        self.from_ends = offsets is None
        bounds: TensorSpec = call.args["lengths"] if offsets is None else offsets
        self.name = "lengths" if offsets is None else "offsets"
        self.rows = math.prod(data.sizes[:dim])
        self.size, self.inner = data.sizes[dim], math.prod(data.sizes[dim + 1 :])
        self.count = bounds.sizes[dim] - (not self.from_ends)
        self.bounds_type = "*i64" if self.from_ends else f"*{bounds.dtype.triton_name}"
        self.bounds = self.ends_of(call, bounds, dim) if self.from_ends else contiguous_copy(bounds)[1]
        max_elements = 1 << 12 if interpreted() else 512
        reduced = max_elements if self.inner == 1 else 8
        self.reduced = min(next_power_of_2(max(self.size, 1)), reduced)
        self.columns = 1 if self.inner == 1 else min(next_power_of_2(self.inner), max_elements // 8)
        extent = self.rows * max(self.size, self.count + 1) * self.inner
        self.integers = integer_type(extent + self.columns + self.reduced)
        self.grid = folded(self.rows * self.count, cdiv(self.inner, self.columns))

    def ends_of(self, call: StructuredCall, lengths: TensorSpec, dim: int) -> Callable[[Any], Any]:
        """Return a function from the lengths to the end of each segment."""
        ends = TensorSpec.contiguous(lengths.sizes, int64, lengths.device)
        if not ends.numel:
            return lambda data: data
        scan = sums(
            call._replace(args={"self": lengths}, runtime=("self",), outputs=(ends,), extra={"dim": dim})
        )
        allocate = get_allocator("cuda").allocate

        def summed(data: Any) -> Any:
            buffer = allocate(ends.nbytes, ends.device)
            scan.into(buffer, data)
            return buffer

        return summed

    def constants(self) -> dict[str, object]:
        """Return the constexprs that both kernels share."""
        return {
            "KIND": KINDS[self.kind],
            "FROM_ENDS": self.from_ends,
            "INDEX": tl.int32 if self.integers == "i32" else tl.int64,
            "COLUMNS": self.columns,
            "REDUCED": self.reduced,
        }

    def numbers(self) -> dict[str, int]:
        """Return the integers of a launch."""
        return {"count": self.count, "size": self.size, "inner": self.inner}

    def messages(self) -> tuple[str, ...]:
        """Return the message of each flag."""
        return NEGATIVE, UNEQUAL, DESCENDING.format(size=self.size, wrong="others")


def segment_reduce(call: StructuredCall) -> PlannedKernel:
    """Return the kernel of all segments; unless `unsafe`, it reports invalid bounds."""
    problem = Problem(call)
    spec, out, names = call.args["data"], call.outputs[0], call.runtime
    flat, copied = contiguous_copy(spec)
    extreme = problem.kind in ("max", "min")
    combine, across = COMBINED[problem.kind]
    checked = not call.args["unsafe"]
    given_initial = "initial" in names and call.args["initial"] is not None
    pointers = {
        "x": f"*{flat.dtype.triton_name}",
        "bounds": problem.bounds_type,
        "out": f"*{out.dtype.triton_name}",
    }
    constants: dict[str, object] = {
        "COMBINE": combine,
        "ACROSS": across,
        "NOTHING": NOTHING[problem.kind],
        "TYPE": compute_type(spec.dtype) if extreme else tl.float64,
    } | problem.constants()
    for name, type_, is_given in (("flag", "*i32", checked), ("initial", "fp64", given_initial)):
        if is_given:
            pointers[name] = type_
        else:
            constants[name] = None
    launch = Launch(
        call.device,
        reduce_segments,
        pointers | dict.fromkeys(problem.numbers(), problem.integers),
        constants,
        elements=("bounds", "flag"),
    )
    numbers = tuple(problem.numbers().values())
    empty = not (problem.rows and problem.count)
    flags = None
    if checked:
        faults = [Fault("segment_reduce", RuntimeError, message) for message in problem.messages()]
        flags = fault_flags(call.device.resolved_index, faults)
    short = checked and problem.from_ends and problem.rows and not problem.count and problem.size

    def into(out_data: Any, *inputs: Any) -> None:
        values = dict(zip(names, inputs, strict=True))
        if short:
            raise RuntimeError(UNEQUAL)
        if empty:
            return
        bounds, x = problem.bounds(values[problem.name]), copied(values["data"])
        arguments = [x.address, bounds.address, out_data.address]
        if flags is not None:
            arguments.append(flags.begin())
        if given_initial:
            arguments.append(float(values["initial"]))
        launch(problem.grid, *arguments, *numbers)
        if flags is not None and flags.driver.launch_blocking:
            for i in flags.raised():
                raise RuntimeError(problem.messages()[i])

    return PlannedKernel(into)


def segment_reduce_backward(call: StructuredCall) -> PlannedKernel:
    """Compute the gradient of the data, zero outside of the segments."""
    problem = Problem(call)
    out, names = call.outputs[0], call.runtime
    tensors = {name: contiguous_copy(call.args[name]) for name in ("grad", "output", "data")}
    given_initial = "initial" in names and call.args["initial"] is not None
    element = f"*{out.dtype.triton_name}"
    pointers = {
        "grad": element,
        "output": element,
        "x": element,
        "bounds": problem.bounds_type,
        "out": element,
    }
    constants: dict[str, object] = {"SUMS": sum_across, "PRODUCTS": product_across} | problem.constants()
    if given_initial:
        pointers["initial"] = "fp64"
    else:
        constants["initial"] = None
    launch = Launch(
        call.device,
        segments_backward,
        pointers | dict.fromkeys(problem.numbers(), problem.integers),
        constants,
        elements=("bounds",),
    )
    numbers = tuple(problem.numbers().values())
    index = call.device.resolved_index

    def into(out_data: Any, *inputs: Any) -> None:
        if not out.numel:
            return
        values = dict(zip(names, inputs, strict=True))
        with device_guard(index) as cuda:
            cuda.memset(out_data.address, 0, out.nbytes, cuda.current_stream(index))
        if not problem.count:
            return
        grad, output, x = (copied(values[name]) for name, (_, copied) in tensors.items())
        bounds = problem.bounds(values[problem.name])
        extra = (float(values["initial"]),) if given_initial else ()
        launch(
            problem.grid,
            *(each.address for each in (grad, output, x, bounds, out_data)),
            *extra,
            *numbers,
        )

    return PlannedKernel(into)


register_stub("segment_reduce_stub", "cuda", segment_reduce)
register_stub("_segment_reduce_backward_stub", "cuda", segment_reduce_backward)
