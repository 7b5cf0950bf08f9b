"""`export`: trace a model on example inputs and translate its graph to ONNX."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeGuard

from ..dispatch.autograd.grad_mode import no_grad
from ..dispatch.core.op_overload import OpOverload
from ..dispatch.generated.functions import cat
from ..dispatch.layers.graph.graph import Node, map_nodes
from ..dispatch.layers.graph.make_graph import make_graph
from ..dispatch.layers.graph.traced import Traced
from ..dispatch.layers.pytree import tree_leaves, tree_map
from ..dispatch.tensor import Tensor
from ..runtime.tensor_spec import TensorSpec
from .builder import Builder, package
from .errors import UnsupportedOperatorError
from .operators import TRANSLATIONS, Step
from .symbolic import custom_translation

if TYPE_CHECKING:
    from ..nn import Module

FIRST_OPSET = 18
"""The first opset version in which the axes of all reductions are inputs."""

IR_VERSION = 10
"""The ONNX IR version, which runtimes of recent years read."""

RANDOM = ("rand", "normal", "dropout", "bernoulli", "multinomial", "poisson", "exponential", "uniform")
VIEWS = (
    *("view", "t", "transpose", "permute", "slice", "select", "unsqueeze", "squeeze", "expand", "split"),
    *("split_with_sizes", "unbind", "detach", "alias", "as_strided", "diagonal"),
)
DynamicAxes = Mapping[str, Mapping[int, str] | Sequence[int]]

_exporting = False


def is_in_onnx_export() -> bool:
    """Return whether a model is being exported (`torch.onnx.is_in_onnx_export`)."""
    return _exporting


class ONNXProgram:
    """An exported model.

    Attributes:
        model_proto: The model, an ``onnx.ModelProto``.
    """

    def __init__(self, model_proto: Any) -> None:
        self.model_proto = model_proto

    def save(self, destination: Any) -> None:
        """Write the model to a path, or to a file object opened in binary mode."""
        path = os.fspath(destination) if isinstance(destination, os.PathLike) else destination
        package("onnx").save(self.model_proto, path)

    def __repr__(self) -> str:
        graph = self.model_proto.graph
        return f"ONNXProgram({len(graph.node)} nodes, {len(graph.initializer)} constants)"


def export(
    model: Callable[..., Any],
    args: Any = (),
    f: Any = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    verbose: bool | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    opset_version: int | None = None,
    dynamic_axes: DynamicAxes | Sequence[Any] | None = None,
    keep_initializers_as_inputs: bool = False,
    export_params: bool = True,
    do_constant_folding: bool = True,
    dynamo: bool = True,
) -> ONNXProgram:
    """Export a model to ONNX in eval mode (`torch.onnx.export`).

    The exporter traces the model on the example inputs. The result fixes Python's control flow, and all sizes but those
    of `dynamic_axes`.

    Args:
        model: A module or a function of tensors.
        args: The positional arguments of the example call: a tuple, or one tensor.
        f: The destination: a path, or a file object opened in binary mode. Default: the model is not written.
        kwargs: The keyword arguments of the example call.
        verbose: If True, print the traced graph.
        input_names: Names of the tensors among the arguments, in order.
        output_names: Names of the tensors among the results, in order.
        opset_version: The opset version, at least 18. Default: 18.
        dynamic_axes: The dimensions that may have other sizes when the model runs, by names of inputs and outputs:
            ``{"x": {0: "batch"}}``, or ``{"x": [0]}``. The exporter traces the model a second time, with inputs that
            are longer in these dimensions.
        keep_initializers_as_inputs: If True, initializers are also inputs of the graph. Default: False.
        export_params: Must be True: parameters are always part of the file.
        do_constant_folding, dynamo: Ignored. Constants are always folded, and there is one exporter.

    Returns:
        The model, an `ONNXProgram`.

    Raises:
        ModuleNotFoundError: The package ``onnx`` is not installed.
        UnsupportedOperatorError: An operator has neither a built-in nor a registered translation, or an argument
            depends on the size of a dynamic axis in an unsupported way. The message names the operator.
        TypeError: `dynamic_axes` is not a dict.
        ValueError: The opset version is not supported, `export_params` is False, or there are more names than inputs or
            outputs.

    Example::

        model = tt.nn.Sequential(tt.nn.Linear(4, 8), tt.nn.ReLU(), tt.nn.Linear(8, 2))
        tt.onnx.export(model, tt.ones(1, 4), "model.onnx", input_names=["x"], dynamic_axes={"x": {0: "batch"}})
    """
    latest = int(package("onnx.defs").onnx_opset_version())
    opset = FIRST_OPSET if opset_version is None else opset_version
    if not FIRST_OPSET <= opset <= latest:
        raise ValueError(f"onnx.export: opset_version must be from {FIRST_OPSET} to {latest}, got {opset}")
    if not export_params:
        raise ValueError("onnx.export: export_params must be True, parameters are part of the file")
    arguments = args if isinstance(args, tuple) else (args,)
    named = dict(kwargs or {})
    tensors = [leaf for leaf in tree_leaves((arguments, named)) if isinstance(leaf, Tensor)]
    names = _names(input_names, len(tensors), "input")
    axes = _axes(dynamic_axes or {})
    with _evaluated(model):
        traced = _recorded(model, arguments, named)
        if verbose:
            print(traced.graph)
        longer = None
        if any(axes.get(name) for name in names):
            numbers = {id(tensor): names[i] for i, tensor in enumerate(tensors)}
            # Each axis is scaled by a different prime, so that a size identifies the axis it depends on.
            named_axes = dict.fromkeys(axis for name in names for axis in axes.get(name, {}).values())
            factors = dict(zip(named_axes, _primes(), strict=False))

            def stretched(leaf: Any) -> Any:
                for dim, axis in axes.get(numbers.get(id(leaf), ""), {}).items():
                    leaf = cat([leaf] * factors[axis], dim)
                return leaf

            longer = _recorded(model, *tree_map(stretched, (arguments, named)))
    labels = _labels(model) if _is_module(model) else {}
    program = _Export(traced, longer, opset, labels).run(
        names, output_names, axes, keep_initializers_as_inputs
    )
    if f is not None:
        program.save(f)
    return program


def _primes() -> Iterator[int]:
    number = 2
    while True:
        if all(number % divisor for divisor in range(2, number)):
            yield number
        number += 1


def _recorded(model: Callable[..., Any], args: Any, kwargs: Any) -> Traced:
    global _exporting
    _exporting = True
    try:
        with no_grad():
            traced = make_graph(lambda *a, **k: model(*a, **k))(*args, **kwargs)
        traced.graph.eliminate_dead_code()
        return traced
    finally:
        _exporting = False


class _evaluated:
    """Context manager that puts a model in eval mode if it is a module."""

    def __init__(self, model: Any) -> None:
        self.modes = [(each, each.training) for each in model.modules()] if _is_module(model) else []

    def __enter__(self) -> None:
        for module, _ in self.modes:
            module.training = False

    def __exit__(self, *error: object) -> None:
        for module, mode in self.modes:
            module.training = mode


def _names(requested: Sequence[str] | None, count: int, kind: str) -> list[str]:
    names = list(requested or ())
    if len(names) > count:
        raise ValueError(f"onnx.export: {kind}_names has {len(names)} names for {count} tensors")
    return names + [f"{kind}_{i}" if count > 1 else kind for i in range(len(names), count)]


def _axes(dynamic_axes: Any) -> dict[str, dict[int, str]]:
    if not isinstance(dynamic_axes, Mapping):
        raise TypeError(
            f"onnx.export: dynamic_axes must be a dict by names, got {type(dynamic_axes).__name__}"
        )
    return {
        name: dict(axes) if isinstance(axes, Mapping) else {axis: f"{name}_{axis}" for axis in axes}
        for name, axes in dynamic_axes.items()
    }


def _is_module(model: Any) -> TypeGuard[Module]:
    from ..nn import Module

    return isinstance(model, Module)


def _labels(model: Module) -> dict[int, str]:
    """Return the names of parameters and buffers, by the tensors' ids."""
    return {id(tensor): name for name, tensor in [*model.named_buffers(), *model.named_parameters()]}


