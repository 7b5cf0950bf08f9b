"""A function as a graph: run once on fake tensors, without writes, and with its derivative where one is wanted."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any

from ...dispatch.autograd.gradients import grad as gradients
from ...dispatch.generated import functions as ops
from ...dispatch.layers.autocast.state import state as autocast
from ...dispatch.layers.functionalization.functionalize import call_functionalized
from ...dispatch.layers.functionalization.layer import Layer
from ...dispatch.layers.graph.graph import Graph, Node
from ...dispatch.layers.graph.make_graph import innermost_tracer, make_graph
from ...dispatch.layers.pytree import TreeSpec, tree_flatten, tree_unflatten
from ...dispatch.tensor import Tensor
from ...runtime.determinism import are_deterministic_algorithms_enabled
from ...runtime.device import get_default_device
from ...runtime.grad_mode import is_grad_enabled, is_inference_mode_enabled, set_grad_enabled
from ...runtime.local_dispatch_key_set import local
from ...runtime.memory_format import contiguous_strides
from ...runtime.scalar_type import get_default_dtype
from ...runtime.tensor_impl import TensorImpl
from .frames import Frames
from .guards import Guards
from .reachable import Location, walk_after, walk_before
from .side_effects import refuse_side_effects, refusing_effects
from .unsupported import Unsupported, place_of


class _Capturing(threading.local):
    depth = 0
    exports = 0
    codes: frozenset[CodeType] = frozenset()


capturing = _Capturing()
"""How many functions this thread is capturing, how many of them for `tt.export`, and the code that the last one ran."""


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
        identical: the leaves that are inputs as they are.
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
    identical: frozenset[int]
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
    with _one_at_a_time:
        try:
            return _recorded(function, leaves, spec, None)
        except UnknownTensor:
            # Again, with a look at the tensors that there are: those that the function makes of numbers are constants.
            there = {id(each) for each in gc.get_objects() if isinstance(each, TensorImpl)}
            return _recorded(function, leaves, spec, there)


_one_at_a_time = threading.RLock()
"""What a capture puts in the place of `print` and its kin is taken away by it, and not by another thread's."""


class UnknownTensor(Unsupported):
    """A tensor that the function uses, and whose place in the program is not found."""


