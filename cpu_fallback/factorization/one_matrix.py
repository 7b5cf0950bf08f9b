"""LAPACK on one matrix at a time, without what a batch asks for: a call costs less than the loops and checks around it.

Each function here finds a routine for NumPy's character of a dtype, and sizes, once, at planning. SciPy's bindings copy
what they are given into columns and give new arrays in columns back, which are the strides that results have.
"""

from __future__ import annotations

import cmath
from collections.abc import Callable
from typing import Any

from ...runtime.lapack import find_routine
from ..plain_numpy import np


def is_finite(a: Any) -> bool:
    """Return True if all elements are finite; the sum of squares decides this for most matrices."""
    return cmath.isfinite(np.vdot(a, a)) or bool(np.isfinite(a).all())


def row_order(pivots: list[int], rows: int) -> list[int]:
    """Return the source row of each row after the 0-based interchanges of `pivots`, applied in sequence."""
    order = list(range(rows))
    for i, j in enumerate(pivots):
        order[i], order[j] = order[j], order[i]
    return order


def solver_of(char: str) -> Callable[[Any, list[int], Any, bool], Any]:
    """``solve(lu, pivots, b, adjoint)``: X of A X = B, or of A^H X = B, from A's factors; pivots counted from 0.

    By two triangular equations: OpenBLAS 0.3 starts threads for LAPACK's `getrs`, be the matrix ever so small.
    """
    trsm = find_routine(char, "trsm", module="blas")

    def solve(lu: Any, pivots: list[int], b: Any, adjoint: bool) -> Any:
        order = row_order(pivots, len(pivots))
        if not adjoint:
            return trsm(1.0, lu, trsm(1.0, lu, b[order], 0, 1, 0, 1), 0, 0, 0, 0, 1)
        x = trsm(1.0, lu, trsm(1.0, lu, b, 0, 0, 2), 0, 1, 2, 1, 1)
        made = np.empty_like(x)
        made[order] = x
        return made

    return solve


def unpacker_of(char: str, m: int, n: int) -> Callable[[Any], tuple[Any, Any]]:
    """Return ``unpack(lu)``: L, with ones on its diagonal, and U of an m x n matrix that holds both."""
    k = min(m, n)
    below, above = np.tri(m, k, -1, dtype=bool), ~np.tri(k, n, -1, dtype=bool)
    unit, zero = np.eye(m, k, dtype=char), np.zeros((), char)

    def unpack(lu: Any) -> tuple[Any, Any]:
        return (
            np.ascontiguousarray(np.where(below, lu[:, :k], unit)),
            np.ascontiguousarray(np.where(above, lu[:k], zero)),
        )

    return unpack


def unpack_into(lower: Any, upper: Any, permuted: Any, lu: Any, pivots: list[int]) -> None:
    """Compute L, U and P of a matrix that holds L and U, row by row, into memory that is given."""
    m, n = lu.shape
    k = min(m, n)
    lower[...], upper[...] = lu[:, :k], lu[:k]
    for i in range(k):
        lower[i, i:] = 0
        upper[i, :i] = 0
    lower.reshape(-1)[:: k + 1][:k] = 1
    permuted.fill(0)
    permuted[row_order(pivots, m), range(m)] = 1


def permutation(pivots: list[int], rows: int, char: str) -> Any:
    """Return P of A = P L U, from the 0-based row interchanges."""
    made = np.zeros((rows, rows), char)
    made[row_order(pivots, rows), range(rows)] = 1
    return made


def qr_of(char: str, m: int, n: int) -> Callable[[Any], tuple[Any, Any]]:
    """Return ``qr(a)``: Q and R of an m x n matrix, reduced."""
    k = min(m, n)
    factor, make = find_routine(char, "geqrf"), find_routine(char, "orgqr", "ungqr")
    factor_work = int(find_routine(char, "geqrf_lwork")(m, n)[0].real)
    make_work = int(make(np.zeros((m, k), char), np.zeros(k, char), lwork=-1)[1][0].real)
    lower_triangle, zero = np.tri(n, k, dtype=bool), np.zeros((), char)

    def qr(a: Any) -> tuple[Any, Any]:
        packed, tau, _, _ = factor(a, factor_work)
        # In columns, as `packed` is: what is read by rows of its transpose.
        r = np.where(lower_triangle, packed.T[:, :k], zero).T
        return make(packed[:, :k], tau, make_work)[0], r

    return qr


def svd_of(
    char: str, m: int, n: int, full: bool, vectors: bool
) -> Callable[[Any], tuple[Any, Any, Any, int]]:
    """``svd(a)``: U, the singular values and V^H of a finite matrix, by divide and conquer, and LAPACK's `info`."""
    solve = find_routine(char, "gesdd")
    lwork = int(find_routine(char, "gesdd_lwork")(m, n, compute_uv=vectors, full_matrices=full)[0].real)

    def svd(a: Any) -> tuple[Any, Any, Any, int]:
        made: tuple[Any, Any, Any, int] = solve(a, vectors, full, lwork)
        return made

    return svd


def eigh_of(char: str, n: int, vectors: bool, upper: bool) -> Callable[[Any], tuple[Any, Any, int]]:
    """Return ``eigh(a)``: eigenvalues, ascending, and eigenvectors of a Hermitian matrix, and LAPACK's `info`."""
    solve = find_routine(char, "syevd", "heevd")
    sizes_and_info = find_routine(char, "syevd_lwork", "heevd_lwork")(n, compute_v=vectors, lower=not upper)
    work = [int(size.real) for size in sizes_and_info[:-1]]
    # The binding takes them in another order than it gives them.
    sizes = {"lwork": work[0], "liwork": work[1]}
    if char in "FD":
        sizes["lrwork"] = work[2]

    def eigh(a: Any) -> tuple[Any, Any, int]:
        made: tuple[Any, Any, int] = solve(a, compute_v=vectors, lower=not upper, **sizes)
        return made

    return eigh
