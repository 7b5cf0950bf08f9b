"""`tl.dot_scaled` in the interpreter: 8-bit and 4-bit numbers times their block scales.

An element times its scale is exact in float64. Products are accumulated in float64 and rounded once, to float32.
Triton's own interpreter takes the bits of float8_e4m3fn scales for exponents. Source of the formats: OCP Microscaling
Formats (MX), version 1.0, section 5; `tcgen05.mma` with ``.block_scale`` in NVIDIA's PTX ISA.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from triton._C.libtriton import ir

from .formats import Array

E2M1 = ir.ScaleDotElemTypeTY.E2M1
E8M0 = np.dtype(ml_dtypes.float8_e8m0fnu)
UINT8 = np.dtype(np.uint8)
NUMBERS = np.arange(16, dtype=np.uint8).view(ml_dtypes.float4_e2m1fn).astype(np.float64)
"""Values of the 4-bit numbers."""


def unpacked(data: Array, axis: int) -> Array:
    """Unpack two numbers from each byte along an axis, the low bits first."""
    moved = np.moveaxis(data.view(UINT8), axis, -1)
    pairs = np.stack([NUMBERS[moved & 15], NUMBERS[moved >> 4]], -1)
    return np.moveaxis(pairs.reshape(*moved.shape[:-1], -1), -1, axis)


def scaled_operand(data: Array, scales: Array | None, format_: Any, packed_along: int, inner: int) -> Array:
    """Return an operand in float64, times its scales.

    Args:
        data: Numbers, or bytes of two each.
        scales: Shape (..., lines, blocks): powers of two as bytes, or 8-bit floats. None means 1.
        format_: Format of `data`, as named by Triton.
        packed_along: Dimension along which bytes hold two numbers.
        inner: The K dimension, -1 or -2.
    """
    values = unpacked(data, packed_along) if format_ == E2M1 else data.astype(np.float64)
    if scales is None:
        return values
    factors = scales.view(E8M0) if scales.dtype.kind in "iu" else scales
    wide = factors.astype(np.float64).repeat(values.shape[inner] // scales.shape[-1], -1)
    return values * (wide if inner == -1 else np.swapaxes(wide, -1, -2))


def product(left: Array, right: Array, accumulator: Array) -> Array:
    """Multiply, round to float32, and add to the accumulator."""
    total: Array = np.matmul(left, right).astype(np.float32) + accumulator
    return total
