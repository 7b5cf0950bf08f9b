"""Host kernels of what is made of L and U: determinants, inverses, solutions.

The composites are in `dispatch/composite/factorization.py` and `matrix_functions.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...dispatch.structured.library_routine import check_pivots
from ...dispatch.structured.stub import HostKernel, by_arguments, register_stub
from ...runtime.device import CPU
from ...runtime.lapack import find_routine
from ...runtime.memory_format import contiguous_strides
from ...runtime.scalar_type import int32
from ...runtime.tensor_spec import TensorSpec
from ..plain_numpy import np
from .batches import SMALL, over_batch
from .matrix_specs import INFO, char_of, flag, in_columns, in_rows, is_one, is_square
from .one_matrix import permutation, solver_of, unpack_into, unpacker_of


def lu_factor(A: TensorSpec, pivot: bool, check_errors: bool | None = None) -> HostKernel | None:
    """Compute L and U in one matrix, the rows interchanged and, of a flag, LAPACK's `info`."""
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
    return HostKernel((*outputs, INFO) if has_info else outputs, compute)


def lu(A: TensorSpec, pivot: bool) -> HostKernel | None:
    """Compute P, L and U."""
    if not is_one(A) or not pivot:
        return None
    (m, n), char = A.sizes, char_of(A)
    factor, k = find_routine(char, "getrf"), min(A.sizes)
    unpack = unpacker_of(char, *(A.sizes if A.numel <= SMALL else (1, 1)))

    def compute(a: Any) -> tuple[Any, ...]:
        packed, pivots, _ = factor(a)
        return (permutation(pivots.tolist(), m, char), *unpack(packed))

    def into(P: Any, L: Any, U: Any, a: Any) -> None:
        packed, pivots, _ = factor(a)
        unpack_into(L, U, P, packed, pivots.tolist())

    outputs = in_rows(A.dtype, m, m), in_rows(A.dtype, m, k), in_rows(A.dtype, k, n)
    return HostKernel(outputs, None if A.numel > SMALL else compute, into)


def given_pivots(name: str, pivots: Any, rows: int) -> list[int]:
    """Return a user's pivots as 0-based indices; raise RuntimeError for pivots outside the matrix."""
    numbers: list[int] = pivots.tolist()
    if numbers:
        check_pivots(name, min(numbers), max(numbers), rows)
    return [i - 1 for i in numbers]


def lu_unpack(LU: TensorSpec, pivots: TensorSpec, data: bool, permuted: bool) -> HostKernel | None:
    """Compute P, L and U from `lu_factor`'s results."""
    (m, n), k = LU.sizes if LU.ndim == 2 else (0, 0), min(LU.sizes, default=0)
    if not (is_one(LU) and data and permuted and pivots.dtype is int32 and pivots.sizes == (k,)):
        return None
    char = char_of(LU)
    unpack = unpacker_of(char, *(LU.sizes if LU.numel <= SMALL else (1, 1)))

    def compute(packed: Any, value: Any) -> tuple[Any, ...]:
        return (permutation(given_pivots("lu_unpack", value, m), m, char), *unpack(packed))

    def into(P: Any, L: Any, U: Any, packed: Any, value: Any) -> None:
        unpack_into(L, U, P, packed, given_pivots("lu_unpack", value, m))

    outputs = in_rows(LU.dtype, m, m), in_rows(LU.dtype, m, k), in_rows(LU.dtype, k, n)
    return HostKernel(outputs, None if LU.numel > SMALL else compute, into)


def sign_of(pivots: list[int]) -> int:
    """Return the sign of the permutation that the row interchanges make."""
    return -1 if sum([i != j for i, j in enumerate(pivots)]) & 1 else 1


