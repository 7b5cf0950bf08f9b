"""Sparse matmuls that only select other operators (torch/sparse, ATen/native/sparse/SparseBlas.cpp)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...runtime.layout import sparse_coo, sparse_csr, spoken, strided
from ...runtime.sparse_data import COMPRESSED
from ..core.op_overload import find_overload
from ..generated import functions as ops

if TYPE_CHECKING:
    from ...runtime.scalar_type import Number

REDUCTIONS = ("sum", "mean", "amax", "amin")
"""What `reduce` of ``_sparse_mm`` may be."""


def _sparse_mm(sparse: Any, dense: Any) -> Any:
    """Compute ``torch.sparse.mm``: the gradient of a sparse operand has its indices."""
    left, right = sparse._spec.layout, dense._spec.layout
    if left is strided and right is strided:
        return ops.mm(sparse, dense)
    if left is sparse_coo and right is sparse_coo:
        return find_overload("aten::_sparse_sparse_matmul")(sparse, dense)
    for name, operand in (("self", sparse), ("mat2", dense)):
        if operand._spec.ndim != 2:
            raise RuntimeError(f"{name} must be a matrix, got {operand._spec.ndim}-D tensor in _sparse_mm")
    kind = left if left in COMPRESSED and right in COMPRESSED else strided
    size = (sparse._spec.sizes[0], dense._spec.sizes[1])
    nothing = ops.zeros(size, dtype=sparse.dtype, device=sparse.device, layout=kind)
    return ops._sparse_addmm(nothing, sparse, dense, beta=0, alpha=1)


def _sparse_addmm(self: Any, mat1: Any, mat2: Any, beta: Number, alpha: Number) -> Any:
    """Compute ``addmm`` with the gradients of ``torch.sparse.mm``."""
    return ops.addmm(self, mat1, mat2, beta=beta, alpha=alpha)


def _sparse_mm_reduce(sparse: Any, dense: Any, reduce: str) -> Any:
    """Compute ``torch.sparse.mm(sparse, dense, reduce)``: reduce the products of a row by another operation than the
    sum.
    """
    check_reduce(reduce)
    return find_overload("aten::_sparse_mm_reduce_impl")(sparse, dense, reduce)[0]


def check_reduce(reduce: str) -> None:
    """Raise RuntimeError for another word."""
    if reduce not in REDUCTIONS:
        raise RuntimeError(f"reduce argument must be one of {', '.join(REDUCTIONS)}, got {reduce}")


def expect_csr(name: str, argument: str, tensor: Any) -> None:
    """Raise RuntimeError for another layout than compressed rows."""
    if tensor._spec.layout is not sparse_csr:
        raise RuntimeError(f"{name}: expect {argument} to be SparseCsr, got {spoken(tensor._spec.layout)}")


def smm(self: Any, mat2: Any) -> Any:
    """Compute ``sspaddmm`` without an addend."""
    if self._spec.ndim != 2 or mat2._spec.ndim != 2:
        raise RuntimeError(
            f"smm(): expected two matrices, got shapes {list(self._spec.sizes)} and {list(mat2._spec.sizes)}"
        )
    size = (self._spec.sizes[0], mat2._spec.sizes[1])
    nothing = ops.zeros(size, dtype=self.dtype, device=self.device, layout=sparse_coo)
    return ops.sspaddmm(nothing, self, mat2, beta=0, alpha=1)
