"""Modules whose flags are properties, and the lock on flags (`torch.backends.disable_global_flags`)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

_is_frozen = False


def disable_global_flags() -> None:
    """Forbid the assignment of flags; the context managers ``flags`` still set them (`torch.backends`).

    Setting a flag raises RuntimeError from now on, in this process. Nothing enables it again.
    """
    global _is_frozen
    _is_frozen = True


def flags_frozen() -> bool:
    """Return whether `disable_global_flags` was called."""
    return _is_frozen


class Flag:
    """A property of a module: reading calls a function, and assigning calls another one.

    Args:
        read: A function that returns the value.
        write: A function of the new value.
        doc: The documentation.
        can_freeze: If True, `disable_global_flags` ends assignments. Default: True.
    """

    def __init__(
        self, read: Callable[[], Any], write: Callable[[Any], object], doc: str, can_freeze: bool = True
    ) -> None:
        self._read, self._write, self._can_freeze = read, write, can_freeze
        self.__doc__ = doc

    def __get__(self, module: Any, owner: type | None = None) -> Any:
        return self if module is None else self._read()

    def __set__(self, module: Any, value: Any) -> None:
        if _is_frozen and self._can_freeze:
            raise RuntimeError(
                f"not allowed to set {module.__name__} flags after disable_global_flags; please use flags() context "
                "manager instead"
            )
        self._write(value)


class _FlagModule(ModuleType):
    """The class of modules that have flags, and no other attributes to assign."""

    def __setattr__(self, name: str, value: object) -> None:
        if not name.startswith("_") and not hasattr(type(self), name) and name not in vars(self):
            raise AttributeError(f"module {self.__name__!r} has no flag {name!r}")
        super().__setattr__(name, value)


def give_flags(module: str, **flags: Flag) -> None:
    """Have a module have flags.

    Args:
        module: The module's name.
        **flags: The flags by name.
    """
    sys.modules[module].__class__ = type("FlagModule", (_FlagModule,), dict(flags))


class KeptFlags:
    """Bools that programs set and read, and that change nothing here.

    Args:
        set_by: The format of PyTorch's name of a setter, for errors, such as ``"set_{}_cudnn"``.
        **defaults: The values by name.
    """

    def __init__(self, set_by: str, **defaults: bool) -> None:
        self.set_by = set_by
        self.values = dict(defaults)

    def set(self, **values: bool | None) -> None:
        """Set several flags; None leaves one as it is. Raise RuntimeError for values that are no bools."""
        for name, value in values.items():
            if value is not None and not isinstance(value, bool):
                raise RuntimeError(
                    f"{self.set_by.format(name)} expects a bool, but got {type(value).__name__}"
                )
        self.values.update({name: value for name, value in values.items() if value is not None})

    def flag(self, name: str, why: str) -> Flag:
        """Return the property of a flag, documented with the reason why it has no effect."""

        def write(value: bool) -> None:
            if value is None:
                raise RuntimeError(f"{self.set_by.format(name)} expects a bool, but got NoneType")
            self.set(**{name: value})

        return Flag(lambda: self.values[name], write, f"Value that was set; it has no effect, since {why}.")
