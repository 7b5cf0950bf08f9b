"""Spellings of an operator's public name: function, method, special method; and the callable that each stands for."""

from __future__ import annotations

from typing import Any, Final

FUNCTION: Final = ""
METHOD: Final = "method"
"""Spellings of a public name; a special method's own name is its spelling."""

PRESENTED = {
    "__add__": "add",
    "__radd__": "add",
    "__iadd__": "add_",
    "__sub__": "sub",
    "__isub__": "sub_",
    "__mul__": "mul",
    "__rmul__": "mul",
    "__imul__": "mul_",
    "__truediv__": "div",
    "__itruediv__": "div_",
    "__mod__": "remainder",
    "__imod__": "remainder_",
    "__matmul__": "matmul",
    "__ifloordiv__": "floor_divide_",
    "__eq__": "eq",
    "__ne__": "ne",
    "__lt__": "lt",
    "__le__": "le",
    "__gt__": "gt",
    "__ge__": "ge",
    "__rand__": "bitwise_and",
    "__ror__": "bitwise_or",
    "__rxor__": "bitwise_xor",
    "__neg__": "neg",
    "__pos__": "positive",
    "__abs__": "abs",
}
"""Special methods that a handler receives under another name, as in PyTorch; the others keep their own."""


_places: list[Any] = []


def set_public_places(functions: Any, tensor: Any) -> None:
    """Set the module of public functions, and `Tensor`. The package's root calls this once."""
    _places[:] = [functions, tensor]


def public_callable(name: str, spelling: str) -> Any:
    """Return the callable that a handler receives for a name called in this spelling."""
    functions, tensor = _places
    if spelling == FUNCTION:
        return getattr(functions, name)
    return getattr(tensor, name if spelling == METHOD else PRESENTED.get(spelling, spelling))
