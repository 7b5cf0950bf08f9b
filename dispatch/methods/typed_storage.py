"""Storages with a dtype (`tt.storage`), from before `UntypedStorage`.

PyTorch has deprecated them, and warns on first use. Files of its older versions and programs that call
``tensor.storage()`` use them. `FloatStorage` and similar classes are `TypedStorage` of one dtype.
"""

from __future__ import annotations

import builtins
import copy
import os
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Self

import numpy as np

from ...runtime import public_name, scalar_type
from ...runtime.device import DeviceLike
from ...runtime.device import device as Device
from ...runtime.quantized_data import INTEGERS
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.storage import TypedStorageBase
from ...runtime.user_frame import levels_to_user
from ..generated import functions as _ops
from ..tensor import Tensor
from ..tensor_data import tensor
from .untyped_storage import UntypedStorage, add_conversions

__all__ = ["TypedStorage", "UntypedStorage"]

_told: list[bool] = []

_LEGACY_DTYPES = (
    scalar_type.float64,
    scalar_type.float32,
    scalar_type.float16,
    scalar_type.bfloat16,
    scalar_type.int64,
    scalar_type.int32,
    scalar_type.int16,
    scalar_type.int8,
    scalar_type.uint8,
    scalar_type.bool_,
    scalar_type.complex128,
    scalar_type.complex64,
    scalar_type.qint8,
    scalar_type.quint8,
    scalar_type.qint32,
    scalar_type.quint4x2,
)
"""Dtypes with a legacy class. PyTorch adds none for newer dtypes."""


def warn() -> None:
    """Issue PyTorch's warning about typed storages, once."""
    if not _told:
        _told.append(True)
        warnings.warn(
            "TypedStorage is deprecated. It will be removed in the future and UntypedStorage will be the only storage "
            "class. This should only matter to you if you are using storages directly. To access UntypedStorage "
            "directly, use tensor.untyped_storage() instead of tensor.storage()",
            stacklevel=levels_to_user(),
        )


