"""Convolutions of few channels or outputs, of groups or of one dimension, as compiled loops (``triten[jit]``).

The loops (`taps_loop.py`) read padded planes, where each tap begins at another place; here is
where that is, and how threads share the work. Planes have the rows of several images side by side, with one border
between two of them: (channels, phases of the stride, rows, images, elements). A position of an output is flat in it:
the rows of all images of a line, one line after the other.

No sum but that of a weight's gradient is cut, and that one by the geometry alone: results do not depend on threads.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ...runtime.cpu.loop_requests import Sharing, loop_now, shared_loop
from ...runtime.parallel import get_num_threads
from ...runtime.tensor_spec import TensorSpec
from ..plain_numpy import np
from .columns import Convolution

Array = np.ndarray[Any, Any]

MIN_WORK = 1 << 18
"""Multiplications from which a convolution is worth a loop: NumPy has some 60 us for them."""
SHARED_WORK = 1 << 19
"""Those from which threads share it."""
WAKING_WORK = 1 << 21
"""Those from which threads that sleep are woken for it."""
PLANE_BYTES = 1 << 18
"""Planes of several images, which stay in the second-level cache."""
POSITIONS = 256
"""Positions of a block that are enough for tiles."""
SUMMED_POSITIONS = 1 << 10
"""Those of a block of a weight's gradient: its tiles are summed across lanes once for each."""
MAX_POSITIONS, MAX_SUMMED = 1 << 14, 1 << 12
"""Those of a band of a large image, and of one of a weight's gradient."""
MIN_LINES = 4
"""Lines of a band of a large image, at least; the rows that two bands share are laid out for both."""
TASKS, TASKS_OF_SUMS = 2, 1
"""Tasks of a thread, at least; those of a weight's gradient each lay out planes themselves."""
BLOCKS = 16
"""Blocks of images whose sums of a weight's gradient are added in its own dtype."""
MAX_VECTOR_ELEMENTS, SLACK = 16, 256
"""Elements that vectors have at most, and behind planes that they may reach."""

PACK = (
    "channels",
    "rows",
    "images",
    "pitch",
    "image",
    "channel",
    "line",
    "step",
    "kept",
    "tail",
    "phases",
    "table",
)
"""Fields of planes: the numbers of channels, rows, images and elements of a row; the source's strides between
images, channels and lines; the step of its windows. Then elements of a plane, zeros after a channel, phases, and
the offset of the phase table in the same array, whose entries are `PHASE`.
"""
PHASE = ("first_row", "last_row", "first", "last", "start")
"""Rows and elements of a row that are in the image, and where the first one of them is in the source."""
TAPS = (
    *("groups", "source", "source_group", "weight", "weight_group", "out", "out_group", "bias", "outputs"),
    *(
        "weight_row",
        "row_room",
        "parts",
        "part_table",
        "out_image",
        "out_channel",
        "out_line",
        "out_step",
        "images",
    ),
    *("pitch", "planes"),
)
PART = ("positions", "taps", "first_tap", "lines", "width", "start")
"""Fields of outputs that the same taps compute: flat positions, taps and the first of them in the table, lines and
their width, and the position of the first output.
"""
SUMS = (
    *(
        "groups",
        "source",
        "source_group",
        "grad",
        "grad_group",
        "out",
        "out_group",
        "channels",
        "outputs",
        "taps",
    ),
    *(
        "positions",
        "grad_room",
        "grad_pack",
        "source_pack",
        "source_room",
        "out_channel",
        "out_row",
        "adds",
        "first_tap",
    ),
)


def work_of(conv: Convolution) -> int:
    """Return the number of multiplications."""
    return conv.n * conv.outputs * conv.dense * conv.depth


def sharing_of(conv: Convolution, threads: int) -> Sharing:
    """Return how `threads` threads share a convolution."""
    return Sharing.of(work_of(conv), SHARED_WORK, WAKING_WORK) if threads > 1 else Sharing.ALONE


