"""Result objects of a call: graph outputs, and inputs that are returned.

A graph has one step for equal values, and intermediate views that the program does not have. The program returns
objects: some are its arguments, some are the same object, and some are views of others.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from typing import Any

from ..dispatch.generated import functions as ops
from ..dispatch.layers.graph.graph import Graph, Node
from ..runtime.storage import root_of
from ..runtime.tensor_impl import TensorImpl
from .backends import interpreted
from .capture.recording import Recording
from .partition import is_view, needed_for
from .training import view_of_result


def passed_through(graph: Graph) -> dict[int, int]:
    """Return the results that are inputs unchanged, with the inputs' indices."""
    input_indices = {node: i for i, node in enumerate(graph.find_nodes(op="placeholder"))}
    results = graph.output_node.args[0]
    return {i: input_indices[r] for i, r in enumerate(results) if isinstance(r, Node) and r in input_indices}


def given_back(inputs: Sequence[Any], source: int, is_identical: bool, is_view: bool = False) -> Any:
    """Return an input as a result: itself, a view of all of it, or a detached tensor over its memory."""
    tensor = inputs[source]
    if is_view:
        return ops.alias(tensor)
    return tensor if is_identical else tensor.detach()


def views_of_all(recording: Recording, indices: Iterable[int]) -> set[int]:
    """Return the indices, of results with an input's metadata, that are views of the input."""
    return {i for i in indices if i not in recording.identical and recording.bases.get(i, -1) is not None}


def objects_of_results(
    recording: Recording, inputs_returned: Container[int]
) -> Callable[[list[Any]], None] | None:
    """Return a function that replaces a graph's results by distinct objects as in the program; None if not needed.

    A graph has one step for values that are equal, such as a tensor and its detached copy, and it may have
    intermediate views that the program does not have.

    Args:
        recording: The recording of the results.
        inputs_returned: The indices of results that have an input's metadata, and are objects of their own.
    """
    nodes = recording.graph.output_node.args[0]
    own = [
        i
        for i, node in enumerate(nodes[: recording.results])
        if isinstance(node, Node) and i not in inputs_returned and i not in recording.aliases
    ]
    shared = _shared([nodes[i] for i in own], own, recording)
    rebased = [
        (i, recording.bases[i]) for i in own if i in recording.bases and (i in shared or is_view(nodes[i]))
    ]
    rebased += [(i, base) for i, base in recording.bases.items() if i in inputs_returned and base is not None]
    unviewed = [i for i, base in rebased if base is None]
    parts = [(i, base) for i, base in rebased if base is not None]
    if not (shared or rebased or recording.repeated):
        return None

    def tell_apart(filled: list[Any]) -> None:
        for i, other in shared.items():
            filled[i] = ops.alias(filled[other])
        for i in unviewed:
            filled[i]._view_base = filled[i]._creation = None
        for i, base in parts:
            whole = filled[base]  # an argument may be a view
            filled[i]._view_base = whole if whole._view_base is None else whole._view_base
        for i, other in recording.repeated.items():
            filled[i] = filled[other]

    return tell_apart


def _shared(nodes: Sequence[Node], indices: Sequence[int], recording: Recording) -> dict[int, int]:
    """Return the indices of results that share a step with an earlier result but are other objects, with its index."""
    first: dict[Node, int] = {}
    pairs = [(i, first.setdefault(node, i)) for i, node in zip(indices, nodes, strict=True)]
    return {i: other for i, other in pairs if i != other and i not in recording.repeated}


def views_taken(
    graph: Graph, indices: Sequence[int], recording: Recording
) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """Return a function that takes the results at these indices, which are views of inputs, from the inputs."""
    take = interpreted(views_of(graph, indices))
    results = graph.output_node.args[0]
    shared = {
        indices.index(i): indices.index(other)
        for i, other in _shared([results[i] for i in indices], indices, recording).items()
    }
    if not shared:
        return lambda inputs: take(*inputs)

    def taken(inputs: Sequence[Any]) -> Sequence[Any]:
        views = list(take(*inputs))
        for i, other in shared.items():
            views[i] = ops.alias(views[other])
        return views

    return taken


