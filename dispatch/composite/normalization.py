"""Normalisations as users call them (ATen/native/layer_norm.cpp, group_norm.cpp, Normalization.cpp)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...runtime.scalar_type import float32, uint8
from ..core.kernel_function import Plan
from ..core.mode_stack import sees_whole
from ..core.operator_entry import OperatorEntry
from ..core.overload_packet import packets
from ..generated import functions as ops
from ..plans.delegated import first_of, plan_of_part
from ..plans.register import planned_by
from ..structured.meta.normalization import (
    channels_of,
    check_channels,
    check_features,
    check_normalized_shape,
)
from .forms import check_out, out_form, write_out

if TYPE_CHECKING:
    from ..tensor import Tensor


def _plan_layer_norm(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan the first result of `native_layer_norm`."""
    part = plan_of_part(op, key_set, args, "aten::native_layer_norm", args[:5])
    return op.rebind(layer_norm, args) if part is None else first_of(part)


@planned_by(_plan_layer_norm)
def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
    cudnn_enable: bool,
) -> Tensor:
    """Compute `torch.layer_norm`."""
    return ops.native_layer_norm(input, normalized_shape, weight, bias, eps)[0]


def rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None, eps: float | None
) -> Tensor:
    """Compute `torch.rms_norm`; as in PyTorch, complex inputs are divided by the root of the mean of their squares."""
    dtype, weight_spec = input._spec.dtype, None if weight is None else weight._spec
    if not dtype.is_complex and not _is_seen_on_cpu(input):
        if weight is None or weight._spec.dtype.is_floating_point:
            return ops._fused_rms_norm(input, normalized_shape, weight, eps)[0]
        check_normalized_shape(input._spec, normalized_shape, weight_spec, None, "*")
        return ops.mul(ops._fused_rms_norm(input, normalized_shape, None, eps)[0], weight).to(dtype)
    check_normalized_shape(input._spec, normalized_shape, weight_spec, None, "*")
    if eps is None:
        eps = 2.0 ** (-52 if input._spec.dtype.to_real().itemsize == 8 else -23)
    dims = list(range(input._spec.ndim - len(normalized_shape), input._spec.ndim))
    wide = input.to(float32) if dtype.is_floating_point and dtype.itemsize < 4 else input
    scale = ops.rsqrt(ops.add_(ops.mean(ops.pow(wide, 2), dims, True), eps))
    out = ops.mul(wide, scale)
    return (out if weight is None else ops.mul(out, weight)).to(dtype)


def _is_seen_on_cpu(input: Tensor) -> bool:
    """Return whether a mode sees a CPU call, which PyTorch serves by other operators than this package."""
    return sees_whole() and input._spec.device.type == "cpu"


