"""Max pooling with windows that tile their planes: every element is in one window, so planes form one line of
memory.

The elements of a window's row are adjacent on that line, whatever the planes' width. A window's rows are runs
that move as one item, so no loop is as short as a row of windows.
"""

from __future__ import annotations

import math
from typing import Any

from ...runtime.parallel import parallel_for
from ..plain_numpy import np
from ..windows import Window

BLOCK = 1 << 16
"""Elements of a block: with what is made of them they stay in a core's second-level cache."""
GRAIN = 1 << 20
"""Elements that a thread looks at at least."""

Array = np.ndarray[Any, Any]


def tiles(window: Window) -> bool:
    """Return True if the windows of a plane cover each element exactly once."""
    return (
        len(window.out) == 2
        and window.stride == window.kernel
        and window.padding == (0, 0)
        and window.dilation == (1, 1)
        and all(n == k * out for n, k, out in zip(window.spatial, window.kernel, window.out, strict=True))
        and math.prod(window.kernel) > 1
    )


class TileMaxima:
    """Maximum of each window and its index in the plane, the first of equal elements.

    A call takes values and indices (planes, *out) and an array (planes, *spatial), all contiguous. It returns
    False for inputs with NaN or zeros of both signs, whose maximum differs from ATen's loop; outputs are then
    undefined.
    """

    def __init__(self, window: Window, dtype: np.dtype[Any]) -> None:
        self.rows, self.taps = window.kernel
        self.area, self.count = math.prod(window.spatial), math.prod(window.out)
        self.width = window.out[1]
        self.below = [row * window.spatial[1] for row in range(self.rows)]
        self.offset = np.min_scalar_type(self.below[-1] + self.taps - 1)
        self.items = [np.dtype((np.void, self.width * d.itemsize)) for d in (dtype, self.offset)]
        down, along = (np.arange(o) * k for o, k in zip(window.out, window.kernel, strict=True))
        self.corner = np.add.outer(down * window.spatial[1], along).reshape(-1)
        self.bits = {4: np.int32, 8: np.int64}[dtype.itemsize] if dtype.kind == "f" else None
        self.step = max(1, BLOCK // self.area)

    def __call__(self, values: Array, indices: Array, array: Array) -> bool:
        planes = len(array)
        is_done: list[bool] = []

        def some(start: int, stop: int) -> None:
            for block in range(start, stop):
                part = slice(block * self.step, min((block + 1) * self.step, planes))
                is_done.append(self._block(values[part], indices[part], array[part]))
                if not is_done[-1]:
                    return

        parallel_for(0, -(-planes // self.step), max(1, GRAIN // (self.step * self.area)), some)
        return all(is_done)

    def _block(self, values: Array, indices: Array, array: Array) -> bool:
        line = array.reshape(-1)
        if self.bits is not None:
            if np.isnan(line.max()):
                return False
            if line.view(self.bits).min() == np.iinfo(self.bits).min:  # a zero with a sign
                return False
        best = line[:: self.taps].copy()
        offset = np.zeros(best.shape, self.offset)
        candidates, better = np.empty_like(best), np.empty(best.shape, np.bool_)
        for tap in range(1, self.taps):
            np.copyto(
                candidates, line[tap :: self.taps]
            )  # used twice: strided operands take five times as long
            self._take(best, offset, candidates, tap, better)
        made, row_offsets = (
            a.view(item).reshape(-1, self.rows) for a, item in zip((best, offset), self.items, strict=True)
        )
        best, offset = made[:, 0].copy().view(best.dtype), row_offsets[:, 0].copy().view(self.offset)
        better = better[: len(best)]
        for row in range(1, self.rows):
            candidate_offsets = row_offsets[:, row].copy().view(self.offset)
            candidate_offsets += self.offset.type(self.below[row])
            self._take(best, offset, made[:, row].copy().view(best.dtype), candidate_offsets, better)
        np.copyto(values, best.reshape(values.shape))
        corner = self.corner.reshape(indices.shape[1:])
        np.add(offset.reshape(indices.shape), corner, out=indices)
        return True

    def _take(
        self, best: Array, offset: Array, candidates: Array, candidate_offsets: Any, better: Array
    ) -> None:
        """Update the best values and their offsets with candidates that are larger."""
        np.greater(candidates, best, out=better)
        np.maximum(best, candidates, out=best)
        gained = np.subtract(candidate_offsets, offset, dtype=self.offset)  # wraps around, and back below
        gained *= better.view(np.uint8)
        offset += gained
