"""Lifting of a recording to an exported graph: held tensors become named inputs, writes become outputs.

The order is PyTorch's: parameters, buffers, constants, then user inputs; written values, then results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...dispatch.layers.graph.graph import Graph, Node, map_nodes
from ...dispatch.layers.graph.make_graph import described
from ...dispatch.tensor import Tensor
from ...nn.modules.module import Module
from ...nn.modules.parameter import Buffer, Parameter
from ...runtime.tensor_impl import TensorImpl
from ..capture.recording import Recording
from ..capture.unsupported import Unsupported
from .signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)

PLAIN = (Tensor, Parameter, Buffer)
PREFIXES = {InputKind.PARAMETER: "p_", InputKind.BUFFER: "b_", InputKind.CONSTANT_TENSOR: "c_"}
MUTATIONS = {
    InputKind.PARAMETER: OutputKind.PARAMETER_MUTATION,
    InputKind.BUFFER: OutputKind.BUFFER_MUTATION,
    InputKind.USER_INPUT: OutputKind.USER_INPUT_MUTATION,
}


@dataclass(frozen=True)
class HeldTensor:
    """Tensor of a module: its kind, its name, and its membership in the state dict."""

    kind: InputKind
    name: str
    tensor: Any
    persistent: bool | None = None


@dataclass(frozen=True)
class Lifted:
    """Exported graph, its signature, and the module's tensors behind its inputs.

    `names` maps every name of a tensor in the module, including tied ones, to its name in the graph.
    """

    graph: Graph
    signature: ExportGraphSignature
    held: dict[str, Any]
    names: dict[str, str]


def lift(recording: Recording, module: Module, leaves: Sequence[Any], names: Sequence[str]) -> Lifted:
    """Return the exported graph of a recording.

    Args:
        recording: A recording without derivative.
        module: The recorded module.
        leaves: Leaves of its arguments.
        names: A name for each leaf.

    Raises:
        Unsupported: The module writes to a tensor that it does not own, or holds a tensor subclass.
    """
    own, aliases = tensors_of(module)
    known = {id(each.tensor): each for each in own}
    read = [location.read() for location in recording.held]
    constants = _constants(read, known, module)
    known |= {id(each.tensor): each for each in constants}
    every = [*own, *constants]
    for each in every:
        if type(each.tensor) not in PLAIN:
            raise Unsupported(f"'{each.name}' is a {type(each.tensor).__name__}, a subclass of Tensor")
    held = [known[id(tensor)] for tensor in read]
    graph = Graph()
    copies: dict[Node, Node] = {}
    inputs = recording.graph.find_nodes(op="placeholder")
    behind = {each.name: inputs[recording.arguments + i] for i, each in enumerate(held)}
    input_specs = []
    for each in every:
        node = graph.placeholder(
            PREFIXES[each.kind] + each.name.replace(".", "_"), described(each.tensor._spec)
        )
        node.meta["source"] = each.name
        if each.name in behind:
            copies[behind[each.name]] = node
        input_specs.append(InputSpec(each.kind, TensorArgument(node.name), each.name, each.persistent))
    argument_nodes = iter(inputs[: recording.arguments])
    for leaf, name in zip(leaves, names, strict=True):
        if isinstance(leaf, TensorImpl):
            source = next(argument_nodes)
            node = copies[source] = graph.placeholder(name, source.val)
            input_specs.append(InputSpec(InputKind.USER_INPUT, TensorArgument(node.name)))
        else:
            input_specs.append(InputSpec(InputKind.USER_INPUT, ConstantArgument(name, leaf)))
    by_name = {spec.arg.name: spec for spec in input_specs}
    output_specs, written = [], []
    for node in recording.graph.find_nodes(op="call_function"):
        # Names are regenerated, so that they do not depend on removed steps.
        copied = copies[node] = graph.call_function(
            node.target,
            map_nodes(node.args, copies.__getitem__),
            map_nodes(dict(node.kwargs), copies.__getitem__),
            node.val,
        )
        if getattr(getattr(node.target, "_schema", None), "is_mutable", False):
            spec = by_name[copied.args[0].name]
            if spec.kind not in MUTATIONS:
                raise Unsupported(
                    f"the module writes to '{spec.target}', which is neither a parameter nor a buffer of its; "
                    "register_buffer makes it one"
                )
            target = copied.args[0].name if spec.target is None else spec.target
            output_specs.append(OutputSpec(MUTATIONS[spec.kind], TensorArgument(copied.name), target))
            written.append(copied)
    results = map_nodes(tuple(recording.graph.output_node.args[0]), copies.__getitem__)
    for result in results:
        argument = TensorArgument(result.name) if isinstance(result, Node) else ConstantArgument("", result)
        output_specs.append(OutputSpec(OutputKind.USER_OUTPUT, argument))
    graph.output((*written, *results))
    graph.lint()
    signature = ExportGraphSignature(tuple(input_specs), tuple(output_specs))
    return Lifted(graph, signature, {each.name: each.tensor for each in every}, aliases)


def tensors_of(module: Module) -> tuple[list[HeldTensor], dict[str, str]]:
    """Return a module's parameters and buffers, each once, and a dict from every name of each to its first name."""
    tensors: list[HeldTensor] = []
    first: dict[int, str] = {}
    names: dict[str, str] = {}
    transient = _transient_buffers(module)
    for name, parameter in module.named_parameters(remove_duplicate=False):
        names[name] = first.setdefault(id(parameter), name)
        if names[name] == name:
            tensors.append(HeldTensor(InputKind.PARAMETER, name, parameter))
    for name, buffer in module.named_buffers(remove_duplicate=False):
        names[name] = first.setdefault(id(buffer), name)
        if names[name] == name:
            tensors.append(HeldTensor(InputKind.BUFFER, name, buffer, name not in transient))
    return tensors, names


def _transient_buffers(module: Module) -> set[str]:
    return {
        f"{prefix}.{name}" if prefix else name
        for prefix, each in module.named_modules(remove_duplicate=False)
        for name in each._non_persistent_buffers_set
    }


def _constants(tensors: Sequence[Any], known: Mapping[int, HeldTensor], module: Module) -> list[HeldTensor]:
    """Return the held tensors that are neither parameters nor buffers. An attribute's tensor has the
    attribute's name."""
    attributes = {
        id(value): f"{prefix}.{name}" if prefix else name
        for prefix, each in module.named_modules()
        for name, value in vars(each).items()
        if isinstance(value, TensorImpl)
    }
    constants: list[HeldTensor] = []
    for tensor in tensors:
        if id(tensor) not in known:
            name = attributes.get(id(tensor), f"lifted_tensor_{len(constants)}")
            constants.append(HeldTensor(InputKind.CONSTANT_TENSOR, name, tensor))
    return constants
