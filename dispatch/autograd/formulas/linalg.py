"""Derivative formulas of matrix and vector products (torch FunctionsManual.cpp, `mm_mat1_backward` and the like)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...generated import functions as ops
from .pointwise import conjugated
from .views import turned

if TYPE_CHECKING:
    from ....runtime.scalar_type import Number
    from ...tensor import Tensor


def times(grad: Tensor, scale: Number) -> Tensor:
    """Return grad * conj(scale); the gradient itself if the scale is 1."""
    if scale.__class__ is complex:
        scale = scale.conjugate()
    return grad if scale == 1 else grad * scale


def weighted(tangent: Tensor, scale: Number) -> Tensor:
    """Return tangent * scale; the tangent itself if the scale is 1."""
    return tangent if scale == 1 else tangent * scale


def cross_backward(left: Tensor, right: Tensor, dim: int) -> Tensor:
    """Return the gradient of a cross product: that of the gradient and the other operand, in their cyclic order."""
    return ops.linalg_cross(left, right, dim=dim)


def _is_column_major(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    return strides[0] == 1 and strides[1] == sizes[0]


def mm_mat1_backward(
    grad: Tensor, mat2: Tensor, sizes: Sequence[int], strides: Sequence[int], alpha: Number = 1
) -> Tensor:
    """Return grad @ mat2^H in the layout of mat1, so that a transposed weight's gradient has the weight's layout."""
    if _is_column_major(sizes, strides):
        return times(turned(conjugated(mat2).mm(grad.t())), alpha)
    return times(grad.mm(conjugated(mat2).t()), alpha)


def mm_mat2_backward(
    grad: Tensor, mat1: Tensor, sizes: Sequence[int], strides: Sequence[int], alpha: Number = 1
) -> Tensor:
    """Return mat1^H @ grad, in the layout of mat2."""
    if _is_column_major(sizes, strides):
        return times(turned(grad.t().mm(conjugated(mat1))), alpha)
    return times(conjugated(mat1).t().mm(grad), alpha)


def bmm_mat1_backward(grad: Tensor, mat2: Tensor, alpha: Number = 1) -> Tensor:
    """Return grad @ mat2^H for each matrix of a batch."""
    return times(grad.bmm(conjugated(mat2).transpose(1, 2)), alpha)


def bmm_mat2_backward(grad: Tensor, mat1: Tensor, alpha: Number = 1) -> Tensor:
    """Return mat1^H @ grad for each matrix of a batch."""
    return times(conjugated(mat1).transpose(1, 2).bmm(grad), alpha)


def over_batch(grad: Tensor, batch: int) -> Tensor:
    """Expand a matrix over the batch, without a copy."""
    return grad.unsqueeze(0).expand((batch, *grad.shape))


def mv_mat_backward(grad: Tensor, vec: Tensor, alpha: Number = 1) -> Tensor:
    """Return the outer product of the gradient and conj(vec)."""
    return times(grad.unsqueeze(1).mm(conjugated(vec).unsqueeze(0)), alpha)


def mv_vec_backward(grad: Tensor, mat: Tensor, alpha: Number = 1) -> Tensor:
    """Return mat^H @ grad."""
    return times(conjugated(mat).t().mv(grad), alpha)


def grouped_mm_mat1_backward(
    grad: Tensor, mat2: Tensor, strides: Sequence[int], offs: Tensor | None
) -> Tensor:
    """Return the grouped grad @ mat2^T, in the layout of mat1."""
    grad = with_whole_lines(grad)
    if strides[-2] == 1:
        return ops._grouped_mm(mat2, grad.transpose(-2, -1), offs).transpose(-2, -1)
    return ops._grouped_mm(grad, mat2.transpose(-2, -1), offs)


def grouped_mm_mat2_backward(
    grad: Tensor, mat1: Tensor, strides: Sequence[int], offs: Tensor | None
) -> Tensor:
    """Return the grouped mat1^T @ grad, in the layout of mat2."""
    grad = with_whole_lines(grad)
    if strides[-2] == 1:
        return ops._grouped_mm(grad.transpose(-2, -1), mat1, offs).transpose(-2, -1)
    return ops._grouped_mm(mat1.transpose(-2, -1), grad, offs)


def with_whole_lines(grad: Tensor) -> Tensor:
    """Return the gradient if its leading stride is a multiple of 16 bytes, else a copy with that alignment."""
    whole = 16 // grad.itemsize
    (rows, columns), (down, across) = grad.shape[-2:], grad.stride()[-2:]
    if (across == 1 and down >= columns and down % whole == 0) or (
        down == 1 and across >= rows and across % whole == 0
    ):
        return grad
    return ops.constant_pad_nd(grad, [0, -columns % whole])[..., :columns]
