"""Storages with a dtype (`tt.storage`), from before `UntypedStorage`.

PyTorch has deprecated them, and warns on first use. Files of its older versions and programs that call
``tensor.storage()`` use them. `FloatStorage` and similar classes are `TypedStorage` of one dtype.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Self

from ...runtime import public_name, scalar_type
from ...runtime.device import DeviceLike
from ...runtime.device import device as Device
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.storage import Storage as UntypedStorage
from ..generated import functions as _ops
from ..tensor import Tensor
from ..tensor_data import tensor

__all__ = ["TypedStorage", "UntypedStorage"]

_told: list[bool] = []


def warn() -> None:
    """Issue PyTorch's warning about typed storages, once."""
    if not _told:
        _told.append(True)
        warnings.warn(
            "TypedStorage is deprecated. It will be removed in the future and UntypedStorage will be the only storage "
            "class. This should only matter to you if you are using storages directly. To access UntypedStorage "
            "directly, use tensor.untyped_storage() instead of tensor.storage()",
            stacklevel=3,
        )


class TypedStorage:
    """Storage of tensors viewed as elements of a dtype (`torch.TypedStorage`).

    Args:
        *args: Number of elements, or a sequence of them; nothing for an empty storage.
        wrap_storage: An `UntypedStorage` to wrap, instead of `args`.
        dtype: Dtype of the elements. Default: the default dtype. A legacy class has its own.
        device: Device of the elements. Default: that of `wrap_storage`, or the CPU.

    Raises:
        TypeError: More than one positional argument is given, or one together with `wrap_storage`.
        RuntimeError: a legacy class is given a dtype.

    Example:
        >>> import triten as tt
        >>> x = tt.arange(4.0)
        >>> storage = x[1:].storage()
        >>> storage.size(), storage[3], storage.dtype
        (4, 3.0, triten.float32)
        >>> storage[0] = 7; x
        tensor([7., 1., 2., 3.])
    """

    _own_dtype: ClassVar[ScalarType | None] = None
    _own_device: ClassVar[str | None] = None

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
        name = type(self).__name__
        if self._own_dtype is not None:
            if dtype is not None or device is not None:
                raise RuntimeError(
                    f"{name}: arguments 'dtype' and 'device' cannot be specified, the class has them"
                )
            dtype, device = self._own_dtype, self._own_device
        if len(args) > 1 or (args and wrap_storage is not None):
            raise TypeError(
                f"{name}: expected one argument by position or wrap_storage, got {len(args)}"
                f"{' and wrap_storage' if wrap_storage is not None else ''}"
            )
        if wrap_storage is not None:
            if dtype is None:
                raise TypeError(f"{name}: argument 'dtype' must be given beside wrap_storage")
            if not isinstance(wrap_storage, UntypedStorage):
                raise TypeError(
                    f"{name}: wrap_storage must be UntypedStorage, got {type(wrap_storage).__name__}"
                )
            count = wrap_storage.nbytes() // dtype.itemsize
            self._elements: Tensor = _ops.empty(0, dtype=dtype, device=wrap_storage.device).set_(
                wrap_storage, 0, (count,), (1,)
            )
            return
        dtype = dtype or scalar_type.get_default_dtype()
        given = args[0] if args else 0
        if isinstance(given, int):
            self._elements = _ops.empty(given, dtype=dtype, device=device or "cpu")
        elif isinstance(given, Sequence) and not isinstance(given, str):
            self._elements = tensor(list(given), dtype=dtype, device=device or "cpu").reshape(-1)
        else:
            raise TypeError(f"{name}: expected a size or a sequence of elements, got {type(given).__name__}")

    @classmethod
    def _over(cls, elements: Tensor) -> TypedStorage:
        return TypedStorage(wrap_storage=elements.untyped_storage(), dtype=elements.dtype, _internal=True)

    @property
    def dtype(self) -> ScalarType:
        """The elements' dtype."""
        return self._elements.dtype

    @property
    def device(self) -> Device:
        """The elements' device."""
        return self._elements.device

    @property
    def is_cuda(self) -> bool:
        """True if the elements are on a GPU."""
        return self._elements.is_cuda

    is_sparse = False

    def untyped(self) -> UntypedStorage:
        """Return the untyped storage."""
        return self._elements.untyped_storage()

    @property
    def _untyped_storage(self) -> UntypedStorage:
        return self.untyped()

    def _typed_storage(self) -> Self:
        return self

    def size(self) -> int:
        """Return the number of elements."""
        return self._elements.numel()

    __len__ = size

    def nbytes(self) -> int:
        """Return the number of bytes."""
        return self.untyped().nbytes()

    def element_size(self) -> int:
        """Return the size of an element in bytes."""
        return self.dtype.itemsize

    def data_ptr(self) -> int:
        """Return the address of the first element."""
        return self.untyped().data_ptr()

    def get_device(self) -> int:
        """Return the index of the GPU; -1 on the CPU."""
        return self._elements.get_device()

    def is_shared(self) -> bool:
        """Return whether other processes may access the memory."""
        return self._elements.is_shared()

    def share_memory_(self) -> Self:
        """Move the elements to memory shared with other processes."""
        self._elements.share_memory_()
        return self

    def is_pinned(self) -> bool:
        """Return whether the memory is pinned."""
        return self._elements.is_pinned()

    def pin_memory(self) -> TypedStorage:
        """Return the elements in pinned memory."""
        return self._over(self._elements.pin_memory())

    def resizable(self) -> bool:
        """Return whether `resize_` may change the number of elements."""
        return self.untyped().resizable

    def resize_(self, size: int) -> Self:
        """Resize to this many elements; the first keep their values."""
        storage, dtype = self.untyped(), self.dtype
        storage.resize_(size * dtype.itemsize)
        self._elements = _ops.empty(0, dtype=dtype, device=storage.device).set_(storage, 0, (size,), (1,))
        return self

    def _position(self, index: object) -> int | slice:
        if isinstance(index, (int, slice)):
            return index
        raise TypeError(f"can't index a {type(self)} with {type(index)}")

    def __getitem__(self, index: int | slice) -> Any:
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
        values: list[Any] = self._elements.tolist()
        return values

    def fill_(self, value: Any) -> Self:
        """Set every element to a value."""
        self._elements.fill_(value)
        return self

    def copy_(self, source: TypedStorage, non_blocking: bool | None = None) -> Self:
        """Set the elements to those of another storage of the same size."""
        if len(source) != len(self):
            raise RuntimeError(
                f"copy_: size does not match, self was {len(self)} elements but source was {len(source)}"
            )
        self._elements.copy_(source._elements, bool(non_blocking))
        return self

    def clone(self) -> TypedStorage:
        """Return a copy with its own memory."""
        return self._over(self._elements.clone())

    __copy__ = clone

    def __deepcopy__(self, memo: dict[int, Any]) -> TypedStorage:
        if id(self) not in memo:
            # Tensors and storages that share memory also share it in the copy.
            memo[id(self)] = self._over(copy.deepcopy(self._elements, memo))
        copied: TypedStorage = memo[id(self)]
        return copied

    def to(self, device: DeviceLike, non_blocking: bool = False) -> TypedStorage:
        """Return the elements on a device; the storage itself if it is there already."""
        moved = self._elements.to(device, non_blocking=non_blocking)
        return self if moved is self._elements else self._over(moved)

    def cpu(self) -> TypedStorage:
        """Return the elements on the CPU."""
        return self.to("cpu")

    def cuda(self, device: DeviceLike = None, non_blocking: bool = False) -> TypedStorage:
        """Return the elements on a GPU."""
        return self.to("cuda" if device is None else device, non_blocking)

    def _converted(self, dtype: ScalarType) -> TypedStorage:
        return self if dtype is self.dtype else self._over(self._elements.to(dtype))

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """Return the name of the dtype's legacy class; or convert to `dtype`: a class, its name, or a dtype."""
        if dtype is None:
            place = "cuda." if self.is_cuda else ""
            return f"{public_name.shown}.{place}{self.dtype.scalar_name}Storage"
        if isinstance(dtype, str):
            dtype = legacy[dtype.rpartition(".")[2]]
        wanted = dtype if isinstance(dtype, ScalarType) else dtype._own_dtype
        return self._converted(wanted)

    def pickle_storage_type(self) -> str:
        """Return the name of the legacy class in files."""
        return f"{self.dtype.scalar_name}Storage"

    def __repr__(self) -> str:
        lines = "".join(f" {value}\n" for value in self.tolist())
        what = f"dtype={self.dtype}, device={self.device}"
        return f"{lines}[{public_name.shown}.storage.TypedStorage({what}) of size {len(self)}]"

    __str__ = __repr__


