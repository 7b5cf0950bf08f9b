"""How numbers are added: pairwise along every axis, by the quickest calls of NumPy that are as exact."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...dispatch.structured.stub import PlannedKernel
from ...runtime import blas_threads
from ...runtime.scalar_type import bfloat16
from ...runtime.tensor_spec import TensorSpec
from ..normalization.moments import CHUNK, ones
from ..plain_numpy import np
from ..widen import NARROW
from .blocks import SHORT_ROW
from .line_reductions import adds_lines, bfloat16_line_sums, line_sums

BLOCK = 128
"""Rows that NumPy adds one after another where the reduced axis is not the innermost one."""
SMALL = CHUNK
"""Limit below which a matmul with ones is the fastest sum; BLAS adds the elements in many partial sums."""
SMALL_MATRIX = 1 << 13
"""The same for sums over some dimensions: of more elements BLAS might share the work among threads."""
PRODUCTS = (np.dtype(np.float32), np.dtype(np.float64))
"""The dtypes of BLAS."""
SHORTEST_ROW = 16
"""Elements of the shortest rows that BLAS adds in vectors."""
SHORTEST = 16
"""Elements of the shortest lines that are added one by one."""
READ_SHARED = 32 << 20
"""Bytes from which the reading itself is shared among threads."""


def pairwise_sum(array: Any, axes: tuple[int, ...], np_dtype: Any) -> Any:
    """Sum over `axes`, which stay as size 1, in `np_dtype`.

    NumPy adds pairwise only along the fastest axis. Along other axes, this function adds blocks of rows
    first, and then their sums, so that the error grows with the logarithm there too.
    """
    if np_dtype.kind in "iu" and array.dtype.kind not in "iub":
        array = array.astype(np_dtype)
    order = sorted(axes, key=lambda a: array.strides[a])
    for axis in order:
        array = _sum_axis(array, axis, np_dtype)
    return array if array.dtype == np_dtype else array.astype(np_dtype)


def _sum_axis(array: Any, axis: int, np_dtype: Any) -> Any:
    if adds_lines(array, axis, np_dtype):
        return line_sums(array)[..., None]
    size = array.shape[axis]
    if array.dtype == np_dtype and np_dtype in PRODUCTS and size and _lies_in_rows(array, axis):
        lead, rest = array.shape[:axis], array.shape[axis + 1 :]
        return row_sums(array.reshape(*lead, size, math.prod(rest))).reshape(*lead, 1, *rest)
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


def _lies_in_rows(array: Any, axis: int) -> bool:
    """Return True if an axis is a stack of contiguous rows that are long enough for `row_sums`."""
    if axis == array.ndim - 2:
        return bool(array.strides[-1] == array.itemsize and array.shape[-1] >= SHORTEST_ROW)
    return bool(array.flags.c_contiguous and math.prod(array.shape[axis + 1 :]) >= SHORTEST_ROW)


def row_sums(rows: Any) -> Any:
    """Sum contiguous rows of float32 or float64, from [..., n, length] to [..., length].

    The sum is a matmul with ones: BLAS adds several rows at a time, in a third of the time of
    ``np.add.reduce``.

    Example:
        >>> import numpy as np
        >>> row_sums(np.full((300, 2), 0.5, np.float32))
        array([150., 150.], dtype=float32)
    """
    count, length = rows.shape[-2:]
    if min(count, BLOCK) * length <= SMALL_MATRIX:
        return _row_sums(rows)
    threads = blas_threads.numpy_threads()
    try:
        blas_threads.hold(threads)
        return _row_sums(rows)
    finally:
        blas_threads.restore(threads)


def _row_sums(rows: Any) -> Any:
    count, length = rows.shape[-2:]
    if count <= BLOCK:
        return np.matmul(ones(count, rows.dtype), rows)
    whole = count // BLOCK * BLOCK
    blocks = rows[..., :whole, :].reshape(*rows.shape[:-2], -1, BLOCK, length)
    total = _row_sums(np.matmul(ones(BLOCK, rows.dtype), blocks))
    if whole < count:
        total += np.matmul(ones(count - whole, rows.dtype), rows[..., whole:, :])
    return total


def sum_of_rows(spec: TensorSpec, dims: tuple[int, ...], np_dtype: Any) -> Callable[[Any], Any] | None:
    """Return the sum over adjacent dimensions by `row_sums`, [..., length], or None for other and small calls.

    Tensors of up to `SMALL_MATRIX` elements are one matmul, or ``np.add.reduce`` is as fast. Blocks of a
    larger tensor that have all reduced dimensions are summed the same way.
    """
    if not adds_rows(spec, dims, np_dtype):
        return None
    first, count = dims[0], count_of(spec, dims)
    return lambda array: row_sums(array.reshape(*array.shape[:first], count, -1))


def adds_rows(spec: TensorSpec, dims: tuple[int, ...], np_dtype: Any) -> bool:
    """Return True if `sum_of_rows` serves the call."""
    if spec.np_dtype != np_dtype or np_dtype not in PRODUCTS or not spec.is_contiguous:
        return False
    if not dims or dims != tuple(range(dims[0], dims[-1] + 1)) or spec.numel <= SMALL_MATRIX:
        return False
    return math.prod(spec.sizes[dims[-1] + 1 :]) >= SHORTEST_ROW


def kept_sum(spec: TensorSpec, dims: tuple[int, ...], np_dtype: Any) -> Callable[[Any], Any]:
    """Return `pairwise_sum` for arrays of this geometry: one NumPy call if that is as accurate."""
    if adds_directly(spec, dims, np_dtype) and not is_of_lines(spec, dims, np_dtype):
        axes = dims[0] if len(dims) == 1 else dims
        reduce: Any = np.add.reduce
        return lambda array: reduce(array, axes, np_dtype, None, True)
    if is_of_lines(spec, dims, np_dtype):
        return lambda array: line_sums(array)[..., None]
    rows = sum_of_rows(spec, dims, np_dtype)
    if rows is not None:
        ones_there = (1,) * len(dims)
        first, last = dims[0], dims[-1] + 1
        return lambda array: rows(array).reshape(*array.shape[:first], *ones_there, *array.shape[last:])
    return lambda array: pairwise_sum(array, dims, np_dtype)


def lines_first(spec: TensorSpec, dims: tuple[int, ...], np_dtype: Any) -> Callable[[Any], Any] | None:
    """Plan sums over planes and an outer dimension, such as a bias gradient: the last dimensions first, then the rest.

    None where lines are short, or so much is read that sharing it among threads is quicker.
    """
    trailing = next((i for i in range(spec.ndim) if spec.ndim - 1 - i not in dims), spec.ndim)
    rest = tuple(d for d in dims if d < spec.ndim - trailing)
    length = math.prod(spec.sizes[spec.ndim - trailing :])
    if not rest or length < SHORTEST or not is_of_lines(spec, (spec.ndim - 1,), np_dtype):
        return None
    if not trailing or spec.nbytes >= READ_SHARED:
        return None
    shape = (*spec.sizes[: spec.ndim - trailing], length)
    return lambda array: pairwise_sum(line_sums(array.reshape(shape)), rest, np_dtype)


def adds_directly(spec: TensorSpec, dims: tuple[int, ...], np_dtype: Any) -> bool:
    """Return True if NumPy's own reduction over `dims` is accurate enough: short, innermost, or exact."""
    if np_dtype.kind in "iu":
        return bool(spec.np_dtype.kind in "iub")
    if adds_rows(spec, dims, np_dtype):
        return False
    return count_of(spec, dims) <= BLOCK or (spec.is_contiguous and dims == (spec.ndim - 1,))


