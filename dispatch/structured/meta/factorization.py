"""Meta functions of factorizations and of the solvers that use them (ATen/native/BatchLinearAlgebra.cpp).

Results are column-major, as LAPACK and cuSOLVER write them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ....runtime.scalar_type import bfloat16, float16, int32, int64
from ....runtime.scalar_type import dtype as ScalarType
from ....runtime.tensor_spec import TensorSpec
from ...iterator.broadcast import infer_size
from ..meta_base import MetaBase
from ..operand_checks import check_dtype, check_sizes
from .dims import wrap_dim
from .linalg import check_same_device

if TYPE_CHECKING:
    from ..meta_base import NumberKind


def check_matrix(name: str, A: TensorSpec, argument: str = "A") -> None:
    """Raise an error unless the argument is a matrix or a batch of matrices."""
    if A.ndim < 2:
        raise RuntimeError(f"{name}: The input tensor {argument} must have at least 2 dimensions.")


def check_square(name: str, A: TensorSpec, argument: str = "A") -> None:
    """Refuse matrices that are not square."""
    check_matrix(name, A, argument)
    if A.sizes[-1] != A.sizes[-2]:
        raise RuntimeError(
            f"{name}: {argument} must be batches of square matrices, but they are {A.sizes[-2]} by {A.sizes[-1]} "
            "matrices"
        )


def check_floating(name: str, A: TensorSpec, narrow: bool = True) -> None:
    """Raise an error for integers and, unless the kernel checks them, for 16-bit floats."""
    if not (A.dtype.is_floating_point or A.dtype.is_complex):
        raise RuntimeError(
            f"{name}: Expected a floating point or complex tensor as input. Got {A.dtype.scalar_name}"
        )
    if not narrow and A.dtype in (float16, bfloat16):
        raise RuntimeError(f"{name}: Low precision dtypes not supported. Got {A.dtype.scalar_name}")


def column_major(sizes: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of a contiguous batch of column-major matrices."""
    *batch, m, n = sizes
    strides = [1, max(m, 1)]
    step = max(m, 1) * max(n, 1)
    for size in reversed(batch):
        strides.insert(0, step)
        step *= max(size, 1)
    return tuple(strides)


def _columns(meta: MetaBase, index: int, sizes: Sequence[int], dtype: ScalarType) -> None:
    meta.set_output_strided(index, sizes, column_major(sizes), dtype=dtype)


def _nothing(meta: MetaBase, index: int, dtype: ScalarType) -> None:
    meta.set_output_contiguous(index, (0,), dtype=dtype)


def linalg_lu_factor_ex(meta: MetaBase, A: TensorSpec, pivot: bool, check_errors: bool) -> None:
    """Infer packed L and U, the pivots, and the position of the first zero on U's diagonal."""
    if A.ndim < 2:
        raise RuntimeError(
            f"torch.lu_factor: Expected tensor with 2 or more dimensions. Got size: {list(A.sizes)} instead"
        )
    _refuse_unpivoted(A, pivot)
    _columns(meta, 0, A.sizes, A.dtype)
    k = min(A.sizes[-2:])
    meta.set_output_contiguous(1, (*A.sizes[:-2], k), dtype=int32)
    meta.set_output_contiguous(2, A.sizes[:-2], dtype=int32)


def _refuse_unpivoted(A: TensorSpec, pivot: bool) -> None:
    if not pivot and A.device.type == "cpu":
        raise RuntimeError("linalg.lu_factor: LU without pivoting is not implemented on the CPU")


def _lu_solve(meta: MetaBase, LU: TensorSpec, pivots: TensorSpec, B: TensorSpec, adjoint: bool) -> None:
    """Infer the solution of A X = B, or of A^H X = B. `B` has the full batch shape."""
    name = "linalg.lu_solve"
    check_square(name, LU, "LU")
    check_floating(name, LU)
    check_matrix(name, B, "B")
    check_dtype(name, "B", B, LU.dtype)
    check_dtype(name, "pivots", pivots, int32)
    check_sizes(name, "LU", LU, (*LU.sizes[:-2], B.sizes[-2], B.sizes[-2]))
    check_sizes(name, "pivots", pivots, LU.sizes[:-1])
    if infer_size(LU.sizes[:-2], B.sizes[:-2]) != B.sizes[:-2]:
        raise RuntimeError(
            f"{name}: expected B with the batch of LU, {LU.sizes[:-2]}, but got {B.sizes[:-2]}"
        )
    check_same_device(name, LU, pivots, B)
    _columns(meta, 0, B.sizes, B.dtype)


