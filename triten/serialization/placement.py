"""Placement of a file's storages on devices: `load`'s `map_location`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..dispatch.methods.pickling import _bytes_of
from ..dispatch.methods.untyped_storage import UntypedStorage, untyped_storage_of
from ..dispatch.tensor import Tensor
from ..runtime.device import CPU
from ..runtime.device import device as Device
from ..runtime.storage import TypedStorageBase
from .locations import default_restore_location

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .loading import MapLocation


def host_storage(nbytes: int) -> tuple[UntypedStorage, NDArray[np.uint8]]:
    """Allocate a storage in host memory; return it with its bytes."""
    storage = UntypedStorage(nbytes)
    return storage, storage.bytes_on_host()


def storage_of_bytes(array: NDArray[np.uint8]) -> UntypedStorage:
    """Return a host storage over existing bytes."""
    return untyped_storage_of(array, CPU)


def fill(storage: UntypedStorage, data: NDArray[np.uint8]) -> None:
    """Copy bytes into a storage of this size."""
    source, array = host_storage(len(data))
    array[:] = data
    _bytes_of(storage).copy_(_bytes_of(source))


def goes_to_meta(map_location: MapLocation) -> bool:
    """Return whether all storages go to Meta, which needs no bytes."""
    return (isinstance(map_location, str | Device)) and str(map_location) == "meta"


def placed(storage: UntypedStorage, location: str, map_location: MapLocation) -> UntypedStorage:
    """Move a host storage to the device of its location in the file.

    Raises:
        RuntimeError: The location does not exist.
        TypeError: `map_location` has an unsupported type, or a function returns no storage.
    """
    restored = _mapped(storage, location, map_location)
    if isinstance(restored, Tensor):
        restored = restored.untyped_storage()
    if isinstance(restored, TypedStorageBase):
        restored = restored._untyped_storage
    if not isinstance(restored, UntypedStorage):
        raise TypeError(
            f"load: map_location and deserializers must return a storage or None, not {type(restored).__name__}"
        )
    return restored


def _mapped(storage: UntypedStorage, location: str, map_location: MapLocation) -> Any:
    """Return what `map_location` or the registry makes of a host storage."""
    if isinstance(map_location, Mapping):
        return default_restore_location(storage, str(map_location.get(location, location)))
    if isinstance(map_location, str | Device):
        return default_restore_location(storage, str(map_location))
    if map_location is None:
        return default_restore_location(storage, location)
    if not callable(map_location):
        raise TypeError(
            "load: argument 'map_location' must be a device, a string, a mapping, a function or None, not "
            f"{type(map_location).__name__}"
        )
    mapped = map_location(storage, location)
    return default_restore_location(storage, location) if mapped is None else mapped
