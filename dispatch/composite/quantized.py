"""Quantized tensors, composed of floating-point and integer tensors (ATen/native/quantized/QTensor.cpp)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...runtime.device import get_default_device
from ...runtime.dispatch_key import highest_priority
from ...runtime.layout import layout as Layout
from ...runtime.layout import strided
from ...runtime.memory_format import memory_format as MemoryFormat
from ...runtime.quantized_data import (
    INTEGERS,
    LIMITS,
    QUANTIZED_AS,
    QUANTIZED_BIT,
    PerChannelAffine,
    PerChannelAffineFloatQParams,
    PerTensorAffine,
    Quantized,
    quantized_spec,
)
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.scalar_type import float16, float32, float64, int64, qint8, qint32, quint4x2, quint8
from ..core.operator_entry import BELOW_AUTOGRAD
from ..generated import functions as ops
from ..scalars import real, truncated
from ..tensor import Tensor

if TYPE_CHECKING:
    from ...runtime.device import device as Device
    from ...runtime.quantized_data import Quantizer

Sizes = Sequence[int]


def quantized_tensor(ints: Any, quantizer: Quantizer, dtype: ScalarType, sizes: Sizes | None = None) -> Any:
    """Return a quantized tensor over dense integers, without checks. Packed integers need its sizes."""
    spec = quantized_spec(ints._spec, dtype, None if sizes is None else tuple(sizes))
    return Tensor.from_data(Quantized(ints, quantizer), spec)


def is_quantized(tensor: Any) -> bool:
    """Return True if a tensor has a quantizer."""
    return bool(tensor._spec.keys & QUANTIZED_BIT)


def check_quantizable(self: Any, dtype: ScalarType, name: str = "quantize_per_tensor") -> None:
    """Raise RuntimeError unless the tensor is float32 and the dtype is quantized."""
    if is_quantized(self) or self._spec.layout is not strided:
        key = highest_priority(self._spec.call_keys & BELOW_AUTOGRAD)
        raise NotImplementedError(
            f"Could not run 'aten::{name}' with arguments from the '{key.name}' backend. Only dense tensors are "
            "quantized."
        )
    if dtype not in INTEGERS:
        raise RuntimeError(f"ScalarType {dtype.scalar_name} is not supported in new_qtensor.")
    if self._spec.dtype is not float32:
        raise RuntimeError(f"Quantize only works on Float Tensor, got {self._spec.dtype.scalar_name}")


def check_zero_point(name: str, dtype: ScalarType, zero_point: int) -> None:
    """Raise RuntimeError for a zero point outside the dtype's range."""
    least, greatest = LIMITS[dtype]
    if zero_point > greatest:
        raise RuntimeError(f"{name} zero_point {zero_point} is above upper bound.")
    if zero_point < least:
        raise RuntimeError(f"{name} zero_point {zero_point} is below lower bound.")


def quantize_per_tensor(self: Tensor, scale: float, zero_point: int, dtype: ScalarType) -> Any:
    """Quantize by one scale and zero point."""
    check_quantizable(self, dtype)
    check_zero_point("quantize_tensor_per_tensor_affine", dtype, zero_point)
    return quantized_by(self, PerTensorAffine(float(scale), zero_point), dtype)


def quantized_by(self: Any, quantizer: Quantizer, dtype: ScalarType) -> Any:
    """Quantize a floating tensor with a quantizer whose zero points are in the dtype's range."""
    if isinstance(quantizer, PerTensorAffine):
        scale: Any = quantizer.scale
        zero_point: Any = quantizer.zero_point
    else:
        scale = along(quantizer.scales, quantizer.axis, self._spec.ndim)
        zero_point = along(quantizer.zero_points, quantizer.axis, self._spec.ndim)
    if dtype is not quint4x2:
        return quantized_tensor(ops._quantize_affine(self, scale, zero_point, dtype), quantizer, dtype)
    ints = ops._quantize_affine(self.contiguous(), scale, zero_point, dtype)
    return quantized_tensor(packed(ints), quantizer, dtype, self._spec.sizes)


