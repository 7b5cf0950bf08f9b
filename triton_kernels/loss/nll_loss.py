"""The negative log likelihood of a class for each sample; each loss is picked first, and then reduced."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...dispatch.structured.meta.loss import MEAN, NONE
from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.allocator import get_allocator
from ...runtime.cuda.device_guard import device_guard
from ...runtime.cuda.driver import MAX_GRID
from ...runtime.cuda.faults import Fault, FaultFlags, fault_flags
from ...runtime.cuda.transfer import copy_across
from ...runtime.data_ptr import DataPtr
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.scalar_type import float32, float64
from ...runtime.tensor_spec import TensorSpec
from ..contiguous import contiguous_copy
from ..conversion import compute_type
from ..elementwise.elementwise import check_devices, check_dtypes
from ..geometry import Geometry, coalesced
from ..launch import cdiv, interpreted, launch_nothing, next_power_of_2
from ..reduction import joint_reduction_kernels as k
from ..reduction.joint_reduction import JointReduction, Run, plan_joint, whole
from ..reduction.sides import Sides, Tile, plan_sides
from .loss_kernels import nll_loss, nll_loss_backward

NO_DIMS = Geometry((), ((),))


def compute_dtype(dtype: ScalarType) -> ScalarType:
    """Return the dtype in which losses of a floating dtype are computed and summed."""
    return float64 if dtype is float64 else float32


def cleared(nbytes: int, data: DataPtr) -> DataPtr:
    """Zero the first bytes of the memory on the current stream, and return it."""
    index = data.device.resolved_index
    with device_guard(index) as cuda:
        cuda.memset(data.address, 0, nbytes, cuda.current_stream(index))
    return data


def sample_strides(spec: TensorSpec) -> tuple[int, ...]:
    """Return the strides of a tensor of scores over the samples: all but its classes."""
    return spec.strides[:0] if spec.ndim == 1 else (spec.strides[0], *spec.strides[2:])


def sample_sizes(spec: TensorSpec) -> tuple[int, ...]:
    """Return the sizes of a tensor of scores over the samples: all but its classes."""
    return spec.sizes[:0] if spec.ndim == 1 else (spec.sizes[0], *spec.sizes[2:])


def check_losses(call: StructuredCall) -> tuple[TensorSpec, TensorSpec, TensorSpec | None]:
    """Return the scores, the targets and the weights; raise for integers and tensors of other devices."""
    spec, target, weight = (call.args[name] for name in ("self", "target", "weight"))
    if not spec.dtype.is_floating_point:
        raise call.refuse(spec)
    check_dtypes(call, [spec])
    for other in (target, weight):
        if other is not None and other.device is not spec.device:
            check_devices(spec, [other])
            raise RuntimeError(f"{call.name}: expected targets and weights on {spec.device}")
    return spec, target, weight


def target_strides(target: TensorSpec, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the targets' strides over the samples; a single target may have one more dimension."""
    return target.strides if target.ndim == len(sizes) else ()


def nll_loss_forward(call: StructuredCall) -> PlannedKernel:
    """Compute -weight[target] * self[target] for each sample, reduced; and the sum of the weights.

    A target that is no class is a fault, and counts as one to be ignored.
    """
    spec, target, weight = check_losses(call)
    reduction = call.args["reduction"]
    each = compute_dtype(spec.dtype)
    sizes = sample_sizes(spec)
    n = math.prod(sizes)
    out, total = call.outputs
    pick = None
    if n:
        scratch = TensorSpec.contiguous(sizes, each, spec.device)
        pick = plan_picks(call, spec, target, weight, out if reduction == NONE else scratch)
    run: Run | None = None
    if reduction != NONE:
        type_ = compute_type(each)
        finish = k.first_over_second if reduction == MEAN else k.all_of
        pairs = JointReduction(
            k.add_pairs, k.pairs_across, k.pair, finish, lambda *_: ((type_, 0), (type_, 0))
        )
        line = whole(Geometry((n,), ((1,), (1,))))
        run = plan_joint(call, pairs, line, [each, each], [out.dtype, total.dtype])
    allocate = get_allocator("cuda").allocate
    nbytes, device = n * each.itemsize, spec.device
    classes = spec.sizes[-1 if spec.ndim == 1 else 1]
    flags = target_flags(call, classes)
    examine = plan_examination(target, classes, call.args["ignore_index"])

    def into(loss: Any, total_weight: Any, x: Any, classes: Any, weights: Any = None) -> None:
        flag = flags.begin()
        if run is None:
            cleared(total.nbytes, total_weight)
            if pick is not None:
                pick(x, classes, weights, loss, None, flag)
        else:
            losses, factors = allocate(nbytes, device), allocate(nbytes, device)
            if pick is not None:
                pick(x, classes, weights, losses, factors, flag)
            run([losses.address, factors.address], [loss.address, total_weight.address], 0.0)
        if flags.driver.launch_blocking:
            examine(flags, classes)

    return PlannedKernel(into)


def target_flags(call: StructuredCall, classes: int) -> FaultFlags:
    """Return the flag word that kernels set for a target that is no class."""
    fault = Fault(call.name, IndexError, f"target out of bounds for {classes} classes")
    return fault_flags(call.device.resolved_index, [fault])


