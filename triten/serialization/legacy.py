"""Files from before PyTorch 1.6, or of `_use_new_zipfile_serialization=False`: pickles, then the storages' bytes.

Five pickles stand one behind the other: a magic number, a version, sizes of C's types, the object, and the keys of its
storages. The bytes of each storage follow, in the order of the keys, its number of elements before them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from pickle import UnpicklingError
from typing import Any

import numpy as np

from ..dispatch.methods.typed_storage import TypedStorage
from ..dispatch.methods.untyped_storage import UntypedStorage
from ..runtime.scalar_type import dtype as ScalarType
from .placement import fill, host_storage

MAGIC_NUMBER = 0x1950A86A20F9469CFC6C
PROTOCOL_VERSION = 1001
COUNT = struct.Struct("<q")


def typed(storage: UntypedStorage, dtype: ScalarType | None) -> TypedStorage | UntypedStorage:
    """Return a storage under the dtype that the file names; itself for untyped bytes."""
    return storage if dtype is None else TypedStorage(wrap_storage=storage, dtype=dtype, _internal=True)


View = tuple[str, int, int]
"""Key, offset and size of a part of a storage, in elements."""
Place = Callable[[UntypedStorage, str], UntypedStorage]


class LegacyFile:
    """Storages of a legacy file, which are created with the object and filled afterwards.

    Args:
        data: The whole file.
        place: Puts a storage in host memory where it belongs.
    """

    def __init__(self, data: bytes, place_storage: Place) -> None:
        self._data = data
        self._place = place_storage
        self._claimed = 0
        self._storages: dict[str, tuple[UntypedStorage, int, int]] = {}
        self._views: dict[str, UntypedStorage] = {}

    def storage(
        self, key: str, location: str, kind: ScalarType | None, count: int, view: View | None = None
    ) -> TypedStorage | UntypedStorage:
        """Return the storage of a key, or the given view of it, typed if the file names a dtype.

        Raises:
            RuntimeError: The file is too small to hold the storage.
        """
        itemsize = 1 if kind is None else kind.itemsize
        if key not in self._storages:
            self._claimed += count * itemsize + COUNT.size
            if self._claimed > len(self._data):
                raise RuntimeError(f"load: the file is too small for a storage of {count} elements")
            host, array = host_storage(count * itemsize)
            array.fill(0)
            self._storages[key] = self._place(host, location), count, itemsize
        whole = self._storages[key][0]
        if view is None:
            return typed(whole, kind)
        name, offset, size = view
        if name not in self._views:
            begin, end = offset * itemsize, (offset + size) * itemsize
            is_meta = whole.device.type == "meta"
            self._views[name] = UntypedStorage(end - begin, device="meta") if is_meta else whole[begin:end]
        return typed(self._views[name], kind)

    def check_head(self, number: Any) -> None:
        """Check the magic number of the file.

        Raises:
            RuntimeError: The file is of another kind.
        """
        if type(number) is not int or number != MAGIC_NUMBER:
            raise RuntimeError("Invalid magic number; corrupt file?")

    def check_version(self, version: Any, sizes: Any) -> None:
        """Check the protocol version and the byte order.

        Raises:
            RuntimeError: The version is unknown, or the file is big-endian.
        """
        if type(version) is not int or version != PROTOCOL_VERSION:
            raise RuntimeError(f"Invalid protocol version: {version!r:.100}")
        # Names are bytes under `encoding="bytes"`.
        little = (
            sizes.get("little_endian", sizes.get(b"little_endian", True)) if type(sizes) is dict else True
        )
        if little is not True:
            raise RuntimeError("load: the file's numbers are big-endian, which is not supported")

    def read_storages(self, keys: Any, position: int) -> None:
        """Copy the bytes from `position` on to the storages.

        Raises:
            UnpicklingError: The keys are not those of the object, or occur twice.
            RuntimeError: The file is truncated, or a storage has another size.
        """
        if type(keys) is list:
            keys = [key.decode("ascii", "replace") if type(key) is bytes else key for key in keys]
        if (
            type(keys) is not list
            or any(type(key) is not str for key in keys)
            or set(keys) != set(self._storages)
        ):
            raise UnpicklingError("the file's list of storages is not that of its object")
        if len(set(keys)) < len(keys):
            raise UnpicklingError("the file has two storages of the same key")
        for key in keys:
            storage, count, itemsize = self._storages[key]
            end = position + COUNT.size + count * itemsize
            if end > len(self._data):
                raise RuntimeError("load: the file ends within a storage")
            (elements,) = COUNT.unpack_from(self._data, position)
            if elements != count:
                raise RuntimeError(
                    f"load: storage has wrong byte size: expected {count * itemsize} got {elements * itemsize}"
                )
            if storage.device.type != "meta" and count:
                if storage.nbytes() != count * itemsize:
                    raise RuntimeError("load: map_location returned a storage of another size")
                fill(storage, np.frombuffer(self._data, np.uint8, count * itemsize, position + COUNT.size))
            position = end
