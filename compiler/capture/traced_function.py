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
        self.grad_arguments: list[int] = []
        self.grad_held: list[Any] = []
        self.elements: list[int] = []
        self.objects: dict[int, Any] = {}
        self.is_known = before.has_seen
        self.call_arguments: tuple[Any, ...] | None = None
        self.input_tensors: tuple[Any, ...] = ()
        self.uncounted: list[Any] = []
        self.looks: list[tuple[Any, bool, Any]] = []
        self.__name__ = getattr(function, "__name__", "function")

    def __call__(self, *tensors: Any) -> Any:
        self.input_tensors, layer = tensors, _CaptureLayer(False, adopts=True)

        def run(*handles: Any) -> Any:
            results = self._run(*handles)
            self.uncounted = layer.uncounted_writes()
            return results

        with handles_of_data(layer):
            outputs = call_functionalized(layer, run, tensors, {})
        layer.restore_versions()
        return outputs

    def _run(self, *handles: Any) -> Any:
        next_handles = iter(handles)
        handle_of: dict[int, Any] = {}
        aliased: dict[int, tuple[Any, Any]] = {}
        arguments: list[Any] = []
        for leaf in self.leaves:
            if not isinstance(leaf, TensorImpl):
                arguments.append(leaf)
                continue
            handle = next(next_handles)
            if handle._spec.requires_grad and not cast(Tensor, leaf).is_leaf:
                # A stand-in is a leaf; for a tensor that is not a leaf, an operator makes it.
                alias = ops.alias(handle)
                aliased[id(alias)] = alias, handle
                handle = alias
            # One tensor that is given twice is one object.
            arguments.append(handle_of.setdefault(id(leaf), handle))
        args, kwargs = tree_unflatten(arguments, self.spec)
        self.call_arguments = (handles, arguments, args, kwargs)
        # Stand-ins of arguments with history are checked, too.
        self.looks = [
            (t, t._spec.requires_grad, t._data) for t in (*handles, *(alias for alias, _ in aliased.values()))
        ]
        before = modes_of_thread()
        result = self.function(*args, **kwargs)
        if modes_of_thread() != before:
            raise Unsupported("the function leaves a mode switched: gradients, autocast, dtypes or devices")
        self._refuse_changes()
        results, self.structure = tree_flatten(result)
        results = [aliased[id(leaf)][1] if id(leaf) in aliased else leaf for leaf in results]
        self._take_results(result, results)
        tracer = innermost_tracer()
        assert isinstance(tracer, FakeTracer)
        if tracer.has_refused:
            raise Unsupported("the function reads a tensor's value")
        if self.adds_bases and is_grad_enabled():
            self._add_bases(results)
        self.identical = identities(results, handles)
        handle_indices = {id(handle): i for i, handle in enumerate(handles)}
        self.returned = {
            i: handle_indices[id(leaf)] for i, leaf in enumerate(results) if id(leaf) in handle_indices
        }
        self.repeated, self.bases = repeated_results(results), bases_of_views(results)
        self.versions = own_versions(results)
        for tensor, grad in tracer._grads:
            if tensor._autograd.grad is not grad:
                raise Unsupported(
                    "the function sets the gradient of a tensor that it holds; call backward() outside"
                )
        self._refuse_unrecorded_views(results)
        if not is_grad_enabled():
            alone = [(i, leaf) for i, leaf in enumerate(results) if is_alone(leaf)]
            self._refuse_made_leaves(alone, Identities([*handles, *tracer._constants]))
            return tuple(results)
        return self._with_gradients(results, handles, tracer)

    def has_refused(self) -> bool:
        """Return True if the function has changed its arguments in an unsupported way, or has read a value."""
        if self.call_arguments is None:
            return False
        try:
            self._refuse_changes()
        except Unsupported:
            return True
        tracer = innermost_tracer()
        return tracer is not None and tracer.has_refused

    def _refuse_changes(self) -> None:
        """Raise Unsupported if an argument changed: elements of a list, attributes of a tensor."""
        assert self.call_arguments is not None
        _, filled, args, kwargs = self.call_arguments
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

    def _take_results(self, result: object, results: list[Any]) -> None:
        """Keep the leaves of the result, objects apart: those are the same in each call, or the result has no graph."""
        counts = (
            [len(tree_flatten(each)[0]) for each in result] if isinstance(result, tuple) else [len(results)]
        )
        self.elements = [i for i, count in enumerate(counts) for _ in range(count)]
        assert self.call_arguments is not None
        known = {id(each) for each in containers_in(self.call_arguments[2:])}
        for i, each in enumerate(result if isinstance(result, tuple) else (result,)):
            for container in containers_in(each):
                if id(container) in known or self.is_known(container):
                    kind = type(container).__name__
                    raise Unsupported(f"the result holds a {kind} that is not made anew", element=i)
                known.add(id(container))
        arguments = Identities(self.call_arguments[1])
        for i, leaf in enumerate(results):
            if isinstance(leaf, TensorImpl):
                if leaf._spec.is_inference and not is_inference_mode_enabled():
                    raise Unsupported("the function enters inference_mode; enter it outside")
                if has_hooks(leaf) or (vars(leaf) and type(leaf) is not Parameter):
                    raise Unsupported(
                        "the function sets an attribute of a result, or registers a hook on it",
                        element=self.elements[i],
                    )
            elif isinstance(leaf, SymInt):
                results[i] = operator.index(cast(Any, leaf))
            elif not isinstance(leaf, int | float | complex | str | None):
                if leaf in arguments:
                    kind = type(leaf).__name__
                    raise Unsupported(f"the result holds an argument, a {kind}", element=self.elements[i])
                self.objects[i] = leaf
                results[i] = None
        self.structure_leaves = results

    def refuse_new_objects(self, walk: Walk) -> None:
        """Raise Unsupported if the result holds an object without a guard."""
        for i, leaf in self.objects.items():
            if not isinstance(leaf, (*NUMBERS, *CONSTANTS, *FIXED)) and not walk.has_seen(leaf):
                reason = f"the result holds a {type(leaf).__name__}"
                raise Unsupported(reason, element=self.elements[i])

    def _with_gradients(self, results: list[Any], handles: Sequence[Any], tracer: FakeTracer) -> Any:
        self.differentiable = [
            i
            for i, leaf in enumerate(results)
            if isinstance(leaf, TensorImpl) and leaf._spec.requires_grad and i not in self.repeated
        ]
        existing = Identities([*handles, *tracer._constants])
        self._refuse_made_leaves(enumerate(results), existing)
        self.aliases = views_of_inputs(results, handles)
        self.differentiable = [i for i in self.differentiable if i not in self.aliases]
        self.views = views_of_each_other(results, self.differentiable)
        self.differentiable = [i for i in self.differentiable if i not in self.views]
        self.shadows = shadows(results, self.differentiable)
        self.marks = marks_of_views(results, self.views)
        if not self.differentiable:
            return tuple(results)
        self.grad_arguments = [i for i, handle in enumerate(handles) if handle._spec.requires_grad]
        self.grad_held = [
            tensor for tensor in {id(t): t for t in tracer._constants}.values() if tensor._spec.requires_grad
        ]
        self.grad_held_set = Identities(self.grad_held)
        grad_inputs = [*(handles[i] for i in self.grad_arguments), *self.grad_held]
        for tensor in grad_inputs:
            edge = None if tensor._autograd is None else tensor._autograd.edge
            if edge is not None and edge[0].hooks is not None and tensor in self.grad_held_set:
                raise Unsupported("a tensor that the function holds has hooks")
        stages = stages_of([results[i] for i in self.differentiable])
        self.stages = [tuple([self.differentiable[i] for i in stage]) for stage in stages]
        self.differentiable = [i for stage in self.stages for i in stage]
        outputs = [results[i] for i in self.differentiable]
        self._refuse_shared_memory(results)
        tangents = []
        for o in outputs:
            strides = o.stride() if o._spec.is_dense() else contiguous_strides(o._spec.sizes)
            tangents.append(ops.empty_strided(o.shape, strides, dtype=o.dtype, device=o.device))
            # The node itself: an equal view, such as the transpose of the transpose, has another node.
            self.tangents.append(list(tracer.graph.nodes)[-1])
        grads = self._gradients_by_stages(outputs, grad_inputs, tangents)
        plain = [
            leaf.detach() if isinstance(leaf, Tensor) and leaf.requires_grad else leaf for leaf in results
        ]
        return (*plain, *grads)

    def _add_bases(self, results: list[Any]) -> None:
        """Add bases as extra results, so that results that view a common tensor with history are views of it."""
        first: dict[int, int] = {}
        bases: dict[int, Any] = {}
        shared: dict[int, bool] = {}
        for i, leaf in enumerate(results):
            storage = getattr(leaf._data, "storage", None) if isinstance(leaf, TensorImpl) else None
            if storage is None or storage.origin is not None or id(leaf) in map(id, results[:i]):
                continue
            shared[id(storage)] = id(storage) in first
            first.setdefault(id(storage), i)
            base = leaf._view_base
            if leaf._spec.requires_grad and base is not None and base._spec.requires_grad:
                bases[id(storage)] = base
        for key, base in bases.items():
            if shared[key] and not base.is_leaf and not any(base is leaf for leaf in results):
                results.append(base)
                self.elements.append(self.elements[first[key]])
                self.hidden += 1

    def _refuse_unrecorded_views(self, results: Sequence[Any]) -> None:
        for i in unrecorded_views(results):
            reason = "a result is a view, made in no_grad, of a tensor that requires grad"
            raise Unsupported(reason, element=self.elements[i])

    def _refuse_made_leaves(self, results: Iterable[tuple[int, Any]], existing: Identities) -> None:
        for i, leaf in results:
            if (
                isinstance(leaf, Tensor)
                and leaf._spec.requires_grad
                and leaf.is_leaf
                and leaf not in existing
            ):
                reason = "a result is a tensor made by the function, for which it requires gradients"
                raise Unsupported(reason, element=self.elements[i])

    def _gradients_by_stages(
        self, outputs: Sequence[Any], grad_inputs: Sequence[Any], tangents: Sequence[Any]
    ) -> list[Any]:
        """Return for each stage the gradients of the results of earlier stages, and of the inputs that require grad."""
        if len(self.stages) == 1:
            return list(gradients(outputs, grad_inputs, tangents, allow_unused=True))
        arrivals = cut_at(outputs, outputs[: len(outputs) - len(self.stages[-1])])
        self.arrivals = []
        every: list[Any] = []
        first = 0
        for stage in self.stages:
            last = first + len(stage)
            grads = gradients(
                outputs[first:last],
                [*(edge for _, edge in arrivals), *grad_inputs],
                tangents[first:last],
                retain_graph=True,
                allow_unused=True,
            )
            arriving = [
                (self.differentiable[i], grad)
                for (i, _), grad in zip(arrivals, grads[: len(arrivals)], strict=True)
                if grad is not None
            ]
            self.arrivals.append(tuple([i for i, _ in arriving]))
            every += [*(grad for _, grad in arriving), *grads[len(arrivals) :]]
            first = last
        return every

    def _refuse_shared_memory(self, results: Sequence[Any]) -> None:
        """Raise Unsupported if results share memory: one autograd node cannot return views of each other."""
        first: dict[int, Any] = {}
        for i, leaf in enumerate(results):
            if isinstance(leaf, TensorImpl) and not any(
                i in indices for indices in (self.aliases, self.views, self.shadows, self.repeated)
            ):
                storage = getattr(leaf._data, "storage", leaf)
                if first.setdefault(id(storage), leaf) is not leaf:
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
