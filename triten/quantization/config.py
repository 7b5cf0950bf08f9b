"""How a model's weights are quantized (torchao's configurations, by its names)."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..dispatch.tensor import Tensor
from ..runtime.scalar_type import dtype as ScalarType
from ..runtime.scalar_type import float8_e4m3fn
from .block_formats import LARGEST as MX_LARGEST
from .block_formats import MX_BLOCK, PACKED, ScaleCalculationMode
from .block_tensors import MXTensor, NVFP4Tensor
from .float8_tensor import LARGEST, Float8Tensor
from .int4_tensor import GROUP_SIZES, Int4Tensor
from .int8_tensor import Int8Tensor
from .quantized_tensor import QuantizedTensor


@dataclass(frozen=True)
class PerTensor:
    """One scale for all of a tensor (`torchao.quantization.PerTensor`)."""


@dataclass(frozen=True)
class PerRow:
    """A scale for each row (`torchao.quantization.PerRow`).

    Args:
        dim: The dimension along which a row goes, the last one.

    Raises:
        ValueError: another dimension.
    """

    dim: int = -1

    def __post_init__(self) -> None:
        if self.dim != -1:
            raise ValueError(f"PerRow: expected dim=-1, got {self.dim}")


Granularity = PerTensor | PerRow


class AOBaseConfig:
    """Base class of the configurations of `quantize_`; a subclass quantizes a weight
    (`torchao.core.config.AOBaseConfig`).
    """

    def quantized(self, weight: Tensor) -> QuantizedTensor:
        """Quantize the weight of a linear layer. Every subclass overrides this method.

        Raises:
            NotImplementedError: The subclass does not override it.
        """
        raise NotImplementedError(f"{type(self).__name__} does not say what becomes of a weight")


@dataclass(frozen=True)
class Int8WeightOnlyConfig(AOBaseConfig):
    """Weights of 8-bit integers with a scale for each row (`torchao.quantization.Int8WeightOnlyConfig`)."""

    def quantized(self, weight: Tensor) -> Int8Tensor:
        """Quantize to an `Int8Tensor`."""
        return Int8Tensor.from_float(weight)


@dataclass(frozen=True)
class Int8DynamicActivationInt8WeightConfig(AOBaseConfig):
    """Weights and activations of 8-bit integers, with a scale for each row of either one
    (`torchao.quantization.Int8DynamicActivationInt8WeightConfig`).
    """

    def quantized(self, weight: Tensor) -> Int8Tensor:
        """Quantize to an `Int8Tensor` that quantizes activations."""
        return Int8Tensor.from_float(weight, dynamic=True)


@dataclass(frozen=True)
class Int4WeightOnlyConfig(AOBaseConfig):
    """Weights of 4-bit integers, with a scale and a zero for each group of columns of a row
    (`torchao.quantization.Int4WeightOnlyConfig`).

    Args:
        group_size: The number of columns in a group: 32, 64, 128 or 256.

    Raises:
        ValueError: another size.
    """

    group_size: int = 128

    def __post_init__(self) -> None:
        if self.group_size not in GROUP_SIZES:
            raise ValueError(
                f"Int4WeightOnlyConfig: expected group_size to be one of {GROUP_SIZES}, got {self.group_size}"
            )

    def quantized(self, weight: Tensor) -> Int4Tensor:
        """Quantize to an `Int4Tensor`."""
        return Int4Tensor.from_float(weight, self.group_size)


@dataclass(frozen=True)
class Float8WeightOnlyConfig(AOBaseConfig):
    """Weights of 8-bit floats with a scale for each row (`torchao.quantization.Float8WeightOnlyConfig`).

    Args:
        weight_dtype: float8_e4m3fn or float8_e5m2.

    Raises:
        ValueError: another dtype.
    """

    weight_dtype: ScalarType = float8_e4m3fn

    def __post_init__(self) -> None:
        check_dtype("Float8WeightOnlyConfig", "weight_dtype", self.weight_dtype)

    def quantized(self, weight: Tensor) -> Float8Tensor:
        """Quantize to a `Float8Tensor`."""
        return Float8Tensor.from_float(weight, self.weight_dtype)


@dataclass(frozen=True)
class Float8DynamicActivationFloat8WeightConfig(AOBaseConfig):
    """Weights and activations of 8-bit floats (`torchao.quantization.Float8DynamicActivationFloat8WeightConfig`).

    Args:
        activation_dtype: float8_e4m3fn or float8_e5m2.
        weight_dtype: One of these.
        granularity: The granularity of scales, of activations and of the weight: `PerTensor()` or `PerRow()`.

    Raises:
        ValueError: another dtype or granularity.
    """

    activation_dtype: ScalarType = float8_e4m3fn
    weight_dtype: ScalarType = float8_e4m3fn
    granularity: Granularity = field(default_factory=PerTensor)

    def __post_init__(self) -> None:
        name = "Float8DynamicActivationFloat8WeightConfig"
        check_dtype(name, "activation_dtype", self.activation_dtype)
        check_dtype(name, "weight_dtype", self.weight_dtype)
        if not isinstance(self.granularity, PerTensor | PerRow):
            raise ValueError(
                f"{name}: expected granularity PerTensor() or PerRow(), got {self.granularity!r:.100}"
            )

    def quantized(self, weight: Tensor) -> Float8Tensor:
        """Quantize to a `Float8Tensor` that quantizes activations."""
        by_row = isinstance(self.granularity, PerRow)
        activations = "row" if by_row else "tensor"
        return Float8Tensor.from_float(weight, self.weight_dtype, by_row, activations, self.activation_dtype)


@dataclass(frozen=True)
class MXDynamicActivationMXWeightConfig(AOBaseConfig):
    """Weights and activations in an MX format (`torchao.prototype.mx_formats.MXDynamicActivationMXWeightConfig`).

    Args:
        block_size: The number of consecutive elements that share a scale, 32.
        activation_dtype: float8_e4m3fn, float8_e5m2 or float4_e2m1fn_x2; None leaves activations as they are.
        weight_dtype: One of these, of as many bits.
        scaling_mode: The rounding of a block's scale to a power of two.

    Raises:
        ValueError: another size or dtype.
    """

    block_size: int = MX_BLOCK
    activation_dtype: ScalarType | None = float8_e4m3fn
    weight_dtype: ScalarType = float8_e4m3fn
    scaling_mode: ScaleCalculationMode = ScaleCalculationMode.RCEIL

    def __post_init__(self) -> None:
        name = "MXDynamicActivationMXWeightConfig"
        if self.block_size != MX_BLOCK:
            raise ValueError(f"{name}: expected block_size={MX_BLOCK}, got {self.block_size}")
        if self.weight_dtype not in MX_LARGEST:
            raise ValueError(
                f"{name}: expected weight_dtype of {', '.join(map(str, MX_LARGEST))}, got {self.weight_dtype!r:.100}"
            )
        packed = self.weight_dtype is PACKED
        fitting = [dtype for dtype in MX_LARGEST if (dtype is PACKED) is packed]
        if self.activation_dtype is not None and self.activation_dtype not in fitting:
            raise ValueError(
                f"{name}: expected activation_dtype of {', '.join(map(str, fitting))}, or None, beside a weight of "
                f"{self.weight_dtype}, got {self.activation_dtype!r:.100}"
            )
        if not isinstance(self.scaling_mode, ScaleCalculationMode):
            raise ValueError(f"{name}: expected a ScaleCalculationMode, got {self.scaling_mode!r:.100}")

    def quantized(self, weight: Tensor) -> MXTensor:
        """Quantize to an `MXTensor`."""
        return MXTensor.from_float(weight, self.weight_dtype, self.activation_dtype, self.scaling_mode)


@dataclass(frozen=True)
class NVFP4DynamicActivationNVFP4WeightConfig(AOBaseConfig):
    """Weights and activations in NVFP4 (`torchao.prototype.mx_formats.NVFP4DynamicActivationNVFP4WeightConfig`).

    Args:
        use_dynamic_per_tensor_scale: If True, a number scales all of a tensor, beside the scales of its blocks.
            Default: True.
    """

    use_dynamic_per_tensor_scale: bool = True

    def quantized(self, weight: Tensor) -> NVFP4Tensor:
        """Quantize to an `NVFP4Tensor` that quantizes activations."""
        return NVFP4Tensor.from_float(weight, True, self.use_dynamic_per_tensor_scale)


@dataclass(frozen=True)
class NVFP4WeightOnlyConfig(AOBaseConfig):
    """Weights in NVFP4 (`torchao.prototype.mx_formats.NVFP4WeightOnlyConfig`).

    Args:
        use_dynamic_per_tensor_scale: If True, a number scales all of the weight, beside the scales of its blocks.
            Default: True.
    """

    use_dynamic_per_tensor_scale: bool = True

    def quantized(self, weight: Tensor) -> NVFP4Tensor:
        """Quantize to an `NVFP4Tensor`."""
        return NVFP4Tensor.from_float(weight, False, self.use_dynamic_per_tensor_scale)


def check_dtype(name: str, argument: str, dtype: ScalarType) -> None:
    """Check that a dtype is one of 8-bit floats with mantissas.

    Raises:
        ValueError: The dtype is another one.
    """
    if dtype not in LARGEST:
        raise ValueError(f"{name}: expected {argument} of {', '.join(map(str, LARGEST))}, got {dtype!r:.100}")
