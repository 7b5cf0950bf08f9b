"""Scalar types: the element types of tensors (c10/core/ScalarType.h, `torch.dtype`).

Each `dtype` is an interned object with its NumPy and Triton counterparts. Promotion between dtypes is in
`dispatch/iterator/type_promotion.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np

from . import public_name

Number: TypeAlias = bool | int | float | complex
"""Python number that operators accept as a scalar."""


class dtype:
    """Element type, such as ``tt.float32``. Compared by identity; printed as in PyTorch.

    NumPy accepts it as a dtype (``np.zeros(3, tt.bfloat16)``), in comparisons too, like the string ``"float32"``. As
    with the string, a dtype and the equal NumPy dtype have different hashes: use dtypes of one library in a dict or
    set.

    Example:
        >>> import triten as tt
        >>> tt.float32.itemsize, tt.float32.is_floating_point, tt.int8.is_signed
        (4, True, True)
    """

    __slots__ = (
        "index",
        "is_complex",
        "is_floating_point",
        "is_integral",
        "is_signed",
        "itemsize",
        "name",
        "np",
        "scalar_name",
        "triton_name",
    )

    def __init__(
        self, index: int, name: str, scalar_name: str, np_type: Any, kind: str, triton_name: str | None
    ) -> None:
        self.index = index
        self.name = name
        self.scalar_name = scalar_name
        self.np = np.dtype(np_type)
        self.itemsize: int = self.np.itemsize
        self.is_floating_point = kind in "fe"
        self.is_complex = kind == "c"
        self.is_integral = kind in "ui"
        self.is_signed = kind in "ifcs"
        self.triton_name = triton_name

    def __repr__(self) -> str:
        return f"{public_name.shown}.{self.name}"

    def __reduce__(self) -> str:
        return "bool_" if self.name == "bool" else self.name

    def __copy__(self) -> dtype:
        return self

    def __deepcopy__(self, memo: object) -> dtype:
        return self

    @property
    def __numpy_dtype__(self) -> np.dtype[Any]:
        """NumPy dtype of the elements, so that `numpy.dtype` accepts this dtype (NumPy 2.4 or later)."""
        if self in QUANTIZED or self in SUB_BYTE or self is PACKED:
            raise AttributeError(f"{self} has no counterpart in NumPy")
        kind: np.dtype[Any] = self.np
        return kind

    @property
    def kind(self) -> str:
        """NumPy's letter for the kind of number, as an attribute like that of NumPy's dtypes."""
        kind: str = self.np.kind
        return kind

    @property
    def type(self) -> Any:
        """NumPy's scalar class, as an attribute like that of NumPy's dtypes."""
        return self.np.type

    def to_complex(self) -> dtype:
        """Return the complex dtype of this precision (``float64`` gives ``complex128``)."""
        return _TO_COMPLEX.get(self, complex64)

    def to_real(self) -> dtype:
        """Return the dtype of the real part (``complex64`` gives ``float32``)."""
        return _TO_REAL.get(self, self)


uint8 = dtype(0, "uint8", "Byte", np.uint8, "u", "u8")
int8 = dtype(1, "int8", "Char", np.int8, "i", "i8")
int16 = dtype(2, "int16", "Short", np.int16, "i", "i16")
int32 = dtype(3, "int32", "Int", np.int32, "i", "i32")
int64 = dtype(4, "int64", "Long", np.int64, "i", "i64")
float16 = dtype(5, "float16", "Half", np.float16, "f", "fp16")
float32 = dtype(6, "float32", "Float", np.float32, "f", "fp32")
float64 = dtype(7, "float64", "Double", np.float64, "f", "fp64")
complex32 = dtype(8, "complex32", "ComplexHalf", ml_dtypes.complex32, "c", None)
complex64 = dtype(9, "complex64", "ComplexFloat", np.complex64, "c", None)
complex128 = dtype(10, "complex128", "ComplexDouble", np.complex128, "c", None)
bool_ = dtype(11, "bool", "Bool", np.bool_, "b", "i1")
qint8 = dtype(12, "qint8", "QInt8", np.int8, "q", "i8")
quint8 = dtype(13, "quint8", "QUInt8", np.uint8, "q", "u8")
qint32 = dtype(14, "qint32", "QInt32", np.int32, "q", "i32")
bfloat16 = dtype(15, "bfloat16", "BFloat16", ml_dtypes.bfloat16, "f", "bf16")
quint4x2 = dtype(16, "quint4x2", "QUInt4x2", np.uint8, "q", None)
float8_e5m2 = dtype(23, "float8_e5m2", "Float8_e5m2", ml_dtypes.float8_e5m2, "f", "fp8e5")
float8_e4m3fn = dtype(24, "float8_e4m3fn", "Float8_e4m3fn", ml_dtypes.float8_e4m3fn, "f", "fp8e4nv")
float8_e5m2fnuz = dtype(25, "float8_e5m2fnuz", "Float8_e5m2fnuz", ml_dtypes.float8_e5m2fnuz, "f", None)
float8_e4m3fnuz = dtype(26, "float8_e4m3fnuz", "Float8_e4m3fnuz", ml_dtypes.float8_e4m3fnuz, "f", None)
uint16 = dtype(27, "uint16", "UInt16", np.uint16, "u", "u16")
uint32 = dtype(28, "uint32", "UInt32", np.uint32, "u", "u32")
uint64 = dtype(29, "uint64", "UInt64", np.uint64, "u", "u64")
float8_e8m0fnu = dtype(44, "float8_e8m0fnu", "Float8_e8m0fnu", ml_dtypes.float8_e8m0fnu, "e", "u8")
float4_e2m1fn_x2 = dtype(45, "float4_e2m1fn_x2", "Float4_e2m1fn_x2", "V1", "f", "u8")
# NumPy computes nothing with one-byte records, and distinguishes those of different names.
uint1, uint2, uint3, uint4, uint5, uint6, uint7 = (
    dtype(29 + bits, f"uint{bits}", f"UInt{bits}", [(f"UInt{bits}", "u1")], "b", None) for bits in range(1, 8)
)
int1, int2, int3, int4, int5, int6, int7 = (
    dtype(36 + bits, f"int{bits}", f"Int{bits}", [(f"Int{bits}", "u1")], "s", None) for bits in range(1, 8)
)

ALL: tuple[dtype, ...] = (
    uint8,
    int8,
    int16,
    int32,
    int64,
    float16,
    float32,
    float64,
    complex32,
    complex64,
    complex128,
    bool_,
    bfloat16,
    float8_e5m2,
    float8_e4m3fn,
    float8_e5m2fnuz,
    float8_e4m3fnuz,
    uint16,
    uint32,
    uint64,
    float8_e8m0fnu,
    float4_e2m1fn_x2,
)

EXPONENTS = float8_e8m0fnu
"""Powers of two only (OCP Microscaling Formats, version 1.0, 5.4.1): block scales. Triton has them as bytes."""
PACKED = float4_e2m1fn_x2
"""Bytes of two numbers each, the first in the low bits, which only matmuls unpack; NumPy has no such type."""

SUB_BYTE = frozenset(
    (uint1, uint2, uint3, uint4, uint5, uint6, uint7, int1, int2, int3, int4, int5, int6, int7)
)
"""Integers of less than a byte, each stored in a byte, for packages that pack them. No operator computes in them."""

QUANTIZED = frozenset({qint8, quint8, qint32, quint4x2})
"""Dtypes of quantized tensors only (`quantized_data.py`); they take part in no promotion."""

READ_BY_NUMPY = frozenset(each for each in ALL if each.np.kind in "biufc")
"""Dtypes whose elements NumPy itself converts to Python numbers."""
BY_NAME: dict[str, dtype] = {d.name: d for d in ALL} | {
    "half": float16,
    "float": float32,
    "double": float64,
    "short": int16,
    "int": int32,
    "long": int64,
    "chalf": complex32,
    "cfloat": complex64,
    "cdouble": complex128,
}
registered: dict[dtype, dtype | None] = {}
"""Dtypes that users registered, with the dtype in which their kernels compute; None for those only stored."""

on_register: list[Callable[[dtype, Mapping[dtype, dtype]], None]] = []
"""Callbacks with a registered dtype and its promotions, to extend tables keyed by dtype."""

only_stored: set[dtype] = {EXPONENTS, PACKED, *SUB_BYTE}
"""Dtypes that are stored, moved and converted, but that no operator computes in."""

_BY_NUMPY: dict[Any, dtype] = {d.np: d for d in ALL}
_TO_REAL = {complex32: float16, complex64: float32, complex128: float64}
_TO_COMPLEX = {real: made for made, real in _TO_REAL.items()} | {made: made for made in _TO_REAL}
_BY_PYTHON: dict[type, dtype] = {bool: bool_, int: int64}


def by_numpy(np_type: Any) -> dtype | None:
    """Return the dtype of a NumPy dtype or scalar class; None if it has no counterpart."""
    return _BY_NUMPY.get(np_type if isinstance(np_type, np.dtype) else np.dtype(np_type))


def from_numpy_dtype(np_type: Any) -> dtype:
    """Return the dtype of a NumPy dtype. Raise TypeError if it has no counterpart, as `from_numpy` does."""
    dtype_ = by_numpy(np_type)
    if dtype_ is None:
        raise TypeError(
            f"can't convert np.ndarray of type {np_type}. The only supported types are: "
            + ", ".join(d.name for d in (*ALL, *registered))
            + "."
        )
    return dtype_


_default: list[dtype] = [float32]
on_default_change: list[Callable[[], None]] = []
"""Callbacks after the default dtype changed, to invalidate decisions that depend on it."""


def get_default_dtype() -> dtype:
    """Return the default dtype of Python floats and factories (`torch.get_default_dtype`).

    Returns:
        A floating dtype, float32 at first.

    Example:
        >>> import triten as tt
        >>> tt.get_default_dtype()
        triten.float32
    """
    return _default[0]


def set_default_dtype(d: dtype) -> None:
    """Set the dtype of new floating tensors (`torch.set_default_dtype`).

    Args:
        d: float16, bfloat16, float32 or float64.

    Raises:
        TypeError: `d` is anything else.

    Example:
        >>> import triten as tt
        >>> tt.set_default_dtype(tt.float64); tt.zeros(1).dtype
        triten.float64
        >>> tt.set_default_dtype(tt.float32)
    """
    if not isinstance(d, dtype):
        raise TypeError(f"set_default_dtype(): argument 'd' must be dtype, not {type(d).__name__}")
    if d not in (float16, bfloat16, float32, float64):
        raise TypeError(f"only floating-point types are supported as the default type, but got {d}")
    if d is not _default[0]:
        _default[0] = d
        for changed in on_default_change:
            changed()


def dtype_of_number(kind: type) -> dtype:
    """Return a Python number's dtype as a tensor: bool, int64, the default dtype, or its complex dtype."""
    if kind is float:
        return _default[0]
    if kind is complex:
        return _default[0].to_complex()
    return _BY_PYTHON[kind]