def linalg_cholesky_ex(meta: MetaBase, self: TensorSpec, upper: bool, check_errors: bool) -> None:
    """Infer the triangular factor and the order of the first leading minor that is not positive."""
    check_square("linalg.cholesky", self)
    check_floating("linalg.cholesky", self)
    _columns(meta, 0, self.sizes, self.dtype)
    meta.set_output_contiguous(1, self.sizes[:-2], dtype=int32)


def linalg_solve_triangular(
    meta: MetaBase, self: TensorSpec, B: TensorSpec, upper: bool, left: bool, unitriangular: bool
) -> None:
    """Infer the solution of A X = B, or of X A = B, from one triangle of A."""
    name = "linalg.solve_triangular"
    check_compatible(name, self, B, left)
    check_same_device(name, self, B)
    batch = infer_size(B.sizes[:-2], self.sizes[:-2])
    _columns(meta, 0, (*batch, *B.sizes[-2:]), self.dtype)


def check_compatible(name: str, A: TensorSpec, B: TensorSpec, left: bool) -> None:
    """Raise an error for sides of an equation that do not fit (ATen/native/LinearAlgebraUtils.h,
    `checkInputsSolver`).
    """
    check_square(name, A)
    check_matrix(name, B, "B")
    if A.dtype is not B.dtype:
        raise RuntimeError(
            f"{name}: Expected A and B to have the same dtype, but found A of type {A.dtype.scalar_name} and B of "
            f"type {B.dtype.scalar_name} instead"
        )
    fits = A.sizes[-2] == B.sizes[-2] if left else A.sizes[-1] == B.sizes[-1]
    if not fits:
        a, b = (f"{s.sizes[-2]}x{s.sizes[-1]}" for s in (A, B))
        equation = "AX = B" if left else "XA = B"
        raise RuntimeError(
            f"{name}: Incompatible shapes of A and B for the equation {equation} ({a} and {b})"
        )


def geqrf(meta: MetaBase, self: TensorSpec) -> None:
    """Infer R over the reflectors of Q, and their factors."""
    if self.ndim < 2:
        raise RuntimeError("torch.geqrf: input must have at least 2 dimensions.")
    meta.casts = ("a", "tau")
    _columns(meta, 0, self.sizes, self.dtype)
    meta.set_output_contiguous(1, (*self.sizes[:-2], min(self.sizes[-2:])), dtype=self.dtype)


def _check_reflectors(name: str, input: TensorSpec, tau: TensorSpec, rows: str = "input") -> None:
    if input.dtype is not tau.dtype:
        raise RuntimeError(
            f"{name}: tau dtype {tau.dtype.scalar_name} does not match input dtype {input.dtype.scalar_name}"
        )
    check_same_device(name, input, tau)


def linalg_householder_product(meta: MetaBase, input: TensorSpec, tau: TensorSpec) -> None:
    """Infer the first columns of the product of Householder reflectors."""
    name = "torch.linalg.householder_product"
    meta.casts = ("result",)
    if input.ndim < 2:
        raise RuntimeError(f"{name}: input must have at least 2 dimensions.")
    if input.sizes[-2] < input.sizes[-1]:
        raise RuntimeError(f"{name}: input.shape[-2] must be greater than or equal to input.shape[-1]")
    wrap_dim(-1, tau.ndim, scalar_ok=False)
    if input.sizes[-1] < tau.sizes[-1]:
        raise RuntimeError(f"{name}: input.shape[-1] must be greater than or equal to tau.shape[-1]")
    if input.ndim - tau.ndim != 1:
        raise RuntimeError(
            f"{name}: Expected tau to have one dimension less than input, but got tau.ndim equal to {tau.ndim} and "
            f"input.ndim is equal to {input.ndim}"
        )
    if input.sizes[:-2] != tau.sizes[:-1]:
        raise RuntimeError(
            f"{name}: Expected batch dimensions of tau to be equal to input.shape[:-2], but got {list(tau.sizes[:-1])}"
        )
    _check_reflectors(name, input, tau)
    out_spec = meta.maybe_get_output()
    if out_spec is not None and out_spec.numel and out_spec.sizes != input.sizes:
        meta.set_output_contiguous(0, input.sizes, dtype=input.dtype)  # like any resized output
    else:
        _columns(meta, 0, input.sizes, input.dtype)


