"""A compiled function: its graphs by the look of the arguments, and the function itself for what no graph serves."""

from __future__ import annotations

import functools
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter, itemgetter
from typing import Any

from ..dispatch.autograd.function import Function
from ..dispatch.core.dispatcher import Dispatcher
from ..dispatch.generated import functions as ops
from ..dispatch.layers.autocast.state import state as autocast
from ..dispatch.layers.graph.graph import Graph, Node
from ..dispatch.layers.pytree import tree_flatten, tree_unflatten
from ..dispatch.tensor import Tensor, blank_tensor
from ..nn.modules.parameter import Parameter
from ..runtime import determinism
from ..runtime.determinism import are_deterministic_algorithms_enabled
from ..runtime.device import get_default_device
from ..runtime.grad_mode import (
    grad_disabled,
    inference_enabled,
    is_grad_enabled,
    is_inference_mode_enabled,
    set_grad_enabled,
)
from ..runtime.local_dispatch_key_set import local, modes
from ..runtime.scalar_type import _default as default_dtype
from ..runtime.scalar_type import get_default_dtype
from ..runtime.storage import root_of
from ..runtime.tensor_impl import TensorImpl
from ..runtime.traceback_filter import hide_inner_frames
from .backends import Backend, compile_graph, interpreted
from .capture.recording import Recording, record
from .capture.unsupported import Unsupported, is_own
from .debug_files import write_debug_files
from .schedule import Schedule
from .stances import state as stance
from .training import needed_for, split

LIMIT = 8
"""Graphs of one function, after which calls that none serves run eagerly (`torch._dynamo.config.recompile_limit`)."""
ATTEMPTS = 3
"""How often a call that could not be captured is tried: what a first call sets up does not change in the next."""
PLAIN = frozenset({Tensor, Parameter})
SPEC = attrgetter("_spec")
FIRST = itemgetter(0)

