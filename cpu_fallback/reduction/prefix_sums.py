"""Sums of all prefixes of lines in float64, as products with a triangle of ones.

A step of a scan waits some 3 ns for the one before it; in a product of runs with the triangle BLAS makes steps of many
runs at once. Every term is a number of the run, or a zero where all of them are finite: others go step by step.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from ...runtime.cpu.workspace import borrow, give_back
from ..plain_numpy import copyto, np

Array = np.ndarray[Any, Any]

RUN = 16
"""Numbers of a run: in a longer one most products are with zeros."""
BLOCK = 1 << 17
"""Elements of a block: threads that come back to Python seldom wait less for each other than they do for the cache."""
PRODUCT_ROWS = 1 << 9
"""Runs of one product: for as few BLAS neither copies them first nor takes another thread."""
MIN_ELEMENTS = 1 << 13
"""Minimum number of elements for which matmuls outweigh the calls around them."""
_TRIANGLE = np.triu(np.ones((RUN, RUN)))
_ONES = np.ones(RUN)
_BEFORE = np.triu(np.ones((RUN, RUN)), 1)
_INFINITE = float("inf")


SHORT = 64
"""The longest line that is one run."""


@lru_cache(maxsize=SHORT)
def _triangle(length: int) -> Array:
    """Return ones on and below the diagonal, for prefix sums down columns; callers must not write to it."""
    return np.tri(length)


def short_prefix_sums(
    sizes: tuple[int, ...], dim: int, by_steps: Callable[[Array], Array]
) -> Callable[[Array], Array]:
    """Return a function that computes prefix sums of a small contiguous float32 array along its first or last
    dimension.

    Each line is one run; `by_steps` serves arrays with elements that are not finite.
    """
    length = sizes[dim]
    triangle = _triangle(length)
    along_last = dim == len(sizes) - 1
    turned = triangle.T

    def sums(array: Array) -> Array:
        wide = array.astype(np.float64).reshape((-1, length) if along_last else (length, -1))
        line = wide.reshape(-1)
        # No square of float32 is beyond float64.
        if not line.dot(line) < _INFINITE:
            return by_steps(array)
        made: Array = wide.dot(turned) if along_last else triangle.dot(wide)
        return made.astype(np.float32).reshape(sizes)

    return sums


def prefix_sums(out: Array, lines: Array) -> None:
    """Write the sums of all prefixes of contiguous lines, (count, length), to `out`, rounded once.

    Blocks follow from the geometry alone.

    Example:
        >>> import numpy as np
        >>> out = np.empty((2, 20), np.float32)
        >>> prefix_sums(out, np.full((2, 20), 0.5, np.float32))
        >>> out[:, 15:].tolist()
        [[8.0, 8.5, 9.0, 9.5, 10.0], [8.0, 8.5, 9.0, 9.5, 10.0]]
    """
    count, length = lines.shape
    some, width = min(max(BLOCK // length, 1), count), min(length, BLOCK)
    room = borrow(16 * some * width)
    wide, sums = room[: 16 * some * width].view(np.float64).reshape(2, -1)
    for first in range(0, count, some):
        rows = slice(first, min(first + some, count))
        before = None
        for start in range(0, length, width):
            piece, target = lines[rows, start : start + width], out[rows, start : start + width]
            before = _of_block(target, piece, before, wide[: piece.size], sums[: piece.size])
    give_back(room)


def _of_block(out: Array, piece: Array, before: Array | None, wide: Array, sums: Array) -> Array:
    """Write the sums of a block's lines, each after what is `before` it, and give the last of each line."""
    rows, width = piece.shape
    rest = width % RUN
    if rest:
        whole = width - rest
        if whole:
            size = rows * whole
            before = _of_block(out[:, :whole], piece[:, :whole], before, wide[:size], sums[:size])
        return _step_by_step(out[:, whole:], piece[:, whole:], before)
    copyto(wide.reshape(rows, width), piece)
    totals = _of_runs(wide, _ONES, sums[: wide.size // RUN])
    if not totals.dot(totals) < _INFINITE:
        return _step_by_step(out, piece, before)
    totals = totals.reshape(rows, -1)
    runs = totals.shape[1]
    if before is None and runs <= RUN:
        starts = totals.dot(_BEFORE[:runs, :runs])
    else:
        starts = np.empty((rows, runs), np.float64)
        starts[:, 0] = 0.0 if before is None else before
        starts[:, 1:] = totals[:, :-1]
        np.add.accumulate(starts, 1, None, starts)
    firsts = wide.reshape(rows, runs, RUN)[:, :, 0]
    np.add(firsts, starts, firsts)
    block_sums = _of_runs(wide, _TRIANGLE, sums).reshape(rows, width)
    copyto(out, block_sums, casting="unsafe")
    return block_sums[:, -1].copy()


def _step_by_step(out: Array, piece: Array, before: Array | None) -> Array:
    wide = piece.astype(np.float64)
    wide[:, 0] += 0.0 if before is None else before
    np.add.accumulate(wide, 1, None, wide)
    copyto(out, wide, casting="unsafe")
    return wide[:, -1]


def _of_runs(wide: Array, weights: Array, out: Array) -> Array:
    """Multiply all runs by `weights`, a vector or a matrix; write to `out` and return it."""
    runs = wide.reshape(-1, RUN)
    columns = weights.shape[1:]
    whole = len(runs) // PRODUCT_ROWS * PRODUCT_ROWS
    if whole:
        batches = runs[:whole].reshape(-1, PRODUCT_ROWS, RUN)
        np.matmul(batches, weights, out[: whole * math.prod(columns)].reshape(-1, PRODUCT_ROWS, *columns))
    if whole < len(runs):
        runs[whole:].dot(weights, out[whole * math.prod(columns) :].reshape(-1, *columns))
    return out
