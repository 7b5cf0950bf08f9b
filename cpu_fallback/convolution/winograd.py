"""Convolution of kernels with three rows by Winograd's F(2, 3) along the columns: four products for two rows, not six.

Rows are laid out as in `rows`: those of several images side by side, with the taps along a row copied beside each
other. Four sums of the rows that two rows of the result meet are multiplied by four sums of the kernel's rows, and
these products added up. The factors of all sums are 1, -1 and 1/2, so that small integers give exact results, and
errors are those of a few additions more. An infinite element would make NaN of its neighbours: `into` returns False
where a result is not finite.

A. Lavin, S. Gray, "Fast Algorithms for Convolutional Neural Networks", 2015.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ...dispatch.iterator.parallel import parallel_for
from ..plain_numpy import np
from ..windows import Window
from ..workspace import borrow, give_back
from .rows import LEAST_LINE, LINE, SMALL_PRODUCT, beyond, copy_rows, shifts_of

LEAST_POSITIONS, LEAST_CHANNELS, LEAST_WORK = 1 << 10, 32, 1 << 23
"""Fewer positions do not make up for the sums of the kernel's rows, fewer channels or outputs for those of the image's,
and fewer products of all three for the calls of NumPy."""
LEAST_PART, MOST_SHARES = 1 << 24, 8
"""Multiplications of a thread's part, and how many parts there are for threads alone."""
PART_BYTES = 5 << 19
"""What is laid out at a time: little enough for `workspace` to keep."""
LEAST_WIDTH = 128
"""Positions that the images of a part have side by side, at least, if there are as many."""

Array = np.ndarray[Any, Any]


def is_worthwhile(images: int, channels: int, outputs: int, window: Window, dtype: np.dtype[Any]) -> bool:
    """Whether windows that `rows` takes have three rows, and there are enough positions and channels."""
    positions = images * window.out[0] * window.out[1]
    return (
        window.kernel[0] == 3
        and positions >= LEAST_POSITIONS
        and min(channels, outputs) >= LEAST_CHANNELS
        and positions * channels * outputs >= LEAST_WORK
    )


class Part(NamedTuple):
    """Some images, and some rows of the result, of which there is a pair for each four sums."""

    images: slice
    rows: slice
    count: int
    pairs: int


