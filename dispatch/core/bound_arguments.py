"""What each argument of an operator is to a plan: a value of the call, or an element of the plan's key.

Tensors and Python numbers are *runtime* arguments: their spec or class stands in the key, and the plan is
called with them. Sizes, dimensions, flags, dtypes are *static*: their values stand in the key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...runtime.tensor_impl import TensorImpl
from ...runtime.tensor_spec import TensorSpec
from ..schema.types import BASE_TYPE_NAMES, Type, base_type

RUNTIME_TYPES = frozenset({"Tensor", "Scalar", "Generator", "Storage", "Stream", "float"}) | frozenset(
    name for name in BASE_TYPE_NAMES if name.startswith("__torch__")
)


def is_runtime(type: Type) -> bool:
    """Whether arguments of this schema type are passed to plans."""
    return base_type(type).name in RUNTIME_TYPES


def key_of(value: object) -> TensorSpec | type | tuple[Any, ...]:
    """The element of a plan's key that a runtime argument gives."""
    if isinstance(value, TensorImpl):
        return value._spec
    if isinstance(value, list | tuple):
        return tuple([key_of(v) for v in value])
    return value.__class__


def static_key_of(value: object) -> object:
    """The element of a plan's key that a static argument gives; lists become tuples, numbers keep their class."""
    if isinstance(value, list | tuple):
        return tuple([static_key_of(v) for v in value])
    if value.__class__ is bool or value.__class__ is float:
        return (value.__class__, value)
    return value


def spec_of(value: object) -> Any:
    """An argument as meta functions see it: tensors as specs, numbers in runtime places as their class."""
    if isinstance(value, TensorImpl):
        return value._spec
    if isinstance(value, list | tuple) and value and isinstance(value[0], TensorImpl | None.__class__):
        return tuple([None if v is None else v._spec for v in value])
    return value


def tensors_in(args: Sequence[Any]) -> list[TensorImpl]:
    """All tensors among bound arguments, lists opened, in order."""
    found: list[TensorImpl] = []
    for value in args:
        if isinstance(value, TensorImpl):
            found.append(value)
        elif value.__class__ is list or value.__class__ is tuple:
            found.extend(v for v in value if isinstance(v, TensorImpl))
    return found
