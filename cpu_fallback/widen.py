"""Compute dtypes: 16-bit and 8-bit floats compute in float32 and round to nearest even; complex32 in complex64.

ml_dtypes' own ufuncs are slow and hold the GIL; casts to and from float32 are fast.
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
    """Return the compute dtype: float32 for 16-bit and 8-bit floats, complex64 for complex32, else the dtype
    itself.
    """
    return float32 if d in NARROW else complex64 if d is complex32 else d


def compute_np(d: dtype) -> Any:
    """Return `compute_dtype` as a NumPy dtype."""
    return FLOAT32 if d in NARROW else COMPLEX64 if d is complex32 else d.np


def _widen_too(d: dtype, promotes: Mapping[dtype, dtype]) -> None:
    if registered[d] is float32:
        NARROW.add(d)


on_register.append(_widen_too)
for _registered in tuple(registered):
    _widen_too(_registered, {})


def comparable_np(d: dtype) -> Any:
    """Return the NumPy dtype of comparisons: that of `cast_by` for storage-only dtypes."""
    return cast_by(d) if d in registered or is_only_stored(d) else compute_np(d)


def cast_by(d: dtype) -> Any:
    """Return the NumPy dtype through which a registered dtype is converted; it holds all of its values."""
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
    """Widen float16 to float32 exactly, in vector passes; NumPy's own cast takes one element at a time.

    The bits move to float32's positions, and a multiplication by 2**112 corrects the bias, also of
    subnormals. The exponent of infinities and NaN is handled separately.
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
