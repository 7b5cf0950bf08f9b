"""Whole functions of one small matrix (`dispatch/structured/host_kernel.py`): factorisations and what is made of them.

The compositions are in `dispatch/composite/factorization.py` and `matrix_functions.py`; batches, integers and narrow
floats stay with them, and so does every call that is an error.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..dispatch.structured.host_kernel import HostCall, host_kernel
from ..dispatch.structured.library_routine import LIBRARY_DTYPES
from ..dispatch.structured.native.factorization import column_major
from ..runtime.device import CPU
from ..runtime.lapack import find_routine
from ..runtime.memory_format import contiguous_strides
from ..runtime.scalar_type import dtype as ScalarType
from ..runtime.scalar_type import finfo, int32, int64
from ..runtime.tensor_spec import TensorSpec
from .one_matrix import (
    eigh_of,
    is_finite,
    permutation,
    qr_of,
    solver_of,
    svd_of,
    unpack_into,
    unpacker_of,
)
from .undispatched import np

SMALL = 4096
"""Elements up to which a mask of a matrix is kept with a plan."""
FEW = 16
"""How many matrices of a batch are done one after another."""
INFO = TensorSpec.contiguous((), int32, CPU)


def is_one(*specs: TensorSpec) -> bool:
    """Whether these are single matrices with elements, of one dtype that LAPACK has."""
    first = specs[0].dtype
    return first.scalar_name in LIBRARY_DTYPES and all(
        spec.ndim == 2 and spec.numel and spec.dtype is first for spec in specs
    )


def is_square(spec: TensorSpec) -> bool:
    """Whether this is a single square matrix."""
    return is_one(spec) and spec.sizes[0] == spec.sizes[1]


def in_columns(dtype: ScalarType, *sizes: int) -> TensorSpec:
    """The spec of a column-major result."""
    return TensorSpec.of(sizes, column_major(sizes), dtype, CPU)


def in_rows(dtype: ScalarType, *sizes: int) -> TensorSpec:
    """The spec of a contiguous result."""
    return TensorSpec.contiguous(sizes, dtype, CPU)


def real_of(dtype: ScalarType) -> ScalarType:
    """The dtype of lengths."""
    return dtype.to_real() if dtype.is_complex else dtype


def char_of(spec: TensorSpec) -> str:
    """NumPy's character of a dtype."""
    char: str = spec.np_dtype.char
    return char


def flag(info: int) -> Any:
    """LAPACK's `info` as a tensor's element."""
    return np.array(info, np.int32)


# Made of L and U.


@host_kernel("linalg_lu_factor", "_lu_with_info")
def lu_factor(A: TensorSpec, pivot: bool, check_errors: bool | None = None) -> HostCall | None:
    """L and U in one matrix, the rows interchanged and, of a flag, LAPACK's `info`."""
    if not is_one(A) or not pivot:
        return None
    factor, has_info = find_routine(char_of(A), "getrf"), check_errors is not None
    raises = check_errors is not False

    def compute(a: Any) -> tuple[Any, ...]:
        lu, pivots, info = factor(a)
        pivots += 1
        if info and raises:
            return None
        return (lu, pivots, flag(info)) if has_info else (lu, pivots)

    outputs = (in_columns(A.dtype, *A.sizes), in_rows(int32, min(A.sizes)))
    return HostCall((*outputs, INFO) if has_info else outputs, compute)


@host_kernel("linalg_lu")
def lu(A: TensorSpec, pivot: bool) -> HostCall | None:
    """P, L and U."""
    if not is_one(A) or not pivot:
        return None
    (m, n), char = A.sizes, char_of(A)
    factor, k = find_routine(char, "getrf"), min(A.sizes)
    unpack = unpacker_of(char, *(A.sizes if A.numel <= SMALL else (1, 1)))

    def compute(a: Any) -> tuple[Any, ...]:
        packed, pivots, _ = factor(a)
        return (permutation(pivots.tolist(), m, char), *unpack(packed))

    def into(P: Any, L: Any, U: Any, a: Any) -> bool:
        packed, pivots, _ = factor(a)
        return unpack_into(L, U, P, packed, pivots.tolist())

    outputs = in_rows(A.dtype, m, m), in_rows(A.dtype, m, k), in_rows(A.dtype, k, n)
    return HostCall(outputs, None if A.numel > SMALL else compute, into)


