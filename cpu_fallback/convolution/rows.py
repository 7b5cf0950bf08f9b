"""Convolution of images whose width stays the same, by stacks of rows of several images.

The stack is (rows, taps of a row, channels, images * width), and is contiguous. The windows of an output row
are the stack's entries from that row on, as many as the kernel has rows: a matrix that is read in place. Only
the taps along a row are copied, a third of im2col's copies for a 3x3 kernel, and the result has no gaps.

All rows of all images are one batch of matmuls, each small enough for the BLAS to read its factors unpacked.
The size of a part depends on shapes alone, so results do not depend on the number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from ...runtime.blas_threads import on_one_thread
from ...runtime.cpu.workspace import borrow, give_back
from ...runtime.parallel import parallel_for
from ..plain_numpy import np
from ..windows import Window

SMALL_PRODUCT = 1_000_000
"""Multiplications up to which OpenBLAS 0.3 packs nothing (its small matrix kernels): up to 1.4 times as fast."""
MIN_LINE, LINE = 48, 256
"""Positions of a product: fewer than `MIN_LINE` would cost more than packing does, and then they are `LINE`."""
PART_BYTES = 3 << 20
"""A stack and its products that are made at a time: little enough for `workspace` to keep."""
MIN_PART = 1 << 24
"""Multiplications of a thread's part: some 350 us, of which waking up and waiting for the GIL take a quarter."""
MAX_SHARES = 8
"""Parts that there are for threads alone."""
MIN_WIDTH = 128
"""Positions that the images of a part have side by side, at least, if there are as many."""
SHORT = 64
"""Positions side by side in all below which products of rows cost more than those of whole planes."""
WIDE, MAX_WEIGHT_ELEMENTS = 128, 1 << 17
"""Columns from which the weight's gradient is better summed over planes, since transposing costs more than packing;
and elements of a weight from which a matmul of its size for each row is too large.
"""

Array = np.ndarray[Any, Any]


class Part(NamedTuple):
    """Some images and some rows of a result. An index of all there is, is None."""

    images: slice | None
    rows: slice | None
    source: slice
    """The rows that its windows meet, without the border."""
    above: int
    """Rows of the border before those in the stack."""
    count: int
    """Number of images."""
    height: int
    """Number of rows of the result."""

    def of(self, array: Array) -> Array:
        """Return the view of a result (images, channels, rows, width) that this part covers."""
        array = array if self.images is None else array[self.images]
        return array if self.rows is None else array[:, :, self.rows]


