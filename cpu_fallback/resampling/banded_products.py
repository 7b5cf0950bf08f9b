"""Linear maps of lines as products with banded matrices: interpolation along one dimension after another.

Some results side by side read few neighbours, so that their weights are a small dense matrix. BLAS multiplies that with
many lines in less time than NumPy takes to gather taps, and never shares products so small among threads of its own.

The zeros beside a band make NaN of what is not finite: such blocks are left to the caller.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from numpy._core.multiarray import c_einsum  # np.einsum without its planning

from ...runtime.parallel import parallel_for
from ..plain_numpy import np

Array = np.ndarray[Any, Any]

TILE = 16
"""Results of a matrix: more of them read more neighbours, fewer are too few for BLAS's kernels."""
LONG_TILE = 64
"""The same of few long lines, where the calls would take longer than the products."""
FEW_LINES = 512
UNSHARED = 1 << 17
"""Multiplications of a product, at most: of twice as many OpenBLAS might share the work among threads of its own."""
WIDEST = 96
"""Neighbours that a matrix reads at most, on average, to be quicker than gathering two of them."""
LINES = 128
"""Lines of a product where they lie side by side."""
BLOCK = 1 << 20
"""Elements of the largest array of a block: threads come back to Python after some tens of microseconds."""
PARTS = 8
"""Blocks that all of them are split into, where they are smaller."""
GRAIN = 1 << 17
"""Elements that a thread takes at least."""


class Tile(NamedTuple):
    """Results `first` to `last` of a line are its elements `low` to `high` by `weights` (high - low, last - first)."""

    first: int
    last: int
    low: int
    high: int
    weights: Array


class Band:
    """One dimension's map, of `n` elements of each line to `out` results.

    Args:
        sources, targets, weights: which element counts in which result, by how much.
        lines: Number of lines.
    """

    def __init__(
        self,
        n: int,
        out: int,
        sources: Array,
        targets: Array,
        weights: Array,
        np_dtype: Any,
        lines: int,
    ) -> None:
        self.n, self.out = n, out
        size = TILE if lines >= FEW_LINES * PARTS else LONG_TILE
        order = np.argsort(targets, kind="stable")
        sources, targets, weights = sources[order], targets[order], weights[order]
        bounds = np.searchsorted(targets, [*range(0, out, size), out])
        self.tiles: list[Tile] = []
        for i, first in enumerate(range(0, out, size)):
            part = slice(bounds[i], bounds[i + 1])
            source = sources[part]
            low, high = (int(source.min()), int(source.max()) + 1) if source.size else (0, 1)
            last = min(first + size, out)
            made = np.zeros((high - low, last - first), np_dtype)
            np.add.at(made, (source - low, targets[part] - first), weights[part])
            self.tiles.append(Tile(first, last, low, high, made))

    @property
    def is_narrow(self) -> bool:
        """True if matmuls are faster than gathering the taps."""
        return sum(t.high - t.low for t in self.tiles) <= WIDEST * len(self.tiles)

    def along_last(self, lines: Array, out: Array) -> None:
        """Write the map of `lines` (count, n) to `out`, both contiguous."""
        max_lines = min(LINES, max(UNSHARED // max(t.weights.size for t in self.tiles), 1))
        whole = len(lines) // max_lines * max_lines
        for source, target in ((lines[:whole], out[:whole]), (lines[whole:], out[whole:])):
            if not len(source):
                continue
            batch = min(len(source), max_lines)
            source, target = source.reshape(-1, batch, self.n), target.reshape(-1, batch, self.out)
            for tile in self.tiles:
                np.matmul(
                    source[..., tile.low : tile.high], tile.weights, target[..., tile.first : tile.last]
                )

    def along_middle(self, array: Array, out: Array) -> None:
        """Write the map of `array` (count, n, rest) along its second dimension to `out`."""
        rest = array.shape[2]
        maximum = max(UNSHARED // max(t.weights.size for t in self.tiles), 1)
        for start in range(0, rest, maximum):
            part = slice(start, start + maximum)
            for tile in self.tiles:
                source, target = array[:, tile.low : tile.high, part], out[:, tile.first : tile.last, part]
                np.matmul(tile.weights.T, source, target)

    def apply(self, array: Array, axis: int, out: Array | None = None) -> Array:
        """Apply the map along an axis of a contiguous array."""
        sizes = (*array.shape[:axis], self.out, *array.shape[axis + 1 :])
        if out is None:
            out = np.empty(sizes, array.dtype)
        if axis == array.ndim - 1:
            self.along_last(array.reshape(-1, self.n), out.reshape(-1, self.out))
        else:
            rest = math.prod(array.shape[axis + 1 :])
            self.along_middle(array.reshape(-1, self.n, rest), out.reshape(-1, self.out, rest))
        return out


class BandedMaps:
    """Bands along axes, counted from the end, one after another: those that leave fewest elements come first."""

    def __init__(self, bands: Sequence[tuple[int, Band]], np_dtype: Any) -> None:
        # The last axis first among equals: its lines are short before the others grow.
        self.bands = sorted(bands, key=lambda b: (b[1].out / b[1].n, -b[0]))
        self.np_dtype = np_dtype

    def run(self, out: Array, array: Array, otherwise: Callable[[Array, Array], None]) -> None:
        """Write the maps of `array` into `out`, image by image; ``otherwise(out, block)`` those of what is not finite.

        Axes before the mapped ones are images, and so is the order of results.
        """
        lead = array.ndim + min(axis for axis, _ in self.bands)
        count = math.prod(array.shape[:lead])
        image = max(math.prod(array.shape[lead:]), math.prod(out.shape[lead:]), 1)
        step = max(1, min(BLOCK // image, max(GRAIN // image, -(-count // PARTS))))
        grouped = out.shape[:lead] != (count,)
        direct = out.dtype == self.np_dtype and out.flags.c_contiguous
        source = array.reshape(count, *array.shape[lead:]) if grouped else array
        target = out.reshape(count, *out.shape[lead:]) if grouped and out.flags.c_contiguous else out
        made = target if target.ndim == source.ndim else np.empty((count, *out.shape[lead:]), out.dtype)

        def block(start: int) -> None:
            piece = np.ascontiguousarray(source[start : start + step], self.np_dtype)
            destination = made[start : start + step]
            result = piece
            for i, (axis, band) in enumerate(self.bands):
                if not np.isfinite(c_einsum("i->", result.reshape(-1))):
                    otherwise(destination, piece)
                    return
                is_last = i + 1 == len(self.bands)
                result = band.apply(result, result.ndim + axis, destination if is_last and direct else None)
            if result is not destination:
                np.copyto(destination, result, casting="unsafe")

        def some(first: int, last: int) -> None:
            for i in range(first, last):
                block(i * step)

        parallel_for(0, -(-count // step), max(1, GRAIN // (image * step)), some)
        if made is not target:
            np.copyto(out, made.reshape(out.shape))