class Pairs:
    """How pairs of rows are laid out, for one geometry: `spread` rows of the input, their sums, and the products."""

    def __init__(
        self, images: int, channels: int, outputs: int, window: Window, dtype: np.dtype[Any]
    ) -> None:
        self.channels, self.outputs, self.dtype = channels, outputs, dtype
        self.rows, self.width = window.spatial
        self.above = window.padding[0]
        self.shifts = shifts_of(window)
        self.depth = len(self.shifts) * channels
        made = window.out[0]
        step = min(images, max(1, -(-LEAST_WIDTH // self.width)))
        step = -(-images // -(-images // step))
        each = dtype.itemsize * step * self.width * (2 * channels + 4 * (self.depth + outputs))
        of_images, work = -(-images // step), images * made * self.width * self.depth * outputs
        shares = -(-min(MOST_SHARES, work // LEAST_PART) // of_images)
        pairs = -(-made // 2)
        pairs = -(-pairs // max(1, shares, -(-pairs * each // PART_BYTES)))
        height = 2 * pairs
        self.parts = [
            Part(
                slice(n, min(n + step, images)),
                slice(y, min(y + height, made)),
                min(n + step, images) - n,
                -(-(min(y + height, made) - y) // 2),
            )
            for n in range(0, images, step)
            for y in range(0, made, height)
        ]
        self.room = dtype.itemsize * max(sum(self.sizes(part)) for part in self.parts)

    def sizes(self, part: Part) -> tuple[int, int, int]:
        """Elements of a part's rows, of their sums, and of the products."""
        line = part.count * self.width
        return (
            (2 * part.pairs + 2) * self.channels * line,
            4 * part.pairs * self.depth * line,
            4 * part.pairs * self.outputs * line,
        )

    def array(self, room: Array, offset: int, shape: tuple[int, ...]) -> Array:
        """An array in the room from an element on."""
        return np.ndarray(shape, self.dtype, room, offset * self.dtype.itemsize)

    def sums(self, room: Array, array: Array, part: Part) -> Array:
        """The four sums of rows for each pair: (pairs, 4, depth, images * width)."""
        line, taps = part.count * self.width, len(self.shifts)
        spread = self.array(room, 0, (2 * part.pairs + 2, self.channels, part.count, self.width))
        first = part.rows.start - self.above
        source = slice(max(first, 0), min(first + len(spread), self.rows))
        above, below = source.start - first, max(source.stop - first, 0)
        spread[:above] = 0
        spread[below:] = 0
        copy_rows(spread[above:below], array[part.images, :, source].transpose(2, 1, 0, 3))
        rows = spread.reshape(len(spread), -1)
        size = self.channels * line
        sums = self.array(room, rows.size, (part.pairs, 4, taps, size))
        middle = sums[:, :, taps // 2]
        a, b, c, d = (rows[i : i + 2 * part.pairs - 1 : 2] for i in range(4))
        np.subtract(a, c, middle[:, 0])
        np.add(b, c, middle[:, 1])
        np.subtract(c, b, middle[:, 2])
        np.subtract(b, d, middle[:, 3])
        images = sums.reshape(part.pairs, 4, taps, self.channels, part.count, self.width)
        for tap, shift in enumerate(self.shifts):
            if shift > 0:
                sums[:, :, tap, :-shift] = middle[:, :, shift:]
            elif shift < 0:
                sums[:, :, tap, -shift:] = middle[:, :, :shift]
            if shift:
                images[:, :, tap, :, :, beyond(shift)] = 0
        return sums.reshape(part.pairs, 4, self.depth, line)

    def multiply(self, room: Array, matrices: Array, sums: Array, part: Part) -> Array:
        """Matrices (4, outputs, depth) by the sums: (pairs, 4, outputs, images * width)."""
        line = sums.shape[3]
        offset = self.sizes(part)[0] + self.sizes(part)[1]
        products = self.array(room, offset, (part.pairs, 4, self.outputs, line))
        most = SMALL_PRODUCT // (self.outputs * self.depth)
        most = most if most >= LEAST_LINE else LINE
        length = -(-line // -(-line // most))
        for start in range(0, line, length):
            piece = slice(start, start + length)
            np.matmul(matrices, sums[..., piece], out=products[..., piece])
        return products


def kernel_sums(weight: Array) -> Array:
    """The four sums (4, outputs, depth) of a kernel's three rows, from (3, outputs, taps of a row, channels)."""
    made = np.empty((4, *weight.shape[1:]), weight.dtype)
    np.copyto(made[0], weight[0])
    np.copyto(made[3], weight[2])
    middle = np.multiply(weight[1], 0.5)
    np.add(made[0], made[3], made[1])
    np.multiply(made[1], 0.5, made[1])
    np.subtract(made[1], middle, made[2])
    np.add(made[1], middle, made[1])
    return made.reshape(4, len(weight[0]), -1)


def forward(
    images: int, channels: int, outputs: int, window: Window, dtype: np.dtype[Any]
) -> Callable[..., bool]:
    """``into(out, array, weight, bias)`` for a weight (rows, outputs, taps of a row, channels), a view."""
    pairs = Pairs(images, channels, outputs, window, dtype)

    def into(out: Array, array: Array, weight: Array, bias: Array | None) -> bool:
        matrices = kernel_sums(weight.astype(dtype, copy=False))
        addend = None if bias is None else bias.astype(dtype, copy=False).reshape(-1, 1)
        are_finite: list[bool] = []

        def one(part: Part, room: Array) -> None:
            products = pairs.multiply(room, matrices, pairs.sums(room, array, part), part)
            first, second, third, fourth = (products[:, i] for i in range(4))
            first += second
            first += third
            second -= third
            second -= fourth
            made = products[:, :2]
            flat = made.reshape(part.pairs, -1)
            are_finite.append(bool(np.isfinite(np.vecdot(flat, flat)).all()))
            if addend is not None:
                made += addend
            made = made.reshape(part.pairs, 2, outputs, part.count, pairs.width)
            target = out[part.images, :, part.rows]
            for row in range(2):
                there = target[:, :, row::2]
                copy_rows(there, made[: there.shape[2], row].transpose(2, 1, 0, 3))

        def some(begin: int, end: int) -> None:
            room = borrow(pairs.room)
            try:
                for part in pairs.parts[begin:end]:
                    one(part, room)
            finally:
                give_back(room)

        parallel_for(0, len(pairs.parts), 1, some)
        return all(are_finite)

    return into
