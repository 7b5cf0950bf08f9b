"""Launches of Triton kernels as operators (`torch._higher_order_ops.triton_kernel_wrap`)."""

from ..dispatch.core.op_overload import find_overload
from ..dispatch.custom_ops.triton_launch import launch_operator
from ..dispatch.layers.functionalization.derived_form import derived_form

__all__ = ["triton_kernel_wrapper_functional", "triton_kernel_wrapper_mutation"]

triton_kernel_wrapper_mutation = launch_operator()
triton_kernel_wrapper_functional = find_overload(str(derived_form(triton_kernel_wrapper_mutation._entry)))
