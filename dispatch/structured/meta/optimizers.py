"""Planners of optimizers' steps over lists of tensors (ATen/native/FusedSGD.cpp, FusedAdam.cpp, AmpKernels.cu).

A row is one entry of each list: a parameter, its gradient and its states. They have one dtype, the same sizes and
strides, and memory without gaps. Rows of a list may differ in dtype. Both backends compute the following operations,
one per line, each rounded to T: float64 for float64, float32 for the others. Stored values are rounded once more, to
the dtype; computation goes on with the unrounded values. Expressions of the call's numbers are computed in float64, and
their results rounded to T.

    If found_inf is given and 1, nothing is written.
    g = g / grad_scale, stored; if given.
    g = -g; if maximize.

``_fused_sgd_``:
    g = g + p * weight_decay; unless weight_decay is 0.
    b = b * momentum + g * (1 - dampening), in the first step b = g; stored; unless momentum is 0.
    g = g + b * momentum if nesterov, else g = b; unless momentum is 0.
    p = p - g * lr; stored.

``_fused_adam_``, ``_fused_adamw_``, with the count of steps in `state_steps`, which the caller has increased:
    p = p * (1 - lr * weight_decay) for AdamW, g = g + p * weight_decay for Adam; unless weight_decay is 0.
    m = m + (1 - beta1) * (g - m), as `lerp` has it: g - beta1 * (g - m) if beta1 is at most a half; stored.
    v = v * beta2 + (1 - beta2) * g * g; stored.
    x = max(x, v), a NaN wins; stored; s = x if amsgrad, else s = v.
    p = p - lr / (1 - beta1 ** step) * m / (sqrt(s) / sqrt(1 - beta2 ** step) + eps); stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ....runtime.device import device as Device
from ....runtime.errors import two_devices
from ....runtime.scalar_type import bfloat16, float16, float32, float64
from ....runtime.tensor_impl import TensorImpl
from ....runtime.tensor_spec import TensorSpec
from ...core.kernel_function import Plan
from ...core.operator_entry import OperatorEntry
from ..stub import StructuredCall, find_kernel
from .linalg import check_same_device

if TYPE_CHECKING:
    from ....runtime.scalar_type import Number
    from ...tensor import Tensor

FLOATS = (float32, float64, float16, bfloat16)

Specs = tuple[TensorSpec, ...]


def _specs(tensors: Sequence[Any]) -> Specs:
    return tuple([tensor._spec.detached for tensor in tensors])


def _data(tensors: Sequence[Any]) -> list[Any]:
    return [tensor._data for tensor in tensors]


def _check_lengths(name: str, count: int, lists: dict[str, Specs]) -> None:
    if count == 0:
        raise NotImplementedError(
            "There were no tensor arguments to this function (e.g., you passed an empty list of Tensors), but no "
            f"fallback function is registered for schema aten::{name}"
        )
    for each, specs in lists.items():
        if len(specs) != count:
            raise RuntimeError(
                f"{name}: Expected {each}.size() == n_tensors to be true, but got false: {len(specs)} tensors in "
                f"{each} for {count} in self"
            )


def _check_rows(name: str, kernel: str, parameters: Specs, lists: dict[str, Specs]) -> None:
    """Refuse rows that one pass over memory cannot serve."""
    for number, first in enumerate(parameters):
        if first.dtype not in FLOATS:
            raise NotImplementedError(f"\"{kernel}\" not implemented for '{first.dtype.scalar_name}'")
        if not first.is_dense():
            raise RuntimeError(
                f"{name}: expected self[{number}] to be non-overlapping and dense, got sizes {list(first.sizes)} with "
                f"strides {list(first.strides)}"
            )
        if first.read_only:
            raise RuntimeError(f"{name}: self[{number}] is read-only; clone() it before writing to it")
        for each, specs in lists.items():
            spec = specs[number]
            check_same_device(name, first, spec)
            if spec.dtype is not first.dtype:
                raise RuntimeError(
                    f"{name}: expected scalar type {first.dtype.scalar_name} but found {spec.dtype.scalar_name} in "
                    f"{each}[{number}]"
                )
            if spec.sizes != first.sizes or _steps(spec) != _steps(first):
                raise RuntimeError(
                    f"{name}: expected {each}[{number}] to have the sizes {list(first.sizes)} and strides "
                    f"{list(first.strides)} of self[{number}], got {list(spec.sizes)} and {list(spec.strides)}"
                )
            if spec.read_only:
                raise RuntimeError(f"{name}: {each}[{number}] is read-only; clone() it before writing to it")


def _steps(spec: TensorSpec) -> list[int]:
    """Return the strides of dimensions that have more than one element."""
    if spec.numel == 0:
        return []
    return [stride for size, stride in zip(spec.sizes, spec.strides, strict=True) if size != 1]


def _check_number(name: str, argument: str, spec: TensorSpec | None, like: TensorSpec) -> None:
    """Raise an error for an argument that is not a single float32 on the device."""
    if spec is None:
        return
    check_same_device(name, like, spec)
    if spec.numel != 1:
        raise RuntimeError(f"{name}: {argument} must be a 1-element tensor, got {spec.numel} elements")
    if spec.dtype is not float32:
        raise RuntimeError(
            f"{name}: expected scalar type Float but found {spec.dtype.scalar_name} in {argument}"
        )


def _check_rate(name: str, lr: TensorSpec, device: Device) -> None:
    if lr.numel != 1:
        raise RuntimeError(f"{name}: lr: a Tensor with {lr.numel} elements cannot be converted to Scalar")
    if lr.device.type != "cpu" and lr.device is not device:
        raise RuntimeError(two_devices(device, lr.device, f"argument lr of {name}"))
    if not lr.is_meta and lr.device.type != "cpu" and lr.dtype not in (float32, float64):
        raise RuntimeError(f"{name}: expected scalar type Float but found {lr.dtype.scalar_name} in lr")


def _rate(lr: Tensor | float) -> Any:
    """Return the learning rate as kernels take it: a number, or its address on the device."""
    if not isinstance(lr, TensorImpl):
        return lr
    return float(lr.item()) if lr.device.type == "cpu" else lr._data


def _datum(tensor: Tensor | None) -> Any:
    return None if tensor is None else tensor._data


def _bump(*lists: Sequence[Any]) -> None:
    for tensors in lists:
        for tensor in tensors:
            tensor.bump_version()


def _kernel(
    name: str, stub: str, lists: dict[str, Specs], numbers: dict[str, Any], extra: dict[str, Any]
) -> Callable[..., Any] | None:
    """Return the device's kernel, called with all lists and numbers; None if there is nothing to compute."""
    device = lists["self"][0].device
    if device.type == "meta":
        return None
    args: dict[str, Any] = lists | numbers
    call = StructuredCall(name, args, tuple(args), (), None, device, extra)
    return find_kernel(stub, device.type, name)(call).into


