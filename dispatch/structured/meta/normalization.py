"""Meta functions and planners of normalizations (ATen/native/layer_norm.cpp, group_norm.cpp, Normalization.cpp).

Mean and reciprocal standard deviation are saved for backward. On CUDA devices and the Meta backend they are float32 for
16-bit inputs. On the CPU, and for group_norm everywhere, they have the input's dtype unless weights are wider.

Gradients that the output mask does not ask for are None.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ....runtime.memory_format import (
    channels_last,
    channels_last_3d,
    channels_last_strides,
    is_channels_last_strides,
)
from ....runtime.scalar_type import bfloat16, float16, float32
from ....runtime.scalar_type import dtype as ScalarType
from ....runtime.tensor_spec import TensorSpec
from ...core.kernel_function import Plan
from ...core.operator_entry import OperatorEntry
from ...tensor import Tensor
from ..allocation import allocator_of
from ..meta_base import MetaBase
from ..stub import StructuredCall, find_kernel
from .linalg import check_same_device

if TYPE_CHECKING:
    from ..meta_base import NumberKind

NARROW = (float16, bfloat16)


def kept_dtype(dtype: ScalarType, is_cpu: bool, weight: TensorSpec | None) -> ScalarType:
    """Return the dtype of means and reciprocal standard deviations."""
    if dtype not in NARROW:
        return dtype
    return dtype if is_cpu and (weight is None or weight.dtype is dtype) else float32


def _refuse_dtype(kernel: str, spec: TensorSpec) -> None:
    if not spec.dtype.is_floating_point:
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{spec.dtype.scalar_name}'")


def check_parameters(input: TensorSpec, *parameters: TensorSpec | None) -> None:
    """Check that weights share one dtype: the input's, or float32 for 16-bit floats."""
    specs = [spec for spec in parameters if spec is not None]
    if not specs:
        return
    first = specs[0].dtype
    if first is not input.dtype and not (input.dtype in NARROW and first is float32):
        raise RuntimeError("mixed dtype (CPU): expect parameter to have scalar type of Float")
    for spec in specs[1:]:
        if spec.dtype is first:
            continue
        if first is float32:
            raise RuntimeError("mixed dtype (CPU): expect parameter to have scalar type of Float")
        raise RuntimeError(f"expected scalar type {first.scalar_name} but found {spec.dtype.scalar_name}")


def check_normalized_shape(
    input: TensorSpec, shape: Sequence[int], weight: TensorSpec | None, bias: TensorSpec | None, star: str
) -> int:
    """Return the number of leading, unnormalized dimensions. Raises RuntimeError for shapes that do not fit."""
    shape = list(shape)
    if not shape:
        raise RuntimeError(
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but got "
            "normalized_shape = []"
        )
    for name, spec in (("weight", weight), ("bias", bias)):
        if spec is not None and list(spec.sizes) != shape:
            raise RuntimeError(
                f"Expected {name} to be of same shape as normalized_shape, but got {name} of shape "
                f"{list(spec.sizes)} and normalized_shape = {shape}"
            )
    lead = input.ndim - len(shape)
    if lead < 0 or list(input.sizes[lead:]) != shape:
        raise RuntimeError(
            f"Given normalized_shape={shape}, expected input with shape [{star}{', '.join(map(str, shape))}], but got "
            f"input of size{list(input.sizes)}"
        )
    return lead


def native_layer_norm(
    meta: MetaBase,
    input: TensorSpec,
    normalized_shape: Sequence[int],
    weight: TensorSpec | None,
    bias: TensorSpec | None,
    eps: NumberKind,
) -> None:
    """Infer the normalized input, contiguous; the mean and reciprocal deviation of each row, (..., 1, 1)."""
    lead = check_normalized_shape(input, normalized_shape, weight, bias, "*, ")
    check_same_device("native_layer_norm", input, weight, bias)
    _refuse_dtype("LayerNormKernelImpl", input)
    check_parameters(input, weight, bias)
    statistics_sizes = (*input.sizes[:lead], *(1,) * (input.ndim - lead))
    dtype = kept_dtype(input.dtype, meta.device.type == "cpu", weight if weight is not None else bias)
    meta.extra |= {"lead": lead}
    meta.set_output_contiguous(0, input.sizes, dtype=input.dtype)
    meta.set_output_contiguous(1, statistics_sizes, dtype=dtype)
    meta.set_output_contiguous(2, statistics_sizes, dtype=dtype)