def ormqr(
    meta: MetaBase, self: TensorSpec, input2: TensorSpec, input3: TensorSpec, left: bool, transpose: bool
) -> None:
    """Infer the product of reflectors, or its conjugate transpose, with a matrix on one side."""
    name = "torch.ormqr"
    check_same_device(name, self, input2, input3)
    if self.ndim < 2:
        raise RuntimeError(f"{name}: input must have at least 2 dimensions.")
    if input3.ndim < 2:
        raise RuntimeError(f"{name}: other must have at least 2 dimensions.")
    side = -2 if left else -1
    wrap_dim(-1, input2.ndim, scalar_ok=False)
    if input2.sizes[-1] != min(input3.sizes[side], self.sizes[-1]):
        raise RuntimeError(
            f"{name}: tau.shape[-1] must be equal to min(other.shape[{side}], input.shape[-1])"
        )
    if input3.sizes[side] != self.sizes[-2]:
        raise RuntimeError(f"{name}: other.shape[{side}] must be equal to input.shape[-2]")
    if self.ndim - input2.ndim != 1:
        raise RuntimeError(
            f"{name}: Expected tau to have one dimension less than input, but got tau.ndim equal to {input2.ndim} and "
            f"input.ndim is equal to {self.ndim}"
        )
    if self.ndim != input3.ndim:
        raise RuntimeError(
            f"{name}: Expected other to have the same number of dimensions as input, but got other.ndim equal to "
            f"{input3.ndim} and input.ndim is equal to {self.ndim}"
        )
    for argument, batch in (("tau", input2.sizes[:-1]), ("other", input3.sizes[:-2])):
        if batch != self.sizes[:-2]:
            raise RuntimeError(
                f"{name}: Expected batch dimensions of {argument} to be equal to input.shape[:-2], but got "
                f"{list(batch)}"
            )
    _check_reflectors(name, self, input2)
    if input3.dtype is not self.dtype:
        raise RuntimeError(
            f"{name}: Expected input and other to have the same dtype, but input has dtype {self.dtype.scalar_name} "
            f"and other has dtype {input3.dtype.scalar_name}"
        )
    _columns(meta, 0, input3.sizes, input3.dtype)


def _linalg_eigh(meta: MetaBase, A: TensorSpec, UPLO: str, compute_v: bool) -> None:
    """Infer eigenvalues, ascending, and eigenvectors of Hermitian matrices."""
    check_square("linalg.eigh", A)
    if UPLO.upper() not in ("L", "U") or len(UPLO) != 1:
        raise RuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}")
    meta.set_output_contiguous(0, A.sizes[:-1], dtype=A.dtype.to_real())
    if compute_v:
        _columns(meta, 1, A.sizes, A.dtype)
    else:
        _nothing(meta, 1, A.dtype)


def _complex(dtype: ScalarType) -> ScalarType:
    if dtype.is_complex:
        return dtype
    if not dtype.is_floating_point:
        raise RuntimeError(f"Unknown Complex ScalarType for {dtype.scalar_name}")
    return dtype.to_complex()


def linalg_eig(meta: MetaBase, self: TensorSpec) -> None:
    """Infer eigenvalues and eigenvectors of general matrices, complex."""
    check_square("linalg.eig", self)
    dtype = _complex(self.dtype)
    meta.casts = ("eigenvalues", "eigenvectors")
    meta.set_output_contiguous(0, self.sizes[:-1], dtype=dtype)
    _columns(meta, 1, self.sizes, dtype)


def _linalg_eigvals(meta: MetaBase, self: TensorSpec) -> None:
    """Infer eigenvalues alone of general matrices, complex."""
    check_square("linalg.eigvals", self)
    meta.set_output_contiguous(0, self.sizes[:-1], dtype=_complex(self.dtype))