def _plan_group_norm(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan the first result of `native_group_norm`."""
    input, num_groups, weight, bias, eps, _ = args
    part_args = (input, weight, bias, *_groups(input, num_groups, weight, bias), num_groups, eps)
    part = plan_of_part(op, key_set, args, "aten::native_group_norm", part_args)
    if part is None or op.runtime_positions(args) != [0, 2, 3, 4]:
        return op.rebind(group_norm, args)
    return lambda *runtime: part(*runtime)[0]


@planned_by(_plan_group_norm)
def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    """Compute `torch.group_norm`."""
    sizes = _groups(input, num_groups, weight, bias)
    return ops.native_group_norm(input, weight, bias, *sizes, num_groups, eps)[0]


def _groups(
    input: Tensor, num_groups: int, weight: Tensor | None, bias: Tensor | None
) -> tuple[int, int, int]:
    """Check and return samples, channels and positions."""
    spec = input._spec
    if num_groups <= 0:
        raise RuntimeError(f"Expected num groups to be greater than 0, got {num_groups}")
    n, c = spec.sizes[0] if spec.ndim else 1, channels_of(spec)
    if c % num_groups:
        raise RuntimeError(
            "Expected number of channels in input to be divisible by num_groups, but got input of shape "
            f"{list(spec.sizes)} and num_groups={num_groups}"
        )
    for name, parameter in (("weight", weight), ("bias", bias)):
        check_channels(spec, c, None if parameter is None else parameter._spec, name)
    return n, c, math.prod(spec.sizes[2:])


def _plan_batch_norm(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan the first result of the operator that also returns the statistics."""
    input, weight, bias, mean, _, training, momentum, eps, _ = args
    if not input._spec.numel:
        return op.rebind(batch_norm, args)
    _check_batch_norm(*args[:6])
    name, part_args = "_native_batch_norm_legit", (*args[:5], training, momentum, eps)
    if not training:
        name, part_args = f"{name}_no_training", (*args[:5], momentum, eps)
    elif mean is None:
        name, part_args = f"{name}.no_stats", (input, weight, bias, True, momentum, eps)
    part = plan_of_part(op, key_set, args, f"aten::{name}", part_args)
    if part is None or len(op.runtime_positions(args)) != 7:
        return op.rebind(batch_norm, args)
    if training and mean is None:
        return lambda x, w, b, m, v, *numbers: part(x, w, b, *numbers)[0]
    return lambda *runtime: part(*runtime)[0]


@planned_by(_plan_batch_norm)
def batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Any,
    running_var: Any,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    """Compute `torch.batch_norm`; training writes the running statistics."""
    spec = input._spec
    if not spec.numel:
        out = input.clone()
        if weight is not None:
            out = out * weight[0]
        return out if bias is None else out + bias[0]
    _check_batch_norm(input, weight, bias, running_mean, running_var, training)
    if _is_seen_on_cpu(input):
        _reserve(input)
        results = ops.native_batch_norm(
            input, weight, bias, running_mean, running_var, training, momentum, eps
        )
    elif not training:
        results = ops._native_batch_norm_legit_no_training(
            input, weight, bias, running_mean, running_var, momentum, eps
        )
    elif running_mean is None:
        results = packets["_native_batch_norm_legit"].call(input, weight, bias, True, momentum, eps)
    else:
        results = packets["_native_batch_norm_legit"].call(
            input, weight, bias, running_mean, running_var, True, momentum, eps
        )
    return results[0]


def _check_batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
) -> None:
    channels = channels_of(input._spec)
    for name, parameter in (("running_mean", running_mean), ("running_var", running_var)):
        if parameter is None and not training:
            raise RuntimeError(f"{name} must be defined in evaluation mode")
    parameters = {"running_mean": running_mean, "running_var": running_var, "weight": weight, "bias": bias}
    for name, parameter in parameters.items():
        check_features(name, None if parameter is None else parameter._spec, channels)
    if (running_mean is None) != (running_var is None):
        raise ValueError("running_mean and running_var must either both be None or neither be None")


