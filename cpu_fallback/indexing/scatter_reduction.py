"""Sum, product, minimum and maximum reductions at indices; equal indices combine in the order of the index.

16-bit floats accumulate in float32 and round once. The kernels that call these functions ignore
floating-point errors.
"""

from __future__ import annotations

from typing import Any

from ..plain_numpy import np
from ..widen import FLOAT32
from . import sparse_rows

BLOCK = 1 << 18
"""Elements of row sums handled at a time, which bounds the memory for their positions."""
IDENTITIES: dict[str, Any] = {"sum": 0, "mean": 0, "prod": 1}
COMBINED_BY: dict[str, Any] = {"prod": np.multiply, "amax": np.maximum, "amin": np.minimum}


def identity_of(reduce: str, dtype: Any) -> Any:
    """Return the identity element of a reduction, as a number of a NumPy dtype."""
    if reduce in IDENTITIES:
        return dtype.type(IDENTITIES[reduce])
    if dtype.kind == "f":
        return dtype.type(-np.inf if reduce == "amax" else np.inf)
    if dtype.kind == "b":
        return dtype.type(reduce == "amin")
    return getattr(np.iinfo(dtype), "min" if reduce == "amax" else "max")


def accumulate_at(function: Any, target: Any, indices: Any, values: Any, narrow: bool) -> None:
    """Add or multiply values into a contiguous 1-D array with a ufunc, in order; 16-bit floats accumulate in
    float32.
    """
    if narrow:
        wide = target.astype(FLOAT32)
        function.at(wide, indices, values.astype(FLOAT32))
        np.copyto(target, wide, casting="unsafe")
    else:
        function.at(target, indices, values)


def add_rows(target: Any, rows: Any, values: Any, narrow: bool) -> None:
    """Add rows of `values` (n, width) to those of a contiguous `target` (m, width) that `rows` (n) names."""
    width = target.shape[1]
    if not width or not len(rows):
        return
    if narrow:
        wide = target.astype(FLOAT32)
        add_rows(wide, rows, values.astype(FLOAT32), False)
        np.copyto(target, wide, casting="unsafe")
        return
    if sparse_rows.adds(values):
        sparse_rows.add_at(target, rows, np.ascontiguousarray(values))
        return
    flat = target.reshape(-1)
    columns = np.arange(width)
    step = max(BLOCK // width, 1)
    for start in range(0, len(rows), step):
        indices = (rows[start : start + step, None] * width + columns).reshape(-1)
        accumulate_at(np.add, flat, indices, values[start : start + step].reshape(-1), False)


def add_slices(target: Any, rows: Any, values: Any) -> None:
    """`add_rows` in each of several matrices: `values` (outer, n, width), a contiguous `target` (outer, m, width)."""
    outer, count, width = values.shape
    if count * width >= sparse_rows.FROM and width >= sparse_rows.MIN_WIDTH:
        for some, added in zip(target, values, strict=True):
            add_rows(some, rows, added, False)
        return
    size = target.shape[1] * width
    step = max(BLOCK // (count * width), 1)
    within = (rows[:, None] * width + np.arange(width)).reshape(-1)
    for start in range(0, outer, step):
        some = values[start : start + step]
        indices = (np.arange(len(some))[:, None] * size + within).reshape(-1)
        accumulate_at(np.add, target[start : start + step].reshape(-1), indices, some.reshape(-1), False)


def combine_at(function: Any, target: Any, indices: Any, values: Any, start: Any) -> None:
    """Combine values, in order, into places of a contiguous 1-D array, which begin at `start` if it is not None."""
    if start is not None:
        target[indices] = start
    function.at(target, indices, values)


ROUND = 1 << 9
"""Elements for each round of `combine_rows`, on average, at least: a round is some calls of NumPy."""


def combine_rows(function: Any, target: Any, rows: Any, values: Any, start: Any) -> None:
    """`combine_at` of whole rows, (n, width), at rows of a contiguous target, (m, width).

    A round combines rows that are all different, the first of each number, then the second, and so on.
    """
    if function is np.add:
        if start is not None:
            target[rows] = start
        add_rows(target, rows, values, False)
        return
    order = rows.argsort(kind="stable")
    ranked = rows[order]
    firsts = np.flatnonzero(np.concatenate([[True], ranked[1:] != ranked[:-1]]))
    nth = np.arange(len(rows)) - np.repeat(firsts, np.diff(firsts, append=len(rows)))
    sizes = np.bincount(nth)
    width = target.shape[1]
    if len(sizes) * ROUND > values.size:
        indices = (rows[:, None] * width + np.arange(width)).reshape(-1)
        combine_at(function, target.reshape(-1), indices, values.reshape(-1), start)
        return
    if start is not None:
        target[rows] = start
    # Pieces stay in the cache.
    piece = max(BLOCK // 4 // width, 1)
    current, new = np.empty((2, min(piece, int(sizes[0])), width), target.dtype)
    for some in np.split(order[nth.argsort(kind="stable")], np.cumsum(sizes)[:-1]):
        for first in range(0, len(some), piece):
            part = some[first : first + piece]
            named, count = rows[part], len(part)
            np.take(target, named, 0, current[:count], "clip")
            np.take(values, part, 0, new[:count], "clip")
            target[named] = function(current[:count], new[:count], out=current[:count])


def divide_by_counts(sums: Any, rows: Any, includes: bool, axis: int = 0) -> None:
    """Divide each row by how often it is named, and once more where it `includes` itself; integers round down.

    Rows are counted along `axis`, the first dimension or the second.
    """
    counts = np.bincount(rows.copy(), minlength=sums.shape[axis])  # `bincount` reads its argument twice.
    if includes:
        counts += 1
    else:
        np.maximum(counts, 1, out=counts)
    counts = counts.reshape((-1,) + (1,) * (sums.ndim - 1 - axis))
    if sums.dtype.kind in "fc":
        np.divide(sums, counts.astype(sums.dtype), sums)
    else:
        np.floor_divide(sums, counts, sums, casting="unsafe")
