"""Convolutions of many channels as compiled matmuls over channels-last planes (the extra ``triten[jit]``).

The loops (`panels_loop.py`) read planes that are packed channels-last, with their border: a tap's pixels are runs of
channels. This module computes their places, and shares the work among threads. Planes are packed for a few images, or
for a band of the lines of one image, which stay in the second-level cache.

Taps that would read the border are not computed: no zero is multiplied by a weight or a gradient that is infinite. No
sum depends on how threads share the work: results do not depend on their number.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...runtime.cpu.loop_requests import Sharing, loop_now, shared_loop
from ...runtime.cpu.workspace import borrow, give_back
from ...runtime.parallel import get_num_threads
from ..plain_numpy import np
from . import tiles
from .columns import Convolution

Array = np.ndarray[Any, Any]

MIN_CHANNELS, MIN_OUTPUTS = 24, 16
"""Channels and outputs from which panels are faster than tiles of positions."""
MIN_LINE, MAX_POSITIONS = 24, 1 << 12
"""Width of an output's line from which tiles compute the gradient of a weight faster, if the stride is 1; and positions
of an image from which its planes are too large for a cache.
"""
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
OWN_BYTES, OWN_WEIGHT = 1 << 20, 1 << 18
"""Planes up to which a task has all images and packs the panels that it needs itself, and elements of a weight from
which it does.
"""
LINE_BYTES = 64
"""Bytes of a cache line."""
MIN_ROWS = 12
"""Channels of a task of a weight's gradient, at least."""
SUMMED_BYTES, MAX_SUMMED_BYTES, SUMMED_WEIGHTS = 1 << 20, 8 << 20, 8
"""Planes and gradients of a share of a weight's gradient, at least and at most, and how many times the weight they are:
shares are added in float64.
"""

COPY = (
    *("count", "inner", "source", "source_step", "source_inner", "to", "to_step", "to_inner", "cleared"),
    *("inside", "rows", "m", "columns", "n", "span"),
)
"""Fields of transposes: two counts, with the first place and the steps of both in source and target. Elements of the
target that are cleared first, and the place inside. Then the tables of rows and columns, and how many there are, and
the elements of the source that the next transpose reads, to prefetch them.
"""
OUTPUTS = (
    *("first_panel", "last_panel", "panel_size", "outputs", "made", "positions", "parts", "part_table"),
    *("packs", "packed"),
)
"""Fields of a task: panels and their size, outputs, the place of the results in the workspace and their positions, and
the parts. Then whether the task packs its own panels, and where in the workspace.
"""
PART = ("count", "places", "ends", "blocks", "block_table")
"""Fields of positions that read the same taps: their places in planes and in the results, and blocks of taps."""
BLOCK = ("runs", "run_table")
"""Fields of a block of taps: its runs."""
RUN = ("offset", "length", "row")
"""Fields of a run: its offset from a position's place, its elements, and the panel's row of the first."""
SUMS = ("panel", "sums", "taps", "tap_table")
"""Fields of a task of a weight's gradient: the place of its panel, the number of its sums, and the taps of some
positions after those of the positions before.
"""
TAP = ("offset", "length", "row", "positions", "places")
"""Fields of a tap: its offset from a position's place, its channels, the row of its first sum; then how many positions
read it, and the table of their places: in the planes, times 2^32, plus that in the panel.
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


def sums_apply(conv: Convolution) -> bool:
    """Return True if panels compute the gradient of a weight that `tiles` could compute."""
    is_narrow = conv.rank == 2 and (conv.window.out[1] < MIN_LINE or conv.window.stride[0] > 1)
    return is_narrow and conv.dense <= MAX_POSITIONS and applies(conv, conv.channels, conv.outputs)


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
        lines, columns: Their positions: ranges of lines, and of elements of a line.
        start: Line and element of the output of position 0 in an image.
        taps: For each tap, its index in the weight, and the line and element of its pixel from a position.
    """

    lines: range
    columns: range
    start: tuple[int, int]
    taps: list[tuple[int, int, int]]


