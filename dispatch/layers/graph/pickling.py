"""Pickled graphs: nodes by their positions, specs by their fields, constants by their elements and states."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from ....runtime.generator import Generator
from ....runtime.tensor_impl import TensorImpl
from ....runtime.tensor_spec import TensorSpec
from ...core.op_overload import OpOverload
from .graph import Graph, Node, map_nodes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ...tensor import Tensor


PROCESS_NAMESPACE = "higher_order"
"""The namespace of operators whose arguments refer to objects of this process."""


def refuse_process_objects(graph: Graph) -> None:
    """Raise NotImplementedError for a step that refers to an object of this process, such as a Triton kernel."""
    for node in graph.find_nodes(op="call_function"):
        if isinstance(node.target, OpOverload) and node.target.namespace == PROCESS_NAMESPACE:
            raise NotImplementedError(
                f"%{node.name} launches a Triton kernel of this process ({node.target.name()}), which cannot be saved; "
                "make the launch an operator with triten.library.triton_op, and define that where the file is loaded"
            )


def packed_graph(graph: Graph) -> tuple[Any, ...]:
    """Return the picklable form of a graph."""
    refuse_process_objects(graph)
    numbers = {node: _Reference(i) for i, node in enumerate(graph.nodes)}
    rows = [
        (
            node.name,
            node.op,
            "getitem" if node.target is operator.getitem else node.target,
            map_nodes(node.args, numbers.__getitem__),
            map_nodes(dict(node.kwargs), numbers.__getitem__),
            packed(node.val),
        )
        for node in graph.nodes
    ]
    constants = {name: packed_constant(value) for name, value in graph.constants.items()}
    return _rebuilt, (rows, constants)


class _Reference:
    """Reference to a node in a pickle, by its position."""

    __slots__ = ("index",)

    def __init__(self, index: int) -> None:
        self.index = index

    def __reduce__(self) -> tuple[Any, ...]:
        return _Reference, (self.index,)


def packed(val: Any) -> Any:
    """Return a node's `val` without interned objects."""
    if isinstance(val, TensorSpec):
        return _Spec(
            (val.sizes, val.strides, val.dtype, str(val.device)),
            {
                "requires_grad": val.requires_grad,
                "is_inference": val.is_inference,
                "read_only": val.read_only,
            },
        )
    return tuple([packed(v) for v in val]) if val.__class__ is tuple else val


class _Spec:
    """A TensorSpec in a pickle."""

    __slots__ = ("fields", "flags")

    def __init__(self, fields: tuple[Any, ...], flags: dict[str, Any]) -> None:
        self.fields, self.flags = fields, flags

    def __reduce__(self) -> tuple[Any, ...]:
        return _Spec, (self.fields, self.flags)


def unpacked(val: Any) -> Any:
    if isinstance(val, _Spec):
        from ....runtime.device import device as Device

        sizes, strides, dtype, where = val.fields
        return TensorSpec.of(sizes, strides, dtype, Device(where), **val.flags)
    return tuple([unpacked(v) for v in val]) if val.__class__ is tuple else val


class _PackedTensor:
    """A constant tensor in a pickle: its elements in host memory, and its spec."""

    __slots__ = ("array", "spec")

    def __init__(self, array: NDArray[Any], spec: _Spec) -> None:
        self.array, self.spec = array, spec

    def __reduce__(self) -> tuple[Any, ...]:
        return _PackedTensor, (self.array, self.spec)


class _PackedGenerator:
    """A constant generator in a pickle: its device and state."""

    __slots__ = ("device", "state")

    def __init__(self, device: str, state: bytes) -> None:
        self.device, self.state = device, state

    def __reduce__(self) -> tuple[Any, ...]:
        return _PackedGenerator, (self.device, self.state)


def packed_constant(value: Any) -> Any:
    if isinstance(value, Generator):
        return _PackedGenerator(str(value.device), value.state_bytes())
    if not isinstance(value, TensorImpl):
        return value
    tensor: Any = value
    return _PackedTensor(tensor.detach().host_array().copy(), packed(tensor._spec))


def unpacked_constant(value: Any) -> Any:
    if isinstance(value, _PackedGenerator):
        from ...random import Generator as PublicGenerator

        made = PublicGenerator(value.device)
        made.set_state_bytes(value.state)
        return made
    if not isinstance(value, _PackedTensor):
        return value
    from ...tensor_data import from_numpy

    spec = unpacked(value.spec)
    tensor: Tensor = from_numpy(value.array).to(spec.device)
    if tensor._spec.strides != spec.strides:
        strided = tensor.new_empty_strided(spec.sizes, spec.strides)
        tensor = strided.copy_(tensor)
    return tensor._set_requires_grad() if spec.requires_grad else tensor


def _rebuilt(rows: list[tuple[Any, ...]], constants: dict[str, Any]) -> Graph:
    graph = Graph()
    graph.constants = {name: unpacked_constant(value) for name, value in constants.items()}
    nodes: list[Node] = []

    def back(value: Any) -> Any:
        if isinstance(value, _Reference):
            return nodes[value.index]
        if value.__class__ is tuple:
            return tuple([back(v) for v in value])
        return {key: back(v) for key, v in value.items()} if value.__class__ is dict else value

    for name, op, target, args, kwargs, val in rows:
        made = graph.create_node(
            op,
            operator.getitem if target == "getitem" else target,
            back(args),
            back(kwargs),
            name,
            unpacked(val),
        )
        nodes.append(made)
    return graph
