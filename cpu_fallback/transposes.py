"""Copies between layouts whose contiguous dimensions differ, by compiled transposes (`transposes_loop.py`)."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

from ..runtime.cpu.loop_requests import DeferredLoop, Loop, Sharing, eager_until_compiled, shared_loop
from ..runtime.tensor_spec import TensorSpec
from .blocks import TILE, TURNED_FROM
from .plain_numpy import np

Array = np.ndarray[Any, Any]

COPY = (
    *("count", "inner", "source", "source_step", "source_inner", "to", "to_step", "to_inner", "cleared"),
    *("inside", "rows", "m", "columns", "n", "span"),
)
"""Fields of a batch of transposes.

- `count`, `inner`: The two dimensions of the batch.
- `source`, `to`, with `_step` and `_inner`: Offset of the first transpose, and its steps along both dimensions.
- `cleared`, `inside`: Elements of the target that are set to 0 first, and the offset of the first one that is written.
- `rows`, `m`, `columns`, `n`: Offsets of the tables of rows and columns, and their lengths.
- `span`: Elements of the source that the next transpose reads, which are prefetched.
"""
KINDS = {4: "float32", 8: "float64"}
"""Dtype whose vectors move elements of this many bytes."""
COMPILE_THRESHOLD = 1 << 22
"""Compile the loop once NumPy has copied this many elements."""
SHORTEST = 32
"""Rows and columns of the smallest matrices."""
PARTS, MAX_PARTS = 16, 1 << 8
"""Parts along the largest dimension of the batch, and parts in all, about. A part has `TILE` rows of a matrix, and at
least as many columns: in a power of two of columns, targets fall into the same sets of the caches.
"""
SHARED_FROM, WAKING_FROM = 1 << 20, 1 << 22
"""Bytes from which awake threads share a copy, and from which sleeping ones are woken for it."""


class Dimension(NamedTuple):
    """Dimension of a copy: its size, and the strides of the source and of the target in elements."""

    size: int
    source: int
    target: int


def transposed_copy(
    out: TensorSpec, spec: TensorSpec, eager: Callable[[Array, Array], object]
) -> Callable[[Array, Array], object]:
    """Return ``into(out, source)``, which transposes by a loop as soon as there is one.

    Until then it copies by `eager`. Copies that are no transposes of large matrices are left to `eager` for good.
    """
    found = matrices(out, spec)
    if found is None:
        return eager

    def prepare(loop: Loop) -> Callable[[Array, Array], None]:
        numbers, tables = found.parts()
        run = shared_loop(loop, numbers, Sharing.of(out.nbytes, SHARED_FROM, WAKING_FROM), None)

        def into(target: Array, source: Array) -> None:
            if np.may_share_memory(target, source):
                eager(target, source)
            else:
                run(tables, source, target)

        return into

    return eager_until_compiled(eager, _loop(KINDS[out.itemsize]), out.numel, prepare)


def dimensions(out: TensorSpec, spec: TensorSpec) -> list[Dimension]:
    """Return the dimensions of a copy, outermost of the target first; those that both arrays merge are one.

    Example:
        >>> from triten.runtime.device import CPU
        >>> from triten.runtime.scalar_type import float32
        >>> source = TensorSpec.contiguous((2, 3, 4, 5), float32, CPU)
        >>> channels_last = TensorSpec.of((2, 3, 4, 5), (60, 1, 15, 3), float32, CPU)
        >>> [tuple(each) for each in dimensions(channels_last, source)]
        [(2, 60, 60), (20, 1, 3), (3, 20, 1)]
    """
    rows = zip(out.sizes, spec.strides, out.strides, strict=True)
    merged: list[Dimension] = []
    for each in sorted((Dimension(*row) for row in rows if row[0] > 1), key=lambda d: -d.target):
        if merged:
            outer = merged[-1]
            if (outer.source, outer.target) == (each.size * each.source, each.size * each.target):
                merged[-1] = Dimension(outer.size * each.size, each.source, each.target)
                continue
        merged.append(each)
    return merged


class Matrices(NamedTuple):
    """Batch of matrices to transpose.

    Attributes:
        row: Dimension that is contiguous in the target.
        column: Dimension that is contiguous in the source.
        batch: The other dimensions, the largest last.
    """

    row: Dimension
    column: Dimension
    batch: tuple[Dimension, ...]

    def parts(self) -> tuple[list[Array], Array]:
        """Return the numbers of all parts, as `COPY`, and the tables of rows and columns."""
        *outer, inner = self.batch or (Dimension(1, 0, 0),)
        some = -(-inner.size // PARTS)
        width = TILE
        num_rows = -(-self.row.size // TILE) * math.prod(each.size for each in outer) * -(-inner.size // some)
        while num_rows * -(-self.column.size // width) > MAX_PARTS and width < self.column.size:
            width *= 2
        numbers = []
        for *indices, k, i, j in itertools.product(
            *(range(each.size) for each in outer),
            range(0, inner.size, some),
            range(0, self.row.size, TILE),
            range(0, self.column.size, width),
        ):
            places = [*zip(indices, outer, strict=True), (k, inner)]
            fields = {
                "count": min(some, inner.size - k),
                "inner": 1,
                "source": j + sum(index * each.source for index, each in places),
                "source_step": inner.source,
                "to": i + sum(index * each.target for index, each in places),
                "to_step": inner.target,
                "rows": i,
                "m": min(TILE, self.row.size - i),
                "columns": self.row.size + j,
                "n": min(width, self.column.size - j),
            }
            numbers.append(np.array([fields.get(name, 0) for name in COPY]))
        rows, columns = np.arange(self.row.size), np.arange(self.column.size)
        return numbers, np.concatenate([rows * self.row.source, columns * self.column.target])


def matrices(out: TensorSpec, spec: TensorSpec) -> Matrices | None:
    """Return the matrices that a copy transposes; None if it is another copy, or too small."""
    if out.numel < TURNED_FROM or out.itemsize not in KINDS or out.sizes != spec.sizes:
        return None
    batch = dimensions(out, spec)
    row = next((each for each in batch if each.target == 1), None)
    column = next((each for each in batch if each.source == 1), None)
    if row is None or column is None or row is column or row.source <= 0 or column.target <= 0:
        return None
    if min(row.size, column.size) < SHORTEST or any(each.target <= 0 or each.source < 0 for each in batch):
        return None
    others = sorted((each for each in batch if each not in (row, column)), key=lambda each: each.size)
    if math.prod(each.size for each in others[:-1]) > MAX_PARTS:
        return None
    return Matrices(row, column, tuple(others))


@functools.cache
def _loop(dtype: str) -> DeferredLoop:
    def make() -> Loop | None:
        from .transposes_loop import transposes_loop

        return transposes_loop(dtype)

    return DeferredLoop(make, COMPILE_THRESHOLD)
