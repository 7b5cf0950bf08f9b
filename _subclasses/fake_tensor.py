"""Tensors without elements that say they are on a device (`torch._subclasses.fake_tensor`)."""

from ..dispatch.layers.fake_tensor_mode import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
)

__all__ = [
    "DataDependentOutputException",
    "DynamicOutputShapeException",
    "FakeTensor",
    "FakeTensorMode",
    "is_fake",
]


def is_fake(x: object) -> bool:
    """Return whether an object is a `FakeTensor`."""
    return isinstance(x, FakeTensor)
