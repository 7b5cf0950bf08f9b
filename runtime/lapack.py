"""LAPACK and BLAS on the host: factorizations of batches of matrices.

Batches use NumPy (`batched_lapack.py`) if it has the routine. Matrices that NumPy fails on, and all other routines,
go matrix by matrix through SciPy's bindings, which report the failure of each.

Routines have LAPACK's names without the letter of the dtype, and work in-place. Operands are host arrays of any
strides. Their last two dimensions are a matrix, the others a batch. For `tau`, `w` and similar operands, the last
dimension is a vector; `info` has the batch alone and holds LAPACK's info of each matrix. The device's counterpart is
`cuda/solver.py`. SciPy is imported at first use.

Source: LAPACK Users' Guide, third edition (Anderson et al., 1999).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from . import batched_lapack as batched
from . import blas_threads

LETTERS = {"f": "s", "d": "d", "F": "c", "D": "z"}
TRANSPOSES = {"N": 0, "T": 1, "C": 2}


@functools.cache
def _scipy() -> dict[str, Any]:
    """Return SciPy's modules for BLAS and LAPACK by name; their OpenBLAS is not NumPy's."""
    from scipy.linalg import blas, lapack

    blas_threads.follow()
    return {"blas": blas, "lapack": lapack}


@functools.cache
def _found(module: str, name: str) -> Callable[..., Any]:
    function: Callable[..., Any] = getattr(_scipy()[module], name)
    return function


def find_routine(char: str, real: str, complex: str = "", module: str = "lapack") -> Callable[..., Any]:
    """Return a routine of SciPy's ``lapack`` or ``blas`` for NumPy's character of a dtype.

    `complex` is its name for complex matrices, if different.
    """
    letter = LETTERS[char]
    return _found(module, letter + (complex if complex and letter in "cz" else real))


def _routine(array: Any, real: str, complex: str = "", module: str = "lapack") -> Callable[..., Any]:
    return find_routine(array.dtype.char, real, complex, module)


def _batch(shape: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    return np.ndindex(*shape)


def _optimal(size: Callable[..., Any], *args: Any, **options: Any) -> int:
    """Return the optimal workspace size of a routine, by its query."""
    return int(size(*args, **options)[0].real)


def getrf(a: Any, pivots: Any, info: Any) -> None:
    """Factorize each matrix as P L U in-place; `pivots` are the interchanged rows, counted from 1."""
    info[...] = 0
    if 0 in a.shape:
        return
    if batched.in_steps_pays(max(a.shape[-2:]), info.size) and np.isfinite(a).all():
        batched.getrf(a, pivots, info)
        return
    factor = _routine(a, "getrf")
    for i in _batch(info.shape):
        a[i], swapped, info[i] = factor(a[i])
        pivots[i] = swapped + 1


def getrf_nopivot(a: Any, pivots: Any, info: Any) -> None:
    """Factorize each matrix as L U in-place without interchanges, column by column."""
    m, n = a.shape[-2:]
    info[...] = 0
    pivots[...] = np.arange(1, min(m, n) + 1)
    for i in _batch(info.shape):
        lu = a[i]
        for k in range(min(m, n)):
            if lu[k, k] == 0 and info[i] == 0:
                info[i] = k + 1
            lu[k + 1 :, k] /= lu[k, k]
            lu[k + 1 :, k + 1 :] -= np.outer(lu[k + 1 :, k], lu[k, k + 1 :])


def getrs(lu: Any, pivots: Any, b: Any, transpose: str) -> None:
    """Solve op(A) X = B in-place in B, with the result of `getrf`; `transpose` is N, T or C."""
    if 0 in b.shape:
        return
    pivots = np.array(pivots)  # LAPACK reads what is checked here, not what another thread writes later.
    if pivots.min() < 1 or pivots.max() > lu.shape[-1]:
        raise RuntimeError(
            f"linalg.lu_solve: expected pivots from 1 to {lu.shape[-1]}, but got {pivots.min()} to {pivots.max()}"
        )
    if batched.in_steps_pays(lu.shape[-1], b.size // (b.shape[-2] * b.shape[-1])):
        batched.getrs(lu, pivots, b, transpose)
        return
    solve = _routine(lu, "getrs")
    for i in _batch(b.shape[:-2]):
        b[i], _ = solve(lu[i], pivots[i] - 1, b[i], trans=TRANSPOSES[transpose])


def potrf(a: Any, upper: bool, info: Any) -> None:
    """Compute the Cholesky factor in-place in one triangle of each matrix; zero the other."""
    info[...] = 0
    if 0 in a.shape:
        return
    name = "cholesky_up" if upper else "cholesky_lo"
    # A larger factor costs less than NumPy's copies of it.
    made = batched.by_loop_in_c(name, a) if a.shape[-1] <= 2 * batched.LONGEST else None
    if made is None:
        failed = list(_batch(info.shape))
    else:
        spoilt = np.asarray(np.isnan(made).any((-2, -1)))
        failed = [i for i in _batch(info.shape) if spoilt[i]] if spoilt.any() else []
    factor = _routine(a, "potrf") if failed else None
    # Check before writing the others: a factor overwrites its matrix.
    odd = [factor(a[i], lower=not upper, clean=1) for i in failed] if factor is not None else []
    if made is not None:
        a[...] = made
    for i, (part, code) in zip(failed, odd, strict=True):
        a[i], info[i] = part, code
        if not code:
            # OpenBLAS takes the root of a NaN for a pivot, where LAPACK stops.
            info[i] = np.isnan(np.diagonal(part)).argmax() + 1 if np.isnan(np.diagonal(part)).any() else 0


def trsm(a: Any, b: Any, left: bool, upper: bool, transpose: str, unit: bool) -> None:
    """Solve op(A) X = B, or X op(A) = B, in-place in B; only one triangle of A is read."""
    if 0 in b.shape:
        return
    if batched.in_steps_pays(a.shape[-1], b.size // (b.shape[-2] * b.shape[-1])):
        batched.trsm(a, b, left, upper, transpose, unit)
        return
    solve = _routine(a, "trsm", module="blas")
    for i in _batch(b.shape[:-2]):
        b[i] = solve(
            1.0, a[i], b[i], side=not left, lower=not upper, trans_a=TRANSPOSES[transpose], diag=unit
        )


def geqrf(a: Any, tau: Any) -> None:
    """Factorize each matrix as Q R in-place: R, the reflectors whose product is Q, and their factors `tau`."""
    if 0 in a.shape:
        return
    if batched.in_steps_pays(max(a.shape[-2:]), a.size // (a.shape[-2] * a.shape[-1])):
        kind = "D" if a.dtype.kind == "c" else "d"
        packed = np.array(a, kind, order="C")
        factors = batched.by_loop_in_c("qr_r_raw", packed, types=f"{kind}->{kind}")
        if factors is not None:
            a[...], tau[...] = packed, factors
            return
    factor = _routine(a, "geqrf")
    lwork = _optimal(_routine(a, "geqrf_lwork"), *a.shape[-2:])
    for i in _batch(a.shape[:-2]):
        a[i], tau[i], _, _ = factor(a[i], lwork=lwork)


def orgqr(a: Any, tau: Any) -> None:
    """Compute the first columns of the product of reflectors, in-place."""
    if 0 in a.shape:
        return
    if not tau.shape[-1]:
        a[...] = np.eye(*a.shape[-2:])
        return
    (m, n), k = a.shape[-2:], tau.shape[-1]
    if batched.in_steps_pays(m, a.size // (m * n)) and n in (k, m):
        kind = "D" if a.dtype.kind == "c" else "d"
        name = "qr_reduced" if n == k else "qr_complete"
        types = f"{kind}{kind}->{kind}"
        made = batched.by_loop_in_c(name, np.array(a[..., :k], kind), tau.astype(kind), types=types)
        if made is not None:
            a[...] = made
            return
    make = _routine(a, "orgqr", "ungqr")
    # The binding needs as many reflectors as tau has factors.
    first = (0,) * (a.ndim - 2)
    lwork = int(make(a[first], tau[first], lwork=-1)[1][0].real)
    for i in _batch(a.shape[:-2]):
        a[i], _, _ = make(a[i], tau[i], lwork=lwork)


def ormqr(a: Any, tau: Any, c: Any, left: bool, transpose: bool) -> None:
    """Compute op(Q) C, or C op(Q), in-place in C, with the whole product of reflectors."""
    if 0 in c.shape or not tau.shape[-1]:
        return
    multiply = _routine(a, "ormqr", "unmqr")
    trans = ("C" if c.dtype.kind == "c" else "T") if transpose else "N"
    side = "L" if left else "R"
    first = (0,) * (c.ndim - 2)
    k = tau.shape[-1]
    lwork = int(multiply(side, trans, a[first][:, :k], tau[first], c[first], -1)[1][0].real)
    for i in _batch(c.shape[:-2]):
        c[i], _, _ = multiply(side, trans, a[i][:, :k], tau[i], c[i], lwork)


def syevd(a: Any, w: Any, vectors: bool, upper: bool, info: Any) -> None:
    """Compute the eigenvalues of each Hermitian matrix, ascending, and the eigenvectors in-place."""
    info[...] = 0
    if 0 in a.shape:
        return
    triangle = "up" if upper else "lo"
    made = batched.by_loop_in_c(f"eigh_{triangle}" if vectors else f"eigvalsh_{triangle}", a)
    values = made[0] if vectors and made is not None else made
    if made is not None and not np.isnan(values).any():
        w[...] = values
        if vectors:
            a[...] = made[1]
        return
    solve = _routine(a, "syevd", "heevd")
    sizes = _routine(a, "syevd_lwork", "heevd_lwork")
    work = {"lwork": 0, "liwork": 0}
    workspace = sizes(a.shape[-1], compute_v=vectors, lower=not upper)
    work["lwork"], work["liwork"] = int(workspace[0].real), int(workspace[1])
    if a.dtype.kind == "c":
        work["lrwork"] = int(workspace[2])
        work["liwork"] = int(workspace[1])
    for i in _batch(info.shape):
        w[i], v, info[i] = solve(a[i], compute_v=vectors, lower=not upper, **work)
        if vectors:
            a[i] = v


def gesvd(
    a: Any, u: Any, s: Any, vh: Any, full: bool, vectors: bool, info: Any, driver: str | None = None
) -> None:
    """Compute singular values, descending, and their vectors. The matrices are left undefined.

    It uses divide and conquer (gesdd), as PyTorch does. An `info` of -4 reports a matrix with NaN. A matrix with
    infinity alone has singular values and vectors of NaN.
    """
    info[...] = 0
    if 0 in a.shape:
        for basis in (u, vh) if vectors else ():
            basis[...] = np.eye(*basis.shape[-2:])
        return
    if np.isfinite(a).all():
        made = batched.by_loop_in_c(("svd_f" if full else "svd_s") if vectors else "svd", a)
        values = made[1] if vectors and made is not None else made
        if made is not None and not np.isnan(values).any():
            s[...] = values
            if vectors:
                u[...], vh[...] = made[0], made[2]
            return
    solve = _routine(a, "gesdd")
    lwork = _optimal(_routine(a, "gesdd_lwork"), *a.shape[-2:], compute_uv=vectors, full_matrices=full)
    for i in _batch(info.shape):
        if not np.isfinite(a[i]).all():
            info[i] = -4 if np.isnan(a[i]).any() else 0
            for result in (s, u, vh) if vectors else (s,):
                result[i] = np.nan
            continue
        left, s[i], right, info[i] = solve(a[i], compute_uv=vectors, full_matrices=full, lwork=lwork)
        if vectors:
            u[i], vh[i] = left, right


def geev(a: Any, w: Any, v: Any, vectors: bool, info: Any) -> None:
    """Compute eigenvalues of each general matrix and, optionally, right eigenvectors of length 1; both are complex."""
    info[...] = 0
    if 0 in a.shape:
        return
    if np.isfinite(a).all():
        made = batched.by_loop_in_c("eig" if vectors else "eigvals", a)
        values = made[0] if vectors and made is not None else made
        if made is not None and not np.isnan(values).any():
            w[...] = values
            if vectors:
                v[...] = made[1]
            return
    solve = _routine(a, "geev")
    lwork = _optimal(_routine(a, "geev_lwork"), a.shape[-1], compute_vl=False, compute_vr=vectors)
    for i in _batch(info.shape):
        if not np.isfinite(a[i]).all():
            info[i] = -4
        elif a.dtype.kind == "c":
            w[i], _, right, info[i] = solve(a[i], compute_vl=False, compute_vr=vectors, lwork=lwork)
            if vectors:
                v[i] = right
        else:
            real, imaginary, _, right, info[i] = solve(
                a[i], compute_vl=False, compute_vr=vectors, lwork=lwork
            )
            w[i] = real + 1j * imaginary
            if vectors:
                v[i] = paired(right, imaginary)


def paired(right: Any, imaginary: Any) -> Any:
    """Return complex eigenvectors from LAPACK's: a conjugate pair's real and imaginary part are adjacent columns."""
    whole = right.astype(np.complex64 if right.dtype.char == "f" else np.complex128)
    first = np.nonzero(imaginary > 0)[0]
    whole[:, first] = right[:, first] + 1j * right[:, first + 1]
    whole[:, first + 1] = whole[:, first].conj()
    return whole


def sytrf(a: Any, pivots: Any, hermitian: bool, info: Any) -> None:
    """Factorize as L D L^H, or L D L^T, in the lower triangle; zero the other (Bunch and Kaufman, 1977)."""
    info[...] = 0
    if 0 in a.shape:
        return
    is_hermitian = hermitian and a.dtype.kind == "c"
    factor = _routine(a, "sytrf", "hetrf" if is_hermitian else "sytrf")
    sizes = _routine(a, "sytrf_lwork", "hetrf_lwork" if is_hermitian else "sytrf_lwork")
    lwork = _optimal(sizes, a.shape[-1], lower=1)
    for i in _batch(info.shape):
        # The binding returns LAPACK's own pivots: from 1, negative for a block of two.
        a[i], pivots[i], info[i] = factor(a[i], lower=1, lwork=lwork)
    a[...] = np.tril(a)


def check_block_pivots(pivots: Any, rows: int) -> None:
    """Raise for pivots that are not from `sytrf`: ``sytrs`` reads and writes the rows that they name.

    A positive pivot is a row. Negative ones are rows too, and come in pairs, one pair for each 2 x 2 block of D.
    """
    sizes = np.abs(pivots.astype(np.int64))
    wrong = pivots[(sizes < 1) | (sizes > rows)]
    if wrong.size:
        raise RuntimeError(
            f"linalg.ldl_solve: expected pivots of linalg.ldl_factor, whose sizes are from 1 to {rows}, but got "
            f"{wrong[0]}"
        )
    # Runs of negative pivots: their begins and ends, in vectors that a positive pivot separates.
    negative = np.zeros((*pivots.shape[:-1], rows + 2), np.int8)
    negative[..., 1:-1] = pivots < 0
    steps = np.diff(negative, axis=-1).reshape(-1)
    if ((np.flatnonzero(steps < 0) - np.flatnonzero(steps > 0)) & 1).any():
        raise RuntimeError(
            "linalg.ldl_solve: expected pivots of linalg.ldl_factor, whose negative ones stand in pairs, but got "
            f"{pivots.tolist()}"
        )


def sytrs(ld: Any, pivots: Any, b: Any, hermitian: bool) -> None:
    """Solve A X = B in-place in B, with the result of `sytrf`."""
    if 0 in b.shape:
        return
    pivots = np.array(pivots)
    check_block_pivots(pivots, ld.shape[-1])
    is_hermitian = hermitian and ld.dtype.kind == "c"
    solve = _routine(ld, "sytrs", "hetrs" if is_hermitian else "sytrs")
    for i in _batch(b.shape[:-2]):
        b[i], _ = solve(ld[i], pivots[i], b[i], lower=1)


def least_squares(driver: str, a: Any, b: Any, x: Any, s: Any, rank: Any, rcond: float, info: Any) -> None:
    """Compute the least-squares solution in the first rows of X, by ``gels``, ``gelsy``, ``gelsd`` or ``gelss``.

    X has as many rows as the longer side of A. If A has full rank, ``gels``, ``gelsd`` and ``gelss`` leave values in
    the other rows whose squares sum to the residuals. ``gels`` computes no rank, and needs full rank. `s` are the
    singular values from ``gelsd`` and ``gelss``. An `info` of -4 reports a matrix that is not finite, or NaN on the
    right-hand side: iterative drivers would not terminate.
    """
    info[...] = 0
    rank[...] = 0
    s[...] = 0
    m, n = a.shape[-2:]
    x[...] = 0
    if 0 in a.shape or not b.shape[-1]:
        return
    if not np.isfinite(a).all() or np.isnan(b).any():
        info[~np.isfinite(a).all((-2, -1)) | np.isnan(b).any((-2, -1))] = -4
        return
    x[..., :m, :] = b
    solve, sizes, columns = _routine(a, driver), _routine(a, f"{driver}_lwork"), b.shape[-1]
    if driver == "gels":
        lwork = _optimal(sizes, m, n, columns)
        for i in _batch(info.shape):
            _, x[i], info[i] = solve(a[i], x[i], lwork=lwork)
        rank[...] = min(m, n)
        return
    workspace = sizes(m, n, columns, rcond)
    lwork = int(workspace[0].real)
    for i in _batch(info.shape):
        if driver == "gelsy":
            _, x[i], _, rank[i], info[i] = solve(a[i], x[i], np.zeros((n, 1), np.int32), rcond, lwork)
        elif driver == "gelss":
            _, x[i], s[i], rank[i], _, info[i] = solve(a[i], x[i], rcond, lwork)
        else:
            x[i], s[i], rank[i], info[i] = solve(a[i], x[i], lwork, *[int(w) for w in workspace[1:-1]], rcond)
