"""Pointwise operators made of others. Names imported from generated functions serve aliases and overloads."""

from __future__ import annotations

from typing import Any

from ..generated.functions import (
    abs,
    acos,
    acosh,
    add,
    add_,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    bitwise_and,
    bitwise_and_,
    bitwise_or,
    bitwise_or_,
    bitwise_xor,
    bitwise_xor_,
    clamp,
    clamp_,
    conj_physical,
    div,
    div_,
    eq,
    floor_divide,
    fmod,
    ge,
    gt,
    le,
    lt,
    mul,
    mul_,
    ne,
    neg,
    pow,
    remainder,
    rsub,
    sub,
    sub_,
    trunc,
    where,
)

INFINITY = float("inf")

__all__ = [
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_and_",
    "bitwise_or",
    "bitwise_or_",
    "bitwise_xor",
    "bitwise_xor_",
    "clamp",
    "clamp_",
    "div",
    "div_",
    "eq",
    "floor_divide",
    "fmod",
    "ge",
    "gt",
    "le",
    "lt",
    "mul",
    "mul_",
    "ne",
    "neg",
    "remainder",
    "trunc",
    "where",
]


def add_scalar(self: Any, other: Any, alpha: Any) -> Any:
    """``add.Scalar``: a number in the second place."""
    return add(self, other, alpha=alpha)


def add__scalar(self: Any, other: Any, alpha: Any) -> Any:
    """``add_.Scalar``."""
    return add_(self, other, alpha=alpha)


def sub_scalar(self: Any, other: Any, alpha: Any) -> Any:
    """``sub.Scalar``."""
    return sub(self, other, alpha=alpha)


def sub__scalar(self: Any, other: Any, alpha: Any) -> Any:
    """``sub_.Scalar``."""
    return sub_(self, other, alpha=alpha)


def rsub_scalar(self: Any, other: Any, alpha: Any) -> Any:
    """``rsub.Scalar``."""
    return rsub(self, other, alpha=alpha)


def div_scalar_mode(self: Any, other: Any, rounding_mode: str | None) -> Any:
    """``div.Scalar_mode``."""
    return div(self, other, rounding_mode=rounding_mode)


def positive(self: Any) -> Any:
    """The tensor itself. Raises RuntimeError for bool."""
    if self.dtype.name == "bool":
        raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
    return self


def square(self: Any) -> Any:
    """The second power."""
    return pow(self, 2)


def square_(self: Any) -> Any:
    """The second power, in place."""
    return self.pow_(2)


def square_out(self: Any, out: Any) -> Any:
    """The second power, into `out`."""
    return pow(self, 2, out=out)


def conj(self: Any) -> Any:
    """The complex conjugate; a real tensor itself."""
    return conj_physical(self) if self.dtype.is_complex else self


def unresolved(self: Any) -> Any:
    """The tensor itself: conjugates and negatives are always materialised."""
    return self


def isnan(self: Any) -> Any:
    """Where an element is NaN, by its not being equal to itself."""
    return ne(self, self)


def isinf(self: Any) -> Any:
    """Where an element, or a part of a complex one, is infinite."""
    if self.dtype.is_floating_point or self.dtype.is_complex:
        return eq(abs(self), INFINITY)
    return ne(self, self)


def isfinite(self: Any) -> Any:
    """Where an element is neither infinite nor NaN."""
    if self.dtype.is_floating_point or self.dtype.is_complex:
        return lt(abs(self), INFINITY)
    return eq(self, self)
