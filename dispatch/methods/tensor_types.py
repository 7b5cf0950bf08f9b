"""Tensor types by dtype and device type, which PyTorch had before dtypes: `tt.FloatTensor`, `Tensor.type`.

`isinstance` accepts a type. Calling a type makes a tensor of its dtype, uninitialized from sizes, or from data.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Union

import numpy as np

from ...runtime import public_name
from ...runtime import scalar_type as st
from ...runtime.device import device as Device
from ...runtime.device import set_default_device
from ...runtime.layout import layout as Layout
from ...runtime.layout import sparse_coo, strided
from ...runtime.size import Size
from ...runtime.storage import Storage, TypedStorageBase
from ...runtime.tensor_impl import TensorImpl
from ...runtime.traceback_filter import hide_inner_frames
from ..tensor_meta import constructors

if TYPE_CHECKING:
    from ...runtime.device import DeviceLike
    from ..tensor import Tensor

    _Base = TensorImpl
else:
    _Base = object

_PREFIXES = ("triten.", "torch.")
"""Accepted prefixes of a type's name in a string; existing programs use PyTorch's."""


class TensorType:
    """Type of tensors with one dtype, layout and device type (`torch.FloatTensor` and similar types).

    `isinstance` tests whether a tensor is of the type; a call makes one.

    Args:
        *data: Sizes, as numbers or a `Size`, for a tensor without values; a sequence for one of its elements; nothing
            for an empty one; a tensor of the type, or a storage, for another tensor over the same bytes. A sparse
            type takes sizes, or indices, values and optional sizes.
        device: A device of the type's kind, where there are several.
        **named: Instead of `data`, one of `size`, `data`, `storage` and `other`, as `torch.Tensor.new` names them.

    Returns:
        A tensor of the type.

    Raises:
        TypeError: A tensor is of another type, or `data` is not a sequence.
        RuntimeError: `device` is of another kind.

    Example:
        >>> import triten as tt
        >>> tt.LongTensor([1, 2]), tt.FloatTensor(2, 3).shape
        (tensor([1, 2]), triten.Size([2, 3]))
        >>> isinstance(tt.ones(2), tt.FloatTensor), isinstance(tt.ones(2), tt.DoubleTensor)
        (True, False)
    """

    def __init__(self, dtype: st.dtype, device_type: str = "cpu", layout: Layout = strided) -> None:
        self.dtype = dtype
        self.device_type = device_type
        self.layout = layout

    @property
    def is_cuda(self) -> bool:
        """True if the tensors are on a CUDA device."""
        return self.device_type == "cuda"

    @property
    def is_sparse(self) -> bool:
        """True if the tensors have layout `tt.sparse_coo`."""
        return self.layout is sparse_coo

    @property
    def __name__(self) -> str:
        return type_name(self.dtype, self.device_type, self.layout).rpartition(".")[2]

    def __repr__(self) -> str:
        return f"<class '{type_name(self.dtype, self.device_type, self.layout)}'>"

    def __mro_entries__(self, bases: tuple[Any, ...]) -> NoReturn:
        name = type_name(self.dtype, self.device_type, self.layout)
        raise TypeError(
            f"type '{name}' is not an acceptable base type: derive from {public_name.shown}.Tensor"
        )

    def __instancecheck__(self, instance: object) -> bool:
        if not isinstance(instance, TensorImpl):
            return False
        return (
            instance.dtype is self.dtype
            and instance.device.type == self.device_type
            and instance.layout is self.layout
        )

    def __or__(self, other: Any) -> Any:
        """Return a union with another type, for annotations."""
        return Union[self, other]  # noqa: UP007 - the bar is what this defines

    def __ror__(self, other: Any) -> Any:
        return Union[other, self]  # noqa: UP007

    def __call__(self, *data: Any, device: DeviceLike = None, **named: Any) -> Tensor:
        return constructed(self.dtype, Device(self.device_type), data, device, named, self.layout)


def type_name(dtype: st.dtype, device_type: str, kind: Layout = strided) -> str:
    """Return the name of a type, such as ``triten.cuda.HalfTensor``."""
    prefix = "" if device_type == "cpu" else f"{device_type}."
    if kind is not strided:
        prefix += f"{kind.name.removesuffix('_coo')}."
    return f"{public_name.shown}.{prefix}{dtype.scalar_name}Tensor"


def constructed(
    dtype: st.dtype,
    device: Device,
    data: Sequence[Any],
    device_argument: DeviceLike,
    named: dict[str, Any],
    layout: Layout = strided,
) -> Tensor:
    """Return a tensor built by a type; see `TensorType`. `device_argument` is the argument `device`, `named` the
    other keywords.
    """
    from ..generated.functions import empty
    from ..tensor_data import tensor

    if device_argument is not None:
        requested = Device(device_argument)
        if requested.type != device.type:
            raise RuntimeError(
                f"legacy constructor expects device type: {device.type} but device type: {requested.type} was passed"
            )
        device = requested
    if named:
        name, value = next(iter(named.items()))
        if name not in ("size", "data", "storage", "other") or len(named) > 1 or data:
            raise TypeError(
                f"new() received an invalid combination of arguments - got ({', '.join(named)}), but expected sizes, "
                "or one of data, size, storage and other"
            )
        data = (Size(value),) if name == "size" else (value,)
    if layout is sparse_coo:
        return _constructed_sparse(dtype, device, data)
    if len(data) > 1:
        data = [int(each) if _is_integer(each) else each for each in data]
    first = data[0] if data else Size(())
    if not data or (isinstance(first, Size) and len(data) == 1):
        return empty(first if data else (0,), dtype=dtype, device=device)
    if isinstance(first, int | np.integer) and not isinstance(first, bool):
        for position, size in enumerate(data, 1):
            if not isinstance(size, int | np.integer) or isinstance(size, bool):
                raise TypeError(
                    f"new(): argument 'size' must be tuple of ints, but found element of type {type(size).__name__} "
                    f"at pos {position}"
                )
        return empty([int(size) for size in data], dtype=dtype, device=device)
    if len(data) > 1:
        kinds = ", ".join(type(each).__name__ for each in data)
        raise TypeError(f"new() received an invalid combination of arguments - got ({kinds})")
    if isinstance(first, TensorImpl):
        if device_argument is not None:
            raise RuntimeError(
                "Legacy tensor constructor or new of the form (tensor, device=device) is not supported. Use "
                f"{public_name.shown}.as_tensor(tensor, device=device) instead."
            )
        if first.dtype is not dtype or first.device.type != device.type:
            raise TypeError(
                f"new(): expected a {type_name(dtype, device.type)} (got "
                f"{type_name(first.dtype, first.device.type)}); use to() to convert it"
            )
        made: Any = first
        return made.alias()  # type: ignore[no-any-return]
    if isinstance(first, Storage | TypedStorageBase):
        source: Any = first
        return empty(0, dtype=dtype, device=device).set_(source)
    if isinstance(first, str):
        raise TypeError("new(): invalid data type 'str'")
    if not isinstance(first, Sequence | np.ndarray):
        raise TypeError(f"new(): data must be a sequence (got {type(first).__name__})")
    return tensor(first, dtype=dtype, device=device)


def _constructed_sparse(dtype: st.dtype, device: Device, data: Sequence[Any]) -> Tensor:
    """Return a tensor of a sparse type: without elements from sizes, or of indices, values and optional sizes."""
    from ..functions.sparse import sparse_coo_tensor

    if not data:
        return sparse_coo_tensor(size=(0,), dtype=dtype, device=device)
    if len(data) in (2, 3) and all(isinstance(each, TensorImpl) for each in data[:2]):
        if data[1].dtype is not dtype:
            raise TypeError(
                f"new(): expected values of {dtype}, got {data[1].dtype}; use to() to convert them"
            )
        return sparse_coo_tensor(*data, device=device)
    size = data[0] if isinstance(data[0], Size) else data
    if not all(isinstance(each, int) for each in size):
        raise TypeError(
            "a sparse type takes sizes, or indices and values; use sparse_coo_tensor, or to_sparse of a strided tensor"
        )
    return sparse_coo_tensor(size=tuple(size), dtype=dtype, device=device)


def _is_integer(value: Any) -> bool:
    return isinstance(value, TensorImpl) and not value._spec.sizes and value._spec.dtype.is_integral


def constructed_as(
    cls: type[Tensor], data: Sequence[Any], /, *, device: DeviceLike = None, **named: Any
) -> Tensor:
    """Return a tensor of a class, as ``Tensor(...)``: of the default dtype, or a view of a given tensor."""
    from ..tensor import Tensor

    source = data[0] if data else next(iter(named.values()), None)
    if isinstance(source, TensorImpl) and len(data) + len(named) == 1 and set(named) <= {"other"}:
        dtype, on = source.dtype, source.device
    else:
        dtype, on = st.get_default_dtype(), Device("cpu")
    made = constructed(dtype, on, data, device, named)
    return made if cls is Tensor else made.as_subclass(cls)


constructors[:] = [constructed_as]


def type_of(kind: Any) -> TensorType:
    """Return the type that an argument names: a `TensorType`, `Tensor` itself (of the default dtype) or a string.

    Raises ValueError for an unknown string or class, TypeError for anything else.
    """
    from ..tensor import Tensor

    if isinstance(kind, TensorType):
        return kind
    if kind is Tensor:
        return TensorType(st.get_default_dtype())
    if isinstance(kind, type):
        raise ValueError(f"invalid type: '{kind.__name__}'")
    if not isinstance(kind, str):
        raise TypeError(f"dtype must be a type, str, or dtype object, not {type(kind).__name__}")
    for prefix in _PREFIXES:
        if kind.startswith(prefix) and kind.endswith("Tensor"):
            qualifier, _, name = kind.removeprefix(prefix).removesuffix("Tensor").rpartition(".")
            is_sparse = qualifier.rpartition(".")[2] == "sparse"
            device_type = qualifier.removesuffix("sparse").removesuffix(".") if is_sparse else qualifier
            dtype = st.get_default_dtype() if not name else _BY_NAME.get(name)
            if dtype is not None and device_type in ("", "cpu", "cuda", "meta"):
                return TensorType(dtype, device_type or "cpu", sparse_coo if is_sparse else strided)
    raise ValueError(f"invalid type: '{kind}'")


def set_default_tensor_type(t: Any) -> None:
    """Set the dtype and the device of new floating tensors by a type (`torch.set_default_tensor_type`).

    `set_default_dtype` and `set_default_device` are newer.

    Args:
        t: A type such as `tt.DoubleTensor`, or its name.

    Raises:
        TypeError: The type is not a floating one.

    Example:
        >>> import triten as tt
        >>> tt.set_default_tensor_type(tt.DoubleTensor); tt.zeros(1).dtype
        triten.float64
        >>> tt.set_default_tensor_type("triten.FloatTensor")
    """
    try:
        kind = type_of(t)
    except TypeError as error:
        raise TypeError(
            "invalid type object: only floating-point types are supported as the default type"
        ) from error
    st.set_default_dtype(kind.dtype)
    set_default_device(None if kind.device_type == "cpu" else kind.device_type)


class TypeMethods(_Base):
    """Mixin of `Tensor`."""

    __slots__ = ()

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Tensor | str:
        """Return the name of the tensor's type, or the tensor converted to another type (`torch.Tensor.type`).

        Args:
            dtype: A dtype, a type such as `tt.LongTensor`, or a type's name; None asks for the name.
            non_blocking: If True, a copy from pinned memory to a GPU is only enqueued.

        Returns:
            A string, or a tensor; the tensor itself if it is of that type already.

        Raises:
            ValueError: A string or a class names no type.
            TypeError: `dtype` is anything else.

        Example:
            >>> import triten as tt
            >>> tt.ones(1).type(), tt.ones(1).type(tt.LongTensor)
            ('triten.FloatTensor', tensor([1]))
        """
        try:
            tensor: Tensor = self  # type: ignore[assignment]
            if dtype is None:
                return type_name(self.dtype, self.device.type, self.layout)
            if isinstance(dtype, st.dtype):
                return tensor.to(dtype, non_blocking=non_blocking) if non_blocking else tensor.to(dtype)
            kind = type_of(dtype)
            if kind.device_type == self.device.type:
                return tensor.to(kind.dtype, non_blocking=non_blocking)
            return tensor.to(kind.device_type, kind.dtype, non_blocking=non_blocking)
        except BaseException:
            hide_inner_frames()
            raise

    def new(self, *data: Any, device: DeviceLike = None, **named: Any) -> Tensor:
        """Return a tensor with this dtype and device (`torch.Tensor.new`); `new_empty` and `new_tensor` are newer.

        Args:
            *data: Sizes for a tensor without values, or a sequence of elements, as `tt.FloatTensor` takes them.
            device: A device of the same kind, where there are several.
            **named: Instead of `data`, one of `size`, `data`, `storage` and `other`.

        Returns:
            A tensor.

        Raises:
            TypeError: A tensor of another type is given, or the data is not a sequence.
            RuntimeError: `device` is of another kind.

        Example:
            >>> import triten as tt
            >>> tt.ones(1).new([1, 2]), tt.ones(1).new(2, 3).shape
            (tensor([1., 2.]), triten.Size([2, 3]))
        """
        try:
            return constructed(self.dtype, self.device, data, device, named, self.layout)
        except BaseException:
            hide_inner_frames()
            raise


BFloat16Tensor = TensorType(st.bfloat16)
BoolTensor = TensorType(st.bool_)
ByteTensor = TensorType(st.uint8)
CharTensor = TensorType(st.int8)
DoubleTensor = TensorType(st.float64)
FloatTensor = TensorType(st.float32)
HalfTensor = TensorType(st.float16)
IntTensor = TensorType(st.int32)
LongTensor = TensorType(st.int64)
ShortTensor = TensorType(st.int16)

_BY_NAME = {
    dtype.scalar_name: dtype
    for dtype in (
        *(
            st.bfloat16,
            st.bool_,
            st.uint8,
            st.int8,
            st.float64,
            st.float32,
            st.float16,
            st.int32,
            st.int64,
            st.int16,
        ),
        *(st.complex32, st.complex64, st.complex128),
    )
}
