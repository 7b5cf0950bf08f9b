"""Split of a joint graph into forward, which saves what backward needs, and backward.

A step belongs to backward if it reads the gradient of a result. Values that both need are computed in forward and
saved, or recomputed in backward, as `partition` chooses.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ..dispatch.layers.graph.graph import Graph, Node, map_nodes
from .capture.recording import Recording
from .capture.unsupported import Unsupported
from .partition import is_view, needed_for, values_to_keep


@dataclass(frozen=True)
class BackwardGraph:
    """Backward of the results of one stage.

    Attributes:
        graph: Inputs: inputs, saved values and gradients of the stage's results. Outputs: gradients of the
            differentiable results of earlier stages, and of inputs.
        saved_inputs: The inputs that it reads.
        saved: Indices of the saved values that it reads.
    """

    graph: Graph
    saved_inputs: tuple[int, ...]
    saved: tuple[int, ...]


@dataclass(frozen=True)
class SplitGraph:
    """Forward and backward.

    Attributes:
        forward: Graph from the recording's inputs without gradients to its results and then the saved values.
        num_saved: Number of values that forward saves.
        stages: Backward of the results of each stage. Most programs have one stage.
    """

    forward: Graph
    num_saved: int
    stages: tuple[BackwardGraph, ...]

    @property
    def backward(self) -> Graph:
        """Backward of the first stage."""
        return self.stages[0].graph

    @property
    def saved_inputs(self) -> tuple[int, ...]:
        """The inputs that it reads."""
        return self.stages[0].saved_inputs


@dataclass(frozen=True)
class _Stage:
    """Parts of a stage's backward.

    Attributes:
        tangents: The gradients of its results.
        gradients: Its outputs.
        steps: The needed steps that read its tangents.
        ends: The outputs that read no tangent.
        needed: All nodes from which it is computed.
    """

    tangents: list[Node]
    gradients: Sequence[Any]
    steps: set[Node]
    ends: list[Node]
    needed: set[Node]


def split(recording: Recording) -> SplitGraph:
    """Split a recording with a derivative into forward and backward."""
    for index, base in (recording.views | recording.shadows).items():
        view_of_result(recording, index, base)
    graph = recording.graph
    inputs = graph.find_nodes(op="placeholder")
    tangents = inputs[len(inputs) - len(recording.differentiable) :]
    own = inputs[: len(inputs) - len(tangents)]
    results: Sequence[Any] = graph.output_node.args[0][: recording.results]
    # A random op advances the generator even if its results are unused.
    after = computed_from(graph, tangents)
    effects = [n for n in graph.find_nodes(op="call_function") if n.is_impure]
    forward = needed_for([*_nodes_in(results), *(n for n in effects if n not in after)])
    for node in graph.nodes:
        if node.target is operator.getitem and node.args[0] in forward:
            forward.add(node)
    stages = _stages(recording, tangents, effects)
    steps, ends = {n for s in stages for n in s.steps}, [n for s in stages for n in s.ends]
    # Values of forward that backward reads, and values that could be computed before the first gradient arrives.
    later = [n for s in stages for n in s.needed if n not in forward]
    available = forward | set(own)
    read = _operands(later, ends, available.__contains__)
    targets = _operands(steps, ends, lambda n: n not in after)
    written = {own[i] for i in recording.written}
    if not read.isdisjoint(written):
        raise Unsupported("the function writes to an argument that its backward reads")
    held = set(own[recording.arguments :])  # they live on whatever forward keeps
    chosen = values_to_keep(graph, targets, read, forward, {*own, *_nodes_in(results)}, written, held)
    forward = available | needed_for(list(chosen))
    saved = [n for n in graph.nodes if n in chosen and n not in own]
    made = Graph()
    copies: dict[Node, Node] = {}
    for node in graph.nodes:
        if node in forward:
            copies[node] = made.node_copy(node, copies.__getitem__)
    made.output(map_nodes((*results, *saved), copies.__getitem__))
    return SplitGraph(
        made, len(saved), tuple([_backward(graph, stage, own, saved, chosen, after) for stage in stages])
    )


def view_of_result(recording: Recording, index: int, base_index: int) -> Graph:
    """Return the graph from a result to a view of it. Raise Unsupported if the graph has no such path."""
    results = recording.graph.output_node.args[0]
    base, view = results[base_index], results[index]
    made = Graph()
    copies = {base: made.placeholder(base.name, base.val)}
    needed = needed_for([view], [base])
    for node in recording.graph.nodes:
        if node in needed and node is not base:
            if not is_view(node) and node.target is not operator.getitem:
                raise Unsupported("two results with gradients share memory")
            copies[node] = made.node_copy(node, copies.__getitem__)
    made.output((copies[view],))
    return made


def _stages(recording: Recording, tangents: Sequence[Node], effects: Sequence[Node]) -> list[_Stage]:
    stages = []
    for number, gradients in enumerate(gradients_by_stage(recording)):
        first = sum(map(len, recording.stages[:number]))
        mine = list(tangents[first : first + len(recording.stages[number])])
        after = computed_from(recording.graph, mine)
        needed = needed_for([*_nodes_in(gradients), *(n for n in effects if n in after)])
        steps = {n for n in needed if n in after and n not in mine}
        ends = [n for n in _nodes_in(gradients) if n not in after]
        stages.append(_Stage(mine, gradients, steps, ends, needed))
    return stages


def gradients_by_stage(recording: Recording) -> list[Sequence[Any]]:
    """Return the outputs of each stage: the gradients of earlier results, then those of inputs."""
    every = recording.graph.output_node.args[0]
    first, gradients = recording.results, []
    for arrivals in recording.arrivals:
        last = first + len(arrivals) + len(recording.gradients or ())
        gradients.append(every[first:last])
        first = last
    return gradients


def _backward(
    graph: Graph,
    stage: _Stage,
    own: Sequence[Node],
    saved: Sequence[Node],
    chosen: set[Node],
    after: set[Node],
) -> BackwardGraph:
    steps = stage.steps | _computed_again(
        _operands(stage.steps, stage.ends, lambda n: n not in after), chosen
    )
    read = _operands(steps, stage.ends, lambda n: n in chosen)
    saved_inputs = [i for i, n in enumerate(own) if n in read]
    saved_values = [i for i, n in enumerate(saved) if n in read]
    made = Graph()
    copies: dict[Node, Node] = {}
    for node in (*(own[i] for i in saved_inputs), *(saved[i] for i in saved_values), *stage.tangents):
        copies[node] = made.placeholder(node.name, node.val)
    for node in _in_late_order(graph, steps, after, stage.ends):
        copies[node] = made.node_copy(node, copies.__getitem__)
    made.output(map_nodes(tuple(stage.gradients), copies.__getitem__))
    return BackwardGraph(made, tuple(saved_inputs), tuple(saved_values))


def computed_from(graph: Graph, sources: Sequence[Node]) -> set[Node]:
    """Return all steps that depend on the sources."""
    dependent = set(sources)
    for node in graph.nodes:
        if any(operand in dependent for operand in node.all_input_nodes):
            dependent.add(node)
    return dependent


def _nodes_in(values: Sequence[Any]) -> list[Node]:
    return [v for v in values if isinstance(v, Node)]


def _operands(nodes: Iterable[Node], extra: Iterable[Node], counts: Callable[[Node], bool]) -> set[Node]:
    """Return the operands of nodes, and other nodes, that satisfy `counts`."""
    return {n for n in (*(g for node in nodes for g in node.all_input_nodes), *extra) if counts(n)}


def _in_late_order(graph: Graph, steps: set[Node], after: set[Node], ends: Sequence[Node]) -> list[Node]:
    """Return the steps of backward, with each recomputed step right before its first reader."""
    order: dict[Node, None] = {}
    index_of = {node: i for i, node in enumerate(graph.nodes)}
    for last in (*(node for node in graph.nodes if node in steps and node in after), *ends):
        missing: set[Node] = set()
        pending = [last]
        while pending:
            node = pending.pop()
            if node in steps and node not in order and node not in missing:
                missing.add(node)
                pending += node.all_input_nodes
        order |= dict.fromkeys(sorted(missing, key=index_of.__getitem__))
    return list(order)


def unshared_results(graph: Graph) -> tuple[int, ...]:
    """Return the indices of results that share memory with no input and no other result.

    Example:
        >>> import triten as tt
        >>> from triten.compiler.training import unshared_results
        >>> traced = tt.func.make_graph(lambda a, b: (a + b, a.t(), (a * b).t(), b))(*[tt.ones(2, 2)] * 2)
        >>> unshared_results(traced.graph)
        (0, 2)
    """
    bases = [base_of(r) if isinstance(r, Node) else None for r in graph.output_node.args[0]]
    return tuple(
        [
            i
            for i, base in enumerate(bases)
            if base is not None and base.op == "call_function" and bases.count(base) == 1
        ]
    )


def base_of(node: Node) -> Node:
    """Return the node that owns the memory of a node's result."""
    while node.op == "call_function":
        source = node.args[0] if node.target is operator.getitem else node
        schema = source.target._entry.schema if source.op == "call_function" else None
        is_view = schema is not None and any(r.alias_info is not None for r in schema.returns)
        if not is_view and source.target._opname != "_unsafe_view":
            return node
        node = source.all_input_nodes[0]
    return node


def _computed_again(values: Iterable[Node], saved: set[Node]) -> set[Node]:
    """Return the steps that backward recomputes for values that are not saved."""
    again: set[Node] = set()
    pending = list(values)
    while pending:
        node = pending.pop()
        if node not in saved and node not in again:
            again.add(node)
            pending += node.all_input_nodes
    return again
