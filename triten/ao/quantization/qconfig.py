"""Configurations of layers to quantize: factories of observers for activations and weights."""

from __future__ import annotations

from typing import Any, NamedTuple

from ...nn.modules.module import Module
from .observer import (
    default_dynamic_quant_observer,
    default_per_channel_weight_observer,
    float16_dynamic_observer,
    float16_observer,
)
from .observer import default_weight_observer as _weight_observer

__all__ = ["QConfig", "default_dynamic_qconfig", "float16_dynamic_qconfig", "per_channel_dynamic_qconfig"]


class _Factories(NamedTuple):
    activation: Any
    weight: Any


class QConfig(_Factories):
    """Factories of the observers of a layer's activations and weight (`torch.ao.quantization.QConfig`).

    Args:
        activation: Observer class, or a factory of ``with_args``. Dynamic layers do not use it.
        weight: The same for the weight; its dtype is the quantized weight's.

    Raises:
        ValueError: An argument is an observer rather than a class.

    Example:
        >>> from triten.ao.quantization import MinMaxObserver, PlaceholderObserver, QConfig
        >>> import triten as tt
        >>> weight = MinMaxObserver.with_args(dtype=tt.qint8, qscheme=tt.per_tensor_symmetric)
        >>> QConfig(activation=PlaceholderObserver, weight=weight).weight().dtype
        triten.qint8
    """

    __slots__ = ()

    def __new__(cls, activation: Any, weight: Any) -> QConfig:
        if isinstance(activation, Module) or isinstance(weight, Module):
            raise ValueError(
                "QConfig received observer instance, please pass observer class instead. "
                "Use MyObserver.with_args(x=1) to override arguments to constructor if needed"
            )
        return super().__new__(cls, activation, weight)


default_dynamic_qconfig = QConfig(default_dynamic_quant_observer, _weight_observer)
"""Weights of qint8 with one scale."""

per_channel_dynamic_qconfig = QConfig(default_dynamic_quant_observer, default_per_channel_weight_observer)
"""Weights of qint8 with a scale for each row."""

float16_dynamic_qconfig = QConfig(float16_dynamic_observer, float16_observer)
"""Weights of float16."""
