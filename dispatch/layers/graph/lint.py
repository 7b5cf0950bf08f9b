"""Checks that a graph is well formed: order, names, users, constants, and arguments that fit their schemas."""

from __future__ import annotations

import operator
from typing import Any

from ....runtime.tensor_spec import TensorSpec
from ...core.call_arguments import unwrap_numbers, wrap_numbers
from ...core.op_overload import OpOverload
from ...schema import bind
from ...tensor import Tensor
from .graph import OPS, Attribute, Graph, Node, map_nodes


def lint(graph: Graph, known: dict[Node, tuple[Any, ...]] | None = None) -> None:
    """Raise RuntimeError for the first error.

    `known` caches calls whose arguments bind, and lint adds to it: few calls change between passes.

    Every argument must precede its use. Names must be unique. Inputs come first, and the one output last. `users` must
    match the uses of a node. Constants must exist. An operator's arguments must bind to its schema.
    """
    seen: dict[Node, None] = {}
    names: set[str] = set()
    has_output = False
    past_inputs = False
    for node in graph.nodes:
        if node.graph is not graph:
            raise RuntimeError(f"%{node.name} does not belong to this graph")
        if node.op not in OPS:
            raise RuntimeError(f"%{node.name} has the unknown kind {node.op!r}")
        if has_output:
            raise RuntimeError(f"%{node.name} stands after the output")
        if node.name in names:
            raise RuntimeError(f"%{node.name}: a node before it has the same name")
        if node.op == "placeholder" and past_inputs:
            raise RuntimeError(f"%{node.name} is an input after a step that is none")
        past_inputs = past_inputs or node.op != "placeholder"
        names.add(node.name)
        for input_node in node.all_input_nodes:
            if input_node not in seen:
                why = "a node of another graph" if input_node.graph is not graph else "defined after it"
                raise RuntimeError(f"%{node.name} uses %{input_node.name}, which is {why}")
            if node not in input_node.users:
                raise RuntimeError(f"%{input_node.name} does not know its user %{node.name}")
        for user in node.users:
            if node not in user.all_input_nodes:
                raise RuntimeError(f"%{node.name} names %{user.name} as a user, which does not take it")
        call = (node.target, node.args, node.kwargs)
        if known is None or graph.constants or not _same_objects(known.get(node, ()), call):
            _check_target(graph, node)
            if known is not None:
                known[node] = call
        seen[node] = None
        has_output = node.op == "output"
    if not has_output:
        raise RuntimeError("the graph has no output")


def _same_objects(first: tuple[Any, ...], second: tuple[Any, ...]) -> bool:
    return len(first) == len(second) and all(a is b for a, b in zip(first, second, strict=True))


def _check_target(graph: Graph, node: Node) -> None:
    if node.op == "get_attr":
        if node.target not in graph.constants:
            raise RuntimeError(
                f"%{node.name} names the constant {node.target!r}, which the graph does not have"
            )
    elif node.op == "call_function":
        if node.target is operator.getitem:
            _check_getitem(node)
        elif isinstance(node.target, OpOverload):
            _check_call(graph, node)
        else:
            raise RuntimeError(f"%{node.name} calls {node.target!r}, which is no operator")


def _check_getitem(node: Node) -> None:
    source, index = node.args
    if not isinstance(source, Node) or index.__class__ is not int:
        raise RuntimeError(f"%{node.name}: getitem takes a node and an int, got {node.args}")
    if source.val.__class__ is tuple and not 0 <= index < len(source.val):
        raise RuntimeError(
            f"%{node.name} takes result {index} of %{source.name}, which has {len(source.val)}"
        )


def _check_call(graph: Graph, node: Node) -> None:
    def sample(input_node: Node) -> Any:
        if isinstance(input_node.val, TensorSpec):
            return Tensor.from_data(None, input_node.val.detached)
        if input_node.val is None:
            return Tensor.from_data(None, _UNKNOWN)
        return input_node.val

    def plain(value: Any) -> Any:
        if isinstance(value, Attribute):
            if value.name not in graph.constants:
                raise RuntimeError(
                    f"%{node.name} takes the constant {value.name!r}, which the graph does not have"
                )
            return graph.constants[value.name]
        return tuple([plain(v) for v in value]) if value.__class__ is tuple else value

    args: Any = plain(map_nodes(node.args, sample))
    kwargs = {name: plain(v) for name, v in map_nodes(dict(node.kwargs), sample).items()}
    entry = node.target._entry
    try:
        if entry.numbers_as_tensors:
            args, kwargs = wrap_numbers(args, kwargs)
            unwrap_numbers(bind(entry.schema, tuple(args), kwargs))
        else:
            bind(entry.schema, args, kwargs)
    except TypeError as mismatch:
        raise RuntimeError(
            f"%{node.name}: {node.target} does not take these arguments: {mismatch}"
        ) from mismatch


def _unknown_spec() -> TensorSpec:
    from ....runtime.device import device as Device
    from ....runtime.scalar_type import float32

    return TensorSpec.contiguous((1,), float32, Device("meta"))


_UNKNOWN = _unknown_spec()
