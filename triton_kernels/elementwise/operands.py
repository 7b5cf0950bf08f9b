"""An elementwise kernel's operands: how the host passes one, and how a program reads it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from ...dispatch.scalars import truncated
from ...runtime.cuda.triton.lazy_triton import tl, triton
from ...runtime.tensor_spec import TensorSpec
from ..conversion import convert, type_name

ABSENT, BLOCKED, ELEMENT, NUMBER = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2), tl.constexpr(3)
"""Kinds of operands: none, a block of memory, one element of memory, a number given at launch."""
COLUMN, PAIRED = tl.constexpr(4), tl.constexpr(5)
"""Blocks of memory of which a tile has one column for all of its columns, or every second element of whole pairs."""


@triton.jit
def apply(FUNCTION: tl.constexpr, ARITY: tl.constexpr, a, b, c, d):
    if ARITY == 1:
        return FUNCTION(a)
    elif ARITY == 2:
        return FUNCTION(a, b)
    elif ARITY == 3:
        return FUNCTION(a, b, c)
    else:
        return FUNCTION(a, b, c, d)


@triton.jit
def read(x, offset, mask, KIND: tl.constexpr, TYPE: tl.constexpr):
    """Return an operand's values in the type that the function computes with."""
    if KIND == BLOCKED or KIND >= COLUMN:
        return convert(tl.load(x + offset, mask=mask), TYPE)
    elif KIND == ELEMENT:
        return convert(tl.load(x), TYPE)
    elif KIND == NUMBER:
        return x.to(TYPE)
    else:
        return 0  # nobody reads it; Triton before 3.7 cannot return None from a branch


def number_for(type_: tl.dtype) -> Callable[[Any], int | float]:
    """Return a function that makes a Python number an argument of this type: wrapped, or rounded to infinity."""
    if type_ == tl.float64:
        return float
    if type_.is_floating():
        return lambda value: ctypes.c_float(value).value
    if type_ == tl.int1:
        return lambda value: int(value != 0)
    bits, signed = type_.primitive_bitwidth, type_.is_int_signed()
    low = -(1 << (bits - 1)) if signed else 0

    def wrapped(value: Any) -> int:
        return (truncated(value, type_.name) - low) % (1 << bits) + low

    return wrapped


def address(data: Any) -> int:
    """Return the address of a tensor's bytes."""
    return data.address  # type: ignore[no-any-return]


class Operand:
    """One input of an elementwise launch: how it is passed, and the type in which it is computed.

    Args:
        source: Argument of the plan: a spec, or the class of a number.
        type_: Type that the function gets.
    """

    __slots__ = ("kind", "prepare", "spec", "type", "type_name")

    def __init__(self, source: Any, type_: tl.dtype) -> None:
        self.type = type_
        self.spec: TensorSpec | None = None
        if isinstance(source, TensorSpec) and source.device.type == "cuda":
            self.spec = source
            self.kind = BLOCKED
            self.type_name = f"*{source.dtype.triton_name}"
            self.prepare: Callable[[Any], int | float] = address
            return
        self.kind = NUMBER
        self.type_name = type_name(type_)
        number = number_for(type_)
        self.prepare = (lambda array: number(array.item())) if isinstance(source, TensorSpec) else number
