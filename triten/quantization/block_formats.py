"""Numbers in blocks with a scale each: MX formats and NVFP4, and the layout in which products take the scales.

Source: OCP Microscaling Formats (MX), version 1.0, section 6.3; NVIDIA, "Introducing NVFP4" (2025); cuBLAS, "1D Block
Scaling Factors Layout"; names are torchao's (`torchao.prototype.mx_formats`).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from ..dispatch.generated import functions as ops
from ..dispatch.structured.meta.block_scales import BLOCKS, LINES, rounded_up
from ..dispatch.tensor import Tensor
from ..runtime.scalar_type import dtype as ScalarType
from ..runtime.scalar_type import (
    float4_e2m1fn_x2,
    float8_e4m3fn,
    float8_e5m2,
    float8_e8m0fnu,
    float32,
    int32,
    uint8,
)

MX_BLOCK, NV_BLOCK = 32, 16
"""Numbers of a row that share a scale."""
LARGEST = {float8_e4m3fn: 448.0, float8_e5m2: 57344.0, float4_e2m1fn_x2: 6.0}
"""The largest number of each format of elements."""
LARGEST_EXPONENT = {float8_e4m3fn: 8, float8_e5m2: 15, float4_e2m1fn_x2: 2}
LEAST_SCALE = 2.0**-6
"""The least normal number of float8_e4m3fn, which scales of NVFP4 do not fall below."""
PACKED = float4_e2m1fn_x2


class ScaleCalculationMode(Enum):
    """Which power of two scales a block (`torchao.prototype.mx_formats.ScaleCalculationMode`).

    FLOOR is that of the MX specification: the largest power in the block over the format's; what is larger than the
    format's largest number then saturates. RCEIL is the least power with which nothing does.
    """

    FLOOR = "floor"
    RCEIL = "rceil"


def to_blocked(scales: Tensor) -> Tensor:
    """Rearrange scales into cuBLAS's blocked layout for matmuls (`torchao.prototype.mx_formats.utils.to_blocked`).

    A tile of 128 lines by 4 blocks occupies 512 bytes: four scales of each of the lines 0, 32, 64 and 96, then those
    of the next lines. Incomplete tiles are padded with the byte 0.

    Args:
        scales: One scale for each line and block, of shape (lines, blocks) and a dtype of one byte.

    Returns:
        The same scales, of one dimension and lines rounded up to 128 times blocks rounded up to 4 elements.

    Raises:
        ValueError: `scales` is no matrix, or of a dtype of more bytes.

    Example:
        >>> import triten as tt
        >>> scales = tt.arange(64 * 4).to(tt.uint8).reshape(64, 4)
        >>> tt.quantization.to_blocked(scales)[:8]
        tensor([  0,   1,   2,   3, 128, 129, 130, 131], dtype=triten.uint8)
    """
    if scales.dim() != 2 or scales.dtype.itemsize != 1:
        raise ValueError(
            f"to_blocked(): expected a matrix of a dtype of one byte, got {scales.dim()} dimensions of {scales.dtype}"
        )
    lines, blocks = scales.shape
    high, wide = rounded_up(lines, LINES), rounded_up(blocks, BLOCKS)
    whole = ops.zeros(high, wide, dtype=uint8, device=scales.device)
    whole[:lines, :blocks] = scales.view(uint8)
    tiles = whole.view(high // LINES, LINES // 32, 32, wide // BLOCKS, BLOCKS).permute(0, 3, 2, 1, 4)
    return tiles.reshape(-1).view(scales.dtype)


def from_blocked(scales: Tensor, lines: int, blocks: int) -> Tensor:
    """Invert `to_blocked` for scales of shape (lines, blocks).

    Args:
        scales: The scales in the layout of cuBLAS.
        lines: The number of lines.
        blocks: The number of blocks in each line.

    Returns:
        A matrix (lines, blocks).

    Raises:
        RuntimeError: `scales` has another number of elements.

    Example:
        >>> import triten as tt
        >>> scales = tt.arange(6).to(tt.uint8).reshape(2, 3)
        >>> tt.quantization.from_blocked(tt.quantization.to_blocked(scales), 2, 3)
        tensor([[0, 1, 2],
                [3, 4, 5]], dtype=triten.uint8)
    """
    high, wide = rounded_up(lines, LINES), rounded_up(blocks, BLOCKS)
    tiles = scales.view(uint8).reshape(high // LINES, wide // BLOCKS, 32, LINES // 32, BLOCKS)
    whole = tiles.permute(0, 3, 2, 1, 4).reshape(high, wide)
    return whole[:lines, :blocks].contiguous().view(scales.dtype)


def to_mx(
    data_hp: Tensor,
    elem_dtype: ScalarType,
    block_size: int = MX_BLOCK,
    scaling_mode: ScaleCalculationMode = ScaleCalculationMode.FLOOR,
) -> tuple[Tensor, Tensor]:
    """Numbers of an MX format and their scales (`torchao.prototype.mx_formats.mx_tensor.to_mx`).

    Args:
        data_hp: Floats of any number of dimensions; blocks lie along the last one.
        elem_dtype: float8_e4m3fn, float8_e5m2, or float4_e2m1fn_x2.
        block_size: 32.
        scaling_mode: The rounding of a block's scale, derived from its largest magnitude.

    Returns:
        The scales, float8_e8m0fnu, of `data_hp`'s shape with a 32nd of its last size; and the numbers, of its shape, or
        with half of its last size for float4_e2m1fn_x2. A block with an infinity or a NaN has the scale NaN.

    Raises:
        ValueError: 32 does not divide the last size, or an argument is not one of these.

    Example:
        >>> import triten as tt
        >>> scale, numbers = tt.quantization.to_mx(tt.full((1, 32), 3.0), tt.float8_e4m3fn)
        >>> scale.item(), numbers[0, 0].item()
        (0.0078125, 384.0)
    """
    if elem_dtype not in LARGEST:
        raise ValueError(f"to_mx(): expected elem_dtype of {', '.join(map(str, LARGEST))}, got {elem_dtype}")
    if block_size != MX_BLOCK:
        raise ValueError(f"to_mx(): expected block_size={MX_BLOCK}, which MX formats have, got {block_size}")
    blocks = in_blocks("to_mx()", data_hp, MX_BLOCK)
    largest = blocks.abs().amax(-1)
    if scaling_mode is ScaleCalculationMode.RCEIL:
        # Round up to a power of two by adding to the bits of the mantissa.
        bits = (largest / LARGEST[elem_dtype]).view(int32)
        exponent = ops.bitwise_right_shift(bits, 23)
        mantissa = ops.bitwise_and(bits, 0x7FFFFF)
        code = exponent + (mantissa > ops.where(exponent == 0, 0x400000, 0)).to(int32)
    else:
        exponent = ops.bitwise_right_shift(largest.view(int32), 23)
        code = exponent - LARGEST_EXPONENT[elem_dtype]
    code = ops.where(exponent == 255, 255, code.clamp(0, 254))
    scale = code.to(uint8).view(float8_e8m0fnu)
    scaled = blocks / scale.to(float32).unsqueeze(-1)
    return scale, elements(scaled, elem_dtype, data_hp.shape)


def to_nvfp4(data_hp: Tensor, per_tensor_scale: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Numbers of 4 bits in blocks of 16 with scales of 8 bits (`torchao`'s ``nvfp4_quantize``).

    Args:
        data_hp: Floats of any number of dimensions; blocks lie along the last one.
        per_tensor_scale: A float32 number that scales all, as `nvfp4_scale` makes it, beside the scales of blocks.

    Returns:
        The scales, float8_e4m3fn, of `data_hp`'s shape with a 16th of its last size; and the numbers,
        float4_e2m1fn_x2, with half of it. A block with an infinity or a NaN has the scale NaN.

    Raises:
        ValueError: 16 does not divide the last size.

    Example:
        >>> import triten as tt
        >>> scale, numbers = tt.quantization.to_nvfp4(tt.full((1, 16), 3.0))
        >>> scale.item(), numbers.view(tt.uint8)[0, 0].item()
        (0.5, 119)
    """
    blocks = in_blocks("to_nvfp4()", data_hp, NV_BLOCK)
    largest = blocks.abs().amax(-1)
    wanted = largest / LARGEST[PACKED]
    if per_tensor_scale is not None:
        wanted = wanted / per_tensor_scale
    finite = largest.isfinite()
    scale = ops.where(finite, wanted.clamp(LEAST_SCALE, LARGEST[float8_e4m3fn]), float("nan")).to(
        float8_e4m3fn
    )
    whole = scale.to(float32)
    if per_tensor_scale is not None:
        whole = whole * per_tensor_scale
    return scale, elements(blocks / whole.unsqueeze(-1), PACKED, data_hp.shape)