def along(channels: Any, axis: int, ndim: int) -> Any:
    """Reshape per-channel values to broadcast with a tensor of `ndim` dimensions."""
    return channels.reshape([-1 if d == axis else 1 for d in range(ndim)])


def packed(ints: Any) -> Any:
    """Pack sub-byte integers below 16, two per byte, the first one in the lower half."""
    flat = ints.reshape(-1)
    if flat._spec.numel % 2:
        flat = ops.cat([flat, ops.zeros_like(flat[:1])])
    return flat[::2] | (flat[1::2] << 4)


def unpacked(data: Any, sizes: Sizes) -> Any:
    """Unpack the integers of `packed` to uint8, contiguous in these sizes."""
    numel = 1
    for size in sizes:
        numel *= size
    return ops.stack((data & 15, data >> 4), 1).reshape(-1)[:numel].reshape(sizes)


def integers_of(self: Any) -> Any:
    """Return a quantized tensor's integers in its own sizes: its memory, unless it is packed."""
    if self._spec.dtype is quint4x2:
        return unpacked(self._data.ints, self._spec.sizes)
    return self._data.ints


def numbers_of(self: Any) -> Any:
    """Dequantize a tensor to float32."""
    quantizer = self._data.quantizer
    if isinstance(quantizer, PerTensorAffine):
        return ops._dequantize_affine(integers_of(self), quantizer.scale, quantizer.zero_point)
    scales = along(quantizer.scales, quantizer.axis, self._spec.ndim)
    zero_points = along(quantizer.zero_points, quantizer.axis, self._spec.ndim)
    return ops._dequantize_affine(integers_of(self), scales, zero_points)


def vector_numbers_of(self: Any) -> Any:
    """Dequantize a per-tensor quantized tensor as PyTorch's vector kernels do.

    The integers are rounded to float32. The product of scale and zero point is rounded; the multiply-add with it rounds
    once.
    """
    quantizer = self._data.quantizer
    scale = np.float32(quantizer.scale)
    offset = float(scale * np.float32(-quantizer.zero_point))
    ints = self._data.ints
    if self._spec.dtype is qint32:
        ints = ints.to(float32)
    return (ints.to(float64) * float(scale) + offset).to(float32)


def quantize_per_tensor_by_tensors(self: Tensor, scale: Tensor, zero_point: Tensor, dtype: ScalarType) -> Any:
    """Quantize by one-element tensors."""
    if self._spec.is_meta:
        return quantize_per_tensor(self, 1.0, 0, dtype)
    step, zero = real(scale.item()), real(zero_point.item())
    return quantize_per_tensor(self, float(step), truncated(zero, "int64"), dtype)


def quantize_tensors(
    tensors: Sequence[Tensor], scales: Tensor, zero_points: Tensor, dtype: ScalarType
) -> tuple[Any, ...]:
    """Quantize each tensor with its own scale and zero point."""
    for name, parameter in (("scales", scales), ("zero_points", zero_points)):
        if not parameter._spec.ndim or parameter._spec.sizes[0] < len(tensors):
            raise RuntimeError(
                f"quantize_per_tensor: expected {name} for {len(tensors)} tensors, but got sizes "
                f"{list(parameter._spec.sizes)}"
            )
    return tuple(
        [quantize_per_tensor_by_tensors(x, scales[i], zero_points[i], dtype) for i, x in enumerate(tensors)]
    )


def chosen_quantizer(least: float, greatest: float, dtype: ScalarType, reduce_range: bool) -> PerTensorAffine:
    """Return the scale and zero point for a range (ATen/native/quantized/cpu/QuantUtils.h)."""
    qmin, qmax = LIMITS[dtype]
    if reduce_range:
        qmin, qmax = int(qmin / 2), qmax // 2
    low, high = min(np.float32(least), np.float32(0)), max(np.float32(greatest), np.float32(0))
    scale = float((np.float64(high) - low) / (qmax - qmin))
    smallest = np.float32(6.1e-5)
    if np.float32(scale) == 0 or np.isinf(np.float32(1) / np.float32(scale)):
        scale = 0.1
    if scale < smallest:
        original = np.float32(scale)
        scale = float(smallest)
        if low == 0:
            high = np.float32(smallest * (qmax - qmin))
        elif high == 0:
            low = np.float32(-smallest * (qmax - qmin))
        else:
            amplifier = np.float32(smallest / original)
            low, high = low * amplifier, high * amplifier
    from_low, from_high = qmin - low / scale, qmax - high / scale
    error_low = abs(qmin) - abs(low / scale)
    error_high = abs(qmax) - abs(high / scale)
    initial = from_low if error_low < error_high else from_high
    if initial < qmin:
        zero_point = qmin
    elif initial > qmax:
        zero_point = qmax
    else:
        zero_point = int(np.rint(initial))
    return PerTensorAffine(scale, zero_point)


