"""Convolutions of many channels as compiled matmuls over channels-last planes (the extra ``triten[jit]``).

The loops (`panels_loop.py`) read planes that are packed channels-last, with their border. The pixels of a tap are runs
of channels. This module computes the offsets of pixels (`panel_tables.py`), and shares the work among threads. A task
packs the planes of a few images, or a band of lines of one image, which stay in the second-level cache.

Taps outside of the image are not computed: no zero is multiplied by a weight or a gradient that is infinite. The order
of additions does not depend on the number of threads.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

from ...runtime.cpu.loop_requests import Sharing, loop_now, shared_loop
from ...runtime.parallel import get_num_threads
from ..plain_numpy import np
from ..transposes import COPY
from . import tiles
from .columns import Convolution
from .panel_geometry import Geometry, backward_geometry, forward_geometry
from .panel_tables import BLOCK, LINE_BYTES, Array, Tables, pack_planes, whole_lines

MIN_CHANNELS, MIN_OUTPUTS = 24, 16
"""Smallest numbers of channels and outputs for which panels are faster than tiles of positions."""
PLANE_BYTES = 1 << 18
"""Bytes of a task's planes at most, which stay in the second-level cache."""
MIN_POSITIONS = 96
"""Positions of a task at least, if there are so many images. They share the reads of the weight."""
MIN_LINES = 4
"""Lines of a band of a large image at least."""
MAX_SUM_LENGTH = 256
"""Products that one partial sum adds. Partial sums are then added, as in BLAS."""
MIN_TASKS_PER_THREAD = 2
MAX_PLANES_OF_A_TASK, MIN_WEIGHT_OF_A_TASK = 1 << 20, 1 << 18
"""Tasks share no packed planes if all planes have at most so many bytes, and the weight at least so many elements.

Each task then packs the planes of all images and the panels that it needs.
"""


def applies(conv: Convolution, channels: int, outputs: int) -> bool:
    """Return True if panels compute a convolution that `tiles` could compute: of so many channels to outputs."""
    return (
        conv.groups == 1
        and conv.rank == 2
        and channels >= MIN_CHANNELS
        and outputs >= MIN_OUTPUTS
        and loops(conv.dtype.name) is not None
    )


@functools.cache
def loops(dtype: str) -> tuple[Callable[..., None], Callable[..., None]] | None:
    """Return the loops of transposes and of outputs, or None if they cannot be compiled."""
    from ..transposes_loop import transposes_loop
    from .panels_loop import outputs_loop

    made = (loop_now(transposes_loop, dtype), loop_now(outputs_loop, dtype))
    return None if made[0] is None or made[1] is None else (made[0], made[1])


