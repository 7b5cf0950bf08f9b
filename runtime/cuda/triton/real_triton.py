"""Conversion of `lazy_triton.py` objects to real Triton objects; only this module imports Triton.

The function of a lazy kernel is copied into a namespace of its own, in which every name is real. The module that
defined it never changes. Host code keeps using the lazy objects, and a thread sees a real kernel either complete or
not at all.
"""

from __future__ import annotations

import builtins
import importlib
import linecache
import threading
import types
from collections.abc import Mapping
from typing import Any

from ...fork_lock import forkable
from ...lazy_import import import_shielded
from .lazy_kernel import LazyKernel, attributes_of
from .lazy_triton import StandIn, constexpr, dtype

_lock = forkable(threading.RLock())


class TritonMissingError(RuntimeError):
    """Error: Triton is needed and cannot be imported."""


def real(value: Any) -> Any:
    """Return Triton's own object for a lazy kernel, dtype, constant, or tuple of these.

    Anything else is returned unchanged.

    Raises:
        TritonMissingError: If Triton is needed and cannot be imported.
    """
    if isinstance(value, LazyKernel):
        return value.real or _make_real(value)
    if not _is_lazy(value):
        return value
    _import("triton")
    return _Realization().convert(value)


def real_constants(constants: Mapping[str, object]) -> dict[str, object]:
    """Apply `real` to each value of a mapping."""
    return {name: real(value) for name, value in constants.items()}


def _is_lazy(value: Any) -> bool:
    if isinstance(value, tuple):
        return any(_is_lazy(item) for item in value)
    return isinstance(value, LazyKernel | StandIn | dtype | constexpr) or value is constexpr or value is dtype


def _import(name: str) -> Any:
    try:
        import_shielded("triton")
        return importlib.import_module(name)
    except ImportError as error:
        raise TritonMissingError(
            f"Triton, which compiling a kernel needs, cannot be imported ({error}): pip install 'triton >= 3.6'"
        ) from error


def _make_real(kernel: LazyKernel) -> Any:
    with _lock:
        if kernel.real is None:
            _import("triton")
            made = _Realization()
            made.kernel(kernel)
            made.publish()
        return kernel.real


class _Realization:
    """Real kernels under construction: those that one kernel reaches and that are not real yet."""

    def __init__(self) -> None:
        self._made: dict[LazyKernel, Any] = {}

    def convert(self, value: Any) -> Any:
        if isinstance(value, LazyKernel):
            return self.kernel(value)
        if isinstance(value, StandIn):
            return _import(value.__name__)
        if isinstance(value, dtype):
            return _import("triton.language").dtype(value.name)
        if isinstance(value, constexpr):
            return _import("triton.language").constexpr(self.convert(value.value))
        if value is constexpr or value is dtype:
            return getattr(_import("triton.language"), value.__name__)
        if type(value) is tuple:
            return tuple(self.convert(item) for item in value)
        if isinstance(value, tuple) and hasattr(value, "_make"):
            return value._make(self.convert(item) for item in value)
        return value

    def kernel(self, lazy: LazyKernel) -> Any:
        real_kernel = lazy.real or self._made.get(lazy)
        if real_kernel is not None:
            return real_kernel
        function = lazy.fn
        _show_source_as_imported(function.__code__.co_filename, lazy.module_source)
        namespace: dict[str, Any] = {"__builtins__": builtins, "__name__": function.__module__}
        cells = tuple(types.CellType() for _ in function.__closure__ or ())
        copy = types.FunctionType(function.__code__, namespace, function.__name__, None, cells)
        copy.__qualname__, copy.__doc__ = function.__qualname__, function.__doc__
        copy.__annotations__ = {n: self.convert(a) for n, a in function.__annotations__.items()}
        if function.__defaults__:
            copy.__defaults__ = self.convert(function.__defaults__)
        if function.__kwdefaults__:
            copy.__kwdefaults__ = {n: self.convert(v) for n, v in function.__kwdefaults__.items()}
        made = self._made[lazy] = _import(lazy.language).jit(**lazy.kwargs)(copy)
        for name, value in lazy.reached.items():
            if isinstance(value, types.ModuleType):
                namespace[name] = self.module(value, attributes_of(value, name, lazy.source))
            else:
                namespace[name] = self.convert(value)
        for cell, name in zip(cells, function.__code__.co_freevars, strict=True):
            if name in lazy.reached:
                cell.cell_contents = namespace[name]
        return made

    def module(self, module: types.ModuleType, attributes: Mapping[str, Any]) -> types.ModuleType:
        """Return a module whose attributes that one kernel uses are real."""
        converted = {name: self.convert(value) for name, value in attributes.items()}
        if all(converted[name] is value for name, value in attributes.items()):
            return module
        twin = types.ModuleType(module.__name__)
        twin.__dict__.update(converted)
        return twin

    def publish(self) -> None:
        for lazy, made in self._made.items():
            lazy.real = made


def _show_source_as_imported(filename: str, text: str) -> None:
    """Make `inspect`, through which Triton reads a kernel, return the text that was imported.

    Done only if the file has changed since. `linecache` never refreshes an entry without a time.
    """
    linecache.checkcache(filename)
    if "".join(linecache.getlines(filename)) not in (text, text + "\n"):
        linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
