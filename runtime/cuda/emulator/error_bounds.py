"""Running error bounds of values that the lanes of a warp compute from exchanges.

Each register that depends on a ``shfl.sync`` has an error bound for each thread. It bounds the distance from the
result of exact arithmetic, which all lanes of the reduction share. Two lanes that hold one result differ by the sum
of their bounds at most. This is Wilkinson's running error analysis (Higham, "Accuracy and Stability of Numerical
Algorithms", section 3.3). The unit roundoff of a type is u.

- A rounded result r adds u |r|. An approximation adds 4 u |r| (PTX ISA: 2 units in the last place).
- An ``fma`` of a, b and c adds u (|a b| + |c| + |r|): another lane may have rounded a b, or sent c rounded. An
  exchange adds less than 3 units in the last place of its largest addend.
- Errors of operands are propagated to first order. Functions of one argument are evaluated at both ends of its
  interval.

A bound of a predicate or an integer is zero or infinite. A comparison is uncertain if its operands are within their
errors, equal, or NaN. A value that an uncertain predicate selects has the distance of both choices as its error. An
instruction without a rule passes on zero, and makes any other bound infinite.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .contraction import FLOATS

Array = np.ndarray[Any, Any]

_ROUNDOFF = {"f16": 2.0**-11, "bf16": 2.0**-8, "f32": 2.0**-24, "f64": 2.0**-53}
_UNDERFLOW = {"f16": 2.0**-24, "bf16": 2.0**-133, "f32": 2.0**-126, "f64": 2.0**-1074}
"""Largest loss of a subnormal result; for 32 bits, by flushing to zero."""
_LARGEST = {"f16": 65504.0, "bf16": 3.3895314e38, "f32": 3.4028235e38, "f64": np.finfo(np.float64).max}
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "rcp": lambda x: 1 / x,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "ex2": np.exp2,
    "lg2": np.log2,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
}
_EQUALITIES = ("eq", "ne", "equ", "neu")


def _sum(x: Array, y: Array, ex: Any, ey: Any) -> tuple[Array, Array, Array]:
    return x + y, ex + ey, np.abs(x + y)


def _product(x: Array, y: Array, ex: Any, ey: Any) -> tuple[Array, Array, Array]:
    return x * y, np.abs(x) * ey + np.abs(y) * ex + ex * ey, np.abs(x * y)


def _fma(x: Array, y: Array, z: Array, ex: Any, ey: Any, ez: Any) -> tuple[Array, Array, Array]:
    product, carried, size = _product(x, y, ex, ey)
    return product + z, carried + ez, size + np.abs(z) + np.abs(product + z)


def _quotient(x: Array, y: Array, ex: Any, ey: Any) -> tuple[Array, Array, Array]:
    result, least = x / y, np.abs(y) - ey
    carried = ex + np.abs(result) * ey
    return result, np.where(carried > 0, carried / np.maximum(least, 0), 0), 4 * np.abs(result)


ARITHMETIC: dict[str, Callable[..., tuple[Array, Array, Array]]] = {
    "add": _sum,
    "sub": lambda x, y, ex, ey: _sum(x, -y, ex, ey),
    "mul": _product,
    "fma": _fma,
    "mad": _fma,
    "div": _quotient,
}
"""Functions that return the result, the propagated errors, and the factor of the unit roundoff."""


def _function(opcode: str) -> Callable[..., tuple[Array, Array, Array]]:
    function = FUNCTIONS[opcode]

    def applied(x: Array, ex: Any) -> tuple[Array, Array, Array]:
        result = function(x)
        ends = np.maximum(np.abs(function(x + ex) - result), np.abs(function(x - ex) - result))
        return result, np.where(ex > 0, ends, 0), 4 * np.abs(result)

    return applied


ARITHMETIC |= {opcode: _function(opcode) for opcode in FUNCTIONS}


class ErrorBounds(dict[int, Any]):
    """Error bounds of a frame's registers, by place: an array, or one number for all threads. Default: 0."""

    def __missing__(self, register: int) -> float:
        return 0.0

    def put(self, targets: Sequence[int], bound: Any, mask: Any) -> None:
        """Set the bounds of registers for the threads of a mask (None for all)."""
        for register in targets:
            self[register] = bound if mask is None else np.where(mask, bound, self[register])

    def largest(self, registers: Sequence[int]) -> Any:
        """Return the largest bound among registers, for a result that equals one of them."""
        bound: Any = 0.0
        for register in registers:
            bound = np.maximum(bound, self[register])
        return bound

    def unknown(self, registers: Sequence[int]) -> Any:
        """Return the bound of an instruction without a rule."""
        return np.where(self.largest(registers) > 0, np.inf, 0.0)

    def computed(self, opcode: str, kind: str, registers: Sequence[int], *values: Any) -> Any:
        """Return the bound of floating-point arithmetic (`ARITHMETIC`) of a type; register -1 is an exact operand."""
        numbers = [value.astype(np.float64) for value in values]
        errors = [self[register] for register in registers]
        result, carried, size = ARITHMETIC[opcode](*numbers, *errors)
        bound = carried + _ROUNDOFF[kind] * size + _UNDERFLOW[kind]
        overflows = ~(np.maximum(size / 4, np.abs(result)) <= _LARGEST[kind])
        bound = np.where(overflows | np.isnan(bound), np.inf, bound)
        finite = np.logical_and.reduce(np.broadcast_arrays(*(np.isfinite(each) for each in numbers)))
        # An infinite or NaN operand makes the result infinite or NaN in all lanes.
        return np.where(finite, bound, self.largest(registers))

    def converted(self, kind: str, registers: Sequence[int], value: Any) -> Any:
        """Return the bound of a float that is rounded to another type."""
        rounding = _ROUNDOFF[kind] * np.abs(value.astype(np.float64)) + _UNDERFLOW[kind]
        bound = self.largest(registers)
        return bound + np.where((bound > 0) & np.isfinite(rounding), rounding, 0.0)

    def compared(self, comparison: str, registers: Sequence[int], x: Any, y: Any, *unused: Any) -> Any:
        """Return infinite bounds for uncertain comparisons, else zero."""
        errors = self[registers[0]] + self[registers[1]]
        if np.dtype(x.dtype).kind in "iu":
            uncertain = (errors > 0) | ((x == y) & (comparison not in _EQUALITIES))
        else:
            a, b = x.astype(np.float64), y.astype(np.float64)
            near = (np.abs(a - b) <= errors) | (a == b)
            if comparison in _EQUALITIES:
                near = near & (errors > 0)
            uncertain = near | np.isnan(a) | np.isnan(b)
        return np.maximum(np.where(uncertain, np.inf, 0.0), self.largest(registers[2:]))

    def joined(self, opcode: str, registers: Sequence[int], p: Any, q: Any) -> Any:
        """Return the bound of a conjunction or disjunction: a certain operand may decide it alone."""
        first, second = self[registers[0]] > 0, self[registers[1]] > 0
        if opcode == "and":
            uncertain = (first & (q | second)) | (second & (p | first))
        else:
            uncertain = (first & (~q | second)) | (second & (~p | first))
        return np.where(uncertain, np.inf, 0.0)

    def selected(self, kind: str, registers: Sequence[int], x: Any, y: Any, p: Any) -> Any:
        """Return the bound of a selected value: an uncertain predicate may select either value."""
        bound = np.where(p, self[registers[0]], self[registers[1]])
        uncertain = (self[registers[2]] > 0) & (x != y)
        if not np.any(uncertain):
            return bound
        either: Any = np.inf
        if kind:
            a, b = (each.view(FLOATS[kind]).astype(np.float64) for each in (x, y))
            either = np.abs(a - b) + self.largest(registers[:2])
            either = np.where(np.isnan(either), np.inf, either)
        return np.where(uncertain, either, bound)
