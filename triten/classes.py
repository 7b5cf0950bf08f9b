"""Classes of TorchScript libraries (`torch.classes`), of which there are none: looking one up raises RuntimeError.

Example:
    >>> import triten as tt
    >>> from triten import classes
    >>> classes.library.Table
    Traceback (most recent call last):
    ...
    RuntimeError: Class library.Table not registered!
"""

from __future__ import annotations

from types import ModuleType
from typing import NoReturn

__all__: list[str] = []


class _Namespace(ModuleType):
    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise RuntimeError(f"Class {self.__name__.rpartition('.')[2]}.{name} not registered!")


def load_library(path: str) -> NoReturn:
    """Raise RuntimeError: shared libraries with TorchScript classes are not supported."""
    raise RuntimeError(f"classes.load_library({path!r}): classes of TorchScript are not supported")


def __getattr__(name: str) -> ModuleType:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _Namespace(f"{__name__}.{name}")
