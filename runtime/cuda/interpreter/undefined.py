"""Lanes that a load's mask excluded and that have no `other`: their values are undefined in Triton.

Elementwise operations hand the mark of such lanes on, and `tl.where` drops it where it takes the other operand. A
reduction, a scan, a dot or a store of a marked lane is reported, once for each load. Most kernels mask their stores as
they mask their loads, so that nothing is reported. Other operations drop the mark.
"""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import UndefinedLoadWarning
from .formats import Array

_MARK = "triten.undefined"
_LIBRARIES = ("triton.", __package__ + ".")


@dataclass(frozen=True, slots=True)
class _Lanes:
    """The undefined lanes of a value, and the load that they come from."""

    lanes: Array
    filename: str
    line: int
    registry: dict[Any, Any]


def mark(handle: Any, lanes: Array) -> Any:
    """Mark lanes of a loaded value as undefined, and return it. The load is the innermost line of the kernel."""
    frame: Any = sys._getframe(1)
    while frame.f_globals.get("__name__", "").startswith(_LIBRARIES):
        frame = frame.f_back
    registry = frame.f_globals.setdefault("__warningregistry__", {})
    handle.attr[_MARK] = _Lanes(lanes, frame.f_code.co_filename, frame.f_lineno, registry)
    return handle


def spread(result: Any, *operands: Any) -> Any:
    """Mark the result of an elementwise operation where an operand is marked, and return it."""
    marks = [operand.attr[_MARK] for operand in operands if operand.attr and _MARK in operand.attr]
    if marks:
        first = marks[0]
        lanes = first.lanes
        for other in marks[1:]:
            lanes = lanes | other.lanes
        result.attr[_MARK] = _Lanes(lanes, first.filename, first.line, first.registry)
    return result


def select(result: Any, condition: Any, left: Any, right: Any) -> Any:
    """Mark the result of `tl.where` where the chosen operand, or the condition, is marked, and return it."""
    spread(result, condition, left, right)
    if result.attr:
        marks = [operand.attr.get(_MARK) for operand in (condition, left, right)]
        of_condition, of_left, of_right = (np.False_ if each is None else each.lanes for each in marks)
        lanes = np.where(condition.data, of_left, of_right) | of_condition
        mark = result.attr[_MARK]
        result.attr[_MARK] = _Lanes(lanes, mark.filename, mark.line, mark.registry)
    return result


def report(kernel: str, use: str, *handles: Any, active: Array | None = None) -> None:
    """Warn of undefined lanes that are used.

    Args:
        kernel: The kernel's name.
        use: The operation that uses the lanes.
        handles: Its operands.
        active: The lanes that it uses. Default: all.
    """
    for handle in handles:
        mark = handle.attr.get(_MARK) if handle.attr else None
        if mark is None or not (mark.lanes if active is None else mark.lanes & active).any():
            continue
        warnings.warn_explicit(
            f"kernel '{kernel}': the mask of this load excludes lanes that {use} uses. Their values are undefined, "
            "and 0 here. Give the load `other=`, or set TRITEN_INTERPRET_POISON=1 to see where they go",
            UndefinedLoadWarning,
            mark.filename,
            mark.line,
            registry=mark.registry,
        )
