"""Factorisations by the device's libraries: what they are to multiply to, for batches, shapes, dtypes and strides."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import triten as tt

from .first_checks import check, is_rehearsal, require, some_of

SHAPES = ((1, 1), (5, 5), (7, 4), (4, 7), (33, 33), (2, 3, 3, 3), (3, 5, 2), (3, 2, 5), (0, 3, 3), (0, 0))
DTYPES = ("float32", "complex128", "float64", "complex64")


def matrices(square: bool = False) -> Iterator[tuple[str, Any]]:
    """Return random matrices on the device with their names; every second one is transposed in memory."""
    rng = np.random.default_rng(7)
    for dtype in some_of(DTYPES[:2] if is_rehearsal() else DTYPES):
        for number, shape in enumerate(SHAPES):
            if square and shape[-1] != shape[-2]:
                continue
            lies = (*shape[:-2], shape[-1], shape[-2]) if number % 2 else shape
            values = rng.standard_normal(lies)
            if dtype.startswith("complex"):
                values = values + 1j * rng.standard_normal(lies)
            made = tt.from_numpy(np.asarray(values)).to(getattr(tt, dtype)).to("cuda")
            yield f"{dtype} {shape}", made.mT if number % 2 else made


def agree(got: Any, wanted: Any, what: str) -> None:
    """Raise unless two tensors differ by no more than rounding, measured by the largest element."""
    if not wanted.numel():
        require(got.shape == wanted.shape, f"{what}: shape {got.shape} for {wanted.shape}")
        return
    a, b = got.cpu().numpy(), wanted.cpu().numpy()
    eps = np.finfo(b.dtype).eps
    limit = 200 * eps * (b.shape[-1] if b.ndim else 1) * max(float(np.abs(b).max()), 1.0)
    apart = float(np.abs(a - b).max())
    require(apart <= limit, f"{what}: apart by {apart:.3g}, at most {limit:.3g} expected")


def whole(x: Any, size: int) -> Any:
    """Return an identity for each matrix."""
    return tt.eye(size, dtype=x.dtype, device=x.device).expand(*x.shape[:-2], size, size)


@check("factorisations: LU, QR and singular values multiply to the matrix", composed=True)
def products() -> str:
    count = 0
    for what, A in matrices():
        P, L, U = tt.linalg.lu(A)
        agree(P @ (L @ U), A, f"lu of {what}")
        for mode in ("reduced", "complete"):
            Q, R = tt.linalg.qr(A, mode)
            agree(Q @ R, A, f"{mode} qr of {what}")
            agree(Q.mH @ Q, whole(Q, Q.shape[-1]), f"Q of {mode} qr of {what}")
        U, S, Vh = tt.linalg.svd(A, full_matrices=False)
        agree((U * S.unsqueeze(-2)) @ Vh, A, f"svd of {what}")
        agree(tt.linalg.svdvals(A), S, f"svdvals of {what}")
        U, _, Vh = tt.linalg.svd(A)
        agree(U.mH @ U, whole(U, U.shape[-1]), f"U of {what}")
        agree(Vh @ Vh.mH, whole(Vh, Vh.shape[-1]), f"V of {what}")
        count += 1
    return f"{count} batches"


@check("factorisations: Cholesky and eigenvalues multiply to the matrix, solutions solve", composed=True)
def squares() -> str:
    count = 0
    for what, A in matrices(square=True):
        n = A.shape[-1]
        shifted = A + 4 * n**0.5 * whole(A, n)
        positive = shifted @ shifted.mH
        for upper in (False, True):
            L = tt.linalg.cholesky(positive, upper=upper)
            agree(L.mH @ L if upper else L @ L.mH, positive, f"cholesky of {what}")
        values, V = tt.linalg.eigh(positive)
        agree((V * values.unsqueeze(-2)) @ V.mH, positive, f"eigh of {what}")
        w, V = tt.linalg.eig(shifted)
        agree(shifted.to(V.dtype) @ V, V * w.unsqueeze(-2), f"eig of {what}")
        X = tt.linalg.solve(shifted, A)
        agree(shifted @ X, A, f"solve of {what}")
        agree(tt.linalg.solve(shifted, A, left=False) @ shifted, A, f"solve from the right of {what}")
        agree(tt.linalg.inv(shifted) @ shifted, whole(A, n), f"inv of {what}")
        upper = shifted.triu()
        agree(upper @ tt.linalg.solve_triangular(upper, A, upper=True), A, f"solve_triangular of {what}")
        small = shifted / n  # of a determinant that float32 holds
        agree(tt.linalg.det(small).abs().log(), tt.linalg.slogdet(small)[1], f"det of {what}")
        count += 1
    return f"{count} batches"


@check("factorisations: a singular matrix is told of by name")
def singular() -> str:
    try:
        tt.linalg.inv(tt.stack([tt.eye(3), tt.zeros(3, 3)]).to("cuda"))
    except tt.linalg.LinAlgError as error:
        require("(Batch element 1)" in str(error), str(error))
        return str(error)
    raise AssertionError("a singular matrix was inverted")
