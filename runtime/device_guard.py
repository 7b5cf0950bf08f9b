"""Device guards: device count and current device of a type (c10/core/impl/DeviceGuardImplInterface.h).

CUDA's guard is its driver. A custom backend registers its own; a type without a guard has a single device, number 0.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from types import TracebackType
from typing import Any

from .device import device as Device
from .device import on_rename
from .lazy_import import executing_body, is_executed_again

_guards: dict[str, DeviceGuardImpl] = {}
_bodies: dict[str, dict[str, Any] | None] = {}
"""Namespace of the module whose body registered each guard."""
unindexed: set[Device] = {Device("cuda")}
"""Devices without index whose type has a current device: each call resolves them."""
on_change: list[Callable[[], None]] = []
"""Callbacks after a guard was registered, to invalidate resolved devices without index."""


class DeviceGuardImpl(ABC):
    """Interface to a device type's devices. Subclass it and call `register_device_guard`."""

    @abstractmethod
    def current_device(self) -> int:
        """Return this thread's current device index."""

    @abstractmethod
    def set_device(self, index: int) -> None:
        """Make a device current in this thread."""

    @abstractmethod
    def device_count(self) -> int:
        """Return the number of devices."""


def register_device_guard(device_type: str, guard: DeviceGuardImpl) -> None:
    """Register `guard` for the current device and the number of devices of a device type.

    Devices without an index then mean the current one, and an index out of range is refused.

    Raises:
        RuntimeError: For an unknown device type, for one of this package's own, and for a second guard.
        TypeError: For anything but a `DeviceGuardImpl`.
    """
    plain = Device(device_type)
    if not isinstance(guard, DeviceGuardImpl):
        raise TypeError(
            f"register_device_guard(): argument 'guard' must be DeviceGuardImpl, not {type(guard).__name__}"
        )
    body = executing_body()
    is_again = is_executed_again(_bodies.get(plain.type), body)
    if plain.type in ("cpu", "cuda", "meta") or (plain.type in _guards and not is_again):
        raise RuntimeError(f"register_device_guard(): {plain.type} has a device guard already")
    _bodies[plain.type] = body  # first, so that after an interrupt the next execution may still register
    _guards[plain.type] = guard
    unindexed.add(Device(plain.type))
    for changed in on_change:
        changed()


def current_device(device_type: str) -> int:
    """Return the current device index of a device type."""
    if device_type == "cuda":
        from .cuda.driver import driver

        return driver().current_device()
    guard = _guards.get(device_type)
    return 0 if guard is None else guard.current_device()


def check_index(device: Device) -> None:
    """Raise RuntimeError for a device that its guard does not have."""
    guard = _guards.get(device.type)
    if guard is not None and device.index is not None and device.index >= guard.device_count():
        raise RuntimeError(
            f"{device.type} device {device.index} does not exist: there are {guard.device_count()} devices"
        )


class DeviceGuard:
    """Context manager that makes a device of any type current; it does nothing for types without a guard.

    Example:
        >>> import triten as tt
        >>> with tt.library.DeviceGuard(tt.device("cpu")):
        ...     pass
    """

    __slots__ = ("_before", "_guard", "_index")

    def __init__(self, device: Device) -> None:
        self._guard = _guards.get(device.type)
        self._index = device.resolved_index

    def __enter__(self) -> None:
        guard = self._guard
        if guard is not None:
            self._before = guard.current_device()
            if self._before != self._index:
                guard.set_device(self._index)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._guard is not None and self._before != self._index:
            self._guard.set_device(self._before)


def _follow_rename(old: str, new: str) -> None:
    if old in _guards:
        _bodies[new] = _bodies.get(old)
        _guards[new] = _guards.pop(old)


on_rename.append(_follow_rename)
