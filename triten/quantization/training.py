"""Training that expects quantization: linear layers that compute with what will be left of their weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

from ..autograd import Function
from ..dispatch.tensor import Tensor
from ..nn.functional import linear
from ..nn.modules.linear import Linear
from ..nn.modules.module import Module
from ..nn.modules.parameter import Parameter
from ..runtime.device import DeviceLike
from ..runtime.scalar_type import float32
from .block_tensors import MXTensor, NVFP4Tensor
from .config import AOBaseConfig
from .float8_tensor import Float8Tensor, quantize_float8
from .int8_tensor import Int8Tensor, quantize_rows

STEPS = ("prepare", "convert")


class _Replaced(Function):
    """Straight-through estimator: replaces values, and passes their gradient through unchanged."""

    @staticmethod
    def forward(original: Tensor, values: Tensor) -> Tensor:
        return values.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Save nothing: the gradient does not depend on values."""

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return grad, None


def fake_quantized(weight: Tensor, config: AOBaseConfig) -> Tensor:
    """Quantize and dequantize a weight, with a straight-through gradient."""
    replaced: Tensor = _Replaced.apply(weight, config.quantized(weight).dequantize())
    return replaced


def fake_quantized_activations(x: Tensor, config: AOBaseConfig, weight: Any) -> Tensor:
    """Quantize and dequantize activations as a matmul with `weight` does, with a straight-through gradient."""
    rows = x.detach().reshape((-1, x.shape[-1]))
    if isinstance(weight, Int8Tensor) and weight.dynamic:
        integers, scale = quantize_rows(rows, -127, 127.0)
        values = integers.to(float32) * scale[:, None]
    elif isinstance(weight, MXTensor | NVFP4Tensor) and weight.quantizes_activations:
        values = weight.quantized_activations(rows).dequantized()
    elif isinstance(weight, Float8Tensor) and weight.activations != "none":
        numbers, scale = quantize_float8(rows, weight.activation_dtype, weight.activations == "row")
        values = numbers.to(float32) * scale
    else:
        return x
    replaced: Tensor = _Replaced.apply(x, values.to(x.dtype).reshape(x.shape))
    return replaced


class FakeQuantizedLinear(Linear):
    """A linear layer that computes with the weight that quantization would leave, and with such activations.

    Weight and activations are quantized anew in each call, and gradients pass through as if they were not: a training
    finds weights that bear it (`torchao.quantization.qat.FakeQuantizedLinear`).

    Args:
        in_features, out_features, bias: As of `tt.nn.Linear`.
        config: The quantization configuration of the layer.
        device, dtype: As of `tt.nn.Linear`.

    Source: B. Jacob et al., "Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only
    Inference" (2018), section 3.

    Example:
        >>> import triten as tt
        >>> from triten.quantization import FakeQuantizedLinear, Int8WeightOnlyConfig
        >>> layer = FakeQuantizedLinear(4, 2, config=Int8WeightOnlyConfig())
        >>> layer(tt.ones(1, 4)).sum().backward()
        >>> layer.weight.grad.tolist()
        [[1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0]]
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        config: AOBaseConfig,
        device: DeviceLike = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(in_features, out_features, bias, device=device, dtype=dtype)
        self.config = config

    @classmethod
    def from_linear(cls, layer: Linear, config: AOBaseConfig) -> Self:
        """Build a layer that shares another layer's parameters."""
        made = cls(layer.in_features, layer.out_features, False, config=config, device="meta")
        made.weight, made.bias = layer.weight, layer.bias
        made.train(layer.training)
        return made

    def to_linear(self) -> Linear:
        """Build a plain layer that shares this layer's parameters."""
        made = Linear(self.in_features, self.out_features, False, device="meta")
        made.weight, made.bias = self.weight, self.bias
        return made.train(self.training)

    def forward(self, x: Tensor) -> Tensor:
        """Compute ``x @ weight.T + bias`` with fake-quantized activations and weight."""
        quantized = self.config.quantized(self.weight)
        weight: Tensor = _Replaced.apply(self.weight, quantized.dequantize())
        return linear(fake_quantized_activations(x, self.config, quantized), weight, self.bias)

    def extra_repr(self) -> str:
        """With the configuration."""
        return f"{super().extra_repr()}, config={self.config}"


@dataclass(frozen=True)
class QATConfig:
    """The two steps of quantization-aware training (`torchao.quantization.qat.QATConfig`).

    ``step="prepare"`` replaces linear layers by `FakeQuantizedLinear` with the same parameters. After training,
    ``step="convert"`` restores linear layers and quantizes their weights. Other layers stay.

    Args:
        base_config: What the model is quantized by in the end; without it ``step="convert"`` leaves weights as they
            are.
        step: "prepare" or "convert".

    Raises:
        ValueError: another step, or "prepare" without `base_config`.

    Example:
        >>> import triten as tt
        >>> from triten.quantization import Int4WeightOnlyConfig, QATConfig, quantize_
        >>> model = tt.nn.Sequential(tt.nn.Linear(32, 8))
        >>> quantize_(model, QATConfig(Int4WeightOnlyConfig(32), step="prepare"))
        >>> type(model[0]).__name__
        'FakeQuantizedLinear'
        >>> quantize_(model, QATConfig(Int4WeightOnlyConfig(32), step="convert"))
        >>> type(model[0]).__name__, type(model[0].weight).__name__
        ('Linear', 'Int4Tensor')
    """

    base_config: AOBaseConfig | None = None
    step: str = "prepare"

    def __post_init__(self) -> None:
        if self.step not in STEPS:
            raise ValueError(f"QATConfig: expected step to be one of {STEPS}, got {self.step!r:.100}")
        if self.base_config is None and self.step == "prepare":
            raise ValueError('QATConfig: expected base_config for step="prepare", got None')

    def apply(
        self, model: Module, filter_fn: Callable[[Module, str], bool] | None, device: DeviceLike
    ) -> None:
        """Exchange the layers of a model. Raises TypeError where the model is itself one of them."""
        chosen = filter_fn or (lambda module, name: isinstance(module, Linear))
        for name, module in list(model.named_modules()):
            is_fake = isinstance(module, FakeQuantizedLinear)
            if (
                not isinstance(module, Linear)
                or is_fake == (self.step == "prepare")
                or not chosen(module, name)
            ):
                continue
            if not name:
                raise TypeError(
                    "QATConfig: expected a model with layers, got a layer, which has no place to exchange"
                )
            if device is not None:
                module.to(device)
            parent, _, own = name.rpartition(".")
            setattr(model.get_submodule(parent), own, self._exchanged(module, name))

    def _exchanged(self, module: Linear, name: str) -> Linear:
        if not isinstance(module, FakeQuantizedLinear):
            assert self.base_config is not None
            made: Linear = FakeQuantizedLinear.from_linear(module, self.base_config)
            return made
        made = module.to_linear()
        if self.base_config is not None:
            try:
                quantized = self.base_config.quantized(made.weight)
            except ValueError as error:
                raise ValueError(f"quantize_: layer '{name}': {error}") from error
            made.weight = Parameter(quantized, requires_grad=False)
        return made
