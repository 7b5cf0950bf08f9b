"""Reductions in MPI: their dtype, MPI operation, and conversions before and after."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ....runtime.scalar_type import bfloat16, dtype, float16
from ...reduce_op import PremultipliedSum, ReduceOp, Reduction

if TYPE_CHECKING:
    from ....dispatch.tensor import Tensor

__all__ = ["Plan", "plan"]

NARROW = frozenset({float16, bfloat16})
"""Dtypes that MPI does not add; they accumulate in float32."""
BITWISE = frozenset({ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR})
_OF_BOOLS = {
    ReduceOp.SUM: "LOR",
    ReduceOp.MAX: "LOR",
    ReduceOp.BOR: "LOR",
    ReduceOp.PRODUCT: "LAND",
    ReduceOp.MIN: "LAND",
    ReduceOp.BAND: "LAND",
    ReduceOp.BXOR: "LXOR",
}
_OF_NUMBERS = {
    ReduceOp.SUM: "SUM",
    ReduceOp.AVG: "SUM",
    ReduceOp.PRODUCT: "PROD",
    ReduceOp.MIN: "MIN",
    ReduceOp.MAX: "MAX",
    ReduceOp.BAND: "BAND",
    ReduceOp.BOR: "BOR",
    ReduceOp.BXOR: "BXOR",
}


_OURS: dict[str, np.ufunc] = {"NAN_MIN": np.minimum, "NAN_MAX": np.maximum}
"""Operations that MPI leaves open: the smallest and the largest of numbers, of which one is no number, is none."""
_created: dict[str, Any] = {}


def _combine(function: np.ufunc, source: Any, total: Any, datatype: Any) -> None:
    """Combine the elements of two ranks, which MPI passes as memory, in-place on the second rank's elements."""
    kind = np.dtype(datatype.typechar)
    first, second = (np.frombuffer(memory, kind) for memory in (source, total))
    function(first, second, out=second)


class Plan(NamedTuple):
    """How a reduction is computed.

    Attributes:
        name: Name of MPI's operation, or of a custom one.
        computes: NumPy dtype of the elements that MPI adds.
        factor: Factor by which each rank multiplies its elements before, or None.
        divisor: Divisor of the sum; 1 for none.
    """

    name: str
    computes: np.dtype[Any]
    factor: float | Tensor | None
    divisor: int

    def operation(self, mpi: Any) -> Any:
        """MPI's operation."""
        if self.name not in _OURS:
            return getattr(mpi, self.name)
        if self.name not in _created:
            _created[self.name] = mpi.Op.Create(partial(_combine, _OURS[self.name]), commute=True)
        return _created[self.name]

    def before(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Convert and scale a rank's elements for MPI; return the array itself if nothing changes."""
        if self.factor is not None:
            factor: Any = self.factor if isinstance(self.factor, int | float) else self.factor.item()
            scaled: np.ndarray[Any, Any] = array.astype(self.computes) * self.computes.type(factor)
            return scaled
        return array if array.dtype == self.computes else array.astype(self.computes)

    def after(self, total: np.ndarray[Any, Any], out: np.ndarray[Any, Any]) -> None:
        """Write MPI's result to the output, which may be the same memory already."""
        if self.divisor != 1:
            if total.dtype.kind in "iu":
                # The whole part of each quotient, as a division of integers in C.
                total[...] = np.sign(total) * (np.abs(total) // self.divisor)
            else:
                total /= self.divisor
        if total is not out:
            out[...] = total.astype(out.dtype)


def plan(name: str, kind: dtype, op: Reduction, size: int) -> Plan:
    """Plan how MPI computes a reduction of tensors of a dtype.

    Args:
        name: the function's, for errors.
        kind: the dtype.
        op: The reduction.
        size: the number of processes.

    Raises:
        ValueError: there is no such reduction of this dtype.
    """
    factor = op.factor if isinstance(op, PremultipliedSum) else None
    reduction = ReduceOp.SUM if isinstance(op, PremultipliedSum) else op
    if not isinstance(reduction, ReduceOp):
        raise TypeError(f"{name}: expected a ReduceOp for op, but got {op!r}")
    if reduction is ReduceOp.PREMUL_SUM:
        raise ValueError(
            f"{name}: op PREMUL_SUM has no factor; create it with make_premultiplied_sum(factor)"
        )
    number = kind.np.kind
    is_refused = (
        (reduction in BITWISE and number not in "iub")
        or (number == "c" and reduction in (ReduceOp.MIN, ReduceOp.MAX))
        or (number == "b" and (reduction is ReduceOp.AVG or factor is not None))
        or (number not in "iubfc" and kind not in NARROW)
        or kind.itemsize > 8 * (1 + (number == "c"))
    )
    if is_refused:
        raise ValueError(f"{name}: ReduceOp.{reduction.name} is not supported for {kind}")
    computes = np.dtype(np.float32) if kind in NARROW else kind.np
    operation = (_OF_BOOLS if number == "b" else _OF_NUMBERS)[reduction]
    if computes.kind == "f" and operation in ("MIN", "MAX"):
        operation = f"NAN_{operation}"
    return Plan(operation, computes, factor, size if reduction is ReduceOp.AVG else 1)
