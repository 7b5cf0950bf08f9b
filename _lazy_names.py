"""Names of a module that are imported with their first use."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(
    module: str, folder: str, places: Mapping[str, str], modules: Mapping[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The ``__getattr__`` and ``__dir__`` of a module (PEP 562), which has the names in its ``__all__``.

    Args:
        module: its ``__name__``.
        folder: the package that what follows is below.
        places: each name's module.
        modules: names that are modules themselves.

    Example:
        >>> from triten._lazy_names import lazy_names
        >>> find, names = lazy_names("triten.optim", "triten.optim", {"SGD": "sgd"})
        >>> find("SGD").__name__, "SGD" in names()
        ('SGD', True)
    """
    whole = modules or {}

    def find(name: str) -> Any:
        if name in whole:
            found: Any = import_module(f"{folder}.{whole[name]}")
        elif name in places:
            found = getattr(import_module(f"{folder}.{places[name]}"), name)
        else:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        setattr(sys.modules[module], name, found)
        return found

    return find, lambda: sorted(sys.modules[module].__all__)