def nvfp4_scale(data_hp: Tensor) -> Tensor:
    """Return the per-tensor float32 scale that maps block scales onto float8_e4m3fn's range; 1 for zeros."""
    if not data_hp.numel():
        return ops.ones((), dtype=float32, device=data_hp.device)
    scale = data_hp.abs().amax().to(float32) / (LARGEST[float8_e4m3fn] * LARGEST[PACKED])
    return ops.where((scale > 0) & scale.isfinite(), scale, 1.0)


def in_blocks(name: str, data_hp: Tensor, size: int) -> Tensor:
    """float32, the last dimension in blocks. Raises ValueError where they do not divide it."""
    if not data_hp.dim() or data_hp.shape[-1] % size or not data_hp.dtype.is_floating_point:
        raise ValueError(
            f"{name}: expected floats whose last size {size} divides, got {data_hp.dtype} of shape "
            f"{list(data_hp.shape)}"
        )
    return data_hp.to(float32).reshape(*data_hp.shape[:-1], data_hp.shape[-1] // size, size)


def elements(scaled: Tensor, elem_dtype: ScalarType, shape: Sequence[int]) -> Tensor:
    """Numbers of a format, nearest and even, the largest one where they are beyond it, for an operand of a shape."""
    largest = LARGEST[elem_dtype]
    held = scaled.clamp(-largest, largest).reshape(shape)
    return to_packed(held) if elem_dtype is PACKED else held.to(elem_dtype)


def to_packed(x: Tensor) -> Tensor:
    """Numbers of 4 bits, two in a byte, the first in the low bits; NaN, which the format lacks, becomes 0."""
    magnitude = x.abs()
    # Representable values are 1/2 apart below 2, 1 apart below 4, then 2 apart; consecutive values have consecutive
    # codes.
    code = ops.where(
        magnitude < 2,
        (magnitude * 2).round(),
        ops.where(magnitude < 4, magnitude.round() + 2, (magnitude / 2).round() + 4),
    )
    code = ops.where(x.isnan(), 0.0, code + x.signbit().to(float32) * 8).to(uint8)
    pairs = code.reshape(*code.shape[:-1], code.shape[-1] // 2, 2)
    packed = ops.bitwise_or(pairs[..., 0], ops.bitwise_left_shift(pairs[..., 1], 4))
    return packed.view(PACKED)


def from_packed(x: Tensor) -> Tensor:
    """float32, twice as many along the last dimension."""
    codes = x.view(uint8)
    pairs = ops.stack([ops.bitwise_and(codes, 15), ops.bitwise_right_shift(codes, 4)], -1)
    code = pairs.reshape(*codes.shape[:-1], 2 * codes.shape[-1]).to(float32)
    negative = code >= 8
    code = ops.where(negative, code - 8, code)
    magnitude = ops.where(code < 4, code / 2, ops.where(code < 6, code - 2, 2 * code - 8))
    return ops.where(negative, -magnitude, magnitude)
