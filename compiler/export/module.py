"""`ExportedModule`: an exported program as a module that is called as the original was."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ...dispatch.core.dispatcher import Dispatcher
from ...dispatch.core.tensor_function import plain_classes
from ...dispatch.layers.pytree import TreeSpec, tree_unflatten
from ...nn.modules.module import Module
from ...nn.modules.parameter import Buffer, Parameter
from ...runtime.determinism import are_deterministic_algorithms_enabled
from ...runtime.grad_mode import is_grad_enabled, is_inference_mode_enabled
from ...runtime.tensor_impl import TensorImpl
from ...runtime.tensor_spec import TensorSpec
from ...runtime.traceback_filter import hide_inner_frames
from ..compilation import FIRST
from ..optimized import not_for_graphs
from .differentiability import ARGUMENTS, differentiable
from .execution import Run, runnable
from .signature import OutputKind

if TYPE_CHECKING:
    from .program import ExportedProgram

COMPARED = ("sizes", "strides", "dtype", "device", "layout")
"""Spec attributes in which a tensor must equal the exported one."""
MAX_RUNS = 64
"""The most compiled graphs that a module keeps: one for each combination of unchecked metadata."""
SHOWN = {"sizes": "shape"}


every: weakref.WeakSet[ExportedModule] = weakref.WeakSet()
"""All exported modules, which forget their compiled graphs when kernels are registered."""


class ExportedModule(Module):
    """Result of `ExportedProgram.module`.

    It has the parameters and buffers of the program under their names: a call uses the current ones. They may be
    replaced by others of the same shape, strides, dtype and device.
    """

    def __init__(self, program: ExportedProgram) -> None:
        super().__init__()
        self.training = False
        signature = program.graph_signature
        transient = set(signature.non_persistent_buffers)
        for name, tensor in {**program.state_dict, **program.constants}.items():
            owner, leaf = self._owner(name)
            if isinstance(tensor, Parameter):
                owner.register_parameter(leaf, tensor)
            elif name in signature.lifted_tensor_constants:
                setattr(owner, leaf, tensor)
            else:
                owner.register_buffer(leaf, tensor, persistent=name not in transient)
        state = vars(self)
        state["_program"] = program
        state["_held"] = [
            (*self._place(spec.target), spec.target)
            for spec in signature.input_specs
            if spec.target is not None
        ]
        state["_runs"] = {}
        every.add(self)
        state["_finish"] = _finisher(program._out_spec)
        state["_mutations"] = sum(s.kind is not OutputKind.USER_OUTPUT for s in signature.output_specs)

    def _owner(self, name: str) -> tuple[Module, str]:
        """Return the submodule that has a tensor of this dotted name, created if missing, and the name's last part."""
        *path, leaf = name.split(".")
        owner: Module = self
        for part in path:
            inner = owner._modules.get(part)
            if inner is None:
                inner = Module()
                inner.training = False
                owner.add_module(part, inner)
            owner = inner
        return owner, leaf

    def _place(self, name: str) -> tuple[dict[str, Any], str]:
        """Return the dict that has a tensor of this dotted name, and its key there."""
        owner, leaf = self._owner(name)
        return next(holder for holder in _holders(owner) if leaf in holder), leaf

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program.

        Raises:
            TypeError: the arguments have another structure, or a tensor is missing.
            ValueError: an argument that is no tensor has another value.
            RuntimeError: a tensor has another shape, strides, dtype or device, or requires grad where gradients are on
                and the program has none; or one that the program writes to shares memory with another.
        """
        try:
            return self._run(args, kwargs)
        except BaseException:
            hide_inner_frames()
            raise

    def _run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        program: ExportedProgram = self._program
        leaves = program._leaves_of(args, kwargs)
        may_need_gradients = not is_grad_enabled() or ARGUMENTS in program.differentiable_inputs
        results = self.run_leaves(program._checked(leaves, may_need_gradients))
        return self._finish(results)

    def run_leaves(self, tensors: Sequence[Any]) -> Sequence[Any]:
        """Run a call with these tensors among the leaves of its arguments, and return the leaves of its result."""
        program: ExportedProgram = self._program
        try:
            inputs = [holder[leaf] for holder, leaf, _ in self._held]
        except KeyError:
            self.__dict__["_held"] = [(*self._place(name), name) for _, _, name in self._held]
            inputs = [holder[leaf] for holder, leaf, _ in self._held]
        inputs += tensors
        traced = not_for_graphs()
        key = (
            tuple([each._spec for each in inputs]),
            is_grad_enabled(),
            is_inference_mode_enabled(),
            are_deterministic_algorithms_enabled(),
            traced,
        )
        run: Run | None = self._runs.get(key)
        if run is None:
            self._check_held(inputs[: len(self._held)])
            if len(self._runs) >= MAX_RUNS:
                self._runs.clear()
            graph, identical = program._graph_for(tensors), program._identical
            wants_gradients = is_grad_enabled() and any(t._spec.requires_grad for t in inputs)
            if wants_gradients and program.differentiable_inputs:
                run = differentiable(graph, self._mutations, identical, traced)
            else:
                run = runnable(graph, self._mutations, identical, inputs, traced)
            self._runs[key] = run
        program._check_memory(inputs)
        return run(inputs)

    def _check_held(self, held: list[Any]) -> None:
        """Raise RuntimeError for a parameter or buffer that another one of a different look has replaced."""
        expected = self._program.graph.find_nodes(op="placeholder")
        for node, tensor, (_, _, name) in zip(expected[: len(held)], held, self._held, strict=True):
            check_tensor(f"'{name}'", tensor, node.val)

    def train(self, mode: bool = True) -> ExportedModule:
        """Raise NotImplementedError, as PyTorch does: the mode is fixed in the graph."""
        raise NotImplementedError(
            "Calling train() is not supported: the mode of the module is fixed in the graph"
        )

    def eval(self) -> ExportedModule:
        """Raise NotImplementedError, as PyTorch does: the mode is fixed in the graph."""
        raise NotImplementedError(
            "Calling eval() is not supported: the mode of the module is fixed in the graph"
        )

    def extra_repr(self) -> str:
        """Return the graph's text."""
        return str(self._program.graph)


