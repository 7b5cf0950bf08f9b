"""Storages as users see them (`torch.UntypedStorage`): constructors, elements, copies and conversions.

`runtime.storage` manages the bytes. The methods here read and write them through tensors, on every device.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ...runtime import allocator as allocators
from ...runtime import public_name, scalar_type
from ...runtime.device import CPU, DeviceLike
from ...runtime.device import device as Device
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.storage import (
    Storage,
    TypedStorageBase,
    register_storage,
    storage_class,
    storage_of,
)
from .pickling import _bytes_of, _copied_storage, _reduced_storage

if TYPE_CHECKING:
    from ..tensor import Tensor
    from .typed_storage import TypedStorage

CONVERSIONS = {
    "bfloat16": scalar_type.bfloat16,
    "bool": scalar_type.bool_,
    "byte": scalar_type.uint8,
    "char": scalar_type.int8,
    "short": scalar_type.int16,
    "int": scalar_type.int32,
    "long": scalar_type.int64,
    "half": scalar_type.float16,
    "float": scalar_type.float32,
    "double": scalar_type.float64,
    "complex_float": scalar_type.complex64,
    "complex_double": scalar_type.complex128,
    "float8_e5m2": scalar_type.float8_e5m2,
    "float8_e4m3fn": scalar_type.float8_e4m3fn,
    "float8_e5m2fnuz": scalar_type.float8_e5m2fnuz,
    "float8_e4m3fnuz": scalar_type.float8_e4m3fnuz,
}
"""Methods that convert the elements of a storage, with their dtypes."""


class UntypedStorage(Storage):
    """Bytes on a device, shared by a tensor and its views (`torch.UntypedStorage`).

    Args:
        *data: Number of uninitialized bytes, or a sequence of bytes as ints; nothing for an empty storage.
        device: Device of the bytes. Default: the CPU.

    Raises:
        TypeError: There is more than one positional argument, or it is neither an int nor a sequence of ints.
        RuntimeError: The number of bytes is negative.

    Example:
        >>> import triten as tt
        >>> x = tt.zeros(4)
        >>> x[1:].untyped_storage() is x.untyped_storage(), x.untyped_storage().nbytes()
        (True, 16)
        >>> tt.UntypedStorage([1, 2, 3]).tolist(), tt.UntypedStorage(8, device="meta").nbytes()
        ([1, 2, 3], 8)
    """

    __slots__ = ()

    is_sparse = False
    is_sparse_csr = False

    def __init__(self, *data: int | Sequence[int], device: DeviceLike = None) -> None:
        where = CPU if device is None else Device(device)
        if len(data) > 1:
            raise TypeError(
                f"UntypedStorage: expected a number of bytes or a sequence of them, got {len(data)} arguments"
            )
        source = data[0] if data else 0
        if isinstance(source, Sequence):
            if not all(isinstance(each, int | np.integer) for each in source):
                raise TypeError("UntypedStorage: the elements of a sequence must be ints")
            values = np.array([int(each) & 0xFF for each in source], np.uint8)
            root = _allocated(len(values), where)
            super().__init__(root, where)
            register_storage(self)
            if len(values) and where.type != "meta":
                _bytes_of(self).copy_(_bytes_of(storage_of(values, CPU)))
            return
        if not hasattr(type(source), "__index__"):
            raise TypeError(
                f"UntypedStorage: expected a number of bytes or a sequence of them, got {type(source).__name__}"
            )
        nbytes = operator.index(source)
        if nbytes < 0:
            raise RuntimeError(f"UntypedStorage: the number of bytes must not be negative, got {nbytes}")
        super().__init__(_allocated(nbytes, where), where)
        register_storage(self)

    @property
    def is_cuda(self) -> bool:
        """True if the bytes are on a GPU."""
        return self.device.type == "cuda"

    @property
    def _cdata(self) -> int:
        """Number that identifies the storage while a tensor over it lives."""
        return id(self.root)

    def new(self) -> UntypedStorage:
        """Return an empty storage on the same device."""
        return UntypedStorage(device=self.device)

    def element_size(self) -> int:
        """Return 1: the elements are bytes."""
        return 1

    def get_device(self) -> int | None:
        """Return the index of the device; None if it has none."""
        return self.device.index

    def _position(self, index: int) -> int:
        size = self.nbytes()
        position = index + size if index < 0 else index
        if not 0 <= position < size:
            raise IndexError(f"index {position} out of range for storage of size {size}")
        return position

    def _part(self, index: slice) -> tuple[int, int]:
        start, stop, step = index.indices(self.nbytes())
        if step != 1:
            raise RuntimeError(f"Trying to slice with a step of {step}, but only a step of 1 is supported")
        return start, max(start, stop)

    def __getitem__(self, index: int | slice) -> Any:
        """Return a byte, or a slice as a storage over the same memory."""
        if self.device.type == "meta":
            raise NotImplementedError("Not available for 'meta' device type")
        if isinstance(index, slice):
            start, stop = self._part(index)
            part: Any = _bytes_of(self)[start:stop]
            storage = UntypedStorage.over(part._data, self.device)
            if self.device is not CPU:
                storage.root.nbytes = stop - start
            storage.can_resize = False
            return storage
        if isinstance(index, int):
            return int(_bytes_of(self)[self._position(index)].item())
        raise TypeError(f"can't index a torch.UntypedStorage with {type(index).__name__}")

    def __setitem__(self, index: int | slice, value: int) -> None:
        """Write a byte, or one value to all bytes of a slice."""
        if not isinstance(value, int):
            raise RuntimeError(
                f"can only set storage content with a int types, but got {type(value).__name__} instead"
            )
        data = _bytes_of(self)
        if isinstance(index, slice):
            start, stop = self._part(index)
            data[start:stop].fill_(value & 0xFF)
        elif isinstance(index, int):
            data[self._position(index)].fill_(value & 0xFF)
        else:
            raise RuntimeError(f"can't index a torch.UntypedStorage with {type(index).__name__}")

    def tolist(self) -> list[int]:
        """Return the bytes as ints."""
        if self.device.type == "meta":
            raise NotImplementedError("Not available for 'meta' device type")
        values: list[int] = _bytes_of(self).tolist()
        return values

    def __iter__(self) -> Iterator[int]:
        return iter(self.tolist())

    def fill_(self, value: int) -> Self:
        """Set every byte to the low 8 bits of an int."""
        if not isinstance(value, int):
            raise RuntimeError(f"fill_ expects int, but got {type(value).__name__}")
        _bytes_of(self).fill_(value & 0xFF)
        return self

    def copy_(self, source: Storage | TypedStorageBase, non_blocking: bool | None = None) -> Self:
        """Set the bytes to those of another storage of the same size.

        Raises:
            RuntimeError: The sizes differ.
            NotImplementedError: `source` is a meta storage, which has no bytes, and this storage is not.
        """
        other = source._untyped_storage if isinstance(source, TypedStorageBase) else source
        if other.nbytes() != self.nbytes():
            raise RuntimeError(
                f"size does not match, self was {self.nbytes()} bytes but src was {other.nbytes()} bytes"
            )
        if self.nbytes():
            _bytes_of(self).copy_(_bytes_of(other), bool(non_blocking))
        return self

    def clone(self) -> UntypedStorage:
        """Return a copy with its own memory."""
        return UntypedStorage(self.nbytes(), device=self.device).copy_(self)

    def __copy__(self) -> UntypedStorage:
        return self.clone()

    def __deepcopy__(self, memo: dict[int, Any]) -> Storage:
        # Tensors and storages that share memory also share it in the copy.
        return _copied_storage(self, memo)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        # `copyreg` does not pass the protocol. `multiprocessing` has its own dispatch table.
        return _reduced_storage(self, protocol)

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self.nbytes()

    def to(self, *, device: Device | str | int, non_blocking: bool = False) -> UntypedStorage:
        """Return the bytes on a device; the storage itself if it is there already."""
        data = _bytes_of(self)
        moved: Any = data.to(device=Device(device), non_blocking=non_blocking)
        return self if moved is data else _storage(moved)

    def cpu(self) -> UntypedStorage:
        """Return the bytes on the CPU; the storage itself if it is there already."""
        return self.to(device="cpu")

    def cuda(self, device: DeviceLike = None, non_blocking: bool = False) -> UntypedStorage:
        """Return the bytes on a GPU; the storage itself if it is there already."""
        where = (
            Device("cuda")
            if device is None
            else Device("cuda", device)
            if isinstance(device, int)
            else device
        )
        return self.to(device=where, non_blocking=non_blocking)

    def is_pinned(self, device: DeviceLike = None) -> bool:
        """Return whether the memory is pinned."""
        return bool(_bytes_of(self).is_pinned())

    def pin_memory(self, device: DeviceLike = None) -> UntypedStorage:
        """Return the bytes in pinned memory. Raise TypeError for a storage outside of the CPU."""
        if self.device is not CPU:
            raise TypeError(f"cannot pin '{self.type()}' only CPU memory can be pinned")
        return _storage(_bytes_of(self).pin_memory())

    def type(self) -> str:
        """Return the name of the class."""
        return f"{public_name.shown}.storage.UntypedStorage"

    def _converted(self, dtype: ScalarType) -> TypedStorage:
        from .typed_storage import TypedStorage

        return TypedStorage._over(_bytes_of(self).to(dtype, copy=True))

    def byteswap(self, dtype: ScalarType) -> None:
        """Reverse the bytes of each element of a dtype in place; of a complex one, those of its two parts."""
        unit = dtype.itemsize // 2 if dtype.is_complex else dtype.itemsize
        count = self.nbytes() // unit
        elements: Any = _bytes_of(self)[: count * unit].view(count, unit)
        elements.copy_(elements.flip(1))

    @classmethod
    def _new_shared(cls, size: int, *, device: DeviceLike = "cpu") -> UntypedStorage:
        """Return a storage of `size` bytes in memory shared with other processes."""
        made = cls(size, device=device)
        made.share_memory_()
        return made

    @staticmethod
    def from_buffer(
        buffer: Any,
        byte_order: str | None = None,
        count: int = -1,
        offset: int = 0,
        *,
        dtype: ScalarType | None = None,
    ) -> UntypedStorage:
        """Copy elements out of an object with Python's buffer protocol (`torch.UntypedStorage.from_buffer`).

        Args:
            buffer: Bytes, or another buffer.
            byte_order: Order of the bytes of an element: "native", "little" or "big". One byte has none.
            count: Number of elements. Default: -1, all.
            offset: Position of the first byte.
            dtype: Dtype of the elements.

        Raises:
            RuntimeError: `dtype` is missing, or `byte_order` for elements of more than one byte.
            ValueError: `byte_order` is another word, or the buffer does not hold the elements.
        """
        if dtype is None:
            raise RuntimeError("argument 'dtype' cannot be None")
        itemsize = dtype.itemsize
        if itemsize > 1:
            if byte_order is None:
                raise RuntimeError("function missing required argument 'byte_order' (pos 2)")
            if byte_order not in ("native", "little", "big"):
                raise ValueError(
                    f"invalid byte_order '{byte_order}' (expected 'big' or 'little' or 'native')"
                )
        data = memoryview(buffer).cast("B")
        if not 0 <= offset <= len(data):
            raise ValueError(
                f"offset must be non-negative and no greater than buffer length ({len(data)}), but got {offset}"
            )
        if count < 0:
            if (len(data) - offset) % itemsize:
                raise ValueError(
                    f"buffer size ({len(data)}) must be a multiple of element size ({itemsize}) after offset {offset}"
                )
            count = (len(data) - offset) // itemsize
        elif offset + count * itemsize > len(data):
            raise ValueError(
                f"buffer has only {(len(data) - offset) // itemsize} elements after offset {offset}, but specified a "
                f"size of {count}"
            )
        made = UntypedStorage(count * itemsize)
        target = made.bytes_on_host()
        target[:] = np.frombuffer(data, np.uint8, count * itemsize, offset)
        if dtype is scalar_type.bool_:
            target[:] = target != 0
        if byte_order in ("little", "big") and byte_order != sys.byteorder:
            made.byteswap(dtype)
        return made

    def __repr__(self) -> str:
        head = "...\n" if self.device.type == "meta" else " " + "\n ".join(map(str, self.tolist())) + "\n"
        return f"{head}[{self.type()}(device={self.device}) of size {len(self)}]"


def _allocated(nbytes: int, device: Device) -> Any:
    """Return new memory: an array on the host, a pointer elsewhere."""
    if device is CPU:
        return allocators.empty_array((nbytes,), (1,), np.dtype(np.uint8), True)
    return allocators.get_allocator(device.type).allocate(nbytes, device)


def untyped_storage_of(data: Any, device: Device) -> UntypedStorage:
    """Return the storage of a tensor's bytes; see `storage_of`."""
    storage: Any = storage_of(data, device)
    return storage  # type: ignore[no-any-return]


def _storage(tensor: Tensor) -> UntypedStorage:
    return untyped_storage_of(tensor._data, tensor._spec.device)


def _conversion(name: str, dtype: ScalarType) -> Any:
    def convert(self: Any) -> TypedStorage:
        converted: TypedStorage = self._converted(dtype)
        return converted

    convert.__name__, convert.__doc__ = (
        name,
        f"Return the elements converted to {dtype.name}, as a typed storage.",
    )
    return convert


def add_conversions(cls: type) -> None:
    """Add a method for each of `CONVERSIONS` to a class of storages."""
    for name, dtype in CONVERSIONS.items():
        setattr(cls, name, _conversion(name, dtype))


add_conversions(UntypedStorage)
storage_class[:] = [UntypedStorage]