@dataclass(frozen=True)
class Geometry:
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
        pixel: Elements from a packed pixel to the next.
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
    pixel: int

    @property
    def beyond(self) -> int:
        """Lines below a position's that its taps reach."""
        return max((line for part in self.parts for _, line, _ in part.taps), default=0)

    @functools.cached_property
    def inside(self) -> list[_Taps]:
        """Parts whose taps all read pixels: no zero of the border meets a weight, which may be infinite."""
        return [
            _Taps(
                *(lines, columns, part.start),
                [tap for tap in part.taps if tap[1] in downs and tap[2] in alongs],
            )
            for part in self.parts
            for lines, downs in self._ranges(part.lines, {line for _, line, _ in part.taps}, 0)
            for columns, alongs in self._ranges(part.columns, {element for *_, element in part.taps}, 1)
        ]

    def _ranges(self, positions: range, offsets: set[int], axis: int) -> list[tuple[range, frozenset[int]]]:
        """Return ranges of positions that read pixels at the same offsets, and these."""
        before, size = self.border[axis], self.source[axis]
        made: list[tuple[range, frozenset[int]]] = []
        for i in positions:
            met = frozenset(each for each in offsets if 0 <= i * self.walk + each - before < size)
            if made and made[-1][1] == met:
                made[-1] = (range(made[-1][0].start, i + 1), met)
            else:
                made.append((range(i, i + 1), met))
        return made


def forward_geometry(conv: Convolution, pixel: int | None = None) -> Geometry:
    """Return the geometry of the convolution itself, whose pixels may have gaps between them."""
    window, step = conv.window, conv.window.stride[0]
    (kh, kw), (oh, ow), (dy, dx) = window.kernel, window.out, window.dilation
    taps = [(y * kw + x, y * dy, x * dx) for y in range(kh) for x in range(kw)]
    padded = ((oh - 1) * step + (kh - 1) * dy + 1, (ow - 1) * step + (kw - 1) * dx + 1)
    part = _Taps(range(oh), range(ow), (0, 0), taps)
    border = (window.padding[0], window.padding[1])
    return Geometry(
        *((window.spatial[0], window.spatial[1]), border, padded, conv.channels, conv.outputs),
        *(step, 1, (oh, ow), [part], pixel or conv.channels),
    )


def backward_geometry(conv: Convolution) -> Geometry:
    """Return the geometry of the gradient of the input."""
    found = tiles.backward_geometry(conv)
    rows, columns = found.rows, found.columns
    width = found.sizes[1]
    parts = [
        _Taps(
            *(range(part.lines), range(part.width), divmod(part.start, width)),
            [(tap, line, element) for tap, _, line, element in part.taps],
        )
        for part in found.parts
    ]
    return Geometry(
        *((rows.size, columns.size), (rows.before, columns.before)),
        *((rows.count, columns.count + found.overhang), found.channels, found.outputs),
        *(1, found.step, found.sizes, parts, found.channels),
    )


