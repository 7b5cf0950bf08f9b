"""Guards: a check that everything a captured function read is unchanged.

The check is generated as one function, since it precedes every call of the graph.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from typing import Any

from ...runtime.tensor_impl import TensorImpl
from ...runtime.tensor_spec import TensorSpec
from ...runtime.written_code import defined
from .locations import MISSING, Location
from .reachable import NUMBERS

Guard = Callable[[], tuple[Any, ...] | None]


class Guards:
    """Places that a captured function read, with their values, and the tensors that it holds.

    `hold()` returns the current tensors, or None if a location has another value or a tensor another spec.

    Args:
        locations: The locations, each with its value.
        held: The locations of tensors, each with the spec of its tensor.

    Example:
        >>> from triten.compiler.capture.guards import Guards
        >>> from triten.compiler.capture.locations import Location
        >>> settings = {"scale": 2}
        >>> guards = Guards([(Location("entry", settings, "scale", "settings['scale']"), 2)])
        >>> guards.hold(), settings.update(scale=3), guards.hold(), guards.broken()
        ((), None, None, "settings['scale'] was 2, is 3")
    """

    def __init__(
        self, locations: Sequence[tuple[Location, Any]], held: Sequence[tuple[Location, TensorSpec]] = ()
    ) -> None:
        self.held = tuple(held)
        distinct: dict[tuple[str, int, Any], tuple[Location, Any]] = {}
        for location, value in locations:
            distinct.setdefault((location.kind, id(location.holder), location.key), (location, value))
        self.locations = list(distinct.values())
        self.hold: Guard = self._written()

    def broken(self) -> str | None:
        """Return the first guard that fails, in words; None if all hold."""
        for location, value in self.locations:
            current = location.read()
            if not same(value, current):
                return f"{location.name} was {shown(value)}, is {shown(current)}"
        for location, spec in self.held:
            current = location.read()
            current_spec = current._spec if isinstance(current, TensorImpl) else None
            if current_spec is not spec:
                return f"{location.name} was {spec!r}, is {shown(current) if current_spec is None else current_spec!r}"
        return None

    def _written(self) -> Guard:
        """Generate one condition of all locations, followed by the held tensors."""
        names: dict[str, Any] = {"MISSING": MISSING, "same": same, "same_elements": same_elements}
        broken = [
            self._broken(i, location, value, names) for i, (location, value) in enumerate(self.locations)
        ]
        lines = ["def hold():", "    try:"]
        if broken:
            lines.append("        if (" + "\n            or ".join(broken) + "): return None")
        for i, (location, spec) in enumerate(self.held):
            names[f"H{i}"], names[f"K{i}"], names[f"S{i}"] = location.holder, location.key, spec
            get = f"H{i}[K{i}]"
            if location.kind in ("attribute", "cell", "literal"):
                names[f"G{i}"] = location.read
                get = f"G{i}()"
            lines += [f"        t{i} = {get}", f"        if t{i}._spec is not S{i}: return None"]
        tensors = "".join(f"t{i}, " for i in range(len(self.held)))
        lines += [
            f"        return ({tensors})",
            "    except (ValueError, LookupError, AttributeError): return None",
            "",
        ]
        guard: Guard = defined("hold", "\n".join(lines), "guards", names)
        return guard

    def _broken(self, i: int, location: Location, value: Any, names: dict[str, Any]) -> str:
        """Return a condition that is true if a location has changed; identity is checked first."""
        names[f"h{i}"] = location.holder
        if location.kind == "size":
            return f"len(h{i}) != {value}"
        if location.kind == "class":
            names[f"v{i}"] = value
            return f"h{i}.__class__ is not v{i}"
        if location.kind == "gradient":
            # As `Tensor.grad` finds it, which warns of tensors that are no leaves.
            none = f"((m := h{i}._autograd) is None or m.grad is None)"
            return none if value else f"not {none}"
        if location.kind in ("bytes", "items", "state"):
            names[f"v{i}"], names[f"g{i}"] = value, location.read
            return f"g{i}() != v{i}"
        if location.kind == "elements":
            if not value:
                return f"h{i}"
            names[f"v{i}"] = value
            if all(isinstance(each, str | int) for each in value):
                return f"tuple(h{i}) != v{i}"
            return f"len(h{i}) != {len(value)} or not same_elements(v{i}, tuple(h{i}))"
        if location.kind == "entry":
            key = f"k{i}"
            if isinstance(location.key, str | int):
                key = repr(location.key)
            else:
                names[key] = location.key
            get = f"h{i}.get({key}, MISSING)" if value is MISSING else f"h{i}[{key}]"
        elif location.kind == "cell":
            get = f"h{i}.cell_contents"
        elif location.kind == "attribute" and value is not MISSING and location.key.isidentifier():
            get = f"h{i}.{location.key}"
        else:
            names[f"h{i}"] = location.read
            get = f"h{i}()"
        if value is None or value is True or value is False:
            return f"{get} is not {value}"
        if isinstance(value, TensorImpl):
            names[f"c{i}"] = value.__class__  # a guard does not keep a tensor alive
            return f"{get}.__class__ is not c{i}"
        names[f"v{i}"] = value
        if isinstance(value, (*NUMBERS, types.MethodType)):
            return f"({get} is not v{i} and not same(v{i}, {get}))"
        return f"{get} is not v{i}"


def same(value: Any, now: Any) -> bool:
    """Return True if a location is unchanged: the same object, an equal number of the same class, or a tensor of the
    class."""
    if value is now:
        return True
    if isinstance(value, float):
        return now.__class__ is float and now.hex() == value.hex()
    if isinstance(value, NUMBERS):
        return now.__class__ is value.__class__ and bool(now == value)
    if isinstance(value, TensorImpl):
        return now.__class__ is value.__class__
    if isinstance(value, types.MethodType):
        return bool(value == now)
    if value.__class__ is tuple and now.__class__ is tuple:
        return len(value) == len(now) and same_elements(value, now)
    return False


def same_elements(values: tuple[Any, ...], now: tuple[Any, ...]) -> bool:
    """Return True if `same` holds for all pairs of two tuples of one length."""
    return all(a is b or same(a, b) for a, b in zip(values, now, strict=True))


def shown(value: Any) -> str:
    """Return a value's text in a message."""
    if value is MISSING:
        return "absent"
    if isinstance(value, NUMBERS) or value.__class__ in (tuple, list, dict):
        return f"{value!r:.60}"
    return f"a {type(value).__name__}"
