"""Type promotion by PyTorch's rules (c10/core/ScalarType.cpp promoteTypes, ATen/native/TypeProperties.cpp).

Operands come in three ranks: tensors with dimensions, 0-d tensors, Python numbers. A lower rank changes the
result only if its category (bool < integral < floating < complex) is higher.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...runtime.scalar_type import (
    bool_,
    complex64,
    complex128,
    dtype_of_number,
    float8_e4m3fn,
    float8_e5m2,
    float32,
    float64,
    int16,
    int32,
    int64,
    uint16,
    uint32,
    uint64,
)
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.tensor_impl import TensorImpl
from ...runtime.tensor_spec import TensorSpec

_FLOAT8 = frozenset({float8_e4m3fn, float8_e5m2})
_BARE_UNSIGNED = frozenset({uint16, uint32, uint64})
_SIGNED_ABOVE = {1: int16, 2: int32, 4: int64}
_pairs: dict[tuple[ScalarType, ScalarType], ScalarType] = {}


def promote_types(type1: ScalarType, type2: ScalarType) -> ScalarType:
    """The smallest dtype that both dtypes go into (`torch.promote_types`).

    Raises RuntimeError for the pairs that PyTorch does not promote (float8, and uint16/32/64 with integers).

    >>> from triten.runtime.scalar_type import float32, int64
    >>> promote_types(int64, float32)
    triten.float32
    """
    found = _pairs.get((type1, type2))
    if found is None:
        for name, value in (("type1", type1), ("type2", type2)):
            if not isinstance(value, ScalarType):
                raise TypeError(
                    f"promote_types(): argument '{name}' must be dtype, not {type(value).__name__}"
                )
        found = _pairs[type1, type2] = _promote(type1, type2)
    return found


def _promote(a: ScalarType, b: ScalarType) -> ScalarType:
    if a is b:
        return a
    if a in _FLOAT8 or b in _FLOAT8:
        raise RuntimeError(
            "Promotion for Float8 Types is not supported, attempted to promote "
            f"{a.scalar_name} and {b.scalar_name}"
        )
    if a in _BARE_UNSIGNED or b in _BARE_UNSIGNED:
        other = b if a in _BARE_UNSIGNED else a
        if other.is_floating_point and other not in _BARE_UNSIGNED:
            return other
        raise RuntimeError(
            "Promotion for uint16, uint32, uint64 types is not supported, attempted to promote "
            f"{a.scalar_name} and {b.scalar_name}"
        )
    if a is bool_:
        return b
    if b is bool_:
        return a
    if a.is_complex or b.is_complex:
        return complex128 if complex128 in (a, b) or float64 in (a, b) else complex64
    if a.is_floating_point and b.is_floating_point:
        if a.itemsize == b.itemsize:
            return float32
        return a if a.itemsize > b.itemsize else b
    if a.is_floating_point or b.is_floating_point:
        return a if a.is_floating_point else b
    if a.is_signed == b.is_signed:
        return a if a.itemsize > b.itemsize else b
    signed, unsigned = (a, b) if a.is_signed else (b, a)
    return signed if signed.itemsize > unsigned.itemsize else _SIGNED_ABOVE[unsigned.itemsize]


def can_cast(from_: ScalarType, to: ScalarType) -> bool:
    """Whether a result of one dtype may be written to another: not to a lower category (`torch.can_cast`).

    >>> from triten.runtime.scalar_type import float32, int64
    >>> can_cast(float32, int64), can_cast(int64, float32)
    (False, True)
    """
    for name, value in (("from_", from_), ("to", to)):
        if not isinstance(value, ScalarType):
            raise TypeError(f"can_cast(): argument '{name}' must be dtype, not {type(value).__name__}")
    if from_.is_complex and not to.is_complex:
        return False
    if from_.is_floating_point and (to.is_integral or to is bool_):
        return False
    return from_ is bool_ or to is not bool_


def category(d: ScalarType) -> int:
    """0 bool, 1 integral, 2 floating, 3 complex."""
    return 3 if d.is_complex else 2 if d.is_floating_point else 1 if d.is_integral else 0


def _combine(higher: ScalarType | None, lower: ScalarType | None) -> ScalarType | None:
    """A result that prefers `higher` where it is of no lower category (combine_categories)."""
    if higher is None:
        return lower
    if lower is None or category(higher) >= category(lower):
        return higher
    if lower.is_complex and higher.is_floating_point:
        return promote_types(higher, complex64) if higher is float64 else higher.to_complex()
    return lower


def common_dtype(operands: Iterable[TensorSpec | type]) -> ScalarType:
    """The common dtype of specs and classes of Python numbers. Raises ValueError for no operands."""
    dim: ScalarType | None = None
    zero: ScalarType | None = None
    wrapped: ScalarType | None = None
    for operand in operands:
        if isinstance(operand, TensorSpec):
            if operand.ndim:
                dim = operand.dtype if dim is None else promote_types(dim, operand.dtype)
            else:
                zero = operand.dtype if zero is None else promote_types(zero, operand.dtype)
        else:
            number = dtype_of_number(operand)
            wrapped = number if wrapped is None else promote_types(wrapped, number)
    result = _combine(dim, _combine(zero, wrapped))
    if result is None:
        raise ValueError("common_dtype() needs at least one operand")
    return result


def result_type(tensor1: Any, tensor2: Any) -> ScalarType:
    """The dtype of an arithmetic result of two tensors or numbers (`torch.result_type`).

    >>> result_type(1, 2.0)
    triten.float32
    """
    operands: list[TensorSpec | type] = []
    for name, value in (("tensor1", tensor1), ("tensor2", tensor2)):
        if isinstance(value, TensorImpl):
            operands.append(value._spec)
        elif isinstance(value, bool | int | float | complex):
            operands.append(value.__class__)
        else:
            raise TypeError(
                f"result_type(): argument '{name}' must be Tensor or Number, not {type(value).__name__}"
            )
    return common_dtype(operands)
