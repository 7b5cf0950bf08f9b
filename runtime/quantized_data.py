"""Data of a quantized tensor: a dense tensor of integers and a quantizer (QTensorImpl.h).

A quantized tensor is a `TensorImpl` of strided layout and a quantized dtype. It has a Quantized key instead of Dense,
so that no dense kernel is called for it. Its `_data` is a `Quantized` record. Views have their own records over the
same memory. The quantizer is not in the spec: plans are valid for all scales, and kernels read it when called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from . import qscheme as schemes
from .data_ptr import DataPtr
from .dispatch_key import Functionality, functionality_bit
from .memory_format import contiguous_strides
from .record import Record
from .scalar_type import int8, int32, qint8, qint32, quint4x2, quint8, uint8
from .tensor_spec import TensorSpec

if TYPE_CHECKING:
    from .scalar_type import dtype as ScalarType
    from .tensor_impl import TensorImpl

QUANTIZED_BIT: Final = functionality_bit(Functionality.Quantized)

INTEGERS: Final = {qint8: int8, quint8: uint8, qint32: int32, quint4x2: uint8}
"""Integer dtype that stores each quantized dtype; two elements of quint4x2 share a byte."""

QUANTIZED_AS: Final = {int8: qint8, uint8: quint8, int32: qint32}
"""Quantized dtype that each integer dtype stores."""

LIMITS: Final = {
    qint8: (-128, 127),
    quint8: (0, 255),
    qint32: (-(1 << 31), (1 << 31) - 1),
    quint4x2: (0, 15),
}
"""Minimum and maximum integer of each quantized dtype."""

MIN_ROW_SCALE: Final = 2.0**-23
"""Scale of a row of zeros: float32's distance between 1 and the next number."""


class PerTensorAffine(Record):
    """Per-tensor quantizer: an integer q means (q - zero_point) * scale."""

    scale: float
    zero_point: int

    scheme = schemes.per_tensor_affine


class PerChannel:
    """Scale and zero point for each index of one dimension.

    Args:
        scales: One-dimensional; float64, or float32 if zero points are floating-point too.
        zero_points: int64, or float32, of the same length.
        axis: The dimension.
    """

    __slots__ = ("axis", "scales", "zero_points")

    scheme = schemes.per_channel_affine

    def __init__(self, scales: TensorImpl, zero_points: TensorImpl, axis: int) -> None:
        self.scales = scales
        self.zero_points = zero_points
        self.axis = axis


class PerChannelAffine(PerChannel):
    """Per-channel quantizer: an integer q of channel c means (q - zero_points[c]) * scales[c]."""

    __slots__ = ()


class PerChannelAffineFloatQParams(PerChannel):
    """Per-channel quantizer with floating-point zero points."""

    __slots__ = ()

    scheme = schemes.per_channel_affine_float_qparams


Quantizer = PerTensorAffine | PerChannelAffine | PerChannelAffineFloatQParams


class Quantized:
    """Integers and their quantizer. The record is replaced as a whole, never changed.

    Args:
        ints: A dense tensor with the quantized tensor's sizes and strides. For quint4x2 it has the bytes,
            one-dimensional, with even elements in the lower halves.
        quantizer: The mapping of integers to numbers.
    """

    __slots__ = ("ints", "quantizer")

    def __init__(self, ints: TensorImpl, quantizer: Quantizer) -> None:
        self.ints = ints
        self.quantizer = quantizer

    @property
    def base(self) -> Any:
        """Array or pointer that owns the memory, for `storage.root_of`."""
        data = self.ints._data
        return data if data is None or data.base is None else data.base

    @property
    def __array_interface__(self) -> Any:
        data = self.ints._data
        if isinstance(data, DataPtr):
            return {"data": (data.address, False)}
        return data.__array_interface__


def quantized_spec(ints: TensorSpec, dtype: ScalarType, sizes: tuple[int, ...] | None = None) -> TensorSpec:
    """Return the spec of a quantized tensor over integers of this spec; packed integers need `sizes`."""
    if sizes is None:
        sizes, strides = ints.sizes, ints.strides
    else:
        strides = contiguous_strides(sizes)
    return TensorSpec.of(
        sizes, strides, dtype, ints.device, is_inference=ints.is_inference, keys=QUANTIZED_BIT
    )
