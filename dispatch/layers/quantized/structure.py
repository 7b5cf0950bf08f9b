"""Structure of quantized tensors: integers and quantizers, copies, parts, equality."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....runtime.device import device as Device
from ....runtime.layout import layout as Layout
from ....runtime.memory_format import contiguous_format, preserve_format, strides_for
from ....runtime.memory_format import memory_format as MemoryFormat
from ....runtime.quantized_data import PerChannel, PerTensorAffine
from ....runtime.scalar_type import dtype as ScalarType
from ....runtime.scalar_type import float32, quint4x2
from ...composite.quantized import (
    empty_by,
    integers_of,
    is_quantized,
    numbers_of,
    quantized_by,
    quantized_tensor,
)
from ...generated import functions as ops


def int_repr(self: Any) -> Any:
    """Return a copy of the integers, with their memory layout."""
    return self._data.ints.clone()


def uniform(self: Any) -> PerTensorAffine:
    quantizer = self._data.quantizer
    if not isinstance(quantizer, PerTensorAffine):
        raise RuntimeError(
            f"Expected quantizer->qscheme() == kPerTensorAffine to be true, but got false. (The tensor's scheme is "
            f"{quantizer.scheme}.)"
        )
    return quantizer


def _channels(self: Any) -> PerChannel:
    quantizer = self._data.quantizer
    if not isinstance(quantizer, PerChannel):
        raise RuntimeError(
            "Expected quantizer->qscheme() == kPerChannelAffine || quantizer->qscheme() == "
            f"kPerChannelAffineFloatQParams to be true, but got false. (The tensor's scheme is {quantizer.scheme}.)"
        )
    return quantizer


def q_scale(self: Any) -> float:
    return float(uniform(self).scale)


def q_zero_point(self: Any) -> int:
    return int(uniform(self).zero_point)


def q_per_channel_scales(self: Any) -> Any:
    return _channels(self).scales.detach()  # type: ignore[attr-defined]


def q_per_channel_zero_points(self: Any) -> Any:
    return _channels(self).zero_points.detach()  # type: ignore[attr-defined]


def q_per_channel_axis(self: Any) -> int:
    return _channels(self).axis


def qscheme(self: Any) -> Any:
    return self._data.quantizer.scheme


def rewrapped(self: Any, ints: Any) -> Any:
    """Return a tensor of other integers with the same quantizer."""
    sizes = self._spec.sizes if self._spec.dtype is quint4x2 else None
    return quantized_tensor(ints, self._data.quantizer, self._spec.dtype, sizes)


def clone(self: Any, memory_format: MemoryFormat | None) -> Any:
    """Copy the integers; the quantizer, which never changes, is shared."""
    if self._spec.dtype is quint4x2:
        return rewrapped(self, self._data.ints.clone())
    return rewrapped(self, self._data.ints.clone(memory_format=memory_format))


def copy_(self: Any, src: Any, non_blocking: bool) -> Any:
    """Copy: quantize a floating tensor; from a quantized tensor of the same scheme, copy integers and quantizer."""
    if not is_quantized(self):
        raise RuntimeError(
            "Copying from quantized Tensor to non-quantized Tensor is not allowed, please use dequantize to get a "
            "float Tensor from a quantized Tensor"
        )
    spec, data = self._spec, self._data
    if self is src:
        return self
    if not is_quantized(src):
        if src._spec.dtype is not float32:
            raise RuntimeError(
                f"Quantized copy only works with kFloat as source Tensor, got {src._spec.dtype.scalar_name}"
            )
        src = src.to(spec.device).expand(spec.sizes)
        data.ints.copy_(quantized_by(src, data.quantizer, spec.dtype)._data.ints)
        return self
    if data.quantizer.scheme is not src._data.quantizer.scheme:
        raise RuntimeError(
            f"Quantized Copy only works with same qscheme, got {data.quantizer.scheme} and "
            f"{src._data.quantizer.scheme}"
        )
    if spec.dtype is not src._spec.dtype:
        raise RuntimeError(
            f"Quantized copy only works with the same dtype, got {spec.dtype} and {src._spec.dtype}"
        )
    quantizer = src._data.quantizer
    if isinstance(quantizer, PerChannel):
        if spec.sizes != src._spec.sizes:
            raise RuntimeError(
                f"copy_(): expected a source of shape {list(spec.sizes)}, got {list(src._spec.sizes)}: channels do not "
                "broadcast"
            )
        quantizer = on_device(quantizer, spec.device, non_blocking)
    data.ints.copy_(src._data.ints, non_blocking)
    self._data = type(data)(data.ints, quantizer)
    return self


def on_device(quantizer: Any, device: Device, non_blocking: bool = False) -> Any:
    """Return a quantizer whose scales are on a device."""
    if isinstance(quantizer, PerTensorAffine):
        return quantizer
    scales = quantizer.scales.to(device=device, non_blocking=non_blocking)
    zero_points = quantizer.zero_points.to(device=device, non_blocking=non_blocking)
    return type(quantizer)(scales, zero_points, quantizer.axis)


def _to_copy(
    self: Any,
    dtype: ScalarType | None,
    layout: Layout | None,
    device: Device | None,
    pin_memory: bool | None,
    non_blocking: bool,
    memory_format: MemoryFormat | None,
) -> Any:
    """Copy to a device; no other dtype may be requested."""
    spec = self._spec
    if dtype is not None and dtype is not spec.dtype:
        raise RuntimeError(
            f"to(): a quantized tensor of dtype {spec.dtype} is not converted to {dtype}: dequantize() gives its "
            "numbers in float32"
        )
    where = spec.device if device is None else device
    data = self._data
    options = {} if spec.dtype is quint4x2 else {"memory_format": memory_format}
    ints = data.ints.to(device=where, non_blocking=non_blocking, copy=True, **options)
    sizes = spec.sizes if spec.dtype is quint4x2 else None
    return quantized_tensor(ints, on_device(data.quantizer, where, non_blocking), spec.dtype, sizes)


def empty_like(
    self: Any,
    dtype: ScalarType | None,
    layout: Layout | None,
    device: Device | None,
    pin_memory: bool | None,
    memory_format: MemoryFormat | None,
) -> Any:
    """Return an uninitialized tensor with the same quantizer."""
    spec = self._spec
    if dtype is not None and dtype is not spec.dtype:
        raise RuntimeError(
            "It is currently not supported to specify a dtype that doesn't match the input tensor's dtype via "
            f"empty_like.  Specified: {dtype} Input tensor's dtype: {spec.dtype}"
        )
    where = spec.device if device is None else device
    quantizer = on_device(self._data.quantizer, where)
    made = empty_by(spec.sizes, quantizer, spec.dtype, layout, where, pin_memory, None)
    if spec.dtype is quint4x2 or memory_format is contiguous_format:
        return made
    strides = strides_for(memory_format or preserve_format, spec.sizes, (spec.sizes, spec.strides))
    if strides == made._spec.strides:
        return made
    ints = ops.empty_strided(spec.sizes, strides, dtype=self._data.ints.dtype, device=where)
    return quantized_tensor(ints, quantizer, spec.dtype)


def empty_quantized(
    size: Sequence[int],
    qtensor: Any,
    dtype: ScalarType | None,
    layout: Layout | None,
    device: Device | None,
    pin_memory: bool | None,
    memory_format: MemoryFormat | None,
) -> Any:
    """Return an uninitialized tensor of other sizes with the same quantizer."""
    spec = qtensor._spec
    where = spec.device if device is None else device
    quantizer = on_device(qtensor._data.quantizer, where)
    return empty_by(size, quantizer, dtype or spec.dtype, layout, where, pin_memory, memory_format)


def fill_(self: Any, value: Any) -> Any:
    """Fill with the integer nearest to a number."""
    if is_quantized(value) if hasattr(value, "_spec") else False:
        value = numbers_of(value)
    spec = self._spec
    if spec.dtype is quint4x2:
        numbers = ops.full(spec.sizes, value, dtype=float32, device=spec.device)
    else:
        numbers = ops.full((1,), value, dtype=float32, device=spec.device).expand(spec.sizes)
    self._data.ints.copy_(quantized_by(numbers, self._data.quantizer, spec.dtype)._data.ints)
    return self


def equal(self: Any, other: Any) -> bool:
    """Return True if scheme, quantizer, dtype, sizes and integers are equal."""
    if not (is_quantized(self) and is_quantized(other)):
        return False
    mine, its = self._data.quantizer, other._data.quantizer
    if mine.scheme is not its.scheme or self._spec.dtype is not other._spec.dtype:
        return False
    if self._spec.sizes != other._spec.sizes:
        return False
    if isinstance(mine, PerTensorAffine):
        if mine != its:
            return False
    elif mine.axis != its.axis or not (
        ops.equal(mine.scales, its.scales) and ops.equal(mine.zero_points, its.zero_points)
    ):
        return False
    return bool(ops.equal(integers_of(self), integers_of(other)))


KERNELS = {
    **{
        f.__name__: f
        for f in (
            *(int_repr, q_scale, q_zero_point, q_per_channel_scales, q_per_channel_zero_points),
            *(q_per_channel_axis, qscheme, clone, copy_, _to_copy, empty_like, empty_quantized, equal),
        )
    },
    "dequantize.self": numbers_of,
    "fill_.Scalar": fill_,
    "fill_.Tensor": fill_,
    "_select_first": lambda self, index: self.select(0, index),
}
