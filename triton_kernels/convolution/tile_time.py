"""Cost model of a convolution's tiles by tensor descriptors: cycles of the busiest multiprocessor.

A step of a tile (one tap of a block of channels) takes the longer of two times: of its multiply-adds, and of its
operands' way from L2. An H200 timed five tiles for four 3x3 layers of ResNet-50 (`tuning/tables/sm_90.json`). With
tiles of 128x64, operands of three layers arrived at 8.3 to 9.0 TB/s. The model names each layer's fastest tile.
"""

from __future__ import annotations

from ..budget import Configuration
from ..launch import cdiv

MULTIPLY_BYTES = 4096
"""Multiply-adds of a multiprocessor in a cycle times the element's bytes: 2,048 of two bytes on sm_90."""
BYTES = 36
"""Bytes that a multiprocessor gets from L2 in a cycle, with all of them loading: 8.5 TB/s for 132 at 1.76 GHz."""
MULTIPLY_SHARE = 1 / 8
"""Weight of the shorter of both times, which decides between tiles of equal loads."""
LAUNCH = 5_000
"""Cycles from one launch to the next: 3 us, a guess until it is timed."""


def tile_time(
    configuration: Configuration, tiles: int, steps: int, itemsize: int, num_multiprocessors: int
) -> float:
    """Return the cycles of so many tiles of `steps` blocks along K each.

    Example:
        >>> from triten.triton_kernels.budget import Configuration
        >>> from triten.triton_kernels.convolution.tile_time import tile_time
        >>> large, small = Configuration((128, 256, 64)), Configuration((128, 64, 64))
        >>> tile_time(large, 98, 36, 2, 132) < tile_time(small, 392, 36, 2, 132)
        True
    """
    rows, columns, depth = configuration.tile[:3]
    multiply = rows * columns * depth * itemsize / MULTIPLY_BYTES
    load = (rows + columns) * depth * itemsize / BYTES
    step = max(multiply, load) + MULTIPLY_SHARE * min(multiply, load)
    return cdiv(tiles, num_multiprocessors) * steps * step


def parts_time(positions: int, columns: int, parts: int, num_multiprocessors: int) -> float:
    """Return the cycles that a convolution in so many parts costs more: float32 sums out and in, and a launch."""
    return LAUNCH + 8 * parts * positions * columns / (BYTES * num_multiprocessors)
