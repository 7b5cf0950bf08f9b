"""Derivatives of matrix factorizations and of functions built from them.

Sources: M. Giles, An extended collection of matrix derivative results for forward and reverse mode algorithmic
differentiation (2008); G. Golub and V. Pereyra, The differentiation of pseudo-inverses and nonlinear least squares
problems whose variables separate (1973); S. Walter and L. Lehmann, Algorithmic differentiation of linear algebra
functions (2010). Gradients are conjugate: the change of a real loss is Re tr(grad^H dA).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ....runtime.dispatch_key import Functionality, functionality_bit
from ....runtime.errors import check
from ....runtime.scalar_type import finfo
from ...core.overload_packet import packets
from ...generated import functions as ops
from ..tangents import all_examples, is_differentiated
from .pointwise import conjugated

if TYPE_CHECKING:
    from ...tensor import Tensor

_BATCHED = functionality_bit(Functionality.Batched)


def adjoint(x: Tensor) -> Tensor:
    """Return the conjugate transpose of each matrix."""
    return conjugated(x).transpose(-2, -1)


def _diagonal(x: Tensor) -> Tensor:
    return ops.diagonal(x, 0, -2, -1)


def _real(x: Tensor) -> Tensor:
    return ops.real(x) if x.dtype.is_complex else x


def _sum(*terms: Tensor | None) -> Any:
    """Return the sum of the terms that are not None; None if all are."""
    total = None
    for term in terms:
        if term is not None:
            total = term if total is None else total + term
    return total


def inverse_backward(grad: Tensor, inverse: Tensor) -> Tensor:
    """Return -A^-H grad A^-H."""
    back = adjoint(inverse)
    return -ops.matmul(back, ops.matmul(grad, back))


def summed_to(x: Tensor, sizes: Sequence[int]) -> Tensor:
    """Return the sum over the batch dimensions that broadcasting added or expanded."""
    have = x._spec.sizes
    lead = len(have) - len(sizes)
    dims = [*range(lead), *(lead + i for i, n in enumerate(sizes) if n == 1 and have[lead + i] != 1)]
    return x if not dims else ops.sum(x, dims, True).reshape(tuple(sizes))


def lu_solution_adjoint(LU: Tensor, pivots: Tensor, B: Tensor, left: bool) -> Tensor:
    """Return A^-H B or B A^-H, from the factors of A."""
    return ops.linalg_lu_solve(LU, pivots, B, left=left, adjoint=True)


def solve_backward(
    grad: Tensor | None,
    result: Tensor,
    A: Tensor,
    B: Tensor,
    LU: Tensor,
    pivots: Tensor,
    left: bool,
    mask: Sequence[bool],
) -> tuple[Tensor | None, Tensor | None]:
    """Return gB = A^-H grad and gA = -gB X^H, from the factors, or from A for a second derivative."""
    if grad is None:
        return None, None
    vector = B.dim() == 1 or (A.dim() - 1 == B.dim() and tuple(B.shape) == tuple(A.shape[:-1]))
    if vector:
        grad, result = grad.unsqueeze(-1), result.unsqueeze(-1)
    if is_differentiated(A):
        gB = packets["_linalg_solve_ex"].call(adjoint(A), grad, left=left)[0]
    else:
        gB = lu_solution_adjoint(LU, pivots, grad, left)
    gA = None
    if mask[0]:
        outer = ops.matmul(gB, adjoint(result)) if left else ops.matmul(adjoint(result), gB)
        gA = summed_to(-outer, A.shape)
    if vector:
        gB = gB.squeeze(-1)
    return gA, summed_to(gB, B.shape) if mask[1] else None


def lu_solve_backward(
    grad: Tensor | None,
    X: Tensor,
    LU: Tensor,
    pivots: Tensor,
    B: Tensor,
    left: bool,
    adjoint_: bool,
    mask: Sequence[bool],
) -> tuple[Tensor | None, Tensor | None]:
    """Return the gradients of the packed LU factors and of the right-hand side."""
    if grad is None:
        return None, None
    gB = ops.linalg_lu_solve(LU, pivots, grad, left=left, adjoint=not adjoint_)
    gLU = None
    if mask[0]:
        # A = P L U, and gA = -gB X^H, or its adjoint if A^H was solved with.
        if left:
            gA = -ops.matmul(gB, adjoint(X)) if not adjoint_ else -ops.matmul(X, adjoint(gB))
        else:
            gA = -ops.matmul(adjoint(X), gB) if not adjoint_ else -ops.matmul(adjoint(gB), X)
        P, L, U = ops.lu_unpack(LU, pivots)
        turned = ops.matmul(P.transpose(-2, -1), gA)
        gL = ops.tril(ops.matmul(turned, adjoint(U)), -1)
        gU = ops.triu(ops.matmul(adjoint(L), turned))
        gLU = summed_to(gL + gU, LU.shape)
    return gLU, summed_to(gB, B.shape) if mask[1] else None


def lu_factor_backward(grad: Tensor | None, LU: Tensor, pivots: Tensor, pivot: bool) -> Tensor | None:
    """Return the gradient of A from those of L below the diagonal and U above, for matrices of any shape."""
    if grad is None:
        return None
    m, n = LU.shape[-2:]
    k = min(m, n)
    P, L, U = ops.lu_unpack(LU, pivots, True, pivot)
    L1, U1 = ops.narrow(L, -2, 0, k), ops.narrow(U, -1, 0, k)
    g = ops.narrow(ops.narrow(grad, -2, 0, k), -1, 0, k)
    lower = ops.matmul(adjoint(L1), ops.tril(g, -1))
    upper = ops.matmul(ops.triu(g), adjoint(U1))
    rest: Any = None
    if n > k:
        gU2, U2 = ops.narrow(grad, -1, k, n - k), ops.narrow(U, -1, k, n - k)
        lower = lower - ops.matmul(gU2, adjoint(U2))
        rest = _solve(adjoint(L1), gU2, upper=True, unitriangular=True)
    if m > k:
        gL2, L2 = ops.narrow(grad, -2, k, m - k), ops.narrow(L, -2, k, m - k)
        upper = upper - ops.matmul(adjoint(L2), gL2)
        rest = _solve(adjoint(U1), gL2, upper=False, left=False)
    inner = ops.tril(lower, -1) + ops.triu(upper)
    inner = _solve(adjoint(U1), inner, upper=False, left=False)
    inner = _solve(adjoint(L1), inner, upper=True, unitriangular=True)
    if rest is not None:
        inner = ops.cat([inner, rest], -1 if n > k else -2)
    return ops.matmul(P, inner) if pivot else inner


def _solve(A: Tensor, B: Tensor, **options: Any) -> Tensor:
    return ops.linalg_solve_triangular(A, B, **options)


def cholesky_backward(grad: Tensor | None, L: Tensor, upper: bool) -> Tensor | None:
    """Return L^-H M L^-1, with M half the sum of L^H grad's lower triangle and its mirror image.

    A complex diagonal of M stays, as in PyTorch: its contribution is orthogonal to every Hermitian change.
    """
    if grad is None:
        return None
    if upper:
        L, grad = adjoint(L), adjoint(grad)
    inner = ops.matmul(adjoint(L), grad)
    inner = (ops.tril(inner) + adjoint(ops.tril(inner, -1))) / 2
    half = _solve(adjoint(L), inner, upper=True)
    return _solve(L, half, upper=False, left=False)


def cholesky_jvp(A_t: Tensor, L: Tensor, upper: bool) -> Tensor:
    """Return L Phi(L^-1 A_t L^-H); Phi keeps the lower triangle and half of the diagonal."""
    if upper:
        L = adjoint(L)
    inner = _solve(L, A_t, upper=False)
    inner = ops.tril(_solve(adjoint(L), inner, upper=True, left=False))
    inner = inner - ops.diag_embed(_diagonal(inner)) / 2
    made = ops.matmul(L, inner)
    return adjoint(made) if upper else made


def cholesky_solve_backward(
    grad: Tensor | None, B: Tensor, L: Tensor, X: Tensor, upper: bool, mask: Sequence[bool]
) -> tuple[Tensor | None, Tensor | None]:
    """Return gB = A^-1 grad, and the gradient of the whole factor, as PyTorch does, though one triangle is read."""
    if grad is None:
        return None, None
    gB = ops.cholesky_solve(grad, L, upper)
    gL = None
    if mask[1]:
        outer = ops.matmul(gB, adjoint(X))
        both = outer + adjoint(outer)
        gL = summed_to(-ops.matmul(L, both) if upper else -ops.matmul(both, L), L.shape)
    return summed_to(gB, B.shape) if mask[0] else None, gL


def cholesky_inverse_backward(grad: Tensor | None, L: Tensor, inverse: Tensor, upper: bool) -> Tensor | None:
    """Return the gradient of the factor from that of the inverse; see `cholesky_solve_backward`."""
    if grad is None:
        return None
    both = ops.matmul(inverse, ops.matmul(grad + adjoint(grad), inverse))
    return -ops.matmul(L, both) if upper else -ops.matmul(both, L)


def solve_triangular_backward(
    grad: Tensor | None,
    A: Tensor,
    B: Tensor,
    X: Tensor,
    upper: bool,
    left: bool,
    unitriangular: bool,
    mask: Sequence[bool],
) -> tuple[Tensor | None, Tensor | None]:
    """Return gB = A^-H grad, and the triangle of -gB X^H."""
    if grad is None:
        return None, None
    gB = _solve(adjoint(A), grad, upper=not upper, left=left, unitriangular=unitriangular)
    gA = None
    if mask[0]:
        outer = -ops.matmul(gB, adjoint(X)) if left else -ops.matmul(adjoint(X), gB)
        below = int(unitriangular)
        gA = summed_to(ops.triu(outer, below) if upper else ops.tril(outer, -below), A.shape)
    return gA, summed_to(gB, B.shape) if mask[1] else None


def _reflectors(input: Tensor, tau: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return V, the reflectors with a unit diagonal, and T and M of Q = I - V T V^H, with T = M^-1 diag(tau).

    The compact form of R. Schreiber and C. Van Loan (1989), without divisions by tau.
    """
    m, k = input.shape[-2], tau.shape[-1]
    V = ops.tril(ops.narrow(input, -1, 0, k).contiguous(), -1)
    V = V + ops.eye(m, k, dtype=input.dtype, device=input.device)
    inner = ops.triu(ops.matmul(adjoint(V), V), 1)
    M = tau.unsqueeze(-1) * inner
    T = _solve(M, ops.diag_embed(tau), upper=True, unitriangular=True)
    return V, T, M


