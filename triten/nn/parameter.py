"""`tt.nn.parameter`: tensors that belong to a module (`torch.nn.parameter`)."""

from .modules.parameter import Buffer, Parameter
from .modules.uninitialized import (
    UninitializedBuffer,
    UninitializedParameter,
    UninitializedTensorMixin,
    is_lazy,
)

__all__ = [
    "Buffer",
    "Parameter",
    "UninitializedBuffer",
    "UninitializedParameter",
    "UninitializedTensorMixin",
    "is_lazy",
]
