"""Weights in MX formats and NVFP4: blocks along the rows, each with a scale."""

from __future__ import annotations

from typing import Self

from ..dispatch.generated import functions as ops
from ..dispatch.structured.meta.block_scales import scale_count
from ..dispatch.tensor import Tensor
from ..runtime.scalar_type import dtype as ScalarType
from ..runtime.scalar_type import float4_e2m1fn_x2, float8_e4m3fn, float8_e8m0fnu, float32
from .block_formats import (
    LARGEST,
    MX_BLOCK,
    NV_BLOCK,
    PACKED,
    ScaleCalculationMode,
    from_blocked,
    from_packed,
    nvfp4_scale,
    to_blocked,
    to_mx,
    to_nvfp4,
)
from .quantized_tensor import QuantizedTensor, check_part, check_weight, savable

BY_16, WHOLE = 2, 0
SWIZZLED, PLAIN = 1, 0
"""Values of `tt.nn.functional.ScalingType` and `SwizzleType`."""


def dequantized_blocks(qdata: Tensor, scale: Tensor, block: int) -> Tensor:
    """Dequantize a matrix (N, K) to float32; `scale` is in cuBLAS's blocked layout."""
    numbers = from_packed(qdata) if qdata.dtype is PACKED else qdata.to(float32)
    rows, columns = numbers.shape
    factors = from_blocked(scale, rows, columns // block).to(float32)
    return (numbers.reshape(rows, -1, block) * factors.unsqueeze(-1)).reshape(rows, columns)


def check_columns(name: str, columns: int, block: int) -> None:
    """Check that rows consist of whole blocks.

    Raises:
        ValueError: `block` does not divide `columns`.
    """
    if columns % block:
        raise ValueError(f"{name}: expected a number of columns that {block} divides, got {columns}")


@savable
class MXTensor(QuantizedTensor):
    """Matrix of 8-bit or 4-bit floats; blocks of 32 along a row share a power-of-two scale (`torchao`'s ``MXTensor``).

    A matmul quantizes activations to the same format, with new scales in each call (`_scaled_mm`). On CUDA that needs
    compute capability 10.0 or later, and a weight whose number of rows and whose bytes per row are multiples of 16.
    Without an activation dtype, the matmul uses the dequantized weight.

    Attributes:
        qdata: The numbers, float8_e4m3fn or float8_e5m2 and (N, K), or float4_e2m1fn_x2 and (N, K / 2).
        scale: float8_e8m0fnu, of one dimension, in the layout that `to_blocked` makes.
        activation_dtype: The dtype of quantized activations, of as many bits as `qdata`; None leaves them unquantized.
        scaling_mode: The rounding of the activations' scales.
    """

    PARTS = ("qdata", "scale")
    SETTINGS = ("activation_dtype", "scaling_mode")

    qdata: Tensor
    scale: Tensor
    activation_dtype: ScalarType | None
    scaling_mode: str

    @classmethod
    def from_float(
        cls,
        weight: Tensor,
        elem_dtype: ScalarType = float8_e4m3fn,
        activation_dtype: ScalarType | None = None,
        scaling_mode: ScaleCalculationMode = ScaleCalculationMode.FLOOR,
    ) -> Self:
        """Round a weight to the nearest numbers of the format, with the scales of `to_mx`.

        Args:
            weight: A matrix (N, K) of float32, float16 or bfloat16; 32 divides K.
            elem_dtype: float8_e4m3fn, float8_e5m2 or float4_e2m1fn_x2.
            activation_dtype: The dtype of quantized activations; None leaves them unquantized.
            scaling_mode: The rounding of a block's scale to a power of two.

        Raises:
            ValueError: `weight` is of another shape or dtype, or an option is not one of these.

        Example:
            >>> import triten as tt
            >>> weight = tt.quantization.MXTensor.from_float(tt.full((1, 32), 0.3))
            >>> weight.qdata[0, 0].item(), weight.dequantize()[0, 0]
            (320.0, tensor(0.3125))
        """
        check_weight("MXTensor", weight)
        check_columns("MXTensor", weight.shape[1], MX_BLOCK)
        scale, numbers = to_mx(weight.detach(), elem_dtype, MX_BLOCK, scaling_mode)
        parts = numbers, to_blocked(scale)
        return cls.of_parts(weight.shape, weight.dtype, parts, (activation_dtype, scaling_mode.value))

    def check_parts(self, rows: int, columns: int) -> None:
        """Check `qdata` (N, K), or (N, K / 2) if packed, the blocked scales and the options.

        Raises:
            ValueError: A part has another dtype or shape, or an option is invalid.
        """
        check_columns("MXTensor", columns, MX_BLOCK)
        packed = isinstance(self.qdata, Tensor) and self.qdata.dtype is PACKED
        check_part(
            "MXTensor", "qdata", self.qdata, tuple(LARGEST), (rows, columns // 2 if packed else columns)
        )
        check_part(
            "MXTensor", "scale", self.scale, (float8_e8m0fnu,), (scale_count(rows, columns, MX_BLOCK),)
        )
        if self.activation_dtype is not None and (
            self.activation_dtype not in LARGEST or (self.activation_dtype is PACKED) is not packed
        ):
            fitting = [str(d) for d in LARGEST if (d is PACKED) is packed]
            raise ValueError(
                f"MXTensor: expected `activation_dtype` of {' or '.join(fitting)}, or None, beside a weight of "
                f"{self.qdata.dtype}, got {self.activation_dtype!r:.100}"
            )
        if self.scaling_mode not in [mode.value for mode in ScaleCalculationMode]:
            raise ValueError(
                f"MXTensor: expected `scaling_mode` floor or rceil, got {self.scaling_mode!r:.100}"
            )

    def dequantized(self) -> Tensor:
        """Multiply by the scales in float32 and round once to `dtype`."""
        return dequantized_blocks(self.qdata, self.scale, MX_BLOCK).to(self.dtype)

    def product(self, x: Tensor) -> Tensor:
        """Compute ``x @ weight.T``, block-scaled with quantized activations, else with the dequantized weight."""
        if not self.quantizes_activations:
            return ops.mm(x, self.dequantized().t())
        made = self.quantized_activations(x)
        return ops._scaled_mm(made.qdata, self.qdata.t(), made.scale, self.scale, out_dtype=x.dtype)

    @property
    def quantizes_activations(self) -> bool:
        """True if matmuls quantize activations."""
        return self.activation_dtype is not None

    def quantized_activations(self, x: Tensor) -> MXTensor:
        """Quantize activations (M, K) to `activation_dtype`."""
        assert self.activation_dtype is not None
        return MXTensor.from_float(x, self.activation_dtype, None, ScaleCalculationMode(self.scaling_mode))


@savable
class NVFP4Tensor(QuantizedTensor):
    """Matrix of 4-bit floats; blocks of 16 along a row share a float8_e4m3fn scale (`torchao`'s ``NVFP4Tensor``).

    Attributes:
        qdata: The numbers, float4_e2m1fn_x2, of shape (N, K / 2).
        scale: float8_e4m3fn, of one dimension, in the layout that `to_blocked` makes.
        per_tensor_scale: The scale of the block scales, float32 of shape ( ); 1 if block scales suffice.
        dynamic: If True, matmuls quantize activations to NVFP4 (`_scaled_mm_v2`, as with `MXTensor`).
        two_levels: If True, quantized activations also have a per-tensor scale.
    """

    PARTS = ("qdata", "scale", "per_tensor_scale")
    SETTINGS = ("dynamic", "two_levels")

    qdata: Tensor
    scale: Tensor
    per_tensor_scale: Tensor
    dynamic: bool
    two_levels: bool

    @classmethod
    def from_float(cls, weight: Tensor, dynamic: bool = False, two_levels: bool = True) -> Self:
        """Round a weight to the nearest numbers of the format, with the scales of `to_nvfp4`.

        Args:
            weight: A matrix (N, K) of float32, float16 or bfloat16; 16 divides K.
            dynamic: If True, matmuls quantize activations to NVFP4. Default: False.
            two_levels: If True, use a float32 per-tensor scale, so that block scales use the whole range of their
                dtype. Default: True.

        Raises:
            ValueError: `weight` is of another shape or dtype.

        Example:
            >>> import triten as tt
            >>> weight = tt.quantization.NVFP4Tensor.from_float(tt.full((1, 16), 0.3))
            >>> weight.scale.float()[0], weight.dequantize()[0, 0]
            (tensor(448.), tensor(0.3000))
        """
        check_weight("NVFP4Tensor", weight)
        check_columns("NVFP4Tensor", weight.shape[1], NV_BLOCK)
        data = weight.detach()
        whole = nvfp4_scale(data) if two_levels else ops.ones((), dtype=float32, device=data.device)
        scale, numbers = to_nvfp4(data, whole)
        parts = numbers, to_blocked(scale), whole
        return cls.of_parts(weight.shape, weight.dtype, parts, (dynamic, two_levels))

    def check_parts(self, rows: int, columns: int) -> None:
        """Check `qdata` (N, K / 2), the blocked scales, the per-tensor scale and the options.

        Raises:
            ValueError: A part has another dtype or shape, or an option is not a bool.
        """
        check_columns("NVFP4Tensor", columns, NV_BLOCK)
        check_part("NVFP4Tensor", "qdata", self.qdata, (float4_e2m1fn_x2,), (rows, columns // 2))
        count = scale_count(rows, columns, NV_BLOCK)
        check_part("NVFP4Tensor", "scale", self.scale, (float8_e4m3fn,), (count,))
        check_part("NVFP4Tensor", "per_tensor_scale", self.per_tensor_scale, (float32,), ())
        for name in self.SETTINGS:
            if not isinstance(getattr(self, name), bool):
                raise ValueError(
                    f"NVFP4Tensor: expected `{name}` to be a bool, got {getattr(self, name)!r:.100}"
                )

    def dequantized(self) -> Tensor:
        """Multiply by both scales in float32 and round to `dtype`."""
        made = dequantized_blocks(self.qdata, self.scale, NV_BLOCK) * self.per_tensor_scale
        return made.to(self.dtype)

    def product(self, x: Tensor) -> Tensor:
        """Compute ``x @ weight.T``, block-scaled with quantized activations, else with the dequantized weight."""
        if not self.quantizes_activations:
            return ops.mm(x, self.dequantized().t())
        made = self.quantized_activations(x)
        recipe, swizzle = [BY_16, WHOLE], [SWIZZLED, PLAIN]
        scales = [[each.scale, each.per_tensor_scale] for each in (made, self)]
        return ops._scaled_mm_v2(
            made.qdata, self.qdata.t(), scales[0], recipe, swizzle, scales[1], recipe, swizzle, None, x.dtype
        )

    @property
    def quantizes_activations(self) -> bool:
        """True if matmuls quantize activations."""
        return self.dynamic

    def quantized_activations(self, x: Tensor) -> NVFP4Tensor:
        """Quantize activations (M, K) to NVFP4."""
        return NVFP4Tensor.from_float(x, two_levels=self.two_levels)
