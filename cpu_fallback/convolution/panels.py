"""Convolutions of many channels as compiled matmuls over channels-last planes (the extra ``triten[jit]``).

The loops (`panels_loop.py`) read planes that are packed channels-last, with their border, where the pixels under a tap
are runs of channels; here is where they are, and how threads share the work. Planes are packed for a few images, or for
a band of the lines of one image, which stay in the second-level cache.

No sum depends on how threads share the work: results do not depend on their number.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

from ...runtime.cpu.loop_requests import Sharing, loop_now, shared_loop
from ...runtime.cpu.workspace import borrow, give_back
from ...runtime.parallel import get_num_threads
from ..plain_numpy import np
from . import tiles
from .columns import Convolution

Array = np.ndarray[Any, Any]

MIN_CHANNELS, MIN_OUTPUTS = 8, 12
"""Channels and outputs from which panels are faster than tiles of positions: a panel has many outputs."""
PLANE_BYTES = 1 << 18
"""Planes of a task, which stay in the second-level cache."""
POSITIONS = 96
"""Positions of a task, at least, where there are so many: they share the reads of the weight."""
MIN_LINES = 4
"""Lines of a band of a large image, at least."""
TAPS_OF_SUM = 256
"""Products that are added one after the other; these sums are added then, as BLAS does."""
POSITIONS_OF_SUM = 128
"""Positions of a weight's gradient whose products are added one after the other."""
TASKS = 2
"""Tasks of a thread, at least."""
SUMMED_BYTES = 8 << 20
"""Planes and gradients of a share of a weight's gradient; shares are added in float64."""

COPY = (
    *("count", "inner", "source", "source_step", "source_inner", "to", "to_step", "to_inner", "cleared"),
    *("inside", "rows", "m", "columns", "n"),
)
"""Fields of transposes: two counts, with the first place and the steps of both in source and target. Elements of the
target that are cleared first, and the place inside. Then the tables of rows and columns, and how many there are.
"""
OUTPUTS = (
    *("first_panel", "last_panel", "panel_size", "outputs", "made", "positions", "parts", "part_table"),
)
"""Fields of a task: panels and their size, outputs, the place of the results in the workspace and their positions, and
the parts.
"""
PART = ("count", "places", "ends", "blocks", "block_table")
"""Fields of positions that read the same taps: their places in planes and in the results, and blocks of taps."""
BLOCK = ("runs", "run_table")
"""Fields of a block of taps: its runs."""
RUN = ("offset", "length", "row")
"""Fields of a run: its offset from a position's place, its elements, and the panel's row of the first."""
SUMS = (
    *("first_panel", "last_panel", "panel_size", "out_size", "positions", "step", "places"),
    *("runs", "run_table"),
)
"""Fields of a task of a weight's gradient: panels, their size and that of their sums; positions, how many are added
one after the other, and their places; the runs.
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
    from .panels_loop import outputs_loop, transposes_loop

    made = (loop_now(transposes_loop, dtype), loop_now(outputs_loop, dtype))
    return None if made[0] is None or made[1] is None else (made[0], made[1])


@functools.cache
def sums_loops(dtype: str) -> tuple[Callable[..., None], Callable[..., None]] | None:
    """Return the loops of transposes and of weight gradients, or None if they cannot be compiled."""
    from .panels_loop import sums_loop, transposes_loop

    made = (loop_now(transposes_loop, dtype), loop_now(sums_loop, dtype))
    return None if made[0] is None or made[1] is None else (made[0], made[1])


class _Taps(NamedTuple):
    """Outputs that the same taps compute.

    Attributes:
        lines, width: Number of lines, and of outputs in a line.
        start: Line and element of the first output in an image.
        taps: For each tap, its index in the weight, and the line and element of its first pixel.
    """

    lines: int
    width: int
    start: tuple[int, int]
    taps: list[tuple[int, int, int]]


class Geometry(NamedTuple):
    """Geometry of a convolution, or of the gradient of its input, which is one too.

    Attributes:
        source: Sizes of a plane of the source.
        border: Lines and elements before it.
        padded: Sizes of a packed plane.
        channels, outputs: Channels of the source and of the result.
        walk: Step of a position in the planes.
        step: Step of an output in the result.
        sizes: Sizes of a plane of the result.
        parts: Parts of the outputs.
    """

    source: tuple[int, int]
    border: tuple[int, int]
    padded: tuple[int, int]
    channels: int
    outputs: int
    walk: int
    step: int
    sizes: tuple[int, int]
    parts: list[_Taps]

    @property
    def beyond(self) -> int:
        """Lines below a position's that its taps reach."""
        return max((line for part in self.parts for _, line, _ in part.taps), default=0)


