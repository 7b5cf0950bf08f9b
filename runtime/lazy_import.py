"""Lazy imports of names and modules on first use: the one mechanism of every public namespace.

`lazy_names` serves a module whose names are in other modules (PEP 562). `LazyModule` is a placeholder for a module in
a namespace without ``__getattr__``: in the root, CPython would then look up names without its cache.
`when_imported` waits for other packages' modules.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


def lazy_names(
    module: str, names: Mapping[str, str], submodules: Iterable[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a module whose names are in other modules.

    Args:
        module: The module's ``__name__``.
        names: Names, separated by spaces, by the module that has them. That module is written as in a relative import:
            ``.sgd``, ``..runtime.device``.
        submodules: Names that are modules of the package themselves.

    Example:
        >>> from triten.runtime.lazy_import import lazy_names
        >>> find, _, listed = lazy_names("triten.optim", {".sgd": "SGD", ".adam": "Adam AdamW"})
        >>> find("SGD").__name__, listed
        ('SGD', ['Adam', 'AdamW', 'SGD'])
    """
    source_of = {name: source for source, several in names.items() for name in several.split()}
    modules = frozenset(submodules)

    def find(name: str) -> Any:
        if name in modules:
            value: Any = import_module(f"{module}.{name}")
        elif name in source_of:
            value = getattr(import_module(source_of[name], sys.modules[module].__package__), name)
        else:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        setattr(sys.modules[module], name, value)
        return value

    # A module may add names of its own to its `__all__`.
    return find, lambda: sorted(sys.modules[module].__all__), sorted({*source_of, *modules})


def executing_body() -> dict[str, Any] | None:
    """Return the namespace of the module whose body this thread executes, the innermost one; None without one."""
    frame = sys._getframe(1)
    while frame.f_code.co_name != "<module>":
        if frame.f_back is None:
            return None
        frame = frame.f_back
    return frame.f_globals


def is_executed_again(first: dict[str, Any] | None, body: dict[str, Any] | None) -> bool:
    """Return whether a body is a second execution of the module that `first` is the namespace of.

    Python discards a module whose import raises, and executes it again in a new namespace with the next import.

    Args:
        first: what `executing_body` gave then.
        body: what it gives now.

    Example:
        >>> from triten.runtime.lazy_import import is_executed_again
        >>> is_executed_again({"__name__": "plugin"}, {"__name__": "plugin"})
        True
    """
    if first is None or body is None or first is body:
        return False
    return bool(first.get("__name__") == body.get("__name__"))


def import_shielded(name: str) -> ModuleType:
    """Import a module that does not survive an interrupted import.

    Another thread imports it, and the main thread waits: Python runs the handlers of signals in the main thread alone.
    Triton needs this. An interrupt in its native code aborts the process, and after another its next import fails.
    Other packages are imported with ``from package import module``, which can be repeated. After an interrupt
    ``import package.module`` may leave the package without that attribute.

    Args:
        name: the module's full name.

    Raises:
        ImportError: the module cannot be imported.

    Example:
        >>> from triten.runtime.lazy_import import import_shielded
        >>> import_shielded("json.tool").__name__
        'json.tool'
    """
    # A thread that is beneath the import already must not wait for another one to import the same module.
    if name not in sys.modules and threading.current_thread() is threading.main_thread():
        errors: list[BaseException] = []

        def run() -> None:
            try:
                import_module(name)
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=run, name=f"triten-import {name}")
        try:
            thread.start()
        except RuntimeError:  # at the interpreter's end, or where the system has no more threads
            return import_module(name)
        thread.join()
        for error in errors:
            raise error
    return import_module(name)


def is_imported(body: dict[str, Any] | None) -> bool:
    """Return whether a module's body was executed to its end, as far as Python knows the module; True for None.

    Args:
        body: what `executing_body` gave.

    Example:
        >>> from triten.runtime.lazy_import import is_imported
        >>> import json
        >>> is_imported(vars(json)), is_imported({"__name__": "interrupted"})
        (True, False)
    """
    if body is None:
        return True
    module = sys.modules.get(body["__name__"])
    return (
        module is not None
        and vars(module) is body
        and not getattr(body.get("__spec__"), "_initializing", False)
    )


