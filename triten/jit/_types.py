"""Types of TorchScript: notes for a compiler that is not here, and `isinstance` for containers' elements."""

from __future__ import annotations

import builtins
import types
import typing
import warnings
from collections.abc import Container
from typing import Any, Final, TypeVar

__all__ = ["Attribute", "Final", "annotate", "isinstance"]

_Value = TypeVar("_Value")

_CONTAINERS: dict[Any, str] = {list: "List[int]", dict: "Dict[int, int]", tuple: "Tuple[int]"}


def annotate(the_type: Any, the_value: _Value) -> _Value:
    """Return the value unchanged; in PyTorch this declares its type (`torch.jit.annotate`)."""
    return the_value


def Attribute(value: _Value, type: Any) -> _Value:
    """Return the value unchanged; in PyTorch this declares an attribute of a type (`torch.jit.Attribute`)."""
    return value


def isinstance(obj: Any, target_type: Any) -> bool:
    """Return whether an object is of a type, its elements included (`torch.jit.isinstance`).

    Args:
        obj: any object. An empty container is one of elements of any type, of which it warns.
        target_type: a class; ``List[...]``, ``Dict[...]``, ``Tuple[...]``, ``Optional[...]`` or ``Union[...]`` of
            such; or a tuple of types.

    Raises:
        RuntimeError: the type is a container without the type of its elements, or no type.

    Example:
        >>> import triten as tt
        >>> tt.jit.isinstance([1, 2], list[int]), tt.jit.isinstance([1, "2"], list[int])
        (True, False)
    """
    if builtins.isinstance(target_type, tuple):
        return any(isinstance(obj, each) for each in target_type)
    if builtins.isinstance(target_type, Container) and not builtins.isinstance(target_type, type):
        raise RuntimeError("The second argument to `torch.jit.isinstance` must be a type or a tuple of types")
    origin, inner = typing.get_origin(target_type), typing.get_args(target_type)
    if target_type in _CONTAINERS or (origin in _CONTAINERS and not inner):
        name = getattr(target_type, "_name", None) or target_type.__name__
        example = _CONTAINERS[origin or target_type]
        raise RuntimeError(
            f"Attempted to use {name} without a contained type. Please add a contained type, e.g. {example}"
        )
    if origin is None:
        return builtins.isinstance(obj, target_type)
    if origin is typing.Union or origin is types.UnionType:
        return obj is None or any(isinstance(obj, each) for each in inner)
    if origin not in _CONTAINERS or not builtins.isinstance(obj, origin):
        return False
    if not obj:
        warnings.warn(
            "The inner type of a container is lost when calling torch.jit.isinstance in eager mode. For example, "
            "List[int] would become list and therefore falsely return True for List[float] or List[str].",
            stacklevel=2,
        )
    if origin is dict:
        return all(isinstance(key, inner[0]) and isinstance(value, inner[1]) for key, value in obj.items())
    if origin is tuple:
        return len(obj) == len(inner) and all(
            isinstance(each, element_type) for each, element_type in zip(obj, inner, strict=True)
        )
    return all(isinstance(each, inner[0]) for each in obj)
