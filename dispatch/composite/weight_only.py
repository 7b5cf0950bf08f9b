"""Memory orders of int4 weights for matmuls.

Source: PyTorch, `_convert_weight_to_int4pack` in ATen/native/cuda/int4mm.cu, and `int4pack_mm_kernel.cpp` for the CPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...runtime.scalar_type import int32, int64, uint8
from ..generated import functions as ops

if TYPE_CHECKING:
    from ..tensor import Tensor

ROWS = 64
"""Rows of a block that an AVX-512 CPU multiplies at a time."""


def _convert_weight_to_int4pack(self: Tensor, innerKTiles: int) -> Tensor:
    """Pack int4 weights for tensor-core instructions.

    An operand has eight rows by 16 columns; each lane holds columns 2 t, 2 t + 1, 2 t + 8 and 2 t + 9 of a row. An
    int32 packs these columns of two operands.
    """
    name = "_convert_weight_to_int4pack"
    if self.dim() != 2 or self.dtype is not uint8 or not self.is_contiguous():
        raise RuntimeError(
            f"{name}: expected `self` to be a contiguous 2D tensor of uint8, got {self.dtype}, sizes "
            f"{list(self.shape)} and strides {list(self.stride())}"
        )
    if innerKTiles not in (2, 4, 8):
        raise RuntimeError(f"{name}: expected innerKTiles to be 2, 4 or 8, got {innerKTiles}")
    n, k = self.shape[0], 2 * self.shape[1]
    if n % 8 or k % (16 * innerKTiles):
        raise RuntimeError(
            f"{name}: expected 8 to divide the rows and {16 * innerKTiles} the columns of the weight, got {n} and {k}"
        )
    pairs = ops.stack([self >> 4, self & 15], -1)
    lanes = pairs.reshape((n // 8, 8, k // (16 * innerKTiles), innerKTiles // 2, 4, 4, 2))
    # (tile, row, outer, inner, eight columns, lane, pair): a lane is a row and two columns.
    lanes = lanes.permute((0, 2, 1, 5, 3, 4, 6)).to(int64)
    # Bit positions of the columns 0, 1, 8, 9, 16, 17, 24 and 25, counted from a lane's first, in its 32 bits.
    shifts = 4 * ops.arange(4, device=self.device)[:, None] + 16 * ops.arange(2, device=self.device)
    words = (lanes << shifts).sum((-1, -2))
    # 32-bit patterns in the upper half are negative numbers.
    words = words - ((words >> 31) << 32)
    return words.to(int32).reshape((n // 8, k // (16 * innerKTiles), 32, innerKTiles // 2))


def _convert_weight_to_int4pack_for_cpu(self: Tensor, innerKTiles: int) -> Tensor:
    """Pack 64 rows into 32 bytes per column, each with rows that are 32 apart; the remaining rows pair neighbors."""
    name = "_convert_weight_to_int4pack_for_cpu"
    if self.dim() != 2 or self.dtype is not int32:
        raise RuntimeError(
            f"{name}: expected `self` to be a 2D tensor of int32, got {self.dtype} and sizes {list(self.shape)}"
        )
    n, k = self.shape
    if n % 16 or k % 2:
        raise RuntimeError(f"{name}: expected 16 to divide the rows and 2 the columns, got {n} and {k}")
    whole = n // ROWS * ROWS
    far = self[:whole].reshape((whole // ROWS, 2, ROWS // 2, k)).permute((1, 0, 3, 2))
    near = self[whole:].reshape(((n - whole) // 2, 2, k)).permute((1, 2, 0))
    parts = [(pair[0] & 15) | ((pair[1] & 15) << 4) for pair in (far, near)]
    return ops.cat([part.reshape(-1) for part in parts]).to(uint8).reshape((n, k // 2))