class Packing:
    """Weights of a geometry in panels: (panels, taps in the order of parts, channels, outputs of a panel)."""

    def __init__(self, conv: Convolution, geometry: Geometry, *, is_backward: bool, width: int) -> None:
        count, channels = math.prod(conv.window.kernel), geometry.channels
        self.width, self.outputs = width, geometry.outputs
        self.panels = -(-geometry.outputs // width)
        self.size = count * channels * width
        taps = [tap for part in geometry.parts for tap, *_ in part.taps]
        taps += sorted({*range(count)} - {*taps})  # those that nothing reads
        self.row_of = {tap: index * channels for index, tap in enumerate(taps)}
        self.of_output = count if is_backward else channels * count
        self.repeats = (channels, geometry.outputs * count, width) if is_backward else (1, 0, 0)
        depth = 1 if is_backward else channels
        self.columns = [(self.row_of[tap] + c) * width for c in range(depth) for tap in range(count)]
        self.span = width * count if is_backward else 0
        tables = Tables()
        self.tasks = [np.array(self.copy(tables, panel), np.int64) for panel in range(self.panels)]
        self.tables = np.array(tables.numbers, np.int64)

    def copy(self, tables: Tables, panel: int, to: int | None = None) -> list[int]:
        """Return the `COPY` of a panel to its place, or to another one."""
        count, source_step, to_step = self.repeats
        source, to = panel * self.width * self.of_output, panel * self.size if to is None else to
        rows = tables.grid(self.width, self.of_output)
        m = min(self.width, self.outputs - panel * self.width)
        return [
            *(count, 1, source, source_step, self.width * self.of_output, to, to_step, 0, 0, 0),
            *(rows, m, tables.add(*self.columns), len(self.columns), self.span),
        ]


class PanelConvolution:
    """A convolution, or the gradient of its input, as calls of compiled loops.

    Args:
        conv: the convolution.
        is_backward: If True, compute the gradient of the input.
    """

    def __init__(self, conv: Convolution, *, is_backward: bool) -> None:
        from .panels_loop import width_of

        self.conv, self.width = conv, width_of(conv.dtype.name)
        self.geometry = (backward_geometry if is_backward else forward_geometry)(conv)
        self.packing = Packing(conv, self.geometry, is_backward=is_backward, width=self.width)
        self.planned = functools.cache(self._planned)
        planes = conv.n * math.prod(self.geometry.padded) * self.geometry.channels * conv.dtype.itemsize
        self.packs_itself = (
            planes <= MAX_PLANES_OF_A_TASK and self.packing.size * self.packing.panels >= MIN_WEIGHT_OF_A_TASK
        )
        self.no_bias = np.zeros(self.packing.panels * self.width, conv.dtype)

    def __call__(self, out: Array, source: Array, weight: Array, bias: Array | None) -> None:
        """Compute all of `out`; arrays are gapless but for `bias`."""
        addend = self.no_bias
        if bias is not None:
            addend = np.zeros_like(self.no_bias)
            addend[: self.geometry.outputs] = bias
        pack, compute = self.planned(get_num_threads())
        panels = weight
        if pack is not None:
            size = self.packing.panels * self.packing.size * self.conv.dtype.itemsize
            panels = whole_lines(np.empty(size + LINE_BYTES, np.uint8)).view(self.conv.dtype)
            pack(self.packing.tables, weight, panels)
        compute(source, panels, addend, out)

    def _planned(self, threads: int) -> tuple[Callable[..., None] | None, Callable[..., None]]:
        compiled_loops = loops(self.conv.dtype.name)
        assert compiled_loops is not None
        sharing = tiles.sharing_of(self.conv, threads)
        pack = (
            None if self.packs_itself else shared_loop(compiled_loops[0], self.packing.tasks, sharing, None)
        )
        return pack, self._outputs(compiled_loops[1], sharing, threads)

    def _lines(self) -> int:
        """Return the number of lines of the largest part."""
        return max(part.lines.stop for part in self.geometry.parts)

    def _blocks(self) -> list[tuple[int, int, int, int]]:
        """Return the tasks' images and lines: the first and the number of both."""
        geometry, n, lines = self.geometry, self.conv.n, self._lines()
        if self.packs_itself:
            return [(0, n, 0, lines)]
        size = geometry.padded[1] * geometry.channels * self.conv.dtype.itemsize
        positions = math.prod(geometry.sizes)
        if geometry.padded[0] * size <= PLANE_BYTES or lines <= MIN_LINES:
            images = max(1, min(n, PLANE_BYTES // (geometry.padded[0] * size), -(-1024 // positions)))
            images = max(images, min(n, -(-MIN_POSITIONS // positions)))
            images = -(-n // -(-n // images))
            return [(i, min(images, n - i), 0, lines) for i in range(0, n, images)]
        count = max(MIN_LINES, (PLANE_BYTES // size - geometry.beyond) // geometry.walk)
        count = -(-lines // -(-lines // count))
        return [(i, 1, y, min(count, lines - y)) for i in range(n) for y in range(0, lines, count)]

    def _outputs(self, loop: Callable[..., None], sharing: Sharing, threads: int) -> Callable[..., None]:
        blocks, panels = self._blocks(), self.packing.panels
        cuts = 1 if not sharing else min(panels, -(-MIN_TASKS_PER_THREAD * threads // len(blocks)))
        step = -(-panels // cuts)
        tables, tasks, room = Tables(), [], 0
        parts = functools.cache(functools.partial(self._parts, tables))
        for first, images, line, lines in blocks:
            for panel in range(0, panels, step):
                numbers, elements = self._numbers(
                    tables, parts, (first, images), (line, lines), (panel, min(panel + step, panels))
                )
                tasks.append(numbers)
                room = max(room, elements)
        made = np.array(tables.numbers, np.int64)
        compute = shared_loop(loop, tasks, sharing, (5, room * self.conv.dtype.itemsize + LINE_BYTES))
        return lambda *arrays: compute(made, *arrays)

    def _parts(
        self,
        tables: Tables,
        images: int,
        lines: int,
        positions: int,
        line_ranges: tuple[tuple[int, int], ...],
    ) -> tuple[int, int]:
        """Return the place and the number of the parts of a block: `met` are each part's lines in it."""
        geometry, width = self.geometry, self.width
        channels, pitch = geometry.channels, geometry.padded[1]
        image = self._plane_lines(lines) * pitch * channels
        rows: list[int] = []
        count = 0
        for part, (begin, end) in zip(geometry.inside, line_ranges, strict=True):
            if begin < end and part.columns:
                pixels = [(i, y, x) for i in range(images) for y in range(begin, end) for x in part.columns]
                plane_offsets = [i * image + (y * pitch + x) * geometry.walk * channels for i, y, x in pixels]
                step, (top, left) = geometry.step, part.start
                result_offsets = [
                    (i * positions + (y * step + top) * geometry.sizes[1] + x * step + left) * width
                    for i, y, x in pixels
                ]
                blocks: list[int] = []
                for runs in _in_blocks(_runs_of(part.taps, geometry, self.packing.row_of), MAX_SUM_LENGTH):
                    blocks += [len(runs), tables.add(*(number for run in runs for number in run))]
                number = len(blocks) // len(BLOCK)
                rows += [
                    len(pixels),
                    tables.add(*plane_offsets),
                    tables.add(*result_offsets),
                    number,
                    tables.add(*blocks),
                ]
                count += 1
        return tables.add(*rows), count

    def _plane_lines(self, lines: int) -> int:
        geometry = self.geometry
        whole = lines == self._lines()
        return geometry.padded[0] if whole else (lines - 1) * geometry.walk + geometry.beyond + 1

    def _positions(self, first: int, lines: int) -> int:
        """Return the outputs of an image that a band has."""
        height, width = self.geometry.sizes
        return (min((first + lines) * self.geometry.step, height) - first * self.geometry.step) * width

    def _numbers(
        self,
        tables: Tables,
        parts: Callable[..., tuple[int, int]],
        block: tuple[int, int],
        band: tuple[int, int],
        panels: tuple[int, int],
    ) -> tuple[Array, int]:
        """Return the integers that describe a task, and the number of scratch elements that it needs."""
        geometry, (first, images), (line, lines) = self.geometry, block, band
        height, width = geometry.sizes
        positions = self._positions(line, lines)
        planes = pack_planes(tables, geometry, first, images, line * geometry.walk, self._plane_lines(lines))
        aligned = LINE_BYTES // self.conv.dtype.itemsize
        packed = -(-images * planes[COPY.index("to_step")] // aligned) * aligned
        results_offset = packed + (self.packing.size if self.packs_itself else 0)
        own = (range(max(line, p.lines.start), min(line + lines, p.lines.stop)) for p in geometry.inside)
        line_ranges = tuple((each.start - line, each.stop - line) if each else (0, 0) for each in own)
        parts_offset, count = parts(images, lines, positions, line_ranges)
        plane = height * width
        results = [
            *(images, 1, 0, positions * self.width, 0),
            first * geometry.outputs * plane + line * geometry.step * width,
            *(geometry.outputs * plane, self.width * plane, 0, 0),
            *(tables.grid(positions, self.width), positions),
            *(tables.grid(self.width, plane), self.width, 0),
        ]
        numbers = [
            *(
                *panels,
                self.packing.size,
                geometry.outputs,
                results_offset,
                images * positions,
                count,
                parts_offset,
            ),
            *(int(self.packs_itself), packed, *planes, *results, *self.packing.copy(tables, 0, 0)),
        ]
        return np.array(numbers, np.int64), results_offset + images * positions * self.width


def _runs_of(
    taps: list[tuple[int, int, int]], geometry: Geometry, row_of: dict[int, int]
) -> list[tuple[int, int, int]]:
    """Return the runs that taps read in order, as `RUN`; adjacent ones are one run."""
    channels, pitch = geometry.channels, geometry.padded[1]
    runs: list[tuple[int, int, int]] = []
    for tap, line, element in taps:
        offset, row = (line * pitch + element) * channels, row_of[tap]
        if runs and (offset, row) == (runs[-1][0] + runs[-1][1], runs[-1][2] + runs[-1][1]):
            runs[-1] = (runs[-1][0], runs[-1][1] + channels, runs[-1][2])
        else:
            runs.append((offset, channels, row))
    return runs


def _in_blocks(runs: list[tuple[int, int, int]], max_length: int) -> list[list[tuple[int, int, int]]]:
    """Cut runs into blocks of about equally many elements, at most `max_length`."""
    total = sum(length for _, length, _ in runs)
    size = -(-total // max(1, -(-total // max_length)))
    blocks: list[list[tuple[int, int, int]]] = []
    left = 0
    for offset, length, row in runs:
        done = 0
        while done < length:
            if not left:
                blocks.append([])
                left = size
            piece = min(left, length - done)
            blocks[-1].append((offset + done, piece, row + done))
            done, left = done + piece, left - piece
    return blocks
