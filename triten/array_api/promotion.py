"""Type promotion of the standard: a table of pairs of dtypes, in which 0-d arrays count like all others.

PyTorch's rules apply to the pairs that the standard leaves open (integers with floats, bools with numbers,
int64 with uint64).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ..dispatch.generated.functions import full
from ..dispatch.iterator.type_promotion import promote_types
from ..runtime import scalar_type as st
from ..runtime.scalar_type import Number
from ..runtime.scalar_type import dtype as ScalarType
from ..runtime.tensor_impl import TensorImpl

if TYPE_CHECKING:
    from ..dispatch.tensor import Tensor

SIGNED = (st.int8, st.int16, st.int32, st.int64)
UNSIGNED = (st.uint8, st.uint16, st.uint32, st.uint64)
REAL_FLOATING = (st.float32, st.float64)
COMPLEX_FLOATING = (st.complex64, st.complex128)
DTYPES: tuple[ScalarType, ...] = (st.bool_, *SIGNED, *UNSIGNED, *REAL_FLOATING, *COMPLEX_FLOATING)
"""The dtypes of the standard."""

_FAMILIES = ((st.bool_,), (*SIGNED, *UNSIGNED), (*REAL_FLOATING, *COMPLEX_FLOATING))


def _pairs() -> dict[tuple[ScalarType, ScalarType], ScalarType]:
    table = {}
    for family in _FAMILIES:
        for a in family:
            for b in family:
                if not (st.uint64 in (a, b) and (a.is_signed or b.is_signed) and a.is_integral):
                    table[a, b] = promote_types(a, b)
    return table


PROMOTED: dict[tuple[ScalarType, ScalarType], ScalarType] = _pairs()
"""The dtype that holds both of a pair, for the pairs that the standard defines."""


def promoted(function: Callable[..., Tensor], x1: Tensor | Number, x2: Tensor | Number) -> Tensor:
    """Call a function with operands promoted to one dtype; a number that fits the array is passed as it is.

    Raises TypeError if neither operand is an array.
    """
    if isinstance(x1, TensorImpl) and (
        (x2.__class__ is int and x1._spec.dtype is not st.bool_ and -(2**63) <= x2 < 2**63)
        or (x2.__class__ is float and not (x1._spec.dtype.is_integral or x1._spec.dtype is st.bool_))
    ):
        return function(x1, x2)
    return promoted_tensors(function, x1, x2)


def promoted_tensors(function: Callable[..., Tensor], x1: Tensor | Number, x2: Tensor | Number) -> Tensor:
    """Call a function of two tensors with operands promoted to one dtype. Raise TypeError if neither is an
    array.
    """
    return function(*common_operands(x1, x2))


def common_operands(x1: Tensor | Number, x2: Tensor | Number) -> tuple[Tensor, Tensor]:
    """Promote two operands to arrays of one dtype. Dtypes that the standard does not promote stay unchanged.

    Raises:
        TypeError: Neither operand is an array.
    """
    if not isinstance(x1, TensorImpl):
        if not isinstance(x2, TensorImpl):
            raise TypeError(
                f"expected at least one array, but got {type(x1).__name__} and {type(x2).__name__}"
            )
        x1 = array_of_number(x1, x2)
    elif not isinstance(x2, TensorImpl):
        x2 = array_of_number(x2, x1)
    first, second = x1._spec.dtype, x2._spec.dtype
    if first is not second:
        common = PROMOTED.get((first, second))
        if common is not None:
            return x1.to(common), x2.to(common)
    return x1, x2


def array_of_number(number: Number, beside: Tensor) -> Tensor:
    """Convert a Python or NumPy number to a 0-d array of the dtype that it promotes to beside an array.

    Raises:
        TypeError: The value is not a number.
    """
    dtype: ScalarType | None = beside._spec.dtype
    assert dtype is not None
    if isinstance(number, np.generic):
        number = number.item()
    if isinstance(number, bool):
        dtype = dtype if dtype is st.bool_ else None
    elif isinstance(number, int):
        dtype = None if dtype is st.bool_ else dtype
    elif isinstance(number, float):
        dtype = dtype if dtype.is_floating_point or dtype.is_complex else None
    elif isinstance(number, complex):
        dtype = dtype.to_complex() if dtype.is_floating_point or dtype.is_complex else None
    else:
        raise TypeError(f"expected an array or a Python number, but got {type(number).__name__}")
    # In kinds that the standard does not mix the number has its own dtype, and PyTorch's promotion decides.
    made: Tensor = full((), number, dtype=dtype, device=beside.device)
    return made


def common_dtype(arrays: tuple[Tensor, ...] | list[Tensor]) -> ScalarType | None:
    """Return the promoted dtype of a sequence of arrays, or None if the standard does not define it."""
    promoted: ScalarType | None = None
    for array in arrays:
        dtype = array._spec.dtype
        promoted = dtype if promoted is None else PROMOTED.get((promoted, dtype))
        if promoted is None:
            return None
    return promoted


def accumulated(dtype: ScalarType) -> ScalarType:
    """Return the dtype of sums and products: the widest integer for integers, else the dtype itself."""
    if dtype in UNSIGNED:
        return st.uint64
    return st.int64 if dtype.is_integral or dtype is st.bool_ else dtype
