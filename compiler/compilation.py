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
from ..dispatch.autograd.tangents import FORWARD_BIT
from ..dispatch.generated import functions as ops
from ..dispatch.layers.graph.graph import Graph, Node, map_nodes
from ..dispatch.layers.pytree import tree_flatten, tree_unflatten
from ..dispatch.tensor import blank_tensor
from ..nn.modules.parameter import Parameter
from ..runtime.dispatch_key import Functionality, functionality_bit
from ..runtime.grad_mode import is_grad_enabled, is_inference_mode_enabled, set_grad_enabled
from ..runtime.storage import FOLLOWERS
from .backends import Backend, boxed, interpreted
from .capture.recording import Recording
from .capture.unsupported import Unsupported
from .cuda_graphs.graphed import GraphedProgram
from .options import PLAIN_OPTIONS, Options
from .partition import is_view, needed_for
from .pipeline import compile_graph, compiling_kernels, run_early_passes
from .results import (
    as_inference_results,
    counted_apart,
    given_back,
    objects_of_results,
    passed_through,
    shadows_of_results,
    uncounted,
    views_of_all,
    views_of_results,
    views_taken,
    without_hidden,
)
from .schedule import Schedule
from .training import (
    BackwardGraph,
    base_of,
    gradients_by_stage,
    split,
    unshared_results,
)

FIRST = itemgetter(0)

_TRANSFORMED = FORWARD_BIT | functionality_bit(Functionality.Batched)
"""Keys of gradients that compiled kernels cannot read: dual and batched tensors."""


@dataclass(frozen=True)
class Compilation:
    """A compiled graph, ready to run.

    Attributes:
        recording: The graph and its guards.
        schedules: The schedule of the graph, or those of forward and backward.
        run: Function from the graph's inputs to the leaves of the result.
        hold: Check of the guards, which returns the tensors that the function holds.
        written: The inputs that the graph writes to.
        finish: Function from the leaves of the result to the result.
        graphed: The programs that may run as CUDA graphs: of the graph, or of forward and backward.
    """

    recording: Recording
    schedules: tuple[Schedule | None, ...]
    run: Callable[[Sequence[Any]], Sequence[Any]]
    hold: Callable[[], tuple[Any, ...] | None]
    written: tuple[int, ...]
    finish: Callable[[Sequence[Any]], Any]
    graphed: tuple[GraphedProgram, ...]

    @property
    def has_operators(self) -> bool:
        """True if the graph calls any operator."""
        return bool(self.recording.graph.find_nodes(op="call_function"))

    @staticmethod
    def of(
        recording: Recording,
        schedules: tuple[Schedule | None, ...],
        run: Callable[[Sequence[Any]], Sequence[Any]],
        *programs: Callable[..., Any],
    ) -> Compilation:
        """Return the compilation of a recording."""
        structure = recording.structure
        build: Callable[[Sequence[Any]], Any] = lambda leaves: tree_unflatten(list(leaves), structure)  # noqa: E731
        if structure.is_leaf():
            build = FIRST
        elif structure == tree_flatten((0,) * (recording.results - recording.hidden))[1]:
            build = tuple
        if recording.hidden:
            build = without_hidden(build, recording.hidden)
        finish = build
        if recording.objects:
            objects = recording.objects

            def with_objects(leaves: Sequence[Any]) -> Any:
                filled = list(leaves)
                for i, value in objects.items():
                    filled[i] = value
                return build(filled)

            finish = with_objects

        if recording.uncounted:
            run = uncounted(run, recording.uncounted)
        if recording.versions:
            run = counted_apart(run, recording.versions)
        graphed = tuple([each for each in programs if isinstance(each, GraphedProgram)])
        hold, written = recording.guards.hold, recording.written
        return Compilation(recording, schedules, run, hold, written, finish, graphed)


def bare(tensor: Any) -> Any:
    """Return a tensor over the same data without autograd history, with the same version counter."""
    if not tensor._spec.requires_grad:
        return tensor
    made = blank_tensor()
    made._data, made._spec = tensor._data, tensor._spec.detached
    made._version_cell = None if tensor._spec.is_inference else tensor.version_cell()
    made._autograd = made._view_base = None
    return made


