"""Questions about dtypes, shapes and strides by PyTorch's private names (`torch._prims_common`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

from ..dispatch.iterator.type_promotion import ResultTypeState, promote_types
from ..dispatch.tensor import Tensor
from ..runtime import memory_format as formats
from ..runtime.device import DeviceLike
from ..runtime.device import device as Device
from ..runtime.memory_format import contiguous_strides
from ..runtime.scalar_type import (
    bfloat16,
    bool_,
    complex32,
    complex64,
    dtype_of_number,
    float16,
    float32,
    float64,
    get_default_dtype,
    int64,
)
from ..runtime.scalar_type import dtype as ScalarType
from ..runtime.size import Size

__all__ = [
    "ELEMENTWISE_TYPE_PROMOTION_KIND",
    "canonicalize_device",
    "canonicalize_dim",
    "canonicalize_dims",
    "check",
    "corresponding_complex_dtype",
    "corresponding_real_dtype",
    "dtype_or_default",
    "dtype_to_type",
    "elementwise_dtypes",
    "get_acc_type",
    "get_computation_dtype",
    "get_higher_dtype",
    "is_boolean_dtype",
    "is_channels_last_contiguous",
    "is_complex_dtype",
    "is_contiguous",
    "is_contiguous_or_false",
    "is_cpu_scalar_tensor",
    "is_expandable_to",
    "is_float_dtype",
    "is_grad_dtype",
    "is_integer_dtype",
    "is_low_precision_dtype",
    "is_non_overlapping_and_dense",
    "is_non_overlapping_and_dense_or_false",
    "is_same_shape",
    "make_channels_last_strides_for",
    "make_contiguous_strides_for",
    "suggest_memory_format",
    "type_to_dtype",
]

TensorLike = TensorLikeType = Tensor
Number = bool | int | float | complex
NumberType = Number
ShapeType = Size | list[int] | tuple[int, ...]
StrideType = list[int] | tuple[int, ...]
DimsType = int | list[int] | tuple[int, ...]
DimsSequenceType = list[int] | tuple[int, ...]
DeviceLikeType = str | Device | int


class ELEMENTWISE_TYPE_PROMOTION_KIND(Enum):
    """How operators choose the dtypes that they compute in and return (`torch._prims_common`)."""

    DEFAULT = (0,)
    NO_OPMATH = (1,)
    INT_TO_FLOAT = (2,)
    ALWAYS_BOOL = (3,)
    COMPLEX_TO_FLOAT = (4,)
    BOOL_TO_LONG = (5,)


_COMPUTED_IN = {float16: float32, bfloat16: float32, complex32: complex64}


def get_computation_dtype(dtype: ScalarType) -> ScalarType:
    """Return the dtype in which operators compute: float32 for float16 and bfloat16, else `dtype` itself."""
    return _COMPUTED_IN.get(dtype, dtype)


def get_acc_type(dtype: ScalarType, device: Device) -> ScalarType:
    """Return the dtype of sums: that of the computation, on the CPU of double precision."""
    if device.type == "cpu":
        if dtype.is_complex:
            return float64.to_complex()
        if dtype.is_floating_point:
            return float64
    return get_computation_dtype(dtype)


def elementwise_dtypes(
    *_args: Any, type_promotion_kind: ELEMENTWISE_TYPE_PROMOTION_KIND
) -> tuple[ScalarType, ScalarType]:
    """Return the dtypes in which an operator of elements computes and returns.

    Args:
        _args: Tensors and numbers; None is passed over.
        type_promotion_kind: The operator's kind.

    Raises:
        ValueError: An argument is something else.
        RuntimeError: The dtypes do not promote.

    Example:
        >>> import triten as tt
        >>> from triten._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND, elementwise_dtypes
        >>> kind = ELEMENTWISE_TYPE_PROMOTION_KIND.INT_TO_FLOAT
        >>> elementwise_dtypes(tt.ones(2, dtype=tt.int32), 3, type_promotion_kind=kind)
        (triten.float32, triten.float32)
        >>> elementwise_dtypes(tt.ones(2).half(), 3, type_promotion_kind=ELEMENTWISE_TYPE_PROMOTION_KIND.DEFAULT)
        (triten.float32, triten.float16)
    """
    state = ResultTypeState()
    for each in _args:
        if isinstance(each, Tensor):
            state.update(each._spec)
        elif isinstance(each, bool | int | float | complex):
            state.update(type(each))
        elif each is not None:
            raise ValueError(
                f"Unexpected type {type(each)} when computing elementwise type promotion; expected tensors and numbers"
            )
    common = state.result_type()
    kinds = ELEMENTWISE_TYPE_PROMOTION_KIND
    kind = type_promotion_kind
    if kind is kinds.INT_TO_FLOAT and not (common.is_floating_point or common.is_complex):
        common = get_default_dtype()
    computed = common if kind is kinds.NO_OPMATH else get_computation_dtype(common)
    if kind is kinds.ALWAYS_BOOL:
        return computed, bool_
    if kind is kinds.COMPLEX_TO_FLOAT and common.is_complex:
        return computed, common.to_real()
    if kind is kinds.BOOL_TO_LONG and common is bool_:
        return int64, int64
    return computed, common


def is_boolean_dtype(dtype: ScalarType) -> bool:
    """Return whether a dtype is bool."""
    return dtype is bool_


def is_integer_dtype(dtype: ScalarType) -> bool:
    """Return whether a dtype is integral and not bool."""
    return dtype.is_integral and dtype is not bool_


def is_float_dtype(dtype: ScalarType) -> bool:
    """Return whether a dtype is floating."""
    return dtype.is_floating_point


def is_complex_dtype(dtype: ScalarType) -> bool:
    """Return whether a dtype is complex."""
    return dtype.is_complex


def is_low_precision_dtype(dtype: ScalarType) -> bool:
    """Return whether operators compute in a wider dtype than `dtype`."""
    return dtype in _COMPUTED_IN


def is_grad_dtype(dtype: ScalarType) -> bool:
    """Return whether tensors of a dtype can require gradients."""
    return dtype.is_floating_point or dtype.is_complex


def corresponding_real_dtype(dtype: ScalarType) -> ScalarType:
    """Return the dtype of the real part of a complex dtype."""
    return dtype.to_real()


def corresponding_complex_dtype(dtype: ScalarType) -> ScalarType:
    """Return the complex dtype of a precision."""
    return dtype.to_complex()


def dtype_to_type(dtype: ScalarType) -> type:
    """Return the class of Python's numbers of a dtype.

    Raises:
        ValueError: `dtype` is no dtype.
    """
    if not isinstance(dtype, ScalarType):
        raise ValueError(f"Invalid dtype: {dtype!r}")
    if dtype is bool_:
        return bool
    return int if dtype.is_integral else float if dtype.is_floating_point else complex


def type_to_dtype(typ: type) -> ScalarType:
    """Return the dtype that a class of Python's numbers has as a tensor.

    Raises:
        ValueError: `typ` is none of them.
    """
    if typ not in (bool, int, float, complex):
        raise ValueError(f"Invalid type {typ!r}")
    return dtype_of_number(typ)


def dtype_or_default(dtype: ScalarType | None) -> ScalarType:
    """Return a dtype, or the default dtype for None."""
    return get_default_dtype() if dtype is None else dtype


def get_higher_dtype(a: Any, b: Any) -> ScalarType | None:
    """Return the dtype to which two dtypes, tensors or numbers promote; None counts for nothing."""
    dtypes = [_dtype_of(each) for each in (a, b) if each is not None]
    if len(dtypes) < 2:
        return dtypes[0] if dtypes else None
    return promote_types(*dtypes)


def _dtype_of(value: Any) -> ScalarType:
    if isinstance(value, ScalarType):
        return value
    return value.dtype if isinstance(value, Tensor) else type_to_dtype(type(value))


def canonicalize_device(device: DeviceLike) -> Device:
    """Return a device for its name or number."""
    return Device(device)  # type: ignore[arg-type]


def canonicalize_dim(rank: int, idx: int, wrap_scalar: bool = True) -> int:
    """Return a dimension counted from the first.

    Args:
        rank: Number of dimensions.
        idx: The dimension; from the end where it is negative.
        wrap_scalar: If True, a tensor without dimensions is one of one dimension.

    Raises:
        IndexError: There is no such dimension.
    """
    if rank < 0:
        raise IndexError(f"Rank cannot be negative but got {rank}")
    if rank == 0:
        if not wrap_scalar:
            raise IndexError(f"Dimension specified as {idx} but tensor has no dimensions")
        rank = 1
    if not -rank <= idx < rank:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {idx})"
        )
    return idx % rank


def canonicalize_dims(rank: int, indices: DimsType, wrap_scalar: bool = True) -> Any:
    """Return a dimension, or several, counted from the first; see `canonicalize_dim`."""
    if isinstance(indices, int):
        return canonicalize_dim(rank, indices, wrap_scalar)
    return tuple(canonicalize_dim(rank, each, wrap_scalar) for each in indices)


def is_same_shape(a: Sequence[int], b: Sequence[int]) -> bool:
    """Return whether two shapes are equal."""
    return tuple(a) == tuple(b)


def is_expandable_to(shape: Sequence[int], desired: Sequence[int]) -> bool:
    """Return whether a shape broadcasts to another one.

    Example:
        >>> from triten._prims_common import is_expandable_to
        >>> is_expandable_to((1, 3), (2, 4, 3)), is_expandable_to((2, 3), (4, 3))
        (True, False)
    """
    if len(shape) > len(desired):
        return False
    ends = zip(reversed(shape), reversed(desired), strict=False)
    return all(size in (1, desired_size) for size, desired_size in ends)


def is_cpu_scalar_tensor(a: object) -> bool:
    """Return whether a value is a tensor of the CPU without dimensions."""
    return isinstance(a, Tensor) and a.ndim == 0 and a.device.type == "cpu"


def is_contiguous(a: Tensor, false_if_dde: bool = False) -> bool:
    """Return whether the elements of a tensor lie in row-major order."""
    return a.is_contiguous()


is_contiguous_or_false = is_contiguous


def is_channels_last_contiguous(a: Tensor) -> bool:
    """Return whether a tensor of images or volumes is channels-last."""
    return (
        a.is_contiguous(memory_format=formats.channels_last)
        if a.ndim == 4
        else (a.ndim == 5 and a.is_contiguous(memory_format=formats.channels_last_3d))
    )


is_channels_last_contiguous_or_false = is_channels_last_contiguous


def is_non_overlapping_and_dense(a: Tensor) -> bool:
    """Return whether the elements of a tensor fill its memory without gaps, in any order of dimensions."""
    return formats.is_non_overlapping_and_dense(a.shape, a.stride())


is_non_overlapping_and_dense_or_false = is_non_overlapping_and_dense


def make_contiguous_strides_for(shape: Sequence[int], row_major: bool = True) -> tuple[int, ...]:
    """Return the strides of elements that lie in order.

    Args:
        shape: The sizes.
        row_major: If False, the last two dimensions lie in column-major order.

    Example:
        >>> from triten._prims_common import make_contiguous_strides_for
        >>> make_contiguous_strides_for((2, 3, 4)), make_contiguous_strides_for((2, 3, 4), row_major=False)
        ((12, 4, 1), (12, 1, 3))
    """
    strides = contiguous_strides(tuple(shape))
    if row_major or len(shape) < 2:
        return strides
    return (*strides[:-2], 1, max(shape[-2], 1))


def make_channels_last_strides_for(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of images or volumes whose channels are contiguous.

    Raises:
        RuntimeError: The shape has another number of dimensions than 3, 4 or 5.

    Example:
        >>> from triten._prims_common import make_channels_last_strides_for
        >>> make_channels_last_strides_for((2, 3, 4, 5))
        (60, 1, 15, 3)
    """
    if len(shape) not in (3, 4, 5):
        raise RuntimeError(f"no channels last format strides exist in {len(shape)} dimensions")
    strides, stride = [0] * len(shape), 1
    for dim in (1, *range(len(shape) - 1, 1, -1), 0):
        strides[dim] = stride
        stride *= shape[dim]
    return tuple(strides)


def suggest_memory_format(x: Tensor) -> formats.memory_format:
    """Return the memory format whose order of strides a tensor has."""
    if x.ndim == 4 and formats.is_channels_last_strides(x.shape, x.stride()):
        return formats.channels_last
    if x.ndim == 5 and formats.is_channels_last_strides(x.shape, x.stride()):
        return formats.channels_last_3d
    return formats.contiguous_format


def check(b: bool, s: Callable[[], str], exc_type: type[Exception] = RuntimeError) -> None:
    """Raise an error with the text that `s` gives unless a condition holds."""
    if not b:
        raise exc_type(s())
