"""A graph with its derivative as two: forward, which keeps what backward needs, and backward.

A step belongs to forward if a result, a write or a draw of random numbers needs it. Of what backward reads of forward,
views are taken again from what they view, and steps in `CHEAP` computed again where all of their operands are kept
anyway: that saves memory, and their operands are read once for all such steps by one kernel.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..dispatch.layers.graph.graph import Graph, Node, map_nodes
from .capture.recording import Recording

CHEAP = frozenset(
    {
        *(
            "add",
            "sub",
            "mul",
            "neg",
            "abs",
            "relu",
            "clamp",
            "clamp_min",
            "clamp_max",
            "where",
            "_to_copy",
            "rsub",
        ),
        *(
            "gt",
            "ge",
            "lt",
            "le",
            "eq",
            "ne",
            "logical_not",
            "logical_and",
            "logical_or",
            "bitwise_not",
            "sign",
        ),
    }
)
"""Pointwise operators that take no longer than to read their operands."""


@dataclass(frozen=True)
class SplitGraph:
    """Forward and backward.

    Attributes:
        forward: from the recording's inputs without gradients to its results and then the kept values.
        backward: from the kept values and the gradients of the results to the gradients of inputs.
        kept: how many values forward keeps.
        kept_inputs: the inputs among what backward reads; they come before the kept values.
    """

    forward: Graph
    backward: Graph
    kept: int
    kept_inputs: tuple[int, ...]


def split(recording: Recording) -> SplitGraph:
    """Forward and backward of a recording that has a derivative."""
    graph = recording.graph
    inputs = graph.find_nodes(op="placeholder")
    tangents = inputs[len(inputs) - len(recording.differentiable) :]
    own = inputs[: len(inputs) - len(tangents)]
    every: Sequence[Any] = graph.output_node.args[0]
    results, gradients = every[: recording.results], every[recording.results :]
    # Draws whose results nobody reads move the generator on all the same.
    after = _computed_from(graph, tangents)
    effects = [n for n in graph.find_nodes(op="call_function") if n.is_impure]
    forward = needed_for([*_nodes_in(results), *(n for n in effects if n not in after)])
    for node in graph.nodes:
        if node.target is operator.getitem and node.args[0] in forward:
            forward.add(node)
    needed = needed_for([*_nodes_in(gradients), *(n for n in effects if n in after)])
    wanted = [n for n in graph.nodes if n in needed and n.op == "call_function"]
    backward = {n for n in wanted if n not in forward}
    crossing = dict.fromkeys(
        given
        for node in graph.nodes
        if node in backward
        for given in node.all_input_nodes
        if given not in backward and given not in tangents
    )
    crossing |= dict.fromkeys(n for n in _nodes_in(gradients) if n not in backward and n not in tangents)
    again = _computed_again(graph, list(crossing), set(own))
    sources = _sources(crossing, again)
    kept = [n for n in graph.nodes if n in sources and n not in own]
    kept_inputs = [i for i, n in enumerate(own) if n in sources]
    made = Graph()
    copies: dict[Node, Node] = {}
    for node in graph.nodes:
        if node in own or (node in forward and node.op == "call_function"):
            copies[node] = made.node_copy(node, copies.__getitem__)
    made.output(map_nodes((*results, *kept), copies.__getitem__))
    back = Graph()
    copies = {}
    for node in (*(own[i] for i in kept_inputs), *kept, *tangents):
        copies[node] = back.placeholder(node.name, node.val)
    for node in graph.nodes:
        if node in again or node in backward:
            copies[node] = back.node_copy(node, copies.__getitem__)
    back.output(map_nodes(tuple(gradients), copies.__getitem__))
    return SplitGraph(made, back, len(kept), tuple(kept_inputs))


def _computed_from(graph: Graph, sources: Sequence[Node]) -> set[Node]:
    """All steps that read the sources, or what is computed from them."""
    found = set(sources)
    for node in graph.nodes:
        if any(given in found for given in node.all_input_nodes):
            found.add(node)
    return found


def _nodes_in(values: Sequence[Any]) -> list[Node]:
    return [v for v in values if isinstance(v, Node)]


def needed_for(targets: Sequence[Node]) -> set[Node]:
    """The targets and all that they are computed from."""
    found: set[Node] = set()
    pending = list(targets)
    while pending:
        node = pending.pop()
        if node not in found:
            found.add(node)
            pending += node.all_input_nodes
    return found


def unshared_results(graph: Graph) -> tuple[int, ...]:
    """The places of results in whose memory nothing else lies: no input, no view of one, and no other result.

    Example:
        >>> import triten as tt
        >>> from triten.compiler.training import unshared_results
        >>> traced = tt.func.make_graph(lambda a, b: (a + b, a.t(), (a * b).t(), b))(*[tt.ones(2, 2)] * 2)
        >>> unshared_results(traced.graph)
        (0, 2)
    """
    bases = [_base_of(r) if isinstance(r, Node) else None for r in graph.output_node.args[0]]
    return tuple(
        [
            i
            for i, base in enumerate(bases)
            if base is not None and base.op == "call_function" and bases.count(base) == 1
        ]
    )


def _base_of(node: Node) -> Node:
    """The node in whose memory a node's result lies."""
    while node.op == "call_function":
        source = node.args[0] if node.target is operator.getitem else node
        schema = source.target._entry.schema if source.op == "call_function" else None
        is_view = schema is not None and any(r.alias_info is not None for r in schema.returns)
        if not is_view and source.target._opname != "_unsafe_view":
            return node
        node = source.all_input_nodes[0]
    return node


def _computed_again(graph: Graph, crossing: list[Node], inputs: set[Node]) -> set[Node]:
    """The steps of forward that backward computes again rather than keep."""
    again: set[Node] = set()
    wanted = set(crossing)
    for node in graph.nodes:
        if (
            node not in wanted
            or node.op != "call_function"
            or node.is_impure
            or node.target is operator.getitem
        ):
            continue
        schema = node.target._entry.schema
        if any(r.alias_info is not None for r in schema.returns):
            # A view leads to the tensor that it views, wherever that is.
            if all(g in inputs or g in wanted or g in again for g in node.all_input_nodes):
                again.add(node)
        elif node.target._opname in CHEAP and all(
            g in inputs or g in wanted or g in again for g in node.all_input_nodes
        ):
            again.add(node)
    return again


def _sources(crossing: dict[Node, None], again: set[Node]) -> set[Node]:
    """What has to be kept: what backward reads and what is computed again is computed from."""
    read = set(crossing) | {g for node in again for g in node.all_input_nodes}
    return read - again
