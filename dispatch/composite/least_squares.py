"""Least squares, by each of LAPACK's drivers (ATen/native/BatchLinearAlgebra.cpp)."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from ...runtime.scalar_type import finfo, int32, int64
from ..autograd.formulas.factorization import adjoint
from ..core.overload_packet import packets
from ..generated import functions as ops
from ..iterator.broadcast import infer_size
from ..plans.host_kernel import host_kernel
from ..structured.library_routine import LIBRARY_DTYPES
from ..structured.meta.linalg import check_same_device
from .forms import named, owned
from .library_checks import check_errors

if TYPE_CHECKING:
    from ...runtime.tensor_spec import TensorSpec
    from ..tensor import Tensor

DRIVERS = ("gels", "gelsy", "gelsd", "gelss")


@host_kernel("linalg_lstsq", "_least_squares")
def linalg_lstsq(
    self: Tensor, b: Tensor, rcond: float | None, driver: str | None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Compute `torch.linalg.lstsq`: the least-squares solution, and the driver's other results."""
    name = "torch.linalg.lstsq"
    A, spec, other = self, self._spec, b._spec
    check_same_device(name, spec, other)
    if spec.ndim < 2:
        raise RuntimeError(f"{name}: input must have at least 2 dimensions.")
    if other.ndim < 1:
        raise RuntimeError(f"{name}: other must have at least 1 dimension.")
    if spec.dtype is not other.dtype:
        raise RuntimeError(
            f"{name}: Expected input and other to have the same dtype, but got input's dtype {spec.dtype.scalar_name} "
            f"and other's dtype {other.dtype.scalar_name}"
        )
    if not 0 <= spec.ndim - other.ndim <= 1:
        raise RuntimeError(
            f"{name}: input.dim() must be greater or equal to other.dim() and (input.dim() - other.dim()) <= 1"
        )
    on_host = A.device.type != "cuda"
    driver_name = driver.lower() if driver is not None else "gelsy" if on_host else "gels"
    if driver_name not in DRIVERS:
        raise RuntimeError(f"{name}: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)")
    if spec.dtype.scalar_name not in LIBRARY_DTYPES:
        raise RuntimeError("This function doesn't handle types other than float and double")
    vector = spec.ndim > 1 and is_vector_side_of_least_squares(spec, other)
    B = b.unsqueeze(-1) if vector else b
    if B._spec.sizes[-2] != spec.sizes[-2]:
        where, size = ("-1", other.sizes[-1]) if vector else ("-2", B._spec.sizes[-2])
        del size
        raise RuntimeError(f"{name}: input.size(-2) should match other.size({where})")
    *_, m, n = spec.sizes
    batch = infer_size(spec.sizes[:-2], B._spec.sizes[:-2])
    columns = B._spec.sizes[-1]
    real = spec.dtype.to_real() if spec.dtype.is_complex else spec.dtype
    tolerance = rcond if rcond is not None else finfo(real).eps * max(m, n)
    matrices = A.expand((*batch, m, n))
    right = B.expand((*batch, m, columns))
    if on_host:
        made, values, rank, info = packets["_least_squares"].call(matrices, right, tolerance, driver_name)
        check_errors(info, name)
    elif driver_name == "gels":
        made, info = _least_squares_by_qr(matrices, right)
        check_errors(info, name)
    else:
        made, values, rank = _least_squares_by_values(matrices, right, tolerance)
    solution = ops.narrow(made, -2, 0, n) if made._spec.sizes[-2] > n else made
    empty = functools.partial(ops.empty, (0,), device=A.device)
    residuals = empty(dtype=real)
    if (
        m > n
        and driver_name != "gelsy"
        and (driver_name == "gels" or A.is_meta or bool(ops.all(ops.eq(rank, n))))
    ):
        rest = ops.abs(ops.narrow(made, -2, n, m - n))
        residuals = ops.sum(ops.mul(rest, rest), [-2])
    own = spec.sizes[:-2]

    def of_matrices(result: Tensor) -> Tensor:
        """Return results that depend on A alone once for each matrix, even with several right-hand sides."""
        if result._spec.sizes[: len(batch)] == own:
            return result
        result = result[(0,) * (len(batch) - len(own))]
        for dim, size in enumerate(own):
            result = ops.narrow(result, dim, 0, size)
        return result.contiguous()

    results: tuple[Tensor, Tensor, Tensor, Tensor] = named(
        "linalg_lstsq",
        solution=owned(solution.squeeze(-1) if vector else solution),
        residuals=residuals,
        rank=empty(dtype=int64) if driver_name == "gels" else of_matrices(rank),
        singular_values=of_matrices(values) if driver_name in ("gelsd", "gelss") else empty(dtype=real),
    )
    return results


def _least_squares_by_qr(A: Tensor, B: Tensor) -> tuple[Tensor, Tensor]:
    """Return the result of ``gels``, by A = Q R or by A^H = Q R, and the position of the first zero on R's diagonal."""
    m, n = A._spec.sizes[-2:]
    if m >= n:
        packed, tau = ops.geqrf(A)
        turned = ops.ormqr(packed, tau, B, True, True)
        R = ops.narrow(packed, -2, 0, n)
        solution = ops.linalg_solve_triangular(R, ops.narrow(turned, -2, 0, n), upper=True)
        made = ops.cat([solution, ops.narrow(turned, -2, n, m - n)], -2) if m > n else solution
    else:
        Q, R = ops.linalg_qr(adjoint(A))
        made = ops.matmul(Q, ops.linalg_solve_triangular(adjoint(R), B, upper=False))
    zeros = ops.eq(ops.diagonal(R, 0, -2, -1), 0)
    if not zeros._spec.sizes[-1]:
        return made, ops.zeros(A._spec.sizes[:-2], dtype=int32, device=A.device)
    first = (ops.argmax(zeros.to(int32), -1) + 1).to(int32)
    return made, ops.where(ops.any(zeros, -1), first, 0).to(int32)


def _least_squares_by_values(A: Tensor, B: Tensor, rcond: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return the result of ``gelsd``, the singular values and the rank.

    It serves the rank-revealing drivers on devices without LAPACK. PyTorch has none of these drivers on CUDA.
    """
    m, n = A._spec.sizes[-2:]
    U, S, Vh = packets["_linalg_svd"].call(A, m > n, True)
    counts = ops.gt(S, rcond * ops.amax(S, [-1], True)) if S._spec.sizes[-1] else ops.ne(S, 0)
    inverse = ops.where(counts, ops.reciprocal(S), 0.0).to(A.dtype)
    turned = ops.matmul(adjoint(U), B)
    k = min(m, n)
    made = ops.matmul(adjoint(Vh), inverse.unsqueeze(-1) * ops.narrow(turned, -2, 0, k))
    if m > n:
        made = ops.cat([made, ops.narrow(turned, -2, n, m - n)], -2)
    return made, S, ops.sum(counts, [-1])


def is_vector_side_of_least_squares(A: TensorSpec, b: TensorSpec) -> bool:
    """Return True if the right-hand side is a batch of vectors."""
    if b.ndim == 1:
        return True
    return bool(A.ndim - 1 == b.ndim and A.sizes[:-1] == b.sizes)
