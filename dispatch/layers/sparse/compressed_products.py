"""Sampled matmuls, matmuls reduced by row, and triangular solves, of compressed rows and columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ....runtime.device import CPU
from ....runtime.layout import sparse_bsr, sparse_coo, sparse_csr, spoken, strided
from ....runtime.scalar_type import dtype as ScalarType
from ....runtime.scalar_type import float64, int32, int64
from ....runtime.sparse_data import BLOCKED
from ...composite.sparse_coo import coo_tensor
from ...composite.sparse_products import check_reduce, expect_csr
from ...generated import functions as ops
from ...structured.operand_checks import check_dtype, check_multiply, check_sizes
from ...structured.stub import StructuredCall, find_kernel
from ...tensor_data import from_numpy
from .compressed_structure import Lines, over
from .coo_structure import coalesced, parts_of
from .products import rows_of, times_dense

if TYPE_CHECKING:
    from ....runtime.scalar_type import Number


def sparse_sampled_addmm(self: Any, mat1: Any, mat2: Any, beta: Number, alpha: Number) -> Any:
    """Compute ``beta * self + alpha * (mat1 @ mat2)`` at the indices of `self` only."""
    _check_sampled(self, mat1, mat2)
    if self._spec.layout is sparse_coo:
        self = coalesced(self)
        indices, values = parts_of(self)
        made = combined(_at(indices[-2], indices[-1], mat1, mat2), values, beta, alpha)
        return coo_tensor(indices, made, self._spec.sizes, True)
    each = Lines(self)
    matrix, row, column = each.coordinates()
    size = self._spec.sizes
    if self._spec.layout in BLOCKED:
        made = _blocks_at(each, matrix, row, column, mat1, mat2)
    else:
        rows, columns = row, column
        if each.batch > 1:
            rows, columns = matrix * size[-2] + row, matrix * size[-1] + column
        inner = mat1._spec.sizes[-1]
        left = mat1.reshape((each.batch * size[-2], inner))
        right = mat2.transpose(-2, -1).reshape((each.batch * size[-1], inner))
        made = dot_rows(rows, columns, left, right)
    values = self._data.values
    return over(self, combined(made.reshape(values._spec.sizes), values, beta, alpha))


def _at(row: Any, column: Any, mat1: Any, mat2: Any) -> Any:
    return dot_rows(row.contiguous(), column.contiguous(), mat1, mat2.t())


def dot_rows(rows: Any, columns: Any, left: Any, right: Any) -> Any:
    """Return the dot products of pairs of rows; on a GPU, complex ones are computed from real and imaginary parts."""
    if not (left.is_complex() and left._spec.device.type == "cuda"):
        return ops._sampled_mm(rows, columns, left, right)
    parts = [part.contiguous() for part in (left.real, left.imag, right.real, right.imag)]
    a, b, c, d = parts
    real = ops._sampled_mm(rows, columns, a, c) - ops._sampled_mm(rows, columns, b, d)
    return ops.complex(real, ops._sampled_mm(rows, columns, a, d) + ops._sampled_mm(rows, columns, b, c))


def _blocks_at(each: Lines, matrix: Any, row: Any, column: Any, mat1: Any, mat2: Any) -> Any:
    """Compute matmuls of rows of blocks with columns of blocks, as a batch."""
    high, wide = each.block
    inner = mat1._spec.sizes[-1]
    down, across = mat1._spec.sizes[-2] // high, mat2._spec.sizes[-1] // wide
    left = mat1.reshape((each.batch * down, high, inner))
    right = mat2.transpose(-2, -1).reshape((each.batch * across, wide, inner))
    rows = left.index_select(0, matrix * down + row)
    columns = right.index_select(0, matrix * across + column)
    return rows.bmm(columns.transpose(1, 2))


def combined(made: Any, values: Any, beta: Number, alpha: Number) -> Any:
    """Compute ``beta * values + alpha * made``; a zero beta ignores `values`."""
    made = made if alpha == 1 else made * alpha
    return made if beta == 0 else made + (values if beta == 1 else values * beta)


def _check_sampled(self: Any, mat1: Any, mat2: Any) -> None:
    name = "sampled_addmm"
    for argument, operand in (("mat1", mat1), ("mat2", mat2)):
        if operand._spec.layout is not strided:
            raise RuntimeError(
                f"{name}: Expected {argument} to have strided layout, but got {spoken(operand._spec.layout)}"
            )
        if operand._spec.dtype is not self._spec.dtype:
            raise RuntimeError(
                f"{name}: Expected {argument} and self to have the same dtype, but got "
                f"{operand._spec.dtype.scalar_name} and {self._spec.dtype.scalar_name}"
            )
        if operand._spec.ndim != self._spec.ndim or operand._spec.ndim < 2:
            raise RuntimeError(
                f"{name}: Expected {argument} to be a matrix, or a batch of as many dimensions as self, got "
                f"{operand._spec.ndim} and {self._spec.ndim}"
            )
        if operand._spec.sizes[:-2] != self._spec.sizes[:-2]:
            raise RuntimeError(f"{name}: Expected {argument} and self to have the same batch sizes")
    if self._spec.layout is sparse_coo and self._data.sparse_dim != 2:
        raise RuntimeError(
            f"{name}: Expected self to have two sparse dimensions, got {self._data.sparse_dim}"
        )
    a, b, size = mat1._spec.sizes, mat2._spec.sizes, self._spec.sizes
    check_multiply(a, b, f"{name}: mat1")
    if (a[-2], b[-1]) != tuple(size[-2:]):
        raise RuntimeError(
            f"{name}: self.shape[-2:] must match mat1.shape[-2] and mat2.shape[-1], got {list(size[-2:])}, {a[-2]} and "
            f"{b[-1]}"
        )


def _sparse_mm_reduce_impl(self: Any, other: Any, reduce: str) -> tuple[Any, Any]:
    """Reduce the products of each row. For minima and maxima, also return the argument index in `self`, nnz if none."""
    _check_reduced(self, other, reduce)
    if reduce in ("sum", "mean"):
        out = times_dense(self, other)
        if reduce == "mean":
            out = out / _lengths(self, out.dtype)
        return out, ops.empty((0,), dtype=int64, device=out.device)
    data = self._data
    nnz, width = data.nnz, other._spec.sizes[1]
    lines = self._spec.sizes[0]
    if self._spec.is_meta or not nnz or not width:
        out = ops.zeros((lines, width), dtype=self.dtype, device=self.device)
        return out, ops.full((lines, width), nnz, dtype=int64, device=self.device)
    products = data.values.unsqueeze(1) * other.index_select(0, data.plain)
    out = ops.segment_reduce(products, reduce, offsets=data.compressed, axis=0)
    line = Lines(self).line
    chosen = out.index_select(0, line)
    attains = products.eq(chosen) | products.isnan()
    numbers = ops.arange(nnz, dtype=float64, device=self.device).unsqueeze(1)
    beyond = ops.full((), float(nnz), dtype=float64, device=self.device)
    positions = ops.where(attains, numbers, beyond)
    which = ops.segment_reduce(positions, "min", offsets=data.compressed, axis=0).clamp(max=nnz).to(int64)
    empty = which.eq(nnz)
    return ops.where(empty, ops.zeros((), dtype=out.dtype, device=out.device), out), which


def _lengths(self: Any, dtype: Any) -> Any:
    """Return the number of values of each row, at least one, as a column."""
    compressed = self._data.compressed
    return (compressed[1:] - compressed[:-1]).clamp(min=1).to(dtype).unsqueeze(1)


def _check_reduced(self: Any, other: Any, reduce: str) -> None:
    name = "sparse_mm_reduce"
    check_reduce(reduce)
    expect_csr(name, "self", self)
    if other._spec.layout is not strided:
        raise RuntimeError(f"{name}: expect other to be strided, got {spoken(other._spec.layout)}")
    if self._spec.ndim != 2 or other._spec.ndim != 2:
        raise RuntimeError(
            f"{name}: expected two matrices, got {self._spec.ndim} and {other._spec.ndim} dimensions"
        )
    check_multiply(self._spec.sizes, other._spec.sizes)
    if self._spec.dtype is not other._spec.dtype or not self._spec.dtype.is_floating_point:
        raise RuntimeError(
            f"{name}: expected operands of one floating dtype, got {self._spec.dtype.scalar_name} and "
            f"{other._spec.dtype.scalar_name}"
        )


def _sparse_mm_reduce_impl_backward(
    self: Any, grad_out: Any, weight: Any, reduce: str, arg_out: Any, output_mask: Sequence[bool]
) -> tuple[Any, Any]:
    """Compute the gradients of both operands; the sparse one's has the operand's indices."""
    _check_reduced(self, weight, reduce)
    name, sizes = "_sparse_mm_reduce_impl_backward", (self._spec.sizes[0], weight._spec.sizes[1])
    check_sizes(name, "grad_out", grad_out._spec, sizes)
    check_dtype(name, "grad_out", grad_out._spec, self._spec.dtype)
    if reduce not in ("sum", "mean"):
        check_sizes(name, "arg_out", arg_out._spec, sizes)
        check_dtype(name, "arg_out", arg_out._spec, int64, int32)
    if reduce == "mean":
        grad_out = grad_out / _lengths(self, grad_out.dtype)
    data = self._data
    grad_self = grad_other = None
    if reduce in ("sum", "mean"):
        if output_mask[0]:
            grad_self = sparse_sampled_addmm(self, grad_out, weight.t(), 0, 1)
        if output_mask[1]:
            from .products import turned

            grad_other = times_dense(turned(self), grad_out)
        return grad_self, grad_other
    nnz, width = data.nnz, weight._spec.sizes[1]
    where = self._spec.device
    entry = arg_out.reshape(-1)
    column = ops.arange(width, device=where).expand(arg_out._spec.sizes).reshape(-1)
    # Gradients without an argmax or argmin go to an extra entry at the end.
    plain = ops.cat((data.plain.to(int64), ops.zeros((1,), dtype=int64, device=where)), 0)
    position = plain.index_select(0, entry) * width + column
    grads = grad_out.reshape(-1)
    if output_mask[0]:
        terms = grads * weight.reshape(-1).index_select(0, position)
        sums = ops.zeros((nnz + 1,), dtype=self.dtype, device=where).index_add_(0, entry, terms)
        grad_self = over(self, sums[:nnz])
    if output_mask[1]:
        nothing = ops.zeros((1,), dtype=self.dtype, device=where)
        terms = grads * ops.cat((data.values, nothing), 0).index_select(0, entry)
        sums = ops.zeros((weight.numel(),), dtype=weight.dtype, device=where).index_add_(0, position, terms)
        grad_other = sums.reshape(weight._spec.sizes)
    return grad_self, grad_other


def triangular_solve(self: Any, A: Any, upper: bool, transpose: bool, unitriangular: bool) -> tuple[Any, Any]:
    """Solve for a strided right-hand side.

    On the CPU the triangle stays sparse, except for a zero on its diagonal, batches, and wrong shapes. In these cases
    and on CUDA the matrix is made dense, which takes memory for each element.
    """
    kind = A._spec.layout
    if kind not in (sparse_csr, sparse_bsr) or self._spec.layout is not strided:
        raise ValueError("triangular_solve: unsupported sparse layout.")
    nothing = ops.empty((0,), dtype=self.dtype, device=self.device)
    a, b = A._spec, self._spec
    fits = a.ndim == b.ndim == 2 and a.sizes[0] == a.sizes[1] == b.sizes[0] and a.dtype is b.dtype
    if fits and b.numel and a.device.type == b.device.type == "cpu" and a.dtype.name in SOLVED:
        crow, col, values = rows_of(A if kind is sparse_csr else A.to_sparse())
        solve = _triangular_kernel(a.dtype)
        parts = (part._data for part in (crow, col, values, self))
        solved = solve(*parts, upper, transpose, unitriangular)
        if solved is not None:
            return from_numpy(solved), nothing
    return ops.triangular_solve(self, A.to_dense(), upper, transpose, unitriangular)[0], nothing


SOLVED = ("float32", "float64", "complex64", "complex128")
"""The dtypes of systems."""


@lru_cache(maxsize=8)
def _triangular_kernel(dtype: ScalarType) -> Any:
    call = StructuredCall("triangular_solve", {}, (), (), None, CPU, {"dtype": dtype})
    return find_kernel("_sparse_triangular_solve_stub", "cpu", "triangular_solve")(call).into


KERNELS: dict[str, Callable[..., Any]] = {
    f.__name__: f
    for f in (
        *(sparse_sampled_addmm, _sparse_mm_reduce_impl, _sparse_mm_reduce_impl_backward),
        triangular_solve,
    )
}
OF_COORDINATES = {"sparse_sampled_addmm": sparse_sampled_addmm}