def quantize_per_tensor_dynamic(self: Tensor, dtype: ScalarType, reduce_range: bool) -> Any:
    """Quantize with a scale and zero point that are computed from the range of the elements."""
    if self._spec.dtype is not float32:
        raise RuntimeError(f"Quantize only works on Float Tensor, got {self._spec.dtype.scalar_name}")
    if dtype is float16:
        return self.to(float16)
    if dtype not in (quint8, qint8):
        raise RuntimeError(f"dtype {dtype.scalar_name}not supported")
    check_quantizable(self, dtype, "quantize_per_tensor_dynamic")
    least = greatest = 0.0
    if self._spec.numel and not self._spec.is_meta:
        least, greatest = (float(each.item()) for each in ops.aminmax(self))
    return quantized_by(self, chosen_quantizer(least, greatest, dtype, reduce_range), dtype)


def check_channels(self: Any, scales: Any, zero_points: Any, axis: int, dtype: ScalarType | None) -> None:
    """Raise RuntimeError if scales and zero points do not fit a tensor's dimension.

    Only the CPU checks their values.
    """
    if scales._spec.ndim != 1:
        raise RuntimeError("scale tensor must have dimension 1")
    if zero_points._spec.ndim != 1:
        raise RuntimeError("zero_points tensor must have dimension 1")
    if not scales._spec.dtype.is_floating_point:
        raise RuntimeError("scale tensor must be floating point")
    sizes = self if isinstance(self, tuple) else self._spec.sizes
    if scales._spec.numel != zero_points._spec.numel:
        raise RuntimeError("number of elements in scales and zero_points must match")
    if not 0 <= axis < len(sizes):
        raise RuntimeError(
            f"Channel axis out of range in per channel affine quantization. Got: {axis}Expected: [0, {len(sizes)})"
        )
    if sizes[axis] != scales._spec.numel:
        raise RuntimeError(
            f"length of scales must equal to channel, expected {sizes[axis]} got, {scales._spec.numel}"
        )
    if dtype is not None and zero_points._spec.device.type == "cpu" and not zero_points.is_floating_point():
        for zero_point in (int(zero_points.min()), int(zero_points.max())) if zero_points._spec.numel else ():
            check_zero_point("quantize_tensor_per_channel_affine", dtype, zero_point)


def channel_quantizer(scales: Any, zero_points: Any, axis: int) -> Quantizer:
    """Return the quantizer of these scales and zero points, which are copied and cast to the quantizer's dtypes."""
    if zero_points._spec.dtype.is_floating_point:
        return PerChannelAffineFloatQParams(
            scales.detach().to(float32, copy=True).contiguous(),
            zero_points.detach().to(float32, copy=True).contiguous(),
            axis,
        )
    return PerChannelAffine(
        scales.detach().to(float64, copy=True).contiguous(),
        zero_points.detach().to(int64, copy=True).contiguous(),
        axis,
    )


def quantize_per_channel(
    self: Tensor, scales: Tensor, zero_points: Tensor, axis: int, dtype: ScalarType
) -> Any:
    """Quantize by a scale and zero point for each index of a dimension."""
    check_quantizable(self, dtype, "quantize_per_channel")
    check_channels(self, scales, zero_points, axis, dtype)
    floating = zero_points._spec.dtype.is_floating_point
    if dtype is quint4x2 and not floating:
        raise NotImplementedError("\"quantize_tensor_per_channel_affine\" not implemented for 'QUInt4x2'")
    if dtype is qint32 and floating:
        raise NotImplementedError(
            "\"quantize_tensor_per_channel_float_qparams\" not implemented for 'QInt32': its integers are beyond what "
            "float32 zero points tell apart"
        )
    return quantized_by(self, channel_quantizer(scales, zero_points, axis), dtype)


