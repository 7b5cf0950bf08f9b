"""Device guards: which devices of a type there are, which is current (c10/core/impl/DeviceGuardImplInterface.h).

CUDA's is its driver. A backend from outside registers its own; without one a type has a single device, number 0.
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
"""The namespace of the module whose body registered each guard."""
unindexed: set[Device] = {Device("cuda")}
"""Devices without index whose type has a current device: what they name is decided at each call."""
on_change: list[Callable[[], None]] = []
"""Called after a guard was registered: whoever remembers what a device without index names forgets it."""


class DeviceGuardImpl(ABC):
    """What a device type tells of its devices. Subclass it and `register_device_guard` it."""

    @abstractmethod
    def current_device(self) -> int:
        """The index of this thread's current device."""

    @abstractmethod
    def set_device(self, index: int) -> None:
        """Make a device current in this thread."""

    @abstractmethod
    def device_count(self) -> int:
        """How many devices there are."""


def register_device_guard(device_type: str, guard: DeviceGuardImpl) -> None:
    """Have a device type's current device and number of devices told by `guard`.

    Devices named without an index are the current one from then on, and an index out of range is refused.

    Raises:
        RuntimeError: for an unknown device type, for one of this package's own, and for a second guard.
        TypeError: for what is no `DeviceGuardImpl`.
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
    _bodies[plain.type] = body  # first: after an interrupt behind it the next execution may register still
    _guards[plain.type] = guard
    unindexed.add(Device(plain.type))
    for changed in on_change:
        changed()


def current_device(device_type: str) -> int:
    """The index of a device type's current device."""
    if device_type == "cuda":
        from .cuda.driver import driver

        return driver().current_device()
    guard = _guards.get(device_type)
    return 0 if guard is None else guard.current_device()


def check_index(device: Device) -> None:
    """Refuse a device that its guard does not have. Raises RuntimeError."""
    guard = _guards.get(device.type)
    if guard is not None and device.index is not None and device.index >= guard.device_count():
        raise RuntimeError(
            f"{device.type} device {device.index} does not exist: there are {guard.device_count()} devices"
        )


class DeviceGuard:
    """A block in which a device of any type is current; nothing happens for types without a guard.

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
