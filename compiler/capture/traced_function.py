"""The function of flat tensors that is traced: it calls the program, takes its results, and adds their gradients."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

from ...dispatch.autograd.creation import Creation
from ...dispatch.autograd.gradients import grad as gradients
from ...dispatch.core.operator_entry import OperatorEntry
from ...dispatch.generated import functions as ops
from ...dispatch.layers.autocast.state import state as autocast
from ...dispatch.layers.functionalization.functionalize import call_functionalized
from ...dispatch.layers.functionalization.layer import Layer
from ...dispatch.layers.graph.fake_tensor import FakeTracer
from ...dispatch.layers.graph.graph import Node
from ...dispatch.layers.graph.make_graph import innermost_tracer
from ...dispatch.layers.python_key import active_modes
from ...dispatch.layers.pytree import TreeSpec, tree_flatten, tree_unflatten
from ...dispatch.tensor import Tensor
from ...nn.modules.parameter import Parameter
from ...runtime.determinism import are_deterministic_algorithms_enabled
from ...runtime.device import get_default_device
from ...runtime.grad_mode import is_grad_enabled, is_inference_mode_enabled
from ...runtime.local_dispatch_key_set import local
from ...runtime.memory_format import contiguous_strides
from ...runtime.scalar_type import get_default_dtype
from ...runtime.size import SymInt
from ...runtime.tensor_impl import TensorImpl
from .held_data import handles_of_data
from .objects import FIXED, Identities, containers_in, has_hooks
from .reachable import CONSTANTS, NUMBERS, Walk
from .shared_results import (
    bases_of_views,
    identities,
    is_alone,
    marks_of_views,
    own_versions,
    repeated_results,
    shadows,
    unrecorded_views,
    views_of_each_other,
    views_of_inputs,
)
from .stages import cut_at, stages_of
from .unsupported import Unsupported


class _CaptureLayer(Layer):
    """The layer of a capture: ATen's operators, which run none of the program's code, are not watched.

    A mode of the program's sees them, too, and is.
    """

    def run(self, op: OperatorEntry, values: Sequence[Any]) -> Any:
        if not op.name.startswith("aten::") or active_modes()[-1].handle_bound is None:
            return super().run(op, values)
        trace = sys.gettrace()
        try:
            sys.settrace(None)
            return super().run(op, values)
        finally:
            sys.settrace(trace)


class TracedFunction:
    """Traced function of flat tensors: its result leaves, gradients, and incoming gradients."""

    def __init__(
        self,
        function: Callable[..., Any],
        leaves: Sequence[Any],
        spec: TreeSpec,
        before: Walk,
        adds_bases: bool = True,
    ) -> None:
        self.function, self.leaves, self.spec = function, leaves, spec
        self.structure: TreeSpec
        self.structure_leaves: list[Any] = []
        self.differentiable: list[int] = []
        self.stages: list[tuple[int, ...]] = []
        self.arrivals: list[tuple[int, ...]] = [()]
        self.repeated: dict[int, int] = {}
        self.bases: dict[int, int | None] = {}
        self.versions: dict[int, int] = {}
        self.aliases: list[int] = []
        self.views: dict[int, int] = {}
        self.shadows: dict[int, int] = {}
        self.marks: dict[int, tuple[Creation, str | None]] = {}
        self.adds_bases = adds_bases
        self.hidden = 0
        self.tangents: list[Node] = []
        self.identical: set[int] = set()
        self.returned: dict[int, int] = {}
        self.wanted_arguments: list[int] = []
        self.wanted_held: list[Any] = []
        self.elements: list[int] = []
        self.objects: dict[int, Any] = {}
        self.is_known = before.has_seen
        self.given: tuple[Any, ...] | None = None
        self.given_tensors: tuple[Any, ...] = ()
        self.uncounted: list[Any] = []
        self.looks: list[tuple[Any, bool, Any]] = []
        self.__name__ = getattr(function, "__name__", "function")

    def __call__(self, *tensors: Any) -> Any:
        self.given_tensors, layer = tensors, _CaptureLayer(False, adopts=True)

        def run(*handles: Any) -> Any:
            found = self._run(*handles)
            self.uncounted = layer.uncounted_writes()
            return found

        with handles_of_data(layer):
            found = call_functionalized(layer, run, tensors, {})
        layer.restore_versions()
        return found

    def _run(self, *handles: Any) -> Any:
        given = iter(handles)
        same: dict[int, Any] = {}
        raw: dict[int, tuple[Any, Any]] = {}
        filled: list[Any] = []
        for leaf in self.leaves:
            if not isinstance(leaf, TensorImpl):
                filled.append(leaf)
                continue
            handle = next(given)
            if handle._spec.requires_grad and not cast(Tensor, leaf).is_leaf:
                # A stand-in is a leaf; for a tensor that is not a leaf, an operator makes it.
                made = ops.alias(handle)
                raw[id(made)] = made, handle
                handle = made
            # One tensor that is given twice is one object.
            filled.append(same.setdefault(id(leaf), handle))
        args, kwargs = tree_unflatten(filled, self.spec)
        self.given = (handles, filled, args, kwargs)
        # Stand-ins of arguments with history are checked, too.
        self.looks = [
            (t, t._spec.requires_grad, t._data) for t in (*handles, *(made for made, _ in raw.values()))
        ]
        before = modes_of_thread()
        result = self.function(*args, **kwargs)
        if modes_of_thread() != before:
            raise Unsupported("the function leaves a mode switched: gradients, autocast, dtypes or devices")
        self._refuse_changes()
        found, self.structure = tree_flatten(result)
        found = [raw[id(leaf)][1] if id(leaf) in raw else leaf for leaf in found]
        self._take_results(result, found)
        tracer = innermost_tracer()
        assert isinstance(tracer, FakeTracer)
        if tracer.has_refused:
            raise Unsupported("the function reads a tensor's value")
        if self.adds_bases and is_grad_enabled():
            self._add_bases(found)
        self.identical = identities(found, handles)
        places = {id(handle): i for i, handle in enumerate(handles)}
        self.returned = {i: places[id(leaf)] for i, leaf in enumerate(found) if id(leaf) in places}
        self.repeated, self.bases = repeated_results(found), bases_of_views(found)
        self.versions = own_versions(found)
        for tensor, grad in tracer._grads:
            if tensor._autograd.grad is not grad:
                raise Unsupported(
                    "the function sets the gradient of a tensor that it holds; call backward() outside"
                )
        self._refuse_unrecorded_views(found)
        if not is_grad_enabled():
            alone = [(i, leaf) for i, leaf in enumerate(found) if is_alone(leaf)]
            self._refuse_made_leaves(alone, Identities([*handles, *tracer._constants]))
            return tuple(found)
        return self._with_gradients(found, handles, tracer)

    def has_refused(self) -> bool:
        """Return True if the function has changed its arguments in an unsupported way, or has read a value."""
        if self.given is None:
            return False
        try:
            self._refuse_changes()
        except Unsupported:
            return True
        tracer = innermost_tracer()
        return tracer is not None and tracer.has_refused

    def _refuse_changes(self) -> None:
        """Raise Unsupported if an argument changed: elements of a list, attributes of a tensor."""
        assert self.given is not None
        _, filled, args, kwargs = self.given
        _refuse_changes(filled, self.spec, args, kwargs)
        for tensor, requires_grad, data in self.looks:
            if (tensor._spec.requires_grad, tensor._data) != (requires_grad, data) or vars(tensor):
                raise Unsupported("the function sets an attribute of an argument")
            if tensor._autograd is not None and tensor._autograd.grad is not None:
                raise Unsupported("the function sets the gradient of an argument; call backward() outside")
            if has_hooks(tensor):
                raise Unsupported(
                    "the function registers a hook on an argument, or has it retain its gradient"
                )

    def _take_results(self, result: Any, found: list[Any]) -> None:
        """Keep the leaves of the result, objects apart: those are the same in each call, or the result has no graph."""
        counts = (
            [len(tree_flatten(each)[0]) for each in result] if isinstance(result, tuple) else [len(found)]
        )
        self.elements = [i for i, count in enumerate(counts) for _ in range(count)]
        assert self.given is not None
        known = {id(each) for each in containers_in(self.given[2:])}
        for i, each in enumerate(result if isinstance(result, tuple) else (result,)):
            for container in containers_in(each):
                if id(container) in known or self.is_known(container):
                    kind = type(container).__name__
                    raise Unsupported(f"the result holds a {kind} that is not made anew", element=i)
                known.add(id(container))
        arguments = Identities(self.given[1])
        for i, leaf in enumerate(found):
            if isinstance(leaf, TensorImpl):
                if leaf._spec.is_inference and not is_inference_mode_enabled():
                    raise Unsupported("the function enters inference_mode; enter it outside")
                if has_hooks(leaf) or (vars(leaf) and type(leaf) is not Parameter):
                    raise Unsupported(
                        "the function sets an attribute of a result, or registers a hook on it",
                        element=self.elements[i],
                    )
            elif isinstance(leaf, SymInt):
                found[i] = operator.index(cast(Any, leaf))
            elif not isinstance(leaf, int | float | complex | str | None):
                if leaf in arguments:
                    kind = type(leaf).__name__
                    raise Unsupported(f"the result holds an argument, a {kind}", element=self.elements[i])
                self.objects[i] = leaf
                found[i] = None
        self.structure_leaves = found

    def refuse_new_objects(self, walk: Walk) -> None:
        """Raise Unsupported if the result holds an object without a guard."""
        for i, leaf in self.objects.items():
            if not isinstance(leaf, (*NUMBERS, *CONSTANTS, *FIXED)) and not walk.has_seen(leaf):
                reason = f"the result holds a {type(leaf).__name__}"
                raise Unsupported(reason, element=self.elements[i])

    def _with_gradients(self, found: list[Any], handles: Sequence[Any], tracer: FakeTracer) -> Any:
        self.differentiable = [
            i
            for i, leaf in enumerate(found)
            if isinstance(leaf, TensorImpl) and leaf._spec.requires_grad and i not in self.repeated
        ]
        given = Identities([*handles, *tracer._constants])
        self._refuse_made_leaves(enumerate(found), given)
        self.aliases = views_of_inputs(found, handles)
        self.differentiable = [i for i in self.differentiable if i not in self.aliases]
        self.views = views_of_each_other(found, self.differentiable)
        self.differentiable = [i for i in self.differentiable if i not in self.views]
        self.shadows = shadows(found, self.differentiable)
        self.marks = marks_of_views(found, self.views)
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
        stages = stages_of([found[i] for i in self.differentiable])
        self.stages = [tuple([self.differentiable[i] for i in stage]) for stage in stages]
        self.differentiable = [i for stage in self.stages for i in stage]
        outputs = [found[i] for i in self.differentiable]
        self._refuse_shared_memory(found)
        tangents = []
        for o in outputs:
            strides = o.stride() if o._spec.is_dense() else contiguous_strides(o._spec.sizes)
            tangents.append(ops.empty_strided(o.shape, strides, dtype=o.dtype, device=o.device))
            # The node itself: an equal view, such as the transpose of the transpose, has another node.
            self.tangents.append(list(tracer.graph.nodes)[-1])
        grads = self._gradients_by_stages(outputs, wanted, tangents)
        plain = [leaf.detach() if isinstance(leaf, Tensor) and leaf.requires_grad else leaf for leaf in found]
        return (*plain, *grads)

    def _add_bases(self, found: list[Any]) -> None:
        """Add bases as extra results, so that results that view a common tensor with history are views of it."""
        first: dict[int, int] = {}
        bases: dict[int, Any] = {}
        shared: dict[int, bool] = {}
        for i, leaf in enumerate(found):
            storage = getattr(leaf._data, "storage", None) if isinstance(leaf, TensorImpl) else None
            if storage is None or storage.origin is not None or id(leaf) in map(id, found[:i]):
                continue
            shared[id(storage)] = id(storage) in first
            first.setdefault(id(storage), i)
            base = leaf._view_base
            if leaf._spec.requires_grad and base is not None and base._spec.requires_grad:
                bases[id(storage)] = base
        for key, base in bases.items():
            if shared[key] and not base.is_leaf and not any(base is leaf for leaf in found):
                found.append(base)
                self.elements.append(self.elements[first[key]])
                self.hidden += 1

    def _refuse_unrecorded_views(self, found: Sequence[Any]) -> None:
        for i in unrecorded_views(found):
            reason = "a result is a view, made in no_grad, of a tensor that requires grad"
            raise Unsupported(reason, element=self.elements[i])

    def _refuse_made_leaves(self, found: Iterable[tuple[int, Any]], given: Identities) -> None:
        for i, leaf in found:
            if isinstance(leaf, Tensor) and leaf._spec.requires_grad and leaf.is_leaf and leaf not in given:
                reason = "a result is a tensor made by the function, for which it requires gradients"
                raise Unsupported(reason, element=self.elements[i])

    def _gradients_by_stages(
        self, outputs: Sequence[Any], wanted: Sequence[Any], tangents: Sequence[Any]
    ) -> list[Any]:
        """Return for each stage the gradients of the results of earlier stages, and of the wanted inputs."""
        if len(self.stages) == 1:
            return list(gradients(outputs, wanted, tangents, allow_unused=True))
        arrivals = cut_at(outputs, outputs[: len(outputs) - len(self.stages[-1])])
        self.arrivals = []
        every: list[Any] = []
        first = 0
        for stage in self.stages:
            last = first + len(stage)
            found = gradients(
                outputs[first:last],
                [*(edge for _, edge in arrivals), *wanted],
                tangents[first:last],
                retain_graph=True,
                allow_unused=True,
            )
            come = [
                (self.differentiable[i], grad)
                for (i, _), grad in zip(arrivals, found[: len(arrivals)], strict=True)
                if grad is not None
            ]
            self.arrivals.append(tuple([i for i, _ in come]))
            every += [*(grad for _, grad in come), *found[len(arrivals) :]]
            first = last
        return every

    def _refuse_shared_memory(self, results: Sequence[Any]) -> None:
        """Raise Unsupported if results share memory: one autograd node cannot return views of each other."""
        seen: dict[int, Any] = {}
        for i, leaf in enumerate(results):
            if isinstance(leaf, TensorImpl) and not any(
                i in others for others in (self.aliases, self.views, self.shadows, self.repeated)
            ):
                storage = getattr(leaf._data, "storage", leaf)
                if seen.setdefault(id(storage), leaf) is not leaf:
                    raise Unsupported("two results with gradients share memory", element=self.elements[i])


def _refuse_changes(leaves: Sequence[Any], spec: TreeSpec, args: Any, kwargs: Any) -> None:
    """Raise Unsupported if a list or dict among the arguments has other elements than before."""
    now, structure = tree_flatten((args, kwargs))
    if structure != spec or any(a is not b for a, b in zip(now, leaves, strict=True)):
        raise Unsupported("the function changes a list or dict that is an argument")


def modes_of_thread() -> tuple[Any, ...]:
    """Return the modes that a function may switch for its thread."""
    casts = (local.autocast, tuple(autocast.dtypes.values()), autocast.cache_enabled)
    default = get_default_dtype(), get_default_device(), are_deterministic_algorithms_enabled()
    return (is_grad_enabled(), is_inference_mode_enabled(), casts, *default)
