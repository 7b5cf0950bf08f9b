"""Placement of a file's storages on devices: `load`'s `map_location`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from ..dispatch.methods.pickling import _bytes_of
from ..dispatch.methods.untyped_storage import UntypedStorage, untyped_storage_of
from ..dispatch.tensor import Tensor
from ..runtime.device import CPU, PRIVATE_USE
from ..runtime.device import device as Device
from ..runtime.dispatch_key import BackendComponent
from ..runtime.storage import TypedStorageBase
from .rebuild import device_of
from .restricted_unpickler import shown

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .loading import MapLocation

PLACES = frozenset(
    (
        BackendComponent.CPU,
        BackendComponent.CUDA,
        BackendComponent.Meta,
        *(each for each, _ in PRIVATE_USE.values()),
    )
)
"""Backends that have memory here, and Meta."""


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
        TypeError: `map_location` has an unsupported type.
    """
    if isinstance(map_location, Mapping):
        return _restored(storage, str(map_location.get(location, location)))
    if isinstance(map_location, str | Device):
        return _restored(storage, str(map_location))
    if map_location is None:
        return _restored(storage, location)
    if not callable(map_location):
        raise TypeError(
            "load: argument 'map_location' must be a device, a string, a mapping, a function or None, not "
            f"{type(map_location).__name__}"
        )
    mapped = map_location(storage, location)
    if mapped is None:
        return _restored(storage, location)
    if isinstance(mapped, Tensor):
        mapped = mapped.untyped_storage()
    if isinstance(mapped, TypedStorageBase):
        mapped = mapped._untyped_storage
    if not isinstance(mapped, UntypedStorage):
        raise TypeError(f"load: map_location must return a storage or None, not {type(mapped).__name__}")
    return mapped


def _restored(storage: UntypedStorage, location: str) -> UntypedStorage:
    if location == "cpu":
        return storage
    try:
        device = device_of("load", location)
    except RuntimeError:
        device = None
    if device is None or device.backend not in PLACES:
        raise RuntimeError(
            f"don't know how to restore data location of triten.UntypedStorage (tagged with {shown(location)})"
        )
    if device.type == "cuda":
        _check_cuda(device)
    return storage.to(device=device)


def _check_cuda(device: Device) -> None:
    from .. import cuda

    if not cuda.is_available():
        raise RuntimeError(
            "Attempting to deserialize object on a CUDA device but triten.cuda.is_available() is False. If you are "
            "running on a CPU-only machine, please use triten.load with map_location=triten.device('cpu') to map your "
            "storages to the CPU."
        )
    if device.resolved_index >= cuda.device_count():
        raise RuntimeError(
            f"Attempting to deserialize object on CUDA device {device.index} but triten.cuda.device_count() is "
            f"{cuda.device_count()}. Please use triten.load with map_location to map your storages to an existing "
            "device."
        )
