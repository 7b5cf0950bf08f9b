"""Dynamic quantization of a model: layers are replaced by those of `tt.ao.nn.quantized.dynamic`."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from ...nn.modules.linear import Linear, NonDynamicallyQuantizableLinear
from ...nn.modules.module import Module
from ...nn.modules.rnn import GRU, LSTM, GRUCell, LSTMCell, RNNCell
from ...nn.modules.sparse import Embedding, EmbeddingBag
from ...nn.utils.parametrize import type_before_parametrizations
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.scalar_type import float16, qint8, quint4x2, quint8
from ..nn.quantized import dynamic
from .qconfig import default_dynamic_qconfig, float16_dynamic_qconfig

__all__ = ["get_default_dynamic_quant_module_mappings", "quantize_dynamic"]

_CONFIGS = {qint8: default_dynamic_qconfig, float16: float16_dynamic_qconfig}
_RECURRENT = (LSTM, GRU, LSTMCell, RNNCell, GRUCell)
_EMBEDDINGS = (EmbeddingBag, Embedding)
_HOOKS = (
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
)
"""Attributes of a module whose entries its quantized layer keeps."""


def get_default_dynamic_quant_module_mappings() -> dict[type, Any]:
    """Return the quantized class of each layer class (`...quantization.get_default_dynamic_quant_module_mappings`).

    Example:
        >>> import triten as tt
        >>> tt.ao.quantization.get_default_dynamic_quant_module_mappings()[tt.nn.Linear]
        <class 'triten.ao.nn.quantized.dynamic.Linear'>
    """
    return {Linear: dynamic.Linear, NonDynamicallyQuantizableLinear: dynamic.Linear}


def quantize_dynamic(
    model: Module,
    qconfig_spec: Mapping[Any, Any] | set[Any] | None = None,
    dtype: ScalarType = qint8,
    mapping: Mapping[type, Any] | None = None,
    inplace: bool = False,
) -> Module:
    """Replace the linear layers of a model by layers with quantized weights (`torch.ao.quantization.quantize_dynamic`).

    Weights become qint8 with one scale, or float16. Inputs and outputs stay float32: each call quantizes the layer's
    input (`tt.ao.nn.quantized.dynamic.Linear`). The model is set to evaluation mode. As in PyTorch, the model itself is
    not replaced, only modules inside it, and a module that its parent has under several names is replaced under the
    first one.

    Args:
        model: The model.
        qconfig_spec: The layers to quantize. Default: linear and recurrent layers.

            - A set of layer types and names of submodules.
            - A dict from types and names to a `QConfig`, or to None for parts that stay as they are.

            The choice for a submodule holds for all modules inside it, unless these have their own. A name has
            precedence over a type, and an attribute ``qconfig`` of a module over both.
        dtype: `tt.qint8` or `tt.float16`, unless `qconfig_spec` is a dict. Default: `tt.qint8`.
        mapping: The quantized class for each layer type; its method ``from_float(module)`` gets a module with an
            attribute ``qconfig``. Default: `get_default_dynamic_quant_module_mappings()`.
        inplace: If True, change `model` itself. Default: False.

    Returns:
        The quantized model.

    Raises:
        NotImplementedError: Without a `mapping`, a recurrent layer or an embedding is to be quantized, which PyTorch
            would quantize. The model is unchanged.
        ValueError: No `qconfig_spec`, and `dtype` is another one.
        RuntimeError: `qconfig_spec` is a set, and `dtype` is another one.

    Example:
        >>> import triten as tt
        >>> model = tt.nn.Sequential(tt.nn.Linear(4, 8), tt.nn.ReLU(), tt.nn.Linear(8, 2))
        >>> tt.ao.quantization.quantize_dynamic(model, {tt.nn.Linear}, dtype=tt.qint8)
        Sequential(
          (0): DynamicQuantizedLinear(in_features=4, out_features=8, dtype=triten.qint8, ...)
          (1): ReLU()
          (2): DynamicQuantizedLinear(in_features=8, out_features=2, dtype=triten.qint8, ...)
        )
    """
    configs = _configs(qconfig_spec, dtype)
    if not inplace:
        model = copy.deepcopy(model)
    try:
        _assign(model, configs, None, "", refuse=mapping is None)
        model.eval()
        _convert(model, get_default_dynamic_quant_module_mappings() if mapping is None else mapping)
    finally:
        for module in model.modules():
            vars(module).pop("qconfig", None)
    return model


def _configs(qconfig_spec: Any, dtype: ScalarType) -> Mapping[Any, Any]:
    """Return the configurations of types and names."""
    if isinstance(qconfig_spec, Mapping):
        return qconfig_spec
    if qconfig_spec is not None and not isinstance(qconfig_spec, set):
        raise TypeError(
            f"quantize_dynamic: qconfig_spec should be a set, a dict or None, got {type(qconfig_spec)}"
        )
    if dtype in (quint8, quint4x2):
        raise NotImplementedError(
            f"quantize_dynamic: embeddings of {dtype} are not supported; dtype should be {qint8} or {float16}"
        )
    if dtype in _CONFIGS:
        return dict.fromkeys((Linear, *_RECURRENT) if qconfig_spec is None else qconfig_spec, _CONFIGS[dtype])
    if qconfig_spec is None:
        raise ValueError(
            f"Don't know how to quantize with default settings for {dtype}. Provide full qconfig please"
        )
    raise RuntimeError(f"Unknown dtype specified for quantize_dynamic: {dtype}")


def _assign(module: Module, configs: Mapping[Any, Any], inherited: Any, name: str, refuse: bool) -> None:
    """Give each module its configuration as the attribute ``qconfig``. If `refuse`, raise for unsupported layers."""
    kind = type_before_parametrizations(module)
    config = getattr(module, "qconfig", configs.get(name, configs.get(kind, inherited)))
    if refuse and name and config is not None and kind in (*_RECURRENT, *_EMBEDDINGS):
        raise NotImplementedError(
            f"quantize_dynamic: {kind.__name__} {name!r} cannot be quantized. To leave it as it is, choose the other "
            "layers with qconfig_spec, such as {nn.Linear}"
        )
    module.qconfig = config
    for key, child in module.named_children():
        _assign(child, configs, config, f"{name}.{key}" if name else key, refuse)


def _convert(module: Module, mapping: Mapping[type, Any]) -> None:
    """Replace the modules inside a module that have a configuration and a quantized class, inner ones first."""
    for name, child in list(module.named_children()):
        _convert(child, mapping)
        quantized = mapping.get(type_before_parametrizations(child))
        if quantized is None or child.qconfig is None:
            continue
        new = quantized.from_float(child)
        for table in _HOOKS:
            getattr(new, table).update(getattr(child, table))
        module._modules[name] = new
