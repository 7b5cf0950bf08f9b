"""Source locations of functions and declarations, by files relative to the package: ``dispatch/core/library.py:12``."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

_PACKAGE = Path(__file__).parents[3]
_WRAPPING = ("dispatch/structured/", "dispatch/plans/", "functools")
"""Files whose closures wrap a kernel factory."""


def file_of(path: str) -> str:
    """Return a file's name, relative to the package if it is inside."""
    try:
        return Path(path).relative_to(_PACKAGE).as_posix()
    except ValueError:
        return path


def location_of(function: Any) -> str | None:
    """Return file and line of the function that a callable is, or that a kernel's wrappers wrap; None for others."""
    first = None
    for each in _inwards(function, set()):
        code = each.__code__
        location = f"{file_of(code.co_filename)}:{code.co_firstlineno}"
        if not location.startswith(_WRAPPING):
            return location
        first = first or location
    return first


def locations_of_factory(factory: Callable[..., Any]) -> list[str]:
    """Return the locations of a kernel factory and of the factories that it selects or wraps, outermost first."""
    locations: list[str] = []
    for each in _inwards(factory, set()):
        code = each.__code__
        file = file_of(code.co_filename)
        # Other contents of a factory, such as the function of an element, are not called with a `StructuredCall`.
        is_factory = not locations or code.co_varnames[: code.co_argcount] == ("call",)
        if is_factory and not file.startswith(_WRAPPING):
            locations.append(f"{file}:{code.co_firstlineno}")
    if not locations:
        location = location_of(factory)
        return [] if location is None else [location]
    return locations


def _inwards(function: Any, seen: set[int]) -> Iterator[Any]:
    """Yield the Python functions that a callable consists of, outermost first."""
    if isinstance(function, functools.partial):
        function = function.func
    function = getattr(function, "fn", function)
    if id(function) in seen:
        return
    seen.add(id(function))
    code = getattr(function, "__code__", None)
    if code is None:
        method: Any = type(function).__dict__.get("__call__")
        if hasattr(method, "__code__"):
            yield method
        return
    yield function
    for cell in getattr(function, "__closure__", None) or ():
        try:
            value = cell.cell_contents
        except ValueError:
            continue
        if callable(value) and not isinstance(value, type):
            yield from _inwards(value, seen)


def location_of_declaration(source: str) -> str:
    """Return the line of its file that declares an operator, if the file belongs to this package."""
    file, colon, operator = source.partition(".yaml: ")
    if not colon:
        path, _, line = source.rpartition(":")
        return f"{file_of(path)}:{line}" if path else source
    return _line(f"dispatch/{file}.yaml", f"- func: {operator}(")


def location_of_derivative(name: str) -> str | None:
    """Return the row of the derivative of an operator of ``aten``; None if there is none."""
    location = _line("dispatch/derivatives.yaml", f"- name: {name.removeprefix('aten::')}(")
    return location if ":" in location else None


def _line(file: str, start: str) -> str:
    """Return the first line of a package file that starts so, as ``file:line``; the file alone if there is none."""
    path = _PACKAGE / file
    lines = path.read_text().splitlines() if path.exists() else []
    line_number = next((i for i, line in enumerate(lines, 1) if line.startswith(start)), None)
    return file if line_number is None else f"{file}:{line_number}"
