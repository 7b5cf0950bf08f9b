"""Type promotion by PyTorch's rules (c10/core/ScalarType.cpp, ATen/native/TypeProperties.cpp).

Operands have three ranks: tensors with dimensions, 0-d tensors, Python numbers. A lower rank changes the result only
if its category (bool < integral < floating < complex) is higher.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from ...runtime import scalar_type as st
from ...runtime.scalar_type import Number, dtype_of_number
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.tensor_impl import TensorImpl
from ...runtime.tensor_spec import OVERRIDE_FLAG, TensorSpec
from ..core.tensor_function import handle_tensor_function, has_tensor_function

PromotedOperand: TypeAlias = TensorSpec | type
"""Operand of promotion: a spec, or the class of a Python number (``bool``, ``int``, ``float``, ``complex``)."""

_FLOAT8 = frozenset(
    {
        st.float8_e5m2,
        st.float8_e4m3fn,
        st.float8_e5m2fnuz,
        st.float8_e4m3fnuz,
        st.float8_e8m0fnu,
        st.float4_e2m1fn_x2,
    }
)
_BAREBONES_UNSIGNED = frozenset({st.uint16, st.uint32, st.uint64})
_SIGNED_ABOVE = {1: st.int16, 2: st.int32, 4: st.int64}


def _promote(a: ScalarType, b: ScalarType) -> ScalarType | None:
    """Return the promotion of two dtypes, the rule behind the table; None for a pair that PyTorch rejects."""
    if a is b:
        return a
    if a in _FLOAT8 or b in _FLOAT8:
        return None
    if a in _BAREBONES_UNSIGNED or b in _BAREBONES_UNSIGNED:
        other = b if a in _BAREBONES_UNSIGNED else a
        if not other.is_integral:
            return other if other.is_floating_point else None
        if st.uint64 in (a, b) and a.is_signed != b.is_signed:
            return None
    if a is st.bool_ or b is st.bool_:
        return b if a is st.bool_ else a
    if a.is_complex or b.is_complex:
        parts = {a.to_real(), b.to_real()}
        if st.float64 in parts:
            return st.complex128
        return st.complex64 if st.float32 in parts or st.bfloat16 in parts else st.complex32
    if a.is_floating_point and b.is_floating_point:
        if a.itemsize == b.itemsize:
            return st.float32
        return a if a.itemsize > b.itemsize else b
    if a.is_floating_point or b.is_floating_point:
        return a if a.is_floating_point else b
    if a.is_signed == b.is_signed:
        return a if a.itemsize > b.itemsize else b
    signed, unsigned = (a, b) if a.is_signed else (b, a)
    return signed if signed.itemsize > unsigned.itemsize else _SIGNED_ABOVE[unsigned.itemsize]


_PROMOTED: dict[ScalarType, dict[ScalarType, ScalarType | None]] = {
    a: {b: _promote(a, b) for b in st.ALL} for a in st.ALL
}


def promote_types(type1: ScalarType, type2: ScalarType) -> ScalarType:
    """Return the smallest dtype of the lowest category that holds both (`torch.promote_types`).

    Args:
        type1: A dtype.
        type2: Another one.

    Returns:
        A dtype.

    Raises:
        RuntimeError: The pair does not promote: floats of 8 and 4 bits with anything else; uint16, uint32 or uint64
            with a bool or a complex dtype; and uint64 with a signed integral dtype.
        TypeError: An argument is not a dtype.

    Note:
        PyTorch refuses uint16, uint32 and uint64 beside any other integral dtype. Here the result is the least dtype
        that holds both, as in the Python array API standard.

    Example:
        >>> import triten as tt
        >>> tt.promote_types(tt.int32, tt.float16), tt.promote_types(tt.uint8, tt.int8)
        (triten.float16, triten.int16)
    """
    try:
        promoted = _PROMOTED[type1][type2]
    except (KeyError, TypeError):
        if isinstance(type1, ScalarType) and isinstance(type2, ScalarType):
            return _promote_quantized(type1, type2)
        position = 2 if isinstance(type1, ScalarType) else 1
        type_name = type(type2 if position == 2 else type1).__name__
        raise TypeError(
            f"promote_types(): argument 'type{position}' (position {position}) must be dtype, not {type_name}"
        ) from None
    if promoted is None:
        own = [d.scalar_name for d in (type1, type2) if d in st.registered]
        if own:
            raise RuntimeError(
                f"Promotion for {own[0]} is not supported, attempted to promote {type1.scalar_name} and "
                f"{type2.scalar_name}"
            )
        kind = "Float8 Types" if type1 in _FLOAT8 or type2 in _FLOAT8 else "uint16, uint32, uint64 types"
        raise RuntimeError(
            f"Promotion for {kind} is not supported, attempted to promote "
            f"{type1.scalar_name} and {type2.scalar_name}"
        )
    return promoted


def _promote_quantized(a: ScalarType, b: ScalarType) -> ScalarType:
    """Return the dtype itself for two equal quantized ones. Raises RuntimeError for others."""
    if a is b:
        return a
    raise RuntimeError(
        "promoteTypes with quantized numbers is not handled yet; figure out what the correct rules should be, "
        f"offending types: {a.scalar_name} {b.scalar_name}"
    )


def category(d: ScalarType) -> int:
    """Return 0 for bool, 1 for integral, 2 for floating, 3 for complex dtypes."""
    return 3 if d.is_complex else 2 if d.is_floating_point else 1 if d.is_integral else 0


_CATEGORY = {d: category(d) for d in st.ALL} | dict.fromkeys(st.QUANTIZED, 2) | dict.fromkeys(st.SUB_BYTE, 0)


def can_cast(from_: ScalarType, to: ScalarType) -> bool:
    """Return whether promotion allows a cast from one dtype to another (`torch.can_cast`).

    A cast may not go down the categories complex, floating, integral, bool.

    Args:
        from_: The result's dtype.
        to: The dtype that it would be stored as.

    Returns:
        A bool.

    Raises:
        TypeError: An argument is not a dtype.

    Example:
        >>> import triten as tt
        >>> tt.can_cast(tt.float64, tt.float16), tt.can_cast(tt.float32, tt.int64)
        (True, False)
    """
    try:
        return _CATEGORY[from_] <= _CATEGORY[to]
    except (KeyError, TypeError):
        position, name = (2, "to") if isinstance(from_, ScalarType) else (1, "from_")
        type_name = type(to if position == 2 else from_).__name__
        raise TypeError(
            f"can_cast(): argument '{name}' (position {position}) must be dtype, not {type_name}"
        ) from None


def combine_categories(higher: ScalarType | None, lower: ScalarType | None) -> ScalarType | None:
    """Combine the dtypes of a higher and a lower rank of operands; None stands for a rank without operands."""
    if higher is None or lower is None:
        return lower if higher is None else higher
    if higher.is_complex:
        return higher
    if higher.is_floating_point:
        if not lower.is_complex:
            return higher
        if higher in st.registered:
            return promote_types(higher, lower)
        if higher in _FLOAT8:
            raise RuntimeError(f"Unknown Complex ScalarType for {higher.scalar_name}")
        return higher.to_complex()
    if lower.is_complex:
        return lower
    if higher is st.bool_ or lower.is_floating_point:
        return promote_types(higher, lower)
    return higher


def add_promotions(d: ScalarType, promotes: Mapping[ScalarType, ScalarType]) -> None:
    """Add a registered dtype's row and column to the table; unlisted pairs do not promote."""
    _CATEGORY[d] = category(d)
    _PROMOTED[d] = {other: promotes.get(other) for other in _PROMOTED} | {d: d}
    for other, row in _PROMOTED.items():
        if other is not d:
            row[d] = promotes.get(other)