every: weakref.WeakSet[OptimizedFunction] = weakref.WeakSet()
"""All compiled functions, for `reset`."""
_counting = threading.local()


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
    """

    recording: Recording
    schedules: tuple[Schedule | None, ...]
    run: Callable[[Sequence[Any]], Sequence[Any]]
    hold: Callable[[], tuple[Any, ...] | None]
    written: tuple[int, ...]
    finish: Callable[[Sequence[Any]], Any]

    @staticmethod
    def of(
        recording: Recording,
        schedules: tuple[Schedule | None, ...],
        run: Callable[[Sequence[Any]], Sequence[Any]],
    ) -> Compilation:
        """What serves calls by a recording."""
        structure = recording.structure
        finish: Callable[[Sequence[Any]], Any] = lambda leaves: tree_unflatten(list(leaves), structure)  # noqa: E731
        if structure.is_leaf():
            finish = FIRST
        elif structure == tree_flatten((0,) * recording.results)[1]:
            finish = tuple
        return Compilation(recording, schedules, run, recording.guards.hold, recording.written, finish)


@dataclass
class Attempt:
    """A call that could not be captured: why, and how often it was tried."""

    reason: Unsupported
    count: int = 1


class OptimizedFunction:
    """A function that runs as a graph wherever one serves the call, and otherwise as it is.

    Args:
        function: what is compiled.
        backend: a built-in one's name, or a function.
        fullgraph: raise `Unsupported` for a call that cannot be captured.
        limit: the most graphs; None for `LIMIT`.
    """

    def __init__(
        self, function: Callable[..., Any], backend: str | Backend, fullgraph: bool, limit: int | None = None
    ) -> None:
        self.function = function
        self.backend = backend
        self.fullgraph = fullgraph
        self.own_limit = limit
        self.name = getattr(function, "__name__", type(function).__name__)
        self._lock = threading.RLock()
        self.forget()
        every.add(self)

    def forget(self) -> None:
        """Drop all graphs."""
        self.compilations: dict[Any, list[Compilation]] = {}
        self.quick: dict[Any, list[Compilation]] = {}
        self.failures: dict[Any, Attempt] = {}
        self.count = 0
        self.recompilations: list[str] = []
        self._is_told = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run a graph, captured now if there is none for such arguments, or the function."""
        if not kwargs and not modes and not inference_enabled:
            # Tensors alone, in a thread without modes, as in most calls: they are not walked through.
            try:
                key = (not grad_disabled or is_grad_enabled(), default_dtype[0], *map(SPEC, args))
                known = self.quick.get(key) if len(args) == 1 or len({*map(id, args)}) == len(args) else None
            except AttributeError:
                known = None
            if known is not None and stance.stance == "default":
                for each in known:
                    held = each.hold()
                    if held is not None and not each.written:
                        try: return each.finish(each.run((*args, *held)))  # fmt: skip
                        except BaseException:
                            hide_inner_frames()
                            raise
        return self._call(args, kwargs)

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self.backend == "eager" or stance.stance == "force_eager" or not_for_graphs():
            return self.function(*args, **kwargs)
        try:
            leaves, spec = tree_flatten((args, kwargs))
            tensors, key = signature(leaves, spec)
            if tensors is None:
                return self.function(*args, **kwargs)
            for each in self.compilations.get(key, ()):
                held = each.hold()
                if held is not None:
                    inputs = [*tensors, *held]
                    if not each.written or not overlapping(inputs, each.written):
                        return each.finish(each.run(inputs))
                    return self.function(*args, **kwargs)
            return self._miss(args, kwargs, leaves, spec, tensors, key)
        except BaseException:
            hide_inner_frames()
            raise

    def _miss(self, args: Any, kwargs: Any, leaves: Any, spec: Any, tensors: Any, key: Any) -> Any:
        failed = self.failures.get(key)
        if failed is not None and failed.count >= ATTEMPTS:
            return self.function(*args, **kwargs)
        if self._may_compile(key):
            with self._lock:
                made = self._capture(leaves, spec, tensors, key)
            if made is not None:
                return self(*args, **kwargs)
        return self.function(*args, **kwargs)

    def _may_compile(self, key: Any) -> bool:
        if self.count and stance.stance == "fail_on_recompile":
            raise RuntimeError(f"{self.name}: {self._why(key)}, and the stance is 'fail_on_recompile'")
        if self.count and stance.stance == "eager_on_recompile":
            return False
        if self.count >= (LIMIT if self.own_limit is None else self.own_limit):
            if not self._is_told:
                self._is_told = True
                warnings.warn(
                    f"compile: {self.name} has {self.count} graphs, which is recompile_limit; calls that none of them "
                    f"serves run eagerly. The last one was made because {self._why(key)}",
                    stacklevel=levels_to_the_user(),
                )
            return False
        return True

    def _why(self, key: Any) -> str:
        """Why a call needs another graph."""
        known = self.compilations.get(key)
        if not known:
            return "arguments of another look came"
        return known[-1].recording.guards.broken() or "its inputs share memory"

    def _capture(self, leaves: Any, spec: Any, tensors: Any, key: Any) -> Compilation | None:
        if self.count:
            self.recompilations.append(self._why(key))
        try:
            made = compiled(record(self.function, leaves, spec), stance.backend or self.backend, tensors)
        except Unsupported as error:
            failed = self.failures.get(key)
            if failed is None:
                self.failures[key] = Attempt(error)
            else:
                failed.reason, failed.count = error, failed.count + 1
            if self.fullgraph:
                raise Unsupported(f"{self.name} cannot be captured: {error.reason}", error.place) from error
            return None
        self.failures.pop(key, None)
        write_debug_files(self.name, self.count, made.recording, made.schedules)
        same_look = self.compilations.setdefault(key, [])
        same_look.insert(0, made)
        if is_plain_call(leaves, spec, tensors):
            self.quick[(is_grad_enabled(), get_default_dtype(), *map(SPEC, leaves))] = same_look
        self.count += 1
        return made


def is_plain_call(leaves: Sequence[Any], spec: Any, tensors: Sequence[Any]) -> bool:
    """Whether a call is of tensors alone, none of them twice or with a history, in a thread without modes."""
    if modes or is_inference_mode_enabled() or get_default_device().type != "cpu":
        return False
    if len(tensors) != len(leaves) or spec != tree_flatten((tuple(leaves), {}))[1]:
        return False
    return len({id(t) for t in tensors}) == len(tensors) and not any(t._spec.requires_grad for t in tensors)


def levels_to_the_user() -> int:
    """The `stacklevel` of a warning that its caller gives, such that it names the user's line."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and is_own(frame.f_code.co_filename):
        frame, level = frame.f_back, level + 1
    return level


def not_for_graphs() -> bool:
    """Whether this thread's operators go through keys that a graph passes by: modes, tracers, vmap, the profiler."""
    return bool(modes) and bool(local.included or local.excluded)


