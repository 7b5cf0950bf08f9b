"""`ExportedProgram`: a graph, its signature and its tensors (torch/export/exported_program.py)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...dispatch.layers.graph.graph import Graph
from ...dispatch.layers.graph.traced import InputLeaf, Traced
from ...dispatch.layers.pytree import TreeSpec, tree_flatten, tree_structure
from ...dispatch.tensor import Tensor
from ...runtime.storage import root_of
from ...runtime.tensor_impl import TensorImpl
from .dynamic_graph import DynamicGraph
from .dynamic_shapes import ValueRange, typical_sizes
from .execution import is_write
from .module import ExportedModule, check_tensor
from .signature import ConstantArgument, ExportGraphSignature, InputKind, InputSpec


class ExportedProgram:
    """A module as a graph of operators, with its tensors (`torch.export.ExportedProgram`).

    `tt.export.export` and `tt.export.load` make it. Printing it shows the graph and the signature.

    Attributes:
        graph: The operators; functional, except for writes (``copy_``) to inputs at its end.
        graph_signature: The role of each input and output of the graph.
        state_dict: Parameters and persistent buffers by their names in the module.
        constants: Other buffers, and other tensors that the module uses.
        example_inputs: ``(args, kwargs)`` of the export; None for a loaded program.
        kernels: Kernels that came with a loaded program; launches find them while it is alive.

    Example:
        >>> import triten as tt
        >>> class Scale(tt.nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.factor = tt.nn.Parameter(tt.tensor(3.0))
        ...     def forward(self, x):
        ...         return {"scaled": x * self.factor}
        >>> program = tt.export.export(Scale(), (tt.ones(2),))
        >>> print(program.graph)
        graph(%p_factor : float32[], %x : float32[2]):
            %mul : float32[2] = aten.mul.Tensor(%x, %p_factor)
            return [%mul]
        >>> with tt.no_grad():
        ...     program.module()(tt.tensor([1.0, 2.0]))
        {'scaled': tensor([3., 6.])}
    """

    def __init__(
        self,
        graph: Graph,
        graph_signature: ExportGraphSignature,
        state_dict: dict[str, Any],
        constants: dict[str, Any],
        in_spec: TreeSpec,
        out_spec: TreeSpec,
        argument_paths: Sequence[str],
        identical: frozenset[int],
        example_inputs: tuple[tuple[Any, ...], dict[str, Any]] | None = None,
        dynamic: DynamicGraph | None = None,
        differentiable: frozenset[str] = frozenset(),
    ) -> None:
        self.graph = graph
        self.graph_signature = graph_signature
        self.state_dict = state_dict
        self.constants = constants
        self.example_inputs = example_inputs
        self.kernels: Sequence[Any] = ()
        self._dynamic = dynamic
        self._differentiable = differentiable
        # The number of arguments, if each is a leaf; most calls have tensors alone.
        self._flat = in_spec.num_leaves if in_spec == tree_structure(((0,) * in_spec.num_leaves, {})) else -1
        self._in_spec, self._out_spec = in_spec, out_spec
        self._paths = tuple(argument_paths)
        self._identical = identical
        users = [spec for spec in graph_signature.input_specs if spec.kind is InputKind.USER_INPUT]
        self._users: list[InputSpec] = users
        placeholders = {node.name: node for node in graph.find_nodes(op="placeholder")}
        self._expected: list[Any] = [
            placeholders[spec.arg.name].val if not isinstance(spec.arg, ConstantArgument) else None
            for spec in users
        ]
        index_of = {name: i for i, name in enumerate(placeholders)}
        self._written = tuple(
            [index_of[node.args[0].name] for node in graph.find_nodes(op="call_function") if is_write(node)]
        )

    @property
    def graph_module(self) -> Traced:
        """The graph as a function of all of its inputs, with `graph`, `code` and `print_readable`."""
        nodes = self.graph.find_nodes(op="placeholder")
        inputs = [InputLeaf(node.name, node.val, None) for node in nodes]
        outputs = self.graph.output_node.args[0]
        return Traced(
            self.graph, inputs, tree_structure(((0,) * len(nodes), {})), tree_structure((0,) * len(outputs))
        )

    def module(self) -> ExportedModule:
        """Return the program as a module with the original's call signature; it shares the program's tensors.

        The module computes gradients if they are enabled, a parameter or an argument requires grad, and the operators
        have the derivative of the original. They do not have it if the original has blocks under ``no_grad``, detached
        tensors, hooks or an `autograd.Function`. Then results do not require grad, and an argument that does is
        refused. A call checks its arguments, and errors name them.
        """
        return ExportedModule(self)

    @property
    def differentiable_inputs(self) -> frozenset[str]:
        """Which inputs may require grad in a call: none, ``"parameters"``, or ``"arguments"``, too.

        A program that came with kernels runs by these, and has none for a derivative.
        """
        return frozenset() if self.kernels else self._differentiable

    @property
    def range_constraints(self) -> dict[str, ValueRange]:
        """The sizes that calls may have, by the names of `Dim`."""
        return {} if self._dynamic is None else dict(self._dynamic.ranges)

    def named_parameters(self) -> Iterator[tuple[str, Any]]:
        """Parameters with their names, in the order of the graph's inputs."""
        return self._named(self.graph_signature.parameters)

    def parameters(self) -> Iterator[Any]:
        """Parameters, in the order of the graph's inputs."""
        return (tensor for _, tensor in self.named_parameters())

    def named_buffers(self) -> Iterator[tuple[str, Any]]:
        """Buffers with their names, in the order of the graph's inputs."""
        return self._named(self.graph_signature.buffers)

    def buffers(self) -> Iterator[Any]:
        """Buffers, in the order of the graph's inputs."""
        return (tensor for _, tensor in self.named_buffers())

    @property
    def tensor_constants(self) -> dict[str, Any]:
        """`constants`, as PyTorch has it."""
        return self.constants

    def _named(self, names: Sequence[str]) -> Iterator[tuple[str, Any]]:
        return ((name, self._tensor(name)) for name in names)

    def _tensor(self, name: str) -> Any:
        return self.state_dict[name] if name in self.state_dict else self.constants[name]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Raise RuntimeError, as PyTorch does: call ``program.module()``."""
        raise RuntimeError(
            "Unable to call ExportedProgram directly. You should use `exported_program.module()` instead."
        )

    def __str__(self) -> str:
        lines = [f"    {line}" for line in str(self.graph).split("\n")]
        inputs = [f"    {_described(spec)}" for spec in self.graph_signature.input_specs]
        outputs = [f"    {_described(spec)}" for spec in self.graph_signature.output_specs]
        sizes = (
            [] if self._dynamic is None else ["sizes:", *(f"    {line}" for line in self._dynamic.lines())]
        )
        return "\n".join(["ExportedProgram:", *lines, "inputs:", *inputs, "outputs:", *outputs, *sizes])

    __repr__ = __str__

    def tensor_specs(self) -> list[list[Any]]:
        """Return the spec of each tensor among the arguments' leaves, for the example and for other sizes in the
        range.

        The sizes cover kernel selection: one, an odd one, a multiple of 16, and the greatest.
        """
        specs = [[spec for spec in self._expected if spec is not None]]
        if self._dynamic is not None:
            specs += [self._dynamic.at(sizes).specs for sizes in typical_sizes(self._dynamic.ranges)]
        return specs

    def _leaves_of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sequence[Any]:
        """Return the leaves of a call's arguments. Raise TypeError if their structure differs from the export's."""
        if not kwargs and len(args) == self._flat and {*map(type, args)} == {Tensor}:
            return args
        expected = self._in_spec.child(1).context
        if len(kwargs) > 1 and list(kwargs) != expected and set(kwargs) == set(expected):
            kwargs = {name: kwargs[name] for name in expected}
        leaves, spec = tree_flatten((args, kwargs))
        if spec != self._in_spec:
            raise TypeError(
                f"arguments: expected the structure {self._in_spec} of (args, kwargs), which was exported, got {spec}"
            )
        return leaves

    def _checked(self, leaves: Sequence[Any], may_need_gradients: bool) -> list[Any]:
        """Return the tensors among the leaves. Raise as `ExportedModule.forward` does."""
        tensors: list[Any] = []
        expected_specs = self._expected
        if self._dynamic is not None:
            indices = [i for i, expected in enumerate(expected_specs) if expected is not None]
            paths = [self._paths[i] for i in indices]
            sizes = self._dynamic.sizes_of([leaves[i] for i in indices], paths)
            specs = iter(self._dynamic.at(sizes).specs)
            expected_specs = [None if expected is None else next(specs) for expected in expected_specs]
        for leaf, spec, path, expected in zip(leaves, self._users, self._paths, expected_specs, strict=True):
            if expected is not None and leaf.__class__ is Tensor and leaf._spec is expected:
                tensors.append(leaf)
                continue
            if isinstance(spec.arg, ConstantArgument):
                value = spec.arg.value
                if isinstance(leaf, TensorImpl) or leaf.__class__ is not value.__class__ or leaf != value:
                    shown = f"a {type(leaf).__name__}" if isinstance(leaf, TensorImpl) else repr(leaf)
                    raise ValueError(
                        f"argument {path}: expected {value!r}, which is fixed in the exported graph, got {shown}"
                    )
                continue
            check_tensor(f"argument {path}", leaf, expected)
            if leaf._spec.requires_grad and not may_need_gradients:
                raise RuntimeError(
                    f"argument {path} requires grad: this exported program computes no gradients of arguments, since "
                    "its operators do not have the derivative of the module; call it under tt.no_grad(), or detach "
                    "the argument"
                )
            tensors.append(leaf)
        return tensors

    def _graph_for(self, tensors: Sequence[Any]) -> Graph:
        """Return the graph for a call with these tensors among the leaves of its arguments."""
        if self._dynamic is None:
            return self.graph
        paths = [path for path, each in zip(self._paths, self._expected, strict=True) if each is not None]
        return self._dynamic.at(self._dynamic.sizes_of(tensors, paths)).graph

    def _check_memory(self, inputs: Sequence[Any]) -> None:
        """Raise RuntimeError if a tensor that the program writes to shares memory with another input."""
        if not self._written:
            return
        roots = [id(root_of(tensor._data)) for tensor in inputs]
        for index in self._written:
            if roots.count(roots[index]) > 1:
                other = next(i for i, root in enumerate(roots) if root == roots[index] and i != index)
                raise RuntimeError(
                    f"{self._name_of(index)} is written to and shares memory with {self._name_of(other)}, which the "
                    "graph cannot tell; give copies"
                )

    def _name_of(self, index: int) -> str:
        """Return the name of a graph input for a message."""
        node = self.graph.find_nodes(op="placeholder")[index]
        for spec, path in zip(self._users, self._paths, strict=True):
            if spec.arg.name == node.name:
                return f"argument {path}"
        targets = {spec.arg.name: spec.target for spec in self.graph_signature.input_specs}
        return f"'{targets[node.name]}'"


def _described(spec: Any) -> str:
    """Return a line about an input or output, in PyTorch's format."""
    shown = repr(spec.arg.value) if isinstance(spec.arg, ConstantArgument) else f"%{spec.arg.name}"
    target = "" if spec.target is None else f" target='{spec.target}'"
    transient = "" if getattr(spec, "persistent", None) is not False else " persistent=False"
    return f"{shown}: {spec.kind.name}{target}{transient}"


__all__ = ["ExportedProgram"]
