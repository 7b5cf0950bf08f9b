"""A recording ready to run: its graph, or forward and backward as one call of autograd's."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from ..dispatch.autograd.engine import mark_shared
from ..dispatch.autograd.function import Function
from ..dispatch.generated import functions as ops
from ..dispatch.layers.graph.graph import Graph, Node
from ..dispatch.layers.pytree import tree_flatten, tree_unflatten
from ..dispatch.tensor import blank_tensor
from ..nn.modules.parameter import Parameter
from ..runtime.grad_mode import is_grad_enabled, is_inference_mode_enabled, set_grad_enabled
from ..runtime.storage import root_of
from ..runtime.tensor_impl import TensorImpl
from .backends import Backend, compile_graph, interpreted
from .capture.recording import Recording
from .capture.unsupported import Unsupported
from .cuda_graphs.graphed import GraphedProgram
from .options import PLAIN_OPTIONS, Options
from .schedule import Schedule
from .training import SplitGraph, needed_for, split, unshared_results

FIRST = itemgetter(0)


@dataclass(frozen=True)
class Compilation:
    """A graph that serves calls, ready to run.

    Attributes:
        recording: the graph and its guards.
        schedules: of the graph, or of forward and backward.
        run: from the graph's inputs to the leaves of the result.
        hold: the guards' check, which gives the tensors that the function holds.
        written: the inputs that the graph writes to.
        finish: from the leaves of the result to the result.
        graphed: the programs that may run as CUDA graphs: of the graph, or of forward and backward.
    """

    recording: Recording
    schedules: tuple[Schedule | None, ...]
    run: Callable[[Sequence[Any]], Sequence[Any]]
    hold: Callable[[], tuple[Any, ...] | None]
    written: tuple[int, ...]
    finish: Callable[[Sequence[Any]], Any]
    graphed: tuple[GraphedProgram, ...]

    @staticmethod
    def of(
        recording: Recording,
        schedules: tuple[Schedule | None, ...],
        run: Callable[[Sequence[Any]], Sequence[Any]],
        *programs: Callable[..., Any],
    ) -> Compilation:
        """What serves calls by a recording."""
        structure = recording.structure
        finish: Callable[[Sequence[Any]], Any] = lambda leaves: tree_unflatten(list(leaves), structure)  # noqa: E731
        if structure.is_leaf():
            finish = FIRST
        elif structure == tree_flatten((0,) * recording.results)[1]:
            finish = tuple
        graphed = tuple([each for each in programs if isinstance(each, GraphedProgram)])
        hold, written = recording.guards.hold, recording.written
        return Compilation(recording, schedules, run, hold, written, finish, graphed)


def bare(tensor: Any) -> Any:
    """A tensor's bytes without its history, under the same count of writes."""
    if not tensor._spec.requires_grad:
        return tensor
    made = blank_tensor()
    made._data, made._spec = tensor._data, tensor._spec.detached
    made._version_cell = None if tensor._spec.is_inference else tensor.version_cell()
    made._autograd = made._view_base = None
    return made


