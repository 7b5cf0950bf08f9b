"""Numbers among the operands of a plan as 0-d arrays, converted once and remembered."""

from __future__ import annotations

import math
from typing import Any

from ...dispatch.scalars import ROUNDED_IN_WHERE, element_of, truncated
from ...dispatch.structured.complex_half import SCALES
from ...dispatch.structured.stub import StructuredCall
from ...runtime.float_errors import quietly
from ...runtime.scalar_type import Number, complex32, float32, from_numpy_dtype
from ...runtime.scalar_type import dtype as ScalarType
from ..plain_numpy import np

Array = np.ndarray[Any, np.dtype[Any]]

MAX_CONSTANTS = 256

_made_array = quietly(np.array)


class Constants(dict[Any, Any]):
    """Python numbers of one class as 0-d arrays of a dtype, remembered by value.

    Integers wrap as C casts them. Float zeros stand apart by their signs: -0.0 would be found as 0.0.
    """

    __slots__ = ("_zeros", "np_dtype", "signed_zero")

    def __init__(self, np_dtype: np.dtype[Any], kind: type) -> None:
        self.np_dtype = np_dtype
        self.signed_zero = kind is not int and kind is not bool
        self._zeros: dict[float, Array] = {}

    def __missing__(self, value: Number) -> Array:
        if value.__class__ is float and value == 0.0:
            sign = math.copysign(1.0, value)
            made = self._zeros.get(sign)
            if made is None:
                made = self._zeros[sign] = self.converted(value)
            return made
        made = self.converted(value)
        if (value != 0 or not self.signed_zero) and value == value and len(self) < MAX_CONSTANTS:
            self[value] = made
        return made

    def converted(self, value: Number) -> Array:
        """Return a number as an array."""
        np_dtype = self.np_dtype
        if value.__class__ is int and not -(1 << 63) <= value < 1 << 64:
            raise OverflowError(f"int too big to convert: expected 64 bits, got {value}")
        if value.__class__ is complex and np_dtype.kind != "c" and np_dtype != complex32.np:
            name = {"float32": "float", "float64": "double"}.get(np_dtype.name, np_dtype.name)
            raise RuntimeError(f"value cannot be converted to type {name} without overflow")
        if np_dtype.kind in "iu":
            bits = 8 * np_dtype.itemsize
            wrapped = truncated(value, np_dtype.name) & ((1 << bits) - 1)
            if np_dtype.kind == "i" and wrapped >> (bits - 1):
                wrapped -= 1 << bits
            return np.array(wrapped, np_dtype)
        return _made_array(value, np_dtype)


class RangedConstants(Constants):
    """`Constants` that refuse what their dtype cannot hold, with RuntimeError, as bounds and scales are refused.

    A complex number without an imaginary part is a real one to a real dtype.
    """

    __slots__ = ("dtype",)

    def __init__(self, np_dtype: np.dtype[Any], kind: type, dtype: ScalarType) -> None:
        super().__init__(np_dtype, kind)
        self.dtype = dtype

    def converted(self, value: Number) -> Array:
        element_of(value, self.dtype)
        if value.__class__ is complex and not self.dtype.is_complex:
            value = value.real  # its imaginary part is 0
        return super().converted(value)


class RoundedConstants(Constants):
    """`Constants` rounded to a 16-bit dtype before they widen; a scale must be in its range."""

    __slots__ = ("narrow", "ranged")

    def __init__(
        self, np_dtype: np.dtype[Any], kind: type, narrow: np.dtype[Any], ranged: ScalarType | None = None
    ) -> None:
        super().__init__(np_dtype, kind)
        self.narrow, self.ranged = narrow, ranged

    def converted(self, value: Number) -> Array:
        super().converted(value)
        if self.ranged is not None:
            element_of(value, self.ranged)
        number = self.narrow.type(value)
        return np.array(complex(number) if self.np_dtype.kind == "c" else float(number), self.np_dtype)


BOUNDED = frozenset({"clamp", "clamp_max", "clamp_min", "hardshrink", "softshrink"})
"""Operators whose numbers must be in the range of the common dtype."""


SUMS = frozenset({"add", "rsub", "sub"})
"""Operators whose scale must be in that range too."""
CONVERTING = frozenset({"elu", "leaky_relu", "lerp", "softplus", "threshold"})
"""Operators whose numbers must be in the range of the dtype that is computed in: float32 where theirs is narrow."""


def constants_for(call: StructuredCall, name: str, np_dtype: np.dtype[Any], kind: type) -> Constants:
    """Return the constants of an argument; a scale must be in the range of the compute dtype."""
    operator = call.name.rstrip("_")
    is_sum = name == "alpha" and (operator in SUMS or np_dtype.kind in "iu")
    if operator in BOUNDED or is_sum or (operator == "threshold" and name == "value"):
        return RangedConstants(np_dtype, kind, call.common_dtype)
    if call.name == "where" and call.common_dtype.name not in ROUNDED_IN_WHERE:
        return RangedConstants(np_dtype, kind, call.common_dtype)
    if np_dtype.kind in "fc" and (name in SCALES or operator in CONVERTING):
        wide = float32 if np_dtype.itemsize < 4 else from_numpy_dtype(np_dtype)
        return RangedConstants(np_dtype, kind, wide)
    return Constants(np_dtype, kind)