def _fused_rms_norm(
    meta: MetaBase,
    input: TensorSpec,
    normalized_shape: Sequence[int],
    weight: TensorSpec | None,
    eps: NumberKind | None,
) -> None:
    """Infer the input over its root mean square, and the reciprocal of the latter, in float32 for 16-bit floats."""
    lead = check_normalized_shape(input, normalized_shape, weight, None, "*")
    check_same_device("_fused_rms_norm", input, weight)
    _refuse_dtype("rms_norm", input)
    if weight is not None:
        _refuse_dtype("rms_norm", weight)
    statistics_sizes = (*input.sizes[:lead], *(1,) * (input.ndim - lead))
    meta.extra |= {"lead": lead}
    meta.set_output_contiguous(0, input.sizes, dtype=input.dtype)
    meta.set_output_contiguous(1, statistics_sizes, dtype=kept_dtype(input.dtype, False, None))


Masked = Sequence[TensorSpec | None]


def _plan_masked(
    name: str, stub: str, outputs: Masked, inputs: dict[str, Any], extra: dict[str, Any]
) -> Callable[..., tuple[Any, ...]]:
    """Return a function from the tensors in `inputs` to the outputs, with None for outputs without a spec."""
    made = [spec for spec in outputs if spec is not None]
    allocators = [None if spec is None else allocator_of(spec) for spec in outputs]
    into = None
    if made and not made[0].is_meta:
        device = made[0].device
        call = StructuredCall(
            name, inputs, tuple(inputs), tuple(made), None, device, {**extra, "outputs": tuple(outputs)}
        )
        into = find_kernel(stub, device.type, name)(call).into

    are_tensors = [isinstance(spec, TensorSpec) for spec in inputs.values()]

    def run(*values: Any) -> tuple[Any, ...]:
        data = [None if allocate is None else allocate() for allocate in allocators]
        if into is not None:
            into(
                *data,
                *[v._data if is_tensor else v for v, is_tensor in zip(values, are_tensors, strict=True)],
            )
        return tuple(
            [
                None if spec is None else Tensor.from_data(d, spec)
                for d, spec in zip(data, outputs, strict=True)
            ]
        )

    return run


def _spec(value: Tensor | None) -> Any:
    return None if value is None else value._spec.detached


def _masked(spec: TensorSpec, is_needed: bool) -> TensorSpec | None:
    return spec if is_needed else None


def _gradient_of(spec: TensorSpec) -> TensorSpec:
    return TensorSpec.contiguous(spec.sizes, spec.dtype, spec.device)


def _refuse_complex(name: str, **specs: TensorSpec | None) -> None:
    for argument, spec in specs.items():
        if spec is not None and not spec.dtype.is_floating_point:
            raise RuntimeError(
                f"{name}: expected {argument} of a real floating dtype, but got {spec.dtype.scalar_name}"
            )


def _check_kept(name: str, which: str, spec: TensorSpec, count: int) -> None:
    if spec.numel != count:
        raise RuntimeError(
            f"{name}: expected {which} to have {count} elements, got a tensor of shape {list(spec.sizes)}"
        )


def _check_grad(name: str, grad: TensorSpec, input: TensorSpec) -> None:
    if grad.sizes != input.sizes:
        raise RuntimeError(
            f"{name}: expected grad_out to have the size of input, {list(input.sizes)}, got {list(grad.sizes)}"
        )
    if grad.dtype is not input.dtype:
        raise RuntimeError(
            f"expected scalar type {input.dtype.scalar_name} but found {grad.dtype.scalar_name}"
        )


