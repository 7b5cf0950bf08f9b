"""Operands that a derived functional form may write without a clone.

Before::

    graph(%x : float32[4]):
        %empty_like : float32[4] = aten.empty_like(%x)
        %fill_functional : float32[4] = ns.fill_functional(%x, %empty_like)
        return [%fill_functional]

After::

    graph(%x : float32[4]):
        %empty_like : float32[4] = aten.empty_like(%x)
        %fill_functional : float32[4] = ns.fill_functional(%x, %empty_like, donated=[0])
        return [%fill_functional]

A functional form that was derived from an operator of a user's clones what that one writes (see
`dispatch/layers/functionalization/derived_form.py`). No clone is needed where the graph itself made the operand and
nothing else reads it.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

from ...dispatch.core.dispatcher import Dispatcher
from ...dispatch.core.op_overload import OpOverload
from ...dispatch.layers.functionalization.derived_form import DONATED, SUFFIX, is_derived
from ...dispatch.layers.graph.graph import Graph, Node
from ..partition import is_view
from .in_place import times_read


def donate_dead_operands(graph: Graph) -> bool:
    """Mark the operands that derived functional forms may write. Returns whether there are any."""
    changed = False
    for node in graph.find_nodes(op="call_function"):
        if not isinstance(node.target, OpOverload) or not is_derived(node.target._entry):
            continue
        donated = [i for i, operand in enumerate(_written(node)) if _is_dead_after(operand, node)]
        if donated:
            node.kwargs = {**node.kwargs, DONATED: tuple(donated)}
            changed = True
    return changed


def is_uninitialized(node: Node) -> bool:
    """Return whether a step allocates memory and leaves its elements undefined."""
    return isinstance(node.target, OpOverload) and node.target._opname in (
        "empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"
    )  # fmt: skip


def _written(node: Node) -> Iterator[Any]:
    """Yield the tensors that the operator behind a derived form writes, in the order of its arguments."""
    name = str(
        node.target._entry.schema.operator_name.replaced(
            name=node.target._entry.schema.name.removesuffix(SUFFIX)
        )
    )
    schema = Dispatcher.singleton().find_schema_or_throw(name).schema
    for argument, value in zip(schema.arguments, node.args, strict=False):
        if argument.is_write:
            yield from value if isinstance(value, list | tuple) else () if value is None else (value,)


def _is_dead_after(operand: Any, node: Node) -> bool:
    """Return whether a step made an operand, in memory of its own, for one reader that reads it once."""
    if not isinstance(operand, Node) or set(operand.users) != {node} or times_read(node, operand) != 1:
        return False
    made_by = operand
    while made_by.target is operator.getitem:
        made_by = made_by.args[0]
    return (
        made_by.op == "call_function"
        and isinstance(made_by.target, OpOverload)
        and not made_by.target._entry.schema.is_mutable
        and not is_view(made_by)
    )
