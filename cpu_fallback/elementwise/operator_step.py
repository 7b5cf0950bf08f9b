"""Call of an operator, as its lowering sees it: its arguments, in the compute dtype."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...dispatch.layers.graph.graph import Node
from ...dispatch.structured.stub import StructuredCall
from ...dispatch.structured.supported_dtypes import ROUNDING_NUMBERS
from ...runtime.cpu.element_program import REGISTERS, CannotLower, ElementProgram, Value
from ...runtime.cpu.elementary_functions import instructions_of
from ..widen import NARROW, compute_dtype
from .constants import RoundedConstants, constants_for


class Step:
    """Call of an operator, as lowerings see it.

    Attributes:
        program: The program to which values are added.
        call: The structured call.
        numel: The number of elements of the result.
        dtype: The name of the compute dtype.
    """

    def __init__(
        self,
        program: ElementProgram,
        call: StructuredCall,
        operands: Sequence[Any],
        values: dict[Node, Value],
    ) -> None:
        self.program, self.call = program, call
        self.common = call.common_dtype
        self.dtype = compute_dtype(self.common).name
        self.numel = call.outputs[0].numel
        self._given = dict(zip(call.runtime, operands, strict=True))
        self._values = values

    @property
    def is_narrow(self) -> bool:
        """True if the common dtype is computed in a wider one."""
        return self.common in NARROW

    def raw(self, name: str) -> Any:
        """Return an argument as the kernel is called with it: a node, a number, or the default."""
        return self._given[name] if name in self._given else self.call.args[name]

    def operand(self, name: str, dtype: str = "") -> Value:
        """Return an argument in the compute dtype, or in another."""
        argument = self.raw(name)
        dtype = dtype or self.dtype
        if dtype not in REGISTERS:
            raise CannotLower(dtype)
        if isinstance(argument, Node):
            value = self._values[argument]
            if self._rounds and not self.call.args[name].ndim:
                value = self.program.convert(value, self.common.name)
            return self.program.convert(value, dtype)
        np_dtype = np.dtype(dtype) if dtype != "bfloat16" else self.common.np
        if self._rounds:
            constant = RoundedConstants(np_dtype, type(argument), self.common.np)[argument]
        else:
            constant = constants_for(self.call, name, np_dtype, type(argument))[argument]
        return self.program.number(constant[()], dtype)

    @property
    def operands(self) -> list[Value]:
        """All that the kernel is called with."""
        return [self.operand(name) for name in self.call.runtime]

    @property
    def _rounds(self) -> bool:
        return self.is_narrow and self.call.name.rstrip("_") in ROUNDING_NUMBERS

    def number(self, number: float) -> Value:
        """Return a number in the compute dtype."""
        if self.dtype not in REGISTERS:
            raise CannotLower(self.dtype)
        return self.program.number(np.dtype(self.dtype).type(number), self.dtype)

    def ufunc(self, function: np.ufunc, a: Value) -> Value:
        """Return a ufunc of one float: as instructions if they are bitwise identical here, else computed by NumPy."""
        made = instructions_of(self.program, function.__name__, a)
        return made or self.program.value("ufunc", a.dtype, operands=(a,), detail=function)

    def need(self, kinds: str) -> None:
        """Raise CannotLower for a dtype of another kind."""
        if self.dtype == "bool":
            kind = "b"
        else:
            kind = "f" if "float" in self.dtype else self.dtype[0]
        if kind not in kinds or "complex" in self.dtype:
            raise CannotLower(self.dtype)


Row = Callable[[Step], Value]
"""Function from an operator's call to its value. It raises CannotLower for an unsupported call."""


def product(s: Step, a: Value, b: Value) -> Value:
    return s.program.arithmetic("mul", a, b)


def _takes_second_zero() -> bool:
    """Return True if NumPy's maximum and minimum take the second of two zeros, as x86 instructions do."""
    return all(
        np.signbit(f(np.full(n, a, t), np.full(n, -a, t))).all() == (a == 0.0 and not np.signbit(a))
        for f in (np.maximum, np.minimum)
        for t in (np.float32, np.float64)
        for n in (1, 16, 37)
        for a in (0.0, -0.0)
    )


def check_extremes(s: Step) -> None:
    if "float" in s.dtype and not _takes_second_zero():
        raise CannotLower("maximum")


def inverse(s: Step, a: Value) -> Value:
    return s.program.arithmetic("div", s.number(1), a)
