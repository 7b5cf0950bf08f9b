"""The loss of squared differences, summed in one pass over both tensors."""

from __future__ import annotations

import math
from typing import Any

from ...dispatch.structured.meta.loss import MEAN, NONE
from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.allocator import get_allocator
from ...runtime.cuda.triton.lazy_triton import tl
from ...runtime.scalar_type import float32, float64
from ...runtime.tensor_spec import TensorSpec
from ..conversion import compute_type
from ..elementwise.elementwise import check_dtypes, elementwise
from ..geometry import Geometry, broadcast_strides, coalesced
from ..reduction import joint_reduction_kernels as k
from ..reduction.joint_reduction import JointReduction, plan_joint, whole
from ..reduction.sides import MAX_DIMS
from .loss_kernels import squared_difference, squared_difference_backward


def common_type(call: StructuredCall) -> tl.dtype:
    """Return the compute type of both sides; raise NotImplementedError for dtypes that are not floating."""
    assert call.iterator is not None
    common = call.iterator.common_dtype
    if not common.is_floating_point:
        raise NotImplementedError(f"\"mse_{call.device.type}\" not implemented for '{common.scalar_name}'")
    return compute_type(common)


def mse_loss(call: StructuredCall) -> PlannedKernel:
    """Compute (self - target) ** 2, its mean or its sum."""
    type_ = common_type(call)
    pair = [call.args["self"], call.args["target"]]
    if call.args["reduction"] == NONE:
        return elementwise(call, squared_difference, pair, [type_, type_])
    check_dtypes(call, pair)
    assert call.iterator is not None
    out, sizes = call.outputs[0], call.iterator.broadcast_shape
    n = math.prod(sizes)
    number = float(n)
    reduced = Geometry((0,), ((1,), (1,)))
    if n:
        reduced = coalesced(sizes, [broadcast_strides(spec, sizes) for spec in pair])
    if len(reduced.sizes) > MAX_DIMS or any(spec.device is not out.device for spec in pair):
        return summed_after(call, type_, sizes)
    dtypes = [spec.dtype for spec in pair]
    run = plan_joint(call, squares(call, type_, k.squared_gap), whole(reduced), dtypes, [out.dtype])
    return PlannedKernel(lambda out_data, a, b: run([a.address, b.address], [out_data.address], number))


def squares(call: StructuredCall, type_: tl.dtype, element: Any) -> JointReduction:
    """Return the reduction that sums `element` over pairs, divided by their number for the mean."""
    finish = k.first_over_number if call.args["reduction"] == MEAN else k.first_of
    return JointReduction(k.sum_of, k.total_across, element, finish, lambda *_: ((type_, 0),))


def summed_after(call: StructuredCall, type_: tl.dtype, sizes: tuple[int, ...]) -> PlannedKernel:
    """Write the squares to memory first, for strides that do not coalesce and for numbers."""
    out = call.outputs[0]
    n = math.prod(sizes)
    each = TensorSpec.contiguous(sizes, float64 if type_ == tl.float64 else float32, call.device)
    pair = [call.args["self"], call.args["target"]]
    square = elementwise(call._replace(outputs=(each,)), squared_difference, pair, [type_, type_]).into
    line = whole(Geometry((n,), ((1,),)))
    run = plan_joint(call, squares(call, type_, k.alone), line, [each.dtype], [out.dtype])
    allocate = get_allocator("cuda").allocate

    def into(out_data: Any, a: Any, b: Any) -> None:
        buffer = allocate(each.nbytes, each.device)
        square(buffer, a, b)
        run([buffer.address], [out_data.address], float(n))

    return PlannedKernel(into)


def mse_loss_backward(call: StructuredCall) -> PlannedKernel:
    """Compute 2 * (self - target) * grad, over the number of elements for the mean."""
    type_ = common_type(call)
    mean = call.args["reduction"] == MEAN
    factor = 2.0 / max(call.outputs[0].numel, 1) if mean else 2.0
    inputs = [call.args["grad_output"], call.args["self"], call.args["target"], float]
    into = elementwise(call, squared_difference_backward, inputs, [type_] * 4).into
    return PlannedKernel(lambda out, grad, a, b: into(out, grad, a, b, factor))


register_stub("mse_loss_stub", "cuda", mse_loss)
register_stub("mse_loss_backward_stub", "cuda", mse_loss_backward)
