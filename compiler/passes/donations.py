"""Donation of tensors that a derived functional form may write without a clone.

Before::

    graph(%x : float32[4]):
        %empty_like : float32[4] = aten.empty_like(%x)
        %fill_functional : (float32[4]) = ns.fill_functional(%x, %empty_like, bases=(%empty_like), views=(1, 0, 0))
        %getitem : float32[4] = getitem(%fill_functional, 0)
        return [%getitem]

After::

    graph(%x : float32[4]):
        %empty_like : float32[4] = aten.empty_like(%x)
        %fill_functional : (float32[4]) = ns.fill_functional(
            %x, %empty_like, bases=(%empty_like), views=(1, 0, 0), donated=(0))
        %getitem : float32[4] = getitem(%fill_functional, 0)
        return [%getitem]

The functional form derived from a user's operator clones the memory that the operator writes (see
`dispatch/layers/functionalization/derived_form.py`). No clone is needed if the graph itself made the tensor and no
other step reads it.
"""

from __future__ import annotations

import operator
from typing import Any

from ...dispatch.core.op_overload import OpOverload
from ...dispatch.layers.functionalization.derived_form import BASES, DONATED, VIEWS, is_derived
from ...dispatch.layers.graph.graph import Graph, Node, map_nodes
from ...runtime.tensor_spec import TensorSpec
from ..partition import is_view


def donate_dead_operands(graph: Graph) -> bool:
    """Mark the bases that derived functional forms may write. Return True if there are any."""
    changed = False
    for node in graph.find_nodes(op="call_function"):
        if not isinstance(node.target, OpOverload) or not is_derived(node.target._entry):
            continue
        read = _read(node)
        bases = node.kwargs[BASES]
        donated = [
            i for i, base in enumerate(bases) if bases.count(base) == 1 and _is_dead_after(base, node, read)
        ]
        if donated:
            node.kwargs = {**node.kwargs, DONATED: tuple(donated)}
            changed = True
    return changed


def is_uninitialized(node: Node) -> bool:
    """Return True if a step allocates memory and leaves its elements undefined."""
    return isinstance(node.target, OpOverload) and node.target._opname in (
        "empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"
    )  # fmt: skip


def _read(node: Node) -> set[Node]:
    """Return the operands that a derived form reads in memory of their own, which is not that of a base."""
    nodes: list[Node] = []
    map_nodes(node.args, nodes.append)
    operands = [operand for operand in nodes if isinstance(operand.val, TensorSpec)]  # sizes are steps, too
    in_bases = set(node.kwargs[VIEWS][::3])
    return {operand for index, operand in enumerate(operands) if index not in in_bases}


def _is_dead_after(operand: Any, node: Node, read: set[Node]) -> bool:
    """Return True if a step made a tensor with its own memory that only a derived form reads, as a base.

    Views may lead from the tensor to the form, which takes their geometry, but not to an operand that the form reads.
    """
    if not isinstance(operand, Node):
        return False
    pending = [operand]
    while pending:
        each = pending.pop()
        if each in read:
            return False
        for user in each.users:
            if user is not node:
                if not is_view(user):
                    return False
                pending.append(user)
    made_by = operand
    while made_by.target is operator.getitem:
        made_by = made_by.args[0]
    return (
        made_by.op == "call_function"
        and isinstance(made_by.target, OpOverload)
        and not made_by.target._entry.schema.is_mutable
        and not is_view(made_by)
    )
