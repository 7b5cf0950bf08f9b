"""`replace_pattern`: parts of a graph that look like one function become another (torch/fx/subgraph_rewriter.py)."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from ..nn.modules.module import Module
from ._symbolic_trace import symbolic_trace
from .graph import Graph
from .graph_module import GraphModule, _assign_attr, _get_attr
from .node import Node
from .passes.utils.matcher_utils import InternalMatch, SubgraphMatcher

__all__ = ["Match", "ReplacedPatterns", "replace_pattern", "replace_pattern_with_filters"]

Program: TypeAlias = Callable[..., Any] | Module | Graph
MatchFilter: TypeAlias = Callable[[InternalMatch, Graph, Graph], bool]


class Match(NamedTuple):
    """A place where a pattern was found.

    `anchor` is the pattern's last node, `nodes_map` has the graph's nodes by those of the pattern.
    """

    anchor: Node
    nodes_map: dict[Node, Node]


@dataclass
class ReplacedPatterns:
    """A place where a pattern was replaced: a `Match`, and the nodes that came."""

    anchor: Node
    nodes_map: dict[Node, Node]
    replacements: list[Node]


def replace_pattern(
    gm: GraphModule, pattern: Callable[..., Any] | GraphModule, replacement: Callable[..., Any] | GraphModule
) -> list[Match]:
    """Replace the matches of `pattern` in a module's graph by `replacement` (`torch.fx.replace_pattern`).

    The pattern's inputs match anything. Its computation must match exactly, constants included, and only its results
    may be used elsewhere. If matches overlap, only the first in the graph is replaced.

    Args:
        gm: The module, which is changed in-place.
        pattern, replacement: Functions or modules with the same numbers of inputs and results.

    Returns:
        The replaced matches.

    Example:
        >>> import triten as tt
        >>> module = tt.fx.symbolic_trace(lambda x: tt.relu(x + x).exp())
        >>> found = tt.fx.replace_pattern(module, lambda a: a + a, lambda a: a * 2)
        >>> len(found)
        1
        >>> print(module.code.strip())
        def forward(self, x):
            mul = x * 2;  x = None
            relu = triten.relu(mul);  mul = None
            exp = relu.exp();  relu = None
            return exp
    """
    replaced = replace_pattern_with_filters(gm, pattern, replacement)
    return [Match(each.anchor, each.nodes_map) for each in replaced]


def replace_pattern_with_filters(
    gm: GraphModule,
    pattern: Program,
    replacement: Program | None = None,
    match_filters: Sequence[MatchFilter] | None = None,
    ignore_literals: bool = False,
    replacement_callback: Callable[[InternalMatch, Graph, Graph], Graph] | None = None,
    node_name_match: str = "",
) -> list[ReplacedPatterns]:
    """Replace a pattern like `replace_pattern`, with filters of the matches and a callback for the replacement.

    Args:
        gm: The module, which is changed in-place.
        pattern, replacement: Functions, modules or graphs.
        match_filters: Functions of a match, the module's graph and the pattern's graph. A match is replaced if all
            return True. Default: none.
        ignore_literals: If True, the pattern's constants match any constant. Default: False.
        replacement_callback: Returns the replacement of a match, if `replacement` is None.
        node_name_match: A node whose name contains this string matches the pattern's last node, whatever it calls.

    Returns:
        The replaced matches.

    Raises:
        AssertionError: `replacement` and `replacement_callback` are both None.
    """
    graph, pattern_graph = gm.graph, _graph_of(pattern)
    matches = SubgraphMatcher(pattern_graph, ignore_literals=ignore_literals).match(graph, node_name_match)
    matches = [
        match
        for match in matches
        if all(accepts(match, graph, pattern_graph) for accepts in match_filters or ())
    ]
    if replacement is None and replacement_callback is None:
        raise AssertionError("Must provide either a replacement GraphModule or a replacement callback")
    common = None if replacement is None else _graph_of(replacement)
    replaced_by: dict[Node, Node] = {}
    replaced: list[ReplacedPatterns] = []
    for match in matches:
        if replacement_callback is not None:
            common = replacement_callback(match, graph, pattern_graph)
        assert common is not None
        replaced.append(_replace(graph, match, pattern_graph, common, replaced_by))
    gm.recompile()
    if isinstance(replacement, Module):
        _take_attributes(gm, replacement)
    return replaced


def _graph_of(program: Program) -> Graph:
    if isinstance(program, Graph):
        return program
    return program.graph if isinstance(program, GraphModule) else symbolic_trace(program).graph


def _replace(
    graph: Graph, match: InternalMatch, pattern: Graph, replacement: Graph, replaced_by: dict[Node, Node]
) -> ReplacedPatterns:
    """Replace one place; `replaced_by` has the nodes that earlier places got."""
    inputs = replacement.find_nodes(op="placeholder")
    if len(inputs) != len(match.placeholder_nodes):
        raise AssertionError(
            f"the pattern has {len(match.placeholder_nodes)} inputs, the replacement {len(inputs)}"
        )

    def current(node: Any) -> Any:
        return replaced_by.get(node, node) if isinstance(node, Node) else node

    match.placeholder_nodes = [current(node) for node in match.placeholder_nodes]
    for each, node in match.nodes_map.items():
        if each.op == "placeholder":
            match.nodes_map[each] = current(node)
    values: dict[Node, Node] = dict(zip(inputs, match.placeholder_nodes, strict=True))
    with graph.inserting_before(_insertion_point(graph, match)):
        results = graph.graph_copy(replacement, values)
    results = results if isinstance(results, list | tuple) else (results,)
    if len(results) != len(match.returning_nodes):
        raise AssertionError(
            f"the pattern has {len(match.returning_nodes)} results, the replacement {len(results)}"
        )
    for old, new in zip(match.returning_nodes, results, strict=True):
        old.replace_all_uses_with(new)
        replaced_by[old] = new
    for node in reversed(pattern.nodes):
        if node.op not in ("placeholder", "output"):
            graph.erase_node(match.nodes_map[node])
    new_nodes = [node for node in values.values() if node not in match.placeholder_nodes]
    return ReplacedPatterns(match.anchors[0], match.nodes_map, new_nodes)


def _insertion_point(graph: Graph, match: InternalMatch) -> Node:
    """Return the first user of a match's results; without users, the node after the last result."""
    users = [user for node in match.returning_nodes for user in node.users]
    return min(users) if users else max(match.returning_nodes).next


def _take_attributes(gm: GraphModule, replacement: Module) -> None:
    """Copy from the replacement what the graph names now and the module lacks; drop what it names no longer."""
    gm.delete_all_unused_submodules()
    for node in gm.graph.nodes:
        if node.op not in ("call_module", "get_attr"):
            continue
        try:
            _get_attr(gm, node.target)
        except AttributeError:
            try:
                value = _get_attr(replacement, node.target)
            except AttributeError:
                raise RuntimeError(
                    f'Attempted to create a "{node.op}" node during subgraph rewriting with target {node.target}, but '
                    "the referenced attribute does not exist in the replacement GraphModule"
                ) from None
            _assign_attr(copy.deepcopy(value), gm, node.target)
    gm.graph.lint()
