"""Bilinear and trilinear sampling of small images with zero padding: few positions by one gather, more by tap.

The image gets a border of zeros, two elements wide, and every position outside moves into it. Positions
outside need no mask, and their taps never read an infinity at the edge. Images add their taps in order, as the compiled
loop does (`sampling_loop.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ...runtime.memory_format import contiguous_strides
from ...runtime.tensor_spec import TensorSpec
from ..plain_numpy import np

Array = np.ndarray[Any, Any]

SMALL = 1 << 17
"""Elements of the padded images, and of what the taps take from them, up to which this is the quicker way."""
FEW = 128
"""Positions whose taps are gathered at once. Small matmuls weight those of volumes; each costs as much as some ten
elements.
"""
BORDER = 2


def linear_sampler(
    image: TensorSpec, grid_sizes: Sequence[int], align_corners: bool, np_dtype: np.dtype[Any]
) -> Callable[[Array, Array, Array], None] | None:
    """Return the kernel over (out, image, grid) for images (N, C, ...) with `grid_sizes` positions, or None if
    large.
    """
    n, c, *size = image.sizes
    rank, count = len(size), math.prod(grid_sizes)
    padded = [m + 2 * BORDER for m in size]
    area = math.prod(padded)
    if n * c * max(area, count << rank) > SMALL:
        return None
    real = np_dtype.type
    # The grid has the innermost dimension first.
    sizes = np.array(size[::-1], np_dtype)
    zero, one, half = real(0), real(1), real(0.5)
    last, low, high = sizes - 1, real(-BORDER), sizes
    pitch = np.array(contiguous_strides(padded)[::-1])
    corner = int(pitch.sum()) * BORDER
    first_of = (np.arange(n) * area + corner).reshape(n, 1)
    steps = [0]
    for d in range(rank):
        steps = [step + side * int(pitch[rank - 1 - d]) for step in steps for side in (0, 1)]
    offsets = np.array(steps)
    inside = (slice(None), *[slice(BORDER, BORDER + m) for m in size])
    rows_shape, wide_shape = (n, *padded, c), (n * area, c)
    grid_shape, weight_shape, tap_shape = (n, count, rank), (n, count, 1, 1 << rank), (n, count, 1 << rank, 1)
    moved = (0, *range(2, rank + 2), 1)

    def by_taps(out: Array, array: Array, index: Array, weight: Array) -> None:
        planes = np.zeros((c, n, *padded), np_dtype)
        planes[(slice(None), *inside)] = array.swapaxes(0, 1)
        lines = planes.reshape(c, n * area)
        total = np.zeros((c, len(index)), np_dtype)
        for tap, step in enumerate(steps):
            elements = lines.take(index + step, 1)
            np.multiply(elements, weight[:, tap], elements)
            np.add(total, elements, total)
        out.swapaxes(0, 1)[...] = total.reshape(c, n, *out.shape[2:])

    def into(out: Array, array: Array, grid: Array) -> None:
        x = grid.reshape(grid_shape).astype(np_dtype)
        np.add(x, one, x)
        if align_corners:
            np.multiply(x, half, x)
            np.multiply(x, last, x)
        else:
            np.multiply(x, sizes, x)
            np.subtract(x, one, x)
            np.multiply(x, half, x)
        # A NaN is outside too.
        np.fmax(x, low, out=x)
        np.fmin(x, high, out=x)
        first = np.floor(x)
        weights = np.empty((n, count, rank, 2), np_dtype)
        part = weights[..., 1]
        np.subtract(x, first, part)
        np.subtract(one, part, weights[..., 0])
        index = first.astype(np.int64).dot(pitch)
        np.add(index, first_of, index)
        weight = weights[:, :, rank - 1]
        for d in range(rank - 2, -1, -1):
            weight = (weight[..., None] * weights[:, :, d, None]).reshape(n, count, -1)
        if n * count > FEW:
            by_taps(out, array, index.reshape(-1), weight.reshape(n * count, -1))
            return
        rows = np.zeros(rows_shape, np_dtype)
        rows[inside] = array.transpose(moved)
        elements = rows.reshape(wide_shape).take(index[..., None] + offsets, 0)
        if rank == 2:
            np.multiply(elements, weight.reshape(tap_shape), elements)
            made = np.add(elements[:, :, 0], zero)
            for tap in range(1, len(steps)):
                np.add(made, elements[:, :, tap], made)
        else:
            made = np.matmul(weight.reshape(weight_shape), elements).reshape(n, count, c)
        out[...] = made.swapaxes(1, 2).reshape(out.shape)

    return into
