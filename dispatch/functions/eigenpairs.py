"""Computation of a few eigenpairs of a large symmetric matrix, for `lobpcg`.

Source: A. V. Knyazev, "Toward the optimal preconditioned eigensolver: locally optimal block preconditioned conjugate
gradient method", 2001; the basis is made orthonormal in each step, as in Hetmaniuk and Lehoucq, 2006.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...runtime.scalar_type import float32, float64
from ..autograd.grad_mode import no_grad
from ..generated import functions as _ops

if TYPE_CHECKING:
    from ..tensor import Tensor


_BOUNDS = {float32: 2.0**-23, float64: 2.0**-52}
"""Machine epsilon of each dtype."""


def eigenpairs(
    A: Tensor,
    k: int | None,
    B: Tensor | None,
    X: Tensor | None,
    n: int | None,
    iK: Tensor | None,
    niter: int | None,
    tol: float | None,
    largest: bool | None,
    method: str | None,
) -> tuple[Tensor, Tensor]:
    """Compute `lobpcg` for these arguments."""
    if method not in (None, "ortho", "basic"):
        raise RuntimeError(f"lobpcg: argument 'method' must be 'ortho' or 'basic', got {method!r}")
    if A.ndim < 2 or A.shape[-1] != A.shape[-2]:
        raise ValueError(
            f"lobpcg: argument 'A' must be a square matrix or a batch of them, got {tuple(A.shape)}"
        )
    if A.dtype not in _BOUNDS:
        raise NotImplementedError(f'"lobpcg" not implemented for {A.dtype.scalar_name!r}')
    size = A.shape[-1]
    count = k if k is not None else X.shape[-1] if X is not None else 1
    columns = X.shape[-1] if X is not None else count if n is None else n
    if size < 3 * columns:
        raise ValueError(
            f"LOBPCG algorithm is not applicable when the number of A rows (={size}) is smaller than 3 x the number "
            f"of requested eigenpairs (={columns})"
        )
    if not 0 < count <= columns:
        raise ValueError(
            f"lobpcg: argument 'k' must be from 1 to the number of columns {columns}, got {count}"
        )
    downwards = largest is None or largest
    if A.requires_grad:
        if B is not None:
            raise RuntimeError("lobpcg: a gradient of 'A' is supported without argument 'B' only")
        # `eigh` reads the lower triangle alone, and the gradient belongs to both.
        values, vectors = _ops.linalg_eigh((A + A.mT) / 2)
        if downwards:
            values, vectors = values.flip(-1), vectors.flip(-1)
        return values[..., :count], vectors[..., :count]
    bound = tol if tol is not None else _BOUNDS[A.dtype] ** 0.5
    steps = 1000 if niter is None else niter
    with no_grad():
        if X is None:
            X = _ops.randn((*A.shape[:-1], columns), dtype=A.dtype, device=A.device)
        if A.ndim == 2:
            return _eigenpairs(A, B, X, iK, count, steps, bound, downwards)
        batch = A.shape[:-2]

        def matrices(each: Tensor | None) -> list[Any]:
            if each is None:
                return [None] * batch.numel()
            return list(each.expand(*batch, *each.shape[-2:]).reshape(-1, *each.shape[-2:]).unbind(0))

        pairs = [
            _eigenpairs(*problem, count, steps, bound, downwards)
            for problem in zip(matrices(A), matrices(B), matrices(X), matrices(iK), strict=True)
        ]
        values = _ops.stack([value for value, _ in pairs]).reshape(*batch, count)
        vectors = _ops.stack([vector for _, vector in pairs]).reshape(*batch, size, count)
        return values, vectors


def _eigenpairs(
    A: Tensor,
    B: Tensor | None,
    X: Tensor,
    iK: Tensor | None,
    count: int,
    steps: int,
    bound: float,
    downwards: bool,
) -> tuple[Tensor, Tensor]:
    columns = X.shape[1]
    norm_a = A.norm()
    norm_b = 1.0 if B is None else B.norm()
    basis = _orthonormal(X, B)
    previous: Tensor | None = None
    step = 0
    while True:
        values, turned = _ops.linalg_eigh(basis.mT @ A @ basis)
        if downwards:
            values, turned = values.flip(0), turned.flip(1)
        values, turned = values[:columns], turned[:, :columns]
        vectors = basis @ turned
        residual = A @ vectors - (vectors if B is None else B @ vectors) * values
        scale = norm_a + norm_b * values.abs()
        done = (residual.norm(dim=0) <= bound * scale)[:count].all()
        if bool(done) or step == steps:
            return values[:count], vectors[:, :count]
        directions = residual if iK is None else iK @ residual
        # The component of the new vectors orthogonal to the old ones: the direction of the conjugate step.
        conjugate = None if previous is None else vectors - previous @ (_dual(previous, B).mT @ vectors)
        previous = vectors
        blocks = [vectors, directions] if conjugate is None else [vectors, directions, conjugate]
        basis = _orthonormal(_ops.cat(blocks, 1), B)
        step += 1


def _dual(X: Tensor, B: Tensor | None) -> Tensor:
    return X if B is None else B @ X


def _orthonormal(X: Tensor, B: Tensor | None) -> Tensor:
    """Return a basis of the columns' span, orthonormal with respect to `B`; dependent columns are dropped."""
    for _ in range(2):
        length = (X * _dual(X, B)).sum(0).clamp(min=0).sqrt()
        X = X[:, length > 0] / length[length > 0]
        values, vectors = _ops.linalg_eigh(X.mT @ _dual(X, B))
        independent = values > values[-1] * X.shape[0] * _BOUNDS[X.dtype]
        X = X @ (vectors[:, independent] / values[independent].sqrt())
    return X
