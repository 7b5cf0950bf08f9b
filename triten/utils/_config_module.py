"""Modules that are settings, as PyTorch's compilers have them (`torch.utils._config_module`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from types import ModuleType
from typing import Any

__all__ = ["ConfigModule", "install_config_module"]


class ConfigModule(ModuleType):
    """Module whose public names are settings: any may be set.

    A name with a dot, as in ``patch({"triton.cudagraphs": True})``, is an attribute of a setting.
    """

    @contextmanager
    def patch(
        self, changes: str | Mapping[str, Any] | None = None, val: Any = None, **more: Any
    ) -> Iterator[None]:
        """Change settings inside a block, or in a function as its decorator.

        Args:
            changes: Values by name, or one name.
            val: The value of the one name.
            more: Values by name.
        """
        settings = {changes: val} if isinstance(changes, str) else dict(changes or {})
        all_settings = {**settings, **more}
        absent = object()
        before = {name: getattr(*self._owner_and_name(name), absent) for name in all_settings}
        try:
            for name, value in all_settings.items():
                setattr(*self._owner_and_name(name), value)
            yield
        finally:
            for name, value in before.items():
                if value is absent:
                    if hasattr(*self._owner_and_name(name)):
                        delattr(*self._owner_and_name(name))
                else:
                    setattr(*self._owner_and_name(name), value)

    def _owner_and_name(self, name: str) -> tuple[Any, str]:
        """Return the object that has a setting, and the setting's name there."""
        *path, last = name.split(".")
        holder: Any = self
        for each in path:
            holder = getattr(holder, each)
        return holder, last

    def _settings(self) -> dict[str, Any]:
        names = [
            *vars(self),
            *(each for each, kind in vars(type(self)).items() if isinstance(kind, property)),
        ]
        values = {each: getattr(self, each) for each in names if not each.startswith("_")}
        return {each: value for each, value in values.items() if not isinstance(value, ModuleType)}

    def get_config_copy(self) -> dict[str, Any]:
        """Return a copy of all settings; those of a group have names with a dot."""
        flat: dict[str, Any] = {}
        for name, value in self._settings().items():
            if isinstance(value, type):
                flat |= {f"{name}.{k}": deepcopy(v) for k, v in vars(value).items() if not k.startswith("_")}
            else:
                flat[name] = deepcopy(value)
        return flat

    to_dict = shallow_copy_dict = get_config_copy

    def load_config(self, config: Mapping[str, Any]) -> None:
        """Set all settings of a copy that `get_config_copy` made."""
        for name, value in config.items():
            setattr(*self._owner_and_name(name), value)


def install_config_module(module: ModuleType, cls: type[ConfigModule] = ConfigModule) -> None:
    """Make a module that is being imported a `ConfigModule`: its public names are its settings.

    Args:
        module: The module.
        cls: The class that it becomes. Properties of the class are settings too.

    Example:
        >>> from types import ModuleType
        >>> from triten.utils._config_module import install_config_module
        >>> module = ModuleType("settings"); module.depth = 3
        >>> install_config_module(module)
        >>> with module.patch(depth=4):
        ...     module.depth
        4
        >>> module.to_dict()
        {'depth': 3}
    """
    module.__class__ = cls
