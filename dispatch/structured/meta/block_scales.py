"""Block scales of 32 or 16 K elements: their formats, and their number in cuBLAS's layout.

Source: ATen/native/cuda/ScaledBlas.cpp; cuBLAS, "1D Block Scaling Factors Layout".
"""

from __future__ import annotations

from typing import NamedTuple

from ....runtime.scalar_type import EXPONENTS, PACKED
from ....runtime.tensor_spec import TensorSpec

FLOATS8 = ("float8_e4m3fn", "float8_e5m2")
LINES, BLOCKS = 128, 4
"""Lines and blocks whose scales are stored together, with padding."""


class BlockScaling(NamedTuple):
    """Number of K elements that share a scale, and number of K elements per byte."""

    vector: int
    packed: int

    @property
    def name(self) -> str:
        """Name of the recipe in PyTorch."""
        return f"BlockWise1x{self.vector}"


def block_scaling(
    self: TensorSpec, mat2: TensorSpec, scale_a: TensorSpec, scale_b: TensorSpec
) -> BlockScaling | None:
    """Return the MX or NV block scaling of these scales; None for other formats and other numbers of scales."""
    scaling = scaling_of(self, mat2, scale_a, scale_b)
    if scaling is None or not (scale_a.is_contiguous and scale_b.is_contiguous):
        return None
    k = self.sizes[1] * scaling.packed
    expected = (scale_count(lines, k, scaling.vector) for lines in (self.sizes[0], mat2.sizes[1]))
    return scaling if (scale_a.numel, scale_b.numel) == tuple(expected) else None


def scaling_of(
    self: TensorSpec, mat2: TensorSpec, scale_a: TensorSpec, scale_b: TensorSpec
) -> BlockScaling | None:
    """Return the block scaling that the dtypes alone imply."""
    if scale_a.dtype is not scale_b.dtype:
        return None
    packed = self.dtype is PACKED and mat2.dtype is PACKED
    if not packed and not all(spec.dtype.name in FLOATS8 for spec in (self, mat2)):
        return None
    if scale_a.dtype is EXPONENTS:
        return BlockScaling(32, 2 if packed else 1)
    return BlockScaling(16, 2) if packed and scale_a.dtype.name == "float8_e4m3fn" else None


def scale_count(lines: int, k: int, vector: int) -> int:
    """Return the number of scales of lines of k elements, including padding."""
    return rounded_up(lines, LINES) * rounded_up(rounded_up(k, vector) // vector, BLOCKS)


def rounded_up(n: int, unit: int) -> int:
    """Round n up to a multiple of `unit`."""
    return -(-n // unit) * unit
