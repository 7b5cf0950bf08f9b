"""LAPACK's routines over many small matrices at once, where a call for each of them would cost more than it computes.

Two ways: NumPy's generalised ufuncs call LAPACK in a loop in C; and LU and triangular equations, for which NumPy has
none that give the factors, run step by step over arrays whose last dimension is the batch. Routines and operands are
those of `lapack.py`, which asks here first and goes matrix by matrix where the answer is no.
"""

from __future__ import annotations

from typing import Any

import numpy as np

LONGEST = 12
"""The side up to which steps over the whole batch pay: their work is not blocked."""
MATRICES_A_STEP = 8
"""How many matrices there must be for each step: a step costs as much as LAPACK's calls for these."""


def in_steps_pays(side: int, batch: int) -> bool:
    """Whether so many matrices are better computed step by step than one by one."""
    return side <= LONGEST and batch >= MATRICES_A_STEP * side


@np.errstate(all="ignore")
def by_loop_in_c(name: str, *operands: Any, types: str = "") -> Any:
    """The results of one of NumPy's generalised ufuncs; None where this NumPy has it not.

    A matrix that LAPACK could not do has NaN in all results. `types` is a signature, by default the operands' own.
    """
    ufunc = getattr(getattr(np.linalg, "_umath_linalg", None), name, None)
    if ufunc is None:
        return None
    return ufunc(*operands, signature=types) if types else ufunc(*operands)


def _batch_last(a: Any) -> Any:
    """A copy (rows, columns, batch): every element of the matrices is a vector without gaps."""
    return np.array(np.moveaxis(a.reshape(-1, *a.shape[-2:]), 0, -1), order="C")


def _restore(a: Any, made: Any) -> None:
    a[...] = np.moveaxis(made, -1, 0).reshape(a.shape)


def _pivot_size(x: Any) -> Any:
    """What LAPACK compares in search of a pivot."""
    return np.abs(x.real) + np.abs(x.imag) if x.dtype.kind == "c" else np.abs(x)


@np.errstate(all="ignore")
def getrf(a: Any, pivots: Any, info: Any) -> None:
    """`lapack.getrf` of finite matrices: columns one after another, the largest element of each as its pivot."""
    lu = _batch_last(a)
    m, n, batch = lu.shape
    found = np.zeros((min(m, n), batch), np.int32)
    first_zero = np.zeros(batch, np.int32)
    for k in range(min(m, n)):
        row = _pivot_size(lu[k:, k]).argmax(0) + k
        found[k] = row + 1
        moved = np.nonzero(row != k)[0]
        if moved.size:
            other = row[moved]
            kept = lu[k][:, moved]
            lu[k][:, moved] = lu[other, :, moved].T
            lu[other, :, moved] = kept.T
        pivot = lu[k, k]
        is_zero = pivot == 0
        if is_zero.any():
            first_zero[is_zero & (first_zero == 0)] = k + 1
            pivot = np.where(is_zero, pivot.dtype.type(1), pivot)
        if k + 1 < m:
            lu[k + 1 :, k] /= pivot
            lu[k + 1 :, k + 1 :] -= lu[k + 1 :, k, None] * lu[k, None, k + 1 :]
    _restore(a, lu)
    pivots[...] = found.T.reshape(pivots.shape)
    info[...] = first_zero.reshape(info.shape)


def _substitute(a: Any, x: Any, upper: bool, unit: bool) -> None:
    """The solution of A X = B in the place of B, both with the batch last."""
    n = x.shape[0]
    for i in reversed(range(n)) if upper else range(n):
        known = slice(i + 1, n) if upper else slice(0, i)
        for j in range(known.start, known.stop):
            x[i] -= a[i, j] * x[j]
        if not unit:
            x[i] /= a[i, i]


def _oriented(a: Any, transpose: str) -> Any:
    """op(A) with the batch last, which may be a view."""
    if transpose == "N":
        return a
    turned = a.swapaxes(0, 1)
    return turned.conj() if transpose == "C" else turned


@np.errstate(all="ignore")
def trsm(a: Any, b: Any, left: bool, upper: bool, transpose: str, unit: bool) -> None:
    """`lapack.trsm`, row by row of the solution."""
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
    """`lapack.getrs`: the rows interchanged, and two triangular equations."""
    factors, x = _batch_last(lu), _batch_last(b)
    swapped = np.ascontiguousarray(pivots.reshape(-1, pivots.shape[-1]).T) - 1
    n, batch = swapped.shape
    order = np.repeat(np.arange(n)[:, None], batch, 1)
    members = np.arange(batch)
    for k in range(n):
        other = swapped[k]
        kept = order[k].copy()
        order[k] = order[other, members]
        order[other, members] = kept
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
