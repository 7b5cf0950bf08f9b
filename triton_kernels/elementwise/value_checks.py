"""Elements that an operator does not take, such as a probability above 1: a launch that reports them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.cuda.faults import Fault, fault_flags
from ...runtime.cuda.triton.lazy_triton import tl, triton
from ...runtime.tensor_spec import TensorSpec
from ..budget import FLOATS, STREAMING, Configuration, declare
from ..conversion import compute_type, convert
from ..indexing.dense_tiles import dense_tile
from ..indexing.index_space import launch_over, space, split
from ..launch import launch_nothing
from ..reduction.reduction_kernels import offset_of


@triton.jit
def report(
    x,
    flag,
    n,
    d0,
    d1,
    d2,
    xd0,
    xd1,
    xd2,
    xd3,
    FAULT: tl.constexpr,
    TYPE: tl.constexpr,
    DENSE: tl.constexpr,
    NDIM_D: tl.constexpr,
    INDEX: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Raise the flag if FAULT holds for any of the n elements; DENSE means that they are contiguous."""
    start = tl.program_id(0).to(INDEX) * BLOCK
    d = start + tl.arange(0, BLOCK).to(INDEX)
    mask = d < n
    if DENSE:
        value = dense_tile(x, start, n, BLOCK)
    else:
        value = tl.load(x + offset_of(d, d0, d1, d2, xd0, xd1, xd2, xd3, NDIM_D), mask=mask, other=0)
    tl.store(flag + tl.zeros_like(d), 1, mask=mask & FAULT(convert(value, TYPE)))


def checked(call: StructuredCall, spec: TensorSpec, fault: Any, message: str) -> Callable[[Any], None]:
    """Return ``check(bytes)``: it is a fault of the call's operator if ``fault(element)`` holds anywhere."""
    if spec.numel == 0:
        return launch_nothing
    flags = fault_flags(call.device.resolved_index, [Fault(call.name, RuntimeError, message)])
    inner, offsets = split(space("d", spec.sizes, {"xd": spec.strides}, False))
    constants = {"FAULT": fault, "TYPE": compute_type(spec.dtype), "DENSE": inner.is_dense("xd")}
    pointers = {"x": f"*{spec.dtype.triton_name}", "flag": "*i32"}
    run = launch_over(call.device, report, inner.numel, pointers, [inner], {}, constants)

    def check(data: Any) -> None:
        words = flags.begin()
        for (offset,) in offsets:
            run(data.address + offset * spec.itemsize, words)
        if flags.driver.launch_blocking and flags.raised():
            raise RuntimeError(message)

    return check


@triton.jit
def is_true(x):
    return x


def repeats_check(call: StructuredCall) -> PlannedKernel:
    """Report where a mask says that the repeats of `repeat_interleave` are negative or do not match the given count."""
    message = "repeats can not be negative, and allocated size must match their sum"
    return PlannedKernel(checked(call, call.args["self"], is_true, message))


register_stub("repeats_check_stub", "cuda", repeats_check)

declare(
    report,
    why=STREAMING,
    operand="x",
    dtypes=(*FLOATS, "i1"),
    configurations=(Configuration((1024,)),),
    operations="2 for each element",
    traffic="n itemsize",
    loads=("x",),
)
