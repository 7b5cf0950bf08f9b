"""Weights of 8-bit floats, with a scale for each row or one for all."""

from __future__ import annotations

from typing import Self

from ..dispatch.generated import functions as ops
from ..dispatch.tensor import Tensor
from ..runtime.scalar_type import dtype as ScalarType
from ..runtime.scalar_type import float8_e4m3fn, float8_e5m2, float32
from .quantized_tensor import QuantizedTensor, check_part, check_weight, savable

LARGEST = {float8_e4m3fn: 448.0, float8_e5m2: 57344.0}
"""The largest finite number of each format."""
MIN_MAGNITUDE = 1e-12
"""The lower bound of the magnitude that determines a scale, so that zeros have a positive scale."""
ACTIVATIONS = ("none", "tensor", "row")


def quantize_float8(x: Tensor, dtype: ScalarType, by_row: bool) -> tuple[Tensor, Tensor]:
    """Quantize a matrix to 8-bit floats; the scales map the largest magnitude to the format's maximum.

    A NaN stays NaN. An infinity makes its scale infinite, the finite elements of that scale 0, and matmuls NaN.

    Args:
        x: A matrix (M, K).
        dtype: float8_e4m3fn or float8_e5m2.
        by_row: If True, each row has its own scale.

    Returns:
        The 8-bit floats (M, K) and the float32 scales, (M, 1) by row, else ( ).
    """
    wide = x.to(float32)
    magnitude = wide.abs()
    if not wide.numel():
        largest = wide.new_zeros((wide.shape[0], 1) if by_row else ())
    else:
        largest = magnitude.amax(1, keepdim=True) if by_row else magnitude.amax()
    scale = ops.clamp(largest, min=MIN_MAGNITUDE) / LARGEST[dtype]
    return (wide / scale).clamp(-LARGEST[dtype], LARGEST[dtype]).to(dtype), scale


@savable
class Float8Tensor(QuantizedTensor):
    """Matrix of 8-bit floats with a scale for each row, or a single scale.

    A matmul either uses activations unchanged (`_weight_int8pack_mm`), or quantizes them to 8-bit floats, by row or
    by tensor (`_scaled_mm`). On CUDA the latter needs compute capability 8.9 or later, and rows and columns of the
    weight that are multiples of 16.

    Attributes:
        float8_data: The numbers, float8_e4m3fn or float8_e5m2, of shape (N, K).
        scale: The scales, float32 of shape (N,), or a single scale of shape ( ).
        activations: "none", or the part of activations that shares a scale: "tensor" or "row".
        activation_dtype: The 8-bit dtype of quantized activations.
    """

    PARTS = ("float8_data", "scale")
    SETTINGS = ("activations", "activation_dtype")

    float8_data: Tensor
    scale: Tensor
    activations: str
    activation_dtype: ScalarType

    @classmethod
    def from_float(
        cls,
        weight: Tensor,
        dtype: ScalarType = float8_e4m3fn,
        by_row: bool = True,
        activations: str = "none",
        activation_dtype: ScalarType = float8_e4m3fn,
    ) -> Self:
        """Round a weight to the nearest 8-bit floats; the largest magnitude maps to the format's maximum.

        Args:
            weight: A matrix (N, K) of float32, float16 or bfloat16.
            dtype: float8_e4m3fn or float8_e5m2.
            by_row: If True, each row has a scale. Default: True.
            activations: "none", or "tensor" or "row" to quantize activations in matmuls with a scale for each.
            activation_dtype: The dtype of quantized activations.

        Raises:
            ValueError: `weight` is of another dtype or number of dimensions, or an option is not one of these.

        Example:
            >>> import triten as tt
            >>> weight = tt.quantization.Float8Tensor.from_float(tt.tensor([[0.5, -1.0]]))
            >>> weight.float8_data.float(), weight.scale
            (tensor([[ 224., -448.]]), tensor([0.0022]))
        """
        check_weight("Float8Tensor", weight)
        if dtype not in LARGEST:
            raise ValueError(f"Float8Tensor: expected a dtype of {', '.join(map(str, LARGEST))}, got {dtype}")
        numbers, scale = quantize_float8(weight.detach(), dtype, by_row)
        scale = scale.reshape(-1) if by_row else scale
        return cls.of_parts(weight.shape, weight.dtype, (numbers, scale), (activations, activation_dtype))

    def check_parts(self, rows: int, columns: int) -> None:
        """Check the 8-bit floats (N, K), the float32 scales (N,) or ( ), and the options.

        Raises:
            ValueError: A part has another dtype or shape, or an option is invalid.
        """
        check_part("Float8Tensor", "float8_data", self.float8_data, tuple(LARGEST), (rows, columns))
        shape = () if isinstance(self.scale, Tensor) and self.scale.dim() == 0 else (rows,)
        check_part("Float8Tensor", "scale", self.scale, (float32,), shape)
        if self.activations not in ACTIVATIONS:
            raise ValueError(
                f"Float8Tensor: expected `activations` to be one of {ACTIVATIONS}, got {self.activations!r:.100}"
            )
        if self.activation_dtype not in LARGEST:
            raise ValueError(
                f"Float8Tensor: expected `activation_dtype` of {', '.join(map(str, LARGEST))}, got "
                f"{self.activation_dtype!r:.100}"
            )
        if self.activations == "row" and not shape:
            raise ValueError("Float8Tensor: rows of activations have scales only with rows of the weight")

    def dequantized(self) -> Tensor:
        """Multiply by the scales in float32 and round once to `dtype`."""
        scale = self.scale[:, None] if self.scale.dim() else self.scale
        return (self.float8_data.to(float32) * scale).to(self.dtype)

    def product(self, x: Tensor) -> Tensor:
        """Compute ``x @ weight.T`` with activations as they are, or quantized to 8-bit floats."""
        if self.activations == "none":
            scale = self.scale if self.scale.dim() else self.scale.expand(self.float8_data.shape[0])
            return ops._weight_int8pack_mm(x.contiguous(), self.float8_data, scale.contiguous())
        by_row = self.activations == "row"
        numbers, scale_a = quantize_float8(x, self.activation_dtype, by_row)
        scale_b = self.scale
        if self.scale.dim() and not by_row:
            scale_a = scale_a.expand(x.shape[0], 1).contiguous()
        if self.scale.dim():
            scale_b = self.scale[None]
        return ops._scaled_mm(
            numbers, self.float8_data.t(), scale_a, scale_b, out_dtype=x.dtype, use_fast_accum=True
        )
