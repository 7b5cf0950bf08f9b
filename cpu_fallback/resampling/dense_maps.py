"""Linear maps along the dimensions of small arrays as matmuls, which take BLAS a call or two.

A matmul also multiplies by zero the elements that a result does not depend on. Arrays with an infinity, a
NaN, or values whose squares overflow therefore use the kernel that gathers taps one by one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from ...dispatch.structured.stub import PlannedKernel
from ...runtime.tensor_spec import TensorSpec
from ..plain_numpy import np

Array = np.ndarray[Any, Any]

SMALL = 1 << 12
"""Elements of an input and of a result up to which products are the quicker way."""
JOINED = 1 << 16
"""Multiplications up to which one matrix serves all dimensions."""
REAL = (np.dtype(np.float32), np.dtype(np.float64))


def joined(lead: int, matrices: Sequence[Array], np_dtype: np.dtype[Any]) -> Callable[[Array], Array] | None:
    """Return the map of a line of all elements by one matrix for all dimensions, or None if it is too large."""
    area, out = (math.prod(m.shape[side] for m in matrices) for side in (0, 1))
    if lead * area * out > JOINED or out * area > JOINED:
        return None
    matrix = reduce(np.kron, matrices).astype(np_dtype)
    shape = (lead, area)
    return lambda line: line.reshape(shape).dot(matrix)


def one_by_one(lead: int, matrices: Sequence[Array], np_dtype: np.dtype[Any]) -> Callable[[Array], Array]:
    """Return the map of a line of all elements, one dimension after another, the last one first."""
    *outer, last = [m.astype(np_dtype) for m in matrices]
    sizes = [m.shape[0] for m in outer]
    innermost = (-1, len(last))
    steps = []
    behind = last.shape[1]
    for i in range(len(outer) - 1, -1, -1):
        ahead = lead * math.prod(sizes[:i])
        matrix = np.ascontiguousarray(outer[i].T)
        steps.append(((ahead, sizes[i], behind), matrix))
        behind *= matrix.shape[0]

    def apply(line: Array) -> Array:
        made = line.reshape(innermost).dot(last)
        for shape, matrix in steps:
            made = np.matmul(matrix, made.reshape(shape))
        return made

    return apply


def mapped(
    spec: TensorSpec,
    out: TensorSpec,
    matrices: Sequence[Array],
    np_dtype: np.dtype[Any],
    general: Callable[[Any, Any], None],
    divisors: Array | None = None,
    exact: bool = False,
) -> PlannedKernel | None:
    """Return the kernel that maps the last dimensions of a small array by a matrix (n, out) each, or None for
    others.

    Args:
        np_dtype: Compute dtype.
        general: the kernel for arrays with elements that are not finite.
        divisors: Divisors of the results of a plane.
        exact: If True, products of the matrices' elements are exact, so that one matrix serves for all.
    """
    if np_dtype not in REAL or not 0 < spec.numel <= SMALL or not 0 < out.numel <= SMALL:
        return None
    lead = math.prod(spec.sizes[: -len(matrices)])
    apply = joined(lead, matrices, np_dtype) if exact or len(matrices) == 1 else None
    if apply is None:
        apply = one_by_one(lead, matrices, np_dtype)
    product = apply
    sizes, out_np = out.sizes, out.np_dtype
    widens, narrows = spec.np_dtype != np_dtype, out_np != np_dtype
    divisor_row = None if divisors is None else np.ascontiguousarray(divisors, np_dtype).reshape(-1)
    planes = (lead, -1)

    def fresh(array: Any, *_: None) -> Any:
        line = array.astype(np_dtype).ravel() if widens else array.ravel()
        if not line.dot(line) < math.inf:
            made = np.empty(sizes, out_np)
            general(made, array)
            return made
        made = product(line)
        if divisor_row is not None:
            rows = made if made.ndim == 2 else made.reshape(planes)
            np.divide(rows, divisor_row, rows)
        return made.reshape(sizes).astype(out_np) if narrows else made.reshape(sizes)

    return PlannedKernel(lambda grad_input, array, *_: np.copyto(grad_input, fresh(array)), fresh, quiet=True)
