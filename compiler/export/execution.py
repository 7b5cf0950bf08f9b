"""An exported graph ready to run: compiled for the threads' modes, with writes and aliases as the program had them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...dispatch.layers.graph.graph import Graph, Node
from ...runtime.grad_mode import is_inference_mode_enabled, set_grad_enabled
from ..backends import interpreted
from ..compilation import without_history
from ..pipeline import compile_graph
from ..results import as_inference_results, given_back

Run = Callable[[Sequence[Any]], Sequence[Any]]


def runnable(
    graph: Graph, mutations: int, identical: frozenset[int], examples: Sequence[Any], is_traced: bool
) -> Run:
    """Return a function from a graph's inputs to its user's results.

    Args:
        graph: An exported graph, which is not changed.
        mutations: The number of its outputs that are written values; they come first.
        identical: The results that are inputs unchanged.
        examples: Inputs of a call that it must serve: later calls have the same specs.
        is_traced: If True, call the operators through the dispatcher, where modes, tracers and profilers see them.
    """
    own = graph.copy()
    sources = inputs_among_results(own, mutations)
    program = interpreted(own) if is_traced else compile_graph(own, "triten", examples)[0]
    prepared = without_history([i for i, each in enumerate(examples) if each._spec.requires_grad])
    makes_inference = is_inference_mode_enabled()

    def run(inputs: Sequence[Any]) -> Sequence[Any]:
        before = set_grad_enabled(False)
        try:
            results = list(program(*prepared(inputs))[mutations:])
        finally:
            set_grad_enabled(before)
        for index, source in sources.items():
            results[index] = given_back(inputs, source, index in identical)
        return as_inference_results(results, inputs) if makes_inference else results

    return run


def inputs_among_results(graph: Graph, mutations: int) -> dict[int, int]:
    """Return the results that are inputs, with the inputs' indices: unchanged, or after a write."""
    input_indices = {node: i for i, node in enumerate(graph.find_nodes(op="placeholder"))}
    sources = {}
    for i, result in enumerate(graph.output_node.args[0][mutations:]):
        if isinstance(result, Node) and result.target not in ("", None):
            source = result.args[0] if is_write(result) else result
            if source in input_indices:
                sources[i] = input_indices[source]
    return sources


def is_write(node: Node) -> bool:
    """Return True if a step writes to one of its arguments."""
    return bool(getattr(getattr(node.target, "_schema", None), "is_mutable", False))
