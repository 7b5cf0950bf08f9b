"""Matmuls of sparse matrices (COO, compressed rows and compressed columns) with dense and sparse ones.

Every matmul with a dense matrix uses compressed rows. Compressed columns and coordinates are sorted into rows first. A
batch becomes one block-diagonal matrix. A dense matrix on the left is multiplied transposed. Source of the checks:
aten/src/ATen/native/sparse/SparseCsrTensorMath.cpp, SparseBlas.cpp, SparseTensorMath.cpp.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ....runtime.errors import two_devices
from ....runtime.layout import sparse_bsc, sparse_bsr, sparse_coo, sparse_csc, sparse_csr, spoken, strided
from ....runtime.scalar_type import bool_, int64
from ....runtime.sparse_data import BLOCKED, COMPRESSED
from ...composite.sparse_compressed import begins_of
from ...composite.sparse_coo import coo_tensor
from ...generated import functions as ops
from ...structured.operand_checks import check_multiply
from .compressed_places import transpose
from .compressed_structure import by_other_lines
from .coo_structure import coalesced, parts_of
from .sparse_by_sparse import matrix_product

if TYPE_CHECKING:
    from ....runtime.scalar_type import Number
    from ...tensor import Tensor

ROWS_OF = {sparse_csc: sparse_csr, sparse_bsc: sparse_bsr}


def turned(self: Any) -> Any:
    """Return the transpose of a matrix, or of each of a batch, over the same memory."""
    if self._spec.layout is strided:
        return self.transpose(-2, -1)
    if self._spec.layout is sparse_coo:
        indices, values = parts_of(self)
        dims = self._spec.ndim
        order = (*range(dims - 2), dims - 1, dims - 2)
        size = [self._spec.sizes[i] for i in order]
        return coo_tensor(ops.stack([indices[i] for i in order], 0), values, size, False)
    return transpose(self, -2, -1)


def rows_of(self: Any) -> tuple[Any, Any, Any]:
    """Return a sparse matrix, or a batch as one block-diagonal matrix, in compressed rows.

    Returns row offsets, columns, and values, which are elements or blocks.
    """
    layout, spec = self._spec.layout, self._spec
    is_float = spec.dtype.is_floating_point or spec.dtype.is_complex
    if layout in BLOCKED and spec.device.type == "cuda" and not is_float:
        # Tensor cores multiply blocks of floats, and complex ones by their parts; integers are multiplied one by one.
        return rows_of(self.to_sparse())
    if layout is sparse_coo:
        self = coalesced(self)
        indices, values = parts_of(self)
        *batch, row, column = indices.unbind(0)
        sizes = spec.sizes
        for position, index in enumerate(batch):
            inner = math.prod(sizes[position + 1 : -2])
            row = row + index * (inner * sizes[-2])
            column = column + index * (inner * sizes[-1])
        lines = math.prod(sizes[:-1])
        return begins_of(row.contiguous(), 1, lines, row._spec.sizes[0]).reshape(-1), column, values
    if layout in ROWS_OF:
        self = by_other_lines(self, ROWS_OF[layout])
    data = self._data
    compressed, plain, values = data.compressed, data.plain, data.values
    if not data.batch_dim:
        return compressed, plain, values
    batch = math.prod(spec.sizes[: data.batch_dim])
    nnz = data.nnz
    lines = compressed._spec.sizes[-1] - 1
    wide = values._spec.sizes[data.batch_dim + 2] if layout in (sparse_bsr, sparse_bsc) else 1
    across = spec.sizes[data.batch_dim + 1] // wide
    each = ops.arange(batch, dtype=compressed.dtype, device=spec.device).reshape((batch, 1))
    begins = (compressed.reshape((batch, lines + 1))[:, :-1] + each * nnz).reshape(-1)
    last = ops.full((1,), batch * nnz, dtype=compressed.dtype, device=spec.device)
    columns = (plain.reshape((batch, nnz)) + each * across).reshape(-1)
    return (
        ops.cat((begins, last), 0),
        columns,
        values.reshape((batch * nnz, *values._spec.sizes[data.batch_dim + 1 :])),
    )


def times_dense(self: Any, dense: Any) -> Any:
    """Compute a sparse matrix times a strided one, or a batched matmul."""
    begins, columns, values = rows_of(self)
    size, width = self._spec.sizes, dense._spec.sizes[-1]
    below = dense.reshape((math.prod(dense._spec.sizes[:-1]), width))
    operator = ops._bsr_mm if values._spec.ndim == 3 else ops._csr_mm
    if values.is_complex() and self._spec.device.type == "cuda":
        out = _complex_product(operator, begins, columns, values, below)
    else:
        out = operator(begins, columns, values, below)
    return shaped(out, (*size[:-1], width))


def shaped(out: Any, size: Sequence[int]) -> Any:
    """Return a reshaped tensor that is not a view, so that autograd gives it a history of its own."""
    return out if out._spec.sizes == tuple(size) and out._view_base is None else ops._unsafe_view(out, size)


def times_sparse(dense: Any, self: Any) -> Any:
    """Compute a strided matrix times a sparse one, or a batched matmul."""
    out = turned(times_dense(turned(self), turned(dense))).contiguous()
    return shaped(out, out._spec.sizes)


def _complex_product(operator: Any, begins: Any, columns: Any, values: Any, dense: Any) -> Any:
    """Compute a complex matmul as two real matmuls of twice the width, for the real and the imaginary part."""
    rows, width = dense._spec.sizes
    parts = ops.view_as_real(values.contiguous())
    both = ops.view_as_real(dense.contiguous()).reshape((rows, 2 * width))
    real = operator(begins, columns, parts.select(-1, 0), both)
    imaginary = operator(begins, columns, parts.select(-1, 1), both)
    real, imaginary = (ops.view_as_complex(part.reshape((-1, width, 2))) for part in (real, imaginary))
    return ops.complex(real.real - imaginary.imag, real.imag + imaginary.real)


def _refuse_dense_dimensions(name: str, argument: str, operand: Tensor) -> None:
    """Raise RuntimeError for a COO tensor with dense dimensions."""
    if operand._spec.layout is sparse_coo and operand._data.dense_dim:
        raise RuntimeError(
            f"{name}(): expected {argument} without dense dimensions, got {operand._data.dense_dim}"
        )


def _check_pair(name: str, left: Any, right: Any, ndim: int) -> None:
    """Raise RuntimeError for matrices, or batches, whose sizes do not allow a matmul."""
    for argument, operand in (("self", left), ("mat2", right)):
        if operand._spec.ndim != ndim:
            kind = "matrix" if ndim == 2 else "batch of matrices"
            raise RuntimeError(f"{argument} must be a {kind}, got {operand._spec.ndim}-D tensor in {name}")
        _refuse_dense_dimensions(name, argument, operand)
    a, b = left._spec, right._spec
    if a.device is not b.device:
        raise RuntimeError(two_devices(a.device, b.device, f"arguments of {name}"))
    check_multiply(a.sizes, b.sizes)
    if a.sizes[:-2] != b.sizes[:-2]:
        raise RuntimeError(f"{name}: batches {list(a.sizes[:-2])} and {list(b.sizes[:-2])} differ")
    if a.dtype is not b.dtype:
        raise RuntimeError(
            f"expected m1 and m2 to have the same dtype, but got: {a.dtype.scalar_name.lower()} != "
            f"{b.dtype.scalar_name.lower()} (in {name})"
        )
    if a.dtype is bool_:
        raise NotImplementedError(f"\"addmm_sparse_dense\" not implemented for 'Bool' (in {name})")


def product(name: str, left: Any, right: Any) -> Any:
    """Compute a matmul with at least one sparse matrix; the result is sparse if both are."""
    _check_pair(name, left, right, 2)
    if left._spec.layout is strided:
        return times_sparse(left, right)
    if right._spec.layout is strided:
        return times_dense(left, right)
    return matrix_product(left, right)


def mm(self: Any, mat2: Any) -> Any:
    """Run ``mm``."""
    return product("mm", self, mat2)


def scaled(made: Any, alpha: Number) -> Any:
    """Multiply the result by alpha."""
    return made if alpha == 1 else made * alpha


def addmm(self: Any, mat1: Any, mat2: Any, beta: Number, alpha: Number) -> Any:
    """Run ``addmm``: the result is strided if `self` is, else sparse like both factors."""
    _check_pair("addmm", mat1, mat2, 2)
    size = (mat1._spec.sizes[0], mat2._spec.sizes[1])
    kind = self._spec.layout
    both = mat1._spec.layout is not strided and mat2._spec.layout is not strided
    if (kind is not strided and not both) or (
        kind is sparse_coo or (both and sparse_coo in (mat1._spec.layout, mat2._spec.layout))
    ):
        raise RuntimeError(
            f"addmm: computation on {self._spec.device.type.upper()} is not implemented for {spoken(kind)} + "
            f"{spoken(mat1._spec.layout)} @ {spoken(mat2._spec.layout)}"
        )
    if self._spec.dtype is not mat1._spec.dtype:
        raise RuntimeError(
            f"self and mat2 must have the same dtype, but got {self._spec.dtype.scalar_name} and "
            f"{mat1._spec.dtype.scalar_name}"
        )
    made = scaled(product("addmm", mat1, mat2), alpha)
    if kind is strided:
        self = self.expand(size)
        if made._spec.layout is not strided:
            if beta == 0:
                return made.to_dense()
            return ops.add(scaled(self, beta), made)
        return made if beta == 0 else ops.add(made, self, alpha=beta)
    if self._spec.sizes != size:
        raise RuntimeError(
            f"addmm: Expected self of size {list(size)} where it is sparse, but got {list(self._spec.sizes)}"
        )
    if made._spec.layout is not kind:
        made = made.to_sparse(layout=kind)
    return made if beta == 0 else ops.add(scaled(self, beta), made)


def mv(self: Any, vec: Any) -> Any:
    """Run ``mv``: a sparse matrix times a strided vector."""
    _check_vector("mv", self, vec)
    return shaped(times_dense(self, vec.unsqueeze(1)), (self._spec.sizes[0],))


def addmv(self: Any, mat: Any, vec: Any, beta: Number, alpha: Number) -> Any:
    """Run ``addmv``."""
    _check_vector("addmv", mat, vec)
    if self._spec.layout is not strided:
        raise RuntimeError(f"torch.addmv: expected self to be strided, got {spoken(self._spec.layout)}")
    made = scaled(mv(mat, vec), alpha)
    return made if beta == 0 else ops.add(made, self.expand(made._spec.sizes), alpha=beta)


def _check_vector(name: str, mat: Any, vec: Any) -> None:
    if mat._spec.layout is strided or vec._spec.layout is not strided:
        raise RuntimeError(
            f"{name}: expected a sparse matrix and a strided vector, got {spoken(mat._spec.layout)} and "
            f"{spoken(vec._spec.layout)}"
        )
    if mat._spec.ndim != 2 or vec._spec.ndim != 1:
        raise RuntimeError(
            f"vector + matrix @ vector expected, got {name} of {mat._spec.ndim} and {vec._spec.ndim} dimensions"
        )
    _refuse_dense_dimensions(name, "mat", mat)
    if mat._spec.sizes[1] != vec._spec.sizes[0]:
        raise RuntimeError(
            f"size mismatch, got mat ({mat._spec.sizes[0]}x{mat._spec.sizes[1]}), vec ({vec._spec.sizes[0]})"
        )
    if mat._spec.dtype is not vec._spec.dtype:
        raise RuntimeError(
            f"expected mat and vec to have the same dtype, but got {mat._spec.dtype.scalar_name} and "
            f"{vec._spec.dtype.scalar_name}"
        )


def bmm(self: Any, mat2: Any) -> Any:
    """Run ``bmm`` of a batch of sparse matrices and strided ones, in either order."""
    if self._spec.layout is not strided and mat2._spec.layout is not strided:
        raise RuntimeError(
            f"bmm: expected one strided batch, got {spoken(self._spec.layout)} and {spoken(mat2._spec.layout)}"
        )
    for argument, operand in (("batch1", self), ("batch2", mat2)):
        if operand._spec.ndim != 3:
            raise RuntimeError(f"{argument} must be a 3D tensor")
        if operand._spec.layout in COMPRESSED and not operand._data.batch_dim:
            raise RuntimeError(f"bmm: expected {argument} without dense dimensions, got one")
        if operand._spec.layout is sparse_coo and operand._data.sparse_dim != 3:
            raise RuntimeError(
                f"bmm_sparse: Tensor '{argument}' must have 3 sparse dims, but has {operand._data.sparse_dim}"
            )
    _check_pair("bmm", self, mat2, 3)
    if self._spec.layout is strided:
        return times_sparse(self, mat2)
    return times_dense(self, mat2)


def baddbmm(self: Any, batch1: Any, batch2: Any, beta: Number, alpha: Number) -> Any:
    """Run ``baddbmm`` with a strided addend."""
    if self._spec.layout is not strided:
        raise RuntimeError(f"baddbmm: expected self to be strided, got {spoken(self._spec.layout)}")
    made = scaled(bmm(batch1, batch2), alpha)
    return made if beta == 0 else ops.add(made, self.expand(made._spec.sizes), alpha=beta)


def _found_rows(mat1: Any, mat2: Any, name: str) -> tuple[Any, Any]:
    """Return the ascending rows in which a COO matrix has elements, and those rows of its matmul."""
    if mat1._spec.layout is not sparse_coo or mat2._spec.layout is not strided:
        raise RuntimeError(
            f"{name}: expected 'mat1' of layout Sparse and 'mat2' of layout Strided, got {spoken(mat1._spec.layout)} "
            f"and {spoken(mat2._spec.layout)}"
        )
    _check_pair(name, mat1, mat2, 2)
    mat1 = coalesced(mat1)
    (row, column), values = parts_of(mat1)[0].unbind(0), mat1._data.values
    if mat1._spec.is_meta:
        nonempty_rows, number = row[:0], row
    else:
        nonempty_rows, number = ops._unique2(row, sorted=True, return_inverse=True)[:2]
    packed = coo_tensor(
        ops.stack((number, column), 0), values, (nonempty_rows._spec.sizes[0], mat1._spec.sizes[1]), True
    )
    return nonempty_rows, times_dense(packed, mat2)


def hspmm(mat1: Any, mat2: Any) -> Any:
    """Run ``hspmm``: return the rows in which the sparse matrix has elements."""
    if mat1._spec.layout in COMPRESSED:
        raise NotImplementedError(f"hspmm: expected 'mat1' of layout Sparse, got {spoken(mat1._spec.layout)}")
    nonempty_rows, made = _found_rows(mat1, mat2, "hspmm")
    return coo_tensor(nonempty_rows.unsqueeze(0), made, (mat1._spec.sizes[0], mat2._spec.sizes[1]), True)


def sspaddmm(self: Any, mat1: Any, mat2: Any, beta: Number, alpha: Number) -> Any:
    """Run ``sspaddmm``: concatenate the elements of `self` with those rows."""
    for name, matrix in (("mat1", mat1), ("mat2", mat2)):
        if matrix._spec.ndim != 2:
            raise RuntimeError(
                f"sspaddmm: expected '{name}' to be a matrix, but got shape {list(matrix._spec.sizes)}"
            )
    size = (mat1._spec.sizes[0], mat2._spec.sizes[1])
    if self._spec.layout is not sparse_coo:
        raise RuntimeError(f"sspaddmm: expected 'self' of layout Sparse, got {spoken(self._spec.layout)}")
    if self._spec.sizes != size:
        raise RuntimeError(f"sspaddmm: Argument #1: expected size {list(size)}, got {list(self._spec.sizes)}")
    nonempty_rows, made = _found_rows(mat1, mat2, "sspaddmm")
    count, width = made._spec.sizes
    row = nonempty_rows.unsqueeze(1).expand((count, width)).reshape(-1)
    column = ops.arange(width, dtype=int64, device=made.device).expand((count, width)).reshape(-1)
    indices, values = ops.stack((row, column), 0), scaled(made, alpha).reshape(-1)
    if beta == 0 or not self._data.nnz:
        return coo_tensor(indices, values, size, True)
    own, theirs = parts_of(self)
    return coo_tensor(ops.cat((own, indices), 1), ops.cat((scaled(theirs, beta), values), 0), size, False)


def _sparse_sparse_matmul(self: Any, other: Any) -> Any:
    """Run ``_sparse_sparse_matmul`` of COO matrices."""
    for name, operand in (("self", self), ("other", other)):
        if operand._spec.layout is not sparse_coo:
            raise RuntimeError(
                f"_sparse_sparse_matmul: expected {name} of layout Sparse, got {spoken(operand._spec.layout)}"
            )
    return product("_sparse_sparse_matmul", self, other)


def t(self: Any) -> Any:
    """Run ``t`` of a COO matrix."""
    if self._spec.ndim > 2:
        raise RuntimeError(
            f"t() expects a tensor with <= 2 sparse and 0 dense dimensions, but got {self._spec.ndim}D"
        )
    return turned(self) if self._spec.ndim == 2 else self.detach()


OF_BOTH: dict[str, Callable[..., Any]] = {f.__name__: f for f in (mm, addmm, mv, addmv, bmm, baddbmm)}
KERNELS = OF_BOTH | {f.__name__: f for f in (hspmm, sspaddmm, _sparse_sparse_matmul, t)}
