"""`tt.ao.quantization` (`torch.ao.quantization`): `quantize_dynamic`, which quantizes a model for the CPU.

`qconfig` says how layers are quantized, `observer` computes scales and zero points, and `stubs` marks the start and the
end of a model's quantized part. PyTorch's static quantization (`prepare`, `convert`) does not belong here;
`tt.quantization.quantize_` quantizes models for the GPU, and `tt.quantization.QATConfig` trains for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...runtime.lazy_import import lazy_names

_MODULES = {
    ".observer": "MinMaxObserver ObserverBase PerChannelMinMaxObserver PlaceholderObserver "
    "default_dynamic_quant_observer default_per_channel_weight_observer default_placeholder_observer "
    "default_weight_observer",
    ".qconfig": "QConfig default_dynamic_qconfig float16_dynamic_qconfig per_channel_dynamic_qconfig",
    ".quantize": "get_default_dynamic_quant_module_mappings quantize_dynamic",
    ".stubs": "DeQuantStub QuantStub",
}
"""The names of each module."""

_SUBMODULES = ("observer", "qconfig", "quantize", "stubs")

if TYPE_CHECKING:
    from . import observer as observer
    from . import qconfig as qconfig
    from . import quantize as quantize
    from . import stubs as stubs
    from .observer import MinMaxObserver as MinMaxObserver
    from .observer import ObserverBase as ObserverBase
    from .observer import PerChannelMinMaxObserver as PerChannelMinMaxObserver
    from .observer import PlaceholderObserver as PlaceholderObserver
    from .observer import default_dynamic_quant_observer as default_dynamic_quant_observer
    from .observer import default_per_channel_weight_observer as default_per_channel_weight_observer
    from .observer import default_placeholder_observer as default_placeholder_observer
    from .observer import default_weight_observer as default_weight_observer
    from .qconfig import QConfig as QConfig
    from .qconfig import default_dynamic_qconfig as default_dynamic_qconfig
    from .qconfig import float16_dynamic_qconfig as float16_dynamic_qconfig
    from .qconfig import per_channel_dynamic_qconfig as per_channel_dynamic_qconfig
    from .quantize import (
        get_default_dynamic_quant_module_mappings as get_default_dynamic_quant_module_mappings,
    )
    from .quantize import quantize_dynamic as quantize_dynamic
    from .stubs import DeQuantStub as DeQuantStub
    from .stubs import QuantStub as QuantStub
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, _MODULES, _SUBMODULES)
