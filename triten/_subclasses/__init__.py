"""Fake tensors by the names of PyTorch's compiler (`torch._subclasses`)."""

from .fake_tensor import (
    DynamicOutputShapeException as DynamicOutputShapeException,
)
from .fake_tensor import (
    FakeTensor as FakeTensor,
)
from .fake_tensor import (
    FakeTensorMode as FakeTensorMode,
)

__all__ = ["DynamicOutputShapeException", "FakeTensor", "FakeTensorMode"]