def _conversion(name: str, dtype: ScalarType) -> Any:
    def convert(self: TypedStorage) -> TypedStorage:
        return self._converted(dtype)

    convert.__name__, convert.__doc__ = name, f"The elements as {dtype.name}; itself where they are."
    return convert


for _name, _dtype in {
    "bfloat16": scalar_type.bfloat16, "bool": scalar_type.bool_, "byte": scalar_type.uint8,
    "char": scalar_type.int8, "short": scalar_type.int16, "int": scalar_type.int32, "long": scalar_type.int64,
    "half": scalar_type.float16, "float": scalar_type.float32, "double": scalar_type.float64,
    "complex_float": scalar_type.complex64, "complex_double": scalar_type.complex128,
}.items():  # fmt: skip
    setattr(TypedStorage, _name, _conversion(_name, _dtype))


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
        made = object.__new__(cls)
        made.__init__(*args, **named)  # type: ignore[misc]
        return TypedStorage._over(made._elements)


def _legacy(device: str) -> dict[str, type[LegacyStorage]]:
    found: dict[str, Any] = {}
    for dtype in scalar_type.ALL:
        name = f"{dtype.scalar_name}Storage"
        where = "CPU" if device == "cpu" else "GPU"
        content = {
            "_own_dtype": dtype,
            "_own_device": device,
            "__doc__": f"Storages of {dtype.name} on the {where}.",
        }
        found[name] = LegacyStorageMeta(name, (LegacyStorage,), content)
    return found


legacy = _legacy("cpu")
legacy_cuda = _legacy("cuda")
