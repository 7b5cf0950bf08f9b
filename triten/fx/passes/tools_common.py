"""Order and targets of a graph's nodes (torch/fx/passes/tools_common.py)."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Mapping
from typing import Any

from ...nn import Module
from ..graph import Graph
from ..graph_module import GraphModule
from ..node import Node
from ..qualified_names import ROOT, qualified_name, root_name

__all__ = ["get_acc_ops_name", "get_node_target", "legalize_graph", "stable_topological_sort"]

CALLABLE_NODE_OPS = {"call_module", "call_function", "call_method"}


def get_acc_ops_name(k: Any) -> str:
    """Return the name of a class with that of the module that defines it; a str unchanged."""
    if isinstance(k, str):
        return k
    root, _, path = k.__module__.partition(".")
    return ".".join(filter(None, (root_name() if root == ROOT else root, path, k.__name__)))


def get_node_target(submodules: Mapping[str, Module], node: Node) -> str:
    """Return the name of what a node calls: a function, the class of a module, or a method.

    Args:
        submodules: The submodules by their names, as `named_modules` yields them.
        node: A node that calls something.

    Raises:
        AssertionError: The node calls nothing.
    """
    if node.op not in CALLABLE_NODE_OPS:
        raise AssertionError(
            f"Expect op types of {', '.join(sorted(CALLABLE_NODE_OPS))}, but found {node.op}"
        )
    if node.op == "call_module":
        called = submodules[str(node.target)]
        return get_acc_ops_name(getattr(called, "_base_class_origin", type(called)))
    return str(node.target) if node.op == "call_method" else qualified_name(node.target)


def legalize_graph(gm: GraphModule) -> GraphModule:
    """Sort a module's graph so that each node comes after its inputs, and return the module.

    Raises:
        RuntimeError: The nodes use each other in a cycle.

    Source: torch.fx.passes.tools_common.legalize_graph.

    Example:
        >>> import triten as tt
        >>> from triten.fx.passes.tools_common import legalize_graph
        >>> module = tt.fx.symbolic_trace(lambda x: x.exp())
        >>> x, exp, output = module.graph.nodes
        >>> x.prepend(exp)
        >>> [node.name for node in legalize_graph(module).graph.nodes]
        ['x', 'exp', 'output']
    """
    missing = {node: len(node.all_input_nodes) for node in gm.graph.nodes}
    # Inputs come first, and nodes without inputs as late as the old order has them.
    ready = deque(
        sorted((node for node in missing if not missing[node]), key=lambda node: node.op != "placeholder")
    )
    graph = Graph()
    graph._codegen = gm.graph._codegen
    made: dict[Node, Node] = {}
    while ready:
        node = ready.popleft()
        made[node] = graph.node_copy(node, made.__getitem__)
        for user in node.users:
            missing[user] -= 1
            if not missing[user]:
                ready.append(user)
    if len(made) < len(missing):
        raise RuntimeError(f"Input graph has cycles, unable to add {[n for n in missing if n not in made]}")
    gm.graph = graph
    return gm


def stable_topological_sort(gm: GraphModule) -> GraphModule:
    """Sort a module's graph in place so that each node comes after its inputs; otherwise the order remains.

    Raises:
        AssertionError: The nodes use each other in a cycle.

    Source: torch.fx.passes.tools_common.stable_topological_sort.
    """
    nodes = list(gm.graph.nodes)
    position = {node: number for number, node in enumerate(nodes)}
    missing = [len(node.all_input_nodes) for node in nodes]
    ready = [number for number, count in enumerate(missing) if not count]
    last: Node | None = None
    count = 0
    while ready:
        node = nodes[heapq.heappop(ready)]
        if last is not None and last.next is not node:
            last.append(node)
        last = node
        count += 1
        for user in node.users:
            missing[position[user]] -= 1
            if not missing[position[user]]:
                heapq.heappush(ready, position[user])
    if count != len(nodes):
        raise AssertionError(
            f"Input graph has cycles, unable to add {[n for n in nodes if missing[position[n]]]}"
        )
    return gm
