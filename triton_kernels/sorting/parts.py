"""Split of lines into parts and tiles for a radix sort's kernels."""

from __future__ import annotations

from ...runtime.cuda.driver import driver
from ...runtime.cuda.triton.lazy_kernel import LazyKernel
from ...runtime.device import device as Device
from ..budget import Configuration
from ..launch import cdiv, interpreted, next_power_of_2
from ..tuning.choice import configuration
from .ordered_keys import KeyFormat

DIGIT_BITS = 8
BUCKETS = 1 << DIGIT_BITS
BLOCK, WARPS = 2048, 8
INTERPRETED_BLOCK = 1 << 14
WAVES = 8
"""Programs that run one after another in a slot, so that the last ones end at nearly the same time."""


class Parts:
    """Split of lines into parts, one for each program; a part is a multiple of a tile.

    Args:
        lines, n: Number of lines, and their length.
        block: Elements of a tile.
        resident: programs that a multiprocessor has at a time.
    """

    def __init__(self, lines: int, n: int, block: int, resident: int) -> None:
        num_blocks = cdiv(n, block)
        if interpreted():
            num_programs = 2
        else:
            num_programs = resident * driver().properties(driver().current_device()).multi_processor_count
        parts = min(max(num_programs // max(lines, 1), 1), num_blocks)
        self.chunk = cdiv(num_blocks, parts) * block
        self.parts = cdiv(n, self.chunk)
        self.grid = (lines * self.parts, 1, 1)


def tile_of(n: int) -> int:
    """Return the number of elements of a tile over lines of this length."""
    if interpreted():
        return min(max(next_power_of_2(n), 16), INTERPRETED_BLOCK)
    return BLOCK


def chosen_tile(
    kernel: LazyKernel, device: Device, format_: KeyFormat, lines: int, n: int, block: int
) -> Configuration:
    """Return the tuned tile and warps of a kernel that reads lines, or `block` and 8."""
    default = Configuration((block,), WARPS)
    if interpreted():
        return default
    return configuration(kernel, device, format_.word, (lines, n), default)
