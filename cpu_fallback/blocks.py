"""Pointwise work over large operands: in blocks that stay in the cache, shared among threads.

The blocks follow from the geometry alone, so that neither do results depend on the number of threads.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

from ..runtime.parallel import parallel_for
from ..runtime.tensor_spec import TensorSpec
from .plain_numpy import np

BLOCK = 1 << 17
"""Elements of a block: its temporaries stay in the cache, and threads seldom wait for each other's Python between."""
TILE = 128
"""Rows and columns of a block in which operands run along different axes."""
HANDED_OVER = 1 << 22
"""Bytes of all operands from which another thread takes a part: it needs some 70 us to wake."""
SHARED_BYTES = 1 << 24
"""The same where one call of NumPy does it all: what the caches hold one thread reads as quickly."""
SHARED_FROM = 1 << 19
"""Elements from which it is shared where operands are strided or repeated: that takes longer than reading."""
SHARED_BLOCK = 1 << 18
"""Elements of a part of such a call, at least."""
PARTS = 16
"""Parts of such a call at most: nothing is kept in the cache between them, and a thread takes long ones."""
TURNED_FROM = 1 << 16
"""Elements from which operands that run along different axes are taken tile by tile."""

Block = tuple[slice, ...]


def part_of(numel: int, least: int = SHARED_BLOCK) -> int:
    """Return the part size of one NumPy call over this many elements."""
    return max(-(-numel // PARTS), least)


def block_indices(sizes: Sequence[int], turned: int | None, limit: int = BLOCK) -> list[Block]:
    """Return the indices of blocks of at most about `limit` elements in C order, tiles if operands run along `turned`.

    Example:
        >>> from triten.cpu_fallback.blocks import block_indices
        >>> block_indices((3, 4), None, 8)
        [(slice(0, 2, None), slice(0, 4, None)), (slice(2, 4, None), slice(0, 4, None))]
    """
    steps = list(sizes)
    if turned is not None:
        steps = [1] * len(sizes)
        steps[turned] = steps[-1] = TILE
        room = max(limit // math.prod(min(s, n) for s, n in zip(steps, sizes, strict=True)), 1)
        axes = [d for d in reversed(range(len(sizes))) if d not in (turned, len(sizes) - 1)]
    else:
        steps = [1] * len(sizes)
        room, axes = limit, list(reversed(range(len(sizes))))
    for d in axes:
        steps[d] = max(min(room, sizes[d]), 1)
        room //= steps[d]
    starts = [range(0, size, step) for size, step in zip(sizes, steps, strict=True)]
    return [
        tuple(slice(start, start + step) for start, step in zip(corner, steps, strict=True))
        for corner in itertools.product(*starts)
    ]


def fastest(strides: Sequence[int], sizes: Sequence[int]) -> int | None:
    """Return the axis with the smallest nonzero stride, or None if no axis has one."""
    moving = [d for d, size in enumerate(sizes) if size > 1 and strides[d]]
    return min(moving, key=lambda d: (abs(strides[d]), -d)) if moving else None


class Blocks:
    """How to go through an output and operands that broadcast to it.

    Args:
        out: the output's spec.
        operands: the specs of the others; None for what is no array.
        limit: elements of a block.
        handed_over: bytes of all operands from which threads share the blocks.
    """

    def __init__(
        self,
        out: TensorSpec,
        operands: Sequence[TensorSpec | None],
        limit: int = BLOCK,
        handed_over: int = HANDED_OVER,
    ) -> None:
        specs = [o for o in operands if o is not None and o.ndim]
        self.nbytes = sum(o.nbytes for o in (out, *specs))
        self.flat = all(o.is_contiguous and o.sizes == out.sizes for o in (out, *specs))
        self.limit = limit
        self.handed_over = handed_over
        self.numel = out.numel
        self.turns: list[bool] = []
        if self.flat:
            self.indices: list[Block] = []
            return
        self.sizes = out.sizes
        # Axes that the output does not move along come first; the others as its memory has them.
        self.order = tuple(sorted(range(out.ndim), key=lambda d: (out.sizes[d] > 1, -abs(out.strides[d]))))
        shape = [out.sizes[d] for d in self.order]
        self.reorders = self.order != tuple(range(out.ndim))
        turned = None
        last = out.ndim - 1
        for operand in (out, *operands):
            turns = False
            if operand is not None and operand.ndim and shape[last] >= TILE // 4:
                lead = out.ndim - operand.ndim
                strides = [
                    0 if d < lead or operand.sizes[d - lead] == 1 else operand.strides[d - lead]
                    for d in self.order
                ]
                fast = fastest(strides, shape)
                turns = fast is not None and fast != last and strides[last] != 0 and shape[fast] >= TILE // 4
                if turns:
                    turned = fast
            self.turns.append(turns)
        self.indices = block_indices(shape, turned, limit)

    def run(self, compute: Callable[..., Any], out: Any, *inputs: Any) -> None:
        """Call ``compute(out_block, *input_blocks)`` for all blocks; numbers and 0-d arrays go as they are."""
        if self.flat:
            self._run_flat(compute, out, inputs)
            return
        views: list[Any] = []
        for array in (out, *inputs):
            if not isinstance(array, np.ndarray) or not array.ndim:
                views.append(None)
                continue
            view = array if array.shape == self.sizes else np.broadcast_to(array, self.sizes)
            views.append(view.transpose(self.order) if self.reorders else view)
        indices, turns, out_view = self.indices, self.turns[1:], views.pop(0)
        moved = list(zip(inputs, views, turns, strict=True))

        def part(first: int, last: int) -> None:
            for index in indices[first:last]:
                pieces = [
                    x if view is None else view[index].copy("K") if turned else view[index]
                    for x, view, turned in moved
                ]
                compute(out_view[index], *pieces)

        self._share(len(indices), part)

    def _run_flat(self, compute: Callable[..., Any], out: Any, inputs: Sequence[Any]) -> None:
        limit = self.limit
        whole = np.reshape(out, -1, copy=False)
        lines = [x.reshape(-1) if isinstance(x, np.ndarray) and x.ndim else None for x in inputs]
        moved = list(zip(inputs, lines, strict=True))

        def part(first: int, last: int) -> None:
            for start in range(first * limit, min(last * limit, whole.size), limit):
                end = start + limit
                compute(whole[start:end], *[x if line is None else line[start:end] for x, line in moved])

        self._share(-(-whole.size // limit), part)

    def _share(self, count: int, part: Callable[[int, int], None]) -> None:
        if self.nbytes < self.handed_over:
            part(0, count)
        else:
            parallel_for(0, count, 1, part)
