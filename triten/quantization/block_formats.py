"""Block-scaled formats, MX and NVFP4, and the layout of scales for matmuls.

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
"""Block sizes: the number of elements of a row that share a scale."""
LARGEST = {float8_e4m3fn: 448.0, float8_e5m2: 57344.0, float4_e2m1fn_x2: 6.0}
"""The largest number of each element format."""
LARGEST_EXPONENT = {float8_e4m3fn: 8, float8_e5m2: 15, float4_e2m1fn_x2: 2}
MIN_SCALE = 2.0**-6
"""The smallest normal number of float8_e4m3fn, the lower bound of NVFP4's block scales."""
PACKED = float4_e2m1fn_x2


class ScaleCalculationMode(Enum):
    """Rounding of a block's power-of-two scale (`torchao.prototype.mx_formats.ScaleCalculationMode`).

    FLOOR is the mode of the MX specification: the largest power of two in the block over that of the format. Elements
    beyond the format's largest number saturate. RCEIL is the smallest power of two with which no element saturates.
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
    """Quantize a tensor to an MX format (`torchao.prototype.mx_formats.mx_tensor.to_mx`).

    Args:
        data_hp: A floating-point tensor of any shape; blocks are along the last dimension.
        elem_dtype: float8_e4m3fn, float8_e5m2, or float4_e2m1fn_x2.
        block_size: 32.
        scaling_mode: The rounding of a block's scale, derived from its largest magnitude.

    Returns:
        The scales and the elements. The scales are float8_e8m0fnu and of `data_hp`'s shape with its last size divided
        by 32. The elements have `data_hp`'s shape, for float4_e2m1fn_x2 with its last size halved. A block with an
        infinity or a NaN has the scale NaN.

    Raises:
        ValueError: 32 does not divide the last size, `data_hp` is not floating-point, or `elem_dtype` or `block_size`
            is not supported.

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
    """Quantize a tensor to NVFP4: 4-bit floats in blocks of 16 with 8-bit scales (`torchao`'s ``nvfp4_quantize``).

    Args:
        data_hp: A floating-point tensor of any shape; blocks are along the last dimension.
        per_tensor_scale: The float32 scale of all block scales, as from `nvfp4_scale`. Default: none.

    Returns:
        The scales and the elements. The scales are float8_e4m3fn and of `data_hp`'s shape with its last size divided by
        16. The elements are float4_e2m1fn_x2, with its last size halved. A block with an infinity or a NaN has the
        scale NaN.

    Raises:
        ValueError: 16 does not divide the last size, or `data_hp` is not floating-point.

    Example:
        >>> import triten as tt
        >>> scale, numbers = tt.quantization.to_nvfp4(tt.full((1, 16), 3.0))
        >>> scale.item(), numbers.view(tt.uint8)[0, 0].item()
        (0.5, 119)
    """
    blocks = in_blocks("to_nvfp4()", data_hp, NV_BLOCK)
    largest = blocks.abs().amax(-1)
    ideal_scale = largest / LARGEST[PACKED]
    if per_tensor_scale is not None:
        ideal_scale = ideal_scale / per_tensor_scale
    finite = largest.isfinite()
    scale = ops.where(finite, ideal_scale.clamp(MIN_SCALE, LARGEST[float8_e4m3fn]), float("nan")).to(
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
    """Convert to float32 and split the last dimension into blocks.

    Raises:
        ValueError: `size` does not divide the last size, or the tensor is not floating-point.
    """
    if not data_hp.dim() or data_hp.shape[-1] % size or not data_hp.dtype.is_floating_point:
        raise ValueError(
            f"{name}: expected floats whose last size {size} divides, got {data_hp.dtype} of shape "
            f"{list(data_hp.shape)}"
        )
    return data_hp.to(float32).reshape(*data_hp.shape[:-1], data_hp.shape[-1] // size, size)


def elements(scaled: Tensor, elem_dtype: ScalarType, shape: Sequence[int]) -> Tensor:
    """Round scaled blocks to a format, to nearest even with saturation, and reshape them to `shape`."""
    largest = LARGEST[elem_dtype]
    held = scaled.clamp(-largest, largest).reshape(shape)
    return to_packed(held) if elem_dtype is PACKED else held.to(elem_dtype)


def to_packed(x: Tensor) -> Tensor:
    """Pack numbers as float4_e2m1fn_x2, two in a byte, the first in the low bits.

    The format has no NaN; a NaN becomes 0.
    """
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
    """Unpack float4_e2m1fn_x2 to float32; the last size doubles."""
    codes = x.view(uint8)
    pairs = ops.stack([ops.bitwise_and(codes, 15), ops.bitwise_right_shift(codes, 4)], -1)
    code = pairs.reshape(*codes.shape[:-1], 2 * codes.shape[-1]).to(float32)
    negative = code >= 8
    code = ops.where(negative, code - 8, code)
    magnitude = ops.where(code < 4, code / 2, ops.where(code < 6, code - 2, 2 * code - 8))
    return ops.where(negative, -magnitude, magnitude)
