"""16-bit and 8-bit floats: computed in float32 and rounded to nearest even; complex32: in complex64.

ml_dtypes' own ufuncs are slow and hold the GIL; casts to and from float32 are quick.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..runtime.scalar_type import (
    bfloat16,
    complex32,
    complex64,
    dtype,
    float8_e4m3fn,
    float8_e4m3fnuz,
    float8_e5m2,
    float8_e5m2fnuz,
    float16,
    float32,
    float64,
    is_only_stored,
    on_register,
    registered,
)
from .plain_numpy import np

NARROW = {float16, bfloat16, float8_e4m3fn, float8_e5m2, float8_e4m3fnuz, float8_e5m2fnuz}
"""With them the dtypes that users register to be computed in float32."""
FLOAT32 = np.dtype(np.float32)
COMPLEX64 = np.dtype(np.complex64)
FULL_FLOATS = (float32, float64)
"""The floats in which nothing is rounded between the steps of a composite."""


def compute_dtype(d: dtype) -> dtype:
    """The dtype in which a kernel computes: a wider one for the narrow floats and complex32, else the dtype itself."""
    return float32 if d in NARROW else complex64 if d is complex32 else d


def compute_np(d: dtype) -> Any:
    """`compute_dtype` as NumPy has it."""
    return FLOAT32 if d in NARROW else COMPLEX64 if d is complex32 else d.np


def _widen_too(d: dtype, promotes: Mapping[dtype, dtype]) -> None:
    if registered[d] is float32:
        NARROW.add(d)


on_register.append(_widen_too)
for _registered in tuple(registered):
    _widen_too(_registered, {})


def comparable_np(d: dtype) -> Any:
    """The NumPy dtype in which two elements are told apart: that of `cast_by` for what is only stored."""
    return cast_by(d) if d in registered or is_only_stored(d) else compute_np(d)


def cast_by(d: dtype) -> Any:
    """The NumPy dtype by way of which a registered dtype is converted, which holds all that it can."""
    if d.is_floating_point:
        return FLOAT32 if d.itemsize <= 2 else np.dtype(np.float64)
    return np.dtype(np.int64 if d.is_signed else np.uint64)


HALVES_FROM = 1 << 12
"""Elements from which float16 is widened by `widened_halves`."""
_BELOW_SIGN = np.uint16(0x7FFF)
_INFINITE_HALF = 0x7C00
_SIGN_AND_SHIFTED = np.int32(0x8FFFE000 - (1 << 32))
_REBIAS = np.float32(2.0**112)
_EXPONENT = np.int32(0x7F800000)


def widened_halves(array: Any) -> Any:
    """float16 as float32, exactly: NumPy's own cast takes one element at a time, these passes whole vectors.

    The bits move to float32's places, and a product with 2**112 makes up for the other bias, of subnormal numbers too.
    What stays is the exponent of infinities and NaN.
    """
    if not array.flags.c_contiguous:
        array = np.ascontiguousarray(array)
    magnitude = array.view(np.uint16) & _BELOW_SIGN
    bits = array.view(np.int16).astype(np.int32)
    bits <<= 13
    bits &= _SIGN_AND_SHIFTED
    wide = bits.view(np.float32)
    wide *= _REBIAS
    if magnitude.size and magnitude.max() >= _INFINITE_HALF:
        bits[magnitude >= _INFINITE_HALF] |= _EXPONENT
    return wide
