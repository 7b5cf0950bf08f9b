"""Gradient of a weight with few taps for each output, as for an image's three color channels.

The columns are then small: they are copied without gaps, so that matmuls read the large gradient in place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...runtime.cpu.workspace import borrow, give_back
from ...runtime.parallel import parallel_for
from ..plain_numpy import np
from ..windows import Padding, windows
from .columns import Convolution

MAX_DEPTH = 64
"""Channels times taps; those of more are laid out in runs, and the gradient with them."""
MAX_POSITIONS = 1 << 12
"""Positions that a matmul accumulates in its own dtype; the matmuls are added in float64."""
COLUMN_BYTES = 1 << 20
"""Windows that a thread lays out at a time."""
MIN_PART = 1 << 22
"""Multiplications of a thread's part."""

Array = np.ndarray[Any, Any]


def applies(conv: Convolution) -> bool:
    """Return True if the columns are small compared with the gradient, and their rows are not too long."""
    return (
        conv.groups == 1
        and conv.multiply is np.matmul
        and conv.depth <= min(MAX_DEPTH, 2 * conv.outputs)
        and conv.run // conv.window.out[0] <= MAX_POSITIONS
    )


def weight_gradient(conv: Convolution) -> Callable[..., None]:
    """Return ``into(out, grad, input)``: a product for each image, or for some rows of one."""
    window, dtype, depth, outputs, n = conv.window, conv.dtype, conv.depth, conv.outputs, conv.n
    pad = Padding(window, dtype)
    wide = np.dtype(np.float64) if dtype == np.float32 else dtype
    line = conv.dense // window.out[0]
    height = -(-window.out[0] // -(-conv.dense // MAX_POSITIONS))
    blocks = [(y, min(y + height, window.out[0])) for y in range(0, window.out[0], height)]
    images = max(1, min(n, COLUMN_BYTES // (depth * height * line * dtype.itemsize)))
    # The larger matrix first: the other way round the BLAS takes up to 1.5 times as long.
    is_turned = depth >= outputs
    sizes = (depth, outputs) if is_turned else (outputs, depth)
    starts = range(0, n, images)
    grain = max(1, MIN_PART // (images * conv.dense * depth * outputs))

    def into(out: Array, grad: Array, input: Array) -> None:
        products = np.empty((len(blocks), n, *sizes), dtype)
        grad = np.ascontiguousarray(grad, dtype).reshape(n, outputs, -1)

        def some(first: int, last: int) -> None:
            room = borrow(images * depth * height * line * dtype.itemsize)
            try:
                for start in starts[first:last]:
                    one(slice(start, min(start + images, n)), room)
            finally:
                give_back(room)

        def one(part: slice, room: Array) -> None:
            every = windows(pad(input[part]), window)
            for number, (top, bottom) in enumerate(blocks):
                met = every[(slice(None),) * (2 + conv.rank) + (slice(top, bottom),)]
                columns: Array = np.ndarray(met.shape, dtype, room)
                np.copyto(columns, met)
                left = grad[part, :, top * line : bottom * line]
                right = columns.reshape(len(columns), depth, -1)
                if is_turned:
                    left, right = right, left
                np.matmul(left, right.swapaxes(1, 2), out=products[number, part])

        parallel_for(0, len(starts), grain, some)
        total = np.add.reduce(products.reshape(-1, *sizes), axis=0, dtype=wide)
        np.copyto(out.reshape(outputs, depth), total.T if is_turned else total, casting="unsafe")

    return into