def without_history(indices: Sequence[int]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """Return a function that detaches the inputs at these indices. A repeated tensor is detached once."""
    if not indices:
        return lambda inputs: inputs
    detached: list[Any] = [None] * (max(indices) + 1)

    def prepared(inputs: Sequence[Any]) -> Sequence[Any]:
        filled = list(inputs)
        for index in indices:
            tensor = filled[index]
            known = detached[index]
            if known is None or known[0]() is not tensor or known[1]._data is not tensor._data:
                known = detached[index] = (weakref.ref(tensor), bare(tensor))
                followers = vars(tensor).get(FOLLOWERS)
                if followers is not None:
                    followers.append(weakref.ref(known[1]))
            filled[index] = known[1]
        return filled

    return prepared


def needing_gradients(recording: Recording, examples: Sequence[Any]) -> list[int]:
    """Return the indices of the inputs that require grad, which all calls of a graph have in common."""
    return [i for i, tensor in enumerate(examples) if tensor._spec.requires_grad]


def laid_out(gradient: Any, spec: Any) -> Any:
    """Return a gradient with the strides for which backward was captured. Eager gradients may be expanded."""
    layout = gradient._spec
    if (layout.sizes, layout.strides) == (spec.sizes, spec.strides):
        return bare(gradient)
    made = ops.empty_strided(spec.sizes, spec.strides, dtype=spec.dtype, device=spec.device)
    return made.copy_(gradient.detach())


def compiled(
    recording: Recording, backend: str | Backend, tensors: Sequence[Any], options: Options = PLAIN_OPTIONS
) -> Compilation:
    """Compile a recording."""
    held = recording.guards.hold()
    examples = [*tensors, *(held or ())]
    if recording.gradients is None:
        return _without_gradients(recording, backend, examples, options)
    with compiling_kernels(recording.graph):  # those of forward and backward together
        return _with_gradients(recording, backend, examples, options)


def _quick(
    program: Callable[..., Sequence[Any]],
    prepared: Callable[[Sequence[Any]], Sequence[Any]],
    tell_apart: Callable[[list[Any]], None] | None,
    plain: bool,
) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """Return the shortest call of a program whose results are objects of its own."""
    if tell_apart is not None:

        def told_apart(inputs: Sequence[Any]) -> Sequence[Any]:
            filled = list(program(*prepared(inputs)))
            tell_apart(filled)
            return filled

        return told_apart
    return (lambda inputs: program(*inputs)) if plain else lambda inputs: program(*prepared(inputs))


def _without_gradients(
    recording: Recording, backend: str | Backend, examples: Sequence[Any], options: Options
) -> Compilation:
    graph = recording.graph
    run_early_passes(graph, backend == "triten")
    program, schedule = compile_graph(graph, backend, examples, tunes=options.tunes)
    if options.cudagraphs and backend == "triten":
        program = graphed_forward(program, graph, recording, examples)
    same = passed_through(graph)
    shown = views_of_all(recording, same)
    makes_inference = is_inference_mode_enabled()
    aliases = [i for i in recording.aliases if i not in same]
    views = views_taken(graph, aliases, recording) if aliases else None
    prepared = without_history(needing_gradients(recording, examples))
    tell_apart = objects_of_results(recording, same)
    viewing = [
        i for i, node in enumerate(graph.output_node.args[0]) if isinstance(node, Node) and is_view(node)
    ]
    is_simple = not same and views is None and not makes_inference
    plain = not needing_gradients(recording, examples)

    if is_simple and backend == "triten":
        # Plans chosen below autograd record nothing, whatever the thread's mode is.
        return Compilation.of(recording, (schedule,), _quick(program, prepared, tell_apart, plain), program)

    def run(inputs: Sequence[Any]) -> Sequence[Any]:
        before = set_grad_enabled(False)
        try:
            results: Sequence[Any] = program(*prepared(inputs))
        finally:
            set_grad_enabled(before)
        if before:
            for i in viewing:
                results[i]._creation = None  # of the block in which the graph runs, and not the program
        if same or views is not None or tell_apart is not None:
            filled = list(results)
            for index, source in same.items():
                filled[index] = given_back(inputs, source, index in recording.identical, index in shown)
            if views is not None:
                for index, value in zip(aliases, views(inputs), strict=True):
                    filled[index] = value
            if tell_apart is not None:
                tell_apart(filled)
            results = filled
        return as_inference_results(results, inputs) if makes_inference else results

    return Compilation.of(recording, (schedule,), run, program)


def _with_gradients(
    recording: Recording, backend: str | Backend, examples: Sequence[Any], options: Options
) -> Compilation:
    run_early_passes(recording.graph, backend == "triten")
    parts = split(recording)
    grad_inputs = recording.gradients
    assert grad_inputs is not None
    if any(i in grad_inputs for i in recording.written):
        raise Unsupported("the function writes to a tensor that requires grad")
    draws = any(n.draws for n in recording.graph.find_nodes(op="call_function"))
    forward, forward_schedule = compile_graph(parts.forward, backend, examples, tunes=options.tunes)
    programs: list[Callable[..., Any]] = []
    if options.cudagraphs and backend == "triten" and len(parts.stages) == 1:
        forward = graphed_forward(forward, parts.forward, recording, examples)
        programs.append(forward)
    same = passed_through(parts.forward)
    results = recording.results
    constants = {
        i: r for i, r in enumerate(parts.forward.output_node.args[0][:results]) if not isinstance(r, Node)
    }
    repeated = recording.repeated
    prepared = without_history(needing_gradients(recording, examples))
    elsewhere = {
        *constants,
        *same,
        *repeated,
        *recording.aliases,
        *recording.views,
        *recording.shadows,
        *recording.differentiable,
    }
    parts_of_results = views_of_results(recording)
    shadows = shadows_of_results(recording)
    plain = [i for i in range(results) if i not in elsewhere]
    shown = views_of_all(recording, same)
    aliases = [i for i in recording.aliases if i not in same]
    views = views_taken(recording.graph, aliases, recording) if aliases else None
    calls: list[tuple[type[Function], list[int], tuple[int, ...]]] = []
    schedules = [forward_schedule]
    for number, stage in enumerate(parts.stages):
        if isinstance(forward, GraphedProgram):
            plain_backward, schedule = compile_graph(stage.graph, backend, (), tunes=options.tunes)
            programs.append(graphed_backward(plain_backward, stage, forward))
            backward = boxed(programs[-1])
        else:
            backward, schedule = compile_graph(stage.graph, backend, (), is_boxed=True, tunes=options.tunes)
        schedules.append(schedule)
        with_gradient = recording.stages[number]
        own = sorted((*with_gradient, *(plain if number == 0 else ())))
        earlier = recording.arrivals[number]
        again = functools.cache(lambda number=number: interpreted(joint_of_stage(recording, number)))
        unshared = unshared_results(stage.graph) if backend == "triten" else ()
        made_of = _stage_function(
            recording, stage, own, with_gradient, earlier, backward, again, draws, unshared
        )
        calls.append((made_of, own, earlier))

    def run(inputs: Sequence[Any]) -> Sequence[Any]:
        filled: list[Any] = [None] * results
        made: list[Any] = []
        for function, own, earlier in calls:
            if not made:
                made += forward(*prepared(inputs))
            for i, value in zip(
                own, function._apply((made, *[filled[i] for i in earlier], *inputs)), strict=True
            ):
                filled[i] = value
        for i, source in same.items():
            if i < results:
                filled[i] = given_back(inputs, source, i in recording.identical, i in shown)
        for i, value in zip(aliases, () if views is None else views(inputs), strict=True):
            filled[i] = value
        for i, value in constants.items():
            filled[i] = value
        if parts_of_results is not None:
            parts_of_results(filled)
        if shadows is not None:
            shadows(filled)
        for i, first in repeated.items():
            filled[i] = filled[first]
        return filled

    return Compilation.of(recording, tuple(schedules), run, *programs)


def _is_view_made(result: object) -> bool:
    """Return True if a result is a view of a value that the graph computes, not of an input."""
    return isinstance(result, Node) and is_view(result) and base_of(result).op == "call_function"


def _stage_function(
    recording: Recording,
    stage: BackwardGraph,
    own: Sequence[int],
    with_gradient: Sequence[int],
    earlier: Sequence[int],
    backward: Callable[..., Sequence[Any]],
    again: Callable[[], Callable[..., Sequence[Any]]],
    draws: bool,
    unshared: Sequence[int],
) -> type[Function]:
    """Return the autograd Function of a stage.

    Its inputs are saved values of forward, the results of earlier stages, and the graph's inputs; its outputs are the
    stage's results. Leaves take over the gradients at `unshared` indices.
    """
    results, saved_inputs, saved_indices = recording.results, stage.saved_inputs, stage.saved
    differentiable, before = set(with_gradient), len(earlier)
    grad_positions = [*range(1, 1 + before), *(1 + before + i for i in recording.gradients or ())]
    # A result that views an internal value is returned as a tensor of its own: a view that a custom function returns
    # could not be written to.
    viewing = [i for i in own if _is_view_made(recording.graph.output_node.args[0][i])]
    tangent_specs = [
        n.val for n in stage.graph.find_nodes(op="placeholder")[len(saved_inputs) + len(saved_indices) :]
    ]

    class Compiled(Function):
        """One call of the graph, as autograd sees it."""

        _marks_shared_gradients = True

        @staticmethod
        def forward(ctx: Any, made: Sequence[Any], *tensors: Any) -> Any:
            ctx.save_for_backward(
                *[tensors[before + i] for i in saved_inputs], *[made[results + i] for i in saved_indices]
            )
            ctx.inputs = tensors
            ctx.set_materialize_grads(True)
            ctx.mark_non_differentiable(*[made[i] for i in own if i not in differentiable])
            for i in viewing:
                made[i]._view_base = None
            return tuple([made[i] for i in own])

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            saved, tensors = list(map(bare, ctx.saved_tensors)), ctx.inputs
            if ctx.maybe_clear_saved_tensors():
                ctx.inputs = ()
            coming = [g for i, g in zip(own, grads, strict=True) if i in differentiable]
            input_grads: list[Any] = [None] * (1 + len(tensors))
            if is_grad_enabled() or any(g._spec.keys & _TRANSFORMED for g in coming):
                if draws:
                    raise RuntimeError(
                        "compile: a graph that draws random numbers cannot be differentiated twice, and vmap cannot "
                        "map its gradients; run the function eagerly"
                    )
                made = again()(*tensors, *coming)
                own_gradients: Sequence[int] = ()
            else:
                del tensors
                saved += map(laid_out, coming, tangent_specs)
                made = backward(saved)
                own_gradients = unshared
            for i in own_gradients:
                made[i]._version_cell = made[i]._view_base = None
            for i, each in enumerate(made):
                if each is not None and i not in own_gradients:
                    mark_shared(each)
            for position, grad in zip(grad_positions, made, strict=True):
                input_grads[position] = grad
            return tuple(input_grads)

    return Compiled


def joint_of_stage(recording: Recording, number: int) -> Graph:
    """Return a stage's joint graph, from results of earlier stages, inputs, and gradients of its results."""
    graph = recording.graph
    every = graph.find_nodes(op="placeholder")
    first = len(every) - len(recording.differentiable)
    mine = first + sum(map(len, recording.stages[:number]))
    tangents = every[mine : mine + len(recording.stages[number])]
    earlier_results = [graph.output_node.args[0][i] for i in recording.arrivals[number]]
    gradients = gradients_by_stage(recording)[number]
    made = Graph()
    copies: dict[Node, Node] = {}
    for node in (*earlier_results, *every[:first], *tangents):
        copies[node] = made.placeholder(node.name, node.val)
    needed = needed_for([g for g in gradients if isinstance(g, Node)], copies.keys())
    for node in graph.nodes:
        if node in needed and node not in copies:
            copies[node] = made.node_copy(node, copies.__getitem__)
    made.output(map_nodes(tuple(gradients), copies.__getitem__))
    return made


def graphed_forward(
    program: Callable[..., Any], graph: Graph, recording: Recording, examples: Sequence[Any]
) -> GraphedProgram:
    """Return forward as CUDA graphs, which read parameters and held tensors in place."""
    count = recording.arguments + len(recording.held)
    in_place_indices = [
        i for i in range(count) if i >= recording.arguments or isinstance(examples[i], Parameter)
    ]
    return GraphedProgram(program, graph, lambda: in_place_indices, recording.results)


def graphed_backward(
    program: Callable[..., Any], stage: BackwardGraph, forward: GraphedProgram
) -> GraphedProgram:
    """Return backward as CUDA graphs, which read in place the tensors that forward reads in place, and saved values."""

    def in_place_indices() -> list[int]:
        input_indices = [i for i, index in enumerate(stage.saved_inputs) if index in forward.aliased]
        return [*input_indices, *saved]

    saved = range(len(stage.saved_inputs), len(stage.saved_inputs) + len(stage.saved))
    return GraphedProgram(program, stage.graph, in_place_indices, after=forward, saved=saved)
