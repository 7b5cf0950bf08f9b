"""Ordered row accumulation (index_add on rows) by SciPy's sparse-times-dense matmuls.

``np.add.at`` takes some 9 ns for every element, and ``np.add.reduceat`` goes down the columns. These compiled
loops add whole rows, and start from the target's values, which SciPy's public matmuls do not. All arrays are
contiguous. The loops check no bounds. Another thread may write to the row indices after the check, so both
functions copy the indices, check the copy, and pass it to the loops.
"""

from __future__ import annotations

import functools
from typing import Any

from ..plain_numpy import np
from .index_bounds import check_rows

Array = np.ndarray[Any, Any]

FROM = 1 << 10
"""Elements from which that is worth the import of `scipy.sparse`, once 0.1 s."""
MIN_WIDTH = 4
"""Elements of the shortest rows: ``np.add.at`` takes those of one place as quickly."""
KINDS = "fdFDbhilqBHILQ"
"""NumPy's characters of the dtypes that it adds."""


@functools.cache
def _sparsetools() -> Any:
    from scipy.sparse import _sparsetools  # its loops alone: the matrices over them check and copy

    return _sparsetools


def adds(values: Array) -> bool:
    """Return True if rows of values have a dtype and size for which `add_at` pays."""
    return values.size >= FROM and values.shape[1] >= MIN_WIDTH and values.dtype.char in KINDS


def _as_reals(rows: Array) -> Array:
    """Rows of complex numbers as rows of twice as many reals: a product with 1 + 0j may make a NaN of an infinity."""
    if rows.dtype.kind != "c":
        return rows
    return rows.view(rows.real.dtype)


def add_at(target: Array, numbers: Array, values: Array) -> None:
    """Add the rows of `values` (n, width) to those of `target` (m, width) that `numbers` (n) says, in order.

    Example:
        >>> import numpy as np
        >>> target = np.zeros((2, 3))
        >>> add_at(target, np.array([1, 1]), np.ones((2, 3)))
        >>> target.tolist()
        [[0.0, 0.0, 0.0], [2.0, 2.0, 2.0]]
    """
    own = numbers.astype(np.int64)
    check_rows(own, len(target))
    target, values = _as_reals(target), _as_reals(values)
    count, width = values.shape
    _sparsetools().csc_matvecs(
        len(target),
        count,
        width,
        np.arange(count + 1),
        own,
        np.ones(count, values.dtype),
        values.reshape(-1),
        target.reshape(-1, copy=False),
    )


def add_bags(target: Array, bounds: Array, numbers: Array, table: Array, scale: Array | None) -> None:
    """Add to row i of `target` the rows of `table` with the numbers from place ``bounds[i]`` to ``bounds[i + 1]``.

    They are added in order, each multiplied by its number in `scale` first if that is given. No other thread has
    `bounds`, which rise from 0. Raises IndexError for bounds that reach beyond the numbers or the scales.
    """
    own = numbers.astype(np.int64)
    check_rows(own, len(table))
    count = len(own) if scale is None else min(len(own), len(scale))
    if bounds[-1] > count:
        raise IndexError(f"bags of {bounds[-1]} rows were given {count} numbers and scales")
    _sparsetools().csr_matvecs(
        len(target),
        len(table),
        table.shape[1],
        bounds.astype(np.int64, copy=False),
        own,
        np.ones(len(own), table.dtype) if scale is None else scale,
        table.reshape(-1),
        target.reshape(-1, copy=False),
    )
