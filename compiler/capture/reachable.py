"""The Python objects that code can have read: a walk from functions, modules and variables to what they hold.

A walk gives `Location`s: a place that holds a value, such as an entry of a dict of attributes. Which attributes of an
object count is told by the names in the code that ran. Guards and the search for side effects are both made of
locations.
"""

from __future__ import annotations

import enum
import types
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from ...dispatch.tensor import Tensor
from ...nn.modules.module import Module
from ...runtime.device import device as Device
from ...runtime.layout import layout as Layout
from ...runtime.memory_format import memory_format as MemoryFormat
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.tensor_impl import TensorImpl
from .frames import Frames, is_observed
from .unsupported import Unsupported, is_own

MOST_LOCATIONS = 50_000
"""Places that a walk visits; a program that can read more is not captured."""
MISSING: Final = object()
MODULE_STATE = (
    "_backward_hooks", "_backward_pre_hooks", "_buffers", "_forward_hooks", "_forward_pre_hooks", "_modules",
    "_parameters", "training",
)  # fmt: skip
"""Attributes that every call of an `nn.Module` may read."""

NUMBERS = (bool, int, float, complex, str, bytes, types.NoneType, types.EllipsisType, range, slice)
CONSTANTS = (ScalarType, Device, Layout, MemoryFormat, enum.Enum, type, frozenset)


@dataclass(frozen=True, slots=True)
class Location:
    """A place that holds a value.

    `kind` is ``entry`` (of a dict), ``attribute`` (of a class, or in a slot), ``cell`` (of a closure), ``element``
    (one of a list or tuple) or ``elements`` (all of them, or the keys of a dict). `holder` is what has the place, `key`
    names it, and `name` is for people.
    """

    kind: str
    holder: Any
    key: Any
    name: str

    def read(self) -> Any:
        """The value now; `MISSING` where there is none."""
        if self.kind == "entry":
            return self.holder.get(self.key, MISSING)
        if self.kind == "attribute":
            return getattr(self.holder, self.key, MISSING)
        if self.kind == "cell":
            try:
                return self.holder.cell_contents
            except ValueError:
                return MISSING
        if self.kind == "element":
            return self.holder[self.key] if self.key < len(self.holder) else MISSING
        return tuple(self.holder)

    def write(self, value: Any) -> None:
        """Put a value there, as `read` gave it."""
        if self.kind == "entry":
            if value is MISSING:
                self.holder.pop(self.key, None)
            else:
                self.holder[self.key] = value
        elif self.kind == "attribute":
            setattr(self.holder, self.key, value)
        elif self.kind == "cell":
            if value is MISSING:
                del self.holder.cell_contents
            else:
                self.holder.cell_contents = value
        elif isinstance(self.holder, list):
            self.holder[:] = value
        elif isinstance(self.holder, dict):
            held = {key: self.holder.get(key) for key in value}
            self.holder.clear()
            self.holder.update(held)