@host_kernel("lu_unpack")
def lu_unpack(LU: TensorSpec, pivots: TensorSpec, data: bool, permuted: bool) -> HostCall | None:
    """P, L and U from `lu_factor`'s results."""
    (m, n), k = LU.sizes if LU.ndim == 2 else (0, 0), min(LU.sizes, default=0)
    if not (is_one(LU) and data and permuted and pivots.dtype is int32 and pivots.sizes == (k,)):
        return None
    char = char_of(LU)
    unpack = unpacker_of(char, *(LU.sizes if LU.numel <= SMALL else (1, 1)))

    def compute(packed: Any, given: Any) -> tuple[Any, ...]:
        return (permutation((given - 1).tolist(), m, char), *unpack(packed))

    def into(P: Any, L: Any, U: Any, packed: Any, given: Any) -> bool:
        return unpack_into(L, U, P, packed, (given - 1).tolist())

    outputs = in_rows(LU.dtype, m, m), in_rows(LU.dtype, m, k), in_rows(LU.dtype, k, n)
    return HostCall(outputs, None if LU.numel > SMALL else compute, into)


def sign_of(pivots: list[int]) -> int:
    """The sign of the permutation that interchanges of rows make."""
    return -1 if sum([i != j for i, j in enumerate(pivots)]) & 1 else 1


