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

from ...runtime.cpu.workspace import borrow, give_back
from ...runtime.parallel import parallel_for
from ..plain_numpy import np
from ..windows import Window
from .rows import LINE, MIN_LINE, SMALL_PRODUCT, beyond, copy_rows, shifts_of

MIN_POSITIONS, MIN_CHANNELS, MIN_WORK = 1 << 10, 32, 1 << 23
"""Minimum positions, which pay for the sums of the kernel's rows; channels or outputs, which pay for those of the
image's; and products of all three, which pay for NumPy's calls.
"""
MAX_WEIGHT_ELEMENTS = 1 << 18
"""Maximum size of a weight whose gradient is summed in parts of some hundred positions."""
MIN_PART, MAX_SHARES = 1 << 24, 8
"""Multiplications of a thread's part, and how many parts there are for threads alone."""
PART_BYTES = 5 << 19
"""Bytes that are packed at a time: few enough for `workspace` to keep."""
MIN_WIDTH = 128
"""Positions that the images of a part have side by side, at least, if there are as many."""

Array = np.ndarray[Any, Any]


def is_worthwhile(images: int, channels: int, outputs: int, window: Window, dtype: np.dtype[Any]) -> bool:
    """Return True if windows that `rows` takes have three rows, and enough positions and channels."""
    positions = images * window.out[0] * window.out[1]
    return (
        window.kernel[0] == 3
        and positions >= MIN_POSITIONS
        and min(channels, outputs) >= MIN_CHANNELS
        and positions * channels * outputs >= MIN_WORK
    )


