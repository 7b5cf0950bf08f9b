"""Names of devices in files, and functions that put a file's storages there: a registry that programs extend."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable
from typing import Any

from ..runtime.device import PRIVATE_USE
from ..runtime.device import device as Device
from ..runtime.dispatch_key import BackendComponent

__all__ = ["default_restore_location", "location_tag", "register_package", "validate_cuda_device"]

Tagger = Callable[[Any], str | None]
Deserializer = Callable[[Any, str], Any]

_PLACES = frozenset(
    (
        BackendComponent.CPU,
        BackendComponent.CUDA,
        BackendComponent.Meta,
        *(each for each, _ in PRIVATE_USE.values()),
    )
)
"""Backends that have memory here, and Meta."""


def _cpu_tag(storage: Any) -> str | None:
    return "cpu" if storage.device.type == "cpu" else None


def _cpu_restored(storage: Any, location: str) -> Any:
    return storage if location == "cpu" else None


def _device_tag(storage: Any) -> str | None:
    return str(storage.device)


def _device_restored(storage: Any, location: str) -> Any:
    from .rebuild import device_of  # what reads files is imported with the first file

    try:
        device = device_of("load", location)
    except RuntimeError:
        return None
    if device.backend not in _PLACES:
        return None
    if device.type == "cuda":
        validate_cuda_device(location)
    return storage.to(device=device)


_packages: list[tuple[int, Tagger, Deserializer]] = [
    (10, _cpu_tag, _cpu_restored),
    (20, _device_tag, _device_restored),
]
"""Priorities, taggers and deserializers, in the order in which they are asked."""


def register_package(priority: int, tagger: Tagger, deserializer: Deserializer) -> None:
    """Have `save` and `load` ask functions for a storage's location (`torch.serialization.register_package`).

    The first function that returns a value other than None decides. The CPU has priority 10, all other devices 20.

    Args:
        priority: The place in the order; lower numbers are asked first.
        tagger: A function of a storage, which returns the name of its device for a file, or None.
        deserializer: A function of a storage on the host and its location in the file. It returns a storage, or None.

    Example:
        >>> import triten as tt
        >>> tt.serialization.register_package(30, lambda storage: None, lambda storage, location: None)
    """
    insort(_packages, (priority, tagger, deserializer), key=lambda package: package[0])


def location_tag(storage: Any) -> str:
    """Return the name of a storage's device that `save` writes (`torch.serialization.location_tag`).

    Args:
        storage: A storage of bytes or of elements.

    Example:
        >>> import triten as tt
        >>> tt.serialization.location_tag(tt.ones(1).untyped_storage())
        'cpu'
    """
    return next(location for _, tagger, _ in _packages if (location := tagger(storage)))


def default_restore_location(storage: Any, location: str) -> Any:
    """Move a storage on the host to a location of a file (`torch.serialization.default_restore_location`).

    Args:
        storage: A storage of bytes or of elements on the host.
        location: The name of the device, as `location_tag` returns it.

    Returns:
        The storage that the first deserializer returns: the given one for "cpu".

    Raises:
        RuntimeError: No deserializer knows the location, or the device does not exist.

    Example:
        >>> import triten as tt
        >>> storage = tt.ones(1).untyped_storage()
        >>> tt.serialization.default_restore_location(storage, "meta").device
        device(type='meta')
    """
    for _, _, deserializer in _packages:
        restored = deserializer(storage, location)
        if restored is not None:
            return restored
    from .restricted_unpickler import shown

    raise RuntimeError(
        f"don't know how to restore data location of triten.{type(storage).__name__} (tagged with {shown(location)})"
    )


def validate_cuda_device(location: str | Device) -> int:
    """Return the index of a CUDA device that a file's storages go to (`torch.serialization.validate_cuda_device`).

    Args:
        location: The device or its name, such as ``"cuda:0"``.

    Raises:
        RuntimeError: The device does not exist.
    """
    from .. import cuda

    device = Device(location)
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
    return device.resolved_index
