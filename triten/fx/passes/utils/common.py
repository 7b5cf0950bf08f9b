"""Subgraphs as modules, and comparison of graphs (torch/fx/passes/utils/common.py)."""

from __future__ import annotations

from ....nn import Module
from ...graph import Graph
from ...graph_module import GraphModule
from .matcher_utils import SubgraphMatcher

__all__ = ["HolderModule", "compare_graphs", "lift_subgraph_as_module"]


class HolderModule(Module):
    """A module without a forward, which holds the submodules `d`."""

    def __init__(self, d: dict[str, Module | None]) -> None:
        super().__init__()
        for name, module in d.items():
            self.add_module(name, module)


def lift_subgraph_as_module(
    gm: GraphModule, subgraph: Graph, comp_name: str = "", class_name: str = "GraphModule"
) -> tuple[GraphModule, dict[str, str]]:
    """Return the module of a subgraph, with the submodules and parameters of `gm` that it refers to.

    Args:
        gm: The module of the whole graph.
        subgraph: The graph of copied nodes.
        comp_name: The name that the module will have in another one. Default: ``""``.
        class_name: The name of its class. Default: ``"GraphModule"``.

    Returns:
        The module, and for each of its targets the name below `comp_name`.
    """
    targets = [str(node.target) for node in subgraph.nodes if node.op in ("call_module", "get_attr")]
    return GraphModule(gm, subgraph, class_name), {each: f"{comp_name}.{each}" for each in targets}


def compare_graphs(left: Graph, right: Graph) -> bool:
    """Return whether two graphs have the same inputs, outputs and nodes, connected the same way."""
    return bool(SubgraphMatcher(left, match_output=True, match_placeholder=True).match(right))