def _reflectors_backward(gQ: Tensor, input: Tensor, tau: Tensor, columns: int) -> tuple[Tensor, Tensor]:
    """Return the gradients of reflectors and factors from that of the first `columns` columns of their product."""
    k = tau.shape[-1]
    V, T, M = _reflectors(input, tau)
    V1 = ops.narrow(V, -2, 0, columns)
    gT = -ops.matmul(adjoint(V), ops.matmul(gQ, V1))
    gV = -ops.matmul(gQ, ops.matmul(V1, adjoint(T)))
    gV1 = -ops.matmul(adjoint(gQ), ops.matmul(V, T))
    if columns < V.shape[-2]:
        rows = list(gV1.shape)
        rows[-2] = V.shape[-2] - columns
        gV1 = ops.cat([gV1, ops.zeros(rows, dtype=gV1.dtype, device=gV1.device)], -2)
    W = _solve(adjoint(M), gT, upper=False, unitriangular=True)
    gM = ops.triu(-ops.matmul(W, adjoint(T)), 1)
    inner = ops.triu(ops.matmul(adjoint(V), V), 1)
    gtau = _diagonal(W) + ops.sum(gM * conjugated(inner), [-1])
    gS = conjugated(tau).unsqueeze(-1) * gM
    gV = gV + gV1 + ops.matmul(V, gS + adjoint(gS))
    ginput = ops.tril(gV, -1)
    have = input.shape[-1]
    if have > k:
        rest = list(input.shape)
        rest[-1] = have - k
        ginput = ops.cat([ginput, ops.zeros(rest, dtype=ginput.dtype, device=ginput.device)], -1)
    return ginput, gtau


