"""Pickling and deep copies of quantized tensors: integers over a storage, and the quantizer (torch/_tensor.py)."""

from __future__ import annotations

import copy
from typing import Any

from ...runtime.qscheme import per_channel_affine_float_qparams, per_tensor_affine
from ...runtime.quantized_data import PerChannelAffine, PerChannelAffineFloatQParams, PerTensorAffine
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.scalar_type import quint4x2
from ..composite.quantized import quantized_tensor


def copied_quantized(tensor: Any, memo: dict[int, Any]) -> Any:
    """Return a deep copy; tensors whose integers share memory still share it afterwards."""
    known = memo.get(id(tensor))
    if known is not None:
        return known
    data = tensor._data
    scheme, *parts = parts_of(data.quantizer)
    parts = [each.clone() if hasattr(each, "_spec") else each for each in parts]
    made = rebuilt_quantized(
        copy.deepcopy(data.ints.detach(), memo), (scheme, *parts), tensor.dtype, tuple(tensor.shape)
    )
    memo[id(tensor)] = made
    attributes = vars(tensor)
    if attributes:
        made.__dict__.update(copy.deepcopy(attributes, memo))
    return made


def reduced_quantized(tensor: Any) -> tuple[Any, ...]:
    """Return the reduce value of a quantized tensor for `pickle`."""
    data = tensor._data
    parts = parts_of(data.quantizer)
    return (
        rebuilt_quantized,
        (data.ints.detach(), parts, tensor.dtype, tuple(tensor.shape)),
        vars(tensor) or None,
    )


def parts_of(quantizer: Any) -> tuple[Any, ...]:
    """Return a quantizer in PyTorch's file form: scheme, scale, zero point, and the channel dimension."""
    if isinstance(quantizer, PerTensorAffine):
        return quantizer.scheme, quantizer.scale, quantizer.zero_point
    return quantizer.scheme, quantizer.scales, quantizer.zero_points, quantizer.axis


def rebuilt_quantized(ints: Any, parts: tuple[Any, ...], dtype: ScalarType, sizes: tuple[int, ...]) -> Any:
    """Return the tensor of integers and the result of `parts_of`, without checks."""
    scheme, *rest = parts
    if scheme is per_tensor_affine:
        quantizer: Any = PerTensorAffine(*rest)
    elif scheme is per_channel_affine_float_qparams:
        quantizer = PerChannelAffineFloatQParams(*rest)
    else:
        quantizer = PerChannelAffine(*rest)
    return quantized_tensor(ints, quantizer, dtype, sizes if dtype is quint4x2 else None)
