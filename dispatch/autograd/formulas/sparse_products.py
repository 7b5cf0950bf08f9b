"""Derivative formulas of matmuls with sparse operands, whose gradients have the operand's own sparsity."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....runtime.layout import sparse_coo, strided
from ...core.op_overload import find_overload
from ...generated import functions as ops
from .linalg import times
from .pointwise import conjugated

if TYPE_CHECKING:
    from ....runtime.scalar_type import Number
    from ...tensor import Tensor


def mm_mat1_sparse_backward(grad: Tensor, mat1: Tensor, mat2: Tensor, alpha: Number) -> Any:
    """Return grad @ mat2^H, at the coordinates of mat1 if that is sparse."""
    return _at_places_of(mat1, grad, conjugated(mat2).t(), alpha)


def mm_mat2_sparse_backward(grad: Tensor, mat1: Tensor, mat2: Tensor, alpha: Number) -> Any:
    """Return mat1^H @ grad, at the coordinates of mat2 if that is sparse."""
    return _at_places_of(mat2, conjugated(mat1).t(), grad, alpha)


def _at_places_of(target: Tensor, left: Tensor, right: Tensor, alpha: Number) -> Any:
    kind = target._spec.layout
    if kind is strided:
        return times(ops._sparse_mm(left, right), alpha)
    if kind is sparse_coo:
        target = target.coalesce()
    if left._spec.layout is strided and right._spec.layout is strided:
        scale = alpha.conjugate() if alpha.__class__ is complex else alpha
        return find_overload("aten::sparse_sampled_addmm")(target, left, right, beta=0, alpha=scale)
    return times(ops._sparse_mm(left, right).sparse_mask(target), alpha)
