"""Inference tensors: what inference mode makes of results, and where their use is refused (c10 InferenceMode.h).

Calls in inference mode go around the plan tables; their fresh results get a spec without autograd keys. What
an inference tensor cannot do outside the mode is decided with the plan, so that other tensors pay nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...runtime.grad_mode import grad_disabled, is_grad_enabled, is_inference_mode_enabled
from ...runtime.tensor_impl import TensorImpl
from .kernel_function import Plan


def as_inference(result: Any) -> Any:
    """The result with its fresh tensors made inference tensors; views and written arguments stay what they are."""
    for value in result if isinstance(result, tuple | list) else (result,):
        if not isinstance(value, TensorImpl) or value._spec.is_inference:
            continue
        if value._version is None and value._view_base is None and value._autograd is None:
            value._spec = value._spec.replace(is_inference=True, requires_grad=False)
    return result


def writes_refused(plan: Plan) -> Plan:
    """A plan that writes to an inference tensor: only within inference mode."""

    def write(*values: Any) -> Any:
        if not is_inference_mode_enabled():
            raise RuntimeError(
                "Inplace update to inference tensor outside InferenceMode is not allowed. You can make a clone to get "
                "a normal tensor before doing inplace update."
            )
        return plan(*values)

    return write


def saves_refused(record: Plan, saved: Sequence[Any]) -> Plan:
    """A recording plan, refused where it would save an inference tensor for backward."""
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
