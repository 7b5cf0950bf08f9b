"""User-facing factorizations, and solvers that use them (ATen/native/BatchLinearAlgebra.cpp).

They consist of the operators with library kernels: LU, Cholesky, QR, eigenvalues, singular values. Least squares and
the checks of library routines have their own modules.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from ...runtime.scalar_type import int32, int64
from ..autograd.formulas.factorization import adjoint
from ..autograd.tangents import is_differentiated
from ..core.mode_stack import sees_whole
from ..core.overload_packet import packets
from ..generated import functions as ops
from ..iterator.broadcast import infer_size
from ..plans.host_kernel import host_kernel
from ..structured.library_routine import check_pivots
from ..structured.meta.dims import wrap_dim
from ..structured.meta.factorization import (
    check_compatible,
    check_floating,
    check_matrix,
    check_square,
    column_major,
)
from .forms import named, owned
from .least_squares import linalg_lstsq as linalg_lstsq
from .library_checks import _linalg_check_errors as _linalg_check_errors
from .library_checks import check_errors, check_routine_dtype

if TYPE_CHECKING:
    from ...runtime.scalar_type import dtype as ScalarType
    from ..tensor import Tensor


def in_columns(x: Tensor) -> Tensor:
    """Return the tensor with column-major matrices, as a library would write them."""
    strides = column_major(x._spec.sizes)
    return x if x._spec.strides == strides else packets["_restride"].call(x, strides)


def identity_like(x: Tensor, size: int) -> Tensor:
    """Return the identity matrix of size n, with a tensor's dtype and device."""
    return ops.eye(size, dtype=x.dtype, device=x.device)


@host_kernel("linalg_lu_factor", "linalg_lu_factor_ex")
def linalg_lu_factor(A: Tensor, pivot: bool) -> tuple[Tensor, Tensor]:
    """Compute `torch.linalg.lu_factor`."""
    LU, pivots, info = ops.linalg_lu_factor_ex(A, pivot=pivot)
    check_errors(info, "torch.linalg.lu_factor")
    results: tuple[Tensor, Tensor] = named("linalg_lu_factor", LU=LU, pivots=pivots)
    return results


