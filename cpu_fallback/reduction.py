"""Reductions. Sums have pairwise error along any axis; narrow floats accumulate in float32."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from .error_state import IGNORE, reset_state, set_state
from .widen import compute_np

BLOCK = 128
"""Rows that NumPy adds one after another where the reduced axis is not the innermost one."""


def pairwise_sum(array: Any, axes: tuple[int, ...], np_dtype: Any) -> Any:
    """The sum over `axes`, which stay as size 1, in `np_dtype`.

    NumPy adds pairwise only along the fastest axis; along another one blocks of rows are added first, and
    their sums again, so that the error grows with the logarithm there too.
    """
    order = sorted(axes, key=lambda a: array.strides[a])
    for axis in order:
        array = _sum_axis(array, axis, np_dtype)
    return array if array.dtype == np_dtype else array.astype(np_dtype)


def _sum_axis(array: Any, axis: int, np_dtype: Any) -> Any:
    size = array.shape[axis]
    inner = all(
        array.shape[a] == 1 or a == axis or array.strides[a] >= array.strides[axis] for a in range(array.ndim)
    )
    if inner or size <= BLOCK or np_dtype.kind not in "fc":
        return np.add.reduce(array, axis=axis, dtype=np_dtype, keepdims=True)
    whole = size // BLOCK * BLOCK
    index = [slice(None)] * array.ndim
    index[axis] = slice(0, whole)
    head = array[tuple(index)]
    shape = (*head.shape[:axis], whole // BLOCK, BLOCK, *head.shape[axis + 1 :])
    strides = (
        *head.strides[:axis],
        head.strides[axis] * BLOCK,
        head.strides[axis],
        *head.strides[axis + 1 :],
    )
    blocks = np.lib.stride_tricks.as_strided(head, shape, strides)
    total = _sum_axis(np.add.reduce(blocks, axis=axis + 1, dtype=np_dtype), axis, np_dtype)
    if whole < size:
        index[axis] = slice(whole, size)
        total = total + np.add.reduce(array[tuple(index)], axis=axis, dtype=np_dtype, keepdims=True)
    return total


def sum_(call: StructuredCall) -> PlannedKernel:
    """The sum over the plan's dimensions."""
    spec = call.args["self"]
    out_spec = call.outputs[0]
    dims: tuple[int, ...] = call.extra["dims"]
    np_dtype = compute_np(out_spec.dtype)
    sizes = out_spec.sizes
    reduce = np.add.reduce
    if (
        spec.is_contiguous
        and len(dims) == spec.ndim
        and spec.np_dtype == np_dtype
        and out_spec.np_dtype == np_dtype
    ):

        def whole(out: Any, array: Any) -> None:
            token = set_state(IGNORE)
            try:
                reduce(array.reshape(-1), None, None, out.reshape(()))
            finally:
                reset_state(token)

        return PlannedKernel(whole)

    def into(out: Any, array: Any) -> None:
        token = set_state(IGNORE)
        try:
            np.copyto(out, pairwise_sum(array, dims, np_dtype).reshape(sizes), casting="unsafe")
        finally:
            reset_state(token)

    return PlannedKernel(into)


register_stub("sum_stub", "cpu", sum_)
