"""Sums, means and squared deviations of the lines of cache-sized blocks, and how blocks combine.

BLAS adds a line's terms in many partial sums, at most `CHUNK` at a time, and the chunks are added in float64.
Adjacent lines are added in short runs, and the runs in float64. No result depends on the number of threads.
"""

from __future__ import annotations

from typing import Any

from ..plain_numpy import np

Array = np.ndarray[Any, Any]

BLOCK = 1 << 19
"""Elements of a block: the third-level cache is near enough, and threads that come back to Python less often wait less
for each other."""
GRAIN = 1 << 19
"""Elements that a thread takes at least: handing work over costs as much as computing some 100,000."""
CHUNK = 4096
"""Products that BLAS adds at a time, in 32 to 64 partial sums."""
RUN = 1024
"""Elements that a run across lines has at least, to be worth a call of NumPy's loop."""
DEPTH = 128
"""Runs that are added one after another before their sum goes to float64."""

_ones: dict[Any, Array] = {}


def ones(n: int, np_dtype: Any) -> Array:
    """Return at most `CHUNK` ones from a cached array."""
    kept = _ones.get(np_dtype)
    if kept is None:
        kept = _ones[np_dtype] = np.ones(CHUNK, np_dtype)
    return kept[: min(n, CHUNK)]


def row_dots(a: Array, b: Array) -> Array:
    """Compute sum(a * b) along the rows of (rows, n), in float64; `b` has the same sizes, or is `ones` of n or more."""
    n = a.shape[1]
    if n <= CHUNK:
        made: Array = np.vecdot(a, b if b.ndim == 2 else b[:n])
        return made if made.dtype == np.float64 else made.astype(np.float64)
    total = np.zeros(len(a))
    for start in range(0, n, CHUNK):
        part = a[:, start : start + CHUNK]
        other = b[: part.shape[1]] if b.ndim == 1 else b[:, start : start + CHUNK]
        total += np.vecdot(part, other)
    return total


def column_sums(a: Array) -> Array:
    """Sum the columns of a contiguous (rows, n) array, in float64."""
    rows, n = a.shape
    together = max(1, RUN // max(n, 1))
    whole = rows // together
    if together > 1 and whole > 1:
        lines = a[: whole * together].reshape(whole, together * n)
        total = column_sums(lines).reshape(together, n).sum(0)
        return total + a[whole * together :].sum(0, np.float64) if whole * together < rows else total
    if rows <= DEPTH:
        return np.add.reduce(a, 0).astype(np.float64)
    total = np.zeros(n)
    for start in range(0, rows, DEPTH):
        total += np.add.reduce(a[start : start + DEPTH], 0)
    return total


def combined(counts: Any, means: Array, squares: Array, axes: tuple[int, ...]) -> tuple[Array, Array]:
    """Return the mean and sum of squared deviations over some axes of blocks, from those of each block, kept as size 1.

    T. F. Chan, G. H. Golub, R. J. LeVeque, "Updating formulae and a pairwise algorithm for computing sample
    variances", 1979.
    """
    counts = np.broadcast_to(counts, means.shape)
    mean = (counts * means).sum(axes, keepdims=True) / counts.sum(axes, keepdims=True)
    return mean, (squares + counts * np.square(means - mean)).sum(axes, keepdims=True)
