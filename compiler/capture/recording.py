"""Recording of a function as a graph: run once on fake tensors, without writes, and with an optional derivative."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import CodeType
from typing import Any

import numpy as np

from ...dispatch.autograd.creation import Creation
from ...dispatch.core.op_overload import OpOverload
from ...dispatch.layers.graph.graph import Graph, Node, map_nodes
from ...dispatch.layers.graph.make_graph import make_graph
from ...dispatch.layers.pytree import TreeSpec
from ...dispatch.tensor import Tensor
from ...runtime.fork_lock import forkable
from ...runtime.grad_mode import set_grad_enabled
from ...runtime.storage import root_of
from ...runtime.tensor_impl import TensorImpl
from ..partition import is_view
from .frames import Frames, Watch
from .guards import Guards
from .locations import Location
from .reachable import Walk, walk_after, walk_before
from .side_effects import (
    Looks,
    Refusals,
    changed_locations,
    gradient_of,
    refuse_effects,
    refuse_side_effects,
    refusing_draws,
)
from .stand_ins import StandIns
from .traced_function import TracedFunction, modes_of_thread
from .unsupported import Unsupported, position_of, trail_of
from .values_read import refuse_reads


class _Capturing(threading.local):
    depth = 0
    exports = 0
    codes: frozenset[CodeType] = frozenset()


capturing = _Capturing()
"""How many functions this thread is capturing, how many of them for `tt.export`, and the code that the last one ran."""


@dataclass(frozen=True)
class Recording:
    """Captured function: its graph, and the guards under which it is valid.

    The graph's inputs are the tensors among the arguments, then the tensors that the function holds. If `gradients` is
    not None, a gradient for each of `differentiable` follows. Its output is the tuple of the leaves of the result. For
    each stage, gradients of leaves of earlier stages and of the inputs at `gradients` follow.

    Attributes:
        graph: The program, functional except for writes to inputs (``copy_``) at its end.
        arguments: The number of inputs that are arguments.
        held: The locations of the other inputs.
        results: The number of leaves of the result, including hidden ones.
        structure: Structure of the result.
        guards: The guards of the graph.
        written: The inputs that the graph writes to.
        uncounted: Written inputs whose version is unchanged, since the program writes through `data`.
        differentiable: The leaves of the result that have a gradient, by stages.
        stages: The same leaves; leaves that depend on each other are in different stages (see `stages`).
        arrivals: For each stage, the leaves of earlier ones whose gradients it computes, one for each addend.
        identical: The leaves that are inputs unchanged.
        aliases: The leaves with a gradient that are, or view, an input.
        views: Leaves with a gradient that are views of another such leaf, with that leaf's index.
        marks: For leaves that are views of others, the reason that forbids writes to them, and the operator that made
            them.
        shadows: Leaves without a gradient over the memory of a leaf that has one, with that leaf's index.
        hidden: The number of last leaves that are not part of the result: bases of other leaves.
        repeated: Leaves of the result that are the same tensor as an earlier one, with that leaf's index.
        bases: Leaves that are not views, with None, and those that are views of another leaf, with that leaf's index.
        versions: Leaves over the memory of an input or another leaf with a version counter of their own, as with
            `data`, with the index of the first leaf with that counter.
        objects: Leaves of the result that are Python objects, the same in each call.
        gradients: The inputs whose gradients the graph computes; None for a graph without derivative.
    """

    graph: Graph
    arguments: int
    held: tuple[Location, ...]
    results: int
    structure: TreeSpec
    guards: Guards
    written: tuple[int, ...]
    uncounted: tuple[int, ...]
    differentiable: tuple[int, ...]
    stages: tuple[tuple[int, ...], ...]
    arrivals: tuple[tuple[int, ...], ...]
    gradients: tuple[int, ...] | None
    identical: frozenset[int]
    aliases: tuple[int, ...]
    views: dict[int, int]
    marks: dict[int, tuple[Creation, str | None]]
    shadows: dict[int, int]
    hidden: int
    repeated: dict[int, int]
    bases: dict[int, int | None]
    versions: dict[int, int]
    objects: dict[int, Any]


def record(
    function: Callable[..., Any], leaves: Sequence[Any], spec: TreeSpec, watch: Watch | None = None
) -> Recording:
    """Run a function on fakes of its arguments.

    Args:
        function: what is called.
        leaves: of its arguments, tensors and others.
        spec: the structure of ``(args, kwargs)``.
        watch: finds the line that does what no graph holds, where that is seen at the end alone.

    Raises:
        Unsupported: the function does what no graph holds.
    """
    with _one_at_a_time, _without_collections():
        with suppress(UnknownTensor):
            return _recorded(function, leaves, spec, None, watch)
        # Record again with a list of the existing tensors: tensors that the function makes of numbers are constants.
        # The list keeps them alive, so that no new tensor reuses an id.
        known = [each for each in gc.get_objects() if isinstance(each, TensorImpl)]
        return _recorded(function, leaves, spec, {id(each): each for each in known}, watch)


@contextmanager
def _without_collections() -> Iterator[None]:
    """Disable the garbage collector: a capture makes many objects, nearly all of which live on."""
    if not gc.isenabled():
        yield
        return
    try:
        gc.disable()
        yield
    finally:
        gc.enable()


_one_at_a_time = forkable(threading.RLock())
"""Lock of captures: stand-ins for `print` and similar functions belong to one capture."""


class UnknownTensor(Unsupported):
    """Error: a tensor that the function uses has no known location in the program."""


def _recorded(
    function: Callable[..., Any],
    leaves: Sequence[Any],
    spec: TreeSpec,
    existing: dict[int, Any] | None,
    watch: Watch | None,
) -> Recording:
    non_tensors = [leaf for leaf in leaves if not isinstance(leaf, TensorImpl)]
    before = walk_before(function, non_tensors)
    geometries = Looks(before)
    frames = Frames()
    body = TracedFunction(function, leaves, spec, before, adds_bases=not capturing.exports)
    tensors: list[Any] = [leaf for leaf in leaves if isinstance(leaf, TensorImpl)]
    refusals, stand_ins = Refusals(), StandIns()
    refuse_effects(stand_ins, refusals)
    refuse_reads(stand_ins, reads_of(refusals, existing))
    modes_before = modes_of_thread()
    capturing.depth += 1
    try:
        try:
            with (
                refusing_draws(),
                stand_ins,
                frames.observed(stand_ins, watch),
            ):
                if watch is not None:
                    watch.is_there = lambda: (
                        refusals.first is not None
                        or body.has_refused()
                        or bool(changed_locations(before))
                        or bool(geometries.changed())
                    )
                traced = make_graph(body, "fake")(*tensors)
        finally:
            capturing.depth -= 1
            set_grad_enabled(modes_before[0])
            refuse_side_effects(before, geometries)
        if refusals.first is not None:
            raise refusals.first
    except Unsupported as error:
        raise error.located(error.__traceback__) from None
    except Exception as error:
        # Whatever it is, the function runs eagerly and raises it again if it is its own; `explain` says it.
        reason = str(error).partition("\n")[0] or type(error).__name__
        trace = error.__traceback__
        raise Unsupported(f"{type(error).__name__}: {reason}", position_of(trace), trail_of(trace)) from error
    capturing.codes = frozenset(frames.codes)
    walk = walk_after(function, non_tensors, frames, before)
    body.refuse_new_objects(walk)
    if frames.reads_grad and any(gradient_of(t) is not None for t in tensors):
        raise Unsupported("the function reads or sets `grad`, and an argument has one")
    graph = traced.graph
    results = len(body.structure_leaves)
    held = _lift(graph, walk.tensors, existing)
    _make_inputs(graph, body.tangents)
    inputs = graph.find_nodes(op="placeholder")
    written = _written_inputs(graph, inputs)
    _refuse_shared_arrays(before, inputs[len(tensors) :], held)
    _return_inputs(graph, {i: inputs[index] for i, index in body.returned.items()})
    return Recording(
        graph,
        len(tensors),
        tuple(location for location, _ in held),
        results,
        body.structure,
        Guards(walk.locations, [(location, tensor._spec) for location, tensor in held]),
        written,
        _uncounted_inputs(body, written, len(tensors), held),
        tuple(body.differentiable),
        tuple(body.stages),
        tuple(body.arrivals),
        _gradient_inputs(body, len(tensors), held) if body.differentiable else None,
        frozenset(body.identical),
        tuple(body.aliases),
        body.views,
        body.marks,
        body.shadows,
        body.hidden,
        body.repeated,
        body.bases,
        body.versions,
        body.objects,
    )


def reads_of(refusals: Refusals, existing: dict[int, Any] | None) -> Callable[[Any], None]:
    """Return a function that refuses to read a tensor from before the run, since the graph would keep its values.

    If `gc.freeze` hides objects, it is unknown which tensors these are.
    """

    def refuse(tensor: Any) -> None:
        if existing is None:
            refusals.first = refusals.first or UnknownTensor(READ)
            raise refusals.first
        if id(tensor) in existing or gc.get_freeze_count():
            refusals.refuse(READ)

    return refuse


READ = "the function reads the value of a tensor that it holds"


def _lift(
    graph: Graph, tensors: dict[int, tuple[Any, Location]], existing: dict[int, Any] | None
) -> list[tuple[Location, Any]]:
    """Make the graph's constants inputs, in the order of their first use. Return their locations.

    Constants that did not exist before the function ran are literals of its code.
    """
    held: list[tuple[Location, Any]] = []
    placeholders: dict[int, Node] = {}
    replaced: dict[Node, Node] = {}
    last = _last_placeholder(graph)
    for value in graph.constants.values():
        if not isinstance(value, Tensor):
            raise Unsupported(f"the function uses a {type(value).__name__}")
    for node in graph.find_nodes(op="get_attr"):
        tensor = graph.constants[node.target]
        if id(tensor) not in placeholders:
            if id(tensor) in tensors:
                location = tensors[id(tensor)][1]
            elif existing is not None and _is_made(tensor, existing):
                location = Location("literal", tensor, None, "a tensor made of numbers")
            else:
                raise UnknownTensor(
                    f"the function uses a tensor {list(tensor.shape)} whose location in the program is not found; "
                    "make it an argument, an attribute or a global"
                )
            held.append((location, tensor))
            last = placeholders[id(tensor)] = _placeholder(graph, f"held_{len(held) - 1}", node.val, last)
        replaced[node] = placeholders[id(tensor)]
    _replace(replaced)
    graph.constants.clear()
    return held


def _replace(nodes: dict[Node, Node]) -> None:
    """Replace nodes by others and erase them: the arguments of each user are rebuilt once."""
    for user in dict.fromkeys(user for node in nodes for user in node.users):
        user.args = map_nodes(user.args, lambda node: nodes.get(node, node))
        user.kwargs = map_nodes(user.kwargs, lambda node: nodes.get(node, node))
    for node in nodes:
        node.graph.erase_node(node)


def _is_made(tensor: TensorImpl, existing: dict[int, Any]) -> bool:
    """Return True if the function made a tensor and its memory, so that a write to it affects no other tensor."""
    if id(tensor) in existing or tensor._spec.requires_grad:
        return False
    data = [each._data for each in existing.values() if hasattr(getattr(each, "_data", None), "base")]
    return id(root_of(tensor._data)) not in {id(root_of(each)) for each in data}


def _last_placeholder(graph: Graph) -> Node | None:
    placeholders = graph.find_nodes(op="placeholder")
    return placeholders[-1] if placeholders else None


def _placeholder(graph: Graph, name: str, val: Any, last: Node | None) -> Node:
    with graph.inserting_before(None) if last is None else graph.inserting_after(last):
        return graph.placeholder(name, val)


def _return_inputs(graph: Graph, inputs: dict[int, Node]) -> None:
    """Replace results by these inputs: a view with the input's own geometry equals the input.

    A written input is the result itself, and not the result of the write, which has no history.
    """
    results = [
        each.args[0] if isinstance(each, Node) and _writes(each) else each
        for each in graph.output_node.args[0]
    ]
    for index, node in inputs.items():
        results[index] = node
    graph.output_node.args = (tuple(results),)


def _make_inputs(graph: Graph, nodes: Sequence[Any]) -> None:
    """Make the nodes of incoming gradients inputs."""
    last = _last_placeholder(graph)
    for i, node in enumerate(nodes):
        last = _placeholder(graph, f"tangent_{i}", node.val, last)
        _replace({node: last})


def _writes(node: Node) -> bool:
    return isinstance(node.target, OpOverload) and node.target._entry.schema.is_mutable


def _written_inputs(graph: Graph, inputs: Sequence[Node]) -> tuple[int, ...]:
    """Return the inputs that the graph writes to. Raise Unsupported for any other write."""
    written: list[int] = []
    for node in filter(_writes, graph.nodes):
        target = node.args[0] if node.args else None
        if node.target.name() != "aten::copy_" or target not in inputs:
            raise Unsupported(f"{node.target.name()} writes to what is no input")
        written.append(inputs.index(target))
    return tuple(written)


def _refuse_shared_arrays(before: Walk, inputs: Sequence[Node], held: Sequence[tuple[Location, Any]]) -> None:
    """Raise Unsupported if a tensor that the function makes of a NumPy array is more than read.

    A write to the tensor, or to a result over its memory, would write to the array.
    """
    for node, (location, tensor) in zip(inputs, held, strict=False):
        if (
            location.kind == "literal"
            and any(np.may_share_memory(tensor._data, array) for array in before.arrays())
            and any(user.op == "output" or _writes(user) or is_view(user) for user in node.users)
        ):
            raise Unsupported("the function writes to an array of NumPy's, or gives a tensor over it")


def _uncounted_inputs(
    body: TracedFunction, written: Sequence[int], arguments: int, held: Sequence[tuple[Location, Any]]
) -> tuple[int, ...]:
    input_indices = {id(tensor): arguments + i for i, (_, tensor) in enumerate(held)}
    input_indices |= {id(tensor): i for i, tensor in enumerate(body.input_tensors)}
    uncounted = {input_indices.get(id(tensor)) for tensor in body.uncounted}
    return tuple([i for i in written if i in uncounted])


def _gradient_inputs(
    body: TracedFunction, arguments: int, held: Sequence[tuple[Location, Any]]
) -> tuple[int, ...]:
    input_indices = {id(tensor): arguments + i for i, (_, tensor) in enumerate(held)}
    return (*body.grad_arguments, *(input_indices[id(tensor)] for tensor in body.grad_held))
