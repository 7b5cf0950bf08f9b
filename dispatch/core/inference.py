"""Inference tensors: creation, and errors outside inference mode (c10/core/InferenceMode.h)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from ...runtime.dispatch_key import ADINPLACE_BIT
from ...runtime.grad_mode import grad_disabled, is_grad_enabled, is_inference_mode_enabled
from ...runtime.storage import root_of
from ...runtime.tensor_impl import TensorImpl
from ..schema import FunctionSchema
from .bound_arguments import tensors_in
from .kernel_function import Plan

Result = TypeVar("Result")


def as_inference(schema: FunctionSchema, args: Sequence[Any], result: Result) -> Result:
    """Return the result of a call in inference mode: fresh tensors without version counter and autograd keys.

    Results that alias an argument (views, in-place and ``out=`` forms) are unchanged.
    """
    if schema.returns:
        arguments = tensors_in(args)
        argument_ids = {id(t) for t in arguments}
        # A result that may alias an argument does so if both share memory.
        may_alias = any(r.alias_info is not None for r in schema.returns)
        roots = {id(root_of(t._data)) for t in arguments} if may_alias else set()
        for tensor in tensors_in(result if isinstance(result, list | tuple) else (result,)):
            if id(tensor) in argument_ids or tensor._view_base is not None or tensor._spec.is_inference:
                continue
            if not may_alias or id(root_of(tensor._data)) not in roots:
                tensor._spec = tensor._spec.replace(is_inference=True, requires_grad=False)
                tensor._version_cell = tensor._autograd = None
    return result


def keys_in_inference_mode(bits: int, args: Sequence[Any]) -> int:
    """Return the call key set in inference mode: drop ADInplaceOrView if all arguments are inference tensors."""
    if bits & ADINPLACE_BIT and all(tensor._spec.is_inference for tensor in tensors_in(args)):
        return bits & ~ADINPLACE_BIT
    return bits


def guarded_write(schema: FunctionSchema, args: Sequence[Any], plan: Plan) -> Plan:
    """Wrap `plan` to raise outside inference mode if it writes to an inference tensor."""
    written = [value for value, argument in zip(args, schema.arguments, strict=True) if argument.is_write]
    if not any(isinstance(t, TensorImpl) and t._spec.is_inference for t in written):
        return plan

    def checked(*runtime: Any) -> Any:
        if not is_inference_mode_enabled():
            raise RuntimeError(
                "Inplace update to inference tensor outside InferenceMode is not allowed. You can make a clone to get "
                "a normal tensor before doing inplace update."
            )
        return plan(*runtime)

    return checked


def saves_refused(record: Plan, saved: Sequence[Any]) -> Plan:
    """Wrap a recording plan to raise if it would save an inference tensor for backward."""
    if not any(isinstance(value, TensorImpl) and value._spec.is_inference for value in saved):
        return record

    def refuse(*values: Any) -> Any:
        if not grad_disabled or is_grad_enabled():
            raise RuntimeError(
                "Inference tensors cannot be saved for backward. To work around you can make a clone to get a normal "
                "tensor and use it in autograd."
            )
        return record(*values)

    return refuse