def _linalg_svd(
    meta: MetaBase, A: TensorSpec, full_matrices: bool, compute_uv: bool, driver: str | None
) -> None:
    """Infer U, the singular values in descending order, and V^H."""
    check_matrix("linalg.svd", A)
    check_floating("linalg.svd", A)
    if driver is not None and A.device.type == "cpu":
        raise RuntimeError(
            "torch.linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER backend."
        )
    if driver not in (None, "gesvd", "gesvdj", "gesvda"):
        raise RuntimeError(
            f"torch.linalg.svd: unknown svd driver {driver} in svd_cusolver computation. The available drivers are "
            "'gesvd', 'gesvdj', 'gesvda'."
        )
    *batch, m, n = A.sizes
    k = min(m, n)
    if compute_uv:
        _columns(meta, 0, (*batch, m, m if full_matrices else k), A.dtype)
        sizes = (*batch, n if full_matrices else k, n)
        if A.device.type == "cpu":
            _columns(meta, 2, sizes, A.dtype)
        else:
            meta.set_output_strided(2, sizes, row_major(sizes), dtype=A.dtype)
    meta.set_output_contiguous(1, (*batch, k), dtype=A.dtype.to_real())
    if not compute_uv:
        _nothing(meta, 0, A.dtype)
        _nothing(meta, 2, A.dtype)


def row_major(sizes: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of a contiguous batch of row-major matrices."""
    *batch, m, n = sizes
    strides = column_major((*batch, n, m))
    return (*strides[:-2], strides[-1], strides[-2])


def _least_squares(meta: MetaBase, A: TensorSpec, B: TensorSpec, rcond: NumberKind, driver: str) -> None:
    """Infer the solution that LAPACK writes over B, the singular values, the rank and the failure flag."""
    name = "_least_squares"
    check_matrix(name, A)
    check_matrix(name, B, "B")
    check_floating(name, A, narrow=False)
    *batch, m, n = A.sizes
    check_sizes(name, "B", B, (*batch, m, B.sizes[-1]))
    check_dtype(name, "B", B, A.dtype)
    check_same_device(name, A, B)
    if driver not in ("gels", "gelsy", "gelsd", "gelss"):
        raise RuntimeError(
            f"{name}: parameter `driver` should be one of (gels, gelsy, gelsd, gelss), got {driver!r}"
        )
    _columns(meta, 0, (*batch, max(m, n), B.sizes[-1]), A.dtype)
    meta.set_output_contiguous(1, (*batch, min(m, n)), dtype=A.dtype.to_real())
    meta.set_output_contiguous(2, tuple(batch), dtype=int64)
    meta.set_output_contiguous(3, tuple(batch), dtype=int32)


def linalg_ldl_factor_ex(meta: MetaBase, self: TensorSpec, hermitian: bool, check_errors: bool) -> None:
    """Infer packed L and D of symmetric or Hermitian matrices, the pivots, and the first zero on the diagonal."""
    check_square("torch.linalg.ldl_factor_ex", self)
    check_floating("torch.linalg.ldl_factor_ex", self)
    _columns(meta, 0, self.sizes, self.dtype)
    meta.set_output_contiguous(1, self.sizes[:-1], dtype=int32)
    meta.set_output_contiguous(2, self.sizes[:-2], dtype=int32)


def linalg_ldl_solve(
    meta: MetaBase, LD: TensorSpec, pivots: TensorSpec, B: TensorSpec, hermitian: bool
) -> None:
    """Infer the solution of A X = B from the factors of A."""
    name = "torch.linalg.ldl_solve"
    check_square(name, LD, "LD")
    check_floating(name, LD)
    check_matrix(name, B, "B")
    if LD.sizes[-1] != B.sizes[-2]:
        raise RuntimeError(
            f"linear.solve: Incompatible matrix sizes for linalg_solve: each A matrix is {LD.sizes[-1]} by "
            f"{LD.sizes[-1]} but each b matrix is {B.sizes[-2]} by {B.sizes[-1]}"
        )
    if pivots.sizes != LD.sizes[:-1]:
        raise RuntimeError(
            f"{name}: Expected LD.shape[:-1] and pivots.shape to be the same, but got pivots with shape "
            f"{list(pivots.sizes)} instead"
        )
    if pivots.dtype.is_floating_point or pivots.dtype.is_complex:
        raise RuntimeError(f"{name}: Expected pivots to be integers. Got {pivots.dtype.scalar_name}")
    if LD.dtype is not B.dtype:
        raise RuntimeError(
            f"{name}: LD dtype{LD.dtype.scalar_name} does not match b dtype {B.dtype.scalar_name}"
        )
    batch = infer_size(B.sizes[:-2], LD.sizes[:-2])
    _columns(meta, 0, (*batch, *B.sizes[-2:]), B.dtype)