def applies(conv: Convolution, spec: TensorSpec) -> bool:
    """Return True if loops compute the convolution: one or two dimensions, float32 or float64, and no plain
    matmul.
    """
    window = conv.window
    return (
        spec.np_dtype == conv.dtype
        and conv.dtype in (np.float32, np.float64)
        and spec.is_contiguous
        and not conv.is_empty
        and conv.rank in (1, 2)
        and not window.is_pointwise
        and len(set(window.stride)) == 1
        and work_of(conv) >= MIN_WORK
        and all(
            p <= (k - 1) * d for k, d, p in zip(window.kernel, window.dilation, window.padding, strict=True)
        )
        and _taps_loop(conv.dtype.name) is not None
    )


def _taps_loop(dtype: str) -> Callable[..., None] | None:
    from .taps_loop import taps_loop

    return loop_now(taps_loop, dtype)


def _sums_loop(dtype: str) -> Callable[..., None] | None:
    from .taps_loop import sums_loop

    return loop_now(sums_loop, dtype)


class _Plane(NamedTuple):
    """Layout of planes in one dimension of an image.

    Attributes:
        size: Number of elements of the image.
        step: Stride of windows. Each phase of the stride that a tap reads has a plane.
        before: Number of border elements before the image.
        count: Number of elements of a plane.
    """

    size: int
    step: int
    before: int
    count: int

    def kept(self, phase: int) -> tuple[int, int, int]:
        """Return the bounds of a plane's elements inside the image, and the image position of the first."""
        first = max(0, -(-(self.before - phase) // self.step))
        last = min(self.count, -(-(self.size + self.before - phase) // self.step))
        return first, max(first, last), first * self.step + phase - self.before


class _Part(NamedTuple):
    """Outputs that the same taps compute.

    Attributes:
        lines, width: Number of lines, and of outputs in a line.
        start: Position of the first output in an image.
        taps: For each tap, its index in the weight, its plane, and the line and element of its first input.
    """

    lines: int
    width: int
    start: int
    taps: list[tuple[int, int, int, int]]


class Geometry(NamedTuple):
    """Geometry of one convolution or one gradient of an input that `taps` computes, for any number of images.

    Attributes:
        rows, columns: The planes of each dimension.
        phases: Phases of rows and columns, one for each plane of a channel.
        overhang: Number of elements past the last line that a tap may read.
        channels, outputs: Channels and outputs of a group.
        parts: Parts of an image's outputs.
        of_channel, of_output: Strides of channels and outputs in the weight.
        step: Step between outputs of one part.
        sizes: Sizes of a result image.
    """

    rows: _Plane
    columns: _Plane
    phases: list[tuple[int, int]]
    overhang: int
    channels: int
    outputs: int
    parts: list[_Part]
    of_channel: int
    of_output: int
    step: int
    sizes: tuple[int, int]

    def kept(self, images: int) -> int:
        """Return the number of elements of a channel over `images` images."""
        return len(self.phases) * self.rows.count * images * self.columns.count + self.overhang

    def positions(self, images: int) -> int:
        """Return the flat positions of the largest part."""
        return max(((p.lines - 1) * images + images - 1) * self.columns.count + p.width for p in self.parts)

    def place(self, images: int, phase: int, line: int, element: int) -> int:
        """Return the offset of a tap's first element in the planes of a channel."""
        return ((phase * self.rows.count + line) * images) * self.columns.count + element

    def bands(self, itemsize: int, positions: int) -> list[Geometry]:
        """Split the lines into bands whose planes fit the cache; return one band if there are few lines."""
        whole = max(part.lines for part in self.parts)
        beyond = max(line for part in self.parts for _, _, line, _ in part.taps)
        line = self.channels * len(self.phases) * self.columns.count * itemsize
        if self.channels * self.kept(1) * itemsize <= 2 * PLANE_BYTES and self.positions(1) <= 2 * positions:
            return [self]
        count = max(MIN_LINES, min(PLANE_BYTES // line - beyond, positions // self.columns.count))
        return [self._band(first, min(first + count, whole), beyond) for first in range(0, whole, count)]

    def _band(self, first: int, last: int, beyond: int) -> Geometry:
        """Return the geometry of a range of lines, the rows that they meet, and `beyond` more."""
        rows = self.rows._replace(
            before=self.rows.before - first * self.rows.step, count=last - first + beyond
        )
        ahead = first * self.step * self.sizes[1]
        parts = [
            part._replace(lines=min(part.lines, last) - first, start=part.start + ahead)
            for part in self.parts
            if part.lines > first
        ]
        return self._replace(rows=rows, parts=parts)

    def pack(self, images: int, stride: tuple[int, int, int], at: int) -> tuple[list[int], list[int]]:
        """Return the integers of a pack, and the table of phases that begins at `at`."""
        numbers = [self.channels, self.rows.count, images, self.columns.count, *stride]
        numbers += [self.rows.step, self.kept(images), self.overhang, len(self.phases), at]
        table: list[int] = []
        for down, along in self.phases:
            first_row, last_row, y = self.rows.kept(down)
            first, last, x = self.columns.kept(along)
            table += [first_row, last_row, first, last, y * stride[2] + x]
        return numbers, table


def _two(sizes: Sequence[int], one: int) -> tuple[int, int]:
    """Return sizes of two dimensions, with `one` before a single dimension."""
    return (one, sizes[0]) if len(sizes) == 1 else (sizes[0], sizes[1])


def forward_geometry(conv: Convolution) -> Geometry:
    """Return the geometry of the convolution itself."""
    window, step = conv.window, conv.window.stride[0]
    (h, w), (kh, kw), (oh, ow) = (_two(sizes, 1) for sizes in (window.spatial, window.kernel, window.out))
    (dy, dx), (py, px) = _two(window.dilation, 1), _two(window.padding, 0)
    channels, outputs = conv.channels // conv.groups, conv.outputs // conv.groups
    phases = sorted({(y * dy % step, x * dx % step) for y in range(kh) for x in range(kw)})
    taps = [
        (y * kw + x, phases.index((y * dy % step, x * dx % step)), y * dy // step, x * dx // step)
        for y in range(kh)
        for x in range(kw)
    ]
    reach = max(element for *_, element in taps)
    columns = w + px if step == 1 else ow + reach
    return Geometry(
        _Plane(h, step, py, oh + max(line for _, _, line, _ in taps)),
        _Plane(w, step, px, columns),
        phases,
        max(0, ow + reach - columns),
        *(channels, outputs, [_Part(oh, ow, 0, taps)], kh * kw, channels * kh * kw, 1, (oh, ow)),
    )


def backward_geometry(conv: Convolution) -> Geometry:
    """Return the geometry of the gradient of the input: for each phase of the stride, a convolution with some
    taps.
    """
    window, step = conv.window, conv.window.stride[0]
    (h, w), (kh, kw), (oh, ow) = (_two(sizes, 1) for sizes in (window.spatial, window.kernel, window.out))
    (dy, dx), (py, px) = _two(window.dilation, 1), _two(window.padding, 0)
    channels, outputs = conv.channels // conv.groups, conv.outputs // conv.groups

    def met(phase: int, kernel: int, dilation: int, padding: int) -> list[tuple[int, int]]:
        """Return the taps that an input of a phase reads, and the offset of each from the input's own position."""
        return [
            (k, (phase + padding - k * dilation) // step)
            for k in range(kernel)
            if (phase + padding - k * dilation) % step == 0
        ]

    # With one line a stride means nothing down the image.
    downs = [(y, met(y, kh, dy, py), -(-(h - y) // step)) for y in range(min(step, h))]
    alongs = [(x, met(x, kw, dx, px), -(-(w - x) // step)) for x in range(min(step, w))]
    above = max(0, *(-a for _, taps, _ in downs for _, a in taps), 0)
    before = max(0, *(-a for _, taps, _ in alongs for _, a in taps), 0)
    rows = above + max(count + max([a for _, a in taps], default=0) for _, taps, count in downs)
    end = max(count + max([a for _, a in taps], default=0) for _, taps, count in alongs)
    columns = max(ow + max(before, end - ow), *(count for *_, count in alongs))
    parts = [
        _Part(
            *(lines, width, y * w + x),
            [(ky * kw + kx, 0, above + a, before + b) for ky, a in down for kx, b in along],
        )
        for y, down, lines in downs
        for x, along, width in alongs
    ]
    return Geometry(
        *(
            _Plane(oh, 1, above, rows),
            _Plane(ow, 1, before, columns),
            [(0, 0)],
            max(0, before + end - columns),
        ),
        *(outputs, channels, parts, channels * kh * kw, kh * kw, step, (h, w)),
    )


class TiledConvolution:
    """A convolution, or the gradient of its input, as calls of a compiled loop.

    Args:
        conv: the convolution.
        geometry: Geometry of the forward or the backward convolution.
    """

    def __init__(self, conv: Convolution, geometry: Geometry) -> None:
        self.conv, self.geometry = conv, geometry
        self.compute = functools.cache(self._planned)
        self.no_bias = np.zeros(1, conv.dtype)

    def __call__(self, out: Array, source: Array, weight: Array, bias: Array | None) -> None:
        """Compute all of `out`; arrays are gapless but for `bias`."""
        addend = self.no_bias if bias is None else np.ascontiguousarray(bias, self.conv.dtype)
        self.compute(get_num_threads(), bias is not None)(source, weight, addend, out)

    def _planned(self, threads: int, has_bias: bool) -> Callable[..., None]:
        conv, images = self.conv, self._images()
        loop = _taps_loop(conv.dtype.name)
        assert loop is not None
        sharing = sharing_of(conv, threads)
        blocks = [(n, min(images, conv.n - n)) for n in range(0, conv.n, images)]
        bands = self.geometry.bands(conv.dtype.itemsize, MAX_POSITIONS)
        cuts = self._cuts(-(-TASKS * threads // (len(blocks) * len(bands))) if sharing else 1)
        places: list[int] = []
        made = []
        for band in bands:
            starts = {m: self._add_places(band, m, places) for m in dict.fromkeys(m for _, m in blocks)}
            made += [
                self._numbers(band, block, starts[block[1]], *cut, has_bias)
                for block in blocks
                for cut in cuts
            ]
        room = max(room for _, room in made) * conv.dtype.itemsize
        width = max(len(numbers) for numbers, _ in made)  # a last band may have fewer parts
        tasks = [np.pad(numbers, (0, width - len(numbers))) for numbers, _ in made]
        compute = shared_loop(loop, tasks, sharing, (5, room))
        taps = np.array(places, np.int64)
        return lambda *arrays: compute(taps, *arrays)

    def _images(self) -> int:
        """Return the number of images of a block: enough positions for tiles, and no more than a cache holds."""
        geometry, size, most = self.geometry, self.conv.dtype.itemsize, self.conv.n
        images = 1
        while images < most and geometry.positions(images) < POSITIONS:
            if geometry.channels * geometry.kept(2 * images) * size > PLANE_BYTES:
                break
            images *= 2
        return min(images, most)

    def _cuts(self, num_parts: int) -> list[tuple[int, int, int, int]]:
        """So many ranges of groups, or of outputs where there is one group: first and count of both."""
        groups, outputs = self.conv.groups, self.geometry.outputs
        if groups > 1:
            step = -(-groups // num_parts)
            return [(g, min(step, groups - g), 0, outputs) for g in range(0, groups, step)]
        step = -(-outputs // (8 * num_parts)) * 8 if num_parts > 1 else outputs
        return [(0, 1, o, min(step, outputs - o)) for o in range(0, outputs, step)]

    @staticmethod
    def _add_places(geometry: Geometry, images: int, made: list[int]) -> list[int]:
        """Append the taps of all parts for so many images, in the weight and then in planes; where parts begin."""
        starts = list[int]()
        kept = geometry.kept(images)
        for part in geometry.parts:
            starts.append(len(made))
            channels = range(geometry.channels)
            made += [c * geometry.of_channel + tap for c in channels for tap, *_ in part.taps]
            made += [c * kept + geometry.place(images, *where) for c in channels for _, *where in part.taps]
        return starts

    def _numbers(
        self,
        geometry: Geometry,
        block: tuple[int, int],
        starts: list[int],
        group: int,
        groups: int,
        output: int,
        outputs: int,
        has_bias: bool,
    ) -> tuple[Array, int]:
        """Return the integers that describe a task, and the number of scratch elements that it needs."""
        conv, (first, images) = self.conv, block
        h, w = geometry.rows.size, geometry.columns.size
        oh, ow = geometry.sizes
        of_source, of_out = geometry.channels * h * w, geometry.outputs * oh * ow
        of_weight = geometry.channels * geometry.outputs * math.prod(conv.window.kernel)
        planes = geometry.channels * geometry.kept(images) + SLACK
        row = geometry.positions(images) + SLACK
        table = len(TAPS) + len(PACK)
        numbers = [
            *(groups, (first * conv.groups + group) * of_source, of_source),
            *(group * of_weight + output * geometry.of_output, of_weight),
            (first * conv.groups + group) * of_out + output * oh * ow,
            of_out,
            group * geometry.outputs + output if has_bias else -(1 << 62),
            *(outputs, geometry.of_output, row, len(geometry.parts), table),
            *(conv.groups * of_out, oh * ow, geometry.step * ow, geometry.step),
            *(images, geometry.columns.count, planes),
        ]
        parts: list[int] = []
        for part, start in zip(geometry.parts, starts, strict=True):
            positions = ((part.lines - 1) * images + images - 1) * geometry.columns.count + part.width
            taps = geometry.channels * len(part.taps)
            parts += [positions, taps, start, part.lines, part.width, part.start]
        pack, phases = geometry.pack(images, (conv.groups * of_source, h * w, w), table + len(parts))
        return np.array([*numbers, *pack, *parts, *phases], np.int64), planes + 8 * row + SLACK


class TiledSums:
    """The gradient of a convolution's weight as calls of a compiled loop: products of planes, summed along positions.

    Images are taken in blocks, which follow from the geometry alone, as do the sums of up to `BLOCKS` of them; these
    are added in float64. Threads share groups, channels or outputs.
    """

    def __init__(self, conv: Convolution) -> None:
        self.conv, self.geometry = conv, forward_geometry(conv)
        self.shares = functools.cache(self._planned)
        images, size = 1, conv.dtype.itemsize
        each = self.geometry.channels + self.geometry.outputs
        while images < conv.n and self.geometry.positions(images) < SUMMED_POSITIONS:
            if each * self.geometry.kept(2 * images) * size > 2 * PLANE_BYTES:
                break
            images *= 2
        bands = self.geometry.bands(size, MAX_SUMMED)
        self.blocks = [(band, n, min(images, conv.n - n)) for n in range(0, conv.n, images) for band in bands]

    def __call__(self, out: Array, grad: Array, source: Array) -> None:
        """Compute all of `out`; arrays are gapless."""
        shares = self.shares(get_num_threads())
        if len(shares) == 1:
            shares[0](source, grad, out)
            return
        total = np.zeros(out.shape, np.float64)
        for share in shares:
            share(source, grad, out)
            total += out
        np.copyto(out, total, casting="unsafe")

    def _planned(self, threads: int) -> list[Callable[..., None]]:
        """Return a function of the arrays for each share of the blocks."""
        conv = self.conv
        loop = _sums_loop(conv.dtype.name)
        assert loop is not None
        sharing = sharing_of(conv, threads)
        cuts = self._cuts(TASKS_OF_SUMS * threads if sharing else 1)
        kinds = {(band.rows.count, m): band for band, _, m in self.blocks}
        starts = {kind: number * len(self.geometry.parts[0].taps) for number, kind in enumerate(kinds)}
        places = np.array(
            [band.place(m, *where) for (_, m), band in kinds.items() for _, *where in band.parts[0].taps],
            np.int64,
        )

        def share_of(first: int) -> Callable[..., None]:
            own = self.blocks[first : first + BLOCKS]
            made = [
                [
                    self._numbers(*block, *cut, [int(number > 0), starts[block[0].rows.count, block[2]]])
                    for number, block in enumerate(own)
                ]
                for cut in cuts
            ]
            parts = [
                np.array([len(own), len(each[0][0]), *(number for numbers, _ in each for number in numbers)])
                for each in made
            ]
            room = max(room for each in made for _, room in each) * conv.dtype.itemsize
            compute = shared_loop(loop, parts, sharing, (4, room))
            return lambda *arrays: compute(places, *arrays)

        return [share_of(first) for first in range(0, len(self.blocks), BLOCKS)]

    def _cuts(self, num_parts: int) -> list[list[tuple[int, int]]]:
        """Return ranges of groups, outputs and channels, first and count of each."""
        counts = (self.conv.groups, self.geometry.outputs, self.geometry.channels)
        # Split the dimension with the most parts, but outputs last: each part packs its planes itself.
        along = max((0, 2, 1), key=lambda i: min(counts[i], num_parts))
        step = -(-counts[along] // num_parts)
        return [
            [(first, min(step, counts[i] - first)) if i == along else (0, counts[i]) for i in range(3)]
            for first in range(0, counts[along], step)
        ]

    def _numbers(
        self,
        geometry: Geometry,
        first: int,
        images: int,
        groups: tuple[int, int],
        outputs: tuple[int, int],
        channels: tuple[int, int],
        last: list[int],
    ) -> tuple[list[int], int]:
        """Return the integers that describe a block of a task, and the number of scratch elements that it needs."""
        conv = self.conv
        h, w = geometry.rows.size, geometry.columns.size
        oh, ow = geometry.sizes
        lines, begin = geometry.parts[0].lines, geometry.parts[0].start // ow
        of_source, of_grad = geometry.channels * h * w, geometry.outputs * oh * ow
        taps = math.prod(conv.window.kernel)
        of_out = geometry.channels * geometry.outputs * taps
        line = images * geometry.columns.count
        row = -(-lines * line // MAX_VECTOR_ELEMENTS) * MAX_VECTOR_ELEMENTS
        source_room = outputs[1] * row + SLACK
        packs = len(SUMS)
        tables = packs + 2 * len(PACK)
        # The gradient has the layout of outputs in the planes, with zeros between its rows.
        flat = geometry._replace(
            rows=_Plane(oh, 1, -begin, lines),
            columns=_Plane(ow, 1, 0, geometry.columns.count),
            phases=[(0, 0)],
            overhang=row - lines * line,
            channels=outputs[1],
        )
        own = geometry._replace(channels=channels[1])
        pack, table = flat.pack(images, (conv.groups * of_grad, oh * ow, ow), tables)
        other, other_table = own.pack(images, (conv.groups * of_source, h * w, w), tables + len(table))
        numbers = [
            *(groups[1], (first * conv.groups + groups[0]) * of_source + channels[0] * h * w, of_source),
            *((first * conv.groups + groups[0]) * of_grad + outputs[0] * oh * ow, of_grad),
            groups[0] * of_out + outputs[0] * geometry.of_output + channels[0] * geometry.of_channel,
            *(of_out, channels[1], outputs[1], taps),
            -(-geometry.positions(images) // MAX_VECTOR_ELEMENTS) * MAX_VECTOR_ELEMENTS,
            *(row, packs, packs + len(PACK), source_room, geometry.of_channel, geometry.of_output, *last),
        ]
        room = source_room + channels[1] * geometry.kept(images) + 2 * SLACK
        return [*numbers, *pack, *other, *table, *other_table], room