def dtype_of_fill(kind: type) -> dtype:
    """Return the dtype that `full` chooses for a number of class `kind`: never complex32, as in PyTorch."""
    if kind is complex:
        return complex128 if _default[0] is float64 else complex64
    return dtype_of_number(kind)


class finfo:
    """Limits of a floating dtype (`torch.finfo`): bits, eps, max, min, tiny, smallest_normal, resolution, dtype.

    Example:
        >>> import triten as tt
        >>> tt.finfo(tt.float32).eps
        1.1920928955078125e-07
    """

    __slots__ = ("bits", "dtype", "eps", "max", "min", "resolution", "smallest_normal", "tiny")

    def __init__(self, type: dtype | None = None) -> None:
        d = type if type is not None else get_default_dtype()
        if not isinstance(d, dtype) or not (d.is_floating_point or d.is_complex):
            raise TypeError(f"finfo() requires a floating point input type. Use iinfo to handle '{d}'")
        if d is PACKED:
            raise TypeError(f"finfo() has no limits for {d}, whose elements are two numbers each")
        limits: Any = ml_dtypes.finfo(d.to_real().np)  # type: ignore[no-untyped-call]  # ml_dtypes has no types here
        self.bits = int(limits.bits)
        self.eps = float(limits.eps)
        self.max = float(limits.max)
        self.min = float(limits.min)
        self.tiny = self.smallest_normal = float(limits.smallest_normal)
        # Power of ten, which lower-precision dtypes cannot represent.
        self.resolution = 1.0 if d is EXPONENTS else 10.0 ** -int(limits.precision)
        self.dtype = d.to_real().name

    def __repr__(self) -> str:
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, eps={self.eps:g}, "
            f"smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, dtype={self.dtype})"
        )

    def __eq__(self, other: object) -> bool:
        return self.dtype == other.dtype if isinstance(other, finfo) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.dtype)


def integer_limits(d: dtype) -> Any:
    """Return NumPy's or ml_dtypes' ``iinfo`` of an integral dtype."""
    return np.iinfo(d.np) if d.np.kind in "iu" else ml_dtypes.iinfo(d.np)  # type: ignore[no-untyped-call]


def is_only_stored(d: dtype) -> bool:
    """Return True if no operator computes in a dtype: powers of two, packed numbers, or only stored ones."""
    return d in only_stored


class iinfo:
    """Limits of an integral dtype (`torch.iinfo`): bits, max, min, dtype.

    Example:
        >>> import triten as tt
        >>> tt.iinfo(tt.int8).max
        127
    """

    __slots__ = ("bits", "dtype", "max", "min")

    def __init__(self, type: dtype) -> None:
        if not isinstance(type, dtype) or not type.is_integral:
            raise TypeError(f"iinfo() requires an integer input type. Use finfo to handle '{type}'")
        limits = integer_limits(type)
        self.bits, self.max, self.min, self.dtype = limits.bits, int(limits.max), int(limits.min), type.name

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"

    def __eq__(self, other: object) -> bool:
        return self.dtype == other.dtype if isinstance(other, iinfo) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.dtype)
