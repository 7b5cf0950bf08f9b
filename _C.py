"""The switches of the override protocol, where PyTorch has them (`torch._C`)."""

from .dispatch.core.tensor_function import DisableTensorFunction, DisableTensorFunctionSubclass
from .dispatch.core.tensor_function import disabled_tensor_function as _disabled_tensor_function_impl

__all__ = ["DisableTensorFunction", "DisableTensorFunctionSubclass", "_disabled_tensor_function_impl"]