def factors_of(A: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
    """The specs of LU and pivots."""
    return in_columns(A.dtype, *A.sizes), in_rows(int32, A.sizes[0])


@host_kernel("_linalg_det")
def det_with_factors(A: TensorSpec) -> HostCall | None:
    """The determinant, LU and pivots."""
    if not is_square(A):
        return None
    factor, char = find_routine(char_of(A), "getrf"), char_of(A)

    def compute(a: Any) -> tuple[Any, ...]:
        lu, pivots, _ = factor(a)
        made = np.array(math.prod(lu.diagonal().tolist(), start=sign_of(pivots.tolist())), char)
        pivots += 1
        return made, lu, pivots

    return HostCall((in_rows(A.dtype), *factors_of(A)), compute)


@host_kernel("linalg_det")
def det(A: TensorSpec) -> HostCall | None:
    """The determinant."""
    if not is_square(A):
        return None
    factor, char = find_routine(char_of(A), "getrf"), char_of(A)

    def compute(a: Any) -> Any:
        lu, pivots, _ = factor(a)
        return np.array(math.prod(lu.diagonal().tolist(), start=sign_of(pivots.tolist())), char)

    return HostCall((in_rows(A.dtype),), compute)


def _sign_and_log(char: str) -> Callable[[Any], tuple[float, Any, Any, Any]]:
    """The determinant's sign, its logarithm, LU and pivots of a real matrix."""
    factor = find_routine(char, "getrf")

    def compute(a: Any) -> tuple[float, Any, Any, Any]:
        lu, pivots, _ = factor(a)
        sign: float = sign_of(pivots.tolist())
        diagonal = lu.diagonal()
        for value in diagonal.tolist():
            sign *= (value > 0) - (value < 0)
        return sign, np.add.reduce(np.log(np.abs(diagonal))), lu, pivots

    return compute


@host_kernel("logdet")
def logdet(A: TensorSpec) -> HostCall | None:
    """The determinant's logarithm, NaN where it is negative."""
    if not is_square(A) or A.dtype.is_complex:
        return None
    char = char_of(A)
    find = _sign_and_log(char)

    def compute(a: Any) -> Any:
        sign, log, _, _ = find(a)
        return np.array(math.nan if sign == -1 else log, char)

    return HostCall((in_rows(A.dtype),), compute)


@host_kernel("linalg_inv_ex")
def inv_ex(A: TensorSpec, check_errors: bool) -> HostCall | None:
    """The inverse, and the first zero of U's diagonal."""
    if not is_square(A):
        return None
    solve, whole = find_routine(char_of(A), "gesv"), np.asfortranarray(np.eye(A.sizes[0], dtype=char_of(A)))

    def compute(a: Any) -> tuple[Any, Any]:
        _, _, inverse, info = solve(a, whole)
        if info:
            return None
        return inverse, flag(info)

    return HostCall((in_columns(A.dtype, *A.sizes), INFO), compute)


@host_kernel("linalg_inv")
def inv(A: TensorSpec) -> HostCall | None:
    """The inverse."""
    if not is_square(A):
        return None
    solve, whole = find_routine(char_of(A), "gesv"), np.asfortranarray(np.eye(A.sizes[0], dtype=char_of(A)))

    def compute(a: Any) -> Any:
        _, _, inverse, info = solve(a, whole)
        if info:
            return None
        return inverse

    return HostCall((in_columns(A.dtype, *A.sizes),), compute)


def _right(A: TensorSpec, B: TensorSpec, left: bool) -> TensorSpec | None:
    """The spec of the solution of A X = B; None for what is to be composed."""
    if not left or not is_square(A) or B.dtype is not A.dtype or not B.numel or B.ndim not in (1, 2):
        return None
    if B.sizes[0] != A.sizes[0]:
        return None
    return in_rows(B.dtype, *B.sizes) if B.ndim == 1 else in_columns(B.dtype, *B.sizes)


def _solution(
    A: TensorSpec, B: TensorSpec, left: bool, pick: Callable[..., Any], *others: TensorSpec
) -> HostCall | None:
    """X of A X = B first, and what `pick` takes of X, LU and pivots."""
    spec = _right(A, B, left)
    if spec is None:
        return None
    solve, is_vector = find_routine(char_of(A), "gesv"), B.ndim == 1

    def compute(a: Any, b: Any) -> Any:
        lu, pivots, x, info = solve(a, b[:, None] if is_vector else b)
        return None if info else pick(x[:, 0] if is_vector else x, lu, pivots)

    return HostCall((spec, *others), compute)


@host_kernel("_linalg_solve_ex")
def solve_with_factors(A: TensorSpec, B: TensorSpec, left: bool, check_errors: bool) -> HostCall | None:
    """X of A X = B, LU, pivots and the first zero of U's diagonal."""
    if not is_square(A):
        return None

    def pick(x: Any, lu: Any, pivots: Any) -> tuple[Any, ...]:
        pivots += 1
        return x, lu, pivots, flag(0)

    return _solution(A, B, left, pick, *factors_of(A), INFO)


@host_kernel("linalg_solve_ex")
def solve_ex(A: TensorSpec, B: TensorSpec, left: bool, check_errors: bool) -> HostCall | None:
    """X of A X = B, and the first zero of U's diagonal."""
    return _solution(A, B, left, lambda x, lu, pivots: (x, flag(0)), INFO)


@host_kernel("linalg_solve")
def solve(A: TensorSpec, B: TensorSpec, left: bool) -> HostCall | None:
    """X of A X = B."""
    return _solution(A, B, left, lambda x, lu, pivots: x)


@host_kernel("linalg_tensorinv")
def tensorinv(A: TensorSpec, ind: int) -> HostCall | None:
    """The inverse of the matrix from the last dimensions to the first `ind`."""
    n = math.prod(A.sizes[:ind]) if ind > 0 else 0
    if not A.is_contiguous or n * n != A.numel:
        return None
    made = inv(in_rows(A.dtype, n, n))
    if made is None:
        return None
    sizes = (*A.sizes[ind:], *A.sizes[:ind])
    # What a view of the inverse's columns has.
    strides = [n * step for step in contiguous_strides(A.sizes[:ind])]
    spec = TensorSpec.of(sizes, (*contiguous_strides(A.sizes[ind:]), *strides), A.dtype, CPU)
    char = char_of(A)
    invert, whole = find_routine(char, "gesv"), np.asfortranarray(np.eye(n, dtype=char))

    def compute(a: Any) -> Any:
        _, _, inverse, info = invert(a.reshape(n, n), whole)
        if info:
            return None
        return inverse.reshape(sizes)

    return HostCall((spec,), compute)


@host_kernel("linalg_tensorsolve")
def tensorsolve(A: TensorSpec, B: TensorSpec, dims: Any) -> HostCall | None:
    """X of the matrix from the last dimensions to those of B."""
    inner, n = A.sizes[B.ndim :], B.numel
    if dims is not None or not A.is_contiguous or not B.is_contiguous or math.prod(inner) != n:
        return None
    if n * n != A.numel or solve(in_rows(A.dtype, n, n), in_rows(B.dtype, n), True) is None:
        return None
    gesv = find_routine(char_of(A), "gesv")

    def compute(a: Any, b: Any) -> Any:
        _, _, x, info = gesv(a.reshape(n, n), b.reshape(n, 1))
        if info:
            return None
        return x.reshape(inner)

    return HostCall((in_rows(A.dtype, *inner),), compute)


@host_kernel("linalg_lu_solve")
def lu_solve(LU: TensorSpec, pivots: TensorSpec, B: TensorSpec, left: bool, adjoint: bool) -> HostCall | None:
    """X of A X = B, or of A^H X = B, from the factors of each of a few matrices."""
    n = LU.sizes[-1] if LU.ndim > 1 else 0
    few = math.prod(LU.sizes[:-2]) <= FEW and LU.sizes[:-2] == B.sizes[:-2] == pivots.sizes[:-1]
    if not (left and few and pivots.dtype is int32 and B.ndim > 1 and n and LU.sizes[-2] == n):
        return None
    if LU.dtype.scalar_name not in LIBRARY_DTYPES or B.dtype is not LU.dtype:
        return None
    if pivots.sizes[-1] != n or B.sizes[-2] != n or not B.numel:
        return None
    solve_one, spec = solver_of(char_of(LU)), in_columns(B.dtype, *B.sizes)
    if LU.ndim == 2:
        return HostCall((spec,), lambda lu, swapped, b: solve_one(lu, (swapped - 1).tolist(), b, adjoint))
    places, turned = list(np.ndindex(*B.sizes[:-2])), (*B.sizes[:-2], B.sizes[-1], n)
    char = char_of(B)

    def compute(lu: Any, swapped: Any, b: Any) -> Any:
        made = np.empty(turned, char).swapaxes(-1, -2)
        orders = swapped - 1
        for i in places:
            made[i] = solve_one(lu[i], orders[i].tolist(), b[i], adjoint)
        return made

    return HostCall((spec,), compute)


@host_kernel("lu_solve")
def lu_solve_of(B: TensorSpec, LU: TensorSpec, pivots: TensorSpec) -> HostCall | None:
    """`lu_solve` with the right-hand side first."""
    made = lu_solve(LU, pivots, B, True, False)
    if made is None:
        return None
    compute = made.compute
    return HostCall(made.outputs, lambda b, lu, swapped: compute(lu, swapped, b))


# Made of other factors.


@host_kernel("linalg_qr")
def qr(A: TensorSpec, mode: str) -> HostCall | None:
    """Q and R."""
    m, n = A.sizes if A.ndim == 2 else (0, 0)
    k = min(m, n)
    if not is_one(A) or not (mode == "reduced" or (mode == "complete" and k == m)):
        return None
    return HostCall((in_columns(A.dtype, m, k), in_columns(A.dtype, k, n)), qr_of(char_of(A), m, n))


@host_kernel("qr")
def qr_some(A: TensorSpec, some: bool) -> HostCall | None:
    """Q and R."""
    return qr(A, "reduced" if some else "complete")


@host_kernel("linalg_cholesky", "cholesky")
def cholesky(A: TensorSpec, upper: bool) -> HostCall | None:
    """One triangular factor."""
    if not is_square(A):
        return None
    factor = find_routine(char_of(A), "potrf")

    def compute(a: Any) -> Any:
        made, info = factor(a, not upper)
        if info or math.isnan(np.add.reduce(made.diagonal()).real):
            return None
        return made

    return HostCall((in_columns(A.dtype, *A.sizes),), compute)


@host_kernel("cholesky_solve")
def cholesky_solve(B: TensorSpec, L: TensorSpec, upper: bool) -> HostCall | None:
    """X of A X = B from one triangular factor of A."""
    if not is_square(L) or not is_one(L, B) or B.sizes[0] != L.sizes[0]:
        return None
    solve = find_routine(char_of(L), "potrs")
    return HostCall((in_columns(B.dtype, *B.sizes),), lambda b, factor: solve(factor, b, not upper)[0])


@host_kernel("triangular_solve")
def triangular_solve(
    B: TensorSpec, A: TensorSpec, upper: bool, transpose: bool, unitriangular: bool
) -> HostCall | None:
    """X of A X = B with one triangle of A, or with its transpose, and a copy of A."""
    if not is_square(A) or not is_one(A, B) or A.sizes[0] != B.sizes[0]:
        return None
    solve = find_routine(char_of(A), "trsm", module="blas")

    def compute(b: Any, a: Any) -> tuple[Any, Any]:
        return solve(1.0, a, b, 0, not upper, transpose, unitriangular), a.copy("F")

    return HostCall((in_columns(B.dtype, *B.sizes), in_columns(A.dtype, *A.sizes)), compute)


def _eigh(A: TensorSpec, vectors: bool, uplo: str) -> Callable[[Any], tuple[Any, Any] | None] | None:
    """What finds eigenvalues, and eigenvectors if asked for; gives None for a matrix of which LAPACK finds none."""
    if not is_square(A) or uplo.upper() not in ("L", "U"):
        return None
    solve = eigh_of(char_of(A), A.sizes[0], vectors, uplo.upper() == "U")

    def compute(a: Any) -> tuple[Any, Any] | None:
        values, made, info = solve(a)
        # Of a matrix that is not finite the sum is not either.
        return None if info or not math.isfinite(np.add.reduce(values)) else (values, made)

    return compute


@host_kernel("linalg_eigh")
def eigh(A: TensorSpec, UPLO: str) -> HostCall | None:
    """Eigenvalues and eigenvectors of a Hermitian matrix."""
    find = _eigh(A, True, UPLO)
    outputs = (in_rows(real_of(A.dtype), *A.sizes[:1]), in_columns(A.dtype, *A.sizes))
    return None if find is None else HostCall(outputs, find)


@host_kernel("linalg_eigvalsh")
def eigvalsh(A: TensorSpec, UPLO: str) -> HostCall | None:
    """Eigenvalues of a Hermitian matrix."""
    find = _eigh(A, False, UPLO)
    if find is None:
        return None

    def compute(a: Any) -> Any:
        made = find(a)
        return None if made is None else made[0]

    return HostCall((in_rows(real_of(A.dtype), A.sizes[0]),), compute)


def _svd(A: TensorSpec, full: bool, vectors: bool) -> Callable[[Any], tuple[Any, Any, Any] | None] | None:
    """What finds U, singular values and V^H; gives None for a matrix that is not finite."""
    if not is_one(A):
        return None
    solve = svd_of(char_of(A), *A.sizes, full, vectors)

    def compute(a: Any) -> tuple[Any, Any, Any] | None:
        if not is_finite(a):
            return None
        u, s, vh, info = solve(a)
        return None if info else (u, s, vh)

    return compute


def _bases(A: TensorSpec, full: bool) -> tuple[TensorSpec, TensorSpec, TensorSpec]:
    """The specs of U, singular values and V^H."""
    (m, n), k = A.sizes, min(A.sizes)
    return (
        in_columns(A.dtype, m, m if full else k),
        in_rows(real_of(A.dtype), k),
        in_columns(A.dtype, n if full else k, n),
    )


@host_kernel("linalg_svd")
def svd(A: TensorSpec, full_matrices: bool, driver: str | None) -> HostCall | None:
    """U, singular values and V^H."""
    find = _svd(A, full_matrices, True)
    return None if find is None or driver is not None else HostCall(_bases(A, full_matrices), find)


@host_kernel("svd")
def svd_some(A: TensorSpec, some: bool, compute_uv: bool) -> HostCall | None:
    """U, singular values and V."""
    find = _svd(A, not some, True)
    if find is None or not compute_uv:
        return None
    u, s, vh = _bases(A, not some)
    is_complex = A.dtype.is_complex

    def compute(a: Any) -> tuple[Any, Any, Any] | None:
        made = find(a)
        if made is None:
            return None
        turned = made[2].T
        return made[0], made[1], turned.conj() if is_complex else turned

    return HostCall((u, s, in_rows(A.dtype, *vh.sizes[::-1])), compute)


def _values(A: TensorSpec, hermitian: bool) -> Callable[[Any], Any] | None:
    """What finds singular values, descending, or the eigenvalues of a Hermitian matrix, ascending."""
    find: Any = _eigh(A, False, "L") if hermitian else _svd(A, False, False)
    if find is None:
        return None
    place = 0 if hermitian else 1

    def compute(a: Any) -> Any:
        made = find(a)
        return None if made is None else made[place]

    return compute


@host_kernel("linalg_svdvals")
def svdvals(A: TensorSpec, driver: str | None) -> HostCall | None:
    """Singular values."""
    find = _values(A, False)
    if find is None or driver is not None:
        return None
    return HostCall((in_rows(real_of(A.dtype), min(A.sizes)),), find)


def _relative(A: TensorSpec) -> float:
    """The tolerance beside the largest singular value where none is given."""
    return finfo(real_of(A.dtype)).eps * max(A.sizes)


@host_kernel("linalg_matrix_rank")
def matrix_rank(A: TensorSpec, atol: Any, rtol: Any, hermitian: bool) -> HostCall | None:
    """How many singular values exceed the tolerance."""
    find = _values(A, hermitian) if atol is None and rtol is None else None
    if find is None:
        return None
    char, tolerance = in_rows(real_of(A.dtype)).np_dtype.type, _relative(A)

    def compute(a: Any, *_: None) -> Any:
        values = find(a)
        if values is None:
            return None
        sizes = [abs(value) for value in values.tolist()]
        least = float(char(tolerance * max(sizes)))
        return np.array(sum([size > least for size in sizes]), np.int64)

    return HostCall((in_rows(int64),), compute)


@host_kernel("linalg_cond")
def cond(A: TensorSpec, p: Any) -> HostCall | None:
    """The largest singular value over the smallest."""
    find = _values(A, False) if p is None else None
    if find is None:
        return None

    def compute(a: Any, _: None) -> Any:
        values = find(a)
        return None if values is None else np.divide(values[0], values[-1], out=np.empty((), values.dtype))

    return HostCall((in_rows(real_of(A.dtype)),), compute)


@host_kernel("linalg_pinv", "pinverse")
def pinv(A: TensorSpec, *how: Any) -> HostCall | None:
    """The pseudo-inverse with the default tolerance, or that of `pinverse`."""
    hermitian = False
    if len(how) == 3:
        atol, rtol, hermitian = how
        if atol is not None or rtol is not None:
            return None
    find: Any = _eigh(A, True, "L") if hermitian else _svd(A, False, True)
    if find is None:
        return None
    tolerance = _relative(A)
    dtype = in_rows(real_of(A.dtype)).np_dtype
    is_complex = A.dtype.is_complex

    def compute(a: Any, rcond: float | None, *_: None) -> Any:
        made = find(a)
        if made is None:
            return None
        if hermitian:
            values, right = made
            left, sizes = right.T, np.abs(values)
        else:
            u, values, vh = made
            left, right, sizes = u.T, vh.T, values
        if is_complex:
            left, right = left.conj(), right if hermitian else right.conj()
        least = dtype.type(tolerance if rcond is None else rcond) * sizes.max()
        inverse = np.where(sizes > least, np.reciprocal(values), dtype.type(0))
        return np.dot(right * inverse, left)

    return HostCall((in_rows(A.dtype, A.sizes[1], A.sizes[0]),), compute)


@host_kernel("linalg_ldl_factor")
def ldl_factor(A: TensorSpec, hermitian: bool) -> HostCall | None:
    """L and D in one matrix, and the interchanges."""
    if not is_square(A):
        return None
    char, n = char_of(A), A.sizes[0]
    name = "hetrf" if hermitian and A.dtype.is_complex else "sytrf"
    factor = find_routine(char, "sytrf", name)
    lwork = int(find_routine(char, "sytrf_lwork", f"{name}_lwork")(n, lower=1)[0].real)
    kept, zero = np.tri(n, dtype=bool).T, np.zeros((), char)

    def compute(a: Any) -> tuple[Any, Any] | None:
        made, pivots, info = factor(a, 1, lwork)
        return None if info else (np.where(kept, made.T, zero).T, pivots)

    return HostCall((in_columns(A.dtype, n, n), in_rows(int32, n)), compute)


@host_kernel("linalg_lstsq")
def lstsq(A: TensorSpec, B: TensorSpec, rcond: Any, driver: str | None) -> HostCall | None:
    """The solution by ``gels`` of a few matrices that are as long as they are wide, or less."""
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
    places, turned = list(np.ndindex(*batch)), (*batch, columns, n)
    real = in_rows(real_of(A.dtype), 0)

    def compute(a: Any, b: Any, _: None) -> tuple[Any, ...] | None:
        made = np.zeros(turned, char).swapaxes(-1, -2)
        made[..., :m, :] = b
        if not (is_finite(a) and is_finite(b)):
            return None
        for i in places:
            _, made[i], info = solve(a[i], made[i], lwork=lwork)
            if info:
                return None
        return made, np.empty(0, real.np_dtype), np.empty(0, np.int64), np.empty(0, real.np_dtype)

    return HostCall((in_columns(A.dtype, *batch, n, columns), real, in_rows(int64, 0), real), compute)


@host_kernel("linalg_matrix_power")
def matrix_power(A: TensorSpec, n: int) -> HostCall | None:
    """The product of a matrix with itself, by repeated squares."""
    if not is_square(A) or n < 0:
        return None
    if n == 0:
        if not A.is_contiguous:
            return None
        whole = np.eye(A.sizes[0], dtype=char_of(A))
        return HostCall((in_rows(A.dtype, *A.sizes),), lambda a: whole.copy())
    if n == 1:
        return None

    def compute(a: Any) -> Any:
        result, square, left = None, a, n
        while left:
            if left & 1:
                result = square if result is None else result.dot(square)
            left >>= 1
            if left:
                square = square.dot(square)
        return result

    return HostCall((in_rows(A.dtype, *A.sizes),), compute)
