"""Python objects that code can have read: a walk from functions, modules and variables to their contents.

A walk collects `Location`s: a place that holds a value, such as an entry of a dict of attributes. The names in the
code that ran select the attributes. Guards and the detection of side effects both use locations.
"""

from __future__ import annotations

import enum
import functools
import io
import os
import random
import sys
import types
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...nn.modules.module import Module
from ...runtime.device import device as Device
from ...runtime.layout import layout as Layout
from ...runtime.memory_format import memory_format as MemoryFormat
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.tensor_impl import TensorImpl
from .frames import SITE_PACKAGES, Frames, is_observed, is_observed_file
from .locations import LARGEST_ARRAY, MISSING, Location, bytes_of, state_of
from .unsupported import Unsupported, is_own

MAX_LOCATIONS = 50_000
"""Places that a walk visits; a program that can read more is not captured."""
MODULE_STATE = (
    "_backward_hooks", "_backward_pre_hooks", "_buffers", "_forward_hooks", "_forward_pre_hooks", "_modules",
    "_parameters", "training",
)  # fmt: skip
"""Attributes that every call of an `nn.Module` may read."""

OBSERVED_MODULES = ("triten.nn", "triten.optim", "triten.tests", "triten.examples")
RANDOM = (random.Random, np.random.Generator, np.random.RandomState)
NUMBERS = (bool, int, float, complex, str, bytes, types.NoneType, types.EllipsisType, range, slice)
CONSTANTS = (ScalarType, Device, Layout, MemoryFormat, enum.Enum, type, frozenset)