@host_kernel("_lu_with_info", "linalg_lu_factor_ex")
def lu_with_info(self: Tensor, pivot: bool, check_errors: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Compute `torch._lu_with_info`, which `torch.lu` calls."""
    LU, pivots, info = ops.linalg_lu_factor_ex(self, pivot=pivot, check_errors=check_errors)
    results: tuple[Tensor, Tensor, Tensor] = named("_lu_with_info", LU=LU, pivots=pivots, info=info)
    return results


@host_kernel("lu_unpack", "tril", "triu")
def lu_unpack(
    LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool, unpack_pivots: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute `torch.lu_unpack`: the permutation and both triangles; results that were not requested are empty."""
    check_matrix("torch.lu_unpack", LU_data._spec, "LU_data")
    if unpack_pivots and LU_pivots.dtype is not int32:
        raise RuntimeError(
            "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype.\n"
            "Note: this function is intended to be used with the output produced by torch.linalg.lu_factor"
        )
    if unpack_pivots:
        *batch, m, n = LU_data._spec.sizes
        expected, pivot_sizes = (*batch, min(m, n)), LU_pivots._spec.sizes
        if pivot_sizes != expected:
            spread = zip(reversed(pivot_sizes[:-1]), reversed(expected[:-1]), strict=False)
            if (
                len(pivot_sizes) > len(expected)
                or pivot_sizes[-1:] != expected[-1:]
                or any(g not in (1, w) for g, w in spread)
            ):
                raise RuntimeError(
                    f"torch.lu_unpack: expected LU_pivots of sizes {list(expected)}, those of LU_data without its "
                    f"last, but got {list(pivot_sizes)}"
                )
            LU_pivots = LU_pivots.expand(expected)
        _check_pivots("lu_unpack", LU_pivots, m)
    P, L, U = _unpacked(LU_data, LU_pivots, unpack_data, unpack_pivots)
    results: tuple[Tensor, Tensor, Tensor] = named("lu_unpack", P=P, L=L, U=U)
    return results


def _check_pivots(name: str, pivots: Tensor, rows: int) -> None:
    """Raise an error for pivots outside a matrix, by an index check that a graph capture performs too."""
    if not pivots._spec.numel:
        return
    row_indices = ops.arange(max(rows, 1), device=pivots.device)
    try:
        ops.gather(row_indices, 0, pivots.detach().reshape(-1).to(int64) - 1)
    except RuntimeError:
        check_pivots(name, int(pivots.amin().item()), int(pivots.amax().item()), rows)
        raise


def _unpacked(LU: Tensor, pivots: Tensor, data: bool, permutation: bool) -> tuple[Tensor, Tensor, Tensor]:
    nothing = ops.empty((0,), dtype=LU.dtype, device=LU.device)
    P = L = U = nothing
    m, n = LU._spec.sizes[-2:]
    k = min(m, n)
    if data:
        columns = LU if n == k else ops.narrow(LU, -1, 0, k)
        rows = LU if m == k else ops.narrow(LU, -2, 0, k)
        lower = ops.tril(columns.contiguous(), -1)
        L = lower + ops.eye(m, k, dtype=LU.dtype, device=LU.device)
        U = ops.triu(rows.contiguous())
    if permutation:
        P = permutation_matrix(pivots, m, LU.dtype)
    return P, L, U


def permutation_matrix(pivots: Tensor, rows: int, dtype: ScalarType) -> Tensor:
    """Return P of A = P L U, from the successive interchanges of rows."""
    order = interchanged(pivots, rows)
    targets = ops.arange(rows, device=pivots.device).unsqueeze(1)
    return ops.eq(targets, order.unsqueeze(-2)).to(dtype)


def interchanged(pivots: Tensor, rows: int) -> Tensor:
    """Return the source of each row after the interchanges of `pivots`, which count from 1, one after another.

    Interchanges are permutations and compose pairwise, in a logarithmic number of steps.
    """
    *batch, count = pivots._spec.sizes
    row_indices = ops.arange(rows, device=pivots.device)
    if count == 0:
        return row_indices.expand((*batch, rows))
    step = ops.arange(count, device=pivots.device).unsqueeze(1)
    other = (pivots.to(int64) - 1).unsqueeze(-1)
    swaps = ops.where(
        ops.eq(row_indices, step), other, ops.where(ops.eq(row_indices, other), step, row_indices)
    )
    while count > 1:
        if count % 2:
            swaps = ops.cat([swaps, row_indices.expand((*batch, 1, rows))], -2)
        pairs = swaps.reshape((*batch, (count + 1) // 2, 2, rows))
        # The later permutation selects from the result of the earlier one.
        swaps = ops.gather(pairs.select(-2, 0), -1, pairs.select(-2, 1))
        count = (count + 1) // 2
    return swaps.squeeze(-2)


@host_kernel("linalg_lu", "linalg_lu_factor_ex")
def linalg_lu(A: Tensor, pivot: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Compute `torch.linalg.lu`: P L U; P is empty without pivoting."""
    if A._spec.ndim < 2:
        raise RuntimeError(
            f"linalg.lu: Expected tensor with 2 or more dimensions. Got size: {list(A._spec.sizes)} instead"
        )
    LU, pivots, _ = ops.linalg_lu_factor_ex(A, pivot=pivot)
    P, L, U = _unpacked(LU, pivots, True, pivot)
    results: tuple[Tensor, Tensor, Tensor] = named("linalg_lu", P=P, L=L, U=U)
    return results


@host_kernel("linalg_lu_solve", "_lu_solve")
def linalg_lu_solve(LU: Tensor, pivots: Tensor, B: Tensor, left: bool, adjoint: bool) -> Tensor:
    """Compute `torch.linalg.lu_solve`: solve A X = B or X A = B, with A or its adjoint, from A's LU factors."""
    name = "torch.linalg.lu_solve"
    check_floating(name, LU._spec)
    if LU.dtype is not B.dtype:
        raise RuntimeError(
            f"linalg.lu_solve: Expected LU and B to have the same dtype, but found LU of type {LU.dtype.scalar_name} "
            f"and B of type {B.dtype.scalar_name} instead"
        )
    if pivots.dtype is not int32:
        raise RuntimeError("linalg.lu_solve: pivots should be a Tensor of scalar type torch.int32")
    check_square(name, LU._spec, "LU")
    check_compatible("linalg.lu_solve", LU._spec, B._spec, left)
    wrap_dim(-1, pivots._spec.ndim, scalar_ok=False)
    if LU._spec.sizes[:-1] != pivots._spec.sizes:
        raise RuntimeError(
            "linalg.lu_solve: Number of pivots per batch should be same as the dimension of the matrix"
        )
    if B._spec.numel:
        _check_pivots("linalg.lu_solve", pivots, LU._spec.sizes[-1])
    return _solution(LU, pivots, B, left, adjoint)


def _solution(LU: Tensor, pivots: Tensor, B: Tensor, left: bool, adjoint: bool) -> Tensor:
    """Return X of A X = B or X A = B, with A or its adjoint, from verified factors of A."""
    if not left:
        # X op(A) = B is op(A)^H X^H = B^H.
        return owned(adjoint_of(_solution(LU, pivots, adjoint_of(B), True, not adjoint)))
    batch = infer_size(B._spec.sizes[:-2], LU._spec.sizes[:-2])
    n, columns = B._spec.sizes[-2:]
    result: Tensor = packets["_lu_solve"].call(LU, pivots, B.expand((*batch, n, columns)), adjoint)
    return result


adjoint_of = adjoint


@host_kernel("lu_solve", "linalg_lu_solve", "_lu_solve")
def lu_solve(self: Tensor, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:
    """Compute `torch.lu_solve`."""
    return ops.linalg_lu_solve(LU_data, LU_pivots, self)


@host_kernel("linalg_inv_ex", "linalg_lu_factor_ex", "_lu_solve")
def linalg_inv_ex(A: Tensor, check_errors: bool) -> tuple[Tensor, Tensor]:
    """Compute `torch.linalg.inv_ex`: the solution of A X = I."""
    check_square("linalg.inv", A._spec)
    check_floating("linalg.inv", A._spec, narrow=False)
    LU, pivots, info = ops.linalg_lu_factor_ex(A)
    whole = identity_like(A, A._spec.sizes[-1]).expand(A._spec.sizes)
    inverse = packets["_lu_solve"].call(LU, pivots, whole, False)
    if check_errors:
        _check(info, "linalg.inv_ex")
    results: tuple[Tensor, Tensor] = named("linalg_inv_ex", inverse=inverse, info=info)
    return results


_check = check_errors


@host_kernel("linalg_inv", "linalg_inv_ex", "linalg_lu_factor_ex", "_lu_solve")
def linalg_inv(A: Tensor) -> Tensor:
    """Compute `torch.linalg.inv`."""
    inverse, info = ops.linalg_inv_ex(A)
    check_errors(info, "linalg.inv")
    return inverse


def is_vector_side(A: Tensor, B: Tensor) -> bool:
    """Return True if B is a batch of vectors: a single vector, or one for each matrix of A."""
    a, b = A._spec, B._spec
    return bool(b.ndim == 1 or (a.ndim - 1 == b.ndim and b.sizes == a.sizes[:-1]))


@host_kernel("_linalg_solve_ex", "linalg_lu_factor_ex", "_lu_solve")
def _linalg_solve_ex(
    A: Tensor, B: Tensor, left: bool, check_errors: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Solve A X = B or X A = B and return the solution with A's factors. Vectors are columns."""
    name = "linalg.solve"
    check_floating(name, A._spec)
    if A.dtype is not B.dtype:
        raise RuntimeError(
            f"{name}: Expected A and B to have the same dtype, but found A of type {A.dtype.scalar_name} and B of type "
            f"{B.dtype.scalar_name} instead"
        )
    check_square(name, A._spec)
    vector = is_vector_side(A, B)
    B_ = B.unsqueeze(-1) if vector else B
    check_compatible(name, A._spec, B_._spec, left)
    batch = infer_size(B_._spec.sizes[:-2], A._spec.sizes[:-2])
    LU, pivots, info = ops.linalg_lu_factor_ex(A)
    rows, columns = B_._spec.sizes[-2:]
    result = _solution(LU, pivots, B_.expand((*batch, rows, columns)), left, False)
    if check_errors:
        _check(info, "torch.linalg.solve_ex")
    if vector:
        result = owned(result.squeeze(-1))
        if left and result._spec.ndim > 1:
            result = in_columns(result)  # by the last two dimensions, of which one is a batch
    results: tuple[Tensor, Tensor, Tensor, Tensor] = named(
        "_linalg_solve_ex", result=result, LU=LU, pivots=pivots, info=info
    )
    return results


@host_kernel("linalg_solve_ex", "_linalg_solve_ex", "linalg_lu_factor_ex", "_lu_solve")
def linalg_solve_ex(A: Tensor, B: Tensor, left: bool, check_errors: bool) -> tuple[Tensor, Tensor]:
    """Compute `torch.linalg.solve_ex`."""
    result, _, _, info = packets["_linalg_solve_ex"].call(A, B, left=left, check_errors=check_errors)
    results: tuple[Tensor, Tensor] = named("linalg_solve_ex", result=result, info=info)
    return results


@host_kernel("linalg_solve", "_linalg_solve_ex", "linalg_lu_factor_ex", "_lu_solve")
def linalg_solve(A: Tensor, B: Tensor, left: bool) -> Tensor:
    """Compute `torch.linalg.solve`."""
    result, _, _, info = packets["_linalg_solve_ex"].call(A, B, left=left)
    check_errors(info, "torch.linalg.solve")
    solution: Tensor = result
    return solution


@host_kernel("triangular_solve", "linalg_solve_triangular")
def triangular_solve(
    self: Tensor, A: Tensor, upper: bool, transpose: bool, unitriangular: bool
) -> tuple[Tensor, Tensor]:
    """Compute `torch.triangular_solve`: solve A X = B with one triangle of A, or with its transpose."""
    name = "torch.triangular_solve"
    if self._spec.ndim < 2:
        raise RuntimeError(
            f"{name}: Expected b to have at least 2 dimensions, but it has {self._spec.ndim} dimensions instead"
        )
    if A._spec.ndim < 2:
        raise RuntimeError(
            f"{name}: Expected A to have at least 2 dimensions, but it has {A._spec.ndim} dimensions instead"
        )
    _check_linear_solve("triangular_solve", self, A)
    matrix, triangle = (A.transpose(-2, -1), not upper) if transpose else (A, upper)
    solution = ops.linalg_solve_triangular(matrix, self, upper=triangle, unitriangular=unitriangular)
    batch = solution._spec.sizes[:-2]
    coefficient = in_columns(A.expand((*batch, *A._spec.sizes[-2:])).clone())
    results: tuple[Tensor, Tensor] = named(
        "triangular_solve", solution=solution, cloned_coefficient=coefficient
    )
    return results


def _check_linear_solve(name: str, b: Tensor, A: Tensor) -> None:
    if b.device != A.device:
        raise RuntimeError(
            f"Expected b and A to be on the same device, but found b on {b.device} and A on {A.device} instead."
        )
    if b.dtype is not A.dtype:
        raise RuntimeError(
            f"Expected b and A to have the same dtype, but found b of type {b.dtype.scalar_name} and A of type "
            f"{A.dtype.scalar_name} instead."
        )
    rows, columns = A._spec.sizes[-2:]
    if rows != columns:
        raise RuntimeError(f"A must be batches of square matrices, but they are {rows} by {columns} matrices")
    if columns != b._spec.sizes[-2]:
        raise RuntimeError(
            f"Incompatible matrix sizes for {name}: each A matrix is {columns} by {columns} but each b matrix is "
            f"{b._spec.sizes[-2]} by {b._spec.sizes[-1]}"
        )


@host_kernel("linalg_cholesky", "linalg_cholesky_ex")
def linalg_cholesky(self: Tensor, upper: bool) -> Tensor:
    """Compute `torch.linalg.cholesky`."""
    L, info = ops.linalg_cholesky_ex(self, upper=upper)
    check_errors(info, "linalg.cholesky")
    return L


@host_kernel("cholesky", "linalg_cholesky_ex")
def cholesky(self: Tensor, upper: bool) -> Tensor:
    """Compute `torch.cholesky`."""
    if not self.numel():
        return self.clone()
    check_square("cholesky", self._spec)
    check_routine_dtype("cholesky", self)
    L, info = ops.linalg_cholesky_ex(self, upper=upper)
    check_errors(info, "cholesky")
    return L


@host_kernel("cholesky_solve", "linalg_solve_triangular")
def cholesky_solve(self: Tensor, input2: Tensor, upper: bool) -> Tensor:
    """Compute `torch.cholesky_solve`: solve A X = B from A's Cholesky factor, with two triangular solves."""
    for name, x in (("b", self), ("u", input2)):
        if x._spec.ndim < 2:
            raise RuntimeError(
                f"{name} should have at least 2 dimensions, but has {x._spec.ndim} dimensions instead"
            )
    _check_linear_solve("cholesky_solve", self, input2)
    check_routine_dtype("cholesky_solve", self)
    first = adjoint_of(input2) if upper else input2
    second = input2 if upper else adjoint_of(input2)
    half = ops.linalg_solve_triangular(first, self, upper=False)
    return ops.linalg_solve_triangular(second, half, upper=True)


@host_kernel("cholesky_inverse", "eq.Scalar", "linalg_solve_triangular")
def cholesky_inverse(self: Tensor, upper: bool) -> Tensor:
    """Compute `torch.cholesky_inverse`: the inverse of a matrix from its Cholesky factor."""
    check_square("cholesky_inverse", self._spec)
    check_routine_dtype("cholesky_inverse_out", self)
    # The first zero on the diagonal, as LAPACK's potri reports it.
    if self._spec.sizes[-1]:
        zeros = ops.eq(ops.diagonal(self, 0, -2, -1), 0)
        is_singular = ops.any(zeros, -1)
        first = ops.argmax(zeros.to(int32), -1) + 1
        check_errors(ops.where(is_singular, first, 0).to(int32), "cholesky_inverse")
    whole = identity_like(self, self._spec.sizes[-1]).expand(self._spec.sizes)
    return in_columns(cholesky_solve(whole, self, upper))


@host_kernel("linalg_qr", "geqrf", "linalg_householder_product")
def linalg_qr(A: Tensor, mode: str) -> tuple[Tensor, Tensor]:
    """Compute `torch.linalg.qr`: reduced, complete, or R alone with an empty Q."""
    check_matrix("linalg.qr", A._spec)
    check_floating("linalg.qr", A._spec)
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(
            f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or 'complete'"
        )
    m, n = A._spec.sizes[-2:]
    k = min(m, n)
    columns = m if mode == "complete" else k
    packed, tau = ops.geqrf(A)
    R = in_columns(ops.triu(_resized(packed, -2, columns)))
    if mode == "r":
        Q = ops.empty((0,), dtype=A.dtype, device=A.device)
    else:
        Q = ops.linalg_householder_product(_resized(packed, -1, columns), tau)
    results: tuple[Tensor, Tensor] = named("linalg_qr", Q=Q, R=R)
    return results


def _resized(x: Tensor, dim: int, size: int) -> Tensor:
    """Return the first `size` slices of a dimension, padded with zeros at the end."""
    have = x._spec.sizes[dim]
    if have >= size:
        return x if have == size else ops.narrow(x, dim, 0, size)
    sizes = list(x._spec.sizes)
    sizes[dim] = size - have
    return ops.cat([x, ops.zeros(sizes, dtype=x.dtype, device=x.device)], dim)


@host_kernel("qr", "linalg_qr", "geqrf", "linalg_householder_product")
def qr(self: Tensor, some: bool) -> tuple[Tensor, Tensor]:
    """Compute `torch.qr`."""
    Q, R = ops.linalg_qr(self, "reduced" if some else "complete")
    results: tuple[Tensor, Tensor] = named("qr", Q=Q, R=R)
    return results


def orgqr(self: Tensor, input2: Tensor) -> Tensor:
    """Compute `torch.orgqr`."""
    return ops.linalg_householder_product(self, input2)


@host_kernel("linalg_eigh", "_linalg_eigh")
def linalg_eigh(self: Tensor, UPLO: str) -> tuple[Tensor, Tensor]:
    """Compute `torch.linalg.eigh`."""
    values, vectors = packets["_linalg_eigh"].call(self, UPLO, True)
    results: tuple[Tensor, Tensor] = named("linalg_eigh", eigenvalues=values, eigenvectors=vectors)
    return results


def _needs_vectors(x: Tensor) -> bool:
    """Return whether a derivative may need the vectors. A mode could keep the result for one, as in PyTorch."""
    return is_differentiated(x) or sees_whole()


@host_kernel("linalg_eigvalsh", "_linalg_eigh")
def linalg_eigvalsh(self: Tensor, UPLO: str) -> Tensor:
    """Compute `torch.linalg.eigvalsh`; also compute vectors if a derivative needs them."""
    result: Tensor = packets["_linalg_eigh"].call(self, UPLO, _needs_vectors(self))[0]
    return result


def linalg_eigvals(self: Tensor) -> Tensor:
    """Compute `torch.linalg.eigvals`."""
    if is_differentiated(self):
        return ops.linalg_eig(self)[0]
    result: Tensor = packets["_linalg_eigvals"].call(self)
    return result


@host_kernel("linalg_svd", "_linalg_svd")
def linalg_svd(A: Tensor, full_matrices: bool, driver: str | None) -> tuple[Tensor, Tensor, Tensor]:
    """Compute `torch.linalg.svd`."""
    U, S, Vh = packets["_linalg_svd"].call(A, full_matrices, True, driver=driver)
    results: tuple[Tensor, Tensor, Tensor] = named("linalg_svd", U=U, S=S, Vh=Vh)
    return results


@host_kernel("linalg_svdvals", "_linalg_svd")
def linalg_svdvals(A: Tensor, driver: str | None) -> Tensor:
    """Compute `torch.linalg.svdvals`; also compute vectors if a derivative needs them."""
    result: Tensor = packets["_linalg_svd"].call(A, False, _needs_vectors(A), driver=driver)[1]
    return result


@host_kernel("svd", "_linalg_svd")
def svd(self: Tensor, some: bool, compute_uv: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Compute `torch.svd`: U, S and V; without vectors, U and V are zeros."""
    if self._spec.ndim < 2:
        raise RuntimeError(
            f"linalg.svd: input should have at least 2 dimensions, but has {self._spec.ndim} dimensions instead"
        )
    if compute_uv:
        U, S, Vh = packets["_linalg_svd"].call(self, not some, True)
        results: tuple[Tensor, Tensor, Tensor] = named("svd", U=U, S=S, V=adjoint_of(Vh))
        return results
    *batch, m, n = self._spec.sizes
    S = ops.linalg_svdvals(self)
    zeros = functools.partial(ops.zeros, dtype=self.dtype, device=self.device)
    results = named("svd", U=zeros((*batch, m, m)), S=S, V=zeros((*batch, n, n)))
    return results


@host_kernel("linalg_ldl_factor", "linalg_ldl_factor_ex")
def linalg_ldl_factor(self: Tensor, hermitian: bool) -> tuple[Tensor, Tensor]:
    """Compute `torch.linalg.ldl_factor`."""
    LD, pivots, info = ops.linalg_ldl_factor_ex(self, hermitian=hermitian)
    check_errors(info, "torch.linalg.ldl_factor")
    results: tuple[Tensor, Tensor] = named("linalg_ldl_factor", LD=LD, pivots=pivots)
    return results
