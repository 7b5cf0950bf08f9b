"""Triton is told of triten's devices when both are there, whichever comes first; neither imports the other for it."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType

from ..driver import Driver

_MODULE = "triton.runtime.driver"


def offer_to_triton(owner: Driver) -> None:
    """Install triten's driver in Triton, now or when Triton is imported, unless PyTorch is in charge."""
    if _MODULE in sys.modules:
        _install(owner)
    elif not any(isinstance(finder, _AtImport) for finder in sys.meta_path):
        sys.meta_path.insert(0, _AtImport(owner))


def _install(owner: Driver) -> None:
    from .triton_driver import install

    install(owner, automatic=True)


class _AtImport(importlib.abc.MetaPathFinder):
    """Waits for Triton's import, once; who only asks where Triton is does not end that."""

    def __init__(self, owner: Driver) -> None:
        self._owner = owner

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != "triton":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self._imported)
        return spec

    def _imported(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)
            _install(self._owner)


class _Loader(importlib.abc.Loader):
    """Triton's own loader, with something to do at the end."""

    def __init__(self, loader: importlib.abc.Loader, imported: Callable[[], None]) -> None:
        self._loader = loader
        self._imported = imported

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        spec = module.__spec__
        assert spec is not None
        spec.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._imported()