def householder_product_backward(
    grad: Tensor | None, input: Tensor, tau: Tensor
) -> tuple[Tensor | None, Tensor | None]:
    """Return the gradients of the reflectors and of their factors."""
    if grad is None or not input.numel():
        return None, None
    return _reflectors_backward(grad, input, tau, input.shape[-1])


def ormqr_backward(
    grad: Tensor | None,
    self: Tensor,
    tau: Tensor,
    other: Tensor,
    left: bool,
    transpose: bool,
    mask: Sequence[bool],
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Return the gradients of the reflectors, their factors, and the matrix that they multiply."""
    if grad is None:
        return None, None, None
    gself = gtau = gother = None
    if mask[0] or mask[1]:
        if left:
            gQ = ops.matmul(other, adjoint(grad)) if transpose else ops.matmul(grad, adjoint(other))
        else:
            gQ = ops.matmul(adjoint(grad), other) if transpose else ops.matmul(adjoint(other), grad)
        gself, gtau = _reflectors_backward(gQ, self, tau, self.shape[-2])
    if mask[2]:
        gother = ops.ormqr(self, tau, grad, left, not transpose)
    return gself, gtau, gother


def qr_backward(grads: Sequence[Any], Q: Tensor, R: Tensor, mode: str) -> Tensor | None:
    """Return the gradient of A = Q R; wide matrices use their square part."""
    gQ, gR = grads
    check(
        mode != "r",
        "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Please use "
        "linalg.qr(A, mode='reduced') if you are going to require gradients. See "
        "https://pytorch.org/docs/stable/generated/torch.linalg.qr.html for more information",
    )
    m, n = Q.shape[-2], R.shape[-1]
    check(
        not (mode == "complete" and m > n),
        "The QR decomposition is not differentiable when mode='complete' and nrows > ncols. See "
        "https://pytorch.org/docs/stable/generated/torch.linalg.qr.html for more information",
    )
    if gQ is None and gR is None:
        return None
    if m < n:
        R1 = ops.narrow(R, -1, 0, m)
        gA1, rest = None, None
        gR1 = None if gR is None else ops.narrow(gR, -1, 0, m)
        g = gQ
        if gR is not None:
            gR2, R2 = ops.narrow(gR, -1, m, n - m), ops.narrow(R, -1, m, n - m)
            rest = ops.matmul(Q, gR2)
            # R2 = Q^H A2 depends on Q too.
            g = _sum(gQ, ops.matmul(ops.matmul(Q, R2), adjoint(gR2)))
        gA1 = _square_qr_backward(g, gR1, Q, R1)
        if rest is None:
            rest = ops.zeros((*gA1.shape[:-1], n - m), dtype=gA1.dtype, device=gA1.device)
        return ops.cat([gA1, rest], -1)
    return _square_qr_backward(gQ, gR, Q, R)


def _square_qr_backward(gQ: Tensor | None, gR: Tensor | None, Q: Tensor, R: Tensor) -> Tensor:
    M = _sum(
        None if gR is None else ops.matmul(R, adjoint(gR)),
        None if gQ is None else -ops.matmul(adjoint(gQ), Q),
    )
    below = ops.tril(M, -1)
    whole = below + adjoint(below) + ops.diag_embed(_real(_diagonal(M)).to(M.dtype))
    inner = _sum(gQ, ops.matmul(Q, whole))
    return _solve(adjoint(R), inner, upper=False, left=False)


def _without_phase(name: str, X: Tensor, tolerance: float = 1e-2) -> None:
    """Raise an error for a loss that depends on the phase of complex vectors, which is arbitrary."""
    if X.is_meta or not X.dtype.is_complex or not X.numel() or X._spec.keys & _BATCHED:
        return  # batched values cannot raise for one example, as in PyTorch
    phase = ops.amax(ops.abs(ops.imag(_diagonal(X))))
    check(
        bool(ops.le(phase, tolerance)),
        f"{name}_backward: The {'eigenvectors' if 'eig' in name else 'singular vectors'} in the complex case are "
        "specified up to multiplication by e^{i phi}. The specified loss function depends on this "
        f"{'quantity' if 'eig' in name else 'phase term'}, so it is ill-defined.",
    )


def eigh_backward(grads: Sequence[Any], L: Tensor, V: Tensor, compute_v: bool) -> Tensor | None:
    """Return V (diag(gL) + S / E) V^H, with E_ij = L_j - L_i and S the skew-Hermitian part of V^H gV.

    Only that part moves vectors that stay orthonormal, and it makes the gradient Hermitian.
    """
    gL, gV = grads
    if gL is None and gV is None:
        return None
    check(compute_v, "linalg_eigh_backward: eigenvectors were not computed, and the derivative needs them")
    if gV is None:
        return ops.matmul(V * gL.unsqueeze(-2), adjoint(V))
    inner = ops.matmul(adjoint(V), gV)
    _without_phase("linalg_eigh", inner)
    E = L.unsqueeze(-2) - L.unsqueeze(-1)
    E = E + ops.diag_embed(ops.ones_like(L))
    made = _skew(inner) / (2 * E)
    made = made - ops.diag_embed(_diagonal(made))
    if gL is not None:
        made = made + ops.diag_embed(gL.to(made.dtype))
    return ops.matmul(V, ops.matmul(made, adjoint(V)))


def eig_backward(grads: Sequence[Any], self: Tensor, L: Tensor, V: Tensor) -> Tensor | None:
    """Return V^-H (diag(gL) + (V^H gV - V^H V diag(Re(V^H gV))) / E^*) V^H for unit vectors."""
    gL, gV = grads
    if gL is None and gV is None:
        return None
    back = adjoint(V)
    if gV is None:
        made = packets["_linalg_solve_ex"].call(back, gL.unsqueeze(-1) * back)[0]
    else:
        inner = ops.matmul(back, gV)
        _without_phase("linalg_eig", inner)
        lengths = _real(_diagonal(inner)).to(inner.dtype).unsqueeze(-2)
        inner = inner - ops.matmul(back, V) * lengths
        E = conjugated(L.unsqueeze(-2) - L.unsqueeze(-1)) + ops.diag_embed(ops.ones_like(L))
        inner = inner / E
        inner = inner - ops.diag_embed(_diagonal(inner))
        if gL is not None:
            inner = inner + ops.diag_embed(gL)
        made = packets["_linalg_solve_ex"].call(back, ops.matmul(inner, back))[0]
    return made if self.dtype.is_complex else ops.real(made)


def svd_backward(
    grads: Sequence[Any], U: Tensor, S: Tensor, Vh: Tensor, full: bool, compute_uv: bool
) -> Tensor | None:
    """Return the gradient of A = U diag(S) V^H. For full bases, only the vectors that span A contribute."""
    gU, gS, gVh = grads
    if gU is None and gS is None and gVh is None:
        return None
    check(
        compute_uv,
        "svd_backward: Setting compute_uv to false in torch.svd doesn't compute singular matrices, and hence we cannot "
        "compute backward. Please use torch.svd(compute_uv=True)",
    )
    m, n, k = U.shape[-2], Vh.shape[-1], S.shape[-1]
    if full and max(m, n) > k:
        # The remaining vectors are arbitrary, and so would be a gradient through them.
        U, Vh = ops.narrow(U, -1, 0, k), ops.narrow(Vh, -2, 0, k)
        gU = None if gU is None else ops.narrow(gU, -1, 0, k)
        gVh = None if gVh is None else ops.narrow(gVh, -2, 0, k)
    V, Uh = adjoint(Vh), adjoint(U)
    if gU is None and gVh is None:
        return ops.matmul(U * gS.unsqueeze(-2), Vh)
    gV = None if gVh is None else adjoint(gVh)
    skewU = None if gU is None else _skew(ops.matmul(Uh, gU))
    skewV = None if gV is None else _skew(ops.matmul(Vh, gV))
    _without_phase("svd", _sum(skewU, skewV))
    row, column, identity = S.unsqueeze(-2), S.unsqueeze(-1), ops.diag_embed(ops.ones_like(S))
    # Factored differences of squares: squares of large and small numbers leave the dtype's range.
    E, total = row - column + identity, row + column + identity
    inner = _sum(
        None if skewU is None else (skewU / E) * (row / total),
        None if skewV is None else (column / total) * (skewV / E),
    )
    inner = inner - ops.diag_embed(_diagonal(inner))
    if U.dtype.is_complex and skewU is not None:
        inner = inner + ops.diag_embed(_diagonal(skewU) / (2 * S))
    if gS is not None:
        inner = inner + ops.diag_embed(gS.to(inner.dtype))
    made = ops.matmul(U, ops.matmul(inner, Vh))
    if m > k and gU is not None:
        outside = gU / row
        made = made + ops.matmul(outside - ops.matmul(U, ops.matmul(Uh, outside)), Vh)
    if n > k and gVh is not None:
        outside = gVh / column
        made = made + ops.matmul(U, outside - ops.matmul(ops.matmul(outside, V), Vh))
    return made


def _skew(x: Tensor) -> Tensor:
    return x - adjoint(x)


def det_backward(grad: Tensor | None, det: Tensor, A: Tensor, LU: Tensor, pivots: Tensor) -> Tensor | None:
    """Return grad times the conjugate cofactors of A: det^* A^-H, or its limit for singular matrices."""
    if grad is None:
        return None
    n = A.shape[-1]
    if n <= 1:
        return grad.reshape(A.shape) if n else ops.zeros_like(A)
    if is_differentiated(A):
        pivot = ops.abs(_diagonal(LU)).detach()
        rounding = n * finfo(pivot.dtype).eps
        singular = ops.le(ops.amin(pivot, (-1,)), rounding * ops.amax(pivot, (-1,)))
        if ops.any(all_examples(singular)).item():
            return _cofactors_by_singular_values(grad, A, singular, det)
        whole = ops.eye(n, dtype=A.dtype, device=A.device) * (grad * conjugated(det)).reshape(
            (*det.shape, 1, 1)
        )
        solved: Tensor = packets["_linalg_solve_ex"].call(adjoint(A), whole)[0]
        return solved
    # The shift of a zero pivot by a tiny number cancels in det^* A^-H, to first order.
    diagonal = _diagonal(LU)
    tiny = finfo(A.dtype.to_real() if A.dtype.is_complex else A.dtype).eps
    moved = ops.where(ops.eq(diagonal, 0), tiny, 0.0).to(A.dtype)
    LU = LU + ops.diag_embed(moved)
    scale = grad * conjugated(_signed_product(LU, pivots))
    whole = ops.eye(n, dtype=A.dtype, device=A.device) * scale.reshape((*det.shape, 1, 1))
    return ops.linalg_lu_solve(LU, pivots, whole, adjoint=True)


def _cofactors_by_singular_values(grad: Tensor, A: Tensor, singular: Tensor, det: Tensor) -> Tensor:
    """Compute a differentiable grad det(A)^* A^-H for singular matrices: U diag(products of the other s) V^H.

    The SVD has derivatives if the singular values differ, the inverse if the matrix is regular. Each matrix goes to
    one of the two, and the other receives a constant.
    """
    n = A.shape[-1]
    mask = singular.unsqueeze(-1).unsqueeze(-1)
    identity = ops.eye(n, dtype=A.dtype, device=A.device)
    spread = ops.diag_embed(ops.arange(1, n + 1, dtype=A.dtype, device=A.device))
    U, S, Vh = ops.linalg_svd(ops.where(mask, A, spread), full_matrices=False)
    unit = ops.ones_like(S[..., :1])
    below = ops.cat([unit, S[..., :-1]], -1).cumprod(-1)
    above = ops.cat([unit, S.flip((-1,))[..., :-1]], -1).cumprod(-1).flip((-1,))
    sign = conjugated(ops.linalg_det(U) * ops.linalg_det(Vh))
    factor = (grad * sign).unsqueeze(-1) * (below * above).to(A.dtype)
    by_values = (U * factor.unsqueeze(-2)) @ Vh
    whole = identity * (grad * conjugated(det)).reshape((*det.shape, 1, 1))
    regular: Tensor = packets["_linalg_solve_ex"].call(adjoint(ops.where(mask, identity, A)), whole)[0]
    return ops.where(mask, by_values, regular)


def _signed_product(LU: Tensor, pivots: Tensor) -> Tensor:
    return ops.prod(_diagonal(LU), -1) * pivots_sign(pivots).to(LU.dtype)


def pivots_sign(pivots: Tensor) -> Tensor:
    """Return 1 or -1: the parity of the row exchanges of pivoting."""
    n = pivots.shape[-1]
    moved = ops.sum(ops.ne(pivots, ops.arange(1, n + 1, device=pivots.device)), [-1])
    return 1 - 2 * ops.remainder(moved, 2)


def slogdet_backward(
    gsign: Tensor | None, glogabsdet: Tensor | None, A: Tensor, sign: Tensor, LU: Tensor, pivots: Tensor
) -> Tensor | None:
    """Return (glogabsdet - i Im(gsign^* sign)) A^-H; the sign of a real matrix is locally constant."""
    if not A.dtype.is_complex:
        gsign = None
    if gsign is None and glogabsdet is None:
        return None
    g: Any = glogabsdet
    if gsign is not None:
        turned = ops.imag(conjugated(gsign) * sign)
        real = ops.zeros_like(turned) if glogabsdet is None else glogabsdet
        g = ops.view_as_complex(ops.stack([real, -turned], -1))
    whole = ops.eye(A.shape[-1], dtype=A.dtype, device=A.device) * g.reshape((*g.shape, 1, 1))
    if is_differentiated(A):
        solved: Tensor = packets["_linalg_solve_ex"].call(adjoint(A), whole.to(A.dtype))[0]
        return solved
    return ops.linalg_lu_solve(LU, pivots, whole.to(A.dtype), adjoint=True)


def pinv_backward(grad: Tensor | None, pinv: Tensor, A: Tensor) -> Tensor | None:
    """Compute Golub and Pereyra's derivative of the pseudo-inverse, at constant rank."""
    if grad is None:
        return None
    Ph, gh = adjoint(pinv), adjoint(grad)
    first = ops.matmul(Ph, ops.matmul(grad, Ph))
    # (I - A P) g^H P P^H + P^H P g^H (I - P A)
    left = ops.matmul(ops.matmul(gh, pinv), Ph)
    right = ops.matmul(Ph, ops.matmul(pinv, gh))
    left = left - ops.matmul(A, ops.matmul(pinv, left))
    right = right - ops.matmul(ops.matmul(right, pinv), A)
    return left + right - first


def least_squares_backward(
    grads: Sequence[Any], A: Tensor, B: Tensor, X: Tensor, mask: Sequence[bool]
) -> tuple[Tensor | None, Tensor | None]:
    """Return the gradients of X = A^+ B, and of the residuals."""
    gX, gR = grads[0], grads[1]
    if gX is None and gR is None:
        return None, None
    vector = X.dim() < A.dim()
    if vector:
        B, X = B.unsqueeze(-1), X.unsqueeze(-1)
        gX = None if gX is None else gX.unsqueeze(-1)
    gA = gB = None
    if gX is not None:
        pinv = ops.linalg_pinv(A, atol=None, rtol=None)
        gA = pinv_backward(ops.matmul(gX, adjoint(B)), pinv, A) if mask[0] else None
        gB = ops.matmul(adjoint(pinv), gX) if mask[1] else None
    if gR is not None and gR.numel():
        # The derivative of the residual by X is zero at the solution.
        rest = (ops.matmul(A, X) - B) * (2 * gR).unsqueeze(-2)
        gA = _sum(gA, ops.matmul(rest, adjoint(X))) if mask[0] else None
        gB = _sum(gB, -rest) if mask[1] else None
    if gA is not None:
        gA = summed_to(gA, A.shape)
    if gB is not None and vector:
        gB = gB.squeeze(-1)
    return gA, gB


def matrix_exp_jvp(A: Tensor, direction: Tensor) -> Tensor:
    """Return the derivative of exp(A) in a direction: the upper right block of exp([[A, direction], [0, A]]).

    Source: R. Mathias, A chain rule for matrix functions and applications (1996).
    """
    n = A.shape[-1]
    upper = ops.cat([A, direction], -1)
    lower = ops.cat([ops.zeros_like(A), A], -1)
    whole = ops.linalg_matrix_exp(ops.cat([upper, lower], -2))
    return ops.narrow(ops.narrow(whole, -2, 0, n), -1, n, n)


def matrix_exp_backward(grad: Tensor | None, A: Tensor) -> Tensor | None:
    """Compute the gradient of exp(A): the derivative is self-adjoint up to the conjugate transpose of A."""
    return None if grad is None else matrix_exp_jvp(adjoint(A), grad)