def sums_are_worthwhile(
    images: int, channels: int, outputs: int, window: Window, dtype: np.dtype[Any]
) -> bool:
    """Return True if Winograd also pays for the weight's gradient, which must be small beside the positions."""
    weight = 3 * window.kernel[1] * channels * outputs
    return weight <= MAX_WEIGHT_ELEMENTS and is_worthwhile(images, channels, outputs, window, dtype)


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
        step = min(images, max(1, -(-MIN_WIDTH // self.width)))
        step = -(-images // -(-images // step))
        each = dtype.itemsize * step * self.width * (2 * channels + 4 * (self.depth + outputs))
        of_images, work = -(-images // step), images * made * self.width * self.depth * outputs
        shares = -(-min(MAX_SHARES, work // MIN_PART) // of_images)
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
        """Return the element counts of a part's rows, of their sums, and of the matmuls."""
        line = part.count * self.width
        return (
            (2 * part.pairs + 2) * self.channels * line,
            4 * part.pairs * self.depth * line,
            4 * part.pairs * self.outputs * line,
        )

    def array(self, room: Array, offset: int, shape: tuple[int, ...]) -> Array:
        """Return an array of the scratch buffer, from an element offset on."""
        return np.ndarray(shape, self.dtype, room, offset * self.dtype.itemsize)

    def sums(self, room: Array, array: Array, part: Part) -> Array:
        """Return the four sums of rows for each pair: (pairs, 4, depth, images * width)."""
        line, taps = part.count * self.width, len(self.shifts)
        rows = self._rows(room, array, part, (1, 0, 2, 3)).reshape(2 * part.pairs + 2, -1)
        sums = self.array(room, rows.size, (part.pairs, 4, taps, self.channels * line))
        self._fill(sums, [rows[i : i + 2 * part.pairs - 1 : 2] for i in range(4)])
        return sums.reshape(part.pairs, 4, self.depth, line)

    def lines(self, room: Array, array: Array, part: Part) -> Array:
        """Return the four sums of rows with all pairs adjacent: (4, depth, pairs * images * width)."""
        line, taps = part.count * self.width, len(self.shifts)
        rows = self._rows(room, array, part, (0, 1, 2, 3)).reshape(self.channels, -1, line)
        sums = self.array(room, rows.size, (1, 4, taps, self.channels * part.pairs * line))
        self._fill(sums, [rows[:, i : i + 2 * part.pairs - 1 : 2] for i in range(4)])
        return sums.reshape(4, self.depth, part.pairs * line)

    def _rows(self, room: Array, array: Array, part: Part, order: tuple[int, ...]) -> Array:
        """Return the rows that a part reads, (channels, rows, images, width) in `order`, with zeros at the
        border.
        """
        sizes = (self.channels, 2 * part.pairs + 2, part.count, self.width)
        made = self.array(room, 0, tuple(sizes[d] for d in order))
        spread = made.transpose(order)  # an exchange of two is its own inverse
        first = part.rows.start - self.above
        source = slice(max(first, 0), min(first + sizes[1], self.rows))
        above, below = source.start - first, max(source.stop - first, 0)
        spread[:, :above] = 0
        spread[:, below:] = 0
        copy_rows(spread[:, above:below], array[part.images, :, source].transpose(1, 2, 0, 3))
        return made

    def _fill(self, sums: Array, rows: list[Array]) -> None:
        """Fill the sums (some, 4, taps, elements) from each pair's four rows, shifted by tap, zero in the border."""
        taps, (a, b, c, d) = len(self.shifts), rows
        middle = sums[:, :, taps // 2]
        targets = [middle[:, i].reshape(a.shape) for i in range(4)]
        np.subtract(a, c, targets[0])
        np.add(b, c, targets[1])
        np.subtract(c, b, targets[2])
        np.subtract(b, d, targets[3])
        whole = sums.reshape(len(sums), 4, taps, -1, self.width)
        for tap, shift in enumerate(self.shifts):
            if shift > 0:
                sums[:, :, tap, :-shift] = middle[:, :, shift:]
            elif shift < 0:
                sums[:, :, tap, -shift:] = middle[:, :, :shift]
            if shift:
                whole[:, :, tap, :, beyond(shift)] = 0

    def multiply(self, room: Array, matrices: Array, sums: Array, part: Part) -> Array:
        """Multiply matrices (4, outputs, depth) by the sums: (pairs, 4, outputs, images * width)."""
        line = sums.shape[3]
        offset = self.sizes(part)[0] + self.sizes(part)[1]
        products = self.array(room, offset, (part.pairs, 4, self.outputs, line))
        most = SMALL_PRODUCT // (self.outputs * self.depth)
        most = most if most >= MIN_LINE else LINE
        length = -(-line // -(-line // most))
        for start in range(0, line, length):
            piece = slice(start, start + length)
            np.matmul(matrices, sums[..., piece], out=products[..., piece])
        return products


def kernel_sums(weight: Array) -> Array:
    """Return the four sums (4, outputs, depth) of a kernel's rows, from (3, outputs, taps of a row, channels)."""
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
    """Return ``into(out, array, weight, bias)`` for a weight (rows, outputs, taps of a row, channels), a view."""
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


def backward_weight(
    images: int, channels: int, outputs: int, window: Window, dtype: np.dtype[Any], totals: int
) -> Callable[..., bool]:
    """Return ``into(out, grad, input)``: sums of rows of the input by sums of the gradient's, added up in float64.

    At most so many totals are made side by side. False if a result is not finite.
    """
    pairs = Pairs(images, channels, outputs, window, dtype)
    step = -(-len(pairs.parts) // totals)
    shares = [pairs.parts[i : i + step] for i in range(0, len(pairs.parts), step)]
    wide = np.dtype(np.float64) if dtype == np.float32 else dtype
    taps = len(pairs.shifts)

    def into(out: Array, grad: Array, input: Array) -> bool:
        found = np.zeros((len(shares), 4, pairs.depth, outputs), wide)

        def one(total: Array, part: Part, room: Array) -> None:
            lines = pairs.lines(room, input, part)
            offset = pairs.sizes(part)[0] + pairs.sizes(part)[1]
            rows = pairs.array(room, offset, (4, outputs, part.pairs, part.count, pairs.width))
            there = grad[part.images, :, part.rows]
            for row, target in ((0, rows[0]), (1, rows[3])):
                source = there[:, :, row::2].transpose(1, 2, 0, 3)
                target[:, source.shape[1] :] = 0
                copy_rows(target[:, : source.shape[1]], source)
            np.add(rows[0], rows[3], rows[1])
            np.subtract(rows[0], rows[3], rows[2])
            np.negative(rows[3], rows[3])
            total += np.matmul(lines, rows.reshape(4, outputs, -1).swapaxes(1, 2))

        def some(begin: int, end: int) -> None:
            room = borrow(pairs.room)
            try:
                for share in range(begin, end):
                    for part in shares[share]:
                        one(found[share], part, room)
            finally:
                give_back(room)

        parallel_for(0, len(shares), 1, some)
        total = np.add.reduce(found, axis=0).reshape(4, taps, channels, outputs)
        if not np.isfinite(total).all():
            return False
        half = (total[1] + total[2]) / 2
        kernel = (total[0] + half, (total[1] - total[2]) / 2, total[3] + half)
        for row, values in enumerate(kernel):
            np.copyto(out[:, :, row], values.transpose(2, 1, 0), casting="unsafe")
        return True

    return into