def plan_picks(
    call: StructuredCall, spec: TensorSpec, target: TensorSpec, weight: TensorSpec | None, out: TensorSpec
) -> Any:
    """Return the launch that gathers each sample's loss into `out`, and its weight if the loss is reduced."""
    sizes = sample_sizes(spec)
    axis = 0 if spec.ndim == 1 else 1
    operands = [sample_strides(spec), target_strides(target, sizes), out.strides]
    samples_side = coalesced(sizes, operands)
    n = math.prod(sizes)
    block = min(next_power_of_2(n), 1 << 14) if interpreted() else 256
    pointers = {
        "x": f"*{spec.dtype.triton_name}",
        "target": f"*{target.dtype.triton_name}",
        "loss": f"*{out.dtype.triton_name}",
        "flag": "*i32",
        "classes": "i64",
        "class_stride": "i64",
        "weight_stride": "i64",
        "ignore_index": "i64",
    }
    constexprs: dict[str, object] = {"ACCUMULATOR": compute_type(spec.dtype)}
    reduced = call.args["reduction"] != NONE
    for name, type_ in (
        ("weight", weight and weight.dtype.triton_name),
        ("factors", out.dtype.triton_name if reduced else None),
    ):
        if type_ is None:
            constexprs[name] = None
        else:
            pointers[name] = f"*{type_}"
    launch, grid, numbers = plan_sides(
        call,
        nll_loss,
        Sides(samples_side, NO_DIMS),
        pointers,
        constexprs,
        Tile(block, 1, 1, 1, 4),
        kept_names=("x_kept_stride", "target_kept_stride", "out_kept_stride"),
    )
    fixed = (
        spec.sizes[axis],
        spec.strides[axis],
        weight.strides[0] if weight is not None else 0,
        call.args["ignore_index"],
    )

    def pick(x: Any, target: Any, weights: Any, loss: Any, factors: Any, flag: int) -> None:
        addresses = [data.address for data in (x, target, weights, loss, factors) if data is not None]
        launch(grid, *addresses, flag, *fixed, *numbers)

    return pick


def plan_examination(target: TensorSpec, classes: int, ignore_index: int) -> Any:
    """Return a function that waits for the kernel, and raises IndexError with the first invalid target."""

    def examine(flags: FaultFlags, data: DataPtr) -> None:
        if flags.raised():
            flat, copied = contiguous_copy(target)
            classes_of_samples = np.empty(flat.numel, flat.np_dtype)
            copy_across(classes_of_samples, copied(data), flat.nbytes)
            wrong = next(t for t in classes_of_samples.tolist() if t != ignore_index and not 0 <= t < classes)
            raise IndexError(f"Target {wrong} is out of bounds.")

    return examine


def nll_backward(call: StructuredCall) -> PlannedKernel:
    """Compute -weight[target] * grad at the target's class, zero elsewhere and for invalid targets."""
    spec, target, weight = check_losses(call)
    grad, out = call.args["grad_output"], call.outputs[0]
    if out.numel == 0:
        return PlannedKernel(launch_nothing)
    sizes = sample_sizes(spec)
    axis = 0 if spec.ndim == 1 else 1
    grad_strides = grad.strides if grad.sizes == sizes else (0,) * len(sizes)
    samples_side = coalesced(sizes, [sample_strides(out), target_strides(target, sizes), grad_strides])
    samples_side = Geometry(
        samples_side.sizes, (samples_side.strides[2], samples_side.strides[1], samples_side.strides[0])
    )
    line = coalesced([spec.sizes[axis]], [[out.strides[axis]]])
    sides = Sides(samples_side, line)
    num_rows, n = sides.num_rows, sides.n
    classes_inner = out.strides[axis] == 1
    max_elements = 1 << 14 if interpreted() else 1024
    reduced = min(next_power_of_2(n), max_elements if classes_inner or interpreted() else 16)
    reduced = max(reduced, next_power_of_2(cdiv(n, MAX_GRID[1])))
    outputs = min(next_power_of_2(num_rows), max(max_elements // reduced, 1))
    tile = Tile(outputs, reduced, cdiv(n, reduced), n, 4)
    mean = call.args["reduction"] == MEAN
    pointers = {
        "grad": f"*{grad.dtype.triton_name}",
        "target": f"*{target.dtype.triton_name}",
        "total_weight": f"*{call.args['total_weight'].dtype.triton_name}",
        "out": f"*{out.dtype.triton_name}",
        "weight_stride": "i64",
        "ignore_index": "i64",
    }
    constexprs: dict[str, object] = {"MEAN": mean, "ACCUMULATOR": compute_type(spec.dtype)}
    if weight is None:
        constexprs["weight"] = None
    else:
        pointers["weight"] = f"*{weight.dtype.triton_name}"
    launch, grid, numbers = plan_sides(
        call,
        nll_loss_backward,
        sides,
        pointers,
        constexprs,
        tile,
        kept_names=("grad_kept_stride", "target_kept_stride", "out_kept_stride"),
        reduced_names=("out_reduced_stride",),
    )
    fixed = (weight.strides[0] if weight is not None else 0, call.args["ignore_index"])

    def into(out_data: Any, grad: Any, x: Any, target: Any, weights: Any, total_weight: Any) -> None:
        addresses = [
            data.address for data in (grad, target, weights, total_weight, out_data) if data is not None
        ]
        launch(grid, *addresses, *fixed, *numbers)

    return PlannedKernel(into)


register_stub("nll_loss_forward_stub", "cuda", nll_loss_forward)
register_stub("nll_loss_backward_stub", "cuda", nll_backward)
