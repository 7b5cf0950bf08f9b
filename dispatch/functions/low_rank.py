"""Factorizations with Python signatures: low-rank ones by random projections, a few eigenpairs, and LU by its old
name.

The root re-exports them. Source of the projections: N. Halko, P.-G. Martinsson, J. Tropp, "Finding structure with
randomness: probabilistic algorithms for constructing approximate matrix decompositions", 2011 (algorithms 4.4, 5.1).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...runtime.layout import strided
from ...runtime.user_frame import levels_to_user
from ..core.tensor_function import overridable
from ..generated import functions as _ops

if TYPE_CHECKING:
    from ..tensor import Tensor

__all__ = ["lobpcg", "lu", "pca_lowrank", "svd_lowrank"]


@overridable
def lobpcg(
    A: Tensor,
    k: int | None = None,
    B: Tensor | None = None,
    X: Tensor | None = None,
    n: int | None = None,
    iK: Tensor | None = None,
    niter: int | None = None,
    tol: float | None = None,
    largest: bool | None = None,
    method: str | None = None,
    tracker: Callable[[Any], None] | None = None,
    ortho_iparams: Mapping[str, int] | None = None,
    ortho_fparams: Mapping[str, float] | None = None,
    ortho_bparams: Mapping[str, bool] | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the k largest or smallest eigenvalues of symmetric matrices, and their eigenvectors (`torch.lobpcg`).

    Solves ``A x = e B x`` without factorizing `A`. If `A` requires a gradient, `tt.linalg.eigh` computes the result,
    so that a gradient flows.

    Args:
        A: (..., m, m) of float32 or float64, symmetric.
        k: Number of eigenpairs. Default: the number of columns of `X`, or 1.
        B: (..., m, m), symmetric and positive definite; the identity by default.
        X: (..., m, n), the initial eigenvectors. Default: random.
        n: Number of random columns. Default: `k`.
        iK: (..., m, m), a preconditioner, near the inverse of `A`; the identity by default.
        niter: Maximum number of steps; -1 for no bound. Default: 1000.
        tol: Bound on a residual's norm at the end, relative to the norms of `A` and of the eigenvalue. Default: the
            square root of the dtype's epsilon.
        largest: If True, compute the largest eigenvalues (the default), else the smallest.
        method: "ortho" or "basic"; both are computed as "ortho".
        tracker: Accepted for compatibility with PyTorch; not called.
        ortho_iparams, ortho_fparams, ortho_bparams: Without effect.

    Returns:
        The eigenvalues (..., k), and the eigenvectors (..., m, k), orthonormal with respect to `B`.

    Raises:
        ValueError: `m` is less than three times the number of eigenpairs.
        NotImplementedError: `A` has another dtype.
        RuntimeError: `method` is unknown, or `A` requires a gradient and `B` is given.

    Example:
        >>> import triten as tt
        >>> A = tt.diag(tt.arange(1.0, 13.0))
        >>> values, vectors = tt.lobpcg(A, k=2)
        >>> tt.allclose(values, tt.tensor([12.0, 11.0]), rtol=1e-4)
        True
    """
    from .eigenpairs import eigenpairs

    return eigenpairs(A, k, B, X, n, iK, niter, tol, largest, method)


@overridable
def lu(
    A: Tensor, pivot: bool = True, get_infos: bool = False, out: Sequence[Tensor] | None = None
) -> Sequence[Tensor]:
    """Return packed LU factors and pivots counted from 1 (`torch.lu`); `tt.linalg.lu_factor` is newer.

    Args:
        A: (..., m, n) of float32, float64, complex64 or complex128.
        pivot: If True, exchange rows.
        get_infos: If True, also return the position of the first zero on U's diagonal, 0 for none.
        out: A tuple with one tensor per result.

    Returns:
        (LU, pivots), and (LU, pivots, infos) for `get_infos`.

    Raises TypeError for a wrong number of outputs.

    Example:
        >>> import triten as tt
        >>> LU, pivots = tt.lu(tt.tensor([[1.0, 2.0], [4.0, 2.0]]))
        >>> LU.tolist(), pivots.tolist()
        ([[4.0, 2.0], [0.25, 1.5]], [2, 2])
    """
    warnings.warn(
        "tt.lu is deprecated in favor of tt.linalg.lu_factor and tt.linalg.lu_factor_ex",
        stacklevel=levels_to_user(),
    )
    with_infos = bool(get_infos)
    factors = _ops._lu_with_info(A, pivot=pivot, check_errors=False)
    results = factors if with_infos else tuple(factors)[:2]
    if out is None:
        return results
    if not isinstance(out, tuple | list):
        raise TypeError(f"argument 'out' must be tuple of Tensors, not {type(out).__name__}")
    if len(out) != len(results):
        raise TypeError(f"expected tuple of {len(results)} elements but got {len(out)}")
    for into, result in zip(out, results, strict=True):
        into.resize_as_(result).copy_(result)
    return out


