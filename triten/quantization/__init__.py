"""Quantization: models with 8-bit and 4-bit weights, following torchao.

`quantize_(model, config)` replaces linear layers' weights by quantized tensors. They are subclasses of `tt.Tensor`
over the dispatcher. A layer multiplies with them as with any weight, through kernels that read the packed bits, and
gradients reach its input. `QATConfig` trains a model for quantization.

Example:
    >>> import triten as tt
    >>> from triten.quantization import Int8WeightOnlyConfig, quantize_
    >>> model = tt.nn.Sequential(tt.nn.Linear(64, 32), tt.nn.ReLU())
    >>> quantize_(model, Int8WeightOnlyConfig())
    >>> model
    Sequential(
      (0): Linear(in_features=64, out_features=32, bias=True, weight=Int8Tensor)
      (1): ReLU()
    )
    >>> model[0].weight.int_data.dtype
    triten.int8

In this folder `quantized_tensor` is what the classes of tensors share, `int8_tensor`, `int4_tensor` and
`float8_tensor` are those, and `block_tensors` those of MX formats and NVFP4, which `block_formats` makes; `config` says
how, `quantize` and `training` do it to a model. Kernels do not belong here: they are operators
(`dispatch/native_functions/weight_only.yaml`, ``scaled_mm.yaml``). The modules that PyTorch has under
``torch.ao.quantization`` are in `tt.ao.quantization`.
"""

from .block_formats import ScaleCalculationMode, from_blocked, nvfp4_scale, to_blocked, to_mx, to_nvfp4
from .block_tensors import MXTensor, NVFP4Tensor
from .config import (
    AOBaseConfig,
    Float8DynamicActivationFloat8WeightConfig,
    Float8WeightOnlyConfig,
    Int4WeightOnlyConfig,
    Int8DynamicActivationInt8WeightConfig,
    Int8WeightOnlyConfig,
    MXDynamicActivationMXWeightConfig,
    NVFP4DynamicActivationNVFP4WeightConfig,
    NVFP4WeightOnlyConfig,
    PerRow,
    PerTensor,
)
from .float8_tensor import Float8Tensor
from .int4_tensor import Int4Tensor
from .int8_tensor import Int8Tensor
from .quantize import quantize_
from .quantized_tensor import QuantizedTensor
from .training import FakeQuantizedLinear, QATConfig

__all__ = [
    "AOBaseConfig",
    "FakeQuantizedLinear",
    "Float8DynamicActivationFloat8WeightConfig",
    "Float8Tensor",
    "Float8WeightOnlyConfig",
    "Int4Tensor",
    "Int4WeightOnlyConfig",
    "Int8DynamicActivationInt8WeightConfig",
    "Int8Tensor",
    "Int8WeightOnlyConfig",
    "MXDynamicActivationMXWeightConfig",
    "MXTensor",
    "NVFP4DynamicActivationNVFP4WeightConfig",
    "NVFP4Tensor",
    "NVFP4WeightOnlyConfig",
    "PerRow",
    "PerTensor",
    "QATConfig",
    "QuantizedTensor",
    "ScaleCalculationMode",
    "from_blocked",
    "nvfp4_scale",
    "quantize_",
    "to_blocked",
    "to_mx",
    "to_nvfp4",
]
