"""Products whose scales belong to blocks of 32 or 16 inner elements: MXFP8, MXFP4, NVFP4.

A number times its scale is exact in float64. Products are added up there, and the sum rounds once, to float32.
"""

from __future__ import annotations

from typing import Any

from ...dispatch.structured.meta.block_scales import BLOCKS, LINES, BlockScaling
from ...runtime.scalar_type import PACKED
from ..plain_numpy import np

_MAGNITUDES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
NUMBERS = np.array([*_MAGNITUDES, *(-value for value in _MAGNITUDES)])
"""Values of the 4-bit codes (OCP Microscaling Formats, version 1.0, section 5.3.3)."""
PAIRS = np.stack([np.tile(NUMBERS, 16), NUMBERS.repeat(16)], -1)
"""The two numbers of each byte."""


def unswizzled(scales: Any, lines: int, blocks: int) -> Any:
    """Scales (lines, blocks) out of the layout SWIZZLE_32_4_4: of 128 lines and 4 blocks at a time, 32 lines apart."""
    high, wide = -(-lines // LINES), -(-blocks // BLOCKS)
    tiles = scales.reshape(high, wide, 32, LINES // 32, BLOCKS).transpose(0, 3, 2, 1, 4)
    return tiles.reshape(high * LINES, wide * BLOCKS)[:lines, :blocks]


def numbers_of(rows: Any) -> Any:
    """(lines, k) in float64, of numbers or of bytes of two each."""
    if rows.dtype != PACKED.np:
        return rows.astype(np.float32).astype(np.float64)
    lines, width = rows.shape
    return PAIRS[rows.view(np.uint8)].reshape(lines, 2 * width)


def scaled_rows(rows: Any, scales: Any, scaling: BlockScaling) -> Any:
    """Return (lines, k) in float64, each block times its scale."""
    values = numbers_of(rows)
    lines, k = values.shape
    block_scales = unswizzled(scales, lines, -(-k // scaling.vector))
    wide = block_scales.astype(np.float32).astype(np.float64)
    return values * wide.repeat(scaling.vector, 1)[:, :k]


def block_scaled_product(left: Any, right: Any, by_row: Any, by_column: Any, scaling: BlockScaling) -> Any:
    """(m, n) in float32 of (m, k) and (k, n), whose bytes hold two numbers along k where the format is of 4 bits."""
    a, b = scaled_rows(left, by_row, scaling), scaled_rows(right.T, by_column, scaling)
    return np.dot(a, b.T).astype(np.float32)
