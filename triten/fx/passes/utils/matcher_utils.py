"""`SubgraphMatcher`: finds the matches of a pattern in a graph (torch/fx/passes/utils/matcher_utils.py)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ....dispatch.core.op_overload import OpOverload
from ....dispatch.tensor import Tensor
from ...graph import Graph
from ...graph_module import _get_attr
from ...node import Node
from .fuser_utils import validate_partition

__all__ = ["InternalMatch", "SubgraphMatcher"]


@dataclass
class InternalMatch:
    """A place in a graph that looks like a pattern.

    `anchors` are the pattern's last nodes; `nodes_map` has the graph's nodes (or constants, for inputs) by those of the
    pattern; `placeholder_nodes` and `returning_nodes` are those for its inputs and results.
    """

    anchors: list[Node]
    nodes_map: dict[Node, Any] = field(default_factory=dict)
    placeholder_nodes: list[Any] = field(default_factory=list)
    returning_nodes: list[Node] = field(default_factory=list)
    name_node_map: dict[str, Node] = field(default_factory=dict)


class SubgraphMatcher:
    """Finds a pattern in graphs.

    Args:
        pattern: the graph to find.
        match_output: If True, its output must match the graph's output. Default: False.
        match_placeholder: If True, its inputs have to be inputs of the graph; by default they may be anything.
        remove_overlapping_matches: If True, keep only the first of matches that share nodes. Default: True.
        ignore_literals: If True, constants match any constant. Default: False.

    Source: torch.fx.passes.utils.matcher_utils.SubgraphMatcher.

    Example:
        >>> import triten as tt
        >>> from triten.fx.passes.utils.matcher_utils import SubgraphMatcher
        >>> pattern = tt.fx.symbolic_trace(lambda a: a.exp() + 1).graph
        >>> graph = tt.fx.symbolic_trace(lambda x: (x.exp() + 1).exp() + 2).graph
        >>> [match.returning_nodes for match in SubgraphMatcher(pattern).match(graph)]
        [[add]]
        >>> [match.returning_nodes for match in SubgraphMatcher(pattern, ignore_literals=True).match(graph)]
        [[add], [add_1]]
    """

    def __init__(
        self,
        pattern: Graph,
        match_output: bool = False,
        match_placeholder: bool = False,
        remove_overlapping_matches: bool = True,
        ignore_literals: bool = False,
    ) -> None:
        if not len(pattern.nodes):
            raise ValueError("SubgraphMatcher cannot be initialized with an empty pattern")
        for node in pattern.nodes:
            if node.op != "output" and not node.users and not node.is_impure():
                raise AssertionError("SubgraphMatcher cannot be initialized with an pattern with dead code")
        self.pattern = pattern
        self.match_output = match_output
        self.match_placeholder = match_placeholder
        self.remove_overlapping_matches = remove_overlapping_matches
        self.ignore_literals = ignore_literals
        output = pattern.output_node()
        self.pattern_placeholder_nodes = pattern.find_nodes(op="placeholder")
        self.pattern_returning_nodes = output.all_input_nodes
        self.pattern_anchors = (
            [output] if match_output else [node for node in output.all_input_nodes if len(node.users) == 1]
        )

    def match(self, graph: Graph, node_name_match: str = "") -> list[InternalMatch]:
        """Return the matches of the pattern in a graph, in the order of their last nodes.

        Args:
            graph: The graph.
            node_name_match: A substring of node names; a node that has it matches any anchor. Default: "", none.
        """
        candidates = [
            [node for node in graph.nodes if self._are_alike(anchor, node, node_name_match)]
            for anchor in self.pattern_anchors
        ]
        searched = [
            (anchor, nodes) for anchor, nodes in zip(self.pattern_anchors, candidates, strict=True) if nodes
        ]
        matches: list[InternalMatch] = []
        if searched:
            self._search(searched, {}, node_name_match, matches)
        matches = [match for match in matches if self._is_closed(match) and _is_fusable(match)]
        return _without_overlaps(matches) if self.remove_overlapping_matches else matches

    def _search(
        self,
        searched: Sequence[tuple[Node, list[Node]]],
        known: dict[Node, Any],
        node_name_match: str,
        matches: list[InternalMatch],
    ) -> None:
        """Add to `matches` every match of the remaining anchors that extends the nodes in `known`."""
        if not searched:
            if all(
                node in known for node in (*self.pattern_placeholder_nodes, *self.pattern_returning_nodes)
            ):
                inputs = [known[node] for node in self.pattern_placeholder_nodes]
                results = [known[node] for node in self.pattern_returning_nodes]
                matches.append(InternalMatch(self.pattern_anchors, known, inputs, results))
            return
        (anchor, candidates), *other_anchors = searched
        for node in candidates:
            trial = dict(known)
            if self._match_nodes(anchor, node, trial, node_name_match):
                self._search(other_anchors, trial, node_name_match, matches)

    def _are_alike(self, pattern: Node, node: Node, node_name_match: str = "") -> bool:
        """Return whether two nodes have the same operation, whatever their arguments."""
        if pattern.op == "placeholder" and not self.match_placeholder:
            return True
        if node_name_match and node_name_match in node.name:
            return True
        if pattern.op != node.op:
            return False
        if pattern.op in ("placeholder", "output"):
            return True
        if pattern.op == "get_attr":
            return self._attributes_are_alike(pattern, node)
        return bool(pattern.target == node.target)

    def _attributes_are_alike(self, pattern: Node, node: Node) -> bool:
        if pattern.graph.owning_module is None or node.graph.owning_module is None:
            raise AssertionError("a pattern with attributes needs graphs that belong to modules")
        first = _get_attr(pattern.graph.owning_module, pattern.target)
        second = _get_attr(node.graph.owning_module, node.target)
        if type(first) is type(second) and not isinstance(first, Tensor):
            raise RuntimeError(f"Unsupported type {type(first)} when matching attributes")
        return type(first) is type(second)

    def _match_nodes(
        self, pattern: Node, node: Node, known: dict[Node, Any], node_name_match: str = ""
    ) -> bool:
        """Return whether a node and its inputs match the pattern; record the matched nodes in `known`."""
        if pattern in known:
            return known[pattern] is node
        if any(each is node for each in known.values()) or not self._are_alike(
            pattern, node, node_name_match
        ):
            return False
        known[pattern] = node
        if pattern.op == "placeholder":
            return True
        expected, actual = _comparable(pattern, node)
        if actual is not None and self._match_arguments(expected, actual, known):
            return True
        del known[pattern]
        return False

    def _match_arguments(
        self, expected: Sequence[Any], actual: Sequence[Any], known: dict[Node, Any]
    ) -> bool:
        return len(expected) == len(actual) and all(
            self._match_argument(first, second, known) for first, second in zip(expected, actual, strict=True)
        )

    def _match_argument(self, expected: Any, actual: Any, known: dict[Node, Any]) -> bool:
        if isinstance(expected, Node) and isinstance(actual, Node):
            return self._match_nodes(expected, actual, known)
        if isinstance(expected, list | tuple) and isinstance(actual, list | tuple):
            return self._match_arguments(expected, actual, known)
        if isinstance(expected, Node):
            if expected.op != "placeholder":
                return self.ignore_literals
            if expected in known:
                return type(known[expected]) is type(actual) and bool(known[expected] == actual)
            known[expected] = actual
            return True
        if self.ignore_literals:
            return True
        return type(expected) is type(actual) and bool(expected == actual)

    def _is_closed(self, match: InternalMatch) -> bool:
        """Return whether only the match's results are used outside of it."""
        inside = {node for each, node in match.nodes_map.items() if each.op != "placeholder"}
        return all(
            user in inside
            for each, node in match.nodes_map.items()
            if each.op != "placeholder" and each not in self.pattern_returning_nodes
            for user in node.users
        )


