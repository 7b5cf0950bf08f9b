"""What a subclass of `Tensor` inherits in place of `Tensor`'s attributes: the same, by way of its handler.

`TensorMeta` puts the class that is made here before `Tensor`; a plain tensor's attributes stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import Any

from ..core.tensor_function import handle, overloaded


@cache
def overridden_attributes() -> type:
    """The class of all overridden attributes, made when the first subclass is."""
    from ..tensor import Tensor
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
            body[name] = property(
                parts.get("__get__"), parts.get("__set__"), parts.get("__delete__"), attribute.__doc__
            )
        else:
            body[name] = _overridden(presented(name), attribute, is_operator(name))
    return type("OverriddenAttributes", (), body)


BINARY_OPERATORS = frozenset(
    f"__{prefix}{name}__"
    for name in "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift".split()
    for prefix in ("", "r", "i")
) | {f"__{name}__" for name in "eq ne lt le gt ge rdiv".split()}


def is_operator(name: str) -> bool:
    """Whether a method is one of Python's binary operators, which answers NotImplemented where others raise TypeError."""
    return name in BINARY_OPERATORS


def _overridden(func: Any, original: Any, operator: bool) -> Callable[..., Any]:
    """A function that asks first; `func` is what handlers get, `original` what serves where there are none to ask."""

    @wraps(original)
    def ask(*args: Any, **kwargs: Any) -> Any:
        askers = overloaded(args, kwargs)
        if not askers:
            return original(*args, **kwargs)
        if not operator:
            return handle(func, askers, args, kwargs)
        try:
            return handle(func, askers, args, kwargs)
        except TypeError:
            return NotImplemented

    return ask


@cache
def default_nowrap_functions() -> set[Any]:
    """Functions whose result `Tensor.__tensor_function__` leaves as it is: they give a tensor that is kept somewhere.

    Source: torch.overrides.get_default_nowrap_functions.
    """
    from ..tensor import Tensor

    properties: Any = Tensor
    return {properties._base.__get__, properties.grad.__get__}
