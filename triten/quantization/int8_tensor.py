"""Weights of 8-bit integers, with a scale for each row."""

from __future__ import annotations

from typing import Self

from ..dispatch.generated import functions as ops
from ..dispatch.tensor import Tensor
from ..runtime.scalar_type import bfloat16, float16, float32, int8
from .quantized_tensor import QuantizedTensor, check_part, check_weight, savable


def quantize_rows(x: Tensor, low: int, divisor: float) -> tuple[Tensor, Tensor]:
    """Quantize each row to integers from `low` to 127; the float32 scale is the row's largest magnitude over `divisor`.

    A row with an infinity or a NaN becomes zeros with a scale that is not finite.
    """
    return ops._quantize_rows(x if x.dtype in (float16, bfloat16) else x.to(float32), low, divisor)


@savable
class Int8Tensor(QuantizedTensor):
    """Matrix of 8-bit integers with a scale for each row.

    A matmul uses activations unchanged (`_weight_int8pack_mm`). If `dynamic`, it quantizes each row of activations to
    8-bit integers and accumulates in int32 (`_int_mm`). A row's largest magnitude maps to 127 then. A row with an
    infinity or a NaN gives NaN.

    Attributes:
        int_data: The integers, int8, of shape (N, K).
        scale: The scales of the rows, float32 of shape (N,).
        dynamic: If True, activations are quantized.
    """

    PARTS = ("int_data", "scale")
    SETTINGS = ("dynamic",)

    int_data: Tensor
    scale: Tensor
    dynamic: bool

    @classmethod
    def from_float(cls, weight: Tensor, dynamic: bool = False) -> Self:
        """Round a weight to integers from -128 to 127; a row's largest magnitude maps to 127.5.

        Args:
            weight: A matrix (N, K) of float32, float16 or bfloat16.
            dynamic: If True, matmuls quantize activations. Default: False.

        Raises:
            ValueError: `weight` is of another dtype or number of dimensions.

        Source: torchao, symmetric quantization by channels.

        Example:
            >>> import triten as tt
            >>> weight = tt.quantization.Int8Tensor.from_float(tt.tensor([[0.5, -1.0]]))
            >>> weight.int_data, weight.scale
            (tensor([[  64, -127]], dtype=triten.int8), tensor([0.0078]))
        """
        check_weight("Int8Tensor", weight)
        integers, scale = quantize_rows(weight.detach(), -128, 127.5)
        return cls.of_parts(weight.shape, weight.dtype, (integers, scale), (dynamic,))

    def check_parts(self, rows: int, columns: int) -> None:
        """Check the int8 integers (N, K), the float32 scales (N,) and `dynamic`.

        Raises:
            ValueError: A part has another dtype or shape, or `dynamic` is not a bool.
        """
        check_part("Int8Tensor", "int_data", self.int_data, (int8,), (rows, columns))
        check_part("Int8Tensor", "scale", self.scale, (float32,), (rows,))
        if not isinstance(self.dynamic, bool):
            raise ValueError(
                f"Int8Tensor: expected `dynamic` to be a bool, got {type(self.dynamic).__name__}"
            )

    def dequantized(self) -> Tensor:
        """Multiply by the scales in float32 and round once to `dtype`."""
        return (self.int_data.to(float32) * self.scale[:, None]).to(self.dtype)

    def product(self, x: Tensor) -> Tensor:
        """Compute ``x @ weight.T`` with activations as they are, or quantized to int8 with int32 accumulation.

        The matmul's epilogue applies the scales.
        """
        if not self.dynamic:
            return ops._weight_int8pack_mm(x.contiguous(), self.int_data, self.scale)
        integers, scale = quantize_rows(x, -127, 127.0)
        return ops._scaled_int_mm(integers, self.int_data.t(), scale, self.scale.contiguous(), x.dtype)