def native_layer_norm_backward(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan the gradients of input, weight and bias that `output_mask` asks for."""
    grad, input, shape, mean, rstd, weight, bias, mask = args
    grad, input, mean, rstd, weight, bias = map(_spec, (grad, input, mean, rstd, weight, bias))
    name = "native_layer_norm_backward"
    lead = check_normalized_shape(input, shape, weight, bias, "*, ")
    check_same_device(name, input, grad, mean, rstd, weight, bias)
    _refuse_dtype("LayerNormBackwardKernelImpl", input)
    _check_grad(name, grad, input)
    rows = math.prod(input.sizes[:lead])
    _check_kept(name, "mean", mean, rows)
    _check_kept(name, "rstd", rstd, rows)
    _refuse_complex(name, mean=mean, rstd=rstd, weight=weight)
    parameter = weight if weight is not None else bias
    made = TensorSpec.contiguous(
        input.sizes[lead:], input.dtype if parameter is None else parameter.dtype, input.device
    )
    run = _plan_masked(
        name,
        "native_layer_norm_backward_stub",
        (_masked(_gradient_of(input), mask[0]), _masked(made, mask[1]), _masked(made, mask[2])),
        {"grad_out": grad, "input": input, "mean": mean, "rstd": rstd, "weight": weight},
        {"lead": lead},
    )
    return op.rebind(lambda g, x, shape, mean, rstd, w, b, mask: run(g, x, mean, rstd, w), args)


def _fused_rms_norm_backward(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan the gradients of input and weight that `output_mask` asks for."""
    grad, input, shape, rstd, weight, mask = args
    grad, input, rstd, weight = map(_spec, (grad, input, rstd, weight))
    name = "_fused_rms_norm_backward"
    lead = check_normalized_shape(input, shape, weight, None, "*")
    check_same_device(name, input, grad, rstd, weight)
    _refuse_dtype("rms_norm_backward", input)
    _check_grad(name, grad, input)
    _check_kept(name, "rstd", rstd, math.prod(input.sizes[:lead]))
    _refuse_complex(name, rstd=rstd, weight=weight)
    made = None if weight is None else _gradient_of(weight)
    run = _plan_masked(
        name,
        "fused_rms_norm_backward_stub",
        (_masked(_gradient_of(input), mask[0]), made if mask[1] else None),
        {"grad_out": grad, "input": input, "rstd": rstd, "weight": weight},
        {"lead": lead},
    )
    return op.rebind(lambda g, x, shape, rstd, w, mask: run(g, x, rstd, w), args)


def kept_format(spec: TensorSpec) -> tuple[int, ...]:
    """Return the strides of a result: channels-last if the input's are, else contiguous."""
    if spec.ndim in (4, 5) and not spec.is_contiguous and is_channels_last_strides(spec.sizes, spec.strides):
        return channels_last_strides(spec.sizes)
    return TensorSpec.contiguous(spec.sizes, spec.dtype, spec.device).strides


def _check_group_norm(
    input: TensorSpec, n: int, c: int, spatial: int, group: int, weight: TensorSpec | None
) -> None:
    if group <= 0:
        raise RuntimeError(f"Expected num groups to be greater than 0, got {group}")
    if c % group:
        raise RuntimeError(
            "Expected number of channels in input to be divisible by num_groups, but got input of shape "
            f"{list(input.sizes)} and num_groups={group}"
        )
    if input.ndim < 2 or input.numel != n * c * spatial or input.sizes[:2] != (n, c):
        raise RuntimeError(
            f"Expected input of N={n}, C={c} and HxW={spatial}, but got input of shape {list(input.sizes)}"
        )
    check_channels(input, c, weight, "weight")


def check_channels(input: TensorSpec, c: int, spec: TensorSpec | None, name: str) -> None:
    """Raise an error for a parameter of `group_norm` without one element per channel."""
    if spec is not None and (spec.ndim != 1 or spec.numel != c):
        raise RuntimeError(
            f"Expected {name} to be a vector of size equal to the number of channels in input, but got {name} of "
            f"shape {list(spec.sizes)} and input of shape {list(input.sizes)}"
        )


def native_group_norm(
    meta: MetaBase,
    input: TensorSpec,
    weight: TensorSpec | None,
    bias: TensorSpec | None,
    N: int,
    C: int,
    HxW: int,
    group: int,
    eps: NumberKind,
) -> None:
    """Infer (N, C, ...) normalized over each group of channels, and means and reciprocal deviations, (N, group)."""
    _check_group_norm(input, N, C, HxW, group, weight)
    check_channels(input, C, bias, "bias")
    check_same_device("native_group_norm", input, weight, bias)
    _refuse_dtype("GroupNormKernelImpl", input)
    check_parameters(input, weight, bias)
    dtype = kept_dtype(input.dtype, True, weight if weight is not None else bias)
    meta.set_output_strided(0, input.sizes, kept_format(input), dtype=input.dtype)
    meta.set_output_contiguous(1, (N, group), dtype=dtype)
    meta.set_output_contiguous(2, (N, group), dtype=dtype)


def native_group_norm_backward(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan the gradients of input, weight and bias that `output_mask` asks for."""
    grad, input, mean, rstd, weight, n, c, spatial, group, mask = args
    grad, input, mean, rstd, weight = map(_spec, (grad, input, mean, rstd, weight))
    name = "native_group_norm_backward"
    _check_group_norm(input, n, c, spatial, group, weight)
    check_same_device(name, input, grad, mean, rstd, weight)
    _refuse_dtype("GroupNormBackwardKernelImpl", input)
    _check_grad(name, grad, input)
    _check_kept(name, "mean", mean, n * group)
    _check_kept(name, "rstd", rstd, n * group)
    dtype = input.dtype if weight is None else weight.dtype
    made = TensorSpec.contiguous((c,), dtype, input.device)
    out = TensorSpec.of(input.sizes, kept_format(input), input.dtype, input.device)
    run = _plan_masked(
        name,
        "native_group_norm_backward_stub",
        (_masked(out, mask[0]), _masked(made, mask[1]), _masked(made, mask[2])),
        {"grad_out": grad, "input": input, "mean": mean, "rstd": rstd, "weight": weight},
        {"group": group},
    )
    return op.rebind(lambda g, x, mean, rstd, w, n, c, s, group, mask: run(g, x, mean, rstd, w), args)


def check_features(name: str, spec: TensorSpec | None, channels: int) -> None:
    """Raise an error for a parameter of `batch_norm` without one element per channel."""
    if spec is not None and spec.numel != channels:
        raise RuntimeError(f"{name} should contain {channels} elements not {spec.numel}")


def channels_of(input: TensorSpec) -> int:
    """Return the size of dimension 1. Raises IndexError if there is none."""
    if input.ndim < 2:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-max(input.ndim, 1)}, {max(input.ndim, 1) - 1}], "
            "but got 1)"
        )
    return input.sizes[1]


def _plan_batch_norm(
    name: str,
    input: TensorSpec,
    weight: TensorSpec | None,
    bias: TensorSpec | None,
    running_mean: TensorSpec | None,
    running_var: TensorSpec | None,
    training: bool,
) -> Callable[..., tuple[Any, ...]]:
    """Return a function of (input, weight, bias, running_mean, running_var, momentum, eps) to the results."""
    out, statistics = _batch_norm_specs(name, input, weight, bias, running_mean, running_var, training)
    inputs = {
        "input": input,
        "weight": weight,
        "bias": bias,
        "running_mean": running_mean,
        "running_var": running_var,
        "momentum": float,
        "eps": float,
    }
    # As in PyTorch, the running statistics keep their version: graphs of earlier calls hold them and do not read them.
    return _plan_masked(
        name, "native_batch_norm_stub", (out, statistics, statistics), inputs, {"training": training}
    )


def _batch_norm_specs(
    name: str,
    input: TensorSpec,
    weight: TensorSpec | None,
    bias: TensorSpec | None,
    running_mean: TensorSpec | None,
    running_var: TensorSpec | None,
    training: bool,
) -> tuple[TensorSpec, TensorSpec]:
    """Return the specs of the result and of each statistic. Raises an error for operands that `batch_norm` rejects."""
    channels = channels_of(input)
    if (running_mean is None) != (running_var is None):
        raise ValueError("running_mean and running_var must either both be None or neither be None")
    if not training and running_mean is None:
        raise RuntimeError(f"{name}: running_mean and running_var must be defined in evaluation mode")
    parameters = (weight, bias, running_mean, running_var)
    for which, spec in zip(("weight", "bias", "running_mean", "running_var"), parameters, strict=True):
        check_features(which, spec, channels)
    check_same_device(name, input, *parameters)
    _refuse_dtype("batch_norm", input)
    check_parameters(input, *parameters)
    if not input.numel:
        raise RuntimeError(
            f"input tensor must have at least one element, but got input_sizes = {list(input.sizes)}"
        )
    if training and running_mean is not None and running_var is not None:
        for spec in (running_mean, running_var):
            if spec.read_only or spec.overlaps:
                raise RuntimeError(f"{name}(): running statistics cannot be written to; clone() them first")
    is_cpu = input.device.type == "cpu"
    first = next((spec for spec in parameters if spec is not None), None)
    dtype = kept_dtype(input.dtype, is_cpu, first)
    strides = kept_format(input)
    for format in (channels_last, channels_last_3d):
        if not input.is_contiguous and input.is_contiguous_in(
            format
        ):  # also with other strides of size-1 dimensions
            strides = channels_last_strides(input.sizes)
    out = TensorSpec.of(input.sizes, strides, input.dtype, input.device)
    return out, TensorSpec.contiguous((channels if training else 0,), dtype, input.device)


def native_batch_norm(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan (N, C, ...) normalized over all but channels; in training the running statistics are written."""
    name = op.name.partition("::")[2]
    x, weight, bias, mean, var = map(_spec, args[:5])
    run = _plan_batch_norm(name, x, weight, bias, mean, var, args[5])
    return op.rebind(lambda x, w, b, m, v, training, *numbers: run(x, w, b, m, v, *numbers), args)


def _native_batch_norm_legit_no_stats(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan `native_batch_norm` without running statistics."""
    x, weight, bias = map(_spec, args[:3])
    run = _plan_batch_norm("_native_batch_norm_legit", x, weight, bias, None, None, args[3])
    return op.rebind(lambda x, w, b, training, *numbers: run(x, w, b, None, None, *numbers), args)


def _native_batch_norm_legit_no_training(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan `native_batch_norm` with running statistics."""
    x, weight, bias, mean, var = map(_spec, args[:5])
    run = _plan_batch_norm("_native_batch_norm_legit_no_training", x, weight, bias, mean, var, False)
    return op.rebind(run, args)


def _batch_norm_statistics(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan the saved and the running statistics of `native_batch_norm` in training, without its result."""
    name = "_batch_norm_statistics"
    x, mean, var = map(_spec, args[:3])
    statistics = _batch_norm_specs(name, x, None, None, mean, var, True)[1]
    inputs = {"input": x, "running_mean": mean, "running_var": var, "momentum": float, "eps": float}
    return op.rebind(
        _plan_masked(name, "batch_norm_statistics_stub", (statistics, statistics), inputs, {}), args
    )


def native_batch_norm_backward(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan the gradients of input, weight and bias that `output_mask` asks for."""
    train, mask = args[7], args[9]
    grad, input, weight, running_mean, running_var, save_mean, save_invstd = map(_spec, args[:7])
    name = "native_batch_norm_backward"
    channels = channels_of(input)
    check_same_device(name, input, grad, weight, running_mean, running_var, save_mean, save_invstd)
    _refuse_dtype("batch_norm_backward", input)
    _check_grad(name, grad, input)
    statistics = {"save_mean": save_mean, "save_invstd": save_invstd}
    if not train:
        statistics = {"running_mean": running_mean, "running_var": running_var}
    for which, spec in (("weight", weight), *statistics.items()):
        check_features(which, spec, channels)
        if spec is None and which != "weight":
            raise RuntimeError(f"{name}: {which} must be defined when train={train}")
    made = TensorSpec.contiguous((channels,), input.dtype if weight is None else weight.dtype, input.device)
    out = TensorSpec.of(input.sizes, kept_format(input), input.dtype, input.device)
    mean, spread = statistics.values()
    run = _plan_masked(
        name,
        "native_batch_norm_backward_stub",
        (_masked(out, mask[0]), _masked(made, mask[1]), _masked(made, mask[2])),
        {"grad_out": grad, "input": input, "mean": mean, "spread": spread, "weight": weight, "eps": float},
        {"train": train},
    )

    def called(
        g: Tensor,
        x: Tensor,
        w: Tensor | None,
        rm: Tensor | None,
        rv: Tensor | None,
        m: Tensor | None,
        r: Tensor | None,
        t: bool,
        eps: float,
        k: Sequence[bool],
    ) -> Sequence[Tensor | None]:
        return run(g, x, m if train else rm, r if train else rv, w, eps)

    return op.rebind(called, args)
