"""PrivateUse1 to 3: backends in other packages, under names of their own (c10/core/DeviceType.cpp)."""

from __future__ import annotations

import threading

from .device import PRIVATE_USE, is_device_type, rename_device_type
from .dispatch_key import rename_backend
from .fork_lock import forkable

_names: dict[int, str] = {}
_lock = forkable(threading.Lock())


def rename_privateuse1_backend(backend_name: str, *, slot: int = 1) -> None:
    """Name the backend of another package (`torch.utils.rename_privateuse1_backend`).

    Afterwards ``tt.device("npu:0")`` parses, and devices print under the new name, including existing ones. The keys
    follow: ``PrivateUse1`` prints as ``NPU`` and ``AutogradPrivateUse1`` as ``AutogradNPU``, whereas PyTorch's keep
    their names. The old names are still parsed.

    Args:
        backend_name: A lower-case identifier, the device type.
        slot: 1 for PrivateUse1; 2 and 3 for PrivateUse2 and PrivateUse3, which PyTorch does not name. Default: 1.

    Raises:
        RuntimeError: For a second name in one slot, a name that a device type or its keys have, and for an invalid
            identifier.

    Example::

        tt.utils.rename_privateuse1_backend("npu")
        tt.library.set_allocator("npu", MyAllocator())
        x = tt.ones(2, device="npu")
    """
    if slot not in PRIVATE_USE:
        raise RuntimeError(f"rename_privateuse1_backend(): slot must be 1, 2 or 3, got {slot}")
    if not isinstance(backend_name, str):
        raise TypeError(
            "rename_privateuse1_backend(): argument 'backend_name' must be str, "
            f"not {type(backend_name).__name__}"
        )
    with _lock:
        known = _names.get(slot)
        if known is not None:
            if known == backend_name:
                return
            raise RuntimeError(
                f"register_privateuse{slot}_backend() has already been set! Current backend: {known}"
            )
        if not backend_name.isidentifier() or backend_name != backend_name.lower():
            raise RuntimeError(
                "rename_privateuse1_backend(): a backend's name must be a lower-case identifier, "
                f"got {backend_name!r}"
            )
        backend, device_type = PRIVATE_USE[slot]
        if backend_name != device_type:
            if is_device_type(backend_name):
                raise RuntimeError(
                    f"Cannot register privateuse{slot} backend with in-tree device name: {backend_name}"
                )
            rename_backend(backend, backend_name.upper())
            rename_device_type(device_type, backend_name)
        _names[slot] = backend_name


def privateuse1_backend_name(slot: int = 1) -> str:
    """Return the device type of a slot (`torch._C._get_privateuse1_backend_name`)."""
    return _names.get(slot, PRIVATE_USE[slot][1])