def signature(leaves: Sequence[Any], spec: Any) -> tuple[list[Any] | None, Any]:
    """The tensors among the leaves, and the key of calls that look like this one; None for subclasses of tensors."""
    tensors = []
    looks: list[Any] = [spec, is_grad_enabled(), is_inference_mode_enabled(), get_default_dtype()]
    if modes:
        looks.append((local.autocast, tuple(autocast.dtypes.values()), autocast.cache_enabled))
    if get_default_device().type != "cpu":
        looks.append(get_default_device())
    looks.append(are_deterministic_algorithms_enabled())
    for leaf in leaves:
        kind = leaf.__class__
        if kind in PLAIN:
            tensors.append(leaf)
            looks.append(leaf._spec)
            if leaf._spec.requires_grad:
                looks.append((leaf.is_leaf, leaf.grad is not None if leaf.is_leaf else None))
        elif isinstance(leaf, TensorImpl):
            return None, None
        elif kind is float:
            looks.append(leaf.hex())
        elif kind in HASHED:
            looks.append((kind, leaf))
        else:
            # An object is known by its identity; the key holds it, so that no other one takes its place.
            looks.append(Identity(leaf))
    if len({id(t) for t in tensors}) < len(tensors):
        first: dict[int, int] = {}
        looks.append(tuple([first.setdefault(id(t), i) for i, t in enumerate(tensors)]))
    return tensors, tuple(looks)


HASHED = frozenset({bool, int, complex, str, bytes, type(None)})


class Identity:
    """An object as a part of a key: equal to itself alone. It is held weakly where that can be."""

    __slots__ = ("_hash", "_reference")

    def __init__(self, value: Any) -> None:
        self._hash = id(value)
        try:
            self._reference: Callable[[], Any] = weakref.ref(value)
        except TypeError:
            self._reference = lambda: value

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Identity):
            return False
        value = self._reference()
        return value is not None and value is other._reference()


def overlapping(inputs: Sequence[Any], written: Sequence[int]) -> bool:
    """Whether a tensor that is written to shares memory with another input."""
    roots = [id(root_of(tensor._data)) for tensor in inputs]
    return any(roots.count(roots[i]) > 1 for i in written)


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


def compiled(recording: Recording, backend: str | Backend, tensors: Sequence[Any]) -> Compilation:
    """A recording ready to run."""
    held = recording.guards.hold()
    examples = [*tensors, *(held or ())]
    if recording.gradients is None:
        return _without_gradients(recording, backend, examples)
    return _with_gradients(recording, backend, examples)


def _passed_through(graph: Graph) -> dict[int, int]:
    """Which results are inputs as they are."""
    places = {node: i for i, node in enumerate(graph.find_nodes(op="placeholder"))}
    results = graph.output_node.args[0]
    return {i: places[r] for i, r in enumerate(results) if isinstance(r, Node) and r in places}


def given_back(inputs: Sequence[Any], source: int, is_identical: bool) -> Any:
    """An input as a result: itself, or where the program detached it, another tensor over its memory."""
    tensor = inputs[source]
    return tensor if is_identical else tensor.detach()


def _without_gradients(recording: Recording, backend: str | Backend, examples: Sequence[Any]) -> Compilation:
    graph = recording.graph
    program, schedule = compile_graph(graph, backend, examples)
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
        return Compilation.of(recording, (schedule,), quick)

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

    return Compilation.of(recording, (schedule,), run)


def as_inference_results(results: Sequence[Any], inputs: Sequence[Any]) -> Sequence[Any]:
    """Results as inference tensors, but for inputs and views of them."""
    roots = {id(root_of(t._data)) for t in inputs}
    for tensor in results:
        if isinstance(tensor, TensorImpl) and id(root_of(tensor._data)) not in roots:
            tensor._spec = tensor._spec.replace(is_inference=True)
            tensor._version_cell = None
    return results


def _with_gradients(recording: Recording, backend: str | Backend, examples: Sequence[Any]) -> Compilation:
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
    forward, forward_schedule = compile_graph(parts.forward, backend, examples)
    backward, backward_schedule = compile_graph(parts.backward, backend, ())
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

    class Compiled(Function):
        """One call of the graph, as autograd sees it."""

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
            else:
                made = backward(*map(bare, saved), *map(laid_out, coming, tangent_specs))
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

    return Compilation.of(recording, (forward_schedule, backward_schedule), run)


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


def forget_all() -> None:
    """Drop every graph of every compiled function."""
    for each in list(every):
        each.forget()


Dispatcher.singleton().on_change.append(forget_all)
determinism.on_change.append(forget_all)