@dataclass
class Walk:
    """Walk over the objects that a function can reach.

    Attributes:
        names: Attributes to follow; None for all.
        is_first: True if the function has not run yet: the walk follows code that it may run.
        reads_grad: True if the code that ran names tensors' gradients, so that their presence matters.
        codes: The code that ran, whose functions' closures and defaults are read.
        locations: The locations, with the value of each at its visit.
        tensors: The first location of each tensor, by id.
    """

    names: set[str] | None
    is_first: bool = True
    codes: set[types.CodeType] = field(default_factory=set)
    roots: set[int] = field(default_factory=set)
    locations: list[tuple[Location, Any]] = field(default_factory=list)
    tensors: dict[int, tuple[Any, Location]] = field(default_factory=dict)
    reads_grad: bool = False
    _seen: dict[int, Any] = field(default_factory=dict)
    _pending: list[tuple[Any, str]] = field(default_factory=list)
    _globals: set[tuple[int, str]] = field(default_factory=set)
    _classes: set[type] = field(default_factory=set)

    def visit(self, value: Any, name: str) -> None:
        """Visit everything that is reachable from a value."""
        self._pending.append((value, name))
        self._visit_pending()

    def visit_globals(self, names: Iterable[str], module: dict[str, Any]) -> None:
        """Visit the globals that code names."""
        self._add_globals(names, module)
        self._visit_pending()

    def has_seen(self, value: Any) -> bool:
        """Return True if the walk visited an object."""
        return id(value) in self._seen

    def arrays(self) -> list[np.ndarray[Any, Any]]:
        """Return the NumPy arrays that the walk visited."""
        return [each for each in self._seen.values() if isinstance(each, np.ndarray)]

    def _visit_pending(self) -> None:
        while self._pending:
            each, path = self._pending.pop()
            if id(each) not in self._seen:
                self._seen[id(each)] = each
                self._open(each, path)

    def _add_globals(self, names: Iterable[str], module: dict[str, Any]) -> None:
        for name in sorted(names):
            if name in module and (id(module), name) not in self._globals:
                self._globals.add((id(module), name))
                self._add_location(Location("entry", module, name, name))

    def _add_location(self, location: Location) -> None:
        if len(self.locations) >= MAX_LOCATIONS:
            raise Unsupported(f"the program can read more than {MAX_LOCATIONS} locations")
        value = location.read()
        if isinstance(value, io.IOBase) and location.kind in ("cell", "entry") and "." not in location.name:
            raise Unsupported(f"the function can write to {location.name}, a file")
        self.locations.append((location, value))
        self._follow(location, value)

    def _follow(self, location: Location, value: Any) -> None:
        if isinstance(value, TensorImpl):
            self._add_tensor(value, location)
        elif value is not MISSING and not isinstance(value, NUMBERS):
            self._pending.append((value, location.name))

    def _add_tensor(self, tensor: Any, location: Location) -> None:
        is_new = self.tensors.setdefault(id(tensor), (tensor, location))[1] is location
        grad = None if tensor._autograd is None else tensor._autograd.grad
        if self.reads_grad and is_new and tensor.is_leaf:
            grad_location = Location("gradient", tensor, None, f"whether {location.name} has a gradient")
            self.locations.append((grad_location, grad is not None))
        if grad is not None:
            self.tensors.setdefault(
                id(grad), (grad, Location("attribute", tensor, "grad", f"{location.name}.grad"))
            )

    def _open(self, value: Any, path: str) -> None:
        if isinstance(value, type):
            if self._is_followed(value):
                self._open_class(value)
            return
        if isinstance(value, (TensorImpl, *NUMBERS, *CONSTANTS)):
            return
        if isinstance(value, list | tuple):
            # One place for the whole; elements are followed with it as their holder.
            self.locations.append((Location("elements", value, None, path), tuple(value)))
            for i, each in enumerate(value):
                self._element(value, i, each, f"{path}[{i}]")
        elif isinstance(value, dict):
            self.locations.append((Location("elements", value, None, path), tuple(value)))
            for key in value:
                if isinstance(key, (TensorImpl, *NUMBERS, *CONSTANTS)):
                    # The text of a tensor would have its elements.
                    shown = "a tensor" if isinstance(key, TensorImpl) else repr(key)
                    self._add_location(Location("entry", value, key, f"{path}[{shown}]"))
        elif isinstance(value, set | deque):
            self.locations.append((Location("elements", value, None, path), tuple(value)))
            self._pending += [(each, f"an element of {path}") for each in value]
        elif isinstance(value, np.ndarray | bytearray):
            self._open_array(value, path)
        elif isinstance(value, functools.partial):
            for part, name in (
                (value.func, path),
                (value.args, f"{path}.args"),
                (value.keywords, f"{path}.keywords"),
            ):
                self._pending.append((part, name))
        elif isinstance(value, types.FunctionType):
            self._open_function(value, path)
        elif isinstance(value, types.MethodType):
            self._pending += [(value.__self__, f"{path}.__self__"), (value.__func__, path)]
        elif isinstance(value, types.ModuleType):
            self._open_python_module(value, path)
        elif isinstance(value, Module):
            self._open_module(value, path)
        elif not isinstance(value, types.BuiltinFunctionType | types.CodeType | type):
            self._open_object(value, path)

    def _open_array(self, array: Any, path: str) -> None:
        size = array.nbytes if isinstance(array, np.ndarray) else len(array)
        if size <= LARGEST_ARRAY and not getattr(array, "dtype", np.dtype(int)).hasobject:
            self.locations.append((Location("bytes", array, None, path), bytes_of(array)))
        elif not self.is_first:
            raise Unsupported(
                f"the function can read {path}, an array of {size} bytes; make a tensor of it outside"
            )

    def _open_python_module(self, module: types.ModuleType, path: str) -> None:
        file = getattr(module, "__file__", None) or "<triten"
        if self.is_first or not is_observed_file(file) or is_own(file):
            return
        self._add_globals({name for code in self.codes for name in code.co_names}, vars(module))

    def _element(self, holder: Any, index: int, value: Any, name: str) -> None:
        if isinstance(value, TensorImpl):
            self._add_tensor(value, Location("element", holder, index, name))
        elif not isinstance(value, NUMBERS):
            self._pending.append((value, name))

    def _open_function(self, function: types.FunctionType, path: str) -> None:
        wrapped = getattr(function, "__wrapped__", None)
        if wrapped is not None:
            self._pending.append((wrapped, path))
        if not is_observed(function.__code__):
            return
        if self.is_first or function.__code__ in self.codes:
            for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
                self._add_location(Location("cell", cell, None, name))
            if not is_own(function.__code__.co_filename):
                for name in ("__defaults__", "__kwdefaults__", "__code__"):
                    self._add_location(Location("attribute", function, name, f"{path}.{name}"))
        if self.is_first:
            self._add_globals(names_in(function.__code__), function.__globals__)

    def _open_module(self, module: Module, path: str) -> None:
        own = vars(module)
        names = own.keys() if self.names is None else (self.names | set(MODULE_STATE)) & own.keys()
        for name in sorted(names):
            if name in ("_parameters", "_buffers", "_modules"):
                for key in own[name]:
                    self._add_location(Location("entry", own[name], key, f"{path}.{key}"))
                self.locations.append(
                    (Location("elements", own[name], None, f"{path}.{name}"), tuple(own[name]))
                )
            else:
                self._add_location(Location("entry", own, name, f"{path}.{name}"))
        self._shape_of(module, path)

    def _open_object(self, value: Any, path: str) -> None:
        kind = type(value)
        package = kind.__module__.partition(".")[0]
        if package == "triten" and not kind.__module__.startswith(OBSERVED_MODULES):
            return
        if package == "triton":  # a kernel, whose caches change with each launch; a graph holds it unchanged
            return
        if isinstance(value, RANDOM):
            if not self.is_first:
                raise Unsupported(f"the function can draw from {path}; draw from tt.rand and its kin")
            self.locations.append((Location("state", value, None, path), state_of(value)))
            return
        if hasattr(kind, "__next__") and kind.__module__ in ("builtins", "itertools"):
            # Consumed elements cannot be put back, so the function does not run at all.
            raise Unsupported(f"the function can read {path}, a {kind.__name__}, whose elements come once")
        if isinstance(value, type(os.environ)):
            self.locations.append((Location("items", value, None, path), tuple(value.items())))
            return
        own = getattr(value, "__dict__", None)
        if isinstance(own, dict):
            names = own.keys() if self.names is None else self.names & own.keys()
            for name in sorted(n for n in names if isinstance(n, str)):
                self._add_location(Location("entry", own, name, f"{path}.{name}"))
        for base in kind.__mro__:
            slots = base.__dict__.get("__slots__", ())
            for name in (slots,) if isinstance(slots, str) else slots:
                if (self.names is None or name in self.names) and not name.startswith("__"):
                    self._add_location(Location("attribute", value, name, f"{path}.{name}"))
        self._shape_of(value, path)

    def _shape_of(self, value: Any, path: str) -> None:
        """Record an object's set of attributes and its class, and visit its class."""
        own = getattr(value, "__dict__", None)
        if self.is_first and isinstance(own, dict):
            # Record attributes, so that the function's additions are found and removed.
            self.locations.append((Location("elements", own, None, f"the attributes of {path}"), tuple(own)))
        if not self.is_first and isinstance(own, dict):
            self.locations.append((Location("size", own, None, f"the attributes of {path}"), len(own)))
        # A guard keeps its objects alive, but arguments, which are checked by identity anyway, must not be kept
        # alive.
        if not self.is_first and id(value) not in self.roots:
            self.locations.append((Location("class", value, None, f"the class of {path}"), type(value)))
        self._open_class(type(value))

    def _is_followed(self, cls: type) -> bool:
        """Return True if the walk follows a class. Before the run it skips libraries, whose methods lead to all of
        them."""
        file = _file_of(cls)
        return is_users_class(cls) and not (self.is_first and file.startswith(SITE_PACKAGES))

    def _open_class(self, cls: type) -> None:
        """Visit the attributes of a user's class: numbers, containers, classes and methods."""
        if cls in self._classes:
            return
        self._classes.add(cls)
        for kind in cls.__mro__:
            package, _, rest = kind.__module__.partition(".")
            if package in ("builtins", "enum") or (
                package == "triten" and not rest.startswith(("tests", "examples"))
            ):
                continue
            self._seen[id(kind)] = kind
            names = set(vars(kind)) if self.names is None else self.names & vars(kind).keys()
            for name in sorted(names):
                value = vars(kind)[name]
                if (name.startswith("__") and name != "__call__") or (id(kind), name) in self._globals:
                    continue
                self._globals.add((id(kind), name))
                kinds = (*NUMBERS, *CONSTANTS, list, dict, tuple, set, types.FunctionType, TensorImpl)
                if isinstance(value, kinds) or self._is_followed(type(value)):
                    self._add_location(Location("attribute", kind, name, f"{kind.__name__}.{name}"))
                    if kind is not cls and not self.is_first and not isinstance(value, types.FunctionType):
                        # It may get one of its own.
                        self._add_location(Location("attribute", cls, name, f"{cls.__name__}.{name}"))
                elif isinstance(value, property) and value.fget is not None:
                    self._pending.append((value.fget, f"{kind.__name__}.{name}"))
                elif isinstance(value, staticmethod | classmethod):
                    self._pending.append((value.__func__, f"{kind.__name__}.{name}"))


