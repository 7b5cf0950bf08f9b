"""`quantize_`: a model whose linear layers have weights of few bits."""

from __future__ import annotations

from collections.abc import Callable

from ..nn.modules.linear import Linear
from ..nn.modules.module import Module
from ..nn.modules.parameter import Parameter
from ..runtime.device import DeviceLike
from ..runtime.traceback_filter import api_boundary
from .config import AOBaseConfig
from .quantized_tensor import QuantizedTensor
from .training import QATConfig

Filter = Callable[[Module, str], bool]


def is_linear(module: Module, name: str) -> bool:
    """Return whether a module is a linear layer whose weight is not quantized yet."""
    return isinstance(module, Linear) and not isinstance(module.weight, QuantizedTensor)


@api_boundary
def quantize_(
    model: Module,
    config: AOBaseConfig | QATConfig,
    filter_fn: Filter | None = None,
    device: DeviceLike = None,
) -> None:
    """Quantize the weights of a model's linear layers, in place (`torchao.quantization.quantize_`).

    A layer's weight becomes a parameter that requires no gradient. Nothing else of the model changes; gradients reach
    the input of a quantized layer, and its bias.

    Args:
        model: The model; its own layers are exchanged, so that it may not itself be a layer where `config` is a
            `QATConfig`.
        config: How: `Int8WeightOnlyConfig()`, ... or a `QATConfig`.
        filter_fn: Takes a module and its name in the model, and says whether it is quantized; by default linear
            layers are. What it chooses has to be a linear layer.
        device: The device that each layer is moved to before quantization.

    Raises:
        TypeError: `config` is no configuration, or `filter_fn` chooses what is no linear layer.
        ValueError: a weight does not fit the configuration; the message names the layer. Those before are quantized.

    Example:
        >>> import triten as tt
        >>> from triten.quantization import Int4WeightOnlyConfig, quantize_
        >>> model = tt.nn.Sequential(tt.nn.Linear(64, 16), tt.nn.Linear(16, 4))
        >>> quantize_(model, Int4WeightOnlyConfig(32), lambda module, name: name == "0")
        >>> [type(layer.weight).__name__ for layer in model]
        ['Int4Tensor', 'Parameter']
    """
    if isinstance(config, QATConfig):
        config.apply(model, filter_fn, device)
        return
    if not isinstance(config, AOBaseConfig):
        raise TypeError(f"quantize_: expected a configuration, got {type(config).__name__}")
    chosen = is_linear if filter_fn is None else filter_fn
    for name, module in list(model.named_modules()):
        if not chosen(module, name):
            continue
        if not isinstance(module, Linear):
            raise TypeError(
                f"quantize_: expected filter_fn to choose linear layers, got {type(module).__name__} '{name}'"
            )
        if device is not None:
            module.to(device)
        try:
            quantized = config.quantized(module.weight)
        except ValueError as error:
            raise ValueError(f"quantize_: layer '{name}': {error}") from error
        module.weight = Parameter(quantized, requires_grad=False)
