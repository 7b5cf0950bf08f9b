"""Tables of integers that the loops over panels read (`panels_loop.py`), and the buffers that they pack."""

from __future__ import annotations

import functools
from typing import Any

from ..plain_numpy import np
from .panel_geometry import Geometry

Array = np.ndarray[Any, Any]

LINE_BYTES = 64
"""Bytes of a cache line."""

OUTPUTS = (
    *("first_panel", "last_panel", "panel_size", "outputs", "made", "positions", "parts", "part_table"),
    *("packs", "packed"),
)
"""Fields of a task.

- `first_panel`, `last_panel`, `panel_size`, `outputs`: Its panels, their elements, and all output channels.
- `made`, `positions`: Offset of the results in the workspace, and their number.
- `parts`, `part_table`: Number and table of the parts, as `PART`.
- `packs`, `packed`: 1 if the task packs its panels itself, and their offset in the workspace.
"""
PART = ("count", "places", "ends", "blocks", "block_table")
"""Fields of positions that read the same taps: tables of offsets in planes and in results, and blocks of taps."""
BLOCK = ("runs", "run_table")
"""Fields of a block of taps: its runs."""
RUN = ("offset", "length", "row")
"""Fields of a run of pixels: its offset from the position, its elements, and the panel's row of the first one."""
SUMS = ("panel", "sums", "taps", "tap_table")
"""Fields of a task of a weight's gradient: the offset of its panel, the number of its sums, and its taps, block of
positions by block.
"""
TAP = ("offset", "length", "row", "positions", "places")
"""Fields of a tap.

- `offset`, `length`, `row`: Its offset from a position, its channels, and the row of its first sum.
- `positions`, `places`: Number and table of the positions that read it. An entry is the offset in the planes times
  2^32, plus the offset in the panel.
"""


def whole_lines(room: Array) -> Array:
    """Return the whole cache lines of a buffer of bytes: a vector that lies in two lines takes two loads."""
    start = -room.ctypes.data % LINE_BYTES
    return room[start : start + (room.size - start) // LINE_BYTES * LINE_BYTES]


class Tables:
    """Tables of integers in one array; equal tables are kept once."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.offset_of: dict[tuple[int, ...], int] = {}
        self.grid = functools.cache(self._grid)

    def add(self, *numbers: int) -> int:
        """Return the offset of a table."""
        offset = self.offset_of.get(numbers)
        if offset is None:
            offset = self.offset_of[numbers] = len(self.numbers)
            self.numbers += numbers
        return offset

    def _grid(self, columns: int, step: int, lines: int = 1, down: int = 0) -> int:
        """Return the offset of the table of a grid's elements, line by line."""
        return self.add(*(y * down + x * step for y in range(lines) for x in range(columns)))


def pack_planes(
    tables: Tables, geometry: Geometry, first: int, images: int, line: int, lines: int
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
