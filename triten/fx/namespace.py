"""Unique names in a graph or in generated source."""

from __future__ import annotations

import builtins
import keyword
import math
import re
import sys
from typing import Any, NamedTuple

from ..dispatch.layers import pytree
from ..runtime.device import device
from . import _pytree as fx_pytree
from .qualified_names import ROOT, root_name


class KnownGlobal(NamedTuple):
    """An object that every generated text may name: how it is imported, and the object."""

    import_text: str
    value: Any


_ALWAYS = {
    "inf": KnownGlobal("from math import inf", math.inf),
    "nan": KnownGlobal("from math import nan", math.nan),
    "NoneType": KnownGlobal("NoneType = type(None)", type(None)),
    ROOT: KnownGlobal(f"import {ROOT}", sys.modules[ROOT]),
    "device": KnownGlobal(f"from {ROOT} import device", device),
    "fx_pytree": KnownGlobal(f"import {fx_pytree.__name__} as fx_pytree", fx_pytree),
    "pytree": KnownGlobal(f"import {pytree.__name__} as pytree", pytree),
}

_TAKEN: dict[str, Any] = {
    **{name: object() for name in keyword.kwlist},
    **vars(builtins),
    **{name: known.value for name, known in _ALWAYS.items()},
}
"""Names that no other object may have."""

_ILLEGAL = re.compile("[^0-9a-zA-Z_]+")
_NUMBERED = re.compile(r"^([a-zA-Z_][0-9a-zA-Z_]*?)(?:_(\d+))?$")


def known_globals() -> dict[str, KnownGlobal]:
    """Return the globals that any generated source may use, including the package under its displayed name."""
    shown = root_name()
    if shown in _ALWAYS:
        return _ALWAYS
    return {**_ALWAYS, shown: KnownGlobal(f"import {ROOT} as {shown}", sys.modules[ROOT])}


def snake_case(name: str) -> str:
    """Convert a camel-case name to snake case.

    Example:
        >>> from triten.fx.namespace import snake_case
        >>> snake_case("TensorPair")
        'tensor_pair'
    """
    return re.sub(r"(?<=[a-z])([A-Z])", r"_\1", name).lower()


class Namespace:
    """Gives objects names: identifiers, each once, none a keyword's or a built-in object's.

    Example:
        >>> from triten.fx.namespace import Namespace
        >>> names = Namespace()
        >>> [names.create_name(each) for each in ("x", "x", "layer.0", "sum", "x_1")]
        ['x', 'x_1', 'layer_0', 'sum_1', 'x_2']
    """

    def __init__(self) -> None:
        self._name_of: dict[Any, str] = {}
        self._used: set[str] = set()
        self._counts: dict[str, int] = {}

    def create_name(self, candidate: str, obj: object = None) -> str:
        """Return an object's name; if there is none, create a unique one from `candidate`."""
        if obj is not None:
            known = self._name_of.get(obj)
            if known is not None:
                return known
        if not _NUMBERED.match(candidate):
            candidate = _ILLEGAL.sub("_", candidate) or "_unnamed"
            if candidate[0].isdigit():
                candidate = f"_{candidate}"
        parts = _NUMBERED.match(candidate)
        assert parts is not None
        base, number = parts.groups()
        if number is not None and candidate not in self._used:
            count = int(number)
        else:
            count = self._counts.get(base, 0)
            if _TAKEN.get(candidate, obj) is not obj:
                count += 1
                candidate = f"{base}_{count}"
        while candidate in self._used:
            count += 1
            candidate = f"{base}_{count}"
        self._used.add(candidate)
        self._counts[base] = count
        if obj is not None:
            self._name_of[obj] = candidate
        return candidate

    def rename(self, obj: object, candidate: str) -> str:
        """Give an object another name, made of `candidate`."""
        self._name_of[obj] = name = self.create_name(candidate)
        return name
