"""Data types of the standard: casts, promotion, kinds, limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from ..runtime import scalar_type as st
from ..runtime.device import device as Device
from ..runtime.scalar_type import Number
from ..runtime.scalar_type import dtype as ScalarType
from ..runtime.tensor_impl import TensorImpl
from .promotion import COMPLEX_FLOATING, PROMOTED, REAL_FLOATING, SIGNED, UNSIGNED

if TYPE_CHECKING:
    from ..dispatch.tensor import Tensor

__all__ = ["astype", "can_cast", "finfo", "iinfo", "isdtype", "result_type"]

KINDS: dict[str, tuple[ScalarType, ...]] = {
    "bool": (st.bool_,),
    "signed integer": SIGNED,
    "unsigned integer": UNSIGNED,
    "integral": (*SIGNED, *UNSIGNED),
    "real floating": REAL_FLOATING,
    "complex floating": COMPLEX_FLOATING,
    "numeric": (*SIGNED, *UNSIGNED, *REAL_FLOATING, *COMPLEX_FLOATING),
}
"""The dtypes of each kind, by the standard's names."""

Kind: TypeAlias = ScalarType | str | tuple["ScalarType | str", ...]


def astype(
    x: Tensor, dtype: ScalarType, /, *, copy: bool = True, device: Device | str | None = None
) -> Tensor:
    """Cast the elements to another dtype.

    Args:
        x: An array.
        dtype: The dtype of the result.
        copy: If True, copy even if `x` already has the dtype.
        device: Device of the result. Default: that of `x`.

    Returns:
        An array of `x`'s shape.

    Source: https://data-apis.org/array-api/2025.12/API_specification/generated/array_api.astype.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.astype(xp.asarray([1.5, -1.5]), xp.int8)
        tensor([ 1, -1], dtype=triten.int8)
    """
    return x.to(device=x.device if device is None else device, dtype=dtype, copy=copy)


def can_cast(from_: ScalarType | Tensor, to: ScalarType, /) -> bool:
    """Return True if one dtype promotes to another.

    Args:
        from_: A dtype, or an array with it.
        to: A dtype.

    Returns:
        A bool.

    Source: https://data-apis.org/array-api/2025.12/API_specification/generated/array_api.can_cast.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.can_cast(xp.int8, xp.int16), xp.can_cast(xp.int16, xp.int8)
        (True, False)
    """
    dtype = from_.dtype if isinstance(from_, TensorImpl) else from_
    return dtype is to or PROMOTED.get((dtype, to)) is to


@dataclass(frozen=True)
class finfo_object:
    """Limits of a floating dtype, for complex ones those of their parts; the names are the standard's."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: ScalarType


@dataclass(frozen=True)
class iinfo_object:
    """Limits of an integral dtype; the names are the standard's."""

    bits: int
    max: int
    min: int
    dtype: ScalarType


def finfo(type: ScalarType | Tensor, /) -> finfo_object:
    """Return the limits of a floating dtype; its `dtype` is a dtype, while PyTorch's is a name.

    Args:
        type: A dtype, or an array with it.

    Returns:
        An object with `bits`, `eps`, `max`, `min`, `smallest_normal` and `dtype`.

    Raises:
        TypeError: The dtype is not floating.

    Source: https://data-apis.org/array-api/2025.12/API_specification/generated/array_api.finfo.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.finfo(xp.complex64).eps, xp.finfo(xp.complex64).dtype
        (1.1920928955078125e-07, triten.float32)
    """
    dtype = type.dtype if isinstance(type, TensorImpl) else type
    limits = st.finfo(dtype)
    return finfo_object(
        limits.bits, limits.eps, limits.max, limits.min, limits.smallest_normal, dtype.to_real()
    )


