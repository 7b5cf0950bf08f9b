"""Storage: the bytes that a tensor and its views share (c10/core/StorageImpl.h).

Tensors hold their bytes directly (an ndarray on the host, a `DataPtr` elsewhere). A `Storage` is created on request.
The root array or pointer is its identity, so that all views find the same storage.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from . import allocator as allocators
from .data_ptr import DataPtr
from .device import CPU
from .device import device as Device
from .regular_file import open_regular
from .version_cell import is_lent

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .mapped_file import MappedFile
    from .scalar_type import dtype as ScalarType
    from .tensor_impl import TensorImpl

_storages: weakref.WeakValueDictionary[int, Storage] = weakref.WeakValueDictionary()

shared_roots: dict[int, Any] = {}
"""Blocks of memory shared with other processes, by the identity of their root."""

FOLLOWERS = "_followers"
"""Attribute of tensors whose memory comes and goes. It is a list of weak references to other tensors over the memory
that live longer than a call; the code that keeps one adds it.
"""


def root_of(data: Any) -> Any:
    """Return the array or pointer that owns the bytes: the base of a NumPy or `DataPtr.offset_by` view."""
    base = data.base
    if isinstance(data, DataPtr):
        return data if base is None else base
    return base if type(base) is np.ndarray or isinstance(base, DataPtr) else data


def address_of(data: Any) -> int:
    """Return the address of the first element."""
    if isinstance(data, DataPtr):
        return data.address
    address: int = data.__array_interface__["data"][0]
    return address


def _mapped_file(root: Any) -> MappedFile | None:
    """Return the file that a root maps; None for other roots."""
    base = root.base
    if not isinstance(base, memoryview):
        return None
    from .mapped_file import MappedFile

    mapped: object = base.obj
    return mapped if isinstance(mapped, MappedFile) else None


class Storage:
    """Untyped bytes on a device (`torch.UntypedStorage`), shared by a tensor and its views.

    Example:
        >>> import triten as tt
        >>> x = tt.zeros(4)
        >>> x[1:].untyped_storage() is x.untyped_storage(), x.untyped_storage().nbytes()
        (True, 16)
    """

    __slots__ = ("__weakref__", "_tensors", "can_resize", "device", "root")

    def __init__(self, root: Any, device: Device) -> None:
        self.root = root
        self.device = device
        self.can_resize = id(root) not in shared_roots and _mapped_file(root) is None
        self._tensors: weakref.WeakValueDictionary[int, TensorImpl] = weakref.WeakValueDictionary()

    @classmethod
    def over(cls, root: Any, device: Device) -> Self:
        """Return a storage over bytes that exist, for which `storage_of` has none."""
        made = object.__new__(cls)
        Storage.__init__(made, root, device)
        return made

    def nbytes(self) -> int:
        """Return the size in bytes."""
        return int(self.root.nbytes)

    size = nbytes

    @property
    def filename(self) -> str | None:
        """File that is mapped here; None for other memory."""
        mapped = _mapped_file(self.root)
        return None if mapped is None else mapped.filename

    def __len__(self) -> int:
        return self.nbytes()

    def data_ptr(self) -> int:
        """Return the address of the first byte; 0 for a storage without bytes."""
        return address_of(self.root) if self.root.nbytes else 0

    def resizable(self) -> bool:
        """Return True if `resize_` may change the size: the memory is this process's own, and no ndarray shares it."""
        return self.can_resize and not self._is_lent()

    def _is_lent(self) -> bool:
        return any(is_lent(tensor) for tensor in self._tensors.values())

    @property
    def allocator(self) -> allocators.Allocator:
        """Allocator that a resize uses."""
        return allocators.get_allocator(self.device.type)

    def resize_(self, nbytes: int) -> Storage:
        """Change the size, keeping the bytes that fit. Tensors that requested this storage follow.

        Raises RuntimeError for a negative size or a storage that is not resizable.
        """
        if nbytes < 0:
            raise RuntimeError(f"resize_: size must not be negative, got {nbytes}")
        if not self.resizable():
            why = " (a NumPy array shares its memory; resize a clone)" if self._is_lent() else ""
            raise RuntimeError(f"Trying to resize storage that is not resizable{why}")
        if nbytes == self.nbytes():
            return self
        followers = [(t, t.storage_offset() * t._spec.itemsize) for t in self._tensors.values()]
        old = self.root
        keep = min(nbytes, self.nbytes())
        if self.device is CPU:
            new = allocators.empty_array((nbytes,), (1,), np.dtype(np.uint8), True)
            if keep:
                self.allocator.copy_data(address_of(new), address_of(old), keep)
        else:
            new = self.allocator.allocate(nbytes, self.device)
            if keep:
                self.allocator.copy_data(new.address, old.address, keep)
        del _storages[id(old)]
        self.root = new
        _storages[id(new)] = self
        for tensor, offset in followers:
            if (
                allocators.storage_size(tensor._spec.sizes, tensor._spec.strides) * tensor._spec.itemsize
                + offset
                <= nbytes
            ):
                tensor._data = view_at(self, offset, tensor._spec)
        return self

    def is_shared(self) -> bool:
        """Return True if other processes may access the bytes (`torch.UntypedStorage.is_shared`): always on a GPU."""
        mapped = _mapped_file(self.root)
        return (
            self.device.type == "cuda"
            or id(self.root) in shared_roots
            or (mapped is not None and mapped.shared)
        )

    def share_memory_(self) -> Storage:
        """Move the bytes to shared memory (`torch.UntypedStorage.share_memory_`).

        All tensors over them follow; the storage cannot be resized from then on. On a GPU it does nothing.

        Raises:
            RuntimeError: the storage has no bytes (``meta``), or the system no shared memory.
        """
        self._share(None)
        return self

    def _share(self, tensor: TensorImpl | None) -> None:
        if self.device.type == "meta":
            raise RuntimeError("share_memory_(): only available on CPU and CUDA, got a storage on meta")
        if self.device is CPU:
            from .shared_memory import share

            share(self, tensor)

    def take_over(self, other: Storage) -> None:
        """Replace this storage's bytes by those of another, unused storage."""
        _storages.pop(id(self.root), None)
        self.root = other.root
        self.can_resize = other.can_resize
        _storages[id(self.root)] = self

    def follow(self, tensor: TensorImpl) -> None:
        """Make `tensor` follow later resizes of this storage."""
        self._tensors[id(tensor)] = tensor

    @staticmethod
    def from_file(filename: str | os.PathLike[str], shared: bool = False, nbytes: int = 0) -> Storage:
        """Map a file's bytes as memory, read on demand (`torch.UntypedStorage.from_file`).

        Args:
            filename: The file.
            shared: If True, writes go to the file, which is created or extended if necessary. Default: False, they
                stay in memory.
            nbytes: Number of bytes, from the first.

        Raises:
            RuntimeError: The file cannot be opened, or is shorter.
        """
        from mmap import ACCESS_COPY, ACCESS_WRITE

        from .mapped_file import MappedFile

        mode = "r+b" if os.path.exists(filename) else "w+b"
        try:
            with open_regular(filename, mode if shared else "rb") as file:
                length = os.fstat(file.fileno()).st_size
                if shared and length < nbytes:
                    file.truncate(nbytes)
                elif length < nbytes:
                    raise RuntimeError(
                        f"file <{filename}> size <{length}> is smaller than the required mapping size <{nbytes}>"
                    )
                if nbytes == 0:
                    return storage_of(np.empty(0, np.uint8), CPU)
                access = ACCESS_WRITE if shared else ACCESS_COPY
                mapped = MappedFile(file.fileno(), nbytes, access=access)
        except OSError as error:
            access_mode = "read-write" if shared else "read-only"
            reason = f"{error.strerror} ({error.errno})" if error.errno else str(error)
            raise RuntimeError(f"unable to open file <{filename}> in {access_mode} mode: {reason}") from None
        mapped.filename, mapped.shared = os.fspath(filename), shared
        return storage_of(np.frombuffer(mapped, np.uint8), CPU)

    def untyped(self) -> Storage:
        """Return itself."""
        return self

    def bytes_on_host(self) -> NDArray[np.uint8]:
        """Return a CPU storage as an array over the same memory. Raise NotImplementedError elsewhere."""
        if self.device is not CPU:
            raise NotImplementedError(f"a storage's bytes are reached on the CPU only, not on {self.device}")
        return np.ndarray(self.nbytes(), np.uint8, in_memory_order(self.root))

    def followers(self) -> Iterator[TensorImpl]:
        """Return the live tensors that requested this storage."""
        return self._tensors.values()


