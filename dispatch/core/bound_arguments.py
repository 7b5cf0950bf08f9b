"""Classification of bound arguments: runtime values of the call, or static elements of the plan's key.

Tensors and Python numbers are *runtime* arguments: the key holds their spec or class, and the call passes them to the
plan. Sizes, dimensions, flags and dtypes are *static*: the key holds their values.
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
    """Return whether plans take arguments of this schema type at run time."""
    return base_type(type).name in RUNTIME_TYPES


def key_of(value: object) -> TensorSpec | type | tuple[Any, ...]:
    """Return the key element of a runtime argument: its spec, or its class."""
    if isinstance(value, TensorImpl):
        return value._spec
    if isinstance(value, list | tuple):
        return tuple([key_of(v) for v in value])
    return value.__class__


def static_key_of(value: object) -> object:
    """Return the key element of a static argument. Lists become tuples; bools and floats keep their class."""
    if isinstance(value, list | tuple):
        return tuple([static_key_of(v) for v in value])
    if value.__class__ is bool or value.__class__ is float:
        return (value.__class__, value)
    return value


def spec_of(value: object) -> Any:
    """Return an argument as meta functions see it: the spec of a tensor, the class of a runtime number."""
    if isinstance(value, TensorImpl):
        return value._spec
    if isinstance(value, list | tuple) and value and isinstance(value[0], TensorImpl | None.__class__):
        return tuple([None if v is None else v._spec for v in value])
    return value


def tensors_in(args: Sequence[Any]) -> list[TensorImpl]:
    """Return all tensors among bound arguments in order, including those in lists."""
    tensors: list[TensorImpl] = []
    for value in args:
        if isinstance(value, TensorImpl):
            tensors.append(value)
        elif isinstance(value, (list, tuple)):
            tensors.extend(v for v in value if isinstance(v, TensorImpl))
    return tensors
