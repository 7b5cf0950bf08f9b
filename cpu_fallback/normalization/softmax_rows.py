"""Softmax and log_softmax along rows that lie one after another, in blocks that stay in the cache.

Sums are those of `moments.row_dots`: a row's result depends neither on its block nor on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...dispatch.structured.stub import PlannedKernel
from ...runtime.float_errors import quietly
from ...runtime.parallel import parallel_for
from ..plain_numpy import np
from .moments import CHUNK, ones, row_dots

Array = np.ndarray[Any, Any]

BLOCK = 1 << 19
"""Elements of a block: the third-level cache is near enough, and threads that come back to Python less often wait less
for each other."""
WIDENED_BLOCK = 1 << 17
"""The same where operands and result are other arrays than what is computed with."""
GRAIN = 1 << 18
"""Elements that a thread takes at least: waking one costs as much as computing some 100,000."""
MIN_ROW = 129
"""Shorter rows are faster in blocks of the second-level cache, whose sums are products with ones."""


class Rows:
    """Maxima and sums of blocks (rows, n) without gaps, as (rows, 1) in the block's dtype."""

    def __init__(self, most: int, n: int, np_dtype: Any) -> None:
        self.starts = np.arange(0, most * n, n)[:, None]
        self.units = ones(n, np_dtype)
        self.np_dtype = np_dtype
        self.is_short = n <= CHUNK

    def maxima(self, block: Array) -> Array:
        """Return the maximum of each row, NaN if it has one; NumPy's argmax takes a third of the time of its
        max.
        """
        places = block.argmax(1, None, keepdims=True)
        places += self.starts[: len(places)]
        return block.take(places)

    def dots(self, block: Array, other: Array) -> Array:
        """Return the dot product of each row with the other's."""
        if self.is_short:
            made: Array = np.vecdot(block, other)[:, None]
            return made
        return row_dots(block, other).astype(self.np_dtype)[:, None]

    def sums(self, block: Array) -> Array:
        """Return the sum of each row."""
        return self.dots(block, self.units)


MIDDLE = 16.0
"""Rows whose maximum is between 0 and twice that need none subtracted: a sum of their exp is far from float32's end,
and nothing underflows that would not after it."""


def exp_of_rows(out: Array, a: Array, peak: Array) -> None:
    """Compute out = exp(a - peak) for each row, or exp(a) if the row's maximum is neither small nor large.

    Compiled rows do the same (cpu_fallback/reduction/reduction_rows.py).
    """
    is_near = np.abs(peak - peak.dtype.type(MIDDLE)) <= MIDDLE
    if is_near.all():
        np.exp(a, out)
        return
    np.copyto(peak, 0, where=is_near)
    np.subtract(a, peak, out)
    np.exp(out, out)


def softmax(rows: Rows, out: Array, a: Array) -> None:
    """Compute exp(a - max) over its sum."""
    exp_of_rows(out, a, rows.maxima(a))
    np.divide(out, rows.sums(out), out)


def log_softmax(rows: Rows, out: Array, a: Array) -> None:
    """Compute a - max - log(sum(exp(a - max)))."""
    np.subtract(a, rows.maxima(a), out)
    np.subtract(out, np.log(rows.sums(np.exp(out))), out)


def softmax_backward(rows: Rows, out: Array, grad: Array, output: Array) -> None:
    """Compute (grad - sum(grad * output)) * output."""
    np.subtract(grad, rows.dots(grad, output), out)
    np.multiply(out, output, out)


def log_softmax_backward(rows: Rows, out: Array, grad: Array, output: Array) -> None:
    """Compute grad - exp(output) * sum(grad)."""
    np.exp(output, out)
    np.multiply(out, rows.sums(grad), out)
    np.subtract(grad, out, out)


def by_rows(compute: Callable[..., None], count: int, n: int, np_dtype: Any, same: bool) -> PlannedKernel:
    """Return the kernel of contiguous operands of (count, n) elements.

    Args:
        compute: ``compute(rows, out, *operands)`` writes a block; its `out` is none of its operands.
        same: If True, operands and output have the compute dtype.
    """
    step = min(count, max(1, (BLOCK if same else WIDENED_BLOCK) // n))
    grain = max(1, GRAIN // n)
    rows = Rows(step, n, np_dtype)

    def into(out: Any, *arrays: Any) -> None:
        target = out.reshape(count, n)
        lines = [a.reshape(count, n) for a in arrays]
        direct = same and not any(np.may_share_memory(out, a) for a in arrays)

        def some(first: int, last: int) -> None:
            made = None if direct else np.empty((min(step, last - first), n), np_dtype)
            for start in range(first, last, step):
                part = slice(start, min(start + step, last))
                there = target[part]
                wide = [a[part] if same else a[part].astype(np_dtype) for a in lines]
                if made is None:
                    compute(rows, there, *wide)
                else:
                    block = made[: len(there)]
                    compute(rows, block, *wide)
                    np.copyto(there, block, casting="unsafe")

        parallel_for(0, count, grain, some)

    return PlannedKernel(quietly(into, line=n))