def is_of_lines(spec: TensorSpec, dims: tuple[int, ...], np_dtype: Any) -> bool:
    """Return True if the sum is over whole contiguous lines of real floats in their own dtype."""
    same = spec.np_dtype == np_dtype and np_dtype.kind == "f"
    return bool(same and spec.is_contiguous and dims == (spec.ndim - 1,) and spec.numel)


def count_of(spec: TensorSpec, dims: tuple[int, ...]) -> int:
    """Return the number of input elements for each output element."""
    return math.prod(spec.sizes[d] for d in dims)


def widened_line_sums(spec: TensorSpec, dims: tuple[int, ...], np_dtype: Any) -> Callable[[Any], Any] | None:
    """Return `line_sums` for small 16-bit floats, of lines or of all elements, or None for other calls."""
    if spec.dtype not in NARROW or np_dtype.kind != "f" or not spec.is_contiguous or not spec.numel:
        return None
    if len(dims) == spec.ndim:
        return lambda array: line_sums(array.astype(np_dtype).reshape(-1))
    return (lambda array: line_sums(array.astype(np_dtype))) if dims == (spec.ndim - 1,) else None


def product_with_ones(spec: TensorSpec, dims: tuple[int, ...], np_dtype: Any) -> Callable[[Any], Any] | None:
    """Return the sum over first or last dimensions of a small contiguous array as a vector, or None for others.

    BLAS adds up to `BLOCK` numbers in less than half of NumPy's call overhead.
    """
    numel, rank, along = spec.numel, spec.ndim, len(dims)
    if not 0 < numel <= SMALL_MATRIX or not spec.is_contiguous:
        return None
    if spec.np_dtype is not np_dtype or np_dtype not in PRODUCTS or not along:
        return None
    leads = dims[-1] == along - 1
    if not leads and dims[0] != rank - along:
        return None
    count = math.prod(spec.sizes[:along] if leads else spec.sizes[rank - along :])
    if count > BLOCK:
        return None
    weights, rest = ones(count, np_dtype), numel // count
    if leads:
        whole = rank == 2 and along == 1
        return weights.dot if whole else lambda array: weights.dot(array.reshape(count, rest))
    if rank == 2:
        return lambda array: array.dot(weights)
    return lambda array: array.reshape(rest, count).dot(weights)


