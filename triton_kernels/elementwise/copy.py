"""Copies between any strides and dtypes on one device, and between two devices."""

from __future__ import annotations

from typing import Any

from ...dispatch.structured.choices import chosen
from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.allocator import get_allocator
from ...runtime.cuda.transfer import copy_between_devices
from ...runtime.cuda.triton.lazy_triton import triton
from ...runtime.scalar_type import EXPONENTS, bool_, int32, int64
from ...runtime.tensor_spec import TensorSpec
from ..conversion import triton_type
from ..geometry import broadcast_strides
from .elementwise import check_dtypes, complex_elementwise, elementwise
from .exponents import from_exponents, to_exponents
from .pairs import part_type

WHOLE = {4: int32, 8: int64}
"""Integers that hold a complex number, by its bytes."""


@triton.jit
def identity(a):
    return a


@triton.jit
def is_nonzero(a):
    re, im = a
    return (re != 0) | (im != 0)


def copy(call: StructuredCall) -> PlannedKernel:
    """``out[...] = self``, broadcast and converted; the source may lie on another CUDA device."""
    source = call.args[call.runtime[0]]
    if source.device is not call.outputs[0].device:
        return copy_from_device(call, source)
    out = call.outputs[0]
    if source.dtype.is_complex or out.dtype.is_complex:
        return copy_complex(call, source, out)
    check_dtypes(call, [source])
    return elementwise(call, conversion(source, out), [source], [triton_type(source.dtype)])


def conversion(source: TensorSpec, out: TensorSpec) -> Any:
    """Return the function applied to an element before the conversion by its Triton type."""
    if source.dtype is not out.dtype:
        if source.dtype is EXPONENTS:
            return from_exponents
        if out.dtype is EXPONENTS:
            return to_exponents
    return identity


def copy_complex(call: StructuredCall, source: TensorSpec, out: TensorSpec) -> PlannedKernel:
    """Copy complex numbers as four or eight bytes or as their parts; a copy to real drops the imaginary part."""
    name = call.runtime[0]
    if source.dtype is out.dtype and source.itemsize in WHOLE:
        chosen("integers of as many bytes", "both are {}", source.dtype.name)
        whole = (spec.replace(dtype=WHOLE[source.itemsize]) for spec in (source, out))
        return copy(call._replace(args={name: next(whole)}, outputs=(next(whole),)))
    if out.dtype is bool_:
        return complex_elementwise(call, is_nonzero, [source], [part_type(source.dtype)], [True], False)
    if not out.dtype.is_complex:
        real = source.replace(strides=tuple(2 * s for s in source.strides), dtype=source.dtype.to_real())
        return copy(call._replace(args={name: real}))
    parts = [spec.dtype.is_complex for spec in (source, out)]
    if all(parts) and source.itemsize != 16:
        return copy(call._replace(args={name: as_real(source)}, outputs=(as_real(out),)))
    function = conversion(source, out)
    return complex_elementwise(call, function, [source], [part_type(source.dtype)], parts[:1], parts[0])


def as_real(spec: TensorSpec) -> TensorSpec:
    """Return a complex tensor's spec as pairs of real numbers in a last dimension."""
    return spec.replace(
        sizes=(*spec.sizes, 2), strides=(*(2 * s for s in spec.strides), 1), dtype=spec.dtype.to_real()
    )


def copy_from_device(call: StructuredCall, source: TensorSpec) -> PlannedKernel:
    """Copy across contiguous bytes, in the source's dtype; each side gathers or scatters its own."""
    out = call.outputs[0]
    chosen("between devices", "the source lies on {}", source.device)
    expanded = source.replace(sizes=out.sizes, strides=broadcast_strides(source, out.sizes))
    remote = TensorSpec.contiguous(out.sizes, source.dtype, source.device)
    local = TensorSpec.contiguous(out.sizes, source.dtype, out.device)
    gather = None if expanded.is_contiguous else copy_kernel(remote, expanded)
    scatter = None if out.is_contiguous and out.dtype is source.dtype else copy_kernel(out, local)
    allocate = get_allocator("cuda").allocate

    def into(target: Any, data: Any) -> None:
        if gather is not None:
            buffer = allocate(remote.nbytes, remote.device)
            gather(buffer, data)
            data = buffer
        landing = target if scatter is None else allocate(local.nbytes, local.device)
        copy_between_devices(landing, data, local.nbytes)
        if scatter is not None:
            scatter(target, landing)

    return PlannedKernel(into)


def copy_kernel(out: TensorSpec, source: TensorSpec) -> Any:
    """Return the function ``copy(out bytes, source bytes)`` between two geometries on one device."""
    call = StructuredCall("copy", {"self": source}, ("self",), (out,), None, out.device, {})
    return copy(call).into


register_stub("copy_stub", "cuda", copy)
