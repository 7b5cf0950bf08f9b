"""Metadata keys of operator calls.

They determine the specs of results. Calls with the same key run on Meta once per recording.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....runtime.device import device as Device
from ....runtime.layout import layout as Layout
from ....runtime.memory_format import memory_format as MemoryFormat
from ....runtime.scalar_type import dtype as ScalarType
from ....runtime.scalar_type import get_default_dtype
from ....runtime.tensor_impl import TensorImpl
from ...core.operator_entry import OperatorEntry

_FIXED = frozenset({int, float, bool, complex, str, type(None), ScalarType, Device, Layout, MemoryFormat})
"""Classes of arguments that serve as their own keys; a subclass of `int` may be a traced size."""


def call_look(op: OperatorEntry, values: Sequence[Any]) -> tuple[Any, ...] | None:
    """Return the metadata key of a call of one of ATen's operators with all arguments.

    Return None if results depend on more than metadata: without tensors, for data-dependent sizes, for mutating
    operators, for custom operators, and for arguments of other classes.
    """
    schema = op.schema
    if schema.is_mutable or not op.name.startswith("aten::") or "dynamic_output_shape" in op.tags:
        return None
    parts: list[Any] = [op, get_default_dtype()]
    has_tensor = False
    for value in values:
        cls = value.__class__
        if isinstance(value, TensorImpl):
            parts.append(value._spec)
            has_tensor = True
        elif cls in _FIXED:
            parts.append((cls, value))
        elif isinstance(value, (list, tuple)):
            for each in value:
                if isinstance(each, TensorImpl):
                    parts.append(each._spec)
                    has_tensor = True
                elif each.__class__ in _FIXED:
                    parts.append((each.__class__, each))
                else:
                    return None
            parts.append(len(value))
        else:
            return None
    return tuple(parts) if has_tensor else None