def views_of_results(recording: Recording) -> Callable[[list[Any]], None] | None:
    """Return a function that takes the results that are views of others, with gradients, from these; None
    without any."""
    if not recording.views:
        return None
    views = {
        i: (base, interpreted(view_of_result(recording, i, base))) for i, base in recording.views.items()
    }

    def take(filled: list[Any]) -> None:
        for i, (base, view) in views.items():
            part = view(filled[base])[0]
            # A view of all of it must be another tensor.
            filled[i] = ops.alias(part) if part is filled[base] else part
        for i, (creation, made_by) in recording.marks.items():
            filled[i]._creation = creation
            if made_by is not None:
                filled[i]._autograd.made_by = made_by

    return take


def shadows_of_results(recording: Recording) -> Callable[[list[Any]], None] | None:
    """Return a function that takes results without gradients over other results' memory; None without any."""
    if not recording.shadows:
        return None
    views = {
        i: (base, interpreted(view_of_result(recording, i, base)))
        for i, base in recording.shadows.items()
        if i not in recording.repeated
    }

    def take(filled: list[Any]) -> None:
        for i, (base, view) in views.items():
            filled[i] = view(filled[base].detach())[0]
        for i in views:
            if i in recording.bases:
                base_index = recording.bases[i]
                whole = None if base_index is None else filled[base_index]
                filled[i]._view_base = (
                    whole if whole is None or whole._view_base is None else whole._view_base
                )

    return take


def without_hidden(build: Callable[[Sequence[Any]], Any], count: int) -> Callable[[Sequence[Any]], Any]:
    """Return a function that builds a result from its leaves without the last `count`."""
    return lambda leaves: build(leaves[:-count])


def as_inference_results(results: Sequence[Any], inputs: Sequence[Any]) -> Sequence[Any]:
    """Return results as inference tensors, except inputs and views of them."""
    roots = {id(root_of(t._data)) for t in inputs}
    for tensor in results:
        if isinstance(tensor, TensorImpl) and id(root_of(tensor._data)) not in roots:
            tensor._spec = tensor._spec.replace(is_inference=True)
            tensor._version_cell = None
    return results


def views_of(graph: Graph, indices: Sequence[int]) -> Graph:
    """Return the part of a graph that takes the results at these indices, which are views of inputs."""
    made = Graph()
    results = [graph.output_node.args[0][i] for i in indices]
    needed = needed_for(results)
    copies: dict[Node, Node] = {}
    tangents = {n for n in graph.find_nodes(op="placeholder") if n.name.startswith("tangent_")}
    for node in graph.nodes:
        if node in needed or (node.op == "placeholder" and node not in tangents):
            copies[node] = made.node_copy(node, copies.__getitem__)
    made.output(tuple([copies[r] for r in results]))
    return made


def uncounted(
    run: Callable[[Sequence[Any]], Sequence[Any]], indices: Sequence[int]
) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """Return a call that restores the versions of the inputs at these indices, which are written through `data`."""

    def run_uncounted(inputs: Sequence[Any]) -> Sequence[Any]:
        cells = [inputs[i].version_cell() for i in indices if not inputs[i]._spec.is_inference]
        before = [cell[0] for cell in cells]
        try:
            return run(inputs)
        finally:
            for cell, version in zip(cells, before, strict=True):
                cell[0] = version

    return run_uncounted


def counted_apart(
    run: Callable[[Sequence[Any]], Sequence[Any]], versions: dict[int, int]
) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """Return a call whose results at these indices have their own version counters, shared by results of one value."""

    def run_apart(inputs: Sequence[Any]) -> Sequence[Any]:
        results = run(inputs)
        cells: dict[int, list[int]] = {}
        for i, first in versions.items():
            results[i]._version_cell = cells.setdefault(first, [0])
        return results

    return run_apart
