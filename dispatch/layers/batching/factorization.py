"""Batching rules of factorizations: the mapped dimension becomes one more batch dimension."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...generated import functions as ops
from .layout import Batch, Dims, Rule, aligned, front, rank_of, whole

if TYPE_CHECKING:
    from ...tensor import Tensor


def _out_dims(results: Any, empty: Sequence[int] = ()) -> tuple[Any, Any]:
    """Return 0 for each result; None for results that were not requested."""
    if not isinstance(results, tuple | list):
        return results, 0
    return tuple(results), tuple([None if i in empty else 0 for i in range(len(results))])


def leading(batch: Batch, dims: Dims, self: Tensor, *args: Any) -> tuple[Any, Any]:
    """Run an operator of one batch of matrices."""
    return _out_dims(batch.op.call(front(self, dims[0]), *args))


def together(tensors: int) -> Rule:
    """Return the rule of an operator whose first tensors share their batch dimensions exactly."""

    def rule(batch: Batch, dims: Dims, *args: Any) -> tuple[Any, Any]:
        opened = [whole(x, d, batch.size) for x, d in zip(args[:tensors], dims[:tensors], strict=True)]
        return _out_dims(batch.op.call(*opened, *args[tensors:]))

    return rule


def _broadcast(batch: Batch, a: Tensor, a_dim: Any, b: Tensor, b_dim: Any) -> tuple[Any, Any]:
    """Return two batches of matrices, aligned after the mapped dimension."""
    rank = max(rank_of(a, a_dim), rank_of(b, b_dim))
    return aligned(a, a_dim, rank), aligned(b, b_dim, rank)


def solve_triangular(batch: Batch, dims: Dims, self: Tensor, B: Tensor, *args: Any) -> tuple[Any, Any]:
    """Solve triangular equations, whose batches broadcast."""
    A, right = _broadcast(batch, self, dims[0], B, dims[1])
    upper, left, unitriangular = args
    return ops.linalg_solve_triangular(A, right, upper=upper, left=left, unitriangular=unitriangular), 0


def cholesky_solve(batch: Batch, dims: Dims, self: Tensor, input2: Tensor, upper: bool) -> tuple[Any, Any]:
    """Solve by a Cholesky factor."""
    right, factor = _broadcast(batch, self, dims[0], input2, dims[1])
    return ops.cholesky_solve(right, factor, upper), 0


def lu_solve(
    batch: Batch, dims: Dims, LU: Tensor, pivots: Tensor, B: Tensor, left: bool, adjoint: bool
) -> tuple[Any, Any]:
    """Solve by LU factors, whose pivots are mapped with them."""
    lu_dim = dims[0]
    if lu_dim is not None or dims[1] is not None:
        LU, pivots, lu_dim = whole(LU, dims[0], batch.size), whole(pivots, dims[1], batch.size), 0
    rank = max(rank_of(LU, lu_dim), rank_of(B, dims[2]))
    factors, right = aligned(LU, lu_dim, rank), aligned(B, dims[2], rank)
    swaps = aligned(pivots, lu_dim, rank - 1)
    return ops.linalg_lu_solve(factors, swaps, right, left=left, adjoint=adjoint), 0


def _is_vector(A: Tensor, a_dim: Any, b: Tensor, b_dim: Any) -> bool:
    """Return True if the right-hand side of one example is a vector, or one for each of its matrices."""
    rank_a, rank_b = rank_of(A, a_dim), rank_of(b, b_dim)
    if rank_b == 1:
        return True
    a = front(A, a_dim)._spec.sizes[0 if a_dim is None else 1 :]
    other = front(b, b_dim)._spec.sizes[0 if b_dim is None else 1 :]
    return rank_a - 1 == rank_b and a[:-1] == other


def solve_ex(
    batch: Batch, dims: Dims, A: Tensor, B: Tensor, left: bool, check_errors: bool
) -> tuple[Any, Any]:
    """Solve equations with a matrix or a vector on each example's right-hand side."""
    vector = _is_vector(A, dims[0], B, dims[1])
    right, right_dim = (
        (front(B, dims[1]).unsqueeze(-1), None if dims[1] is None else 0) if vector else (B, dims[1])
    )
    a, b = _broadcast(batch, A, dims[0], right, right_dim)
    if (
        a._spec.ndim - b._spec.ndim == 1
    ):  # Matrices of one dimension less than A would be read as a batch of vectors.
        b = b.unsqueeze(0)
    result, LU, pivots, info = batch.op.call(a, b, left, check_errors)
    factors = None if dims[0] is None else 0
    if dims[0] is not None and LU._spec.ndim > rank_of(A, dims[0]) + 1:
        # Dimensions of size 1, added to align the matrices.
        tail = front(A, dims[0])._spec.sizes
        LU, pivots, info = LU.reshape(tail), pivots.reshape(tail[:-1]), info.reshape(tail[:-2])
    return (result.squeeze(-1) if vector else result, LU, pivots, info), (0, factors, factors, factors)


