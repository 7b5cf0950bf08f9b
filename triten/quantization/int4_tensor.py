"""Weights of 4-bit integers, with a scale and a zero for each group of columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from ..dispatch.generated import functions as ops
from ..dispatch.tensor import Tensor
from ..nn.functional import pad
from ..runtime.device import device as Device
from ..runtime.scalar_type import dtype as ScalarType
from ..runtime.scalar_type import float32, int32, uint8
from .quantized_tensor import QuantizedTensor, check_part, check_weight, savable

GROUP_SIZES = (32, 64, 128, 256)
ROWS = 16
"""The number of rows of a packed weight is padded with zeros to a multiple of this."""
FAR_ROWS = 64
"""Rows of a block on the CPU, in which each byte holds elements of two rows that are 32 apart."""
INNER_TILES = (8, 4, 2)
MIN_SCALE = 2.0**-23


def packed_for(integers: Tensor) -> Tensor:
    """Pack uint8 integers (N, K) for the int4 matmul of their device; N is a multiple of 16."""
    if integers.device.type == "cpu":
        return ops._convert_weight_to_int4pack_for_cpu(integers.to(int32), 8)
    columns = integers.shape[1]
    tiles = next(each for each in INNER_TILES if columns % (16 * each) == 0)
    pairs = (integers[:, ::2] << 4) | integers[:, 1::2]
    return ops._convert_weight_to_int4pack(pairs.contiguous(), tiles)


def unpacked(packed: Tensor) -> Tensor:
    """Unpack a weight's integers (N, K) to uint8."""
    if packed.dtype is uint8:
        rows, columns = packed.shape[0], 2 * packed.shape[1]
        flat = packed.reshape(-1)
        whole = rows // FAR_ROWS * FAR_ROWS
        far = flat[: whole * columns // 2].reshape((whole // FAR_ROWS, columns, FAR_ROWS // 2))
        near = flat[whole * columns // 2 :].reshape((columns, (rows - whole) // 2))
        first = ops.stack([far & 15, far >> 4], 1).permute((0, 1, 3, 2)).reshape((whole, columns))
        rest = ops.stack([near & 15, near >> 4], -1).permute((1, 2, 0)).reshape((rows - whole, columns))
        return ops.cat([first, rest])
    tiles, outer, _, words = packed.shape
    device = packed.device
    # (tile, row, outer, word, eight columns, lane, pair), as `_convert_weight_to_int4pack` has them.
    lanes = packed.reshape((tiles, outer, 8, 4, words)).permute((0, 2, 1, 4, 3))
    shifts = 4 * ops.arange(4, device=device)[:, None] + 16 * ops.arange(2, device=device)
    bits = (lanes[..., None, None].to(ops.arange(1).dtype) >> shifts) & 15
    return bits.permute((0, 1, 2, 3, 5, 4, 6)).reshape((8 * tiles, 32 * outer * words)).to(uint8)


@savable
class Int4Tensor(QuantizedTensor):
    """Matrix of 4-bit integers with a scale and a zero for each group of columns of a row.

    An integer i represents (i - 8) * scale + zero. The packed layout is that of `_weight_int4pack_mm_for_cpu` on the
    CPU and of `_weight_int4pack_mm` on CUDA; a copy between them repacks.

    Attributes:
        packed: The integers, uint8 of shape (N, K / 2) on the CPU, int32 of four dimensions on CUDA, N being rounded
            up to a multiple of 16.
        scale_and_zero: Scales and zeros, of shape (K / group_size, N, 2) and this tensor's dtype.
        group_size: The number of columns in a group.
    """

    PARTS = ("packed", "scale_and_zero")
    SETTINGS = ("group_size",)

    packed: Tensor
    scale_and_zero: Tensor
    group_size: int

    @classmethod
    def from_float(cls, weight: Tensor, group_size: int = 128) -> Self:
        """Round a weight to integers from 0 to 15, which map to a group's minimum and maximum (zero included).

        Args:
            weight: A matrix (N, K) of float32, float16 or bfloat16.
            group_size: 32, 64, 128 or 256, which divides K.

        Raises:
            ValueError: `weight` is of another dtype or number of dimensions, or the group's size does not divide K.

        Source: torchao, asymmetric quantization by groups, with zeros of floats.

        Example:
            >>> import triten as tt
            >>> weight = tt.linspace(-1.0, 0.5, 32)[None]
            >>> tt.quantization.Int4Tensor.from_float(weight, 32).dequantize()[0, ::8]
            tensor([-1.0000, -0.6000, -0.2000,  0.2000])
        """
        check_weight("Int4Tensor", weight)
        rows, columns = weight.shape
        if group_size not in GROUP_SIZES:
            raise ValueError(f"Int4Tensor: expected group_size to be one of {GROUP_SIZES}, got {group_size}")
        if not rows or not columns or columns % group_size:
            raise ValueError(
                f"Int4Tensor: expected group_size to divide the columns of a weight that is not empty, got "
                f"{group_size} and {list(weight.shape)}"
            )
        wide = weight.detach().to(float32).reshape((rows, columns // group_size, group_size))
        low, high = wide.amin(2).clamp(max=0.0), wide.amax(2).clamp(min=0.0)
        # Round both to the weight's dtype, as matmuls use them, before computing the integers.
        scale = ((high - low) / 15).clamp(min=MIN_SCALE).to(weight.dtype).to(float32)
        zero = (low + 8 * scale).to(weight.dtype).to(float32)
        steps = ops.round((wide - zero[..., None]) / scale[..., None]) + 8
        integers = ops.nan_to_num(steps, 0.0, 15.0, 0.0).clamp(0, 15).to(uint8).reshape((rows, columns))
        numbers = ops.stack([scale, zero], -1).permute((1, 0, 2)).to(weight.dtype)
        more = -rows % ROWS
        parts = packed_for(pad(integers, (0, 0, 0, more))), pad(numbers, (0, 0, 0, more)).contiguous()
        return cls.of_parts(weight.shape, weight.dtype, parts, (group_size,))

    def check_parts(self, rows: int, columns: int) -> None:
        """Check the packed integers, the scales and zeros, and the group size.

        With N rounded up to a multiple of 16, `packed` is uint8 (N, K / 2) or 4D int32, and `scale_and_zero` is
        (K / group_size, N, 2).

        Raises:
            ValueError: A part has another dtype or shape, or the group size is invalid.
        """
        name, group = "Int4Tensor", self.group_size
        if type(group) is not int or group not in GROUP_SIZES or columns % group:
            raise ValueError(f"{name}: expected group_size to be one of {GROUP_SIZES}, got {group!r:.100}")
        padded = rows + -rows % ROWS
        if isinstance(self.packed, Tensor) and self.packed.dtype is int32 and self.packed.dim() == 4:
            words = self.packed.shape[3]
            if words not in (1, 2, 4) or columns % (32 * words):
                raise ValueError(f"{name}: expected `packed` to have 1, 2 or 4 words of a lane, got {words}")
            check_part(
                name, "packed", self.packed, (int32,), (padded // 8, columns // (32 * words), 32, words)
            )
        else:
            check_part(name, "packed", self.packed, (uint8,), (padded, columns // 2))
        shape = (columns // group, padded, 2)
        check_part(name, "scale_and_zero", self.scale_and_zero, (self._spec.dtype,), shape)

    def like(
        self,
        parts: Sequence[Tensor] | None = None,
        dtype: ScalarType | None = None,
        transposed: bool | None = None,
    ) -> Self:
        """Return a copy with other parts; scales and zeros get the dtype."""
        packed, numbers = self.parts if parts is None else parts
        if dtype is not None:
            numbers = numbers.to(dtype)
        return super().like((packed, numbers), dtype, transposed)

    def moved(self, device: Device | None, dtype: ScalarType | None, copy: bool) -> Self:
        """Move to a device, in that device's packed layout."""
        target = self.device if device is None else device
        packed = self.packed
        if (
            "cpu" in (self.device.type, target.type)
            and self.device.type != target.type
            and "meta" not in (self.device.type, target.type)
        ):
            packed = packed_for(unpacked(packed).to(target))
        parts = [part.to(device=target, copy=copy) for part in (packed, self.scale_and_zero)]
        return self.like(parts, dtype)

    def integers(self) -> Tensor:
        """Return the unpacked integers from 0 to 15, uint8 of shape (N, K)."""
        return unpacked(self.packed)[: self.matrix_shape[0]]

    def dequantized(self) -> Tensor:
        """Compute (i - 8) * scale + zero in float32 and round once to `dtype`."""
        rows, columns = self.matrix_shape
        wide = self.integers().to(float32).reshape((rows, columns // self.group_size, self.group_size)) - 8
        numbers = self.scale_and_zero[:, :rows].permute((1, 0, 2)).to(float32)
        return (wide * numbers[..., :1] + numbers[..., 1:]).reshape((rows, columns)).to(self.dtype)

    def product(self, x: Tensor) -> Tensor:
        """Compute ``x @ weight.T`` with the int4 matmul of the packed layout."""
        multiply = ops._weight_int4pack_mm if self.packed.dtype is int32 else ops._weight_int4pack_mm_for_cpu
        made = multiply(x.contiguous(), self.packed, self.group_size, self.scale_and_zero)
        rows = self.matrix_shape[0]
        return made if made.shape[1] == rows else made[:, :rows].contiguous()
