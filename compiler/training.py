"""A graph with its derivative as two: forward, which keeps what backward needs, and backward.

A step belongs to backward if it reads the gradient of a result. What both need is computed in forward and kept, or
computed again in backward, as `partition` chooses.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ..dispatch.layers.graph.graph import Graph, Node, map_nodes
from .capture.recording import Recording
from .capture.unsupported import Unsupported
from .partition import values_to_keep


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
    ends = [n for n in _nodes_in(gradients) if n not in tangents]
    # What backward reads of forward, and what it reads that could be computed before any gradient comes.
    read = _operands([n for n in needed if n not in forward], ends, lambda n: n in forward or n in inputs)
    wanted = _operands([n for n in needed if n in after], ends, lambda n: n not in after)
    written = {own[i] for i in recording.written}
    if not read.isdisjoint(written):
        raise Unsupported("the function writes to an argument that its backward reads")
    chosen = values_to_keep(
        graph, wanted, read, forward, {*own, *_nodes_in(results)}, written, _held(recording, own)
    )
    backward = {n for n in needed if n in after and n not in tangents} | _computed_again(wanted, chosen)
    forward |= needed_for([n for n in chosen if n not in own])
    kept = [n for n in graph.nodes if n in chosen and n not in own]
    kept_inputs = [i for i, n in enumerate(own) if n in chosen]
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
    for node in _in_late_order(graph, backward, after, ends):
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


def _operands(nodes: Iterable[Node], others: Iterable[Node], counts: Callable[[Node], bool]) -> set[Node]:
    """The operands of nodes, and others, that count."""
    return {n for n in (*(g for node in nodes for g in node.all_input_nodes), *others) if counts(n)}


def _held(recording: Recording, inputs: Sequence[Node]) -> set[Node]:
    """The inputs that live on whatever forward keeps: those that the function holds."""
    return set(inputs[recording.arguments :])


def _in_late_order(graph: Graph, steps: set[Node], after: set[Node], ends: Sequence[Node]) -> list[Node]:
    """The steps of backward, those without gradients right before the first that reads them."""
    order: dict[Node, None] = {}
    place = {node: i for i, node in enumerate(graph.nodes)}
    for last in (*(node for node in graph.nodes if node in steps and node in after), *ends):
        missing: set[Node] = set()
        pending = [last]
        while pending:
            node = pending.pop()
            if node in steps and node not in order and node not in missing:
                missing.add(node)
                pending += node.all_input_nodes
        order |= dict.fromkeys(sorted(missing, key=place.__getitem__))
    return list(order)


def _computed_again(wanted: Iterable[Node], kept: set[Node]) -> set[Node]:
    """The steps without gradients that backward runs for what it reads and is not kept."""
    again: set[Node] = set()
    pending = list(wanted)
    while pending:
        node = pending.pop()
        if node not in kept and node not in again:
            again.add(node)
            pending += node.all_input_nodes
    return again
