"""The call of a kernel of `cpu_fallback` as source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...dispatch.layers.graph.graph import Node
from ...runtime.float_errors import unwrapped


def call_text(
    function: Any,
    out: str | None,
    i: int,
    operands: Sequence[Any],
    names: dict[Node, str],
    globals_: dict[str, Any],
) -> str:
    """Return a kernel's call as source; it runs with floating-point errors already ignored.

    A ufunc with a number operand is called directly, with the number as the array that the kernel would look up.
    """
    marks = getattr(function, "__dict__", {})
    if "constants" in marks and len(operands) == 2:
        globals_[f"k{i}"], globals_[f"n{i}"] = marks["ufunc"], marks["constants"][operands[1]]
        arguments = f"{names[operands[0]]}, n{i}"
        return f"k{i}({arguments})" if out is None else f"k{i}({arguments}, out={out})"
    globals_[f"k{i}"] = unwrapped(function)
    arguments = _arguments(operands, names, globals_)
    return f"k{i}({arguments})" if out is None else f"k{i}({out}, {arguments})"


def _arguments(operands: Sequence[Any], names: dict[Node, str], globals_: dict[str, Any]) -> str:
    """Return a kernel's arguments as source; numbers become globals."""
    arguments = []
    for operand in operands:
        if isinstance(operand, Node):
            arguments.append(names[operand])
        else:
            name = f"m{len(globals_)}"
            globals_[name] = operand
            arguments.append(name)
    return ", ".join(arguments)
