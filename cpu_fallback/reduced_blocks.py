"""Reductions of large tensors in blocks: no temporary of the tensor's size, and a part for each thread.

Blocks follow from the geometry alone, so that sums are the same for any number of threads.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..dispatch.iterator.parallel import parallel_for
from ..runtime.tensor_spec import TensorSpec

ROWS = 128
"""Elements that are added one after another before their sums are added pairwise."""
FLAT_FROM = 1 << 15
"""Elements from which a whole reduction goes in blocks."""
FLAT_BLOCK = 1 << 17
WIDENED_BLOCK = 1 << 16
"""Elements of a block that is brought to another dtype first: it stays in the second-level cache."""
KEPT_FROM = 1 << 17
"""Elements from which a reduction along some dimensions goes in blocks."""
KEPT_BLOCK = 1 << 16
RUN = 256
"""Elements side by side that a block has at least where they are kept."""
LONG_RUN = 1 << 14
"""The same where NumPy reduces without temporaries: it then reads memory from end to end."""
LINES_FROM = 1 << 21
"""Elements from which lines that NumPy reduces as they lie are shared among threads: one call is as quick for fewer."""
LINES_BLOCK = 1 << 19
HANDED_OVER = 1 << 22
"""Bytes from which another thread takes a part: half of less is read sooner than handed over."""


def memory_order(spec: TensorSpec) -> tuple[int, ...] | None:
    """The order of dimensions in which a tensor without gaps is contiguous; None for others."""
    order = tuple(sorted(range(spec.ndim), key=lambda d: (-spec.strides[d], d)))
    expected = 1
    for d in reversed(order):
        if spec.sizes[d] != 1:
            if spec.strides[d] != expected:
                return None
            expected *= spec.sizes[d]
    return order


FOLDED = (np.add.reduce, np.multiply.reduce)
"""Reductions of lines that NumPy does not do in vectors."""


def _folded(reduce: Callable[..., Any], piece: Any) -> Any:
    """A reduction of a line, by rows first: NumPy adds rows in vectors, and a line eight at a time."""
    width = piece.size // ROWS
    if width < ROWS or reduce not in FOLDED:
        return reduce(piece)
    folded = reduce(reduce(piece[: ROWS * width].reshape(ROWS, width), 0))
    rest = piece[ROWS * width :]
    return reduce(np.array([folded, reduce(rest)])) if rest.size else folded


def over_everything(
    spec: TensorSpec, ufunc: np.ufunc, np_dtype: Any, prepares: bool = False
) -> Callable[..., Any] | None:
    """A function that reduces all elements of such an array, in `np_dtype`; None where one call serves as well.

    Where it `prepares`, its second argument is done to each block first, brought to `np_dtype` already.
    """
    order = memory_order(spec)
    if spec.numel < FLAT_FROM or order is None or np_dtype.kind not in "fc":
        return None
    widens = spec.np_dtype != np_dtype
    limit = WIDENED_BLOCK if widens or prepares else FLAT_BLOCK
    starts = range(0, spec.numel, limit)
    shares = spec.nbytes >= HANDED_OVER
    reduce = ufunc.reduce

    def total(array: Any, prepare: Callable[[Any], Any] | None = None) -> Any:
        line = array.transpose(order).reshape(-1)
        partial = np.empty(len(starts), np_dtype)

        def part(first: int, last: int) -> None:
            for i in range(first, last):
                piece = line[starts[i] : starts[i] + limit]
                if widens:
                    piece = piece.astype(np_dtype)
                partial[i] = _folded(reduce, piece if prepare is None else prepare(piece))

        if shares:
            parallel_for(0, len(starts), 1, part)
        else:
            part(0, len(starts))
        return reduce(partial)

    return total


def over_kept(
    spec: TensorSpec, dims: tuple[int, ...], out_ndim: int, run_of: int = RUN, directly: bool = False
) -> Callable[[Callable[[Any], tuple[Any, ...]], tuple[Any, ...], Any], None] | None:
    """A function ``run(compute, outs, array)`` over blocks that have whole reduced lines; None for small tensors.

    ``compute(block)`` gives the blocks of all outputs, in any shape of their sizes. Blocks have at least `run_of`
    elements side by side where these are kept. NumPy reduces lines that lie one behind the other `directly`.
    """
    kept = [d for d in range(spec.ndim) if d not in dims and spec.sizes[d] > 1]
    lines = directly and spec.is_contiguous and dims == (spec.ndim - 1,)
    if spec.numel < (LINES_FROM if lines else KEPT_FROM) or not kept:
        return None
    steps = list(spec.sizes)
    least = run_of if any(spec.strides[d] == 1 for d in kept) else 1
    room = max((LINES_BLOCK if lines else KEPT_BLOCK) // math.prod(spec.sizes[d] for d in dims), least)
    for d in sorted(kept, key=lambda d: abs(spec.strides[d])):
        steps[d] = min(room, spec.sizes[d])
        room = max(room // steps[d], 1)
    starts = [range(0, size, step) for size, step in zip(spec.sizes, steps, strict=True)]
    places = [
        tuple(slice(start, start + step) for start, step in zip(place, steps, strict=True))
        for place in itertools.product(*starts)
    ]
    keeps = out_ndim == spec.ndim
    targets = [
        tuple(slice(None) if d in dims else s for d, s in enumerate(place) if keeps or d not in dims)
        for place in places
    ]
    if len(places) == 1:
        return None
    shares = spec.nbytes >= HANDED_OVER

    def run(compute: Callable[[Any], tuple[Any, ...]], outs: tuple[Any, ...], array: Any) -> None:
        def part(first: int, last: int) -> None:
            for i in range(first, last):
                for out, found in zip(outs, compute(array[places[i]]), strict=True):
                    target = out[targets[i]]
                    np.copyto(target, found.reshape(target.shape), casting="unsafe")

        if shares:
            parallel_for(0, len(places), 1, part)
        else:
            part(0, len(places))

    return run
