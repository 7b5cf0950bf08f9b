"""Gradient of a convolution's weight as compiled matmuls of packed planes and panels of the output's gradient."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

from ...runtime.cpu.loop_requests import loop_now, shared_loop
from ...runtime.cpu.workspace import borrow, give_back
from ...runtime.parallel import get_num_threads
from ..plain_numpy import np
from ..transposes import COPY
from . import tiles
from .columns import Convolution
from .panel_geometry import forward_geometry
from .panel_tables import LINE_BYTES, TAP, Array, Tables, pack_planes, whole_lines
from .panels import MIN_TASKS_PER_THREAD, applies

MIN_LINE, MAX_POSITIONS = 24, 1 << 12
"""Tiles compute the gradient of a weight faster if output lines have at least so many elements and the stride is 1.
Planes of more positions are too large for a cache.
"""
MAX_SUM_LENGTH = 128
"""Positions whose products one partial sum adds."""
MIN_ROWS = 12
"""Channels of a task at least."""
SUMMED_BYTES, MAX_SUMMED_BYTES, SUMMED_WEIGHTS = 1 << 20, 8 << 20, 8
"""Bytes of the planes and gradients of a share of the images, at least and at most. Between the two, they are
`SUMMED_WEIGHTS` times the bytes of the weight. The sums of shares are added in float64.
"""


def applies_to(conv: Convolution) -> bool:
    """Return True if panels compute the gradient of a weight that `tiles` could compute."""
    is_narrow = conv.rank == 2 and (conv.window.out[1] < MIN_LINE or conv.window.stride[0] > 1)
    return is_narrow and conv.dense <= MAX_POSITIONS and applies(conv, conv.channels, conv.outputs)


@functools.cache
def sums_loops(dtype: str) -> tuple[Callable[..., None], Callable[..., None]] | None:
    """Return the loops of transposes and of weight gradients, or None if they cannot be compiled."""
    from ..transposes_loop import transposes_loop
    from .panels_loop import sums_loop

    made = (loop_now(transposes_loop, dtype), loop_now(sums_loop, dtype))
    return None if made[0] is None or made[1] is None else (made[0], made[1])


class PanelSums:
    """The gradient of a convolution's weight as calls of compiled loops: pixels times panels of the output's gradient.

    Planes and gradients of a share of the images are packed; the sums of shares are added in float64.
    """

    def __init__(self, conv: Convolution) -> None:
        from .panels_loop import width_of

        self.conv, self.width = conv, width_of(conv.dtype.name)
        size = conv.dtype.itemsize
        # Pixels at a stride of many cache lines would share few sets of a cache.
        pixel = conv.channels + (LINE_BYTES // size if conv.channels * size % (4 * LINE_BYTES) == 0 else 0)
        self.geometry = geometry = forward_geometry(conv, pixel)
        self.positions = math.prod(geometry.sizes)
        self.plane = math.prod(geometry.padded) * pixel
        self.panels = -(-conv.outputs // self.width)
        self.taps = math.prod(conv.window.kernel)
        weight = size * conv.channels * self.taps * conv.outputs
        share = min(max(SUMMED_BYTES, SUMMED_WEIGHTS * weight), MAX_SUMMED_BYTES)
        images = max(1, share // (size * (self.plane + self.panels * self.width * self.positions)))
        self.images = -(-conv.n // -(-conv.n // images))
        self.shares = functools.cache(self._planned)

    def __call__(self, out: Array, grad: Array, source: Array) -> None:
        """Compute all of `out`; arrays are gapless."""
        shares, line = self.shares(get_num_threads()), LINE_BYTES // self.conv.dtype.itemsize
        count = -(-self.images * self.plane // line) * line
        size = count + self.images * self.positions * self.panels * self.width
        room = borrow(size * self.conv.dtype.itemsize + LINE_BYTES)
        try:
            buffer = whole_lines(room).view(self.conv.dtype)
            buffers = buffer[:count], buffer[count:]
            if len(shares) == 1:
                shares[0](source, grad, out, *buffers)
                return
            total = np.zeros(out.shape, np.float64)
            for share in shares:
                share(source, grad, out, *buffers)
                total += out
        finally:
            give_back(room)
        np.copyto(out, total, casting="unsafe")

    def _planned(self, threads: int) -> list[Callable[..., None]]:
        """Return a function of the arrays and buffers for each share of the images."""
        n, compiled_loops = self.conv.n, sums_loops(self.conv.dtype.name)
        assert compiled_loops is not None
        sharing = tiles.sharing_of(self.conv, threads)

        @functools.cache
        def sums(images: int) -> Callable[..., None]:
            tables = Tables()
            tasks, room = self._tasks(tables, images, threads if sharing else 1)
            numbers = np.array(tables.numbers, np.int64)
            room_bytes = room * self.conv.dtype.itemsize + LINE_BYTES
            compute = shared_loop(compiled_loops[1], tasks, sharing, (4, room_bytes))
            return lambda *arrays: compute(numbers, *arrays)

        def share_of(first: int) -> Callable[..., None]:
            tables, images = Tables(), min(self.images, n - first)
            packs = [
                shared_loop(compiled_loops[0], tasks, sharing, None)
                for tasks in self._packs(tables, first, images)
            ]
            numbers, compute = np.array(tables.numbers, np.int64), sums(images)

            def share(source: Array, grad: Array, out: Array, pixels: Array, panels: Array) -> None:
                packs[0](numbers, source, pixels)
                packs[1](numbers, grad, panels)
                compute(pixels, panels, out)

            return share

        return [share_of(first) for first in range(0, n, self.images)]

    def _packs(self, tables: Tables, first: int, images: int) -> tuple[list[Array], list[Array]]:
        """Return the tasks that pack planes, and those that pack panels of the gradient."""
        geometry, width, positions, outputs = self.geometry, self.width, self.positions, self.conv.outputs
        panel = images * positions * width
        rows = tables.grid(width, positions)
        columns = tables.grid(positions, width)
        whole, rest = divmod(outputs, width)
        planes, grads = list[Array](), list[Array]()
        for i in range(images):
            numbers = pack_planes(tables, geometry, first + i, 1, 0, geometry.padded[0])
            numbers[COPY.index("to")] = i * self.plane
            planes.append(np.array(numbers, np.int64))
            for start, count, m in ((0, whole, width), (whole, min(rest, 1), rest)):
                if count:
                    source = ((first + i) * outputs + start * width) * positions
                    to, cleared = start * panel + i * positions * width, positions * width * (m < width)
                    steps = (1, source, width * positions, 0, to, panel, 0, cleared, 0)
                    grads.append(np.array([count, *steps, rows, m, columns, positions, 0], np.int64))
        return planes, grads

    def _tasks(self, tables: Tables, images: int, threads: int) -> tuple[list[Array], int]:
        """Return the tasks of the sums, and the number of scratch elements that they need."""
        channels, width, taps = self.conv.channels, self.width, self.taps
        panel, of_output = images * self.positions * width, channels * taps
        (part,), (_, pitch), pixel = self.geometry.parts, self.geometry.padded, self.geometry.pixel
        offsets_of = self._offsets(tables, images)
        cuts = (
            max(1, min(-(-MIN_TASKS_PER_THREAD * threads // self.panels), channels // MIN_ROWS))
            if threads > 1
            else 1
        )
        step = -(-channels // cuts)
        tasks = []
        for p in range(self.panels):
            outputs = min(width, self.conv.outputs - p * width)
            for first in range(0, channels, step):
                count = min(step, channels - first)
                table: list[int] = []
                for first_position in range(0, images * self.positions, MAX_SUM_LENGTH):
                    for tap, line, element in part.taps:
                        offsets, number = offsets_of[line, element]
                        offset = (line * pitch + element) * pixel + first
                        number = min(MAX_SUM_LENGTH, number - first_position)
                        if number > 0:
                            table += [offset, count, tap * count, number, offsets + first_position]
                of_row = tables.add(*((tap * count + c) * width for c in range(count) for tap in range(taps)))
                columns = tables.grid(width, of_output)
                to = p * width * of_output + first * taps
                copy = [1, 1, 0, 0, 0, to, 0, 0, 0, 0, of_row, count * taps, columns, outputs, 0]
                numbers = [p * panel, count * taps * width, len(table) // len(TAP), tables.add(*table), *copy]
                tasks.append(np.array(numbers, np.int64))
        return tasks, step * taps * width

    def _offsets(self, tables: Tables, images: int) -> dict[tuple[int, int], tuple[int, int]]:
        """Return the positions that read pixels.

        Returns:
            For the line and element of a tap, the table of their places, and their number.
        """
        geometry, (part,) = self.geometry, self.geometry.parts
        pitch, walk = geometry.padded[1], geometry.walk * geometry.pixel
        pixels_of: dict[int, list[tuple[int, int]]] = {tap: [] for tap, *_ in part.taps}
        for each in geometry.inside:
            pixels = [(y, x) for y in each.lines for x in each.columns]
            for tap, *_ in each.taps:
                pixels_of[tap] += pixels

        @functools.cache
        def added(pixels: tuple[tuple[int, int], ...]) -> tuple[int, int]:
            offsets = [
                (i * self.plane + (y * pitch + x) * walk) << 32
                | (i * self.positions + y * geometry.sizes[1] + x) * self.width
                for i in range(images)
                for y, x in pixels
            ]
            return tables.add(*offsets), len(offsets)

        return {(line, element): added(tuple(sorted(pixels_of[tap]))) for tap, line, element in part.taps}