def _calls(nodes: Sequence[Node]) -> list[tuple[str, list[int]]]:
    """Return each node's target and the numbers of its input nodes."""
    numbers = {node: number for number, node in enumerate(nodes)}
    return [(str(node.target), [numbers[each] for each in node.all_input_nodes]) for node in nodes]


class _Export:
    """The translation of a traced graph. Sizes that differ in a second trace of it depend on dynamic axes."""

    def __init__(self, traced: Traced, longer: Traced | None, opset: int, labels: Mapping[int, str]) -> None:
        self.traced = traced
        self.builder = Builder(opset)
        self.labels = labels
        self.values: dict[Node, Any] = {}
        """The name of each node's result, or a tuple of names."""
        self.dynamic: dict[tuple[int, int], tuple[str, int]] = {}
        """The dynamic axes of inputs, each an input's name and a dimension, by their sizes in the two traces."""
        self.known: dict[Node, Any] = {}
        """Constants: the nodes whose results depend on no input."""
        nodes = list(traced.graph.nodes)
        longer_nodes = list(longer.graph.nodes) if longer is not None else nodes
        if _calls(nodes) != _calls(longer_nodes):
            raise UnsupportedOperatorError(
                "onnx.export: dynamic_axes: the model calls other operators for inputs of other sizes. Where sizes "
                "that differ in general are equal in the example, give another one"
            )
        self.others = dict(zip(nodes, longer_nodes, strict=True))

    def run(
        self,
        input_names: Sequence[str],
        output_names: Sequence[str] | None,
        axes: Any,
        parameters_are_inputs: bool,
    ) -> ONNXProgram:
        """Translate all nodes and return the checked model."""
        b, inputs, outputs = self.builder, [], []
        numbers = iter(input_names)
        for node in self.traced.graph.nodes:
            if node.op == "placeholder":
                name = b.name(next(numbers))
                self.values[node] = name
                for dim, (size, longer) in enumerate(
                    zip(node.val.sizes, self.others[node].val.sizes, strict=True)
                ):
                    if size != longer:
                        self.dynamic.setdefault((size, longer), (name, dim))
                inputs.append(self._described(name, node, axes.get(name, {})))
            elif node.op == "get_attr":
                self.known[node] = self.traced.graph.constants[str(node.target)]
            elif node.op == "call_function":
                self._translate(node)
            else:
                results = [each for each in node.args[0] if isinstance(each, Node)]
                for each, name in zip(results, _names(output_names, len(results), "output"), strict=True):
                    b.nodes.append(b.helper.make_node("Identity", [self._value(each)], [b.name(name)]))
                    outputs.append(self._described(name, each, axes.get(name, {})))
        if parameters_are_inputs:
            inputs += [
                b.helper.make_tensor_value_info(i.name, i.data_type, list(i.dims)) for i in b.initializers
            ]
        graph = b.helper.make_graph(b.nodes, "main_graph", inputs, outputs, b.initializers)
        model = b.helper.make_model(
            graph,
            producer_name=__name__.partition(".")[0],
            opset_imports=[
                b.helper.make_opsetid("", b.opset),
                *(b.helper.make_opsetid(each, 1) for each in sorted(b.domains)),
            ],
            ir_version=IR_VERSION,
        )
        package("onnx.checker").check_model(model)
        return ONNXProgram(model)

    def _described(self, name: str, node: Node, axes: Mapping[int, str]) -> Any:
        """Return the ``ValueInfoProto`` of an input or output, with symbolic names for dynamic sizes."""
        spec, other = node.val, self.others[node].val
        sizes: list[Any] = [
            size if size == long else axes.get(dim, f"{name}_{dim}")
            for dim, (size, long) in enumerate(zip(spec.sizes, other.sizes, strict=True))
        ]
        return self.builder.helper.make_tensor_value_info(name, self.builder.kind_of(spec.dtype), sizes)

    def _value(self, node: Node) -> Any:
        """Return the name of a node's result; a constant becomes an initializer."""
        value = self.values.get(node)
        if value is None:
            tensor = self.known[node]
            label = self.labels.get(id(tensor), node.name)
            value = self.values[node] = self.builder.constant(tensor.detach().cpu()._data, label)
        return value

    def _named_value(self, node: Node) -> Any:
        """Return the name of a node's result and register its spec with the builder."""
        name = self._value(node)
        if isinstance(name, str):
            self.builder.specs[name] = node.val
        return name

    def _translate(self, node: Node) -> None:
        other = self.others[node]
        if node.target is operator.getitem:
            source, number = node.args
            if source in self.known:
                self.known[node] = self.known[source][number]
            elif self.values[source][number] is None:
                raise UnsupportedOperatorError(
                    f"onnx.export: result {number} of {source.target} is not translated"
                )
            else:
                self.values[node] = self.values[source][number]
            return
        if not isinstance(node.target, OpOverload):
            raise UnsupportedOperatorError(f"onnx.export: {node.target} is no operator")
        name = str(node.target).removeprefix("aten.")
        base, _, overload = name.partition(".")
        written = None
        if base.endswith("_") and not base.startswith("_"):
            # An in-place operator: later nodes use the result's name for the tensor.
            written, name = self._written(node, name), f"{base[:-1]}.{overload}"
        arguments = (node.args, dict(node.kwargs))
        twin = (other.args, dict(other.kwargs))
        if all(each in self.known for each in node.all_input_nodes) and not any(r in name for r in RANDOM):
            self._check_is_fixed(name, arguments, twin)
            args, kwargs = map_nodes(arguments, self.known.__getitem__)
            with no_grad():
                if written is not None:
                    args = (args[0].clone(), *args[1:])
                self.known[node] = node.target(*args, **kwargs)
            if written is not None:
                self.known[written] = self.known[node]
                self.values.pop(written, None)
            return
        translation = TRANSLATIONS.get(name) or custom_translation(name, self.builder.opset)
        if translation is None:
            raise UnsupportedOperatorError(
                f"onnx.export: the operator {node.target} has no translation to ONNX"
            )
        if name in ("view.default", "_unsafe_view.default", "reshape.default"):
            arguments = ((node.args[0], self._sizes(node, other)), {})
        elif name == "expand.default":
            arguments = ((node.args[0], self._expansion(node, other)), {})
        elif name == "native_group_norm.default":
            twin = arguments  # the translation does not use its size arguments
        else:
            self._check_is_fixed(name, arguments, twin)
        args, kwargs = map_nodes(arguments, self._named_value)
        specs, named = map_nodes((tuple(arguments[0]), arguments[1]), lambda each: each.val)
        self.values[node] = translation(self.builder, Step(name, node.val, specs, named), *args, **kwargs)
        if written is not None:
            self.values[written] = self.values[node]
            self.known.pop(written, None)

    def _written(self, node: Node, name: str) -> Node:
        """Return the node that an in-place operator writes to.
        Raise UnsupportedOperatorError if the node has views or is one.
        """
        target: Node = node.args[0]
        around = [target, *target.users]
        if any(str(each.target).removeprefix("aten.").partition(".")[0] in VIEWS for each in around):
            raise UnsupportedOperatorError(
                f"onnx.export: aten::{name} writes to a tensor that has views, or is one"
            )
        return target

    def _check_is_fixed(self, name: str, arguments: Any, twin: Any) -> None:
        placeholder: Callable[[Node], Any] = lambda node: 0  # noqa: E731 - nodes of two graphs
        if map_nodes(arguments, placeholder) != map_nodes(twin, placeholder):
            raise UnsupportedOperatorError(
                f"onnx.export: an argument of aten::{name} depends on the size of a dynamic axis: {arguments} for the "
                f"example, {twin} for a longer one"
            )

    def _dynamic_size(self, size: int, longer: int) -> str | None:
        """Return a value for the dynamic axis that has these sizes in the two traces, or None."""
        axis = self.dynamic.get((size, longer))
        if axis is None:
            return None
        name, dim = axis
        b = self.builder
        return b("Slice", b("Shape", name), b.integers(dim), b.integers(dim + 1), b.integers(0))

    def _sizes(self, node: Node, other: Node) -> list[int | str]:
        """Return the sizes for a Reshape node.

        A dynamic size is 0 if the input has it in the same dimension, else the value of its dynamic axis, else -1.
        """
        source: TensorSpec = node.args[0].val
        other_source: TensorSpec = other.args[0].val
        sizes: list[int | str] = [*node.val.sizes]
        for dim, (size, longer) in enumerate(zip(node.val.sizes, other.val.sizes, strict=True)):
            if size == longer:
                continue
            if dim < source.ndim and (source.sizes[dim], other_source.sizes[dim]) == (size, longer):
                sizes[dim] = 0
            else:
                sizes[dim] = self._dynamic_size(size, longer) or -1
        if sizes.count(-1) > 1:
            raise UnsupportedOperatorError(
                f"onnx.export: {node.target}: several sizes of {list(node.val.sizes)} depend on dynamic axes"
            )
        return sizes

    def _expansion(self, node: Node, other: Node) -> list[int | str]:
        """Return the sizes for an Expand node. A dynamic size is -1 if the tensor has it, else its axis's value."""
        source: TensorSpec = node.args[0].val
        sizes: list[int | str] = [*node.val.sizes]
        for back in range(1, len(sizes) + 1):
            size, longer = node.val.sizes[-back], other.val.sizes[-back]
            if size == longer:
                continue
            known = back <= source.ndim and source.sizes[-back] == size
            translated = -1 if known else self._dynamic_size(size, longer)
            if translated is None:
                raise UnsupportedOperatorError(
                    f"onnx.export: {node.target}: a size depends on a dynamic axis in a way that is not translated"
                )
            sizes[-back] = translated
        return sizes