def _whole_lines(room: Array) -> Array:
    """Return the whole cache lines of a buffer of bytes: a vector that lies in two lines takes two loads."""
    start = -room.ctypes.data % LINE_BYTES
    return room[start : start + (room.size - start) // LINE_BYTES * LINE_BYTES]


class _Tables:
    """Tables of integers in one array; equal tables are kept once."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.places: dict[tuple[int, ...], int] = {}
        self.grid = functools.cache(self._grid)

    def add(self, *numbers: int) -> int:
        """Return the place of a table."""
        place = self.places.get(numbers)
        if place is None:
            place = self.places[numbers] = len(self.numbers)
            self.numbers += numbers
        return place

    def _grid(self, columns: int, step: int, lines: int = 1, down: int = 0) -> int:
        """Return the place of the table of a grid's elements, line by line."""
        return self.add(*(y * down + x * step for y in range(lines) for x in range(columns)))


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
        tables = _Tables()
        self.tasks = [np.array(self.copy(tables, panel), np.int64) for panel in range(self.panels)]
        self.tables = np.array(tables.numbers, np.int64)

    def copy(self, tables: _Tables, panel: int, to: int | None = None) -> list[int]:
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
        self.packs_itself = planes <= OWN_BYTES and self.packing.size * self.packing.panels >= OWN_WEIGHT
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
            panels = _whole_lines(np.empty(size + LINE_BYTES, np.uint8)).view(self.conv.dtype)
            pack(self.packing.tables, weight, panels)
        compute(source, panels, addend, out)

    def _planned(self, threads: int) -> tuple[Callable[..., None] | None, Callable[..., None]]:
        found = loops(self.conv.dtype.name)
        assert found is not None
        sharing = tiles.sharing_of(self.conv, threads)
        pack = None if self.packs_itself else shared_loop(found[0], self.packing.tasks, sharing, None)
        return pack, self._outputs(found[1], sharing, threads)

    def _lines(self) -> int:
        """Return the most lines of a part."""
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
        self, tables: _Tables, images: int, lines: int, positions: int, met: tuple[tuple[int, int], ...]
    ) -> tuple[int, int]:
        """Return the place and the number of the parts of a block: `met` are each part's lines in it."""
        geometry, width = self.geometry, self.width
        channels, pitch = geometry.channels, geometry.padded[1]
        image = self._plane_lines(lines) * pitch * channels
        made: list[int] = []
        count = 0
        for part, (begin, end) in zip(geometry.inside, met, strict=True):
            if begin < end and part.columns:
                spots = [(i, y, x) for i in range(images) for y in range(begin, end) for x in part.columns]
                places = [i * image + (y * pitch + x) * geometry.walk * channels for i, y, x in spots]
                step, (top, left) = geometry.step, part.start
                ends = [
                    (i * positions + (y * step + top) * geometry.sizes[1] + x * step + left) * width
                    for i, y, x in spots
                ]
                blocks: list[int] = []
                for runs in _in_blocks(_runs_of(part.taps, geometry, self.packing.row_of), TAPS_OF_SUM):
                    blocks += [len(runs), tables.add(*(number for run in runs for number in run))]
                number = len(blocks) // len(BLOCK)
                made += [len(spots), tables.add(*places), tables.add(*ends), number, tables.add(*blocks)]
                count += 1
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
        made = packed + (self.packing.size if self.packs_itself else 0)
        own = (range(max(line, p.lines.start), min(line + lines, p.lines.stop)) for p in geometry.inside)
        met = tuple((each.start - line, each.stop - line) if each else (0, 0) for each in own)
        place, count = parts(images, lines, positions, met)
        plane = height * width
        results = [
            *(images, 1, 0, positions * self.width, 0),
            first * geometry.outputs * plane + line * geometry.step * width,
            *(geometry.outputs * plane, self.width * plane, 0, 0),
            *(tables.grid(positions, self.width), positions),
            *(tables.grid(self.width, plane), self.width, 0),
        ]
        numbers = [
            *(*panels, self.packing.size, geometry.outputs, made, images * positions, count, place),
            *(int(self.packs_itself), packed, *planes, *results, *self.packing.copy(tables, 0, 0)),
        ]
        return np.array(numbers, np.int64), made + images * positions * self.width


