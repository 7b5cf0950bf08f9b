"""logsumexp of complex numbers: shifted by the greatest real part, exponentials, their sum, and its logarithm.

Four launches over kernels that are there: sines, cosines and three accumulators in one program spill.
"""

from __future__ import annotations

from typing import Any

from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.allocator import get_allocator
from ...runtime.tensor_spec import TensorSpec
from ..elementwise.complex_functions import shifted_exp, shifted_log
from ..elementwise.elementwise import complex_elementwise
from ..elementwise.pairs import part_type
from ..launch import launch_nothing
from .complex_reduction import COMPLEX, complex_reduction, real_or_complex
from .joint_reduction import JOINT_REDUCTIONS, joint_reduction
from .reduction import REDUCTIONS, reduction


def complex_logsumexp(call: StructuredCall) -> PlannedKernel:
    """Compute the logarithm of the sum of complex exponentials over ``call.extra["dims"]``."""
    spec, out = call.args["self"], call.outputs[0]
    if out.numel == 0:
        return PlannedKernel(launch_nothing)
    part, device = spec.dtype.to_real(), call.device
    dims = {d % spec.ndim if spec.ndim else 0 for d in call.extra["dims"]}
    real = spec.replace(strides=tuple(2 * s for s in spec.strides), dtype=part)
    max_spec = TensorSpec.contiguous(out.sizes, part, device)
    turned = TensorSpec.contiguous(spec.sizes, spec.dtype, device)
    total = TensorSpec.contiguous(out.sizes, out.dtype, device)
    kept_strides = iter([s for d, s in enumerate(max_spec.strides) if d not in dims or out.ndim != spec.ndim])
    over = tuple(0 if d in dims else next(kept_strides) for d in range(spec.ndim))
    spread = max_spec.replace(sizes=spec.sizes, strides=over)
    types = [part_type(spec.dtype)] * 2

    def part_of(args: dict[str, Any], result: TensorSpec) -> StructuredCall:
        return call._replace(args=args, runtime=tuple(args), outputs=(result,))

    allocate = get_allocator("cuda").allocate
    largest = None
    if spec.numel:
        largest = reduction(REDUCTIONS["amax_stub"])(part_of({"self": real}, max_spec)).into
    shift = complex_elementwise(
        part_of({"self": spec, "other": spread}, turned),
        shifted_exp,
        [spec, spread],
        types,
        [True, False],
        True,
    ).into
    add = complex_reduction(COMPLEX["sum_stub"])(part_of({"self": turned}, total)).into
    finish = complex_elementwise(
        part_of({"self": total, "other": max_spec}, out),
        shifted_log,
        [total, max_spec],
        types,
        [True, False],
        True,
    ).into

    def into(out_data: Any, x: Any) -> None:
        tops, turns, totals = (allocate(each.nbytes, device) for each in (max_spec, turned, total))
        if largest is not None:
            largest(tops, x)
            shift(turns, x, tops)
        add(totals, turns)
        finish(out_data, totals, tops)

    return PlannedKernel(into)


register_stub(
    "logsumexp_stub",
    "cuda",
    real_or_complex(joint_reduction(JOINT_REDUCTIONS["logsumexp_stub"]), complex_logsumexp),
)
