"""Number formats for Triton's interpreter: NumPy types that compute, conversions as an NVIDIA GPU makes them.

Triton's own interpreter keeps bfloat16 and float8 as integers and converts them by truncation. Here they are
`ml_dtypes` arrays, so that arithmetic, comparisons and conversions are those of the format. Source of the
conversions' edge cases: the `cvt` instruction in NVIDIA's PTX ISA, as Triton 3.9 emits it for sm_90.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import triton.language as tl

Array = np.ndarray[Any, Any]

NUMPY_TYPES: dict[Any, np.dtype[Any]] = {
    tl.int1: np.dtype(np.bool_),
    tl.int8: np.dtype(np.int8),
    tl.uint8: np.dtype(np.uint8),
    tl.int16: np.dtype(np.int16),
    tl.uint16: np.dtype(np.uint16),
    tl.int32: np.dtype(np.int32),
    tl.uint32: np.dtype(np.uint32),
    tl.int64: np.dtype(np.int64),
    tl.uint64: np.dtype(np.uint64),
    tl.float16: np.dtype(np.float16),
    tl.bfloat16: np.dtype(ml_dtypes.bfloat16),
    tl.float32: np.dtype(np.float32),
    tl.float64: np.dtype(np.float64),
    tl.float8e5: np.dtype(ml_dtypes.float8_e5m2),
    tl.float8e4nv: np.dtype(ml_dtypes.float8_e4m3fn),
}
"""AMD's float8 formats and fp8e4b15 are missing on purpose: triten's kernels have no use for them."""

FLOAT8_MAX = {NUMPY_TYPES[tl.float8e5]: 57344.0, NUMPY_TYPES[tl.float8e4nv]: 448.0}
"""The largest finite number of each float8 format."""
BFLOAT16 = NUMPY_TYPES[tl.bfloat16]
FLOAT32 = NUMPY_TYPES[tl.float32]
FLOAT64 = NUMPY_TYPES[tl.float64]
_UNSIGNED: dict[int, np.dtype[Any]] = {1: np.dtype(np.uint8), 2: np.dtype(np.uint16)}
_POISON_BYTE = 0xCB
_TF32_DROPPED = 13


def numpy_type(triton_type: Any) -> np.dtype[Any]:
    """Return the NumPy type that holds a Triton type; a pointer is a uint64. Raise TypeError for an unknown one."""
    if isinstance(triton_type, tl.block_type):
        triton_type = triton_type.element_ty
    if isinstance(triton_type, tl.pointer_type):
        return NUMPY_TYPES[tl.uint64]
    dtype: np.dtype[Any] | None = NUMPY_TYPES.get(triton_type)
    if dtype is not None:
        return dtype
    raise TypeError(f"the interpreter has no number format for Triton's type {triton_type}")


def storage_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the plain NumPy type of the same width, which code outside NumPy understands."""
    if dtype == BFLOAT16 or dtype in FLOAT8_MAX:
        return _UNSIGNED[dtype.itemsize]
    return dtype


def is_float(dtype: np.dtype[Any]) -> bool:
    """Return True if a type holds floating-point numbers."""
    return dtype.kind == "f" or dtype == BFLOAT16 or dtype in FLOAT8_MAX


def poison(dtype: np.dtype[Any]) -> Array:
    """Return the value of a masked-off lane: NaN, or an implausible bit pattern for integers."""
    if is_float(dtype):
        return np.array(np.nan, dtype)
    if dtype.kind == "b":
        return np.array(True)
    return np.frombuffer(bytes([_POISON_BYTE]) * dtype.itemsize, dtype)[0]  # type: ignore[no-any-return]


def extremum(ufunc: np.ufunc, left: Array, right: Array) -> Array:
    """Return the minimum or maximum of two arrays, where -0.0 is less than 0.0 (`min` and `max` in the PTX ISA)."""
    result: Array = ufunc(left, right)
    if not is_float(result.dtype):
        return result
    zeros = result == 0
    if not zeros.any():
        return result
    negative = ufunc in (np.minimum, np.fmin)
    decisive = (left == 0) & (np.signbit(left) == negative) | (right == 0) & (np.signbit(right) == negative)
    signed = np.array([0.0, -0.0], result.dtype)[(decisive == negative).astype(np.intp)]
    return np.where(zeros, signed, result)