def _runs_of(
    taps: list[tuple[int, int, int]], geometry: Geometry, row_of: dict[int, int]
) -> list[tuple[int, int, int]]:
    """Return the runs that taps read in order: `RUN`; neighbours are one run."""
    channels, pitch = geometry.channels, geometry.padded[1]
    runs: list[tuple[int, int, int]] = []
    for tap, line, element in taps:
        offset, row = (line * pitch + element) * channels, row_of[tap]
        if runs and (offset, row) == (runs[-1][0] + runs[-1][1], runs[-1][2] + runs[-1][1]):
            runs[-1] = (runs[-1][0], runs[-1][1] + channels, runs[-1][2])
        else:
            runs.append((offset, channels, row))
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
    channels, pixel = geometry.channels, geometry.pixel
    start, end = max(0, line - above), min(h, line - above + lines)
    end, width = max(start, end), min(w, pitch - before)
    image, size = channels * h * w, lines * pitch * pixel
    inside = ((start + above - line) * pitch + before) * pixel
    if width == w:
        count, columns = (end - start) * w, tables.grid(w, pixel, end - start, pitch * pixel)
        inner, source_inner, to_inner = 1, 0, 0
    else:
        count, columns = width, tables.grid(width, pixel)
        inner, source_inner, to_inner = end - start, w, pitch * pixel
    return [
        *(images, inner, first * image + start * w, image, source_inner, 0, size, to_inner, size, inside),
        *(tables.grid(channels, h * w), channels, columns, count, 0),
    ]


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
            buffer = _whole_lines(room).view(self.conv.dtype)
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
        n, found = self.conv.n, sums_loops(self.conv.dtype.name)
        assert found is not None
        sharing = tiles.sharing_of(self.conv, threads)

        @functools.cache
        def sums(images: int) -> Callable[..., None]:
            tables = _Tables()
            tasks, room = self._tasks(tables, images, threads if sharing else 1)
            numbers = np.array(tables.numbers, np.int64)
            room_bytes = room * self.conv.dtype.itemsize + LINE_BYTES
            compute = shared_loop(found[1], tasks, sharing, (4, room_bytes))
            return lambda *arrays: compute(numbers, *arrays)

        def share_of(first: int) -> Callable[..., None]:
            tables, images = _Tables(), min(self.images, n - first)
            packs = [
                shared_loop(found[0], tasks, sharing, None) for tasks in self._packs(tables, first, images)
            ]
            numbers, compute = np.array(tables.numbers, np.int64), sums(images)

            def share(source: Array, grad: Array, out: Array, pixels: Array, panels: Array) -> None:
                packs[0](numbers, source, pixels)
                packs[1](numbers, grad, panels)
                compute(pixels, panels, out)

            return share

        return [share_of(first) for first in range(0, n, self.images)]

    def _packs(self, tables: _Tables, first: int, images: int) -> tuple[list[Array], list[Array]]:
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

    def _tasks(self, tables: _Tables, images: int, threads: int) -> tuple[list[Array], int]:
        """Return the tasks of the sums, and the number of scratch elements that they need."""
        channels, width, taps = self.conv.channels, self.width, self.taps
        panel, of_output = images * self.positions * width, channels * taps
        (part,), (_, pitch), pixel = self.geometry.parts, self.geometry.padded, self.geometry.pixel
        where = self._where(tables, images)
        cuts = max(1, min(-(-TASKS * threads // self.panels), channels // MIN_ROWS)) if threads > 1 else 1
        step = -(-channels // cuts)
        tasks = []
        for p in range(self.panels):
            outputs = min(width, self.conv.outputs - p * width)
            for first in range(0, channels, step):
                count = min(step, channels - first)
                table: list[int] = []
                for spot in range(0, images * self.positions, POSITIONS_OF_SUM):
                    for tap, line, element in part.taps:
                        places, number = where[line, element]
                        offset = (line * pitch + element) * pixel + first
                        number = min(POSITIONS_OF_SUM, number - spot)
                        if number > 0:
                            table += [offset, count, tap * count, number, places + spot]
                of_row = tables.add(*((tap * count + c) * width for c in range(count) for tap in range(taps)))
                columns = tables.grid(width, of_output)
                to = p * width * of_output + first * taps
                copy = [1, 1, 0, 0, 0, to, 0, 0, 0, 0, of_row, count * taps, columns, outputs, 0]
                numbers = [p * panel, count * taps * width, len(table) // len(TAP), tables.add(*table), *copy]
                tasks.append(np.array(numbers, np.int64))
        return tasks, step * taps * width

    def _where(self, tables: _Tables, images: int) -> dict[tuple[int, int], tuple[int, int]]:
        """Return the positions that read pixels.

        Returns:
            For the line and element of a tap, the table of their places, and their number.
        """
        geometry, (part,) = self.geometry, self.geometry.parts
        pitch, walk = geometry.padded[1], geometry.walk * geometry.pixel
        met: dict[int, list[tuple[int, int]]] = {tap: [] for tap, *_ in part.taps}
        for each in geometry.inside:
            spots = [(y, x) for y in each.lines for x in each.columns]
            for tap, *_ in each.taps:
                met[tap] += spots

        @functools.cache
        def added(spots: tuple[tuple[int, int], ...]) -> tuple[int, int]:
            places = [
                (i * self.plane + (y * pitch + x) * walk) << 32
                | (i * self.positions + y * geometry.sizes[1] + x) * self.width
                for i in range(images)
                for y, x in spots
            ]
            return tables.add(*places), len(places)

        return {(line, element): added(tuple(sorted(met[tap]))) for tap, line, element in part.taps}
