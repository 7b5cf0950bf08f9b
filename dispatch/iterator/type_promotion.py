"""To be replaced by the full module."""

from __future__ import annotations

from typing import Any

from ...runtime import scalar_type as st
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.scalar_type import dtype_of_number
from ...runtime.tensor_spec import TensorSpec

_cache: dict[Any, ScalarType] = {}
_ORDER = [
    st.uint8,
    st.int8,
    st.int16,
    st.int32,
    st.int64,
    st.float16,
    st.bfloat16,
    st.float32,
    st.float64,
    st.complex64,
    st.complex128,
]


def promote_types(a: ScalarType, b: ScalarType) -> ScalarType:
    if a is b:
        return a
    if a is st.bool_:
        return b
    if b is st.bool_:
        return a
    if a.is_complex or b.is_complex:
        wide = st.float64 in (a, b) or st.complex128 in (a, b)
        return st.complex128 if wide else st.complex64
    if a.is_floating_point and b.is_floating_point:
        if a.itemsize == b.itemsize:
            return st.float32
        return a if a.itemsize > b.itemsize else b
    if a.is_floating_point:
        return a
    if b.is_floating_point:
        return b
    if a.is_signed == b.is_signed:
        return a if a.itemsize > b.itemsize else b
    u, s = (b, a) if a.is_signed else (a, b)
    if s.itemsize > u.itemsize:
        return s
    return {1: st.int16, 2: st.int32, 4: st.int64}[u.itemsize]


def category(d: ScalarType) -> int:
    return 3 if d.is_complex else 2 if d.is_floating_point else 1 if d.is_integral else 0


def result_type_of(operands: Any) -> ScalarType:
    dim = zero = wrapped = None
    for o in operands:
        if isinstance(o, TensorSpec):
            if o.ndim:
                dim = o.dtype if dim is None else promote_types(dim, o.dtype)
            else:
                zero = o.dtype if zero is None else promote_types(zero, o.dtype)
        else:
            d = dtype_of_number(o)
            wrapped = d if wrapped is None else promote_types(wrapped, d)

    def combine(higher: Any, lower: Any) -> Any:
        if higher is None:
            return lower
        if lower is None or category(higher) >= category(lower):
            return higher
        if category(lower) == 3 and higher.is_floating_point:
            return promote_types(higher, st.complex64) if higher is st.float64 else higher.to_complex()
        return lower

    out = combine(dim, combine(zero, wrapped))
    assert out is not None
    return out


def result_type(a: Any, b: Any) -> ScalarType:
    """interim"""
    return result_type_of([x._spec if hasattr(x, "_spec") else x.__class__ for x in (a, b)])


def can_cast(a: ScalarType, b: ScalarType) -> bool:
    """interim"""
    return category(a) <= category(b)
