"""Removal of expands before pointwise steps, which broadcast their operands themselves.

Before::

    graph(%x : float32[4, 6], %norm : float32[4, 1]):
        %expand : float32[4, 6] = aten.expand(%norm, [4, 6])
        %div : float32[4, 6] = aten.div.Tensor(%x, %expand)
        return [%div]

After::

    graph(%x : float32[4, 6], %norm : float32[4, 1]):
        %div : float32[4, 6] = aten.div.Tensor(%x, %norm)
        return [%div]

Two kinds of operands stay expanded:

- the only operand with the step's sizes;
- a 0-dim operand, which would not take part in dtype promotion.

Operators that do not broadcast, such as `native_dropout_backward`, are unchanged.
"""

from __future__ import annotations

from ...dispatch.core.op_overload import OpOverload
from ...dispatch.layers.graph.graph import Graph, Node
from ...runtime.tensor_spec import TensorSpec
from ..element_order import gives_the_same

EXPAND = "aten::expand"


def broadcast_in_pointwise_steps(graph: Graph) -> bool:
    """Let pointwise steps read operands before their expand. Return True if any does."""
    changed = False
    for node in graph.nodes:
        if node.op != "call_function" or not isinstance(node.target, OpOverload):
            continue
        if "pointwise" not in node.target._entry.tags or not isinstance(node.val, TensorSpec):
            continue
        for operand in node.all_input_nodes:
            if (
                _is_expanded(operand)
                and _has_sizes_without(node, operand)
                and gives_the_same(node, {operand: operand.args[0].val})
            ):
                node.replace_input_with(operand, operand.args[0])
                changed = True
    return changed


def _is_expanded(node: Node) -> bool:
    return (
        isinstance(node.target, OpOverload)
        and node.target._entry.name == EXPAND
        and isinstance(node.args[0], Node)
        and node.args[0].val.ndim > 0
    )


def _has_sizes_without(node: Node, operand: Node) -> bool:
    """Return True if another tensor gives a step its sizes."""
    other_operands = [n for n in node.all_input_nodes if n is not operand]
    return operand.val.sizes == node.val.sizes and any(
        isinstance(n.val, TensorSpec) and n.val.sizes == node.val.sizes for n in other_operands
    )
