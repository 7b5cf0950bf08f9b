"""Fill values for elements that an operator leaves uninitialized, under `tt.use_deterministic_algorithms`."""

from __future__ import annotations

import math
from typing import Any

from ...runtime.scalar_type import PACKED, QUANTIZED, SUB_BYTE, Number, bool_, integer_limits
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.storage import Storage, view_at
from ...runtime.tensor_spec import TensorSpec
from ..tensor import Tensor
from .stub import StructuredCall, find_kernel, has_kernel


def _value(dtype: ScalarType) -> Number:
    """Return NaN, the largest integer, or True."""
    if dtype is bool_:
        return True
    if dtype.is_complex:
        return complex(math.nan, 0.0)
    return math.nan if dtype.is_floating_point else int(integer_limits(dtype).max)


def fill_uninitialized(data: Any, spec: TensorSpec) -> None:
    """Write the value of the dtype to all elements. Meta tensors and dtypes below a byte have no elements to write."""
    if spec.is_meta or spec.dtype is PACKED or spec.dtype in SUB_BYTE or spec.dtype in QUANTIZED:
        return
    value, device = _value(spec.dtype), spec.device
    if has_kernel("fill_stub", device.type):
        call = StructuredCall(
            "fill", {"self": spec, "value": type(value)}, ("value",), (spec,), None, device, {}
        )
        find_kernel("fill_stub", device.type, "fill_")(call).into(data, value)
    else:
        from ..generated.functions import fill_

        fill_(Tensor.from_data(data, spec), value)


def fill_behind(storage: Storage, nbytes: int, like: TensorSpec) -> None:
    """Fill the elements of a storage after its first bytes, once it has grown."""
    first = -(-nbytes // like.itemsize)
    count = storage.nbytes() // like.itemsize - first
    if count > 0:
        spec = TensorSpec.contiguous((count,), like.dtype, like.device)
        fill_uninitialized(view_at(storage, first * like.itemsize, spec), spec)
