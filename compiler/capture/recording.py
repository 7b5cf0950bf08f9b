"""A function as a graph: run once on fake tensors, without writes, and with its derivative where one is wanted."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...dispatch.autograd.gradients import grad as gradients
from ...dispatch.generated import functions as ops
from ...dispatch.layers.functionalization.functionalize import call_functionalized
from ...dispatch.layers.functionalization.layer import Layer
from ...dispatch.layers.graph.graph import Graph, Node
from ...dispatch.layers.graph.make_graph import innermost_tracer, make_graph
from ...dispatch.layers.pytree import TreeSpec, tree_flatten, tree_unflatten
from ...dispatch.tensor import Tensor
from ...runtime.grad_mode import is_grad_enabled
from ...runtime.memory_format import contiguous_strides
from ...runtime.tensor_impl import TensorImpl
from .frames import Frames
from .guards import Guards
from .reachable import Location, walk_after, walk_before
from .side_effects import refuse_side_effects, refusing_output
from .unsupported import Unsupported, place_of


class _Capturing(threading.local):
    depth = 0


capturing = _Capturing()
"""How many functions this thread is capturing."""


@dataclass(frozen=True)
class Recording:
    """What a function computes, and when.

    The graph's inputs are the tensors among the arguments, then the tensors that the function holds, then, if
    `gradients` is not None, a gradient for each of `differentiable`. Its output is the tuple of the leaves of the
    result, followed by the gradients of the inputs at `gradients`.

    Attributes:
        graph: the program, functional but for writes to inputs (``copy_``) at its end.
        arguments: how many inputs are arguments.
        held: where the function holds the other inputs.
        results: how many leaves the result has.
        structure: the result's.
        guards: the check that the graph still holds.
        written: the inputs that the graph writes to.
        differentiable: the leaves of the result that have a gradient.
        aliases: the leaves with a gradient that are, or view, an input.
        repeated: leaves of the result that are the same tensor as an earlier one, by that one's place.
        gradients: the inputs whose gradients the graph computes, None for a graph without derivative.
    """

    graph: Graph
    arguments: int
    held: tuple[Location, ...]
    results: int
    structure: TreeSpec
    guards: Guards
    written: tuple[int, ...]
    differentiable: tuple[int, ...]
    gradients: tuple[int, ...] | None
    aliases: tuple[int, ...]
    repeated: dict[int, int]


def record(function: Callable[..., Any], leaves: Sequence[Any], spec: TreeSpec) -> Recording:
    """Run a function on fakes of its arguments.

    Args:
        function: what is called.
        leaves: of its arguments, tensors and others.
        spec: the structure of ``(args, kwargs)``.

    Raises:
        Unsupported: the function does what no graph holds.
    """
    others = [leaf for leaf in leaves if not isinstance(leaf, TensorImpl)]
    before = walk_before(function, others)
    frames = Frames()
    body = _Body(function, leaves, spec)
    tensors = [leaf for leaf in leaves if isinstance(leaf, TensorImpl)]
    capturing.depth += 1
    try:
        try:
            with refusing_output(), frames.observed():
                traced = make_graph(body, "fake")(*tensors)
        finally:
            capturing.depth -= 1
            refuse_side_effects(before)
    except Unsupported as error:
        raise Unsupported(error.reason, error.place or place_of(error.__traceback__)) from None
    except Exception as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise Unsupported(f"{type(error).__name__}: {reason}", place_of(error.__traceback__)) from error
    walk = walk_after(function, others, frames, before)
    graph = traced.graph
    results = len(body.structure_leaves)
    held = _lift(graph, walk.tensors)
    _make_inputs(graph, body.tangents)
    inputs = graph.find_nodes(op="placeholder")
    return Recording(
        graph,
        len(tensors),
        tuple(location for location, _ in held),
        results,
        body.structure,
        Guards(walk.places, [(location, tensor._spec) for location, tensor in held]),
        _written_inputs(graph, inputs),
        tuple(body.differentiable),
        _gradient_inputs(body, len(tensors), held) if body.differentiable else None,
        tuple(body.aliases),
        body.repeated,
    )


class _Body:
    """The function of flat tensors that is traced: result leaves, gradients, and the gradients that come in."""

    def __init__(self, function: Callable[..., Any], leaves: Sequence[Any], spec: TreeSpec) -> None:
        self.function, self.leaves, self.spec = function, leaves, spec
        self.structure: TreeSpec
        self.structure_leaves: list[Any] = []
        self.differentiable: list[int] = []
        self.repeated: dict[int, int] = {}
        self.aliases: list[int] = []
        self.tangents: list[Node] = []
        self.wanted_arguments: list[int] = []
        self.wanted_held: list[Any] = []
        self.__name__ = getattr(function, "__name__", "function")

    def __call__(self, *tensors: Any) -> Any:
        return call_functionalized(Layer(False, adopts=True), self._run, tensors, {})

    def _run(self, *handles: Any) -> Any:
        given = iter(handles)
        filled = [next(given) if isinstance(leaf, TensorImpl) else leaf for leaf in self.leaves]
        args, kwargs = tree_unflatten(filled, self.spec)
        result = self.function(*args, **kwargs)
        found, self.structure = tree_flatten(result)
        self.structure_leaves = found
        for leaf in found:
            if not isinstance(leaf, TensorImpl | int | float | complex | str | None):
                raise Unsupported(f"the result holds a {type(leaf).__name__}")
        tracer: Any = innermost_tracer()
        for tensor, grad in tracer._grads:
            if tensor._autograd.grad is not grad:
                raise Unsupported(
                    "the function sets the gradient of a tensor that it holds; call backward() outside"
                )
        if not is_grad_enabled():
            return tuple(found)
        return self._with_gradients(found, handles, tracer)

    def _with_gradients(self, found: list[Any], handles: Sequence[Any], tracer: Any) -> Any:
        first = {id(leaf): i for i, leaf in reversed(list(enumerate(found)))}
        self.repeated = {
            i: first[id(leaf)]
            for i, leaf in enumerate(found)
            if isinstance(leaf, TensorImpl) and first[id(leaf)] != i
        }
        self.differentiable = [
            i
            for i, leaf in enumerate(found)
            if isinstance(leaf, TensorImpl) and leaf._spec.requires_grad and i not in self.repeated
        ]
        self.aliases = _aliases(found, handles)
        self.differentiable = [i for i in self.differentiable if i not in self.aliases]
        if not self.differentiable:
            return tuple(found)
        self.wanted_arguments = [i for i, handle in enumerate(handles) if handle._spec.requires_grad]
        self.wanted_held = [
            tensor for tensor in {id(t): t for t in tracer._constants}.values() if tensor._spec.requires_grad
        ]
        wanted = [*(handles[i] for i in self.wanted_arguments), *self.wanted_held]
        for tensor in wanted:
            if tensor._autograd is not None and getattr(tensor._autograd, "hooks", None):
                raise Unsupported("a tensor that requires grad has hooks")
        outputs = [found[i] for i in self.differentiable]
        _refuse_shared_memory([leaf for i, leaf in enumerate(found) if i not in self.aliases])
        tangents = []
        for o in outputs:
            strides = o.stride() if o._spec.is_dense() else contiguous_strides(o._spec.sizes)
            tangents.append(ops.empty_strided(o.shape, strides, dtype=o.dtype, device=o.device))
            # The node itself: what later looks like the tensor, such as its transpose's transpose, has another one.
            self.tangents.append(list(tracer.graph.nodes)[-1])
        grads = gradients(outputs, wanted, tangents, allow_unused=True)
        plain = [leaf.detach() if isinstance(leaf, Tensor) and leaf.requires_grad else leaf for leaf in found]
        return (*plain, *grads)


def _aliases(results: Sequence[Any], inputs: Sequence[Any]) -> list[int]:
    """The results with gradients that are, or view, a tensor that the function was given or holds.

    They are taken from that tensor anew, outside of the graph's one call of autograd's.
    """
    given = {id(handle._data.storage) for handle in inputs}
    found = []
    for i, leaf in enumerate(results):
        if not isinstance(leaf, TensorImpl) or not leaf._spec.requires_grad:
            continue
        storage = getattr(leaf._data, "storage", None)
        if storage is None or storage.origin is not None or id(storage) in given:
            if storage is not None and storage.is_written:
                raise Unsupported("a result with a gradient views a tensor that the function writes to")
            found.append(i)
    return found


def _refuse_shared_memory(results: Sequence[Any]) -> None:
    """Raise Unsupported where results share memory: one call of autograd's would have to give views of each other."""
    seen: dict[int, Any] = {}
    for leaf in results:
        if isinstance(leaf, TensorImpl):
            storage = getattr(leaf._data, "storage", leaf)
            if seen.setdefault(id(storage), leaf) is not leaf:
                raise Unsupported("two results with gradients share memory")