def _spec_or_class(value: Tensor | Number | None) -> TensorSpec | type | None:
    if value is None:
        return None
    return value._spec.detached if isinstance(value, TensorImpl) else value.__class__


def fused_sgd(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan ``_fused_sgd_(self, grads, momentum_buffer_list, weight_decay, momentum, lr, dampening, nesterov, ...)``."""
    name = "_fused_sgd_"
    parameters, grads, buffers = (_specs(each) for each in args[:3])
    lr, nesterov, maximize, is_first_step, grad_scale, found_inf = args[5], *args[7:12]
    lists = {"grads": grads} | ({"momentum_buffer_list": buffers} if buffers else {})
    _check_lengths(name, len(parameters), lists)
    _check_rows(name, "fused_sgd_kernel", parameters, lists)
    numbers = {"lr": _spec_or_class(lr), "grad_scale": _spec_or_class(grad_scale)}
    numbers["found_inf"] = _spec_or_class(found_inf)
    _check_numbers(name, parameters[0], numbers)
    flags = {"nesterov": nesterov, "maximize": maximize, "is_first_step": is_first_step}
    into = _kernel(name, "fused_sgd_stub", {"self": parameters, **lists}, numbers, flags)
    count = len(parameters)

    def plan(
        self: Sequence[Tensor],
        grads: Sequence[Tensor],
        buffers: Sequence[Tensor],
        weight_decay: float,
        momentum: float,
        lr: Tensor | float,
        dampening: float,
        scale: Tensor | None,
        inf_flag: Tensor | None,
    ) -> None:
        if momentum != 0 and not buffers:
            _check_lengths(name, count, {"momentum_buffer_list": ()})
        if into is not None:
            into(
                _data(self),
                _data(grads),
                _data(buffers),
                weight_decay,
                momentum,
                _rate(lr),
                dampening,
                _datum(scale),
                _datum(inf_flag),
            )
        _bump(self, () if momentum == 0 else buffers, () if scale is None else grads)

    return plan


def _check_numbers(name: str, like: TensorSpec, numbers: dict[str, Any]) -> None:
    if isinstance(numbers["lr"], TensorSpec):
        _check_rate(name, numbers["lr"], like.device)
    for argument in ("grad_scale", "found_inf"):
        _check_number(name, argument, numbers[argument], like)


def _adam(decoupled: bool) -> Callable[[OperatorEntry, int, Sequence[Any]], Plan]:
    name = "_fused_adamw_" if decoupled else "_fused_adam_"

    def planner(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
        parameters, grads, averages, squares, largest, counts = (_specs(each) for each in args[:6])
        lr, amsgrad, maximize, grad_scale, found_inf = args[6], *args[11:15]
        rows = {"grads": grads, "exp_avgs": averages, "exp_avg_sqs": squares}
        if amsgrad:
            rows["max_exp_avg_sqs"] = largest
        elif largest:
            raise RuntimeError(
                f"{name}: Expected max_exp_avg_sqs.empty() to be true, but got false: amsgrad is False, and there are "
                f"{len(largest)}"
            )
        _check_lengths(name, len(parameters), rows | {"state_steps": counts})
        _check_rows(name, "fused_adam_kernel", parameters, rows)
        for number, spec in enumerate(counts):
            _check_count(name, number, spec, parameters[number])
        numbers = {"lr": _spec_or_class(lr), "grad_scale": _spec_or_class(grad_scale)}
        numbers["found_inf"] = _spec_or_class(found_inf)
        _check_numbers(name, parameters[0], numbers)
        flags = {"amsgrad": amsgrad, "maximize": maximize, "decoupled": decoupled}
        lists = {"self": parameters, **rows, "state_steps": counts}
        into = _kernel(name, "fused_adam_stub", lists, numbers, flags)

        def plan(
            self: Sequence[Tensor],
            grads: Sequence[Tensor],
            averages: Sequence[Tensor],
            squares: Sequence[Tensor],
            largest: Sequence[Tensor],
            counts: Sequence[Tensor],
            lr: Tensor | float,
            beta1: float,
            beta2: float,
            weight_decay: float,
            eps: float,
            scale: Tensor | None,
            inf_flag: Tensor | None,
        ) -> None:
            if into is not None:
                into(
                    *(_data(each) for each in (self, grads, averages, squares, largest, counts)),
                    _rate(lr),
                    beta1,
                    beta2,
                    weight_decay,
                    eps,
                    _datum(scale),
                    _datum(inf_flag),
                )
            _bump(self, averages, squares, largest, () if scale is None else grads)

        return plan

    return planner


def _check_count(name: str, number: int, spec: TensorSpec, like: TensorSpec) -> None:
    check_same_device(name, like, spec)
    if spec.numel != 1:
        raise RuntimeError(
            f"{name}: state_steps[{number}]: a Tensor with {spec.numel} elements cannot be converted to Scalar"
        )
    if spec.dtype is not float32 and spec.device.type == "cuda":
        raise RuntimeError(
            f"{name}: expected scalar type Float but found {spec.dtype.scalar_name} in state_steps[{number}]"
        )


fused_adam = _adam(False)
"""Planner of ``_fused_adam_(self, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, lr, ...)``."""

fused_adamw = _adam(True)
"""Planner of ``_fused_adamw_``, with the same arguments."""


def unscale_and_check(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan ``_amp_foreach_non_finite_check_and_unscale_(self, found_inf, inv_scale)``.

    Each element is multiplied by `inv_scale`, computed in T; a non-finite element sets `found_inf` to 1. A scale of 1
    only checks. Tensors with gaps are multiplied one by one.
    """
    from ...generated import functions as ops

    name = "_amp_foreach_non_finite_check_and_unscale_"
    specs, found_inf, inverse = _specs(args[0]), args[1]._spec.detached, args[2]._spec.detached
    if not specs:
        return lambda self, found, inverse: None
    _check_number(name, "inv_scale", inverse, specs[0])
    _check_number(name, "found_inf", found_inf, specs[0])
    for spec in specs:
        check_same_device(name, specs[0], spec)
        if spec.dtype not in FLOATS:
            raise NotImplementedError(
                f"\"_amp_foreach_non_finite_check_and_unscale\" not implemented for '{spec.dtype.scalar_name}'"
            )
        if spec.read_only or spec.overlaps:
            raise RuntimeError(
                f"{name}: a gradient is read-only or overlaps itself; clone() it before writing to it"
            )
    dense = [number for number, spec in enumerate(specs) if spec.is_dense()]
    with_gaps = [number for number, spec in enumerate(specs) if not spec.is_dense()]
    into = None
    if dense:
        rows = {"self": tuple([specs[number] for number in dense])}
        into = _kernel(
            name, "unscale_and_check_stub", rows, {"found_inf": found_inf, "inv_scale": inverse}, {}
        )
    is_meta = specs[0].is_meta

    def plan(self: Sequence[Tensor], inf_flag: Tensor, inverse: Tensor) -> None:
        if into is not None:
            into([self[number]._data for number in dense], inf_flag._data, inverse._data)
        for number in () if is_meta else with_gaps:
            values = self[number].detach()
            bad = ops.logical_not(ops.all(ops.isfinite(values))).to(float32)
            inf_flag.copy_(ops.maximum(inf_flag, bad.reshape(inf_flag.shape)))
            values.mul_(inverse.to(values.dtype) if values.dtype is float64 else inverse.reshape(()))
        for number in dense:
            self[number].bump_version()
        inf_flag.bump_version()

    return plan
