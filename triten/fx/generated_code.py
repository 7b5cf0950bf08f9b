"""Compilation of generated source, its lines in tracebacks, and its imports after unpickling."""

from __future__ import annotations

import itertools
import linecache
import sys
import traceback
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .namespace import known_globals
from .patching import wrapped_globals

MARK = "<eval_with_key>"
"""What the file names of generated code begin with."""

_numbers = itertools.count()


def compiled_function(
    text: str, names: Mapping[str, Any], name: str = "forward", origin: Mapping[str, Any] | None = None
) -> Callable[..., Any]:
    """Compile source and return a function that it defines.

    Args:
        text: The source; tracebacks show its lines as long as the function lives.
        names: The globals of the source.
        name: The name of the function. Default: "forward".
        origin: The location of the traced program, for the source's file name: ``co_filename``, ``co_firstlineno`` and
            ``co_name`` of its code. Default: None.
    """
    file = f"{MARK}.{next(_numbers)}"
    if origin:
        file += f" from {origin['co_filename']}:{origin['co_firstlineno']} in {origin['co_name']}"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    namespace = dict(names)
    exec(compile(text, file, "exec", dont_inherit=True), namespace)
    function: Callable[..., Any] = namespace.pop(name)
    wrapped = [key for key, holder in wrapped_globals.items() if holder is namespace]
    weakref.finalize(function, _forget, file, wrapped)
    return function


def _forget(file: str, wrapped: Sequence[tuple[int, str]]) -> None:
    """Let go of the lines of a function that is gone, and of its globals, which call `wrap`."""
    linecache.cache.pop(file, None)
    for key in wrapped:
        wrapped_globals.pop(key, None)


def import_block(names: Mapping[str, Any]) -> str:
    """Return the sorted import statements for the globals of a source.

    Raises:
        ValueError: An object cannot be imported, such as a nested function.
    """
    known = known_globals()
    return "\n".join(
        sorted(
            {
                known[name].import_text if name in known else _import_text(name, value)
                for name, value in names.items()
            }
        )
    )


def _import_text(name: str, value: Any) -> str:
    module = getattr(value, "__module__", None) or getattr(type(value), "__module__", None)
    own = getattr(value, "__qualname__", None) or getattr(value, "_name", None)
    if module is None or own is None or getattr(sys.modules.get(module), own, None) is not value:
        raise ValueError(
            f"the graph names {value!r}, which cannot be imported from {module}; define it at the top level of a module"
        )
    return f"from {module} import {own} as {name}"


def explained(frame: traceback.FrameSummary) -> str:
    """Format an error's traceback with the lines of generated code around the failing one."""
    lines = linecache.getlines(frame.filename)
    number = frame.lineno or 0
    return "\n".join(
        [
            traceback.format_exc(),
            f"Call using an FX-traced Module, line {number} of the traced Module's generated forward function:",
            "".join(lines[max(number - 2, 0) : number]),
            "~" * len(frame.line or "") + "~~~ <--- HERE",
            "\n".join(lines[number : number + 2]),
        ]
    )
