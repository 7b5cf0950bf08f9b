"""Meta functions of quantization to integers and back (ATen/native/quantized/AffineQuantizer.cpp)."""

from __future__ import annotations

from ....runtime.memory_format import preserve_format, strides_for
from ....runtime.quantized_data import INTEGERS
from ....runtime.scalar_type import dtype as ScalarType
from ....runtime.scalar_type import float32, int8, int32, uint8
from ....runtime.tensor_spec import TensorSpec
from ...iterator.broadcast import broadcast_sizes
from ..meta_base import MetaBase, NumberKind

Parameter = TensorSpec | NumberKind
"""A scale or a zero point: a number, or a tensor that broadcasts to the quantized tensor."""


def _check_tensor(meta: MetaBase, self: object) -> None:
    """Refuse a number instead of the tensor; its class stands for it here."""
    if isinstance(self, type):
        raise TypeError(f"{meta.name}(): argument 'self' (position 1) must be Tensor, not {self.__name__}")


def _quantize_affine(
    meta: MetaBase, self: TensorSpec, scale: Parameter, zero_point: Parameter, dtype: ScalarType
) -> None:
    """Infer the integers, with the memory layout of the numbers."""
    _check_tensor(meta, self)
    if self.dtype is not float32:
        raise RuntimeError(f"Quantize only works on Float Tensor, got {self.dtype.scalar_name}")
    if dtype not in INTEGERS:
        raise RuntimeError(f"ScalarType {dtype.scalar_name} is not supported in new_qtensor.")
    _like(meta, self, scale, zero_point, INTEGERS[dtype])


def _requantize(
    meta: MetaBase, self: TensorSpec, multiplier: Parameter, zero_point: Parameter, dtype: ScalarType
) -> None:
    """Infer sums as integers on another grid, with the sums' memory layout."""
    _check_tensor(meta, self)
    if self.dtype not in (float32, int32):
        raise RuntimeError(f"_requantize: expected self of float32 or int32, got {self.dtype}")
    if dtype not in INTEGERS:
        raise RuntimeError(f"ScalarType {dtype.scalar_name} is not supported in new_qtensor.")
    _like(meta, self, multiplier, zero_point, INTEGERS[dtype])


def _dequantize_affine(meta: MetaBase, self: TensorSpec, scale: Parameter, zero_point: Parameter) -> None:
    """Infer the numbers, with the memory layout of the integers."""
    _check_tensor(meta, self)
    if self.dtype not in (int8, uint8, int32):
        raise RuntimeError(f"_dequantize_affine: expected self of int8, uint8 or int32, got {self.dtype}")
    _like(meta, self, scale, zero_point, float32)


def _like(
    meta: MetaBase, self: TensorSpec, scale: Parameter, zero_point: Parameter, dtype: ScalarType
) -> None:
    for name, parameter in (("scale", scale), ("zero point", zero_point)):
        if isinstance(parameter, TensorSpec) and broadcast_sizes(self.sizes, parameter.sizes) != self.sizes:
            raise RuntimeError(
                f"{meta.name}: expected {name} of a shape that broadcasts to {list(self.sizes)}, got "
                f"{list(parameter.sizes)}"
            )
    strides = strides_for(preserve_format, self.sizes, (self.sizes, self.strides))
    meta.set_output_raw_strided(0, self.sizes, strides, dtype=dtype)
