"""Geometry of convolutions over channels-last planes: which pixels the taps of an output read."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import NamedTuple

from . import tiles
from .columns import Convolution


class Taps(NamedTuple):
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
    parts: list[Taps]
    pixel: int

    @property
    def beyond(self) -> int:
        """Lines below a position's that its taps reach."""
        return max((line for part in self.parts for _, line, _ in part.taps), default=0)

    @functools.cached_property
    def inside(self) -> list[Taps]:
        """Parts whose taps all read pixels: no zero of the border meets a weight, which may be infinite."""
        return [
            Taps(
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
        ranges: list[tuple[range, frozenset[int]]] = []
        for i in positions:
            read_offsets = frozenset(each for each in offsets if 0 <= i * self.walk + each - before < size)
            if ranges and ranges[-1][1] == read_offsets:
                ranges[-1] = (range(ranges[-1][0].start, i + 1), read_offsets)
            else:
                ranges.append((range(i, i + 1), read_offsets))
        return ranges


def forward_geometry(conv: Convolution, pixel: int | None = None) -> Geometry:
    """Return the geometry of the convolution itself, whose pixels may have gaps between them."""
    window, step = conv.window, conv.window.stride[0]
    (kh, kw), (oh, ow), (dy, dx) = window.kernel, window.out, window.dilation
    taps = [(y * kw + x, y * dy, x * dx) for y in range(kh) for x in range(kw)]
    padded = ((oh - 1) * step + (kh - 1) * dy + 1, (ow - 1) * step + (kw - 1) * dx + 1)
    part = Taps(range(oh), range(ow), (0, 0), taps)
    border = (window.padding[0], window.padding[1])
    return Geometry(
        *((window.spatial[0], window.spatial[1]), border, padded, conv.channels, conv.outputs),
        *(step, 1, (oh, ow), [part], pixel or conv.channels),
    )


def backward_geometry(conv: Convolution) -> Geometry:
    """Return the geometry of the gradient of the input."""
    geometry = tiles.backward_geometry(conv)
    rows, columns = geometry.rows, geometry.columns
    width = geometry.sizes[1]
    parts = [
        Taps(
            *(range(part.lines), range(part.width), divmod(part.start, width)),
            [(tap, line, element) for tap, _, line, element in part.taps],
        )
        for part in geometry.parts
    ]
    return Geometry(
        *((rows.size, columns.size), (rows.before, columns.before)),
        *((rows.count, columns.count + geometry.overhang), geometry.channels, geometry.outputs),
        *(1, geometry.step, geometry.sizes, parts, geometry.channels),
    )