def _recorded(
    function: Callable[..., Any], leaves: Sequence[Any], spec: TreeSpec, there: set[int] | None
) -> Recording:
    others = [leaf for leaf in leaves if not isinstance(leaf, TensorImpl)]
    before = walk_before(function, others)
    frames = Frames()
    body = _Body(function, leaves, spec)
    tensors: list[Any] = [leaf for leaf in leaves if isinstance(leaf, TensorImpl)]
    modes_before = modes_of_thread()
    capturing.depth += 1
    try:
        try:
            with refusing_effects(before.tensors) as refusals, frames.observed():
                traced = make_graph(body, "fake")(*tensors)
        finally:
            capturing.depth -= 1
            set_grad_enabled(modes_before[0])
            refuse_side_effects(before)
        if refusals.first is not None:
            raise refusals.first
    except Unsupported as error:
        raise type(error)(error.reason, error.place or place_of(error.__traceback__)) from None
    except Exception as error:
        # Whatever it is, the function runs eagerly and raises it again if it is its own; `explain` says it.
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise Unsupported(f"{type(error).__name__}: {reason}", place_of(error.__traceback__)) from error
    capturing.codes = frozenset(frames.codes)
    walk = walk_after(function, others, frames, before)
    reads_grad = any("grad" in code.co_names for code in frames.codes)
    if reads_grad and any(t.grad is not None for t in tensors if t.is_leaf):
        raise Unsupported("the function reads or sets `grad`, and an argument has one")
    graph = traced.graph
    results = len(body.structure_leaves)
    held = _lift(graph, walk.tensors, there)
    _make_inputs(graph, body.tangents)
    inputs = graph.find_nodes(op="placeholder")
    written = _written_inputs(graph, inputs)
    _give_back(graph, {i: inputs[place] for i, place in body.given.items() if place not in written})
    return Recording(
        graph,
        len(tensors),
        tuple(location for location, _ in held),
        results,
        body.structure,
        Guards(walk.places, [(location, tensor._spec) for location, tensor in held]),
        written,
        tuple(body.differentiable),
        _gradient_inputs(body, len(tensors), held) if body.differentiable else None,
        frozenset(body.identical),
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
        self.identical: set[int] = set()
        self.given: dict[int, int] = {}
        self.wanted_arguments: list[int] = []
        self.wanted_held: list[Any] = []
        self.__name__ = getattr(function, "__name__", "function")

    def __call__(self, *tensors: Any) -> Any:
        return call_functionalized(Layer(False, adopts=True), self._run, tensors, {})

    def _run(self, *handles: Any) -> Any:
        given = iter(handles)
        same: dict[int, Any] = {}
        filled: list[Any] = []
        for leaf in self.leaves:
            if not isinstance(leaf, TensorImpl):
                filled.append(leaf)
                continue
            handle = next(given)
            if handle._spec.requires_grad and not leaf.is_leaf:  # type: ignore[attr-defined]
                # A stand-in is a leaf; what stands for one that is none is made by an operator.
                handle = ops.alias(handle)
            # One tensor that is given twice is one object.
            filled.append(same.setdefault(id(leaf), handle))
        args, kwargs = tree_unflatten(filled, self.spec)
        looks = [(handle._spec.requires_grad, handle._data) for handle in handles]
        before = modes_of_thread()
        result = self.function(*args, **kwargs)
        if modes_of_thread() != before:
            raise Unsupported("the function leaves a mode switched: gradients, autocast, dtypes or devices")
        _refuse_changes(filled, self.spec, args, kwargs)
        for handle, look in zip(handles, looks, strict=True):
            if (handle._spec.requires_grad, handle._data) != look or vars(handle):
                raise Unsupported("the function sets an attribute of an argument")
            if handle._autograd is not None and handle._autograd.grad is not None:
                raise Unsupported("the function sets the gradient of an argument; call backward() outside")
        found, self.structure = tree_flatten(result)
        self.structure_leaves = found
        for leaf in found:
            if not isinstance(leaf, TensorImpl | int | float | complex | str | None):
                raise Unsupported(f"the result holds a {type(leaf).__name__}")
            if isinstance(leaf, TensorImpl) and leaf._spec.is_inference and not is_inference_mode_enabled():
                raise Unsupported("the function enters inference_mode; enter it outside")
        tracer: Any = innermost_tracer()
        if tracer.has_refused:
            raise Unsupported("the function reads a tensor's value")
        self.identical = _identities(found, handles)
        places = {id(handle): i for i, handle in enumerate(handles)}
        self.given = {i: places[id(leaf)] for i, leaf in enumerate(found) if id(leaf) in places}
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
        self.wanted_held_set = Identities(self.wanted_held)
        wanted = [*(handles[i] for i in self.wanted_arguments), *self.wanted_held]
        for tensor in wanted:
            edge = None if tensor._autograd is None else tensor._autograd.edge
            if edge is not None and edge[0].hooks is not None and tensor in self.wanted_held_set:
                raise Unsupported("a tensor that the function holds has hooks")
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


class Identities:
    """A set of objects by identity."""

    def __init__(self, values: Sequence[Any]) -> None:
        self._ids = {id(value) for value in values}

    def __contains__(self, value: object) -> bool:
        return id(value) in self._ids


def _refuse_changes(leaves: Sequence[Any], spec: TreeSpec, args: Any, kwargs: Any) -> None:
    """Raise Unsupported if a list or dict among the arguments has other elements than before."""
    now, structure = tree_flatten((args, kwargs))
    if structure != spec or any(a is not b for a, b in zip(now, leaves, strict=True)):
        raise Unsupported("the function changes a list or dict that is an argument")


def _identities(results: Sequence[Any], handles: Sequence[Any]) -> set[int]:
    """The results that are arguments, or tensors that the function holds, as they are."""
    given = Identities(handles)
    return {
        i
        for i, leaf in enumerate(results)
        if isinstance(leaf, TensorImpl) and (leaf in given or getattr(leaf._data, "storage", None) is None)
    }


def modes_of_thread() -> tuple[Any, ...]:
    """What a function may switch for its thread."""
    casts = (local.autocast, tuple(autocast.dtypes.values()), autocast.cache_enabled)
    default = get_default_dtype(), get_default_device(), are_deterministic_algorithms_enabled()
    return (is_grad_enabled(), is_inference_mode_enabled(), casts, *default)


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


def _lift(
    graph: Graph, found: dict[int, tuple[Any, Location]], there: set[int] | None
) -> list[tuple[Location, Any]]:
    """Make inputs of the graph's constants, in the order of their first use. Returns where they are held.

    Those that were not there before the function ran are literals of its code.
    """
    held: list[tuple[Location, Any]] = []
    made: dict[int, Node] = {}
    for value in graph.constants.values():
        if not isinstance(value, Tensor):
            raise Unsupported(f"the function uses a {type(value).__name__}")
    for node in graph.find_nodes(op="get_attr"):
        tensor = graph.constants[node.target]
        if id(tensor) not in made:
            if id(tensor) in found:
                location = found[id(tensor)][1]
            elif there is not None and id(tensor) not in there and not tensor._spec.requires_grad:
                location = Location("literal", tensor, None, "a tensor made of numbers")
            else:
                raise UnknownTensor(
                    f"the function uses a tensor {list(tensor.shape)} whose place in the program is not found; make it "
                    "an argument, an attribute or a global"
                )
            held.append((location, tensor))
            made[id(tensor)] = _placeholder(graph, f"held_{len(held) - 1}", node.val)
        node.replace_all_uses_with(made[id(tensor)])
        graph.erase_node(node)
    graph.constants.clear()
    return held


def _placeholder(graph: Graph, name: str, val: Any) -> Node:
    last = graph.find_nodes(op="placeholder")
    with graph.inserting_after(last[-1]) if last else graph.inserting_before(None):
        return graph.placeholder(name, val)


def _give_back(graph: Graph, inputs: dict[int, Node]) -> None:
    """Have results be these inputs: a view in the input's own geometry looks like the input."""
    results = list(graph.output_node.args[0])
    for place, node in inputs.items():
        results[place] = node
    graph.output_node.args = (tuple(results),)


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
