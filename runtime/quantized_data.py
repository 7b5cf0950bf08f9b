"""What stands in a quantized tensor's place of bytes: a dense tensor of integers and a quantizer (QTensorImpl.h).

A quantized tensor is a `TensorImpl` of strided layout and a quantized dtype, with a Quantized key in place of Dense,
so that no dense kernel is ever asked to serve it. Its `_data` is a `Quantized` record. Views have records of their own
over the same memory. The quantizer is not in the spec: plans hold for all scales, and kernels read it when called.
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
"""The dtype in which each quantized dtype keeps its integers; of quint4x2 two share a byte."""

QUANTIZED_AS: Final = {int8: qint8, uint8: quint8, int32: qint32}
"""The quantized dtype that keeps its integers in a dtype."""

LIMITS: Final = {
    qint8: (-128, 127),
    quint8: (0, 255),
    qint32: (-(1 << 31), (1 << 31) - 1),
    quint4x2: (0, 15),
}
"""The least and the greatest integer of each quantized dtype."""

LEAST_ROW_SCALE: Final = 2.0**-23
"""What a row of zeros has for a scale: float32's distance between 1 and the next number."""


class PerTensorAffine(Record):
    """One scale and zero point: an integer q stands for (q - zero_point) * scale."""

    scale: float
    zero_point: int

    scheme = schemes.per_tensor_affine


class PerChannel:
    """A scale and a zero point for each index of one dimension.

    Args:
        scales: of one dimension: float64, or float32 where zero points are floating too.
        zero_points: int64, or float32, of the same length.
        axis: the dimension.
    """

    __slots__ = ("axis", "scales", "zero_points")

    scheme = schemes.per_channel_affine

    def __init__(self, scales: TensorImpl, zero_points: TensorImpl, axis: int) -> None:
        self.scales = scales
        self.zero_points = zero_points
        self.axis = axis


class PerChannelAffine(PerChannel):
    """An integer q of channel c stands for (q - zero_points[c]) * scales[c]."""

    __slots__ = ()


class PerChannelAffineFloatQParams(PerChannel):
    """The same with zero points that are no integers."""

    __slots__ = ()

    scheme = schemes.per_channel_affine_float_qparams


Quantizer = PerTensorAffine | PerChannelAffine | PerChannelAffineFloatQParams


class Quantized:
    """Integers and what they stand for. It is replaced whole, never changed.

    Args:
        ints: a dense tensor of the quantized tensor's sizes and strides; of quint4x2 its bytes, of one dimension, with
            elements of even index in the lower halves.
        quantizer: how to read them.
    """

    __slots__ = ("ints", "quantizer")

    def __init__(self, ints: TensorImpl, quantizer: Quantizer) -> None:
        self.ints = ints
        self.quantizer = quantizer

    @property
    def base(self) -> Any:
        """The array or pointer that owns the memory, as `storage.root_of` asks for it."""
        data = self.ints._data
        return data if data is None or data.base is None else data.base

    @property
    def __array_interface__(self) -> Any:
        data = self.ints._data
        if isinstance(data, DataPtr):
            return {"data": (data.address, False)}
        return data.__array_interface__


def quantized_spec(ints: TensorSpec, dtype: ScalarType, sizes: tuple[int, ...] | None = None) -> TensorSpec:
    """The spec of a quantized tensor over integers of this spec; packed ones need its sizes."""
    if sizes is None:
        sizes, strides = ints.sizes, ints.strides
    else:
        strides = contiguous_strides(sizes)
    return TensorSpec.of(
        sizes, strides, dtype, ints.device, is_inference=ints.is_inference, keys=QUANTIZED_BIT
    )
