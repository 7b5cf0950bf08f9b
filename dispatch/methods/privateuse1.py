"""`tensor.npu()`, `tensor.is_npu`: methods of an out-of-tree backend (torch/utils/backend_registration.py)."""

from __future__ import annotations

from typing import Any

from ...runtime.device import device as Device
from ...runtime.device_guard import current_device
from ...runtime.privateuse1 import privateuse1_backend_name
from ..tensor import Tensor
from .untyped_storage import UntypedStorage


def _register_once(cls: type, name: str, attribute: Any) -> None:
    if hasattr(cls, name):
        raise RuntimeError(f"The custom device module of {cls} has already been registered with {name}")
    setattr(cls, name, attribute)


def _is_on(device_type: str) -> property:
    def is_here(self: Any) -> bool:
        return bool(self.device.type == device_type)

    is_here.__name__ = f"is_{device_type}"
    is_here.__doc__ = f"Whether the bytes live on a {device_type} device."
    return property(is_here)


def device_of_backend(device_type: str, device: Device | str | int | None) -> Device:
    """Return the device that a generated method's argument names. Raises RuntimeError for another device type."""
    if device is None:
        return Device(device_type, current_device(device_type))
    if isinstance(device, int) and not isinstance(device, bool):
        return Device(device_type, device)
    result = Device(device)
    if result.type != device_type:
        raise RuntimeError(f"Invalid device, must be {device_type} device")
    return result if result.index is not None else Device(device_type, current_device(device_type))


def tensor_methods(device_type: str) -> None:
    """Add ``is_<name>`` and ``<name>()`` to `Tensor`."""

    def to_backend(
        self: Any, device: Device | str | int | None = None, non_blocking: bool = False, **kwargs: Any
    ) -> Any:
        where = device_of_backend(device_type, device)
        return self.to(device=where, non_blocking=non_blocking, **kwargs)

    to_backend.__name__ = device_type
    to_backend.__doc__ = f"The tensor on a {device_type} device, the current one if none is named."
    _register_once(Tensor, f"is_{device_type}", _is_on(device_type))
    _register_once(Tensor, device_type, to_backend)


def module_methods(device_type: str, module: type) -> None:
    """Add ``<name>()``, which moves parameters and buffers, to a module class."""
    if not hasattr(Tensor, device_type):
        raise RuntimeError(
            f"Can not automatically generate {device_type}() method for {module.__qualname__}. Because Tensor doesn't "
            f"has the method {device_type}(). For this error, you can try setting for_tensor=True."
        )

    def to_backend(self: Any, device: Device | str | int | None = None) -> Any:
        return self._apply(lambda tensor: getattr(tensor, device_type)(device))

    to_backend.__name__ = device_type
    to_backend.__doc__ = f"Move all parameters and buffers to a {device_type} device."
    _register_once(module, device_type, to_backend)


def storage_methods(device_type: str) -> None:
    """Add ``is_<name>`` to `UntypedStorage`."""
    _register_once(UntypedStorage, f"is_{device_type}", _is_on(device_type))


def generate_methods(for_tensor: bool, module: type | None, for_storage: bool, slot: int) -> None:
    """Generate the requested methods; `module` is the module class to extend, or None."""
    name = privateuse1_backend_name(slot)
    if for_tensor:
        tensor_methods(name)
    if module is not None:
        module_methods(name, module)
    if for_storage:
        storage_methods(name)
