"""Functions of matrices over factorisations (ATen/native/LinearAlgebra.cpp)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...runtime.scalar_type import bfloat16, complex32, finfo, float16, float32, float64
from ..autograd.formulas.factorization import adjoint, pivots_sign
from ..core.overload_packet import packets
from ..generated import functions as ops
from ..plans.host_kernel import host_kernel
from ..structured.meta.dims import wrap_dim
from ..structured.meta.factorization import check_floating, check_matrix, check_square
from .forms import named, owned
from .matrix_exponential import exponential

if TYPE_CHECKING:
    from ...runtime.scalar_type import Number
    from ..tensor import Tensor


@host_kernel("_linalg_det", "linalg_lu_factor_ex", "prod")
def _linalg_det(A: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Compute the determinant, and return its factors too."""
    check_square("linalg.det", A._spec)
    check_floating("linalg.det", A._spec)
    LU, pivots, _ = ops.linalg_lu_factor_ex(A)
    result = ops.prod(ops.diagonal(LU, 0, -2, -1), -1) * pivots_sign(pivots).to(A.dtype)
    results: tuple[Tensor, Tensor, Tensor] = named("_linalg_det", result=result, LU=LU, pivots=pivots)
    return results


@host_kernel("linalg_det", "_linalg_det", "linalg_lu_factor_ex", "prod")
def linalg_det(A: Tensor) -> Tensor:
    """Compute `torch.linalg.det`."""
    result: Tensor = packets["_linalg_det"].call(A)[0]
    return result