@dataclass
class Walk:
    """What a walk has found.

    Attributes:
        names: attributes that count; None for all.
        places: the locations, with the value of each at its visit.
        tensors: where each tensor was found first, by id.
    """

    names: set[str] | None
    places: list[tuple[Location, Any]] = field(default_factory=list)
    tensors: dict[int, tuple[Any, Location]] = field(default_factory=dict)
    _seen: dict[int, Any] = field(default_factory=dict)
    _pending: list[tuple[Any, str]] = field(default_factory=list)
    _globals: set[tuple[int, str]] = field(default_factory=set)

    def visit(self, value: Any, name: str) -> None:
        """Go on to all that a value leads to."""
        self._pending.append((value, name))
        self._visit_pending()

    def visit_globals(self, names: Iterable[str], module: dict[str, Any]) -> None:
        """Go on from the globals that code names."""
        self._place_globals(names, module)
        self._visit_pending()

    def has_seen(self, value: Any) -> bool:
        """Whether the walk came by an object."""
        return id(value) in self._seen

    def _visit_pending(self) -> None:
        while self._pending:
            each, path = self._pending.pop()
            if id(each) not in self._seen:
                self._seen[id(each)] = each
                self._open(each, path)

    def _place_globals(self, names: Iterable[str], module: dict[str, Any]) -> None:
        for name in sorted(names):
            if name in module and (id(module), name) not in self._globals:
                self._globals.add((id(module), name))
                self._place(Location("entry", module, name, name))

    def _place(self, location: Location) -> None:
        if len(self.places) >= MOST_LOCATIONS:
            raise Unsupported(f"the program can read more than {MOST_LOCATIONS} places")
        value = location.read()
        self.places.append((location, value))
        self._follow(location, value)

    def _follow(self, location: Location, value: Any) -> None:
        if isinstance(value, TensorImpl):
            self._found(value, location)
        elif value is not MISSING and not isinstance(value, NUMBERS):
            self._pending.append((value, location.name))

    def _found(self, tensor: Any, location: Location) -> None:
        self.tensors.setdefault(id(tensor), (tensor, location))
        grad = None if tensor._autograd is None else tensor._autograd.grad
        if grad is not None:
            self.tensors.setdefault(
                id(grad), (grad, Location("attribute", tensor, "grad", f"{location.name}.grad"))
            )

    def _open(self, value: Any, path: str) -> None:
        if isinstance(value, (TensorImpl, *NUMBERS, *CONSTANTS)):
            return
        if isinstance(value, list | tuple):
            # One place for the whole; elements are followed with it as their holder.
            self.places.append((Location("elements", value, None, path), tuple(value)))
            for i, each in enumerate(value):
                self._element(value, i, each, f"{path}[{i}]")
        elif isinstance(value, dict):
            self.places.append((Location("elements", value, None, path), tuple(value)))
            for key in value:
                if isinstance(key, (TensorImpl, *NUMBERS, *CONSTANTS)):
                    self._place(Location("entry", value, key, f"{path}[{key!r}]"))
        elif isinstance(value, types.FunctionType):
            self._open_function(value, path)
        elif isinstance(value, types.MethodType):
            self._pending += [(value.__self__, f"{path}.__self__"), (value.__func__, path)]
        elif isinstance(value, types.ModuleType):
            if self.names is not None and not is_own(getattr(value, "__file__", None) or "<triten"):
                for name in sorted(self.names & vars(value).keys()):
                    if isinstance(vars(value)[name], (*NUMBERS, list, dict, tuple, Tensor)):
                        self._place(Location("entry", vars(value), name, f"{path}.{name}"))
        elif isinstance(value, Module):
            self._open_module(value, path)
        elif not isinstance(value, types.BuiltinFunctionType | types.CodeType | type):
            self._open_object(value, path)

    def _element(self, holder: Any, index: int, value: Any, name: str) -> None:
        if isinstance(value, TensorImpl):
            self._found(value, Location("element", holder, index, name))
        elif not isinstance(value, NUMBERS):
            self._pending.append((value, name))

    def _open_function(self, function: types.FunctionType, path: str) -> None:
        if not is_observed(function.__code__):
            return
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            self._place(Location("cell", cell, None, name))
        for default in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
            self._pending.append((default, f"a default of {function.__name__}"))
        if self.names is None:
            self._place_globals(names_in(function.__code__), function.__globals__)

    def _open_module(self, module: Module, path: str) -> None:
        own = vars(module)
        names = own.keys() if self.names is None else (self.names | set(MODULE_STATE)) & own.keys()
        for name in sorted(names):
            if name in ("_parameters", "_buffers", "_modules"):
                for key in own[name]:
                    self._place(Location("entry", own[name], key, f"{path}.{key}"))
                self.places.append(
                    (Location("elements", own[name], None, f"{path}.{name}"), tuple(own[name]))
                )
            else:
                self._place(Location("entry", own, name, f"{path}.{name}"))
        self._open_class(type(module), path)

    def _open_object(self, value: Any, path: str) -> None:
        own = getattr(value, "__dict__", None)
        if isinstance(own, dict):
            names = own.keys() if self.names is None else self.names & own.keys()
            for name in sorted(n for n in names if isinstance(n, str)):
                self._place(Location("entry", own, name, f"{path}.{name}"))
        for kind in type(value).__mro__:
            slots = kind.__dict__.get("__slots__", ())
            for name in (slots,) if isinstance(slots, str) else slots:
                if (self.names is None or name in self.names) and not name.startswith("__"):
                    self._place(Location("attribute", value, name, f"{path}.{name}"))
        self._open_class(type(value), path)

    def _open_class(self, cls: type, path: str) -> None:
        """Numbers and containers that a user's class holds for its objects."""
        for kind in cls.__mro__:
            if id(kind) in self._seen or kind.__module__.partition(".")[0] in ("builtins", "triten", "enum"):
                continue
            self._seen[id(kind)] = kind
            names = set(vars(kind)) if self.names is None else self.names & vars(kind).keys()
            for name in sorted(names):
                held = vars(kind)[name]
                if not name.startswith("__") and isinstance(held, (*NUMBERS, list, dict, tuple)):
                    self._place(Location("attribute", kind, name, f"{kind.__name__}.{name}"))
                elif self.names is None and isinstance(held, types.FunctionType):
                    self._pending.append((held, f"{kind.__name__}.{name}"))


def names_in(code: types.CodeType) -> set[str]:
    """The names of attributes and globals in code and in the functions that it defines."""
    found = set(code.co_names)
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            found |= names_in(each)
    return found


def walk_before(function: Any, leaves: Iterable[Any]) -> Walk:
    """All that a function can reach, before it has run: whatever it changes of that is a side effect."""
    walk = Walk(None)
    walk.visit(function, getattr(function, "__name__", type(function).__name__))
    for leaf in leaves:
        walk.visit(leaf, "an argument")
    return walk


def walk_after(function: Any, leaves: Iterable[Any], frames: Frames, before: Walk) -> Walk:
    """What the code that ran can have read: variables that it made itself, which `before` has not seen, left out."""
    walk = Walk(frames.names)
    walk.visit(function, getattr(function, "__name__", type(function).__name__))
    for leaf in leaves:
        walk.visit(leaf, "an argument")
    for module, names in frames.globals.values():
        # What this package's own modules define does not change.
        if not is_own(module.get("__file__") or ""):
            walk.visit_globals(names, module)
    for value in frames.variables.values():
        if before.has_seen(value):
            walk.visit(value, type(value).__name__)
    return walk