class TypedStorageBase:
    """Storage with a dtype, for code below `dispatch.methods.typed_storage`, which defines the class."""

    dtype: ScalarType
    _untyped_storage: Storage


storage_class: list[type[Storage]] = [Storage]
"""Class of new storages. `dispatch.methods.untyped_storage` sets the one whose methods need tensors."""


def untyped_bytes(storage: Storage | TypedStorageBase, dtype: ScalarType) -> Storage:
    """Return the untyped storage. Raise RuntimeError for a typed storage of another dtype."""
    if isinstance(storage, Storage):
        return storage
    if storage.dtype is not dtype:
        raise RuntimeError(
            f"Expected a Storage of type {dtype.scalar_name} or an UntypedStorage, but got type "
            f"{storage.dtype.scalar_name} for argument 1 'storage'"
        )
    return storage._untyped_storage


def storage_of(data: Any, device: Device) -> Storage:
    """Return the storage of a tensor's bytes; all views share the object while it is alive."""
    root = root_of(data)
    storage = _storages.get(id(root))
    if storage is None or storage.root is not root:
        storage = _storages[id(root)] = storage_class[0].over(root, device)
    return storage


def register_storage(storage: Storage) -> None:
    """Make `storage_of` find a storage that was created before its first tensor."""
    _storages[id(storage.root)] = storage


