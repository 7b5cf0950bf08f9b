"""Host kernels of QR, Cholesky's and LDL factors, and of solutions by them.

The composites are in `dispatch/composite/factorization.py` and `matrix_functions.py`.
"""

from __future__ import annotations

import math
from typing import Any

from ...dispatch.structured.library_routine import LIBRARY_DTYPES
from ...dispatch.structured.stub import HostKernel, by_arguments, register_stub
from ...runtime.lapack import find_routine
from ...runtime.scalar_type import int32, int64
from ...runtime.tensor_spec import TensorSpec
from ..plain_numpy import np
from .batches import FEW, FEWER, over_batch
from .matrix_specs import char_of, in_columns, in_rows, is_one, is_square
from .one_matrix import is_finite, qr_of


def qr(A: TensorSpec, mode: str) -> HostKernel | None:
    """Compute Q and R."""
    m, n = A.sizes if A.ndim == 2 else (0, 0)
    k = min(m, n)
    if not is_one(A) or not (mode == "reduced" or (mode == "complete" and k == m)):
        return None
    return HostKernel((in_columns(A.dtype, m, k), in_columns(A.dtype, k, n)), qr_of(char_of(A), m, n))


def qr_some(A: TensorSpec, some: bool) -> HostKernel | None:
    """Compute Q and R."""
    return qr(A, "reduced" if some else "complete")


def cholesky(A: TensorSpec, upper: bool) -> HostKernel | None:
    """Compute one triangular factor."""
    if not is_square(A):
        return None
    factor = find_routine(char_of(A), "potrf")

    def compute(a: Any) -> Any:
        made, info = factor(a, not upper)
        if info or math.isnan(np.add.reduce(made.diagonal()).real):
            return None
        return made

    return HostKernel((in_columns(A.dtype, *A.sizes),), compute)


def cholesky_inverse(L: TensorSpec, upper: bool) -> HostKernel | None:
    """Compute the inverse of A from one triangular factor of A."""
    if not is_square(L):
        return None
    solve, eye = find_routine(char_of(L), "potrs"), np.eye(L.sizes[0], dtype=L.np_dtype)

    def compute(factor: Any) -> Any:
        return solve(factor, eye, not upper)[0] if factor.diagonal().all() else None

    return HostKernel((in_columns(L.dtype, *L.sizes),), compute)


def cholesky_solve(B: TensorSpec, L: TensorSpec, upper: bool) -> HostKernel | None:
    """Compute X of A X = B from one triangular factor of A."""
    if not is_square(L) or not is_one(L, B) or B.sizes[0] != L.sizes[0]:
        return None
    solve = find_routine(char_of(L), "potrs")
    return HostKernel((in_columns(B.dtype, *B.sizes),), lambda b, factor: solve(factor, b, not upper)[0])


def triangular_solve(
    B: TensorSpec, A: TensorSpec, upper: bool, transpose: bool, unitriangular: bool
) -> HostKernel | None:
    """Compute X of A X = B with one triangle of A, or with its transpose, and a copy of A."""
    if not is_square(A) or not is_one(A, B) or A.sizes[0] != B.sizes[0]:
        return None
    solve = find_routine(char_of(A), "trsm", module="blas")

    def compute(b: Any, a: Any) -> tuple[Any, Any]:
        return solve(1.0, a, b, 0, not upper, transpose, unitriangular), a.copy("F")

    return HostKernel((in_columns(B.dtype, *B.sizes), in_columns(A.dtype, *A.sizes)), compute)


def ldl_factor(A: TensorSpec, hermitian: bool) -> HostKernel | None:
    """Compute L and D in one matrix, and the interchanges."""
    if not is_square(A):
        return None
    char, n = char_of(A), A.sizes[0]
    name = "hetrf" if hermitian and A.dtype.is_complex else "sytrf"
    factor = find_routine(char, "sytrf", name)
    lwork = int(find_routine(char, "sytrf_lwork", f"{name}_lwork")(n, lower=1)[0].real)
    upper_triangle, zero = np.tri(n, dtype=bool).T, np.zeros((), char)

    def compute(a: Any) -> tuple[Any, Any] | None:
        made, pivots, info = factor(a, 1, lwork)
        return None if info else (np.where(upper_triangle, made.T, zero).T, pivots)

    return HostKernel((in_columns(A.dtype, n, n), in_rows(int32, n)), compute)


def lstsq(A: TensorSpec, B: TensorSpec, rcond: Any, driver: str | None) -> HostKernel | None:
    """Compute the least-squares solution by ``gels`` for a few matrices with no more rows than columns."""
    *batch, m, n = A.sizes if A.ndim > 1 else (0, 0)
    if driver != "gels" or m > n or A.ndim != B.ndim or A.dtype.scalar_name not in LIBRARY_DTYPES:
        return None
    if not A.numel or not B.numel or A.sizes[:-1] != B.sizes[:-1] or B.dtype is not A.dtype:
        return None
    if math.prod(batch) > FEW:
        return None
    char, columns = char_of(A), B.sizes[-1]
    solve = find_routine(char, "gels")
    lwork = int(find_routine(char, "gels_lwork")(m, n, columns)[0].real)
    batch_indices, turned = list(np.ndindex(*batch)), (*batch, columns, n)
    real = in_rows(A.dtype.to_real(), 0)

    def compute(a: Any, b: Any, _: None) -> tuple[Any, ...] | None:
        made = np.zeros(turned, char).swapaxes(-1, -2)
        made[..., :m, :] = b
        if not (is_finite(a) and is_finite(b)):
            return None
        for i in batch_indices:
            _, made[i], info = solve(a[i], made[i], lwork=lwork)
            if info:
                return None
        return made, np.empty(0, real.np_dtype), np.empty(0, np.int64), np.empty(0, real.np_dtype)

    return HostKernel((in_columns(A.dtype, *batch, n, columns), real, in_rows(int64, 0), real), compute)


HOST_KERNELS = {
    "cholesky": over_batch(cholesky, few=FEWER),
    "cholesky_inverse": over_batch(cholesky_inverse),
    "cholesky_solve": over_batch(cholesky_solve),
    "linalg_cholesky": over_batch(cholesky, few=FEWER),
    "linalg_ldl_factor": ldl_factor,
    "linalg_lstsq": lstsq,
    "linalg_qr": over_batch(qr),
    "qr": over_batch(qr_some),
    "triangular_solve": over_batch(triangular_solve),
}

for _name, _factory in HOST_KERNELS.items():
    register_stub(f"{_name}_host_stub", "cpu", by_arguments(_factory))