class TypedStorage(TypedStorageBase):
    """Storage of tensors viewed as elements of a dtype (`torch.TypedStorage`).

    Args:
        *args: Number of elements, or a sequence of them; nothing for an empty storage.
        wrap_storage: An `UntypedStorage` to wrap, instead of `args`.
        dtype: Dtype of the elements; a quantized dtype has its integers as elements. Default: the default dtype. A
            legacy class has its own.
        device: Device of the elements. Default: that of `wrap_storage`, or the CPU.

    Raises:
        TypeError: The argument is neither a number nor a sequence, or `wrap_storage` is no `UntypedStorage`.
        RuntimeError: More than one positional argument is given, or one together with `wrap_storage`; or a legacy
            class is given a dtype or a device.

    Example:
        >>> import triten as tt
        >>> x = tt.arange(4.0)
        >>> storage = x[1:].storage()
        >>> storage.size(), storage[3], storage.dtype
        (4, 3.0, triten.float32)
        >>> storage[0] = 7; x
        tensor([7., 1., 2., 3.])
    """

    is_sparse = False

    def __init__(
        self,
        *args: Any,
        wrap_storage: UntypedStorage | None = None,
        dtype: ScalarType | None = None,
        device: DeviceLike = None,
        _internal: bool = False,
    ) -> None:
        if not _internal:
            warn()
        if len(args) > 1 or (args and wrap_storage is not None):
            raise RuntimeError(
                f"TypedStorage: expected one argument by position or wrap_storage, got {len(args)}"
                f"{' and wrap_storage' if wrap_storage is not None else ''}"
            )
        if wrap_storage is not None:
            if dtype is None:
                raise RuntimeError("TypedStorage: argument 'dtype' must be given beside wrap_storage")
            if not isinstance(dtype, ScalarType):
                raise TypeError(
                    f"TypedStorage: argument 'dtype' must be a dtype, not {builtins.type(dtype).__name__}"
                )
            if device is not None:
                raise RuntimeError("TypedStorage: argument 'device' must not be given beside wrap_storage")
            if not isinstance(wrap_storage, UntypedStorage):
                raise TypeError(
                    f"TypedStorage: wrap_storage must be UntypedStorage, got {builtins.type(wrap_storage).__name__}"
                )
            self.dtype: ScalarType = dtype
            self._untyped_storage: UntypedStorage = wrap_storage
            return
        self.dtype = dtype = dtype or scalar_type.get_default_dtype()
        where = Device("cpu" if device is None else device)
        if dtype in INTEGERS and where.type == "cuda":
            raise RuntimeError("Cannot create CUDA storage with quantized dtype")
        source = args[0] if args else 0
        if isinstance(source, int | np.integer):
            self._untyped_storage = UntypedStorage(int(source) * dtype.itemsize, device=where)
        elif isinstance(source, Sequence) and not isinstance(source, str):
            values = tensor(list(source), dtype=INTEGERS.get(dtype, dtype), device=where)
            self._untyped_storage = values.untyped_storage()  # type: ignore[assignment]
        else:
            raise TypeError(
                f"TypedStorage: expected a size or a sequence of elements, got {builtins.type(source).__name__}"
            )

    @classmethod
    def _over(cls, elements: Tensor) -> TypedStorage:
        storage: Any = elements.untyped_storage()
        return TypedStorage(wrap_storage=storage, dtype=elements.dtype, _internal=True)

    @property
    def _dtype(self) -> ScalarType:
        return self.dtype

    @property
    def _elements(self) -> Tensor:
        """A vector over all bytes; of a quantized dtype, the integers."""
        storage, dtype = self._untyped_storage, INTEGERS.get(self.dtype, self.dtype)
        count = storage.nbytes() // dtype.itemsize
        return _ops.empty(0, dtype=dtype, device=storage.device).set_(storage, 0, (count,), (1,))

    @property
    def device(self) -> Device:
        """The elements' device."""
        return self._untyped_storage.device

    @property
    def is_cuda(self) -> bool:
        """True if the elements are on a GPU."""
        return self._untyped_storage.is_cuda

    @property
    def filename(self) -> str | None:
        """File that is mapped here; None for other memory."""
        return self._untyped_storage.filename

    @property
    def _cdata(self) -> int:
        return self._untyped_storage._cdata

    def untyped(self) -> UntypedStorage:
        """Return the untyped storage."""
        return self._untyped_storage

    def _typed_storage(self) -> Self:
        return self

    def size(self) -> int:
        """Return the number of elements."""
        return self._untyped_storage.nbytes() // self.dtype.itemsize

    __len__ = size

    def nbytes(self) -> int:
        """Return the number of bytes."""
        return self._untyped_storage.nbytes()

    def element_size(self) -> int:
        """Return the size of an element in bytes."""
        return self.dtype.itemsize

    def data_ptr(self) -> int:
        """Return the address of the first element."""
        return self._untyped_storage.data_ptr()

    def get_device(self) -> int | None:
        """Return the index of the device; None if it has none."""
        return self._untyped_storage.get_device()

    def is_shared(self) -> bool:
        """Return whether other processes may access the memory."""
        return self._untyped_storage.is_shared()

    def share_memory_(self) -> Self:
        """Move the elements to memory shared with other processes."""
        self._untyped_storage.share_memory_()
        return self

    def is_pinned(self, device: DeviceLike = None) -> bool:
        """Return whether the memory is pinned."""
        return self._untyped_storage.is_pinned(device)

    def _wrapped(self, storage: UntypedStorage) -> TypedStorage:
        return TypedStorage(wrap_storage=storage, dtype=self.dtype, _internal=True)

    def pin_memory(self, device: DeviceLike = None) -> TypedStorage:
        """Return the elements in pinned memory. Raise TypeError for a storage outside of the CPU."""
        return self._wrapped(self._untyped_storage.pin_memory(device))

    def resizable(self) -> bool:
        """Return whether `resize_` may change the number of elements."""
        return self._untyped_storage.resizable()

    def resize_(self, size: int) -> Self:
        """Resize to this many elements; the first keep their values."""
        self._untyped_storage.resize_(size * self.dtype.itemsize)
        return self

    def _position(self, index: object) -> int | slice:
        if isinstance(index, (int, slice)):
            return index
        raise TypeError(f"can't index a {builtins.type(self)} with {builtins.type(index)}")

    def __getitem__(self, index: int | slice) -> Any:
        if self.device.type == "meta":
            raise NotImplementedError("Not available for 'meta' device type")
        position = self._position(index)
        if isinstance(position, slice):
            raise RuntimeError(
                "slices are only supported in UntypedStorage.__getitem__; storage.untyped() has the bytes"
            )
        if not -len(self) <= position < len(self):
            raise IndexError(f"index {position} out of range for storage of size {len(self)}")
        return self._elements[position].item()

    def __setitem__(self, index: int | slice, value: Any) -> None:
        self._elements[self._position(index)] = value

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def tolist(self) -> list[Any]:
        """Return the elements as Python numbers."""
        if self.device.type == "meta":
            raise NotImplementedError("Not available for 'meta' device type")
        values: list[Any] = self._elements.tolist()
        return values

    def fill_(self, value: Any) -> Self:
        """Set every element to a value."""
        self._elements.fill_(value)
        return self

    def copy_(self, source: TypedStorage | UntypedStorage, non_blocking: bool | None = None) -> Self:
        """Set the bytes to those of another storage of the same size; dtypes are not converted."""
        self._untyped_storage.copy_(source, non_blocking)
        return self

    def clone(self) -> TypedStorage:
        """Return a copy with its own memory."""
        return self._wrapped(self._untyped_storage.clone())

    __copy__ = clone

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self.nbytes()

    def __deepcopy__(self, memo: dict[int, Any]) -> TypedStorage:
        if id(self) not in memo:
            memo[id(self)] = self._wrapped(copy.deepcopy(self._untyped_storage, memo))
        copied: TypedStorage = memo[id(self)]
        return copied

    def to(self, *, device: Device | str | int, non_blocking: bool = False) -> TypedStorage:
        """Return the elements on a device; the storage itself if it is there already."""
        moved = self._untyped_storage.to(device=device, non_blocking=non_blocking)
        return self if moved is self._untyped_storage else self._wrapped(moved)

    def cpu(self) -> TypedStorage:
        """Return the elements on the CPU."""
        return self.to(device="cpu")

    def cuda(self, device: DeviceLike = None, non_blocking: bool = False) -> TypedStorage:
        """Return the elements on a GPU."""
        moved = self._untyped_storage.cuda(device, non_blocking)
        return self if moved is self._untyped_storage else self._wrapped(moved)

    def _converted(self, dtype: ScalarType) -> TypedStorage:
        return self._over(self._elements.to(dtype, copy=True))

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """Return the name of the dtype's legacy class; or convert to `dtype`: a class, its name, or a dtype."""
        if dtype is None:
            name = f"{self.dtype.scalar_name}Storage"
            if name not in legacy:
                return f"{public_name.shown}.storage.TypedStorage"
            return f"{public_name.shown}.{'cuda.' if self.is_cuda else ''}{name}"
        if isinstance(dtype, str):
            dtype = legacy[dtype.rpartition(".")[2]]
        target = dtype if isinstance(dtype, ScalarType) else dtype._own_dtype
        return self if target is self.dtype else self._converted(target)

    def pickle_storage_type(self) -> str:
        """Return the name of the legacy class in files. Raise KeyError for a dtype that has none."""
        name = f"{self.dtype.scalar_name}Storage"
        if name not in legacy:
            raise KeyError(f"dtype {self.dtype} is not recognized")
        return name

    def _get_legacy_storage_class(self) -> builtins.type[LegacyStorage] | None:
        classes = legacy_cuda if self.is_cuda else legacy
        return classes.get(f"{self.dtype.scalar_name}Storage")

    @classmethod
    def from_buffer(cls, buffer: Any, *args: Any, **named: Any) -> TypedStorage:
        """Copy elements out of an object with Python's buffer protocol (`torch.TypedStorage.from_buffer`).

        Args:
            buffer: Bytes, or another buffer.
            *args: `byte_order`, `count` and `offset` of `UntypedStorage.from_buffer`, also by name.
            **named: Those, and `dtype`, by default the default dtype; a legacy class has its own.

        Raises:
            RuntimeError: `byte_order` is missing for elements of more than one byte, `device` is not the CPU, or a
                legacy class is given a dtype or a device.
            ValueError: `byte_order` is another word, or the buffer does not hold the elements.

        Example:
            >>> import triten as tt
            >>> tt.storage.ShortStorage.from_buffer(bytes([1, 0]), "little").tolist()
            [1]
        """
        dtype, device = named.pop("dtype", None), named.pop("device", None)
        cls._refuse("from_buffer", dtype, device)
        dtype = cls._own_dtype or dtype or scalar_type.get_default_dtype()
        where = Device(device or cls._own_device or "cpu")
        if where.type != "cpu":
            raise RuntimeError(f"TypedStorage.from_buffer: Not available for device {where.type}")
        storage = UntypedStorage.from_buffer(buffer, *args, dtype=dtype, **named)
        return TypedStorage(wrap_storage=storage, dtype=dtype, _internal=True)

    @classmethod
    def from_file(cls, filename: str | os.PathLike[str], shared: bool = False, size: int = 0) -> TypedStorage:
        """Map the elements of a file as memory (`torch.FloatStorage.from_file`).

        Args:
            filename: The file.
            shared: If True, writes go to the file, which is created or extended if necessary. Default: False, they
                stay in memory.
            size: Number of elements, from the first.

        Raises:
            RuntimeError: The class has no dtype, or the file cannot be opened or is shorter.
        """
        if cls._own_dtype is None:
            raise RuntimeError("from_file can only be called on derived classes, such as FloatStorage")
        storage: Any = UntypedStorage.from_file(filename, shared, size * cls._own_dtype.itemsize)
        return TypedStorage(wrap_storage=storage, dtype=cls._own_dtype, _internal=True)

    @classmethod
    def _new_shared(cls, size: int) -> TypedStorage:
        """Return a storage of `size` elements in memory shared with other processes."""
        dtype = cls._own_dtype or scalar_type.get_default_dtype()
        storage = UntypedStorage._new_shared(size * dtype.itemsize, device=cls._own_device or "cpu")
        return TypedStorage(wrap_storage=storage, dtype=dtype, _internal=True)

    _own_dtype: ClassVar[ScalarType | None] = None
    _own_device: ClassVar[str | None] = None

    @classmethod
    def _refuse(cls, call: str, dtype: object, device: object) -> None:
        """Raise RuntimeError for a dtype or a device given to a legacy class, which has its own."""
        if cls._own_dtype is not None and (dtype is not None or device is not None):
            raise RuntimeError(
                f"{cls.__name__}.{call}: arguments 'dtype' and 'device' cannot be specified, the class has them"
            )

    def __repr__(self) -> str:
        is_meta = self.device.type == "meta"
        lines = "...\n" if is_meta else "".join(f" {value}\n" for value in self.tolist())
        description = f"dtype={self.dtype}, device={self.device}"
        return f"{lines}[{public_name.shown}.storage.TypedStorage({description}) of size {len(self)}]"

    __str__ = __repr__