def _lift(graph: Graph, found: dict[int, tuple[Any, Location]]) -> list[tuple[Location, Any]]:
    """Make inputs of the graph's constants, in the order of their first use. Returns where they are held."""
    held: list[tuple[Location, Any]] = []
    made: dict[int, Node] = {}
    for node in graph.find_nodes(op="get_attr"):
        tensor = graph.constants[node.target]
        if not isinstance(tensor, Tensor):
            raise Unsupported(f"the function uses a {type(tensor).__name__} that is no argument")
        if id(tensor) not in made:
            if id(tensor) not in found:
                raise Unsupported(
                    f"the function uses a tensor {list(tensor.shape)} whose place in the program is not found; make it "
                    "an argument, an attribute or a global"
                )
            held.append((found[id(tensor)][1], tensor))
            made[id(tensor)] = _placeholder(graph, f"held_{len(held) - 1}", node.val)
        node.replace_all_uses_with(made[id(tensor)])
        graph.erase_node(node)
    graph.constants.clear()
    return held


def _placeholder(graph: Graph, name: str, val: Any) -> Node:
    last = graph.find_nodes(op="placeholder")
    with graph.inserting_after(last[-1]) if last else graph.inserting_before(None):
        return graph.placeholder(name, val)


def _make_inputs(graph: Graph, nodes: Sequence[Any]) -> None:
    """Make inputs of the nodes that stand for gradients to come."""
    for i, node in enumerate(nodes):
        made = _placeholder(graph, f"tangent_{i}", node.val)
        node.replace_all_uses_with(made)
        graph.erase_node(node)


def _written_inputs(graph: Graph, inputs: Sequence[Node]) -> tuple[int, ...]:
    """The inputs that the graph writes to. Raises Unsupported for a write to anything else, or by anything else."""
    written: list[int] = []
    for node in graph.find_nodes(op="call_function"):
        schema = getattr(node.target, "_schema", None)
        if schema is None or not schema.is_mutable:
            continue
        target = node.args[0] if node.args else None
        if node.target.name() != "aten::copy_" or target not in inputs:
            raise Unsupported(f"{node.target.name()} writes to what is no input")
        written.append(inputs.index(target))
    return tuple(written)


def _gradient_inputs(body: _Body, arguments: int, held: Sequence[tuple[Location, Any]]) -> tuple[int, ...]:
    places = {id(tensor): arguments + i for i, (_, tensor) in enumerate(held)}
    return (*body.wanted_arguments, *(places[id(tensor)] for tensor in body.wanted_held))
