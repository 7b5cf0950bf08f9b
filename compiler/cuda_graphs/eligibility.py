"""Which graphs of operators may become CUDA graphs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...dispatch.core.op_overload import OpOverload
from ...dispatch.layers.graph.graph import Graph, Node
from ...runtime.device import device as Device
from ...runtime.tensor_spec import TensorSpec


def device_of(graph: Graph) -> Device | None:
    """Return the single CUDA device on which a graph computes; None for any other graph."""
    devices = {spec.device for node in graph.nodes for spec in specs_of(node)}
    if len(devices) != 1:
        return None
    device = devices.pop()
    return device if device.type == "cuda" else None


def why_not(graph: Graph) -> str | None:
    """Return the reason why a graph of operators cannot be captured as a CUDA graph; None if it can.

    Example:
        >>> import triten as tt
        >>> from triten.compiler.cuda_graphs.eligibility import why_not
        >>> why_not(tt.func.make_graph(lambda x: x + 1)(tt.ones(2)).graph)
        '%x is on cpu'
    """
    if not graph.find_nodes(op="call_function"):
        return "it launches nothing"
    for node in graph.nodes:
        for spec in specs_of(node):
            if spec.device.type != "cuda":
                return f"%{node.name} is on {spec.device}"
        name = node.target._opname if isinstance(node.target, OpOverload) else ""
        if "strided" in name and node.all_input_nodes:
            # `as_strided` and similar operators count from the start of a storage, and a copied input has another
            # storage.
            return f"%{node.name} reads a tensor's storage by offsets"
    if device_of(graph) is None:
        return "it computes on several devices"
    return None


def written_inputs(graph: Graph) -> tuple[int, ...]:
    """Return the indices of the inputs that a graph writes to."""
    index_of = {node: i for i, node in enumerate(graph.find_nodes(op="placeholder"))}
    indices: dict[int, None] = {}
    for node in graph.find_nodes(op="call_function"):
        if not isinstance(node.target, OpOverload) or not node.target._entry.schema.is_mutable:
            continue
        arguments = node.target._entry.schema.arguments
        bound = dict(zip((a.name for a in arguments), node.args, strict=False)) | dict(node.kwargs)
        for argument in arguments:
            value = bound.get(argument.name) if argument.is_write else None
            for each in value if isinstance(value, list | tuple) else (value,):
                if each in index_of:
                    indices[index_of[each]] = None
    return tuple(indices)


def specs_of(node: Node) -> Iterator[TensorSpec]:
    """Yield the specs of a node's tensors."""
    if node.op in ("placeholder", "call_function"):
        yield from _specs_in(node.val)


def _specs_in(value: Any) -> Iterator[TensorSpec]:
    if isinstance(value, TensorSpec):
        yield value
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _specs_in(each)
