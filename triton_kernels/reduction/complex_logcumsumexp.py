"""logcumsumexp of complex numbers, by doubling: prefixes of 1, 2, 4, ... elements, each combined from two.

It takes log2(n) launches of the kernel of `logaddexp` between two buffers. Sines, cosines, a logarithm and an
arc tangent of two tiles do not fit the registers of a scan's program. Prefix i goes through ceil(log2(i + 1))
steps, each in the parts' own type. Operations: n log2(n) complex logaddexp; traffic: 24 n log2(n) bytes of
complex64.
"""

from __future__ import annotations

from typing import Any

from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.allocator import get_allocator
from ...runtime.tensor_spec import TensorSpec
from ..elementwise.complex_functions import logaddexp
from ..elementwise.copy import copy_kernel
from ..elementwise.elementwise import complex_elementwise
from ..elementwise.pairs import part_type
from ..launch import launch_nothing
from .complex_reduction import real_or_complex
from .scan import SCANS, scan


def complex_logcumsumexp(call: StructuredCall) -> PlannedKernel:
    """Compute the logarithms of prefix sums of complex exponentials along ``call.extra["dim"]``."""
    spec, out, dim = call.args["self"], call.outputs[0], call.extra["dim"]
    if out.numel == 0:
        return PlannedKernel(launch_nothing)
    n = spec.sizes[dim] if spec.ndim else 1
    shifts = [1 << bit for bit in range((n - 1).bit_length())]
    if not shifts:
        return PlannedKernel(copy_kernel(out, spec))
    between = TensorSpec.contiguous(spec.sizes, spec.dtype, spec.device)
    laid = [spec, *[between] * (len(shifts) - 1), out]
    steps = [
        _step(call, dim, shift, source, target)
        for shift, source, target in zip(shifts, laid, laid[1:], strict=False)
    ]
    allocate, device = get_allocator("cuda").allocate, call.device

    def into(out_data: Any, x: Any) -> None:
        buffers = [allocate(between.nbytes, device) for _ in steps[1:3]]
        source = x
        for number, step in enumerate(steps):
            target = out_data if step is steps[-1] else buffers[number % 2]
            step(target, source)
            source = target

    return PlannedKernel(into)


def _step(call: StructuredCall, dim: int, shift: int, source: TensorSpec, target: TensorSpec) -> Any:
    """From prefixes of `shift` elements to ones of twice as many; the first `shift` are whole."""
    rest = source.sizes[dim] - shift
    types = [part_type(source.dtype)] * 2
    operand = _shortened(source, dim, rest)
    combining = call._replace(
        args={"self": operand, "other": operand},
        runtime=("self", "other"),
        outputs=(_shortened(target, dim, rest),),
    )
    combine = complex_elementwise(combining, logaddexp, [operand, operand], types, [True, True], True).into
    keep = copy_kernel(_shortened(target, dim, shift), _shortened(source, dim, shift))
    past = shift * source.strides[dim] * source.itemsize
    past_target = shift * target.strides[dim] * target.itemsize

    def run(out: Any, x: Any) -> None:
        keep(out, x)
        # The later of equals gives the angle, as in a sequential scan.
        combine(out.offset_by(past_target), x.offset_by(past), x)

    return run


def _shortened(spec: TensorSpec, dim: int, size: int) -> TensorSpec:
    return spec.replace(sizes=(*spec.sizes[:dim], size, *spec.sizes[dim + 1 :]), strides=spec.strides)


register_stub(
    "logcumsumexp_stub", "cuda", real_or_complex(scan(SCANS["logcumsumexp_stub"]), complex_logcumsumexp)
)