def iinfo(type: ScalarType | Tensor, /) -> iinfo_object:
    """Return the limits of an integral dtype.

    Args:
        type: A dtype, or an array with it.

    Returns:
        An object with `bits`, `max`, `min` and `dtype`.

    Raises:
        TypeError: The dtype is not integral.

    Source: https://data-apis.org/array-api/2025.12/API_specification/generated/array_api.iinfo.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.iinfo(xp.uint8).max
        255
    """
    dtype = type.dtype if isinstance(type, TensorImpl) else type
    limits = st.iinfo(dtype)
    return iinfo_object(limits.bits, limits.max, limits.min, dtype)


def isdtype(dtype: ScalarType, kind: Kind) -> bool:
    """Return True if a dtype is of a kind.

    Args:
        dtype: A dtype.
        kind: A dtype, one of ``"bool"``, ``"signed integer"``, ``"unsigned integer"``, ``"integral"``,
            ``"real floating"``, ``"complex floating"`` and ``"numeric"``, or a tuple of those, any of which will do.

    Returns:
        A bool.

    Raises:
        ValueError: There is no such kind.
        TypeError: `kind` is anything else.

    Source: https://data-apis.org/array-api/2025.12/API_specification/generated/array_api.isdtype.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.isdtype(xp.uint8, "integral"), xp.isdtype(xp.uint8, ("bool", xp.int8))
        (True, False)
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, each) for each in kind)
    if isinstance(kind, ScalarType):
        return dtype is kind
    if not isinstance(kind, str):
        raise TypeError(
            f"isdtype(): expected a dtype, a string or a tuple of them, got {kind.__class__.__name__}"
        )
    if kind not in KINDS:
        raise ValueError(f"isdtype(): expected one of {', '.join(KINDS)}, got {kind!r}")
    return dtype in KINDS[kind] or _is_wider_kind(dtype, kind)


def _is_wider_kind(dtype: ScalarType, kind: str) -> bool:
    """Return True if a dtype outside the standard, such as float16, belongs to one of its kinds."""
    floating = dtype.is_floating_point and kind in ("real floating", "numeric")
    return floating or (dtype.is_complex and kind in ("complex floating", "numeric"))


def result_type(*arrays_and_dtypes: Tensor | ScalarType | Number) -> ScalarType:
    """Return the dtype to which arrays, dtypes and Python numbers promote.

    Args:
        *arrays_and_dtypes: Arrays, dtypes and numbers, at least one that is no number.

    Returns:
        A dtype.

    Raises:
        ValueError: There is neither an array nor a dtype.
        TypeError: The standard does not promote a pair of them.

    Source: https://data-apis.org/array-api/2025.12/API_specification/generated/array_api.result_type.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.result_type(xp.int8, xp.uint8, 1)
        triten.int16
    """
    numbers = [each for each in arrays_and_dtypes if isinstance(each, bool | int | float | complex)]
    promoted: ScalarType | None = None
    for each in arrays_and_dtypes:
        if isinstance(each, bool | int | float | complex):
            continue
        dtype = each.dtype if isinstance(each, TensorImpl) else each
        if not isinstance(dtype, ScalarType):
            raise TypeError(f"result_type(): expected arrays, dtypes and numbers, got {type(each).__name__}")
        common = dtype if promoted is None or promoted is dtype else PROMOTED.get((promoted, dtype))
        if common is None:
            raise TypeError(f"result_type(): {promoted} and {dtype} do not promote in the array API standard")
        promoted = common
    if promoted is None:
        raise ValueError("result_type(): expected at least one array or dtype")
    for number in numbers:
        promoted = _with_number(promoted, number)
    return promoted


def _with_number(dtype: ScalarType, number: Number) -> ScalarType:
    floating = dtype.is_floating_point or dtype.is_complex
    if isinstance(number, bool):
        fits = dtype is st.bool_
    elif isinstance(number, int):
        fits = dtype is not st.bool_
    else:
        fits = floating
        if fits and isinstance(number, complex):
            return dtype if dtype.is_complex else dtype.to_complex()
    if not fits:
        kind = type(number).__name__
        raise TypeError(
            f"result_type(): {dtype} and a Python {kind} do not promote in the array API standard"
        )
    return dtype