def svd(
    batch: Batch, dims: Dims, A: Tensor, full_matrices: bool, compute_uv: bool, driver: str | None
) -> tuple[Any, Any]:
    """Compute singular values; bases that were not requested are empty."""
    made = batch.op.call(front(A, dims[0]), full_matrices, compute_uv, driver)
    return _out_dims(made, () if compute_uv else (0, 2))


def eigh(batch: Batch, dims: Dims, A: Tensor, UPLO: str, compute_v: bool) -> tuple[Any, Any]:
    """Compute eigenvalues of Hermitian matrices."""
    return _out_dims(batch.op.call(front(A, dims[0]), UPLO, compute_v), () if compute_v else (1,))


def qr(batch: Batch, dims: Dims, A: Tensor, mode: str) -> tuple[Any, Any]:
    """Compute QR; Q is empty if only R was requested."""
    return _out_dims(batch.op.call(front(A, dims[0]), mode), (0,) if mode == "r" else ())


def pinv(batch: Batch, dims: Dims, self: Tensor, atol: Any, rtol: Any, hermitian: bool) -> tuple[Any, Any]:
    """Compute pseudo-inverses, with tolerances per example or shared by all."""
    rank = rank_of(self, dims[0])
    matrices = whole(self, dims[0], batch.size)
    tolerances = [
        x if x is None else aligned(x, d, rank - 2) for x, d in zip((atol, rtol), dims[1:3], strict=True)
    ]
    return ops.linalg_pinv(matrices, atol=tolerances[0], rtol=tolerances[1], hermitian=hermitian), 0


def check_errors(batch: Batch, dims: Dims, info: Tensor, api_name: str, is_matrix: bool) -> tuple[Any, Any]:
    """Check the error flags of all examples at once."""
    batch.op.call(front(info, dims[0]), api_name, False)
    return None, None


RULES: dict[str, Rule] = {
    **dict.fromkeys(
        (
            *("linalg_lu_factor_ex", "linalg_cholesky_ex", "linalg_ldl_factor_ex", "linalg_inv_ex"),
            *("cholesky_inverse", "geqrf", "linalg_eig", "_linalg_eigvals", "_linalg_det", "_linalg_slogdet"),
            "linalg_matrix_exp",
        ),
        leading,
    ),
    "_lu_solve": together(3),
    "linalg_ldl_solve": together(3),
    "linalg_householder_product": together(2),
    "ormqr": together(3),
    "_least_squares": together(2),
    "_cdist_forward": together(2),
    "linalg_solve_triangular": solve_triangular,
    "cholesky_solve": cholesky_solve,
    "linalg_lu_solve": lu_solve,
    "_linalg_solve_ex": solve_ex,
    "_linalg_svd": svd,
    "_linalg_eigh": eigh,
    "linalg_qr": qr,
    "linalg_pinv.atol_rtol_tensor": pinv,
    "_linalg_check_errors": check_errors,
}
