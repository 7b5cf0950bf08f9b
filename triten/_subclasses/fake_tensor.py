"""Tensors without elements that say they are on a device (`torch._subclasses.fake_tensor`)."""

from typing import Any

from ..dispatch.layers.fake_tensor_mode import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    UnsupportedFakeTensorException,
)
from ..dispatch.layers.python_key import active_modes
from ..dispatch.layers.pytree import tree_leaves

__all__ = [
    "DataDependentOutputException",
    "DynamicOutputShapeException",
    "FakeTensor",
    "FakeTensorMode",
    "UnsupportedFakeTensorException",
    "active_fake_mode",
    "detect_fake_mode",
    "is_fake",
]


def is_fake(x: object) -> bool:
    """Return whether an object is a `FakeTensor`."""
    return isinstance(x, FakeTensor)


def active_fake_mode() -> FakeTensorMode | None:
    """Return the innermost `FakeTensorMode` of this thread, or None (`torch._guards.active_fake_mode`)."""
    return next((mode for mode in reversed(active_modes()) if isinstance(mode, FakeTensorMode)), None)


def detect_fake_mode(inputs: Any = None) -> FakeTensorMode | None:
    """Return the mode of fake tensors among `inputs`, else the active one (`torch._guards.detect_fake_mode`)."""
    modes = [
        leaf.fake_mode for leaf in tree_leaves(inputs) if isinstance(leaf, FakeTensor) and leaf.fake_mode
    ]
    return modes[0] if modes else active_fake_mode()
