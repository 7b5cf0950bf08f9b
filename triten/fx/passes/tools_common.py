"""Order of a graph's nodes (torch/fx/passes/tools_common.py)."""

from __future__ import annotations

from collections import deque

from ..graph import Graph
from ..graph_module import GraphModule
from ..node import Node

__all__ = ["legalize_graph"]


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