st.on_register.append(add_promotions)


class ResultTypeState:
    """Promotion state: the dtype of each rank of operands seen so far (ATen's ResultTypeState).

    Example:
        >>> from triten.runtime.device import CPU
        >>> from triten.runtime.scalar_type import int32
        >>> state = ResultTypeState()
        >>> state.update(TensorSpec.contiguous((2, 3), int32, CPU))
        >>> state.update(int)
        >>> state.result_type()
        triten.int32
    """

    __slots__ = ("dim_result", "wrapped_result", "zero_result")

    def __init__(self) -> None:
        self.dim_result: ScalarType | None = None
        self.zero_result: ScalarType | None = None
        self.wrapped_result: ScalarType | None = None

    def update(self, operand: PromotedOperand) -> None:
        """Add one operand. Raises RuntimeError for dtypes that do not promote."""
        if not isinstance(operand, TensorSpec):
            number, before = dtype_of_number(operand), self.wrapped_result
            self.wrapped_result = number if before is None else promote_types(before, number)
        elif operand.ndim:
            before = self.dim_result
            self.dim_result = operand.dtype if before is None else promote_types(before, operand.dtype)
        else:
            before = self.zero_result
            self.zero_result = operand.dtype if before is None else promote_types(before, operand.dtype)

    def result_type(self) -> ScalarType:
        """Return the common dtype. Raises ValueError before the first operand."""
        result = combine_categories(
            self.dim_result, combine_categories(self.zero_result, self.wrapped_result)
        )
        if result is None:
            raise ValueError("result_type of no operands")
        return result