class LazyModule(ModuleType):
    """Placeholder for a module in a namespace until something imports it.

    Importing the module replaces the placeholder. Setting an attribute sets it on the module.

    Args:
        name: The module's full name.

    Example:
        >>> from triten.runtime.lazy_import import LazyModule
        >>> LazyModule("triten.triton_kernels").autotune.__name__
        'autotune'
    """

    def __getattr__(self, name: str) -> Any:
        # Tools that only inspect, such as `inspect` and `doctest`, look up names like this.
        if name.startswith("__") and name != "__all__":
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return getattr(import_module(self.__name__), name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(import_module(self.__name__), name, value)

    def __delattr__(self, name: str) -> None:
        delattr(import_module(self.__name__), name)

    def __dir__(self) -> list[str]:
        return dir(import_module(self.__name__))


class ConstantLazyModule(LazyModule):
    """Placeholder for a module with constant names: it caches them, so lookups are as fast as in the module.

    Example:
        >>> from triten.runtime.lazy_import import ConstantLazyModule
        >>> ConstantLazyModule("triten.array_api").__array_api_version__
        '2025.12'
    """

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and not name.startswith("__array_") and name != "__all__":
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        module = import_module(self.__name__)
        vars(self).update(vars(module))
        return getattr(module, name)


class CallableLazyModule(LazyModule):
    """Placeholder for a callable module."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        module: Any = import_module(self.__name__)
        return module(*args, **kwargs)


def when_imported(name: str, callback: Callable[[], object]) -> None:
    """Call a function once a module of another package is imported: at once if it already is.

    Args:
        name: The module's full name.
        callback: Function to call.

    Example:
        >>> from triten.runtime.lazy_import import when_imported
        >>> when_imported("sys", lambda: print("is there"))
        is there
    """
    if name in sys.modules:
        callback()
    else:
        sys.meta_path.insert(0, _Awaited(name, callback))


def on_each_import(package: str, callback: Callable[[ModuleType], object]) -> None:
    """Call a function with each module of a package: those that are imported already, and each later one.

    Args:
        package: The package's full name.
        callback: Function to call with a module that has been executed.

    Example:
        >>> from triten.runtime.lazy_import import on_each_import
        >>> names = []
        >>> on_each_import("json", lambda module: names.append(module.__name__))
        >>> import json.tool
        >>> "json.tool" in names
        True
    """
    prefix = f"{package}."
    for name, module in list(sys.modules.items()):
        if f"{name}.".startswith(prefix) and module.__name__ == name:
            callback(module)
    sys.meta_path.insert(0, _Observed(lambda name: f"{name}.".startswith(prefix), callback))


class _Observed:
    """Finder that finds modules through the later finders, and makes their loaders tell of each import."""

    def __init__(self, is_meant: Callable[[str], bool], callback: Callable[[ModuleType], object]) -> None:
        self.is_meant = is_meant
        self.callback = callback

    def find_spec(
        self, fullname: str, path: Any = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not self.is_meant(fullname) or self not in sys.meta_path:
            return None
        for finder in sys.meta_path[sys.meta_path.index(self) + 1 :]:
            spec = finder.find_spec(fullname, path, target)
            if spec is not None:
                if spec.loader is not None:
                    telling: Any = _TellingLoader(spec.loader, self.callback)
                    spec.loader = telling
                return spec
        return None


class _Awaited(_Observed):
    """Observer of one module, until its import.

    A mere search for the module, such as `importlib.util.find_spec`, does not end the wait.
    """

    def __init__(self, name: str, callback: Callable[[], object]) -> None:
        super().__init__(name.__eq__, self._imported)
        self.on_import = callback

    def _imported(self, module: ModuleType) -> None:
        if self in sys.meta_path:
            self.on_import()  # again with the next import if it is interrupted
            sys.meta_path.remove(self)


class _TellingLoader:
    """Loader that loads a module by its own loader, and tells of it."""

    def __init__(self, loader: Any, callback: Callable[[ModuleType], object]) -> None:
        self.loader = loader
        self.callback = callback

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        made: ModuleType | None = self.loader.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self.loader
        if module.__spec__ is not None:
            module.__spec__.loader = self.loader
        self.loader.exec_module(module)
        self.callback(module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loader, name)  # such as `get_code`, for `python -m`
