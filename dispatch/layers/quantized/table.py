"""Table of the functions that serve operators at the Quantized key, and their in-place and ``out=`` forms.

A module lists its functions by the operator's full name, ``KERNELS = {"relu": relu}``. They take the arguments in the
schema's order and return new tensors. An in-place form writes the integers of the functional one's result, and takes
over its quantizer. Views are those of the integers. Composite operators run as their parts. All other operators are
refused, even with a kernel for all backends, because such a kernel ignores quantizers.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache
from typing import Any

from ....runtime.dispatch_key import DispatchKey
from ....runtime.scalar_type import quint4x2
from ...composite.quantized import is_quantized
from ...core.dispatcher import Dispatcher
from ...core.kernel_function import KernelFunction
from ...core.operator_entry import IMPLICIT, OperatorEntry
from ...plans.view_kernel import ViewKernel

Function = Callable[..., Any]

find = Dispatcher.singleton().find_schema_or_throw

MODULES = ("structure", "pointwise", "selection", "reduction", "pooling", "normalization")
"""The modules; if two list an operator, the first one serves it."""

COMPOSED = frozenset(
    {
        "detach",
        "_local_scalar_dense",
        "quantize_per_tensor",
        "quantize_per_tensor.tensor_qparams",
        "quantize_per_tensor.tensors",
        "quantize_per_channel",
        "quantize_per_tensor_dynamic",
        "dequantize.tensors",
    }
)
"""Operators whose kernel for all backends supports quantized tensors, or refuses them itself."""


@cache
def functions() -> dict[str, Function]:
    """Return all functions, by operator."""
    by_operator: dict[str, Function] = {}
    for name in reversed(MODULES):
        by_operator.update(importlib.import_module(f".{name}", __package__).KERNELS)
    return by_operator


def kernel_of(op: OperatorEntry, key: DispatchKey) -> KernelFunction | None:
    """Return the kernel of an operator at the Quantized key of a backend; None for a composite operator."""
    namespace, _, name = op.name.partition("::")
    if namespace != "aten":
        return None
    function = functions().get(name) or _form_of(op, name, functions()) or _view(op)
    if function is None:
        if IMPLICIT in op.kernels or name in COMPOSED:
            return None
        function = _refusal(op, key)
    return KernelFunction(function, source=function.__module__)


def _refusal(op: OperatorEntry, key: DispatchKey) -> Function:
    def refuse(*args: Any) -> Any:
        raise NotImplementedError(
            f"Could not run '{op.name}' with arguments from the '{key.name}' backend. Quantized tensors have no kernel "
            "for it; dequantize() gives a floating tensor."
        )

    return refuse


def _form_of(op: OperatorEntry, name: str, functions: dict[str, Function]) -> Function | None:
    """Return the in-place or ``out=`` form of a function in the table."""
    base, _, overload = name.partition(".")
    schema = op.schema
    if schema.is_inplace:
        short = base.removesuffix("_")
        function = functions.get(f"{short}.{overload}" if overload else short)
        return None if function is None else in_place(base, function)
    outs = [a for a in schema.arguments if a.is_out]
    if len(outs) != 1:
        return None
    inputs = [(a.name, a.type) for a in schema.arguments if not a.is_out]
    for functional, function in functions.items():
        if functional.partition(".")[0] == base:
            arguments = find(f"aten::{functional}").schema.arguments
            if [(a.name, a.type) for a in arguments] == inputs:
                return into_out(base, function)
    return None


def in_place(name: str, function: Function) -> Function:
    """Return the form that writes to its first argument."""

    def inplace(self: Any, *rest: Any) -> Any:
        return written(name, self, function(self, *rest))

    inplace.__module__ = function.__module__
    return inplace


def into_out(name: str, function: Function) -> Function:
    """Return the form that writes to its last argument."""

    def out_form(*args: Any) -> Any:
        return written(name, args[-1], function(*args[:-1]))

    out_form.__module__ = function.__module__
    return out_form


def written(name: str, target: Any, result: Any) -> Any:
    """Write a result to a tensor of its shape and dtype. Raises RuntimeError for another one."""
    spec, result_spec = target._spec, result._spec
    if not is_quantized(result):
        return target.copy_(result)
    if spec.dtype is not result_spec.dtype:
        raise RuntimeError(f"{name}: expected an output of dtype {result_spec.dtype}, got {spec.dtype}")
    if spec.sizes != result_spec.sizes:
        raise RuntimeError(
            f"{name}: expected an output of shape {list(result_spec.sizes)}, got {list(spec.sizes)}: quantized outputs "
            "are not resized"
        )
    target._data.ints.copy_(result._data.ints)
    target._data = type(target._data)(target._data.ints, result._data.quantizer)
    return target


def _view(op: OperatorEntry) -> Function | None:
    """Return the function that makes a view of a quantized tensor, if the operator is a view."""
    kernels = [kernel for registered in op.kernels.values() for kernel in registered]
    if not any(isinstance(kernel.planner, ViewKernel) for kernel in kernels):
        return None
    from .views import viewed

    return viewed(op)


def refuse_packed(name: str, *tensors: Any) -> None:
    """Raise NotImplementedError for tensors in which two elements share a byte."""
    if any(each._spec.dtype is quint4x2 for each in tensors):
        raise NotImplementedError(f"\"{name}\" not implemented for 'QUInt4x2'")
