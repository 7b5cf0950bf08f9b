"""NCCL's dtypes and reductions: their mapping from tensors, and unsupported combinations."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ....runtime import scalar_type as st
from ....runtime.scalar_type import dtype
from ...reduce_op import PremultipliedSum, ReduceOp, Reduction

if TYPE_CHECKING:
    from ....dispatch.tensor import Tensor

__all__ = ["UINT8", "Plan", "plan"]

UINT8 = 1
_NUMBERS = {
    st.int8: 0,
    st.uint8: UINT8,
    st.int32: 2,
    st.uint32: 3,
    st.int64: 4,
    st.uint64: 5,
    st.float16: 6,
    st.float32: 7,
    st.float64: 8,
    st.bfloat16: 9,
}
"""`ncclDataType_t`."""
_COMPONENTS = {st.complex32: st.float16, st.complex64: st.float32, st.complex128: st.float64}
_SUM, _PROD, _MAX, _MIN, _AVG = range(5)
_OPERATIONS = {
    ReduceOp.SUM: _SUM,
    ReduceOp.PRODUCT: _PROD,
    ReduceOp.MAX: _MAX,
    ReduceOp.MIN: _MIN,
    ReduceOp.AVG: _AVG,
}
"""`ncclRedOp_t`."""
_OF_COMPLEX = frozenset({ReduceOp.SUM, ReduceOp.AVG})
"""Reductions of complex tensors that apply to the real and imaginary parts separately."""


class Plan(NamedTuple):
    """How NCCL computes a reduction.

    Attributes:
        datatype: NCCL's number of the dtype.
        width: Number of values of that dtype per element.
        operation: NCCL's number of the operation.
        factor: Factor by which each rank multiplies its elements before, or None.
    """

    datatype: int
    width: int
    operation: int
    factor: float | Tensor | None


def plan(name: str, kind: dtype, op: Reduction) -> Plan:
    """Plan how NCCL computes a reduction of tensors of a dtype.

    Bools are bytes, and their sum is the maximum. Complex numbers are pairs of reals.

    Args:
        name: the function's, for errors.
        kind: the dtype.
        op: The reduction.

    Raises:
        ValueError: NCCL has no such reduction, or none of this dtype.
        TypeError: NCCL has no such dtype, or `op` is no reduction.
    """
    factor = op.factor if isinstance(op, PremultipliedSum) else None
    reduction = ReduceOp.SUM if isinstance(op, PremultipliedSum) else op
    if not isinstance(reduction, ReduceOp):
        raise TypeError(f"{name}: expected a ReduceOp for op, but got {op!r}")
    if reduction is ReduceOp.PREMUL_SUM:
        raise ValueError(
            f"{name}: op PREMUL_SUM has no factor; create it with make_premultiplied_sum(factor)"
        )
    if reduction not in _OPERATIONS:
        raise ValueError(f"Cannot use ReduceOp.{reduction.name} with NCCL")
    if kind.itemsize == 1 and kind.is_floating_point:
        raise TypeError("Float8 dtypes are not currenlty supported for NCCL reductions")
    if kind is st.bool_:
        if reduction is ReduceOp.AVG:
            raise TypeError("Cannot use ReduceOp.AVG with boolean inputs")
        if factor is not None:
            raise TypeError("Cannot use ReduceOp.PREMUL_SUM with boolean inputs")
        return Plan(UINT8, 1, _MAX if reduction is ReduceOp.SUM else _OPERATIONS[reduction], None)
    if factor is not None and not (kind.is_floating_point or kind in _COMPONENTS):
        raise ValueError(f"{name}: PREMUL_SUM expects a floating-point dtype, but got {kind}")
    if kind in _COMPONENTS and reduction not in _OF_COMPLEX:
        raise ValueError(f"{name} does not support ReduceOp.{reduction.name} on complex tensors")
    number = _NUMBERS.get(_COMPONENTS.get(kind, kind))
    if number is None:
        raise TypeError(f"Input tensor data type is not supported for NCCL process group: {kind}")
    return Plan(number, 2 if kind in _COMPONENTS else 1, _OPERATIONS[reduction], factor)