def _linalg_slogdet(A: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Compute the sign of the determinant, the logarithm of its absolute value, and the factors."""
    check_square("linalg.slogdet", A._spec)
    check_floating("linalg.slogdet", A._spec, narrow=False)
    LU, pivots, _ = ops.linalg_lu_factor_ex(A)
    diagonal = ops.diagonal(LU, 0, -2, -1)
    sizes = ops.abs(diagonal)
    signs = ops.where(ops.eq(sizes, 0), 0.0, diagonal / sizes) if A.dtype.is_complex else ops.sign(diagonal)
    sign = ops.prod(signs, -1) * pivots_sign(pivots).to(A.dtype)
    logabsdet = ops.sum(ops.log(sizes), [-1])
    results: tuple[Tensor, Tensor, Tensor, Tensor] = named(
        "_linalg_slogdet", sign=sign, logabsdet=logabsdet, LU=LU, pivots=pivots
    )
    return results


@host_kernel("linalg_slogdet", "_linalg_slogdet", "linalg_lu_factor_ex", "log", "prod")
def linalg_slogdet(A: Tensor) -> tuple[Tensor, Tensor]:
    """Compute `torch.linalg.slogdet`."""
    sign, logabsdet, _, _ = packets["_linalg_slogdet"].call(A)
    results: tuple[Tensor, Tensor] = named("linalg_slogdet", sign=sign, logabsdet=logabsdet)
    return results


@host_kernel("slogdet", "_linalg_slogdet", "linalg_lu_factor_ex", "log", "prod")
def slogdet(self: Tensor) -> tuple[Tensor, Tensor]:
    """Compute `torch.slogdet`."""
    sign, logabsdet = linalg_slogdet(self)
    results: tuple[Tensor, Tensor] = named("slogdet", sign=sign, logabsdet=logabsdet)
    return results


@host_kernel("logdet", "_linalg_slogdet", "linalg_lu_factor_ex", "log")
def logdet(self: Tensor) -> Tensor:
    """Compute `torch.logdet`; NaN for a negative determinant."""
    check_square("logdet", self._spec)
    check_floating("logdet", self._spec, narrow=False)
    sign, logabsdet, _, _ = packets["_linalg_slogdet"].call(self)
    if self.dtype.is_complex:
        logarithm: Tensor = ops.log(sign) + logabsdet
        return logarithm
    return ops.where(ops.eq(sign, -1.0), math.nan, logabsdet)


def _tolerances(name: str, A: Tensor, atol: Any, rtol: Any) -> tuple[Any, Any]:
    """Return absolute and relative tolerance as tensors in the singular values' dtype, or as numbers.

    Without either the relative one is the larger side times the machine's precision; given an absolute one it is 0.
    """
    for argument, value in (("atol", atol), ("rtol", rtol)):
        if hasattr(value, "_spec") and value.dtype.is_complex:
            raise RuntimeError(
                f"{name}: {argument} tensor of complex type is not supported. Got {value.dtype.scalar_name}"
            )
    real = A.dtype.to_real()
    if rtol is None:
        if real not in (float32, float64):
            raise RuntimeError("This function doesn't handle types other than float and double")
        rtol = finfo(real).eps * max(A._spec.sizes[-2:])
        if hasattr(atol, "_spec"):
            rtol = ops.where(ops.gt(atol, 0), 0.0, rtol).to(real)
        elif atol is not None and atol > 0:
            rtol = 0.0
    if atol is None:
        atol = 0.0
    return atol, rtol


def _column(value: Any) -> Any:
    return value.unsqueeze(-1) if hasattr(value, "_spec") else value


def _threshold(values: Tensor, atol: Tensor | float, rtol: Tensor | float) -> Tensor:
    """Return the tolerance of each matrix from its largest singular value, as a column that broadcasts with the
    values.
    """
    relative = _column(rtol) * ops.amax(values, [-1], True)
    absolute = _column(atol)
    if not hasattr(absolute, "_spec"):
        return relative if absolute == 0 else ops.clamp(relative, min=absolute)
    return ops.maximum(relative, absolute.to(relative.dtype))


@host_kernel("linalg_pinv", "_linalg_svd", "_linalg_eigh", "mm")
def linalg_pinv(self: Tensor, atol: Tensor | None, rtol: Tensor | None, hermitian: bool) -> Tensor:
    """Compute `torch.linalg.pinv` by singular values or eigenvalues; those within the tolerance count as zero."""
    spec = self._spec
    if spec.ndim < 2 or spec.dtype.scalar_name not in ("Float", "Double", "ComplexFloat", "ComplexDouble"):
        raise RuntimeError(
            f"linalg.pinv({spec.dtype.scalar_name}{{{list(spec.sizes)}}}): expected a tensor with 2 or more dimensions "
            "of float, double, cfloat or cdouble types"
        )
    atol, rtol = _tolerances("torch.linalg.pinv", self, atol, rtol)
    if not self.numel():
        *batch, m, n = spec.sizes
        return ops.empty((*batch, n, m), dtype=self.dtype, device=self.device)
    if hermitian:
        values, vectors = ops.linalg_eigh(self)
        sizes = ops.abs(values)
        is_nonzero = ops.gt(sizes, _threshold(sizes, atol, rtol))
        inverse = ops.where(is_nonzero, ops.reciprocal(values), 0.0).to(self.dtype)
        return owned(ops.matmul(vectors * inverse.unsqueeze(-2), adjoint(vectors)))
    U, S, Vh = ops.linalg_svd(self, full_matrices=False)
    is_nonzero = ops.gt(S, _threshold(S, atol, rtol))
    inverse = ops.where(is_nonzero, ops.reciprocal(S), 0.0).to(self.dtype)
    return owned(ops.matmul(adjoint(Vh) * inverse.unsqueeze(-2), adjoint(U)))


def _as_tensor(x: Tensor, value: float | None) -> Tensor | None:
    return None if value is None else ops.full((), value, dtype=x.dtype.to_real(), device=x.device)


@host_kernel("linalg_pinv", "linalg_pinv.atol_rtol_tensor", "_linalg_svd", "_linalg_eigh", "mm")
def linalg_pinv_float(self: Tensor, atol: float | None, rtol: float | None, hermitian: bool) -> Tensor:
    """Compute ``linalg.pinv`` with tolerances in numbers."""
    if not (self.dtype.is_floating_point or self.dtype.is_complex):
        return ops.linalg_pinv(self, atol=None, rtol=None, hermitian=hermitian)
    absolute, relative = _as_tensor(self, atol), _as_tensor(self, rtol)
    return ops.linalg_pinv(self, atol=absolute, rtol=relative, hermitian=hermitian)


def linalg_pinv_rcond(self: Tensor, rcond: float, hermitian: bool) -> Tensor:
    """Compute ``linalg.pinv(A, rcond)``."""
    return linalg_pinv_float(self, 0.0, rcond, hermitian)


def linalg_pinv_rcond_tensor(self: Tensor, rcond: Tensor, hermitian: bool) -> Tensor:
    """Compute ``linalg.pinv(A, rcond)`` with a tensor."""
    return ops.linalg_pinv(self, atol=_as_tensor(self, 0.0), rtol=rcond, hermitian=hermitian)


@host_kernel("pinverse", "linalg_pinv.atol_rtol_tensor", "_linalg_svd", "mm")
def pinverse(self: Tensor, rcond: float) -> Tensor:
    """Compute `torch.pinverse`."""
    return linalg_pinv_rcond(self, rcond, False)


@host_kernel("linalg_matrix_rank", "_linalg_svd", "_linalg_eigh")
def linalg_matrix_rank(input: Tensor, atol: Any, rtol: Any, hermitian: bool) -> Tensor:
    """Compute `torch.linalg.matrix_rank`: the number of singular values above the tolerance."""
    name = "torch.linalg.matrix_rank"
    check_matrix(name, input._spec, "input")
    atol, rtol = _tolerances(name, input, atol, rtol)
    if not input.numel():
        sizes = input._spec.sizes[:-2]
        return ops.zeros(sizes, dtype=ops.arange(0).dtype, device=input.device)
    values = ops.abs(ops.linalg_eigvalsh(input)) if hermitian else ops.linalg_svdvals(input)
    return ops.sum(ops.gt(values, _threshold(values, atol, rtol)), [-1])


@host_kernel("linalg_matrix_rank", "_linalg_svd", "_linalg_eigh")
def linalg_matrix_rank_float(self: Tensor, atol: float | None, rtol: float | None, hermitian: bool) -> Tensor:
    """Compute ``linalg.matrix_rank`` with tolerances in numbers."""
    return linalg_matrix_rank(self, atol, rtol, hermitian)


def linalg_matrix_rank_tol(self: Tensor, tol: float, hermitian: bool) -> Tensor:
    """Compute ``linalg.matrix_rank(A, tol)``: an absolute tolerance."""
    return linalg_matrix_rank_float(self, tol, 0.0, hermitian)


def linalg_matrix_rank_tol_tensor(input: Tensor, tol: Tensor, hermitian: bool) -> Tensor:
    """Compute ``linalg.matrix_rank(A, tol)`` with a tensor."""
    return linalg_matrix_rank(input, tol, 0.0, hermitian)


@host_kernel("linalg_cond", "_linalg_svd")
def linalg_cond(self: Tensor, p: Number | str | None) -> Tensor:
    """Compute `torch.linalg.cond`: norm(A) * norm(A^-1), infinite for singular matrices."""
    if self._spec.ndim < 2:
        raise RuntimeError("linalg.cond: The input tensor must have at least 2 dimensions.")
    if p is not None and (p not in ("fro", "nuc") if isinstance(p, str) else abs(p) not in (1, 2, math.inf)):
        raise RuntimeError(f"linalg.cond got an invalid norm type: {p}")
    if p is None or (not isinstance(p, str) and abs(p) == 2):
        values = ops.linalg_svdvals(self)
        if not values.numel() or not values._spec.sizes[-1]:
            return ops.zeros(values._spec.sizes[:-1], dtype=values.dtype, device=values.device)
        largest, least = ops.narrow(values, -1, 0, 1), ops.narrow(values, -1, -1, 1)
        return (least / largest if p == -2 else largest / least).squeeze(-1)
    if isinstance(p, str) or self.numel():
        check_square(f"linalg.cond(ord={p})", self._spec)
    if isinstance(p, str) and p == "nuc":
        values = ops.linalg_svdvals(self)
        return ops.sum(values, [-1]) * ops.sum(ops.reciprocal(values), [-1])
    if not self.numel():
        return ops.zeros(self._spec.sizes[:-2], dtype=self.dtype.to_real(), device=self.device)
    inverse, info = ops.linalg_inv_ex(self)
    singular = ops.ne(info, 0).unsqueeze(-1).unsqueeze(-1)
    inverse = ops.where(singular, math.inf, inverse)
    # A zero matrix has the norm 0; 0 * infinity would be NaN.
    product = ops.linalg_matrix_norm(self, p) * ops.linalg_matrix_norm(inverse, p)
    return ops.where(ops.ne(info, 0), math.inf, product)


@host_kernel("linalg_matrix_power", "mm")
def linalg_matrix_power(self: Tensor, n: int) -> Tensor:
    """Compute `torch.linalg.matrix_power` by repeated squaring, of the inverse for negative powers."""
    name = "linalg.matrix_power"
    check_square(name, self._spec)
    if n == 0:
        whole = ops.eye(self._spec.sizes[-1], dtype=self.dtype, device=self.device)
        return self.clone().copy_(whole)
    if n < 0:
        check_floating(name, self._spec)
        return linalg_matrix_power(ops.linalg_inv(self), -n)
    if n == 1:
        return self.clone()
    if n == 3:  # in the order of PyTorch's multiplications, for the same rounding
        return ops.matmul(ops.matmul(self, self), self)
    result = None
    square = self
    while n:
        if n & 1:
            result = square if result is None else ops.matmul(result, square)
        n >>= 1
        if n:
            square = ops.matmul(square, square)
    return square if result is None else result


def linalg_matrix_exp(self: Tensor) -> Tensor:
    """Compute `torch.linalg.matrix_exp` by a Taylor polynomial whose degree depends on the norm.

    A matrix with infinity or NaN has an exponential of NaN all over. float16 and bfloat16 are computed in float32.
    """
    name = "linalg.matrix_exp"
    check_square(name, self._spec)
    check_floating(name, self._spec)
    sizes = self._spec.sizes
    if self.is_meta or not self.numel():
        return ops.empty(sizes, dtype=self.dtype, device=self.device)
    if self.dtype is complex32 or self.dtype.itemsize == 1:
        raise NotImplementedError(f"\"bmm\" not implemented for '{self.dtype.scalar_name}'")
    if self.dtype in (float16, bfloat16):
        return linalg_matrix_exp(self.to(float32)).to(self.dtype)
    if sizes[-1] == 1:
        return owned(ops.exp(self).contiguous())
    return owned(exponential(self.reshape((-1, *sizes[-2:]))).reshape(sizes))


def matrix_exp(self: Tensor) -> Tensor:
    """Compute `torch.matrix_exp`."""
    return ops.linalg_matrix_exp(self)


@host_kernel("linalg_tensorinv", "linalg_inv_ex", "linalg_lu_factor_ex", "_lu_solve")
def linalg_tensorinv(self: Tensor, ind: int) -> Tensor:
    """Compute `torch.linalg.tensorinv`: invert the matrix of the first `ind` dimensions by the others."""
    if ind <= 0:
        raise RuntimeError(f"Expected a strictly positive integer for 'ind', but got {ind}")
    sizes = self._spec.sizes
    if ind > len(sizes):
        raise RuntimeError(f"linalg.tensorinv: ind is {ind}, but the input has {len(sizes)} dimensions")
    first, last = sizes[:ind], sizes[ind:]
    if math.prod(first) != math.prod(last):
        raise RuntimeError(
            f"Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), but got "
            f"{math.prod(last)} != {math.prod(first)}"
        )
    n = math.prod(last)
    inverse, info = ops.linalg_inv_ex(self.reshape((n, n)))
    packets["_linalg_check_errors"].call(info, "inv", is_matrix=True)
    return inverse.reshape((*last, *first))


@host_kernel("linalg_tensorsolve", "_linalg_solve_ex", "linalg_lu_factor_ex", "_lu_solve")
def linalg_tensorsolve(self: Tensor, other: Tensor, dims: Sequence[int] | None) -> Tensor:
    """Compute `torch.linalg.tensorsolve`: solve tensordot(A, X) = B, with the dimensions `dims` of A moved to the
    end.
    """
    A = self
    rank = A._spec.ndim
    if dims is not None:
        moved = [wrap_dim(d, rank) for d in dims]
        A = ops.movedim(A, moved, list(range(rank - len(moved), rank)))
    have = other._spec.ndim
    inner = A._spec.sizes[have:]
    n = math.prod(inner)
    if n != other.numel():
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == prod(self.shape[:other.ndim]), "
            f"but got {n} != {other.numel()}"
        )
    result = ops.linalg_solve(A.reshape((n, n)), other.reshape((n,)))
    return result.reshape(inner)


def linalg_vander(x: Tensor, N: int | None) -> Tensor:
    """Compute `torch.linalg.vander`: the powers 0 to N - 1 of each element of the last dimension."""
    if x.dtype.scalar_name == "Bool" or (x.dtype.is_floating_point and x.dtype.itemsize < 4):
        raise RuntimeError(
            f"linalg.vander supports floating point, complex, and integer tensors, but got {x.dtype.scalar_name}"
        )
    x = x if x._spec.ndim else x.unsqueeze(0)
    n = x._spec.sizes[-1] if N is None else N
    if n <= 1:
        raise RuntimeError("N must be greater than 1.")
    powers = ops.cumprod(x.unsqueeze(-1).expand((*x._spec.sizes, n - 1)), -1)
    return ops.cat([x.new_ones((*x._spec.sizes, 1)), powers], -1)


def vander(x: Tensor, N: int | None, increasing: bool) -> Tensor:
    """Compute `torch.vander`: the powers of a vector's elements, descending by default."""
    if x._spec.ndim != 1:
        raise RuntimeError("x must be a one-dimensional tensor.")
    n = x._spec.sizes[0] if N is None else N
    if n < 0:
        raise RuntimeError("N must be non-negative.")
    integral = not (x.dtype.is_floating_point or x.dtype.is_complex)
    dtype = ops.arange(0).dtype if integral else x.dtype
    made = ops.ones((x._spec.sizes[0], n), dtype=dtype, device=x.device)
    if n > 1:
        powers = ops.cumprod(x.to(dtype).unsqueeze(1).expand((x._spec.sizes[0], n - 1)), 1)
        made = ops.cat([ops.narrow(made, 1, 0, 1), powers], 1)
    return made if increasing else ops.flip(made, [1])


def linalg_matmul(self: Tensor, other: Tensor) -> Tensor:
    """Compute `torch.linalg.matmul`."""
    return ops.matmul(self, other)
