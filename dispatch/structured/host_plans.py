"""Compositions that the host computes at once: one kernel over whole arrays in the place of a chain of operators.

A composition stays what defines an operator: for derivatives, for other devices, under modes and transforms, and for
calls that a kernel of its own would not make quicker. Where nobody would see the chain, a meta function decides the
result, as of a structured operator, and the kernel behind a stub computes it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..core.kernel_function import Plan
from ..core.operator_entry import OperatorEntry
from .kind_plans import MetaFunction
from .part_plans import is_unseen
from .register import planned_by
from .structured_kernel import StructuredKernel


class ComposedError(Exception):
    """Raised by a meta function for calls that are the composition's, those that it refuses among them."""


def computed_at_once(
    meta: MetaFunction, stub: str, *parts: str
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator of a composition that a host kernel serves where nobody would see its parts.

    Args:
        meta: ``meta(builder, *arguments)``; raises `ComposedError` for what is the composition's.
        stub: the kernel's name.
        parts: the operators of the composition, with their namespace.
    """
    structured = StructuredKernel(meta, stub, "functional")

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        def plan(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan | None:
            if not is_unseen(key_set, parts):
                return None
            try:
                made = structured(op, key_set, args)
            except ComposedError:
                return None
            # Calls on other shapes may be the composition's: they come here again.
            made.__dict__.pop("of_kind", None)
            return made

        return planned_by(plan)(function)

    return decorate
