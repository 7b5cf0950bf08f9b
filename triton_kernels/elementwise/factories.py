"""Fills, and ranges: elements that follow from their index alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...dispatch.scalars import fitting_number
from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.allocator import get_allocator
from ...runtime.cuda.triton.lazy_triton import tl, triton
from ...runtime.scalar_type import EXPONENTS, PACKED
from ...runtime.tensor_spec import TensorSpec
from ..budget import STREAMING, Configuration, declare
from ..conversion import compute_type, convert
from ..launch import Launch, cdiv, interpreted, launch_nothing, next_power_of_2
from .copy import copy_kernel, identity
from .elementwise import (
    BYTES,
    INTERPRETED_BLOCK,
    check_dtypes,
    complex_elementwise,
    elementwise,
    number_for,
)
from .exponents import to_exponents
from .pairs import part_type


@triton.jit
def indexed(out, n, a, b, c, FUNCTION: tl.constexpr, TYPE: tl.constexpr, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * BLOCK
    index = start + tl.arange(0, BLOCK)
    value = convert(FUNCTION(index, n, a.to(TYPE), b.to(TYPE), c, TYPE), out.dtype.element_ty)
    if start + BLOCK <= n:
        tl.store(out + index, value)
    else:
        tl.store(out + index, value, mask=index < n)


@triton.jit
def range_element(index, n, start, step, c, TYPE: tl.constexpr):
    return index.to(TYPE) * step + start


@triton.jit
def spaced_element(index, n, start, end, step, TYPE: tl.constexpr):
    """Return an element of `linspace`, counted from the nearer end."""
    from_start = index.to(TYPE) * step + start
    from_end = end - (n - 1 - index).to(TYPE) * step
    return tl.where(index < tl.maximum(n // 2, 1), from_start, from_end)


def fill(call: StructuredCall) -> PlannedKernel:
    """Fill every element with the number, the last argument, after the tensor itself in ``fill_``."""
    dtype = call.outputs[0].dtype
    if dtype is PACKED:
        raise call.refuse(call.outputs[0])
    exponents = dtype is EXPONENTS
    into = elementwise(call, to_exponents, [float], [tl.float32]).into if exponents else _fill(call)
    fitting = fitting_number(dtype)
    return PlannedKernel(lambda data, *values: into(data, fitting(values[-1])))


def _fill(call: StructuredCall) -> Callable[..., None]:
    out = call.outputs[0]
    if out.dtype.is_complex:
        return complex_elementwise(call, identity, [complex], [part_type(out.dtype)], [True], True).into
    check_dtypes(call, [out])
    return elementwise(call, identity, [float], [compute_type(out.dtype)]).into


def zero(call: StructuredCall) -> PlannedKernel:
    """Set every element to zero."""
    into = _fill(call)
    return PlannedKernel(lambda data, *_: into(data, 0))


def by_index(
    call: StructuredCall, function: Any, type_: tl.dtype, numbers: Callable[[Any, Any], Sequence[Any]]
) -> PlannedKernel:
    """Return the kernel of a function of the index, two numbers of its type and a float64.

    ``numbers(first, second)`` makes the three numbers from the two that follow the tensor in the call.
    """
    spec = call.outputs[0]
    check_dtypes(call, [spec])
    n = spec.numel
    if n == 0:
        return PlannedKernel(launch_nothing)
    block = BYTES // spec.itemsize
    if interpreted():
        block = min(max(next_power_of_2(n), 16), INTERPRETED_BLOCK)
    name = "fp64" if type_ == tl.float64 else "i64"
    launch = Launch(
        call.device,
        indexed,
        {"out": f"*{spec.dtype.triton_name}", "n": "i64", "a": name, "b": name, "c": "fp64"},
        {"FUNCTION": function, "TYPE": type_, "BLOCK": block},
    )
    grid = (cdiv(n, block), 1, 1)
    if spec.is_contiguous:
        return PlannedKernel(lambda out, _, x, y: launch(grid, out.address, n, *numbers(x, y)))
    gapless = TensorSpec.contiguous(spec.sizes, spec.dtype, spec.device)
    scatter, allocate = copy_kernel(spec, gapless), get_allocator("cuda").allocate

    def into(out: Any, _: Any, x: Any, y: Any) -> None:
        buffer = allocate(gapless.nbytes, gapless.device)
        launch(grid, buffer.address, n, *numbers(x, y))
        scatter(out, buffer)

    return PlannedKernel(into)


def arange(call: StructuredCall) -> PlannedKernel:
    """Write start + i * step to element i, computed in int64 or float64 and then rounded."""
    spec = call.outputs[0]
    if spec.dtype.is_complex or spec.dtype.name == "bool":
        raise call.refuse(spec)
    type_ = tl.int64 if spec.dtype.is_integral else tl.float64
    number = number_for(type_)
    return by_index(call, range_element, type_, lambda start, step: (number(start), number(step), 0.0))


def linspace(call: StructuredCall) -> PlannedKernel:
    """Write evenly spaced numbers from `start` to `end`, both included, each half counted from its own end."""
    spec = call.outputs[0]
    if spec.dtype.name == "bool":
        raise call.refuse(spec)
    gaps, dtype = max(spec.numel - 1, 1), spec.dtype
    whole, fitting = dtype.is_integral, fitting_number(dtype)
    beyond = 1 << 8 * dtype.itemsize if dtype.np.kind == "u" else 0

    def wrapped(bound: float) -> float:
        return float(int(bound) + beyond if bound < 0 else int(bound))

    def numbers(start: Any, end: Any) -> tuple[float, float, float]:
        first, last = float(fitting(start)), float(fitting(end))
        if whole:
            first, last = wrapped(first), wrapped(last)
        return first, last, (last - first) / gaps

    return by_index(call, spaced_element, tl.float64, numbers)


register_stub("fill_stub", "cuda", fill)
register_stub("zero_stub", "cuda", zero)
register_stub("arange_stub", "cuda", arange)
register_stub("linspace_stub", "cuda", linspace)

declare(
    indexed,
    why=STREAMING,
    dtypes={
        ("fp32", "i32", "u32"): (Configuration((1024,)),),
        ("fp64", "i64", "u64"): (Configuration((512,)),),
        ("bf16", "fp16", "i16", "u16"): (Configuration((2048,)),),
        ("i8", "u8"): (Configuration((4096,)),),
    },
    operations="2 n",
    traffic="n itemsize",
    stores=("out",),
)
