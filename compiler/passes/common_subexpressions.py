"""Common-subexpression elimination.

Before::

    graph(%w : float32[2, 3]):
        %t : float32[3, 2] = aten.t(%w)
        %t_1 : float32[3, 2] = aten.t(%w)
        %add : float32[3, 2] = aten.add.Tensor(%t, %t_1)
        return [%add]

After::

    graph(%w : float32[2, 3]):
        %t : float32[3, 2] = aten.t(%w)
        %add : float32[3, 2] = aten.add.Tensor(%t, %t)
        return [%add]

These steps are left unchanged:

- steps that write, random ops, and allocations that another step fills;
- results of the program, and the steps that own their memory: each result has memory of its own.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from ...dispatch.layers.graph.graph import Graph, Node
from ..partition import is_view
from .donations import is_uninitialized


def share_common_subexpressions(graph: Graph) -> bool:
    """Replace steps by equal earlier ones. Return True if any is replaced."""
    results = _made_for(graph.output_node.all_input_nodes)
    known: dict[Any, Node] = {}
    changed = False
    for node in graph.nodes:
        if node.op != "call_function" or node.is_impure or is_uninitialized(node):
            continue
        key = (node.target, _key(node.args), _key(dict(node.kwargs)))
        try:
            first = known.setdefault(key, node)
        except TypeError:  # an argument that cannot be hashed
            continue
        if first is not node and node not in results:
            node.replace_all_uses_with(first)
            graph.erase_node(node)
            changed = True
    return changed


def _made_for(results: Sequence[Node]) -> set[Node]:
    """Return the results, the values that they are views or parts of, and the steps that make these."""
    known: set[Node] = set()
    pending = list(results)
    while pending:
        node = pending.pop()
        if node not in known:
            known.add(node)
            if node.target is operator.getitem or is_view(node):
                pending += node.all_input_nodes[:1]
    return known


def _key(value: Any) -> Any:
    """Return an argument as a key: numbers with their class and sign, since 1 == 1.0 == True and 0.0 == -0.0."""
    if isinstance(value, float):
        return (float, value.hex())
    if isinstance(value, tuple | list):
        return tuple([_key(v) for v in value])
    if isinstance(value, dict):
        return tuple([(k, _key(v)) for k, v in value.items()])
    return value if isinstance(value, Node) else (value.__class__, value)
