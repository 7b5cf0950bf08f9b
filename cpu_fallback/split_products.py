"""Products of matrices by BLAS with one thread, large ones in parts over our pool (runtime/blas_threads.py says why).

Parts depend on shapes alone, so that neither do results on the number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..dispatch.iterator.parallel import parallel_for
from ..runtime.blas_threads import MATRIX_WORK, VECTOR_WORK, alone
from ..runtime.tensor_spec import TensorSpec

SPLIT_WORK = 1 << 23
"""Multiplications from which parts pay: some 150 us, of which a thread that sleeps needs 50 to wake."""
PART_WORK = 1 << 22
MOST_PARTS = 16
"""Each part has BLAS order its operands again: of 16 parts of a large square one that is a fifteenth of the time."""
NARROWEST = 32
"""Rows or columns of a part at least."""
VECTOR_SPLIT = 1 << 20
"""Elements of a matrix from which its product with a vector is split: that reads each of them once."""

Array = np.ndarray[Any, Any]


class Part(NamedTuple):
    """A part of the result."""

    batch: slice
    rows: slice
    columns: slice


def halves(rows: int, columns: int, count: int) -> list[tuple[slice, slice]]:
    """Up to `count` parts of a matrix, made by halving the longer side.

    >>> halves(128, 64, 2)
    [(slice(0, 64, None), slice(0, 64, None)), (slice(64, 128, None), slice(0, 64, None))]
    """
    down = across = 1
    while 2 * down * across <= count:
        if rows // down >= columns // across and rows // down >= 2 * NARROWEST:
            down *= 2
        elif columns // across >= 2 * NARROWEST:
            across *= 2
        else:
            break
    return [(r, c) for r in _ranges(rows, down) for c in _ranges(columns, across)]


def _ranges(size: int, count: int) -> list[slice]:
    step = -(-size // count)
    step += -step % 16 if step >= NARROWEST else 0  # BLAS's own tiles
    return [slice(start, min(start + step, size)) for start in range(0, size, step)]


def parts_of(a: TensorSpec, b: TensorSpec) -> list[Part]:
    """The parts of ``a @ b``, matrices or batches of them; one of a product that is not worth more."""
    rows, inner, columns = *a.sizes[-2:], b.sizes[-1]
    batch = a.sizes[0] if a.ndim == 3 else 1
    each = rows * inner * columns
    whole = Part(slice(0, batch), slice(0, rows), slice(0, columns))
    if each * batch < SPLIT_WORK:
        return [whole]
    count = min(MOST_PARTS, each * batch // PART_WORK)
    if batch >= count:
        return [Part(at, whole.rows, whole.columns) for at in _ranges(batch, count)]
    inside = halves(rows, columns, -(-count // batch))
    return [Part(slice(n, n + 1), r, c) for n in range(batch) for r, c in inside]


def work_of(a: TensorSpec, b: TensorSpec) -> int:
    """Multiplications of one matrix's product, or of a vector's."""
    if a.ndim == 1 or b.ndim == 1:
        return max(a.numel, b.numel)
    return math.prod(a.sizes[-2:]) * b.sizes[-1]


def is_with_vector(a: TensorSpec, b: TensorSpec) -> bool:
    """Whether NumPy has BLAS multiply by a vector."""
    return a.ndim == 1 or b.ndim == 1 or a.sizes[-2] == 1 or b.sizes[-1] == 1


def held(function: Callable[..., Any], a: TensorSpec, b: TensorSpec) -> Callable[..., Any]:
    """`function`, which multiplies arrays of these specs in one product, while BLAS has one thread."""
    return alone(function, work_of(a, b), VECTOR_WORK if is_with_vector(a, b) else MATRIX_WORK)


def splits(a: TensorSpec, b: TensorSpec) -> bool:
    """Whether a product is large enough for several threads."""
    if b.ndim == 1:
        return a.ndim == 2 and a.numel >= VECTOR_SPLIT
    return a.ndim > 1 and not is_with_vector(a, b) and len(parts_of(a, b)) > 1


def split_product(
    a: TensorSpec, b: TensorSpec, ready: Callable[[TensorSpec], bool]
) -> Callable[[Array, Array, Array], None]:
    """``f(out, x, y)`` in parts; operands that are not `ready` for BLAS are gathered once, and not by each part."""
    if b.ndim == 1:
        return _split_vector(a)
    parts = parts_of(a, b)
    gathers_a, gathers_b = not ready(a), not ready(b)

    def multiply(out: Array, x: Array, y: Array) -> None:
        x = np.ascontiguousarray(x) if gathers_a else x
        y = np.ascontiguousarray(y) if gathers_b else y
        if out.ndim == 2:
            out, x, y = out[None], x[None], y[None]

        def some(first: int, last: int) -> None:
            for batch, rows, columns in parts[first:last]:
                np.matmul(x[batch, rows], y[batch, :, columns], out=out[batch, rows, columns])

        parallel_for(0, len(parts), 1, some)

    # Where the pool has one thread, nothing else holds BLAS.
    return alone(multiply, work_of(a, b))


def _split_vector(a: TensorSpec) -> Callable[[Array, Array, Array], None]:
    rows = _ranges(a.sizes[0], min(MOST_PARTS, a.numel // (VECTOR_SPLIT // 4)))

    def multiply(out: Array, x: Array, y: Array) -> None:
        def some(first: int, last: int) -> None:
            for part in rows[first:last]:
                np.dot(x[part], y, out=out[part])

        parallel_for(0, len(rows), 1, some)

    return alone(multiply, a.numel, VECTOR_WORK)