def forward_geometry(conv: Convolution) -> Geometry:
    """Return the geometry of the convolution itself."""
    window, step = conv.window, conv.window.stride[0]
    (kh, kw), (oh, ow), (dy, dx) = window.kernel, window.out, window.dilation
    taps = [(y * kw + x, y * dy, x * dx) for y in range(kh) for x in range(kw)]
    padded = ((oh - 1) * step + (kh - 1) * dy + 1, (ow - 1) * step + (kw - 1) * dx + 1)
    part = _Taps(oh, ow, (0, 0), taps)
    border = (window.padding[0], window.padding[1])
    return Geometry(
        *((window.spatial[0], window.spatial[1]), border, padded, conv.channels, conv.outputs),
        *(step, 1, (oh, ow), [part]),
    )


def backward_geometry(conv: Convolution) -> Geometry:
    """Return the geometry of the gradient of the input."""
    found = tiles.backward_geometry(conv)
    rows, columns = found.rows, found.columns
    width = found.sizes[1]
    parts = [
        _Taps(
            *(part.lines, part.width, divmod(part.start, width)),
            [(tap, line, element) for tap, _, line, element in part.taps],
        )
        for part in found.parts
    ]
    return Geometry(
        *((rows.size, columns.size), (rows.before, columns.before)),
        *((rows.count, columns.count + found.overhang), found.channels, found.outputs),
        *(1, found.step, found.sizes, parts),
    )