def _range_basis(A: Tensor, q: int, niter: int, M: Tensor | None) -> Tensor:
    """Return Q of `q` orthonormal columns with Q Q^H (A - M) close to A - M: random projection and power iteration."""

    def forward(x: Tensor) -> Tensor:
        return A @ x if M is None else A @ x - M @ x

    def backward(x: Tensor) -> Tensor:
        return A.mH @ x if M is None else A.mH @ x - M.mH @ x

    dtype = A.dtype if A.is_complex() or A.is_floating_point() else _ops.empty(0).dtype
    basis = _ops.linalg_qr(forward(_ops.randn(A.shape[-1], q, dtype=dtype, device=A.device)))[0]
    for _ in range(niter):
        basis = _ops.linalg_qr(backward(basis))[0]
        basis = _ops.linalg_qr(forward(basis))[0]
    return basis


def _projected_svd(
    A: Tensor, q: int | None, niter: int | None, M: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    rows, columns = A.shape[-2:]
    if M is not None:
        M = M.broadcast_to(A.shape)
    wide = rows < columns
    if wide:
        A, M = A.mH, None if M is None else M.mH
    basis = _range_basis(A, 6 if q is None else q, 2 if niter is None else niter, M)
    small = basis.mH @ A
    if M is not None:
        small = small - basis.mH @ M
    U, S, Vh = _ops.linalg_svd(small, full_matrices=False)
    U, V = basis @ U, Vh.mH
    return (V, S, U) if wide else (U, S, V)


@overridable
def svd_lowrank(
    A: Tensor, q: int | None = 6, niter: int | None = 2, M: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return approximately the largest singular values of a matrix, with their vectors (`torch.svd_lowrank`).

    Args:
        A: (..., m, n).
        q: Number of singular values; choose somewhat more than the rank.
        niter: Number of power iterations with A A^H.
        M: A matrix to subtract from A, broadcast to it: its mean.

    Returns:
        U of (..., m, q), S of (..., q), V of (..., n, q), for which U diag(S) V^H is nearly A - M. Random numbers are
        the default generator's.

    Example:
        >>> import triten as tt
        >>> A = tt.ones(4, 1) @ tt.ones(1, 3)
        >>> U, S, V = tt.svd_lowrank(A, q=1)
        >>> tt.allclose(U * S @ V.mH, A, atol=1e-5)
        True
    """
    return _projected_svd(A, q, niter, M)


@overridable
def pca_lowrank(
    A: Tensor, q: int | None = None, center: bool = True, niter: int = 2
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the principal components of samples, one sample in each row (`torch.pca_lowrank`).

    Args:
        A: (..., samples, features). A sparse matrix stays sparse.
        q: Number of components. Default: the minimum of 6 and both sizes.
        center: If True, subtract the features' means; otherwise they must be zero already.
        niter: Number of power iterations, as in `svd_lowrank`.

    Returns:
        U, S and V as of `svd_lowrank`: columns of V are the principal directions.

    Raises ValueError for a negative `q` or `niter` and a `q` above either size.

    Example:
        >>> import triten as tt
        >>> U, S, V = tt.pca_lowrank(tt.tensor([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]), q=1)
        >>> round(S.item(), 4)
        2.0
    """
    rows, columns = A.shape[-2:]
    if q is None:
        q = min(6, rows, columns)
    elif not 0 <= q <= min(rows, columns):
        raise ValueError(
            f"q(={q}) must be non-negative integer and not greater than min(m, n)={min(rows, columns)}"
        )
    if niter < 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    if not center:
        return _projected_svd(A, q, niter, None)
    if A.layout is strided:
        return _projected_svd(A - A.mean(dim=(-2,), keepdim=True), q, niter, None)
    if A.dim() != 2:
        raise ValueError(
            f"pca_lowrank: a sparse input must have 2 dimensions, but got shape {tuple(A.shape)}"
        )
    ones = _ops.ones(1, rows, dtype=A.dtype, device=A.device)
    return _projected_svd(A, q, niter, ones @ A / rows)
