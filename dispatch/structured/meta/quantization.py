"""Meta functions of fake quantization (ATen/native/quantized/FakeQuantPerTensorAffine.cpp)."""

from __future__ import annotations

from ....runtime.memory_format import preserve_format, strides_for
from ....runtime.scalar_type import bfloat16, bool_, float16, float32, float64
from ....runtime.tensor_spec import TensorSpec
from ..meta_base import MetaBase, NumberKind
from .linalg import check_same_device

DTYPES = (float32, float64, float16, bfloat16)
NAME = "fake_quantize_per_tensor_affine"


def fake_quantize_per_tensor_affine_cachemask(
    meta: MetaBase, self: TensorSpec, scale: NumberKind, zero_point: int, quant_min: int, quant_max: int
) -> None:
    """Infer the fake-quantized tensor, and the mask of the elements that were not clamped."""
    check_range(quant_min, quant_max)
    if not quant_min <= zero_point <= quant_max:
        raise RuntimeError(
            f"{NAME}: `zero_point` must be between `quant_min` and `quant_max`, but got zero_point={zero_point}, "
            f"quant_min={quant_min} and quant_max={quant_max}"
        )
    set_outputs(meta, self)


def _fake_quantize_per_tensor_affine_cachemask_tensor_qparams(
    meta: MetaBase,
    self: TensorSpec,
    scale: TensorSpec,
    zero_point: TensorSpec,
    fake_quant_enabled: TensorSpec,
    quant_min: int,
    quant_max: int,
) -> None:
    """Infer as above with one-element tensors for numbers, and one tensor that enables quantization."""
    check_range(quant_min, quant_max)
    numbers = {"scale": scale, "zero_point": zero_point, "fake_quant_enabled": fake_quant_enabled}
    for name, spec in numbers.items():
        if spec.numel != 1:
            raise RuntimeError(
                f"{NAME}: a Tensor with {spec.numel} elements cannot be converted to Scalar: expected `{name}` to "
                "have one element"
            )
        if spec.dtype.is_complex:
            raise RuntimeError(
                f"{NAME}: expected `{name}` to be a tensor of real numbers, but got {spec.dtype.scalar_name}"
            )
    check_same_device(NAME, self, *numbers.values())
    set_outputs(meta, self)


def check_range(quant_min: int, quant_max: int) -> None:
    """Refuse a range without integers."""
    if quant_min > quant_max:
        raise RuntimeError(
            f"{NAME}: `quant_min` should be less than or equal to `quant_max`, but got quant_min={quant_min} and "
            f"quant_max={quant_max}"
        )


def set_outputs(meta: MetaBase, self: TensorSpec) -> None:
    """Set two outputs of the same layout without gaps: one of the input's dtype, and one of bools."""
    if self.dtype not in DTYPES:
        raise NotImplementedError(
            f"\"fake_quantize_tensor_cachemask_kernel_type_handling\" not implemented for '{self.dtype.scalar_name}'"
        )
    strides = strides_for(preserve_format, self.sizes, (self.sizes, self.strides))
    meta.set_output_strided(0, self.sizes, strides, dtype=self.dtype)
    meta.set_output_strided(1, self.sizes, strides, dtype=bool_)