def block_sum(spec: TensorSpec, dims: tuple[int, ...], np_dtype: Any) -> Callable[[Any], Any]:
    """`pairwise_sum` of a block of a tensor, brought to the dtype first; one NumPy call where that is as exact."""
    widens = spec.np_dtype != np_dtype
    if is_of_lines(spec, dims, np_dtype):
        return line_sums
    if spec.dtype is bfloat16 and dims == (spec.ndim - 1,) and spec.is_contiguous and not spec.sizes[-1] % 2:
        return bfloat16_line_sums
    rows = sum_of_rows(spec, dims, np_dtype)
    if rows is not None:
        return rows
    if not widens and adds_directly(spec, dims, np_dtype):
        return lambda piece: np.add.reduce(piece, dims, np_dtype, None, True)
    return lambda piece: pairwise_sum(piece.astype(np_dtype) if widens else piece, dims, np_dtype)


def added_rows(np_dtype: Any) -> Callable[[Any], Any]:
    """Return a function that casts rows to the dtype and sums them to one row."""
    return lambda rows: pairwise_sum(rows.astype(np_dtype, copy=False), (0,), np_dtype)


def short_row_of(spec: TensorSpec, np_dtype: Any) -> int:
    """Return the length of the shortest rows that are summed in place."""
    return SHORTEST_ROW if spec.np_dtype == np_dtype and np_dtype in PRODUCTS else SHORT_ROW


def dot_with_ones(size: int, np_dtype: Any, count: Any = None) -> PlannedKernel:
    """Return the kernel that sums a small contiguous array and divides by `count` if given."""
    weights = ones(size, np_dtype)
    # It flattens by itself, and conjugates the ones.
    asarray, vdot = np.asarray, np.vdot

    def total(out: Any, array: Any) -> None:
        array.ravel().dot(weights, out)

    def mean(out: Any, array: Any) -> None:
        out.fill(array.ravel().dot(weights) / count)

    if count is None:
        return PlannedKernel(total, quiet=True, number=lambda array: asarray(vdot(weights, array)))
    return PlannedKernel(mean, quiet=True, number=lambda array: asarray(vdot(weights, array) / count))
