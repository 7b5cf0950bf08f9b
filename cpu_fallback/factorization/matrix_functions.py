"""Host kernels of numbers and matrices that are made of a matrix's spectrum or of its products.

The composites are in `dispatch/composite/matrix_functions.py`.
"""

from __future__ import annotations

from typing import Any

from ...dispatch.structured.stub import HostKernel, by_arguments, register_stub
from ...runtime.scalar_type import finfo, int64
from ...runtime.tensor_spec import TensorSpec
from ..plain_numpy import np
from .batches import FEWER, over_batch
from .matrix_specs import char_of, in_rows, is_square
from .spectra import eigh_finder, svd_finder, values_finder


def _relative(A: TensorSpec) -> float:
    """Return the default tolerance relative to the largest singular value."""
    return finfo(A.dtype.to_real()).eps * max(A.sizes)


def matrix_rank(A: TensorSpec, atol: Any, rtol: Any, hermitian: bool) -> HostKernel | None:
    """Count the singular values that exceed the tolerance."""
    find = values_finder(A, hermitian) if atol is None and rtol is None else None
    if find is None:
        return None
    char, tolerance = in_rows(A.dtype.to_real()).np_dtype.type, _relative(A)

    def compute(a: Any, *_: None) -> Any:
        values = find(a)
        if values is None:
            return None
        sizes = [abs(value) for value in values.tolist()]
        least = float(char(tolerance * max(sizes)))
        return np.array(sum([size > least for size in sizes]), np.int64)

    return HostKernel((in_rows(int64),), compute)


def cond(A: TensorSpec, p: Any) -> HostKernel | None:
    """Compute the ratio of the largest to the smallest singular value."""
    find = values_finder(A, False) if p is None else None
    if find is None:
        return None

    def compute(a: Any, _: None) -> Any:
        values = find(a)
        return None if values is None else np.divide(values[0], values[-1], out=np.empty((), values.dtype))

    return HostKernel((in_rows(A.dtype.to_real()),), compute)


def pinv(A: TensorSpec, *how: Any) -> HostKernel | None:
    """Compute the pseudo-inverse with the default tolerance, or with that of `pinverse`."""
    hermitian = False
    if len(how) == 3:
        atol, rtol, hermitian = how
        if atol is not None or rtol is not None:
            return None
    find: Any = eigh_finder(A, True, "L") if hermitian else svd_finder(A, False, True)
    if find is None:
        return None
    tolerance = _relative(A)
    dtype = in_rows(A.dtype.to_real()).np_dtype
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

    return HostKernel((in_rows(A.dtype, A.sizes[1], A.sizes[0]),), compute)


def matrix_power(A: TensorSpec, n: int) -> HostKernel | None:
    """Compute an integer power of a matrix by repeated squaring."""
    if not is_square(A) or n < 0:
        return None
    if n == 0:
        if not A.is_contiguous:
            return None
        whole = np.eye(A.sizes[0], dtype=char_of(A))
        return HostKernel((in_rows(A.dtype, *A.sizes),), lambda a: whole.copy())
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

    return HostKernel((in_rows(A.dtype, *A.sizes),), compute)


HOST_KERNELS = {
    "linalg_cond": over_batch(cond, few=FEWER),
    "linalg_matrix_power": over_batch(matrix_power),
    "linalg_matrix_rank": over_batch(matrix_rank, few=FEWER),
    "linalg_pinv": over_batch(pinv, few=FEWER),
    "pinverse": over_batch(pinv, few=FEWER),
}

for _name, _factory in HOST_KERNELS.items():
    register_stub(f"{_name}_host_stub", "cpu", by_arguments(_factory))
