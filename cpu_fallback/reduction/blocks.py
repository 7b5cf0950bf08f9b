"""Reductions of large tensors in blocks: no temporary of the tensor's size, and a part for each thread.

Blocks follow from the geometry alone, so that sums are the same for any number of threads.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

from ...runtime.parallel import parallel_for
from ...runtime.scalar_type import bfloat16
from ...runtime.tensor_spec import TensorSpec
from ..plain_numpy import np
from ..widen import FLOAT32
from .line_loops import LONGEST, RUN_SUMS, STREAMED_SUMS
from .line_reductions import LOCATED, bfloat16_line_sums, line_extremum, line_sums, run_sums

Array = np.ndarray[Any, Any]

SEQUENTIAL_ELEMENTS = 128
"""Elements that are summed sequentially before the sums are added pairwise."""
FLAT_FROM = 1 << 15
"""Elements from which a whole reduction goes in blocks."""
FLAT_BLOCK = 1 << 19
WIDENED_BLOCK = 1 << 17
"""Elements of a block that is brought to another dtype first: it stays in the cache."""
KEPT_FROM = 1 << 17
"""Elements from which a reduction along some dimensions goes in blocks."""
KEPT_BLOCK = 1 << 17
RUN = 256
"""Elements side by side that a block has at least where they are kept."""
LONG_RUN = 1 << 14
"""The same where NumPy reduces without temporaries: it then reads memory from end to end."""
LINES_FROM = 1 << 23
"""Elements from which lines that NumPy reduces as they lie are shared among threads: one call is as quick for fewer."""
LINES_BLOCK = 1 << 20
HANDED_OVER = 1 << 22
"""Bytes from which another thread takes a part of what is computed block by block: it needs some 70 us to wake."""
SHARED_BYTES = 1 << 24
"""The same of what is only read: what the caches hold one thread reads as quickly."""
STREAM_RUN = 1 << 9
"""Elements of a run of what comes from memory, which is added without further runs in it."""
STREAM_GRAIN = 1 << 18
"""Elements that a thread takes at least of what comes from memory."""
ROWS_BLOCK = 1 << 19
"""Elements of rows that are reduced to one."""
SHORT_ROW = 256
"""Shorter rows are reduced side by side."""
SHORT_ROWS_FROM = 1 << 13
"""Elements from which that pays for the second call."""
ROW_RUN = 1 << 10
"""Elements of such rows together, at least."""
SHORTEST_LINE = 256
"""The shortest lines that NumPy reduces without more work for each of them than for its elements."""
LONGEST_ROW = 1 << 16
"""The longest row that is reduced whole: longer ones are cut."""


def memory_order(spec: TensorSpec) -> tuple[int, ...] | None:
    """Return the dimension order in which a dense tensor is contiguous, or None for other tensors."""
    order = tuple(sorted(range(spec.ndim), key=lambda d: (-spec.strides[d], d)))
    expected = 1
    for d in reversed(order):
        if spec.sizes[d] != 1:
            if spec.strides[d] != expected:
                return None
            expected *= spec.sizes[d]
    return order


def folded(ufunc: np.ufunc, piece: Array) -> Any:
    """Reduce a line: sums in runs, products by rows first, since NumPy multiplies rows with vector instructions."""
    if ufunc is np.add and piece.dtype.kind == "f":
        return line_sums(piece)
    reduce = ufunc.reduce
    width = piece.size // SEQUENTIAL_ELEMENTS
    if (
        width < SEQUENTIAL_ELEMENTS
        or (ufunc is not np.add and ufunc is not np.multiply)
        or piece.dtype.kind in "iu"
    ):
        return reduce(piece)
    folded = reduce(reduce(piece[: SEQUENTIAL_ELEMENTS * width].reshape(SEQUENTIAL_ELEMENTS, width), 0))
    rest = piece[SEQUENTIAL_ELEMENTS * width :]
    return reduce(np.array([folded, reduce(rest)])) if rest.size else folded


def over_everything(
    spec: TensorSpec, ufunc: np.ufunc, np_dtype: Any, prepares: bool = False
) -> Callable[..., Any] | None:
    """Return a function that reduces all elements of a dense array in `np_dtype`, or None if one call is as
    good.

    If it `prepares`, the function's second argument reduces each block, already cast to `np_dtype`, to as many numbers
    as the third argument says. All are then combined by `ufunc`.
    """
    order = None if spec.numel < FLAT_FROM else memory_order(spec)
    widens = spec.np_dtype != np_dtype
    if order is None:
        return None
    if np_dtype.kind not in "fc" and (widens or spec.nbytes < SHARED_BYTES):
        return None
    if not widens and not prepares and np_dtype == FLOAT32 and ufunc in LOCATED:
        return lambda array: line_extremum(array.transpose(order).reshape(-1), LOCATED[ufunc])
    if not widens and not prepares and ufunc is not np.multiply and spec.nbytes >= SHARED_BYTES:
        if ufunc is not np.add or np_dtype.kind in "iu":
            return _in_any_order(spec, order, ufunc)
        if np_dtype.kind == "f":
            return over_streamed(spec, tuple(range(spec.ndim)), np_dtype)
    # Widened two by two, which needs an even number of them.
    in_words = spec.dtype is bfloat16 and ufunc is np.add and np_dtype == FLOAT32
    if ufunc is np.add and np_dtype.kind == "f" and not widens and not prepares:
        return lambda array: line_sums(array.transpose(order).reshape(-1))
    limit = WIDENED_BLOCK if widens or prepares else FLAT_BLOCK
    starts = range(0, spec.numel, limit)
    shares = spec.nbytes >= (HANDED_OVER if widens or prepares else SHARED_BYTES)
    reduce = ufunc.reduce
    if len(starts) == 1 and not widens and not prepares:
        if spec.is_contiguous:
            return lambda array: folded(ufunc, array.reshape(-1))
        return lambda array: folded(ufunc, array.transpose(order).reshape(-1))

    def total(array: Array, fold: Callable[[Array], Any] | None = None, results: int = 1) -> Any:
        line = array.transpose(order).reshape(-1)
        partial = np.empty((results, len(starts)), np_dtype)

        def part(first: int, last: int) -> None:
            for i in range(first, last):
                piece = line[starts[i] : starts[i] + limit]
                if in_words and fold is None and not piece.size % 2:
                    partial[:, i] = bfloat16_line_sums(piece)
                    continue
                if widens:
                    piece = piece.astype(np_dtype)
                partial[:, i] = folded(ufunc, piece) if fold is None else fold(piece)

        if shares:
            parallel_for(0, len(starts), 1, part)
        else:
            part(0, len(starts))
        totals = [folded(ufunc, line) if np_dtype.kind == "f" else reduce(line) for line in partial]
        return totals[0] if results == 1 else totals

    return total


def _in_any_order(spec: TensorSpec, order: tuple[int, ...], ufunc: np.ufunc) -> Callable[[Any], Any]:
    """Return a full reduction whose result does not depend on the order: its parts are as long as possible."""
    reduce = ufunc.reduce

    def total(array: Any) -> Any:
        line = array.transpose(order).reshape(-1)
        partial_results: list[Any] = []
        parallel_for(
            0, spec.numel, STREAM_GRAIN, lambda first, last: partial_results.append(reduce(line[first:last]))
        )
        return reduce(np.array(partial_results, line.dtype))

    return total


def over_streamed(spec: TensorSpec, dims: tuple[int, ...], np_dtype: Any) -> Callable[[Any], Any] | None:
    """Return a function that sums the last dimensions of floats in main memory as one line, or None for others.

    Two threads have little more bandwidth than one thread that reads without a pause, so each takes long
    parts. Only the runs within, whose sums are added pairwise, follow from the geometry.
    """
    if spec.nbytes < SHARED_BYTES:
        return None
    order = memory_order(spec) if len(dims) == spec.ndim else tuple(range(spec.ndim))
    if spec.np_dtype != np_dtype or np_dtype.kind != "f" or order is None:
        return None
    if len(dims) < spec.ndim and (
        not spec.is_contiguous or dims != tuple(range(spec.ndim - len(dims), spec.ndim))
    ):
        return None
    length = math.prod(spec.sizes[d] for d in dims)
    rows, run = spec.numel // length, min(length, STREAM_RUN)
    runs = length // run
    by_rows = rows >= runs

    def sums(array: Any) -> Any:
        lines = array.transpose(order).reshape(rows, length)
        result = STREAMED_SUMS.reduced(lines) if by_rows and length <= LONGEST else None
        if result is not None:
            return result
        head = lines[:, : runs * run].reshape(rows, runs, run)
        rest = lines[:, runs * run :]
        partial = np.empty((rows, runs + (runs * run < length)), np_dtype)
        if not by_rows and all(RUN_SUMS.reduced(head[i], partial[i, :runs]) is not None for i in range(rows)):
            if rest.size:
                partial[:, runs] = line_sums(rest)
            return line_sums(partial)

        def part(first: int, last: int) -> None:
            index = (slice(first, last),) if by_rows else (slice(None), slice(first, last))
            run_sums(head[index], partial[:, :runs][index])
            if by_rows and rest.size:
                partial[first:last, runs] = line_sums(rest[first:last])

        if by_rows:
            parallel_for(0, rows, max(STREAM_GRAIN // length, 1), part)
        else:
            parallel_for(0, runs, max(STREAM_GRAIN // (run * rows), 1), part)
            if rest.size:
                partial[:, runs] = line_sums(rest)
        return partial[:, 0] if partial.shape[1] == 1 else line_sums(partial)

    return sums


def side_by_side(reduce_rows: Callable[[Any], Any], length: int) -> Callable[[Any], Any]:
    """``reduce_rows`` from [n, length] to [1, length] that takes many short rows as fewer long ones first.

    NumPy reduces rows of tens of elements at a tenth of the speed of rows of a thousand.
    """
    together = -(-ROW_RUN // length)

    def reduced(rows: Any) -> Any:
        lines = len(rows) // together
        if lines < 2:
            return reduce_rows(rows)
        whole = lines * together
        made = reduce_rows(rows[:whole].reshape(lines, together * length)).reshape(together, length)
        if whole < len(rows):
            made = np.concatenate([made, rows[whole:].astype(made.dtype)])
        return reduce_rows(made)

    return reduced


def over_rows(
    spec: TensorSpec,
    dims: tuple[int, ...],
    np_dtype: Any,
    reduce_rows: Callable[[Any], Any],
    short_row: int = SHORT_ROW,
) -> Callable[[Any], Any] | None:
    """Return a function that reduces the first dimensions of a contiguous array, or None if one call is as good.

    Blocks of rows are reduced to a row each, and these to one, by ``reduce_rows`` from [n, length] to [1,
    length].
    """
    if spec.numel < SHORT_ROWS_FROM or not spec.is_contiguous or dims != tuple(range(len(dims))):
        return None
    length = math.prod(spec.sizes[len(dims) :])
    count = spec.numel // length
    if length < short_row:
        reduce_rows = side_by_side(reduce_rows, length)
    if spec.nbytes < SHARED_BYTES:
        return (lambda array: reduce_rows(array.reshape(count, length))) if length < short_row else None
    step = max(ROWS_BLOCK // length, SEQUENTIAL_ELEMENTS)
    if length > LONGEST_ROW or count < 2 * step:
        return None
    starts = range(0, count, step)

    def reduced(array: Any) -> Any:
        rows = array.reshape(count, length)
        partial = np.empty((len(starts), length), np_dtype)

        def part(first: int, last: int) -> None:
            for i in range(first, last):
                partial[i] = reduce_rows(rows[starts[i] : starts[i] + step])[0]

        parallel_for(0, len(starts), 1, part)
        return reduce_rows(partial)

    return reduced


def over_kept(
    spec: TensorSpec, dims: tuple[int, ...], out_ndim: int, run_of: int = RUN, directly: bool = False
) -> Callable[[Callable[[Any], tuple[Any, ...]], tuple[Any, ...], Any], None] | None:
    """Return ``run(compute, outs, array)`` over blocks of whole reduced lines, or None for small tensors.

    ``compute(block)`` returns the blocks of all outputs, in any shape of their sizes. Blocks have at least
    `run_of` adjacent elements in kept dimensions. NumPy reduces consecutive lines `directly`.
    """
    kept_dims = [d for d in range(spec.ndim) if d not in dims and spec.sizes[d] > 1]
    lines = directly and spec.is_contiguous and dims == (spec.ndim - 1,)
    if spec.numel < (LINES_FROM if lines else KEPT_FROM) or not kept_dims:
        return None
    steps = list(spec.sizes)
    least = run_of if any(spec.strides[d] == 1 for d in kept_dims) else 1
    room = max((LINES_BLOCK if lines else KEPT_BLOCK) // math.prod(spec.sizes[d] for d in dims), least)
    for d in sorted(kept_dims, key=lambda d: abs(spec.strides[d])):
        steps[d] = min(room, spec.sizes[d])
        room = max(room // steps[d], 1)
    starts = [range(0, size, step) for size, step in zip(spec.sizes, steps, strict=True)]
    block_slices = [
        tuple(slice(start, start + step) for start, step in zip(corner, steps, strict=True))
        for corner in itertools.product(*starts)
    ]
    keeps = out_ndim == spec.ndim
    targets = [
        tuple(slice(None) if d in dims else s for d, s in enumerate(corner) if keeps or d not in dims)
        for corner in block_slices
    ]
    if len(block_slices) == 1:
        return None
    shares = spec.nbytes >= HANDED_OVER

    def run(compute: Callable[[Any], tuple[Any, ...]], outs: tuple[Any, ...], array: Any) -> None:
        def part(first: int, last: int) -> None:
            for i in range(first, last):
                for out, item in zip(outs, compute(array[block_slices[i]]), strict=True):
                    target = out[targets[i]]
                    np.copyto(target, item.reshape(target.shape), casting="unsafe")

        if shares:
            parallel_for(0, len(block_slices), 1, part)
        else:
            part(0, len(block_slices))

    return run
