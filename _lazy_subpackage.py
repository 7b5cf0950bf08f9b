"""A subpackage that is imported when one of its names is first asked for."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any


class LazySubpackage(ModuleType):
    """What stands for a subpackage in the root's namespace until something imports it.

    The import then puts the subpackage itself in this place. A `__getattr__` of the root would do so too, but with
    one CPython looks each of the root's names up without its cache.

    Args:
        name: the subpackage's full name.

    Example:
        >>> from triten._lazy_subpackage import LazySubpackage
        >>> LazySubpackage("triten.triton_kernels").autotune.__name__
        'autotune'
    """

    def __getattr__(self, name: str) -> Any:
        # Whoever only looks around, such as `inspect` and `doctest`, asks for names like this.
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return getattr(import_module(self.__name__), name)

    def __dir__(self) -> list[str]:
        return dir(import_module(self.__name__))
