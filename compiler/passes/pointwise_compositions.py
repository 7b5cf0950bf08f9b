"""Decomposition of composite pointwise operators.

Before::

    graph(%x : float32[4, 6]):
        %hardtanh : float32[4, 6] = aten.hardtanh(%x, 0, 6)
        return [%hardtanh]

After::

    graph(%x : float32[4, 6]):
        %clamp : float32[4, 6] = aten.clamp(%x, 0, 6)
        return [%clamp]

An operator without a kernel may have its own derivative, so capture does not decompose it. This pass records the
operators that it calls, so that `relu6` and `prelu` are steps of kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...dispatch.core.op_overload import OpOverload
from ...dispatch.layers.graph.graph import Graph, Node
from ...dispatch.layers.graph.make_graph import make_graph
from ...dispatch.tensor import blank_tensor
from ...runtime.dispatch_key import BY_NAME
from ...runtime.tensor_spec import TensorSpec
from ..pointwise import bound_arguments


def compose_pointwise_steps(graph: Graph) -> bool:
    """Decompose composite pointwise operators. Return True if there was any."""
    changed = False
    for node in graph.find_nodes(op="call_function"):
        composition = _composition_of(node)
        if composition is None:
            continue
        values = bound_arguments(node)
        operands = [value for value in values if isinstance(value, Node)]
        traced = make_graph(composition, "fake")(*[_stand_in(value) for value in values])
        with graph.inserting_before(node):
            _replace_by_steps(graph, node, traced.graph, operands)
        changed = True
    return changed


def _composition_of(node: Node) -> Callable[..., Any] | None:
    """Return the composite implementation of a pointwise operator on floats; None for any other step."""
    if not isinstance(node.target, OpOverload) or not isinstance(node.val, TensorSpec):
        return None
    entry = node.target._entry
    if "pointwise" not in entry.tags or not node.val.dtype.is_floating_point or node.is_impure:
        return None
    composed = entry.kernel_for(BY_NAME["CompositeExplicitAutograd"])
    if composed is None or composed.planner is not None:
        return None
    composite: Callable[..., Any] | None = composed.function
    return composite if entry.kernel_for(BY_NAME[node.val.device.type.upper()]) is composed else None


def _stand_in(value: Any) -> Any:
    """Return a tensor with a node's metadata, for a recording that computes nothing."""
    if not isinstance(value, Node):
        return value
    made = blank_tensor()
    made._spec, made._data = value.val.replace(requires_grad=False), None
    made._version_cell = made._autograd = made._view_base = None
    return made


def _replace_by_steps(graph: Graph, node: Node, recorded: Graph, operands: list[Node]) -> None:
    """Copy the steps of a recording in front of a step, and let readers of the step read them."""
    copies: dict[Node, Node] = dict(zip(recorded.find_nodes(op="placeholder"), operands, strict=True))
    for each in recorded.find_nodes(op="call_function"):
        copies[each] = graph.node_copy(each, lambda n: copies[n])
    (result,) = recorded.output_node.args[0]
    made = copies[result]
    made.val = node.val
    node.replace_all_uses_with(made)
    graph.erase_node(node)