def result_type_of(operands: Iterable[PromotedOperand]) -> ScalarType:
    """Return the common dtype of specs and classes of Python numbers.

    Raises RuntimeError for dtypes that do not promote, ValueError for no operands.
    """
    state = ResultTypeState()
    for operand in operands:
        state.update(operand)
    return state.result_type()


common_dtype = result_type_of


def result_type(tensor1: TensorImpl | Number, tensor2: TensorImpl | Number) -> ScalarType:
    """Return the dtype of an arithmetic result of two tensors or Python numbers (`torch.result_type`).

    Args:
        tensor1: A tensor or a number.
        tensor2: Another one.

    Returns:
        A dtype. Tensors without dimensions and numbers count only if their category is higher than the others'.

    Raises:
        TypeError: An argument is anything else.
        OverflowError: A number does not fit into 64 bits.
        RuntimeError: The dtypes do not promote.

    Example:
        >>> import triten as tt
        >>> tt.result_type(tt.ones(2, dtype=tt.int32), 1.5), tt.result_type(1, True)
        (triten.float32, triten.int64)
    """
    operands: list[PromotedOperand] = []
    for position, value in ((1, tensor1), (2, tensor2)):
        if isinstance(value, TensorImpl):
            if value._spec.keys & OVERRIDE_FLAG and has_tensor_function((tensor1, tensor2)):
                return handle_tensor_function(result_type, (tensor1, tensor2), tensor1, tensor2)  # type: ignore[no-any-return]
            operands.append(value._spec)
        elif isinstance(value, bool):
            operands.append(bool)
        elif isinstance(value, int):
            if not -(2**63) <= value < 2**64:
                raise OverflowError(
                    f"result_type(): argument 'tensor{position}': {value} does not fit into 64 bits"
                )
            operands.append(int)
        elif isinstance(value, float):
            operands.append(float)
        elif isinstance(value, complex):
            operands.append(complex)
        else:
            if has_tensor_function((tensor1, tensor2)):
                return handle_tensor_function(result_type, (tensor1, tensor2), tensor1, tensor2)
            raise TypeError(
                f"result_type(): argument 'tensor{position}' (position {position}) must be Tensor or Number, "
                f"not {type(value).__name__}"
            )
    return result_type_of(operands)
