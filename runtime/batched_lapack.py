"""Batched LAPACK routines over many small matrices, where a call for each would cost more than the computation.

There are two implementations. NumPy's generalized ufuncs call LAPACK in a C loop. NumPy has none that return the
factors of LU, and none for triangular solves; these run step by step over arrays whose last dimension is the batch.
Routines and operands are those of `lapack.py`, which asks here first and otherwise goes matrix by matrix.
"""

from __future__ import annotations

from typing import Any

import numpy as np

LONGEST = 12
"""Largest matrix size for steps over the whole batch: their work is not blocked."""
MATRICES_A_STEP = 8
"""Smallest number of matrices for each step: a step costs as much as LAPACK's calls for these."""


def in_steps_pays(side: int, batch: int) -> bool:
    """Return True if these matrices are faster step by step than one by one."""
    return side <= LONGEST and batch >= MATRICES_A_STEP * side


@np.errstate(all="ignore")
def by_loop_in_c(name: str, *operands: Any, types: str = "") -> Any:
    """Return the results of one of NumPy's generalized ufuncs; None if this NumPy lacks it.

    A matrix that LAPACK fails on has NaN in all results. `types` is a signature. Default: the operands' own.
    """
    ufunc = getattr(getattr(np.linalg, "_umath_linalg", None), name, None)
    if ufunc is None:
        return None
    return ufunc(*operands, signature=types) if types else ufunc(*operands)


def _batch_last(a: Any) -> Any:
    """Return a copy (rows, columns, batch): every element of the matrices is a contiguous vector."""
    return np.array(np.moveaxis(a.reshape(-1, *a.shape[-2:]), 0, -1), order="C")


def _restore(a: Any, made: Any) -> None:
    a[...] = np.moveaxis(made, -1, 0).reshape(a.shape)


def _pivot_size(x: Any) -> Any:
    """Return the magnitude by which LAPACK chooses a pivot."""
    return np.abs(x.real) + np.abs(x.imag) if x.dtype.kind == "c" else np.abs(x)


@np.errstate(all="ignore")
def getrf(a: Any, pivots: Any, info: Any) -> None:
    """Compute `lapack.getrf` of finite matrices, column by column, with the largest element of each as its pivot."""
    lu = _batch_last(a)
    m, n, batch = lu.shape
    pivot_rows = np.zeros((min(m, n), batch), np.int32)
    first_zero = np.zeros(batch, np.int32)
    for k in range(min(m, n)):
        row = _pivot_size(lu[k:, k]).argmax(0) + k
        pivot_rows[k] = row + 1
        moved = np.nonzero(row != k)[0]
        if moved.size:
            other = row[moved]
            saved_row = lu[k][:, moved]
            lu[k][:, moved] = lu[other, :, moved].T
            lu[other, :, moved] = saved_row.T
        pivot = lu[k, k]
        is_zero = pivot == 0
        if is_zero.any():
            first_zero[is_zero & (first_zero == 0)] = k + 1
            pivot = np.where(is_zero, pivot.dtype.type(1), pivot)
        if k + 1 < m:
            lu[k + 1 :, k] /= pivot
            lu[k + 1 :, k + 1 :] -= lu[k + 1 :, k, None] * lu[k, None, k + 1 :]
    _restore(a, lu)
    pivots[...] = pivot_rows.T.reshape(pivots.shape)
    info[...] = first_zero.reshape(info.shape)


def _substitute(a: Any, x: Any, upper: bool, unit: bool) -> None:
    """Solve A X = B in-place in B, both with the batch last."""
    n = x.shape[0]
    for i in reversed(range(n)) if upper else range(n):
        known = slice(i + 1, n) if upper else slice(0, i)
        for j in range(known.start, known.stop):
            x[i] -= a[i, j] * x[j]
        if not unit:
            x[i] /= a[i, i]


def _oriented(a: Any, transpose: str) -> Any:
    """Return op(A) with the batch last, possibly a view."""
    if transpose == "N":
        return a
    turned = a.swapaxes(0, 1)
    return turned.conj() if transpose == "C" else turned


@np.errstate(all="ignore")
def trsm(a: Any, b: Any, left: bool, upper: bool, transpose: str, unit: bool) -> None:
    """Compute `lapack.trsm`, row by row of the solution."""
    matrix, x = _oriented(_batch_last(a), transpose), _batch_last(b)
    if transpose != "N":
        upper = not upper
    if left:
        _substitute(matrix, x, upper, unit)
    else:
        # X A = B is A^T X^T = B^T.
        _substitute(matrix.swapaxes(0, 1), x.swapaxes(0, 1), not upper, unit)
    _restore(b, x)


@np.errstate(all="ignore")
def getrs(lu: Any, pivots: Any, b: Any, transpose: str) -> None:
    """Compute `lapack.getrs`: interchange the rows, and solve two triangular systems."""
    factors, x = _batch_last(lu), _batch_last(b)
    swapped = np.ascontiguousarray(pivots.reshape(-1, pivots.shape[-1]).T) - 1
    n, batch = swapped.shape
    order = np.repeat(np.arange(n)[:, None], batch, 1)
    members = np.arange(batch)
    for k in range(n):
        other = swapped[k]
        saved_row = order[k].copy()
        order[k] = order[other, members]
        order[other, members] = saved_row
    if transpose == "N":
        x = np.take_along_axis(x, order[:, None, :], 0)
        _substitute(factors, x, False, True)
        _substitute(factors, x, True, False)
    else:
        turned = _oriented(factors, transpose)
        _substitute(turned, x, False, False)
        _substitute(turned, x, True, True)
        back = np.empty_like(x)
        np.put_along_axis(back, order[:, None, :], x, 0)
        x = back
    _restore(b, x)
