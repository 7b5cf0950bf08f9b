"""Redirection of readers of a collective's result to the result of its wait.

Before::

    graph(%x : float32[4]):
        %all_reduce : float32[4] = _c10d_functional.all_reduce(%x, 'sum', '0')
        %view : float32[2, 2] = aten.view(%all_reduce, [2, 2])
        %wait_tensor : float32[4] = _c10d_functional.wait_tensor(%all_reduce)
        %exp : float32[2, 2] = aten.exp(%view)
        return [%exp]

After::

    graph(%x : float32[4]):
        %all_reduce : float32[4] = _c10d_functional.all_reduce(%x, 'sum', '0')
        %wait_tensor : float32[4] = _c10d_functional.wait_tensor(%all_reduce)
        %view : float32[2, 2] = aten.view(%wait_tensor, [2, 2])
        %exp : float32[2, 2] = aten.exp(%view)
        return [%exp]

A wait returns the tensor that it waits for. A program may drop this result, and then only the order of its lines
places readers after the wait. A schedule orders steps by dataflow.
"""

from __future__ import annotations

from ...dispatch.core.op_overload import OpOverload
from ...dispatch.layers.graph.graph import Graph, Node
from ..partition import roots_of

WAIT = "_c10d_functional::wait_tensor"


def read_after_waits(graph: Graph) -> bool:
    """Redirect later readers of a collective's result to the wait's result. Return True if any is redirected."""
    nodes = list(graph.nodes)
    waits = [node for node in nodes if isinstance(node.target, OpOverload) and node.target.name() == WAIT]
    if not waits:
        return False
    roots = roots_of(nodes)
    changed = False
    for wait in waits:
        changed = _redirect(graph, wait, roots) or changed
    return changed


def _redirect(graph: Graph, wait: Node, roots: dict[Node, Node]) -> bool:
    """Redirect the readers after one wait: of the memory that it waits for, and of all views of it."""
    nodes = list(graph.nodes)
    index = nodes.index(wait)
    behind = set(nodes[index + 1 :]) - {graph.output_node}  # the results are there when all steps have run
    root = roots[wait.args[0]]
    views = [node for node in nodes[:index] if roots.get(node) is root and node is not root]
    if not (wait.args[0] is not root or any(behind & set(node.users) for node in (root, *views))):
        return False
    # A wait of a view is one for the whole memory.
    with graph.inserting_before(wait):
        first = graph.call_function(wait.target, (root,), {}, root.val)
    renewed = {root: first}
    for node in views:
        with graph.inserting_before(wait):
            copy = graph.call_function(node.target, node.args, dict(node.kwargs), node.val)
        for operand in list(copy.all_input_nodes):
            if operand in renewed:
                copy.replace_input_with(operand, renewed[operand])
        renewed[node] = copy
    wait.replace_all_uses_with(renewed[wait.args[0]])
    for old, new in renewed.items():
        for user in list(old.users):
            if user in behind:
                user.replace_input_with(old, new)
        roots[new] = first
    graph.erase_node(wait)
    return True