def _comparable(pattern: Node, node: Node) -> tuple[list[Any], list[Any] | None]:
    """Return the arguments of two nodes in the same order; None for the second if they cannot be aligned."""
    if len(pattern.args) == len(node.args) and list(pattern.kwargs) == list(node.kwargs):
        return [*pattern.args, *pattern.kwargs.values()], [*node.args, *node.kwargs.values()]
    if isinstance(pattern.target, OpOverload):
        return _all_arguments(pattern), _all_arguments(node)
    return [], None


def _all_arguments(node: Node) -> list[Any]:
    """Return the arguments of an operator call in schema order, with defaults."""
    return [
        node.kwargs.get(argument.name, node.args[index] if index < len(node.args) else argument.default)
        for index, argument in enumerate(node.target._schema.arguments)
    ]


def _computed(match: InternalMatch) -> list[Node]:
    return [node for each, node in match.nodes_map.items() if each.op not in ("placeholder", "output")]


def _is_fusable(match: InternalMatch) -> bool:
    return validate_partition(_computed(match))


def _without_overlaps(matches: Sequence[InternalMatch]) -> list[InternalMatch]:
    taken: set[Node] = set()
    disjoint: list[InternalMatch] = []
    for match in matches:
        nodes = _computed(match)
        if taken.isdisjoint(nodes):
            disjoint.append(match)
            taken.update(nodes)
    return disjoint