def without_history(places: Sequence[int]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """A function that makes the inputs at these places bare; a tensor that comes again is made so once."""
    if not places:
        return lambda inputs: inputs
    seen: list[Any] = [None] * (max(places) + 1)

    def prepared(inputs: Sequence[Any]) -> Sequence[Any]:
        filled = list(inputs)
        for place in places:
            tensor = filled[place]
            known = seen[place]
            if known is None or known[0]() is not tensor or known[1]._data is not tensor._data:
                known = seen[place] = (weakref.ref(tensor), bare(tensor))
            filled[place] = known[1]
        return filled

    return prepared


def needing_gradients(recording: Recording, examples: Sequence[Any]) -> list[int]:
    """The inputs that require grad, which all calls of a graph have in common."""
    return [i for i, tensor in enumerate(examples) if tensor._spec.requires_grad]


def laid_out(gradient: Any, spec: Any) -> Any:
    """A gradient in the strides for which backward was captured: eager ones may be expanded numbers."""
    found = gradient._spec
    if (found.sizes, found.strides) == (spec.sizes, spec.strides):
        return bare(gradient)
    made = ops.empty_strided(spec.sizes, spec.strides, dtype=spec.dtype, device=spec.device)
    return made.copy_(gradient.detach())


def compiled(
    recording: Recording, backend: str | Backend, tensors: Sequence[Any], options: Options = PLAIN_OPTIONS
) -> Compilation:
    """A recording ready to run."""
    held = recording.guards.hold()
    examples = [*tensors, *(held or ())]
    if recording.gradients is None:
        return _without_gradients(recording, backend, examples, options)
    return _with_gradients(recording, backend, examples, options)


def _passed_through(graph: Graph) -> dict[int, int]:
    """Which results are inputs as they are."""
    places = {node: i for i, node in enumerate(graph.find_nodes(op="placeholder"))}
    results = graph.output_node.args[0]
    return {i: places[r] for i, r in enumerate(results) if isinstance(r, Node) and r in places}


def given_back(inputs: Sequence[Any], source: int, is_identical: bool) -> Any:
    """An input as a result: itself, or where the program detached it, another tensor over its memory."""
    tensor = inputs[source]
    return tensor if is_identical else tensor.detach()


def _without_gradients(
    recording: Recording, backend: str | Backend, examples: Sequence[Any], options: Options
) -> Compilation:
    graph = recording.graph
    program, schedule = compile_graph(graph, backend, examples, options.tunes)
    if options.cudagraphs and backend == "triten":
        program = graphed_forward(program, graph, recording, examples)
    same = _passed_through(graph)
    makes_inference = is_inference_mode_enabled()
    views = interpreted(views_of(graph, recording.aliases)) if recording.aliases else None
    prepared = without_history(needing_gradients(recording, examples))
    is_simple = not same and views is None and not makes_inference

    if is_simple and backend == "triten":
        # Plans chosen below autograd record nothing, whatever the thread's mode is.
        quick = (
            (lambda inputs: program(*prepared(inputs)))
            if needing_gradients(recording, examples)
            else lambda inputs: program(*inputs)
        )
        return Compilation.of(recording, (schedule,), quick, program)

    def run(inputs: Sequence[Any]) -> Sequence[Any]:
        before = set_grad_enabled(False)
        try:
            results: Sequence[Any] = program(*prepared(inputs))
        finally:
            set_grad_enabled(before)
        if same or views is not None:
            filled = list(results)
            for place, source in same.items():
                filled[place] = given_back(inputs, source, place in recording.identical)
            if views is not None:
                for place, value in zip(recording.aliases, views(*inputs), strict=True):
                    filled[place] = value
            results = filled
        return as_inference_results(results, inputs) if makes_inference else results

    return Compilation.of(recording, (schedule,), run, program)


def as_inference_results(results: Sequence[Any], inputs: Sequence[Any]) -> Sequence[Any]:
    """Results as inference tensors, but for inputs and views of them."""
    roots = {id(root_of(t._data)) for t in inputs}
    for tensor in results:
        if isinstance(tensor, TensorImpl) and id(root_of(tensor._data)) not in roots:
            tensor._spec = tensor._spec.replace(is_inference=True)
            tensor._version_cell = None
    return results


def _with_gradients(
    recording: Recording, backend: str | Backend, examples: Sequence[Any], options: Options
) -> Compilation:
    parts = split(recording)
    wanted = recording.gradients
    assert wanted is not None
    if any(i in wanted for i in recording.written):
        raise Unsupported("the function writes to a tensor that requires grad")
    joint = recording.graph
    draws = any(
        "nondeterministic_seeded" in n.target._entry.tags
        for n in joint.find_nodes(op="call_function")
        if hasattr(n.target, "_entry")
    )
    forward, forward_schedule = compile_graph(parts.forward, backend, examples, options.tunes)
    backward, backward_schedule = compile_graph(parts.backward, backend, (), options.tunes)
    if options.cudagraphs and backend == "triten":
        forward = graphed = graphed_forward(forward, parts.forward, recording, examples)
        backward = graphed_backward(backward, parts, graphed)
    same = _passed_through(parts.forward)
    results, differentiable, kept_inputs = recording.results, set(recording.differentiable), parts.kept_inputs
    constants = {
        i: r for i, r in enumerate(parts.forward.output_node.args[0][:results]) if not isinstance(r, Node)
    }
    tangent_specs = [
        n.val for n in parts.backward.find_nodes(op="placeholder")[len(kept_inputs) + parts.kept :]
    ]
    repeated = recording.repeated
    prepared = without_history(needing_gradients(recording, examples))
    elsewhere = {*constants, *same, *repeated, *recording.aliases}
    own_results = [i for i in range(results) if i not in elsewhere]
    views = interpreted(views_of(joint, recording.aliases)) if recording.aliases else None
    again = functools.cache(lambda: interpreted(joint))
    own_gradients = unshared_results(parts.backward) if backend == "triten" else ()
    shared_gradients = [i for i in range(len(wanted)) if i not in own_gradients]

    class Compiled(Function):
        """One call of the graph, as autograd sees it."""

        _marks_shared_gradients = True

        @staticmethod
        def forward(ctx: Any, *inputs: Any) -> Any:
            made = forward(*prepared(inputs))
            ctx.save_for_backward(*[inputs[i] for i in kept_inputs], *made[results:])
            ctx.inputs = inputs
            ctx.set_materialize_grads(True)
            plain = [made[i] for i in own_results if i not in differentiable]
            ctx.mark_non_differentiable(*plain)
            return tuple([made[i] for i in own_results])

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            saved, inputs = ctx.saved_tensors, ctx.inputs
            coming = [g for i, g in zip(own_results, grads, strict=True) if i in differentiable]
            found: list[Any] = [None] * len(inputs)
            if is_grad_enabled():
                if draws:
                    raise RuntimeError(
                        "compile: a graph that draws random numbers cannot be differentiated twice; run the function "
                        "eagerly"
                    )
                made = again()(*inputs, *coming)[results:]
                own: Sequence[int] = ()
                shared: Sequence[int] = range(len(made))
            else:
                made = backward(*map(bare, saved), *map(laid_out, coming, tangent_specs))
                own, shared = own_gradients, shared_gradients
            for i in own:
                made[i]._version_cell = made[i]._view_base = None
            for i in shared:
                if made[i] is not None:
                    mark_shared(made[i])
            for place, grad in zip(recording.gradients or (), made, strict=True):
                found[place] = grad
            return tuple(found)

    def run(inputs: Sequence[Any]) -> Sequence[Any]:
        made = Compiled.apply(*inputs)
        if len(own_results) == 1 and not isinstance(made, tuple):
            made = (made,)
        filled: list[Any] = [None] * results
        for i, value in zip(own_results, made, strict=True):
            filled[i] = value
        for i, source in same.items():
            if i < results:
                filled[i] = given_back(inputs, source, i in recording.identical)
        for i, value in zip(recording.aliases, () if views is None else views(*inputs), strict=True):
            filled[i] = value
        for i, value in constants.items():
            filled[i] = value
        for i, first in repeated.items():
            filled[i] = filled[first]
        return filled

    return Compilation.of(recording, (forward_schedule, backward_schedule), run, forward, backward)


def graphed_forward(
    program: Callable[..., Any], graph: Graph, recording: Recording, examples: Sequence[Any]
) -> GraphedProgram:
    """A program that runs as CUDA graphs, which read parameters and what the function holds where it lies."""
    count = recording.arguments + len(recording.held)
    places = [i for i in range(count) if i >= recording.arguments or isinstance(examples[i], Parameter)]
    return GraphedProgram(program, graph, lambda: places, recording.results)


def graphed_backward(
    program: Callable[..., Any], parts: SplitGraph, forward: GraphedProgram
) -> GraphedProgram:
    """The program of backward as CUDA graphs, which read what those of forward read in place, and what they keep."""

    def places() -> list[int]:
        given = [i for i, place in enumerate(parts.kept_inputs) if place in forward.aliased]
        return [*given, *kept]

    kept = range(len(parts.kept_inputs), len(parts.kept_inputs) + parts.kept)
    return GraphedProgram(program, parts.backward, places, after=forward, kept=kept)


def views_of(graph: Graph, places: Sequence[int]) -> Graph:
    """The part of a graph that takes the results at these places, which are views of inputs."""
    made = Graph()
    results = [graph.output_node.args[0][i] for i in places]
    needed = needed_for(results)
    copies: dict[Node, Node] = {}
    tangents = {n for n in graph.find_nodes(op="placeholder") if n.name.startswith("tangent_")}
    for node in graph.nodes:
        if node in needed or (node.op == "placeholder" and node not in tangents):
            copies[node] = made.node_copy(node, copies.__getitem__)
    made.output(tuple([copies[r] for r in results]))
    return made