def dequantize_dense(self: Tensor) -> Tensor:
    """Return a tensor that is not quantized, in float32."""
    return self.to(float32)


def dequantize_tensors(tensors: Sequence[Tensor]) -> tuple[Any, ...]:
    """Dequantize each of several tensors."""
    return tuple([each.dequantize() for each in tensors])


def quantized_dtype_of(ints: Any) -> ScalarType:
    """Return the quantized dtype whose integers have a tensor's dtype. Raises RuntimeError if there is none."""
    dtype = QUANTIZED_AS.get(ints._spec.dtype)
    if dtype is None:
        raise RuntimeError("Creation of quantized tensor requires quantized dtype like torch.quint8")
    return dtype


def _make_per_tensor_quantized_tensor(self: Tensor, scale: float, zero_point: int) -> Any:
    """Return a quantized copy of integers with one scale and zero point."""
    dtype = quantized_dtype_of(self)
    return quantized_tensor(self.contiguous().clone(), PerTensorAffine(float(scale), zero_point), dtype)


def _make_per_channel_quantized_tensor(self: Tensor, scale: Tensor, zero_point: Tensor, axis: int) -> Any:
    """Return a quantized copy of integers with a scale and zero point for each index of a dimension."""
    dtype = quantized_dtype_of(self)
    check_channels(self, scale, zero_point, axis, None)
    return quantized_tensor(self.contiguous().clone(), channel_quantizer(scale, zero_point, axis), dtype)


def empty_by(
    sizes: Sizes,
    quantizer: Quantizer,
    dtype: ScalarType | None,
    layout: Layout | None,
    device: Device | None,
    pin_memory: bool | None,
    memory_format: MemoryFormat | None,
) -> Any:
    """Return a quantized tensor without values. Raises RuntimeError for a dtype that is not quantized."""
    if dtype not in INTEGERS:
        raise RuntimeError("Creation of quantized tensor requires quantized dtype like torch.quint8")
    if layout is not None and layout is not strided:
        raise RuntimeError(f"Unsupported layout: {layout}; quantized tensors are {strided}")
    where = get_default_device() if device is None else device
    if dtype is quint4x2:
        numel = 1
        for size in sizes:
            numel *= size
        ints = ops.empty(((numel + 1) // 2,), dtype=INTEGERS[dtype], device=where)
        return quantized_tensor(ints, quantizer, dtype, sizes)
    ints = ops.empty(
        sizes, dtype=INTEGERS[dtype], device=where, pin_memory=bool(pin_memory), memory_format=memory_format
    )
    return quantized_tensor(ints, quantizer, dtype)


def _empty_affine_quantized(
    size: Sizes,
    dtype: ScalarType | None,
    layout: Layout | None,
    device: Device | None,
    pin_memory: bool | None,
    scale: float,
    zero_point: int,
    memory_format: MemoryFormat | None,
) -> Any:
    """Return an uninitialized tensor with one scale and zero point."""
    quantizer = PerTensorAffine(float(scale), zero_point)
    return empty_by(size, quantizer, dtype, layout, device, pin_memory, memory_format)


def _empty_per_channel_affine_quantized(
    size: Sizes,
    scales: Tensor,
    zero_points: Tensor,
    axis: int,
    dtype: ScalarType | None,
    layout: Layout | None,
    device: Device | None,
    pin_memory: bool | None,
    memory_format: MemoryFormat | None,
) -> Any:
    """Return an uninitialized tensor with a scale and zero point for each index of a dimension."""
    check_channels(tuple(size), scales, zero_points, axis, None)
    quantizer = channel_quantizer(scales, zero_points, axis)
    where = scales._spec.device if device is None else device
    return empty_by(size, quantizer, dtype, layout, where, pin_memory, memory_format)
