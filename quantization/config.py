"""How a model's weights are quantized (torchao's configurations, by its names)."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..dispatch.tensor import Tensor
from ..runtime.scalar_type import dtype as ScalarType
from ..runtime.scalar_type import float8_e4m3fn
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
    """What `quantize_` takes; a subclass says what becomes of a weight (`torchao.core.config.AOBaseConfig`)."""

    def quantized(self, weight: Tensor) -> QuantizedTensor:
        """The weight of a linear layer, quantized."""
        raise NotImplementedError(f"{type(self).__name__} does not say what becomes of a weight")


@dataclass(frozen=True)
class Int8WeightOnlyConfig(AOBaseConfig):
    """Weights of 8-bit integers with a scale for each row (`torchao.quantization.Int8WeightOnlyConfig`)."""

    def quantized(self, weight: Tensor) -> Int8Tensor:
        """An `Int8Tensor`."""
        return Int8Tensor.from_float(weight)


@dataclass(frozen=True)
class Int8DynamicActivationInt8WeightConfig(AOBaseConfig):
    """Weights and activations of 8-bit integers, with a scale for each row of either one
    (`torchao.quantization.Int8DynamicActivationInt8WeightConfig`).
    """

    def quantized(self, weight: Tensor) -> Int8Tensor:
        """An `Int8Tensor` that quantizes activations."""
        return Int8Tensor.from_float(weight, dynamic=True)


@dataclass(frozen=True)
class Int4WeightOnlyConfig(AOBaseConfig):
    """Weights of 4-bit integers, with a scale and a zero for each group of columns of a row
    (`torchao.quantization.Int4WeightOnlyConfig`).

    Args:
        group_size: How many columns: 32, 64, 128 or 256.

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
        """An `Int4Tensor`."""
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
        """A `Float8Tensor`."""
        return Float8Tensor.from_float(weight, self.weight_dtype)


@dataclass(frozen=True)
class Float8DynamicActivationFloat8WeightConfig(AOBaseConfig):
    """Weights and activations of 8-bit floats (`torchao.quantization.Float8DynamicActivationFloat8WeightConfig`).

    Args:
        activation_dtype: float8_e4m3fn or float8_e5m2.
        weight_dtype: One of these.
        granularity: What shares a scale, of activations and of the weight: `PerTensor()` or `PerRow()`.

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
        """A `Float8Tensor` that quantizes activations."""
        by_row = isinstance(self.granularity, PerRow)
        activations = "row" if by_row else "tensor"
        return Float8Tensor.from_float(weight, self.weight_dtype, by_row, activations, self.activation_dtype)


def check_dtype(name: str, argument: str, dtype: ScalarType) -> None:
    """Refuse what is no dtype of 8-bit floats with mantissas."""
    if dtype not in LARGEST:
        raise ValueError(f"{name}: expected {argument} of {', '.join(map(str, LARGEST))}, got {dtype!r:.100}")