add_conversions(TypedStorage)


class LegacyStorageMeta(type):
    """Metaclass by which any `TypedStorage` of the dtype and device counts as an instance."""

    _own_dtype: ScalarType | None
    _own_device: str | None

    @property
    def dtype(cls) -> ScalarType | None:
        """The dtype of the class's storages."""
        return cls._own_dtype

    def __instancecheck__(cls, instance: object) -> bool:
        if type(instance) is not TypedStorage:
            return super().__instancecheck__(instance)
        return instance.dtype is cls._own_dtype and instance.device.type == cls._own_device


class LegacyStorage(TypedStorage, metaclass=LegacyStorageMeta):
    """Storages of one dtype on one device type (`torch.FloatStorage` and similar classes)."""

    def __new__(cls, *args: Any, **named: Any) -> Any:
        """Return a `TypedStorage`: the class is a name for its dtype."""
        if cls._own_dtype is None:
            raise RuntimeError("Only child classes of LegacyStorage can be instantiated")
        cls._refuse("__new__", named.get("dtype"), named.get("device"))
        warn()
        wrapped = named.get("wrap_storage")
        if isinstance(wrapped, UntypedStorage) and wrapped.device.type != cls._own_device:
            raise RuntimeError(
                f"{cls.__name__}: device of 'wrap_storage' must be {cls._own_device}, but got {wrapped.device.type}"
            )
        named["device"] = cls._own_device if wrapped is None else None
        return TypedStorage(*args, **{**named, "dtype": cls._own_dtype, "_internal": True})


def _legacy(device: str) -> dict[str, type[LegacyStorage]]:
    classes: dict[str, Any] = {}
    for dtype in _LEGACY_DTYPES:
        name = f"{dtype.scalar_name}Storage"
        where = "CPU" if device == "cpu" else "GPU"
        content = {
            "__module__": f"{__name__.partition('.')[0]}.{'storage' if device == 'cpu' else 'cuda'}",
            "_own_dtype": dtype,
            "_own_device": device,
            "__doc__": f"Storages of {dtype.name} on the {where}.",
        }
        classes[name] = LegacyStorageMeta(name, (LegacyStorage,), content)
    return classes


legacy = _legacy("cpu")
legacy_cuda = _legacy("cuda")