def factors_of(A: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
    """Return the specs of LU and pivots."""
    return in_columns(A.dtype, *A.sizes), in_rows(int32, A.sizes[0])


def det_with_factors(A: TensorSpec) -> HostKernel | None:
    """Compute the determinant, LU and pivots."""
    if not is_square(A):
        return None
    factor, char = find_routine(char_of(A), "getrf"), char_of(A)

    def compute(a: Any) -> tuple[Any, ...]:
        lu, pivots, _ = factor(a)
        made = np.array(math.prod(lu.diagonal().tolist(), start=sign_of(pivots.tolist())), char)
        pivots += 1
        return made, lu, pivots

    return HostKernel((in_rows(A.dtype), *factors_of(A)), compute)


def det(A: TensorSpec) -> HostKernel | None:
    """Compute the determinant."""
    if not is_square(A):
        return None
    factor, char = find_routine(char_of(A), "getrf"), char_of(A)

    def compute(a: Any) -> Any:
        lu, pivots, _ = factor(a)
        return np.array(math.prod(lu.diagonal().tolist(), start=sign_of(pivots.tolist())), char)

    return HostKernel((in_rows(A.dtype),), compute)


def _sign_and_log(char: str) -> Callable[[Any], tuple[float, float]]:
    """Return a function that computes a real matrix's determinant as sign and logarithm."""
    factor = find_routine(char, "getrf")

    def compute(a: Any) -> tuple[float, float]:
        lu, pivots, _ = factor(a)
        sign: float = sign_of(pivots.tolist())
        log = 0.0
        for value in lu.diagonal().tolist():
            sign *= (value > 0) - (value < 0)
            log += math.log(abs(value)) if value else -math.inf
        return sign, log

    return compute


def logdet(A: TensorSpec) -> HostKernel | None:
    """Compute the logarithm of the determinant; NaN if it is negative."""
    if not is_square(A) or A.dtype.is_complex:
        return None
    char = char_of(A)
    find = _sign_and_log(char)

    def compute(a: Any) -> Any:
        sign, log = find(a)
        return np.array(math.nan if sign == -1 else log, char)

    return HostKernel((in_rows(A.dtype),), compute)


def slogdet(A: TensorSpec) -> HostKernel | None:
    """Compute the determinant's sign, and the logarithm of its absolute value."""
    if not is_square(A) or A.dtype.is_complex:
        return None
    char = char_of(A)
    find = _sign_and_log(char)

    def compute(a: Any) -> tuple[Any, Any]:
        sign, log = find(a)
        return np.array(sign, char), np.array(log, char)

    return HostKernel((in_rows(A.dtype), in_rows(A.dtype)), compute)


def inv_ex(A: TensorSpec, check_errors: bool) -> HostKernel | None:
    """Compute the inverse, and the index of the first zero on U's diagonal."""
    if not is_square(A):
        return None
    solve, whole = find_routine(char_of(A), "gesv"), np.asfortranarray(np.eye(A.sizes[0], dtype=char_of(A)))

    def compute(a: Any) -> tuple[Any, Any]:
        _, _, inverse, info = solve(a, whole)
        if info:
            return None
        return inverse, flag(info)

    return HostKernel((in_columns(A.dtype, *A.sizes), INFO), compute)


def inv(A: TensorSpec) -> HostKernel | None:
    """Compute the inverse."""
    if not is_square(A):
        return None
    solve, whole = find_routine(char_of(A), "gesv"), np.asfortranarray(np.eye(A.sizes[0], dtype=char_of(A)))

    def compute(a: Any) -> Any:
        _, _, inverse, info = solve(a, whole)
        if info:
            return None
        return inverse

    return HostKernel((in_columns(A.dtype, *A.sizes),), compute)


def _right(A: TensorSpec, B: TensorSpec, left: bool) -> TensorSpec | None:
    """Return the spec of the solution of A X = B, or None for calls that the composite serves."""
    if not left or not is_square(A) or B.dtype is not A.dtype or not B.numel or B.ndim not in (1, 2):
        return None
    if B.sizes[0] != A.sizes[0]:
        return None
    return in_rows(B.dtype, *B.sizes) if B.ndim == 1 else in_columns(B.dtype, *B.sizes)


def _solution(
    A: TensorSpec, B: TensorSpec, left: bool, pick: Callable[..., Any], *other_specs: TensorSpec
) -> HostKernel | None:
    """Return the kernel that solves A X = B; its results are what `pick` selects of X, LU and pivots."""
    spec = _right(A, B, left)
    if spec is None:
        return None
    solve, is_vector = find_routine(char_of(A), "gesv"), B.ndim == 1

    def compute(a: Any, b: Any) -> Any:
        lu, pivots, x, info = solve(a, b[:, None] if is_vector else b)
        return None if info else pick(x[:, 0] if is_vector else x, lu, pivots)

    return HostKernel((spec, *other_specs), compute)


def solve_with_factors(A: TensorSpec, B: TensorSpec, left: bool, check_errors: bool) -> HostKernel | None:
    """Compute X of A X = B, LU, pivots and the first zero of U's diagonal."""
    if not is_square(A):
        return None

    def pick(x: Any, lu: Any, pivots: Any) -> tuple[Any, ...]:
        pivots += 1
        return x, lu, pivots, flag(0)

    return _solution(A, B, left, pick, *factors_of(A), INFO)


def solve_ex(A: TensorSpec, B: TensorSpec, left: bool, check_errors: bool) -> HostKernel | None:
    """Compute X of A X = B, and the first zero of U's diagonal."""
    return _solution(A, B, left, lambda x, lu, pivots: (x, flag(0)), INFO)


def solve(A: TensorSpec, B: TensorSpec, left: bool) -> HostKernel | None:
    """Compute X of A X = B."""
    return _solution(A, B, left, lambda x, lu, pivots: x)


def tensorinv(A: TensorSpec, ind: int) -> HostKernel | None:
    """Compute the inverse of the matrix from the last dimensions to the first `ind`."""
    n = math.prod(A.sizes[:ind]) if ind > 0 else 0
    if not A.is_contiguous or n * n != A.numel or ind > A.ndim:
        return None
    made = inv(in_rows(A.dtype, n, n))
    if made is None:
        return None
    sizes = (*A.sizes[ind:], *A.sizes[:ind])
    # The strides that a view of the inverse's columns has.
    strides = [n * step for step in contiguous_strides(A.sizes[:ind])]
    spec = TensorSpec.of(sizes, (*contiguous_strides(A.sizes[ind:]), *strides), A.dtype, CPU)
    char = char_of(A)
    invert, whole = find_routine(char, "gesv"), np.asfortranarray(np.eye(n, dtype=char))

    def compute(a: Any) -> Any:
        _, _, inverse, info = invert(a.reshape(n, n), whole)
        if info:
            return None
        return inverse.reshape(sizes)

    return HostKernel((spec,), compute)


def tensorsolve(A: TensorSpec, B: TensorSpec, dims: Any) -> HostKernel | None:
    """Compute X of the matrix from the last dimensions to those of B."""
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

    return HostKernel((in_rows(A.dtype, *inner),), compute)


def lu_solve(
    LU: TensorSpec, pivots: TensorSpec, B: TensorSpec, left: bool, adjoint: bool
) -> HostKernel | None:
    """Compute X of A X = B, or of A^H X = B, from the factors of A."""
    if not (left and is_square(LU) and is_one(LU, B) and pivots.dtype is int32):
        return None
    n = LU.sizes[0]
    if pivots.sizes != (n,) or B.sizes[0] != n:
        return None
    solve_one = solver_of(char_of(LU))

    def compute(lu: Any, swapped: Any, b: Any) -> Any:
        return solve_one(lu, given_pivots("linalg.lu_solve", swapped, n), b, adjoint)

    return HostKernel((in_columns(B.dtype, *B.sizes),), compute)


def lu_solve_of(B: TensorSpec, LU: TensorSpec, pivots: TensorSpec) -> HostKernel | None:
    """Solve as `lu_solve` does, with the right-hand side first."""
    made = lu_solve(LU, pivots, B, True, False)
    if made is None:
        return None
    compute = made.fresh
    return HostKernel(made.outputs, lambda b, lu, swapped: compute(lu, swapped, b))


HOST_KERNELS = {
    "_linalg_det": over_batch(det_with_factors),
    "_linalg_solve_ex": over_batch(solve_with_factors),
    "_lu_with_info": over_batch(lu_factor),
    "linalg_det": over_batch(det),
    "linalg_inv": over_batch(inv),
    "linalg_inv_ex": over_batch(inv_ex),
    "linalg_lu": over_batch(lu),
    "linalg_lu_factor": over_batch(lu_factor),
    "linalg_lu_solve": over_batch(lu_solve, 2, 1, 2),
    "linalg_slogdet": over_batch(slogdet),
    "linalg_solve": over_batch(solve),
    "linalg_solve_ex": over_batch(solve_ex),
    "linalg_tensorinv": tensorinv,
    "linalg_tensorsolve": tensorsolve,
    "logdet": over_batch(logdet),
    "lu_solve": over_batch(lu_solve_of, 2, 2, 1),
    "lu_unpack": over_batch(lu_unpack, 2, 1),
    "slogdet": over_batch(slogdet),
}

for _name, _factory in HOST_KERNELS.items():
    register_stub(f"{_name}_host_stub", "cpu", by_arguments(_factory))