def is_users_class(cls: type) -> bool:
    """Return True for a class of the program, whose attributes may change, unlike those of libraries and
    enumerations."""
    if isinstance(cls, enum.EnumMeta) or cls.__module__ in sys.builtin_module_names:
        return False
    return is_observed_file(_file_of(cls))


def _file_of(cls: type) -> str:
    return getattr(sys.modules.get(cls.__module__), "__file__", None) or f"<{cls.__module__}>"


def names_in(code: types.CodeType) -> set[str]:
    """Return the names of attributes and globals in code and in the functions that it defines."""
    names = set(code.co_names)
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            names |= names_in(each)
    return names


def walk_before(function: Any, leaves: Sequence[Any]) -> Walk:
    """Walk over all that a function can reach before it runs: a change of any of it is a side effect."""
    walk = Walk(None)
    walk.visit(function, getattr(function, "__name__", type(function).__name__))
    for leaf in leaves:
        walk.visit(leaf, "an argument")
    return walk


def walk_after(function: Any, leaves: Sequence[Any], frames: Frames, before: Walk) -> Walk:
    """Walk over all that the code can have read, except variables that it made itself, unseen by `before`."""
    walk = Walk(
        frames.names, False, frames.codes, {id(leaf) for leaf in leaves}, reads_grad=frames.reads_grad
    )
    walk.visit(function, getattr(function, "__name__", type(function).__name__))
    for leaf in leaves:
        walk.visit(leaf, "an argument")
    for module, names in frames.globals.values():
        # Definitions of this package's own modules do not change.
        if not is_own(module.get("__file__") or ""):
            walk.visit_globals(names, module)
    for value in frames.variables.values():
        if before.has_seen(value):
            walk.visit(value, type(value).__name__)
    return walk
