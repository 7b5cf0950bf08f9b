"""Devices: a device type and an index, parsed and printed as in PyTorch (c10/core/Device.h).

A `device` is interned, so that the call path compares devices by identity.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import TypeAlias

from .dispatch_key import BackendComponent
from .fork_lock import forkable

ErrorType = type[BaseException] | None
"""Alias, because ``type`` is an attribute inside `device`."""

_lock = forkable(threading.Lock())
_interned: dict[tuple[str, int | None], device] = {}
_TYPES: dict[str, BackendComponent] = {
    "cpu": BackendComponent.CPU,
    "cuda": BackendComponent.CUDA,
    "meta": BackendComponent.Meta,
    "xla": BackendComponent.XLA,
    "xpu": BackendComponent.XPU,
    "ipu": BackendComponent.IPU,
    "hpu": BackendComponent.HPU,
    "ve": BackendComponent.VE,
    "lazy": BackendComponent.Lazy,
    "mps": BackendComponent.MPS,
    "privateuseone": BackendComponent.PrivateUse1,
    "privateusetwo": BackendComponent.PrivateUse2,
    "privateusethree": BackendComponent.PrivateUse3,
}


contexts: list[tuple[Callable[[device], None], Callable[..., None]]] = []
"""Enter and exit functions of a device's ``with`` block; the dispatcher adds them."""


PRIVATE_USE: dict[int, tuple[BackendComponent, str]] = {
    1: (BackendComponent.PrivateUse1, "privateuseone"),
    2: (BackendComponent.PrivateUse2, "privateusetwo"),
    3: (BackendComponent.PrivateUse3, "privateusethree"),
}
"""Backends that a user names, by slot, with the default device type of each."""

_renamed: dict[str, str] = {}
on_rename: list[Callable[[str, str], None]] = []
"""Callbacks with a device type's old and new name, to move tables keyed by device type."""


class device:
    """Device such as ``tt.device("cuda", 0)`` or ``tt.device("cpu")``.

    Args:
        type: A device type, a string such as ``"cuda:1"``, another device, or an index of a CUDA device.
        index: The device index, only if the string has none. Default: None.

    Raises:
        RuntimeError: For an unknown type or a malformed string.

    In a ``with`` block of a device, the thread's factories create tensors on it by default.

    Example:
        >>> import triten as tt
        >>> tt.device("cuda:1").index, tt.device("cpu")
        (1, device(type='cpu'))
        >>> with tt.device("meta"):
        ...     tt.zeros(2).device
        device(type='meta')
    """

    __slots__ = ("backend", "index", "type")
    type: str
    index: int | None
    backend: BackendComponent

    def __new__(cls, type: str | int | device, index: int | None = None) -> device:
        if isinstance(type, device):
            return type
        if isinstance(type, bool) or not isinstance(type, str | int):
            raise TypeError(
                f"device(): argument 'type' must be str, int or device, not {type.__class__.__name__}"
            )
        if index is not None and (isinstance(index, bool) or not isinstance(index, int)):
            raise TypeError(f"device(): argument 'index' must be int, not {index.__class__.__name__}")
        if isinstance(type, int):
            index = type
            type = "cuda"
        interned = _interned.get((type, index))
        return interned if interned is not None else _parse(type, index)

    @property
    def resolved_index(self) -> int:
        """Device index, 0 if none is given."""
        return self.index or 0

    def __enter__(self) -> device:
        contexts[0][0](self)
        return self

    def __exit__(self, kind: ErrorType, error: BaseException | None, trace: TracebackType | None) -> None:
        contexts[0][1](kind, error, trace)

    def __setattr__(self, name: str, value: object) -> None:
        # All tensors of a device share one object, so changing it would move them.
        raise AttributeError(f"attribute '{name}' of 'triten.device' objects is not writable")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"attribute '{name}' of 'triten.device' objects cannot be deleted")

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __repr__(self) -> str:
        index = "" if self.index is None else f", index={self.index}"
        return f"device(type='{self.type}'{index})"

    def __reduce__(self) -> tuple[object, tuple[str, int | None]]:
        return device, (self.type, self.index)

    def __copy__(self) -> device:
        return self

    def __deepcopy__(self, memo: object) -> device:
        return self


def _parse(text: str, index: int | None) -> device:
    name, colon, ordinal = text.partition(":")
    if colon:
        if index is not None:
            raise RuntimeError(
                f"type (string) must not include an index because index was passed explicitly: {text}"
            )
        if not ordinal.isdecimal() or (len(ordinal) > 1 and ordinal[0] == "0"):
            raise RuntimeError(f"Invalid device string: '{text}'")
        index = int(ordinal)
    name = _renamed.get(name, name)
    if name not in _TYPES:
        expected = ", ".join(("cpu", "cuda", "meta", "privateuseone", *_renamed))
        remedy = ": write 'cuda' for a GPU" if name == "gpu" else ""
        raise RuntimeError(
            f"Expected one of {expected} device type at start of device string: {text}{remedy}"
        )
    if index is not None and not 0 <= index <= 127:
        raise RuntimeError(f"Device index must be between 0 and 127 inclusive, got {index}")
    if name in ("cpu", "meta") and index is not None and index != 0:
        raise RuntimeError(f"{name} device index must be 0 or None, got {index}")
    with _lock:
        interned = _interned.get((name, index))
        if interned is None:
            interned = object.__new__(device)
            for attribute, value in (("type", name), ("index", index), ("backend", _TYPES[name])):
                object.__setattr__(interned, attribute, value)
            _interned[name, index] = interned
    return interned


def check_device_type(name: str) -> str:
    """Return the current name of a device type. Raise RuntimeError for an unknown one."""
    return device(name.partition(":")[0]).type


def is_device_type(name: str) -> bool:
    """Return True if a device type has or had this name."""
    return name in _TYPES or name in _renamed


def rename_device_type(old: str, new: str) -> None:
    """Rename a device type; its devices have the new name from now on, and the old name is still parsed."""
    with _lock:
        _TYPES.update({new: _TYPES.pop(old)})
        _renamed[old] = new
        for (name, index), interned in list(_interned.items()):
            if name == old:
                object.__setattr__(interned, "type", new)
                _interned[new, index] = interned
    for renamed in on_rename:
        renamed(old, new)


DeviceLike: TypeAlias = device | int | str | None
"""Types of a device argument; None is the default device, or the current one of a type."""

CPU = device("cpu")
META = device("meta")

_default: list[device] = [CPU]
on_default_change: list[Callable[[], None]] = []
"""Callbacks after the default device changed, to invalidate decisions that depend on it."""


def get_default_device() -> device:
    """Return the default device of factories (the CPU at first)."""
    return _default[0]


def set_default_device(device: device | str | int | None) -> None:
    """Set the default device of factories (`torch.set_default_device`).

    Args:
        device: The device, or its name; None restores the CPU.

    Raises:
        RuntimeError: There is no such device type.

    Example:
        >>> import triten as tt
        >>> tt.set_default_device("meta"); tt.zeros(2).device
        device(type='meta')
        >>> tt.set_default_device(None)
    """
    _default[0] = CPU if device is None else _of(device)
    for changed in on_default_change:
        changed()


_of = device
