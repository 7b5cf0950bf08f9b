"""Conversion of Python numbers to elements of a dtype, with PyTorch's range checks (c10/core/Scalar.h)."""

from __future__ import annotations

import cmath
import math
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from ..runtime.exponent_format import LARGEST, SMALLEST, to_exponents
from ..runtime.scalar_type import EXPONENTS, PACKED, SUB_BYTE, from_numpy_dtype, integer_limits
from ..runtime.scalar_type import dtype as ScalarType

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


_C_NAMES = {
    "bool": "bool",
    "uint8": "uint8_t",
    "int8": "int8_t",
    "int16": "int16_t",
    "int32": "int",
    "int64": "int64_t",
    "uint16": "uint16_t",
    "uint32": "uint32_t",
    "uint64": "uint64_t",
    "float16": "c10::Half",
    "bfloat16": "c10::BFloat16",
    "float32": "float",
    "float64": "double",
    "complex32": "c10::complex<c10::Half>",
    "complex64": "c10::complex<float>",
    "complex128": "c10::complex<double>",
    "float8_e4m3fn": "c10::Float8_e4m3fn",
    "float8_e4m3fnuz": "c10::Float8_e4m3fnuz",
    "float8_e5m2": "c10::Float8_e5m2",
    "float8_e5m2fnuz": "c10::Float8_e5m2fnuz",
    "float8_e8m0fnu": "c10::Float8_e8m0fnu",
}


def readable(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array that NumPy can convert to Python numbers: ml_dtypes elements are widened exactly."""
    if array.dtype.kind in "biufc":
        return array
    if array.dtype.names:
        raise NotImplementedError(f"\"_local_scalar_dense_cpu\" not implemented for '{array.dtype.names[0]}'")
    dtype = from_numpy_dtype(array.dtype)
    if dtype is PACKED:
        # PyTorch also shows the bytes as floats.
        return array.view(np.uint8).astype(np.float32)
    if dtype.is_complex:
        return array.astype(np.complex64)
    if dtype.is_integral:
        return array.astype(np.int64)
    return array.astype(np.float32 if dtype.itemsize <= 2 else np.float64)


def overflow_error(dtype: ScalarType) -> RuntimeError:
    """Return PyTorch's error for a number that a dtype cannot hold."""
    return RuntimeError(
        f"value cannot be converted to type {_C_NAMES.get(dtype.name, dtype.scalar_name)} without overflow"
    )


def check_integer(value: Any, dtype: ScalarType) -> None:
    """Raise PyTorch's RuntimeError for an int that an integral dtype cannot hold.

    Negative ints may wrap around in an unsigned dtype.
    """
    limits = integer_limits(dtype)
    if value.__class__ is int and not min(limits.min, -limits.max) <= value <= limits.max:
        raise overflow_error(dtype)


def truncated(value: float, name: str) -> int:
    """Truncate a Python number to an integer, for the integral dtype `name`.

    Raises PyTorch's RuntimeError for infinities and NaN.
    """
    try:
        return int(value)
    except (ValueError, OverflowError):
        raise RuntimeError(
            f"value cannot be converted to type {_C_NAMES.get(name, name)} without overflow"
        ) from None


def real(value: Any, name: str = "double") -> Any:
    """Return a number without its imaginary part, for the real dtype that C calls `name`.

    Raises PyTorch's RuntimeError for a nonzero imaginary part.
    """
    if value.__class__ is not complex:
        return value
    if value.imag:
        raise RuntimeError(f"value cannot be converted to type {name} without overflow")
    return value.real


def rounded(value: float, dtype: ScalarType) -> float:
    """Round a number to the nearest one of a floating dtype, infinite beyond the largest."""
    with np.errstate(over="ignore"):
        return float(np.float64(value).astype(dtype.np))


ROUNDED_IN_WHERE = frozenset({"bool", "float16", "bfloat16"})
"""Dtypes to which `where` converts any number, as in PyTorch; others reject a number that they cannot hold."""

MAX_FITTING = 256


def fitting_number(dtype: ScalarType) -> Callable[[Any], Any]:
    """Return a function that returns a Python number, or raises RuntimeError if `dtype` cannot hold it.

    A real dtype accepts a complex number without an imaginary part. The function caches accepted numbers.
    """
    known: set[Any] = set()
    is_real = not dtype.is_complex

    def checked(value: Any) -> Any:
        if value not in known:
            element_of(value, dtype)
            if len(known) < MAX_FITTING:
                known.add(value)
        return value.real if is_real and value.__class__ is complex else value

    return checked


def element_of(value: Any, dtype: ScalarType) -> NDArray[Any]:
    """Convert a Python number to a 0-d array of `dtype`.

    Floats are truncated towards zero for integral dtypes; a negative integer wraps for an unsigned one. Infinities
    and NaN pass to floating dtypes.

    Raises:
        RuntimeError: The number is out of the dtype's range (NaN is out of every integral one), or has an imaginary
            part
            while the dtype is real.
        OverflowError: An integer has more than 64 bits.
    """
    if dtype.name == "bool":
        return np.array(bool(value), dtype.np)
    if dtype is PACKED or dtype in SUB_BYTE:
        raise NotImplementedError(f"\"copy_\" not implemented for '{dtype.scalar_name}'")
    if isinstance(value, complex) and not dtype.is_complex:
        if value.imag != 0:
            raise overflow_error(dtype)
        value = value.real
    if dtype.is_complex:
        number = complex(value)
        if cmath.isfinite(number):
            limit = float(np.finfo(dtype.to_real().np).max)
            if abs(number.real) > limit or abs(number.imag) > limit:
                raise overflow_error(dtype)
        return np.array(number, dtype.np)
    if dtype.is_floating_point:
        number = float(value)
        if dtype is EXPONENTS:
            if not (math.isnan(number) or SMALLEST <= number <= LARGEST):
                raise overflow_error(dtype)
            return to_exponents(number)  # type: ignore[no-any-return]
        limits: Any = ml_dtypes.finfo(dtype.np)  # type: ignore[no-untyped-call]  # ml_dtypes has no types here
        if math.isfinite(number) and abs(number) > float(limits.max):
            raise overflow_error(dtype)
        return np.array(number, dtype.np)
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        raise OverflowError(f"int too big to convert: expected 64 bits, got {value}")
    limits = integer_limits(dtype)
    if isinstance(value, float) and not limits.min <= value <= limits.max:
        raise overflow_error(dtype)
    whole = int(value)
    if limits.min == 0 and -limits.max <= whole < 0:
        whole += int(limits.max) + 1
    if not limits.min <= whole <= limits.max:
        raise overflow_error(dtype)
    return np.array(whole, dtype.np)