def _holders(owner: Module) -> tuple[dict[str, Any], ...]:
    """Return the dicts in which a module keeps tensors."""
    state = vars(owner)
    return state["_parameters"], state["_buffers"], state


def _finisher(spec: TreeSpec) -> Callable[[Sequence[Any]], Any]:
    """Return a function from the leaves of a result to the result."""
    if spec.is_leaf():
        return FIRST
    if spec.type is tuple and all(child.is_leaf() for child in spec.children()):
        return tuple
    return lambda leaves: tree_unflatten(list(leaves), spec)


def check_tensor(subject: str, tensor: object, expected: TensorSpec) -> None:
    """Raise TypeError or RuntimeError unless a value is a tensor that looks as expected."""
    if not isinstance(tensor, TensorImpl):
        raise TypeError(f"{subject}: expected a Tensor, got {type(tensor).__name__}")
    if type(tensor) not in plain_classes and type(tensor) not in (Parameter, Buffer):
        raise TypeError(f"{subject}: expected a plain Tensor, got the subclass {type(tensor).__name__}")
    spec = tensor._spec
    for attribute in COMPARED:
        want, have = getattr(expected, attribute), getattr(spec, attribute)
        if want != have and not (attribute == "strides" and not expected.numel):
            shown = SHOWN.get(attribute, attribute)
            hint = "; contiguous() gives such" if attribute == "strides" and expected.is_contiguous else ""
            raise RuntimeError(f"{subject}: expected {shown} {_plain(want)}, got {_plain(have)}{hint}")


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _forget_runs() -> None:
    for each in list(every):
        each._runs.clear()


Dispatcher.singleton().on_change.append(_forget_runs)