class _Tables:
    """Tables of integers in one array; equal tables are kept once."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.places: dict[tuple[int, ...], int] = {}

    def add(self, *numbers: int) -> int:
        """Return the place of a table."""
        place = self.places.get(numbers)
        if place is None:
            place = self.places[numbers] = len(self.numbers)
            self.numbers += numbers
        return place


class Packing:
    """Weights of a geometry in panels: (panels, taps in the order of parts and runs, channels, outputs of a panel)."""

    def __init__(self, conv: Convolution, geometry: Geometry, *, is_backward: bool, width: int) -> None:
        self.width = width
        self.panels = -(-geometry.outputs // width)
        count = math.prod(conv.window.kernel)
        self.size = count * geometry.channels * width
        tables, channels = _Tables(), geometry.channels
        taps = [tap for part in geometry.parts for tap, *_ in part.taps]
        taps += sorted({*range(count)} - {*taps})  # those that nothing reads
        row_of = {tap: index * channels for index, tap in enumerate(taps)}
        if is_backward:
            of_output, depth = count, 1
            columns = [row_of[tap] * width for tap in range(count)]
        else:
            of_output, depth = channels * count, channels
            columns = [(row_of[tap] + c) * width for c in range(channels) for tap in range(count)]
        rows = tables.add(*(output * of_output for output in range(width)))
        at = tables.add(*columns)
        self.tasks = []
        for panel in range(self.panels):
            m = min(width, geometry.outputs - panel * width)
            source = panel * width * of_output
            if is_backward:
                several = (channels, 1, source, geometry.outputs * count, 0, panel * self.size, width, 0, 0)
            else:
                several = (1, 1, source, 0, 0, panel * self.size, 0, 0, 0)
            self.tasks.append(np.array([*several, 0, rows, m, at, depth * count], np.int64))
        self.tables = np.array(tables.numbers, np.int64)


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
        self.no_bias = np.zeros(self.packing.panels * self.width, conv.dtype)

    def __call__(self, out: Array, source: Array, weight: Array, bias: Array | None) -> None:
        """Compute all of `out`; arrays are gapless but for `bias`."""
        addend = self.no_bias
        if bias is not None:
            addend = np.zeros_like(self.no_bias)
            addend[: self.geometry.outputs] = bias
        pack, compute = self.planned(get_num_threads())
        panels = np.empty(self.packing.panels * self.packing.size, self.conv.dtype)
        pack(self.packing.tables, weight, panels)
        compute(source, panels, addend, out)

    def _planned(self, threads: int) -> tuple[Callable[..., None], Callable[..., None]]:
        found = loops(self.conv.dtype.name)
        assert found is not None
        sharing = tiles.sharing_of(self.conv, threads)
        pack = shared_loop(found[0], self.packing.tasks, sharing, None)
        return pack, self._outputs(found[1], sharing, threads)

    def _lines(self) -> int:
        """Return the most lines of a part."""
        return max(part.lines for part in self.geometry.parts)

    def _blocks(self) -> list[tuple[int, int, int, int]]:
        """Return the tasks' images and lines: the first and the number of both."""
        geometry, n, lines = self.geometry, self.conv.n, self._lines()
        size = geometry.padded[1] * geometry.channels * self.conv.dtype.itemsize
        positions = math.prod(geometry.sizes)
        if geometry.padded[0] * size <= PLANE_BYTES or lines <= MIN_LINES:
            images = max(1, min(n, PLANE_BYTES // (geometry.padded[0] * size), -(-1024 // positions)))
            images = max(images, min(n, -(-POSITIONS // positions)))
            images = -(-n // -(-n // images))
            return [(i, min(images, n - i), 0, lines) for i in range(0, n, images)]
        count = max(MIN_LINES, (PLANE_BYTES // size - geometry.beyond) // geometry.walk)
        count = -(-lines // -(-lines // count))
        return [(i, 1, y, min(count, lines - y)) for i in range(n) for y in range(0, lines, count)]

    def _outputs(self, loop: Callable[..., None], sharing: Sharing, threads: int) -> Callable[..., None]:
        blocks, panels = self._blocks(), self.packing.panels
        cuts = 1 if not sharing else min(panels, -(-TASKS * threads // len(blocks)))
        step = -(-panels // cuts)
        tables, tasks, room = _Tables(), [], 0
        parts = functools.cache(lambda images, lines, first: self._parts(tables, images, lines, first))
        for first, images, line, lines in blocks:
            for panel in range(0, panels, step):
                numbers, elements = self._numbers(
                    tables, parts, (first, images), (line, lines), (panel, min(panel + step, panels))
                )
                tasks.append(numbers)
                room = max(room, elements)
        made = np.array(tables.numbers, np.int64)
        compute = shared_loop(loop, tasks, sharing, (5, room * self.conv.dtype.itemsize))
        return lambda *arrays: compute(made, *arrays)

    def _parts(self, tables: _Tables, images: int, lines: int, first: int) -> tuple[int, int]:
        """Return the place and the number of the parts of a block whose first line is `first`."""
        geometry, width = self.geometry, self.width
        channels, pitch = geometry.channels, geometry.padded[1]
        image, positions = self._plane_lines(lines) * pitch * channels, self._positions(first, lines)
        made: list[int] = []
        row = count = 0
        for part in geometry.parts:
            own = min(part.lines - first, lines)
            if own > 0 and part.width:
                spots = [(i, y, x) for i in range(images) for y in range(own) for x in range(part.width)]
                places = [i * image + (y * pitch + x) * geometry.walk * channels for i, y, x in spots]
                ends = [
                    (
                        i * positions
                        + (y * geometry.step + part.start[0]) * geometry.sizes[1]
                        + x * geometry.step
                        + part.start[1]
                    )
                    * width
                    for i, y, x in spots
                ]
                blocks: list[int] = []
                for runs in _in_blocks(_runs_of(part.taps, geometry, row), TAPS_OF_SUM):
                    blocks += [len(runs), tables.add(*(number for run in runs for number in run))]
                number = len(blocks) // len(BLOCK)
                made += [len(spots), tables.add(*places), tables.add(*ends), number, tables.add(*blocks)]
                count += 1
            row += len(part.taps) * channels
        return tables.add(*made), count

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
        tables: _Tables,
        parts: Callable[[int, int, int], tuple[int, int]],
        block: tuple[int, int],
        band: tuple[int, int],
        panels: tuple[int, int],
    ) -> tuple[Array, int]:
        """Return the integers that describe a task, and the number of scratch elements that it needs."""
        geometry, (first, images), (line, lines) = self.geometry, block, band
        height, width = geometry.sizes
        positions = self._positions(line, lines)
        planes = pack_planes(tables, geometry, first, images, line * geometry.walk, self._plane_lines(lines))
        made = images * planes[COPY.index("to_step")]
        place, count = parts(images, lines, line)
        plane = height * width
        results = [
            *(images, 1, 0, positions * self.width, 0),
            first * geometry.outputs * plane + line * geometry.step * width,
            *(geometry.outputs * plane, self.width * plane, 0, 0),
            *(tables.add(*range(0, positions * self.width, self.width)), positions),
            *(tables.add(*range(0, self.width * plane, plane)), self.width),
        ]
        numbers = [
            *(*panels, self.packing.size, geometry.outputs, made, images * positions, count, place),
            *(*planes, *results),
        ]
        return np.array(numbers, np.int64), made + images * positions * self.width


def _runs_of(
    taps: list[tuple[int, int, int]], geometry: Geometry, row: int = 0
) -> list[tuple[int, int, int]]:
    """Return the runs that taps read in order, from a row of panels on; neighbours are one run."""
    channels, pitch = geometry.channels, geometry.padded[1]
    runs: list[tuple[int, int, int]] = []
    for _, line, element in taps:
        offset = (line * pitch + element) * channels
        if runs and runs[-1][0] + runs[-1][1] == offset:
            runs[-1] = (runs[-1][0], runs[-1][1] + channels, runs[-1][2])
        else:
            runs.append((offset, channels, row))
        row += channels
    return runs


def _in_blocks(runs: list[tuple[int, int, int]], most: int) -> list[list[tuple[int, int, int]]]:
    """Cut runs into blocks of about equally many elements, at most `most`."""
    total = sum(length for _, length, _ in runs)
    size = -(-total // max(1, -(-total // most)))
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


def pack_planes(
    tables: _Tables, geometry: Geometry, first: int, images: int, line: int, lines: int
) -> list[int]:
    """Return the `COPY` that packs `lines` lines, from a padded line on, of some images."""
    (h, w), (above, before), (_, pitch) = geometry.source, geometry.border, geometry.padded
    channels = geometry.channels
    start, end = max(0, line - above), min(h, line - above + lines)
    end, width = max(start, end), min(w, pitch - before)
    image, size = channels * h * w, lines * pitch * channels
    inside = ((start + above - line) * pitch + before) * channels
    if width == w:
        columns = [(y * pitch + x) * channels for y in range(end - start) for x in range(w)]
        inner, source_inner, to_inner = 1, 0, 0
    else:
        columns = [x * channels for x in range(width)]
        inner, source_inner, to_inner = end - start, w, pitch * channels
    return [
        *(images, inner, first * image + start * w, image, source_inner, 0, size, to_inner, size, inside),
        *(tables.add(*range(0, channels * h * w, h * w)), channels),
        *(tables.add(*columns), len(columns)),
    ]


class PanelSums:
    """The gradient of a convolution's weight as calls of compiled loops: pixels times panels of the output's gradient.

    Planes and gradients of a share of the images are packed; the sums of shares are added in float64.
    """

    def __init__(self, conv: Convolution) -> None:
        from .panels_loop import width_of

        self.conv, self.width = conv, width_of(conv.dtype.name)
        self.geometry = geometry = forward_geometry(conv)
        self.positions = math.prod(geometry.sizes)
        self.plane = math.prod(geometry.padded) * conv.channels
        self.panels = -(-conv.outputs // self.width)
        self.depth = conv.channels * math.prod(conv.window.kernel)
        size = conv.dtype.itemsize * (self.plane + self.panels * self.width * self.positions)
        images = max(1, SUMMED_BYTES // size)
        count = -(-conv.n // images)
        self.images = -(-conv.n // count)
        self.shares = functools.cache(self._planned)

    def __call__(self, out: Array, grad: Array, source: Array) -> None:
        """Compute all of `out`; arrays are gapless."""
        conv, size = self.conv, self.conv.dtype.itemsize
        shares = self.shares(get_num_threads())
        sizes = [
            self.images * self.plane,
            self.images * self.positions * self.panels * self.width,
            self.panels * self.depth * self.width,
        ]
        sizes = [-(-each // 64) * 64 for each in sizes]
        room = borrow(sum(sizes) * size)
        try:
            places = np.cumsum([0, *sizes[:-1]]) * size
            buffers = [
                np.ndarray(each, conv.dtype, room, place) for each, place in zip(sizes, places, strict=True)
            ]
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
        n, tables = self.conv.n, _Tables()
        found = sums_loops(self.conv.dtype.name)
        assert found is not None
        sharing = tiles.sharing_of(self.conv, threads)
        shares = [
            self._tasks(tables, first, min(self.images, n - first), threads if sharing else 1)
            for first in range(0, n, self.images)
        ]
        numbers = np.array(tables.numbers, np.int64)
        copies, sums = found
        made = []
        for *packs, computes in shares:
            loops_of = [shared_loop(copies, tasks, sharing, None) for tasks in packs]
            made.append(self._share(numbers, *loops_of, shared_loop(sums, computes, sharing, None)))
        return made

    @staticmethod
    def _share(
        numbers: Array,
        pack: Callable[..., None],
        pack_grad: Callable[..., None],
        unpack: Callable[..., None],
        compute: Callable[..., None],
    ) -> Callable[..., None]:
        def share(source: Array, grad: Array, out: Array, planes: Array, panels: Array, sums: Array) -> None:
            pack(numbers, source, planes)
            pack_grad(numbers, grad, panels)
            compute(numbers, planes, panels, sums)
            unpack(numbers, sums, out)

        return share

    def _tasks(self, tables: _Tables, first: int, images: int, threads: int) -> tuple[list[Array], ...]:
        """Return the tasks of a share: planes, panels of the gradient, results; and their sums."""
        conv, geometry, width = self.conv, self.geometry, self.width
        positions, depth, outputs = self.positions, self.depth, self.conv.outputs
        panel = images * positions * width
        planes, grads, results, sums = (list[Array]() for _ in range(4))
        rows = tables.add(*range(0, width * positions, positions))
        columns = tables.add(*range(0, positions * width, width))
        whole, rest = divmod(outputs, width)
        for i in range(images):
            numbers = pack_planes(tables, geometry, first + i, 1, 0, geometry.padded[0])
            numbers[COPY.index("to")] = i * self.plane
            planes.append(np.array(numbers, np.int64))
            for start, count, m in ((0, whole, width), (whole, min(rest, 1), rest)):
                if count:
                    source = ((first + i) * outputs + start * width) * positions
                    to = start * panel + i * positions * width
                    cleared = 0 if m == width else positions * width
                    steps = (1, source, width * positions, 0, to, panel, 0, cleared, 0)
                    grads.append(np.array([count, *steps, rows, m, columns, positions], np.int64))
        taps, channels = depth // conv.channels, conv.channels
        of_row = tables.add(*((tap * channels + c) * width for c in range(channels) for tap in range(taps)))
        of_output = tables.add(*range(0, width * depth, depth))
        for p in range(self.panels):
            numbers = [1, 1, p * depth * width, 0, 0, p * width * depth, 0, 0, 0, 0, of_row, depth, of_output]
            results.append(np.array([*numbers, min(width, outputs - p * width)], np.int64))
        (part,), (pitch, step) = geometry.parts, (geometry.padded[1], geometry.walk)
        places = tables.add(
            *(
                i * self.plane + (y * pitch + x) * step * channels
                for i in range(images)
                for y in range(part.lines)
                for x in range(part.width)
            )
        )
        runs = _runs_of(part.taps, geometry)
        cuts = -(-TASKS * threads // self.panels) if threads > 1 else 1
        each = -(-len(runs) // min(len(runs), cuts))
        for start in range(0, len(runs), each):
            own = runs[start : start + each]
            at = tables.add(*(number for run in own for number in run))
            for p in range(self.panels):
                numbers = [p, p + 1, panel, depth * width, images * positions, POSITIONS_OF_SUM, places]
                sums.append(np.array([*numbers, len(own), at], np.int64))
        return planes, grads, results, sums
