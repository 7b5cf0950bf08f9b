"""Host kernels of eigenvalues of Hermitian matrices and of singular values.

The composites are in `dispatch/composite/factorization.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...dispatch.structured.stub import HostKernel, by_arguments, register_stub
from ...runtime.tensor_spec import TensorSpec
from ..plain_numpy import np
from .batches import FEWER, over_batch
from .matrix_specs import char_of, in_columns, in_rows, is_one, is_square
from .one_matrix import eigh_of, is_finite, svd_of


def eigh_finder(A: TensorSpec, vectors: bool, uplo: str) -> Callable[[Any], tuple[Any, Any] | None] | None:
    """Return a function that computes eigenvalues, and eigenvectors on request; it returns None if LAPACK fails."""
    if not is_square(A) or uplo.upper() not in ("L", "U"):
        return None
    solve = eigh_of(char_of(A), A.sizes[0], vectors, uplo.upper() == "U")

    def compute(a: Any) -> tuple[Any, Any] | None:
        values, made, info = solve(a)
        # If a matrix is not finite, its sum is not finite either.
        return None if info or not math.isfinite(np.add.reduce(values)) else (values, made)

    return compute


def eigh(A: TensorSpec, UPLO: str) -> HostKernel | None:
    """Compute the eigenvalues and eigenvectors of a Hermitian matrix."""
    find = eigh_finder(A, True, UPLO)
    if find is None:
        return None
    outputs = (in_rows(A.dtype.to_real(), *A.sizes[:1]), in_columns(A.dtype, *A.sizes))
    return HostKernel(outputs, find)


def eigvalsh(A: TensorSpec, UPLO: str) -> HostKernel | None:
    """Compute the eigenvalues of a Hermitian matrix."""
    find = eigh_finder(A, False, UPLO)
    if find is None:
        return None

    def compute(a: Any) -> Any:
        made = find(a)
        return None if made is None else made[0]

    return HostKernel((in_rows(A.dtype.to_real(), A.sizes[0]),), compute)


def svd_finder(
    A: TensorSpec, full: bool, vectors: bool
) -> Callable[[Any], tuple[Any, Any, Any] | None] | None:
    """Return a function that computes U, singular values and V^H; it returns None for a matrix that is not
    finite.
    """
    if not is_one(A):
        return None
    solve = svd_of(char_of(A), *A.sizes, full, vectors)

    def compute(a: Any) -> tuple[Any, Any, Any] | None:
        if not is_finite(a):
            return None
        u, s, vh, info = solve(a)
        return None if info else (u, s, vh)

    return compute


def _bases(A: TensorSpec, full: bool) -> tuple[TensorSpec, TensorSpec, TensorSpec]:
    """Return the specs of U, singular values and V^H."""
    (m, n), k = A.sizes, min(A.sizes)
    return (
        in_columns(A.dtype, m, m if full else k),
        in_rows(A.dtype.to_real(), k),
        in_columns(A.dtype, n if full else k, n),
    )


def svd(A: TensorSpec, full_matrices: bool, driver: str | None) -> HostKernel | None:
    """Compute U, singular values and V^H."""
    find = svd_finder(A, full_matrices, True)
    return None if find is None or driver is not None else HostKernel(_bases(A, full_matrices), find)


def svd_some(A: TensorSpec, some: bool, compute_uv: bool) -> HostKernel | None:
    """Compute U, singular values and V."""
    find = svd_finder(A, not some, True)
    if find is None or not compute_uv:
        return None
    u, s, vh = _bases(A, not some)
    is_complex = A.dtype.is_complex

    def compute(a: Any) -> tuple[Any, Any, Any] | None:
        made = find(a)
        if made is None:
            return None
        turned = made[2].T
        return made[0], made[1], turned.conj() if is_complex else turned

    return HostKernel((u, s, in_rows(A.dtype, *vh.sizes[::-1])), compute)


def values_finder(A: TensorSpec, hermitian: bool) -> Callable[[Any], Any] | None:
    """Return a function that computes singular values, descending, or a Hermitian matrix's eigenvalues,
    ascending.
    """
    find: Any = eigh_finder(A, False, "L") if hermitian else svd_finder(A, False, False)
    if find is None:
        return None
    result_index = 0 if hermitian else 1

    def compute(a: Any) -> Any:
        made = find(a)
        return None if made is None else made[result_index]

    return compute


def svdvals(A: TensorSpec, driver: str | None) -> HostKernel | None:
    """Compute the singular values."""
    find = values_finder(A, False)
    if find is None or driver is not None:
        return None
    return HostKernel((in_rows(A.dtype.to_real(), min(A.sizes)),), find)


HOST_KERNELS = {
    "linalg_eigh": over_batch(eigh, few=FEWER),
    "linalg_eigvalsh": over_batch(eigvalsh, few=FEWER),
    "linalg_svd": over_batch(svd, few=FEWER),
    "linalg_svdvals": over_batch(svdvals, few=FEWER),
    "svd": over_batch(svd_some, few=FEWER),
}

for _name, _factory in HOST_KERNELS.items():
    register_stub(f"{_name}_host_stub", "cpu", by_arguments(_factory))
