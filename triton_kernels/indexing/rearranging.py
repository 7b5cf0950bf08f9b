"""Turning and masking: flip, tril, triu, masked_fill. Each is copies or one launch over strides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...dispatch.scalars import fitting_number
from ...dispatch.structured.stub import ElementFunction, PlannedKernel, StructuredCall, register_stub
from ...runtime.allocator import storage_size
from ...runtime.cuda.triton.lazy_triton import tl, triton
from ...runtime.tensor_spec import TensorSpec
from ..elementwise.complex_functions import filled_where as complex_filled_where
from ..elementwise.copy import as_real, copy_kernel
from ..elementwise.elementwise import check_dtypes, complex_elementwise, elementwise
from ..elementwise.pairs import part_type
from ..launch import launch_nothing
from .index_space import MOVED_AS, launch_over, space, split
from .joining import moved
from .picking import refuse_untyped
from .triangle_kernel import triangle


@triton.jit
def filled_where(a, mask, value):
    return tl.where(mask, value, a)


def flip(call: StructuredCall) -> PlannedKernel:
    """Copy through negative strides, from the last element of each flipped dimension."""
    out, source = call.outputs[0], call.args["self"]
    dims: tuple[int, ...] = call.extra["dims"]
    if out.numel == 0:
        return PlannedKernel(launch_nothing)
    strides = tuple(-s if d in dims else s for d, s in enumerate(source.strides))
    copy = copy_kernel(out, source.replace(sizes=source.sizes, strides=strides))
    last = sum((source.sizes[d] - 1) * source.strides[d] for d in dims) * source.itemsize
    return PlannedKernel(lambda out_data, data: copy(out_data, moved(data, last)))


def masked_fill(call: StructuredCall) -> PlannedKernel:
    """Fill a number where the mask holds."""
    out = call.outputs[0]
    inputs = [call.args[name] for name in ("self", "mask", "value")]
    fixed = () if "value" in call.runtime else (call.args["value"],)
    if fixed:
        inputs[2] = fixed[0].__class__
    type_ = part_type(out.dtype)
    types = [type_, tl.int1, type_]
    element: ElementFunction | None = None
    if out.dtype.is_complex:
        pairs = [True, False, True]
        into = complex_elementwise(call, complex_filled_where, inputs, types, pairs, True).into
    else:
        check_dtypes(call, [out])
        kernel = elementwise(call, filled_where, inputs, types)
        into, element = kernel.into, kernel.element
    if isinstance(call.args["value"], TensorSpec):
        return PlannedKernel(into)
    fitting = fitting_number(out.dtype)
    if fixed:
        fitting(*fixed)
        return PlannedKernel(lambda out_data, *data: into(out_data, *data, *fixed))
    if element is not None:
        of_data, of_mask, of_value = element.prepare
        element = element._replace(prepare=(of_data, of_mask, lambda value: of_value(fitting(value))))
    return PlannedKernel(
        lambda out_data, data, mask, value: into(out_data, data, mask, fitting(value)), element=element
    )


def triangle_of(lower: bool) -> Callable[[StructuredCall], PlannedKernel]:
    """Return the factory of ``tril`` or ``triu``."""

    def factory(call: StructuredCall) -> PlannedKernel:
        out, source = call.outputs[0], call.args["self"]
        refuse_untyped(call, [out])
        if out.numel == 0:
            return PlannedKernel(launch_nothing)
        if out.itemsize == 16:
            out, source = pairs_in_front(out), pairs_in_front(source)
        return PlannedKernel(plan_triangle(out, source, call.args["diagonal"], lower))

    return factory


def pairs_in_front(spec: TensorSpec) -> TensorSpec:
    """Return elements of 16 bytes as two batches of 8."""
    real = as_real(spec)
    return real.replace(sizes=(2, *spec.sizes), strides=(real.strides[-1], *real.strides[:-1]))


def plan_triangle(
    out: TensorSpec, source: TensorSpec, diagonal: int, lower: bool
) -> Callable[[Any, Any], None]:
    """Return the launches over all matrices, as a function of both tensors' bytes."""
    *batch, rows, columns = out.sizes
    strides = {"ob": out.strides[:-2], "sb": source.strides[:-2]}
    inner, offsets = split(space("b", batch, strides, False))
    type_ = f"*{MOVED_AS[out.itemsize]}"
    numbers = {
        "rows": rows,
        "columns": columns,
        "diagonal": max(-rows, min(diagonal, columns)),
        "source_row": source.strides[-2],
        "source_column": source.strides[-1],
        "out_row": out.strides[-2],
        "out_column": out.strides[-1],
    }
    run = launch_over(
        out.device,
        triangle,
        inner.numel * rows * columns,
        {"source": type_, "out": type_},
        [inner],
        numbers,
        {"LOWER": lower},
        storage_size(out.sizes, out.strides) + storage_size(source.sizes, source.strides),
    )
    itemsize = out.itemsize

    def into(out_data: Any, data: Any) -> None:
        for out_offset, source_offset in offsets:
            run(data.address + source_offset * itemsize, out_data.address + out_offset * itemsize)

    return into


for _stub, _factory in {
    "flip_stub": flip,
    "masked_fill_stub": masked_fill,
    "tril_stub": triangle_of(True),
    "triu_stub": triangle_of(False),
}.items():
    register_stub(_stub, "cuda", _factory)