def native_batch_norm_out(*args: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Run `torch.native_batch_norm` into `out`, `save_mean` and `save_invstd`."""
    statistics = args[3:5]
    # Write the running statistics last, after all checks.
    moved = [None if each is None else each.clone() for each in statistics]
    results = ops.native_batch_norm(*args[:3], *moved, *args[5:8])
    for target, result in zip(args[8:], results, strict=True):
        check_out("native_batch_norm", target, result, exact=True)
    out, mean, invstd = (
        write_out("native_batch_norm", target, result)
        for target, result in zip(args[8:], results, strict=True)
    )
    for each, now in zip(statistics, moved, strict=True):
        if each is not None:
            each.copy_(now)
    return out, mean, invstd


def _native_batch_norm_legit_no_stats_out(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, *rest: Any
) -> tuple[Tensor, Tensor, Tensor]:
    """Run `_native_batch_norm_legit` without running statistics into `out`, `save_mean` and `save_invstd`."""
    return native_batch_norm_out(input, weight, bias, None, None, *rest)


def _native_batch_norm_legit_functional(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Run `_native_batch_norm_legit` with the new running statistics as results."""
    mean, var = running_mean.clone(), running_var.clone()
    results = packets["_native_batch_norm_legit"].call(
        input, weight, bias, mean, var, training, momentum, eps
    )
    return (*results, mean, var)


def _reserve(input: Tensor) -> Tensor:
    """Return an empty reserve; the library workspace for backward is not used here."""
    return ops.empty((0,), dtype=uint8, device=input.device)


def _plan_with_update(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    part_args = (*args[:5], True, *args[5:])
    part = plan_of_part(op, key_set, args, "aten::_native_batch_norm_legit", part_args)
    if part is None or len(op.runtime_positions(args)) != len(args):
        return op.rebind(_batch_norm_with_update, args)
    return lambda input, *rest: (*part(input, *rest), _reserve(input))


@planned_by(_plan_with_update)
def _batch_norm_with_update(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Compute batch normalization in training, which writes the running statistics; the last result is empty."""
    results = packets["_native_batch_norm_legit"].call(
        input, weight, bias, running_mean, running_var, True, momentum, eps
    )
    return (*results, _reserve(input))


def _batch_norm_with_update_functional(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    momentum: float,
    eps: float,
) -> tuple[Tensor, ...]:
    """Run `_batch_norm_with_update` with the new running statistics as results."""
    *results, mean, var = ops._native_batch_norm_legit_functional(
        input, weight, bias, running_mean, running_var, True, momentum, eps
    )
    return (*results, _reserve(input), mean, var)


def _batch_norm_with_update_out(*args: Any) -> tuple[Tensor, ...]:
    """Run `_batch_norm_with_update` into given tensors; none is written unless all are valid."""
    *results, mean, var = _batch_norm_with_update_functional(*args[:7])
    outs = args[7:]
    for target, result in zip(outs, results, strict=True):
        check_out("_batch_norm_with_update", target, result)
    args[3].copy_(mean)
    args[4].copy_(var)
    return tuple(
        write_out("_batch_norm_with_update", target, result)
        for target, result in zip(outs, results, strict=True)
    )


def _batch_norm_no_update(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Any,
    running_var: Any,
    momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Compute batch normalization by running statistics; the last result is empty."""
    for name, parameter in (("running_mean", running_mean), ("running_var", running_var)):
        if parameter is None:
            raise RuntimeError(f"{name} must be defined in evaluation mode")
    results = ops._native_batch_norm_legit_no_training(
        input, weight, bias, running_mean, running_var, momentum, eps
    )
    return (*results, _reserve(input))


_batch_norm_no_update_out = out_form("_batch_norm_no_update", _batch_norm_no_update, 4)


def batch_norm_backward(
    grad_out: Tensor,
    input: Tensor,
    weight: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    save_mean: Tensor | None,
    save_var: Tensor | None,
    update: bool,
    eps: float,
    output_mask: Sequence[bool],
    reserve: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute the gradients of `_batch_norm_with_update`, or with `update` false of `_batch_norm_no_update`."""
    return ops.native_batch_norm_backward(
        grad_out, input, weight, running_mean, running_var, save_mean, save_var, update, eps, output_mask
    )


def instance_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    """Compute `torch.instance_norm`: a `batch_norm` in which each sample has its own channels."""
    if not use_input_stats and (running_mean is None or running_var is None):
        raise RuntimeError(
            "Expected running_mean and running_var to be defined when use_input_stats is false"
        )
    channels = channels_of(input._spec)
    sizes: tuple[int, ...] = input._spec.sizes
    n, spatial = sizes[0], sizes[2:]
    parameters: list[Any] = [weight, bias, running_mean, running_var]
    weight, bias, mean, var = [None if parameter is None else parameter.repeat(n) for parameter in parameters]
    flat = input.contiguous().reshape((1, n * channels, *spatial))
    out = ops.batch_norm(flat, weight, bias, mean, var, use_input_stats, momentum, eps, cudnn_enabled)
    if use_input_stats:
        for running, made in ((running_mean, mean), (running_var, var)):
            if running is not None and made is not None:
                running.copy_(made.view((n, channels)).mean([0]))
    return out.reshape((n, channels, *spatial))