def view_at(storage: Storage, offset: int, spec: Any) -> Any:
    """Return the bytes of a tensor of this spec at `offset` bytes. Raise RuntimeError out of bounds."""
    needed = allocators.storage_size(spec.sizes, spec.strides) * spec.itemsize
    if needed and offset + needed > storage.nbytes():
        raise RuntimeError(
            f"setStorage: sizes {list(spec.sizes)}, strides {list(spec.strides)}, storage offset "
            f"{offset // spec.itemsize}, and itemsize {spec.itemsize} requiring a storage size of {offset + needed} "
            f"are out of bounds for storage of size {storage.nbytes()}"
        )
    root = storage.root
    if isinstance(root, DataPtr):
        return root.offset_by(offset)
    if needed == 0 and offset > storage.nbytes():
        offset = 0
    strides = tuple(s * spec.itemsize for s in spec.strides)
    return np.ndarray(spec.sizes, spec.np_dtype, in_memory_order(root), offset, strides)


def in_memory_order(root: Any) -> Any:
    """Return a root array as a C-contiguous one, which NumPy accepts as a buffer; with gaps, its whole span."""
    if root.flags.c_contiguous:
        return root
    turned = root.transpose(sorted(range(root.ndim), key=lambda i: -root.strides[i]))
    if turned.flags.c_contiguous:
        return turned
    # Memory of another library, of which NumPy knows only the elements of this array.
    span = sum((n - 1) * stride for n, stride in zip(root.shape, root.strides, strict=True)) + root.itemsize
    first = np.lib.stride_tricks.as_strided(root, (1,), (root.itemsize,)).view(np.uint8)
    return np.lib.stride_tricks.as_strided(first, (span,), (1,))
