"""Attributes that subclasses of `Tensor` inherit instead of `Tensor`'s: the same ones, routed through the handler.

`TensorMeta` puts the class that is made here before `Tensor`; a plain tensor's attributes stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from types import MethodType
from typing import Any

from ...core.tensor_function import handle, handle_operator, overloaded


@cache
def overridden_attributes() -> type:
    """Return the class of all overridden attributes, made with the first subclass.

    Reflected operators are excluded: Python calls a class's own one before its base's operator, and a handler would
    receive swapped operands. `Tensor`'s reflected operators check for handlers themselves.
    """
    from ...tensor import Tensor
    from .overridable import accessors, overridable_attributes, presented

    body: dict[str, Any] = {
        "__slots__": (),
        "__hash__": Tensor.__hash__,
        "__doc__": "Attributes of `Tensor` that ask the handlers of their arguments.",
    }
    for name, attribute in overridable_attributes():
        if isinstance(attribute, property):
            parts = {
                part: _overridden(func, function, False) for part, function, func in accessors(attribute)
            }
            made = OverriddenProperty(
                parts.get("__get__"), parts.get("__set__"), parts.get("__delete__"), attribute.__doc__
            )
            made.original = attribute
            body[name] = made
        elif name in QUERIES:
            body[name] = OverriddenQuery(_overridden(presented(name), attribute, False), attribute)
        elif name not in REFLECTED_OPERATORS:
            body[name] = _overridden(presented(name), attribute, is_operator(name))
    return type("OverriddenAttributes", (), body)


QUERIES = frozenset({"size", "stride", "dim", "numel", "is_contiguous", "storage_offset"})
"""Methods about metadata. A subclass shows `Tensor`'s own functions for them, as it does for properties, so that
programs can test whether a class defines its own: ``Metres.size is Tensor.size``."""


class OverriddenProperty(property):
    """Property that calls handlers first. The class attribute is `Tensor`'s own property, `original`."""

    original: property

    def __get__(self, tensor: Any, cls: type | None = None, /) -> Any:
        """Return the value of a tensor, or `Tensor`'s property for a class."""
        if tensor is None:
            return self.original
        return self.fget(tensor)  # type: ignore[misc]


class OverriddenQuery:
    """Method that calls handlers first. The class attribute is `Tensor`'s own function, `original`."""

    __slots__ = ("ask", "original")

    def __init__(self, ask: Callable[..., Any], original: Callable[..., Any]) -> None:
        self.ask = ask
        self.original = original

    def __get__(self, tensor: Any, cls: type | None = None, /) -> Callable[..., Any]:
        """Return the bound method of a tensor, or `Tensor`'s function for a class."""
        return self.original if tensor is None else MethodType(self.ask, tensor)


_ARITHMETIC = ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul"]
_ARITHMETIC += ["and", "or", "xor", "lshift", "rshift"]
REFLECTED_OPERATORS = frozenset(f"__r{name}__" for name in [*_ARITHMETIC, "div"])
BINARY_OPERATORS = REFLECTED_OPERATORS | frozenset(
    [f"__{prefix}{name}__" for name in _ARITHMETIC for prefix in ("", "i")]
    + [f"__{name}__" for name in ["eq", "ne", "lt", "le", "gt", "ge"]]
)


def is_operator(name: str) -> bool:
    """Return True for a Python binary operator, which returns NotImplemented where other methods raise TypeError."""
    return name in BINARY_OPERATORS


def _overridden(func: Callable[..., Any], original: Callable[..., Any], operator: bool) -> Callable[..., Any]:
    """Return a function that calls handlers first; handlers receive `func`, and `original` runs if there are none."""

    call_handlers = handle_operator if operator else handle

    @wraps(original)
    def ask(*args: Any, **kwargs: Any) -> Any:
        askers = overloaded(args, kwargs)
        if not askers:
            return original(*args, **kwargs)
        return call_handlers(func, askers, args, kwargs)

    return ask


@cache
def default_nowrap_functions() -> set[Any]:
    """Return the functions whose result `Tensor.__tensor_function__` does not wrap: they return a stored tensor.

    Source: torch.overrides.get_default_nowrap_functions.
    """
    from ...tensor import Tensor

    properties: Any = Tensor
    return {properties._base.__get__, properties.grad.__get__}