def flush_subnormals(data: Array) -> Array:
    """Return float32 with zeros of the same sign for subnormal numbers (`.ftz` in the PTX ISA)."""
    return np.where(np.abs(data) < np.finfo(np.float32).tiny, np.copysign(np.float32(0), data), data)


def convert(data: Array, target: np.dtype[Any], toward_zero: bool = False) -> Array:
    """Convert as the GPU does.

    Floats round to nearest even, or toward zero if asked; to float8 they saturate at the largest finite
    number. Floats to integers truncate and saturate. Integers wrap. Raises TypeError for float64 to float8,
    which Triton does not compile.
    """
    source = data.dtype
    if source == target:
        return data
    if not is_float(target):
        return _float_to_integer(data, target) if is_float(source) else data.astype(target)
    if not is_float(source) and (target == BFLOAT16 or target in FLOAT8_MAX):
        data = data.astype(np.float32)
    if target in FLOAT8_MAX:
        if source == FLOAT64:
            raise TypeError(f"Triton compiles no conversion from float64 to {target.name}")
        limit = FLOAT8_MAX[target]
        data = np.clip(data.astype(np.float32), -limit, limit)
    elif source == FLOAT64 and target == BFLOAT16 and not toward_zero:
        data = _round_to_odd(data)
    result = data.astype(target)
    return _step_toward_zero(result, data) if toward_zero and target.itemsize < source.itemsize else result


def _round_to_odd(data: Array) -> Array:
    """Convert float64 to float32, truncated with a sticky last bit, so that a second rounding is correct."""
    result = data.astype(np.float32)
    back = result.astype(np.float64)
    bits = result.view(np.uint32)
    bits = np.where(np.abs(back) > np.abs(data), bits - np.uint32(1), bits)
    inexact = (back != data) & ~np.isnan(data)
    odd: Array = (bits | inexact).astype(np.uint32).view(np.float32)
    return odd


def _step_toward_zero(rounded: Array, exact: Array) -> Array:
    """Undo a rounding away from zero: one unit less of magnitude is one less in the bit pattern."""
    bits = rounded.view(f"u{rounded.dtype.itemsize}")
    too_far = np.abs(rounded.astype(np.float64)) > np.abs(exact.astype(np.float64))
    nearer: Array = (bits - too_far.astype(bits.dtype)).view(rounded.dtype)
    return nearer


def _float_to_integer(data: Array, target: np.dtype[Any]) -> Array:
    """Truncate and saturate; 8-bit targets saturate at 16 bits and then wrap: PTX converts to no fewer."""
    width = max(target.itemsize, 2)
    wide = np.dtype(f"{target.kind}{width}")
    limits = np.iinfo(wide)
    value = np.trunc(data.astype(np.float64))
    above, below, nan = (
        value >= 2.0**limits.bits / (2 if wide.kind == "i" else 1),
        value < limits.min,
        np.isnan(value),
    )
    result = np.where(above | below | nan, 0.0, value).astype(wide)
    result = np.where(above, limits.max, np.where(below, limits.min, result)).astype(wide)
    if nan.any() and (data.dtype == FLOAT64 or width == 8):
        result = np.where(nan, np.array(1 << (limits.bits - 1), f"u{width}").view(wide), result)
    return result.astype(target)


def round_to_tf32(data: Array) -> Array:
    """Round float32 to TF32's 10 bits of mantissa, halves away from zero (`cvt.rna.tf32.f32`)."""
    bits = data.view(np.uint32)
    half, keep = np.uint32(1 << (_TF32_DROPPED - 1)), np.uint32(0xFFFFFFFF << _TF32_DROPPED & 0xFFFFFFFF)
    return np.where(np.isfinite(data), ((bits + half) & keep).view(np.float32), data)