class RowStack:
    """How the rows of an array of images meet the kernel's rows, for one of the three kernels.

    Args:
        images, channels, rows: Sizes of the array.
        window: its width, and the kernel's rows.
        made: rows of the result.
        above: rows of the border above.
        shifts: for each tap along a row, how many positions after its own a window meets; the middle one is 0.
        across: what a product has beside the stack's matrix, so that its multiplications follow.
        is_summed: products are (depth, across), not (across, positions).
    """

    def __init__(
        self,
        images: int,
        channels: int,
        rows: int,
        window: Window,
        made: int,
        above: int,
        shifts: tuple[int, ...],
        across: int,
        dtype: np.dtype[Any],
        is_summed: bool = False,
    ) -> None:
        self.channels, self.rows, self.width = channels, rows, window.spatial[1]
        self.shifts, self.across, self.dtype, self.is_summed = shifts, across, dtype, is_summed
        self.entry = len(shifts) * channels
        self.depth = window.kernel[0] * self.entry
        self.border = window.kernel[0] - 1
        self.parts = self._cut(images, made, above)
        self.room = dtype.itemsize * max(self.offset(part) + self.made(part) for part in self.parts)

    def _cut(self, images: int, made: int, above: int) -> list[Part]:
        size = self.dtype.itemsize
        line = size * (self.entry + self.across) * self.width  # of an image's row
        maximum = max(1, PART_BYTES // (line * (made + self.border)))
        work = images * made * self.width * self.depth * self.across
        num_parts = min(MAX_SHARES, max(1, work // MIN_PART))
        maximum = max(min(maximum, -(-images // num_parts)), -(-MIN_WIDTH // self.width))
        count = 1 << (-(-images // maximum) - 1).bit_length()
        step = -(-images // count)
        row = line * step + size * self.products(step * self.width)
        height = max(1, PART_BYTES // row - self.border)
        height = made if height >= made else -(-made // -(-made // height))
        parts = []
        for n in range(0, images, step):
            for y in range(0, made, height):
                stop, end = min(n + step, images), min(y + height, made)
                first = y - above
                source = slice(max(first, 0), min(end + self.border - above, self.rows))
                parts.append(
                    Part(
                        None if stop - n == images else slice(n, stop),
                        None if end - y == made else slice(y, end),
                        source,
                        source.start - first,
                        stop - n,
                        end - y,
                    )
                )
        return parts

    def offset(self, part: Part) -> int:
        """Return the number of elements of a part's stack, the offset of the results in a scratch buffer."""
        return (part.height + self.border) * self.entry * part.count * self.width

    def made(self, part: Part) -> int:
        """Return the number of result elements of a part."""
        line = part.count * self.width
        return part.height * (self.across * line + self.products(line))

    def products(self, line: int) -> int:
        """Return the number of elements of a row's matmuls that are to be summed."""
        if not self.is_summed:
            return 0
        return sum(number for _, number, _ in self.pieces(line)) * self.depth * self.across

    def fill(self, room: Array, array: Array, part: Part) -> None:
        """Make the stack (rows, taps, channels, images, width) of a part in `room`."""
        taps, middle = len(self.shifts), len(self.shifts) // 2
        shape = (part.height + self.border, taps, self.channels, part.count, self.width)
        stack: Array = np.ndarray(shape, self.dtype, room)
        below = part.above + part.source.stop - part.source.start
        stack[: part.above] = 0
        stack[below:] = 0
        inner = stack[part.above : below]
        array = array if part.images is None else array[part.images]
        copy_rows(inner[:, middle], array[:, :, part.source].transpose(2, 1, 0, 3))
        flat = inner.reshape(len(inner), taps, -1)
        for tap, shift in enumerate(self.shifts):
            if shift > 0:
                flat[:, tap, :-shift] = flat[:, middle, shift:]
            elif shift < 0:
                flat[:, tap, -shift:] = flat[:, middle, :shift]
            if shift:
                inner[:, tap, :, :, beyond(shift)] = 0

    def windows(self, room: Array, part: Part, piece: tuple[int, int, int]) -> Array:
        """Return the windows of the output rows, (rows, number, depth, length), for a piece of the line."""
        line, size = part.count * self.width, self.dtype.itemsize
        begin, number, length = piece
        return np.ndarray(
            (part.height, number, self.depth, length),
            self.dtype,
            room,
            begin * size,
            (self.entry * line * size, length * size, line * size, size),
        )

    def multiply(self, matrix: Array, room: Array, part: Part) -> Array:
        """(across, depth) by the windows of each row: (rows, across, images, width), behind the stack."""
        line, size, start = part.count * self.width, self.dtype.itemsize, self.offset(part)
        for piece in self.pieces(line):
            begin, number, length = piece
            out: Array = np.ndarray(
                (part.height, number, self.across, length),
                self.dtype,
                room,
                (start + begin) * size,
                (self.across * line * size, length * size, line * size, size),
            )
            np.matmul(matrix, self.windows(room, part, piece), out=out)
        shape = (part.height, self.across, part.count, self.width)
        return np.ndarray(shape, self.dtype, room, start * size)

    def pieces(self, line: int) -> list[tuple[int, int, int]]:
        """Return the split of a line into matmuls: (first position, number of consecutive matmuls, positions of
        each).
        """
        most = SMALL_PRODUCT // (self.across * self.depth)
        most = most if most >= MIN_LINE else LINE
        if line <= most:
            return [(0, 1, line)]
        length = -(-line // -(-line // most))
        number, rest = divmod(line, length)
        return [(0, number, length)] + ([(number * length, 1, rest)] if rest else [])

    def over(self, shares: list[list[Part]], some: Callable[[int, Part, Array], None]) -> None:
        """Call ``some(share, part, room)`` for all parts, on several threads if there are several shares."""

        def with_room(first: int, last: int) -> None:
            room = borrow(self.room)
            try:
                for share in range(first, last):
                    for part in shares[share]:
                        some(share, part, room)
            finally:
                give_back(room)

        parallel_for(0, len(shares), 1, on_one_thread(with_room))


def beyond(shift: int) -> slice:
    """Return the slice of a row's positions that a shift moves out of it."""
    return slice(-shift, None) if shift > 0 else slice(0, -shift)


def copy_rows(target: Array, source: Array) -> None:
    """Copy between arrays (..., width) whose rows lie differently.

    NumPy's innermost loop is along a row, and short; where both have rows without gaps, each moves as one item.
    """
    width, size = target.shape[-1], target.itemsize
    if width > 1 and target.dtype == source.dtype and target.strides[-1] == source.strides[-1] == size:
        item = np.dtype((np.void, width * size))
        target, source = target.view(item)[..., 0], source.view(item)[..., 0]
    np.copyto(target, source, casting="unsafe")


def has_rows(images: int, window: Window) -> bool:
    """Return True if windows have strides of 1, keep the width, have adjacent rows, and the rows are long
    enough.
    """
    if len(window.out) != 2 or window.stride != (1, 1) or window.dilation[0] != 1:
        return False
    if images * window.spatial[1] < SHORT:
        return False
    (rows, taps), (above, left), step = window.kernel, window.padding, window.dilation[1]
    return taps % 2 == 1 and 2 * left == (taps - 1) * step and left < window.spatial[1] and above < rows


def turned(window: Window) -> Window:
    """Return the window of the convolution that computes the gradient of the input, for strides of 1."""
    padding = tuple(
        (k - 1) * d - p for k, d, p in zip(window.kernel, window.dilation, window.padding, strict=True)
    )
    return window._replace(spatial=window.out, padding=padding, out=window.spatial)


def sums_by_rows(channels: int, outputs: int, window: Window) -> bool:
    """Return True if the weight's gradient is also computed as a sum of matmuls of rows."""
    return window.spatial[1] < WIDE and outputs * channels * math.prod(window.kernel) <= MAX_WEIGHT_ELEMENTS


def shifts_of(window: Window) -> tuple[int, ...]:
    """Return the offset of each tap along a row from the window's own position."""
    return tuple(tap * window.dilation[1] - window.padding[1] for tap in range(window.kernel[1]))


def forward(
    images: int, channels: int, outputs: int, window: Window, dtype: np.dtype[Any]
) -> Callable[..., None]:
    """Return ``into(out, input, weight, bias)``, which multiplies the weight (outputs, depth) by each row's
    windows.
    """
    stack = RowStack(
        images, channels, window.spatial[0], window, window.out[0], window.padding[0], shifts_of(window), outputs, dtype
    )  # fmt: skip
    shares = [[part] for part in stack.parts]

    def into(out: Array, input: Array, weight: Array, bias: Array | None) -> None:
        matrix = weight.astype(dtype, copy=False).transpose(0, 2, 3, 1).reshape(outputs, -1)
        addend = None if bias is None else bias.astype(dtype, copy=False).reshape(-1, 1, 1)

        def some(_: int, part: Part, room: Array) -> None:
            stack.fill(room, input, part)
            product = stack.multiply(matrix, room, part)
            if addend is not None:
                product += addend
            copy_rows(part.of(out), product.transpose(2, 1, 0, 3))

        stack.over(shares, some)

    return into


def backward_input(
    images: int, channels: int, outputs: int, window: Window, dtype: np.dtype[Any]
) -> Callable[..., None]:
    """Return ``into(out, grad, weight, bias)``, which multiplies the weight by the gradient's windows along
    rows.

    Each tap of a row is added at its own position. Every value of the weight must be finite, since it
    multiplies the border's zeros.
    """
    taps, above = shifts_of(window), window.kernel[0] - 1 - window.padding[0]
    stack = RowStack(
        images, outputs, window.out[0], window, window.spatial[0], above, (0,), len(taps) * channels, dtype
    )
    shares = [[part] for part in stack.parts]
    middle = len(taps) // 2

    def into(out: Array, grad: Array, weight: Array, bias: Array | None = None) -> None:
        # (taps of a row, channels) by (rows of the kernel, from the last on, and outputs)
        matrix = weight.astype(dtype, copy=False)[:, :, ::-1].transpose(3, 1, 2, 0).reshape(stack.across, -1)
        addend = None if bias is None else bias.astype(dtype, copy=False).reshape(-1, 1, 1)

        def some(_: int, part: Part, room: Array) -> None:
            stack.fill(room, grad, part)
            product = stack.multiply(matrix, room, part)
            flat = product.reshape(part.height, len(taps), -1)
            by_tap = product.reshape(part.height, len(taps), channels, part.count, stack.width)
            total = flat[:, middle]
            for tap, shift in enumerate(taps):
                if shift:
                    by_tap[:, tap, :, :, beyond(shift)] = 0  # these belong beyond the end of their row
                if shift > 0:
                    total[:, shift:] += flat[:, tap, :-shift]
                elif shift < 0:
                    total[:, :shift] += flat[:, tap, -shift:]
            sums = by_tap[:, middle]
            if addend is not None:
                sums += addend
            copy_rows(part.of(out), sums.transpose(2, 1, 0, 3))

        stack.over(shares, some)

    return into


def backward_weight(
    images: int, channels: int, outputs: int, window: Window, dtype: np.dtype[Any], totals: int
) -> Callable[..., None]:
    """Return ``into(out, grad, input)``, which multiplies each row's windows by the gradient.

    Matmuls accumulate within a part, and parts accumulate in float64. At most `totals` accumulators exist at
    once.
    """
    taps = shifts_of(window)
    stack = RowStack(
        images, channels, window.spatial[0], window, window.out[0], window.padding[0], taps, outputs, dtype, True
    )  # fmt: skip
    step = -(-len(stack.parts) // totals)
    shares = [stack.parts[i : i + step] for i in range(0, len(stack.parts), step)]
    wide = np.dtype(np.float64) if dtype == np.float32 else dtype
    each, size = stack.depth * outputs, dtype.itemsize

    def into(out: Array, grad: Array, input: Array) -> None:
        sums = np.zeros((len(shares), each), wide)

        def some(share: int, part: Part, room: Array) -> None:
            stack.fill(room, input, part)
            line, offset = part.count * stack.width, stack.offset(part)
            # A second factor whose rows lie one after the other needs no packing.
            shape = (part.height, part.count, stack.width, outputs)
            rows: Array = np.ndarray(shape, dtype, room, offset * size)
            np.copyto(rows, part.of(grad).transpose(2, 0, 3, 1), casting="unsafe")
            start = end = offset + part.height * line * outputs
            for piece in stack.pieces(line):
                begin, number, length = piece
                positions: Array = np.ndarray(
                    (part.height, number, length, outputs),
                    dtype,
                    room,
                    (offset + begin * outputs) * size,
                    (line * outputs * size, length * outputs * size, outputs * size, size),
                )
                made: Array = np.ndarray((part.height, number, stack.depth, outputs), dtype, room, end * size)
                np.matmul(stack.windows(room, part, piece), positions, out=made)
                end += part.height * number * each
            products: Array = np.ndarray(((end - start) // each, each), dtype, room, start * size)
            sums[share] += np.add.reduce(products, axis=0)

        stack.over(shares, some)
        total = np.add.reduce(sums, axis=0).reshape(window.kernel[0], len(taps), channels, outputs)
        np.copyto(out, total.transpose(3, 2, 0, 1), casting="unsafe")

    return into
