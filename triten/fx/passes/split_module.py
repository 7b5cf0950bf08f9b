"""`split_module`: splits a graph into modules, each with its own graph (torch/fx/passes/split_module.py)."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ...nn.modules.module import Module
from ..graph import Graph
from ..graph_module import GraphModule, _get_attr
from ..node import Node, map_arg
from ..proxy import Proxy

__all__ = ["Partition", "split_module"]


class Partition:
    """Partition of a graph: its nodes, its dependencies, and its dependents."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.submod_name = f"submod_{name}"
        self.nodes: list[Node] = []
        self.inputs: dict[Node, None] = {}
        self.outputs: dict[Node, None] = {}
        self.dependencies: dict[Partition, None] = {}
        self.dependents: dict[Partition, None] = {}
        self.graph = Graph()
        self.environment: dict[Node, Node] = {}
        self.targets: dict[str, Any] = {}

    def __repr__(self) -> str:
        return f"Partition({self.name}: {self.nodes})"


def split_module(
    m: GraphModule,
    root_m: Module | None,
    split_callback: Callable[[Node], int | str],
    qualname_map: dict[str, str] | None = None,
    keep_original_order: bool | None = False,
    keep_original_node_name: bool | None = False,
    keep_original_input_name: bool = True,
    *,
    partition_affix: str | None = None,
    tuple_return: bool = False,
) -> GraphModule:
    """Split a module into submodules, ``submod_0``, ``submod_1``, ..., called in turn (`torch.fx.passes`).

    Args:
        m: The module to split.
        root_m: Ignored; attributes are those of `m`.
        split_callback: Returns the name or number of a node's partition.
        qualname_map: A dict that receives the old dotted name of each module and attribute by its new one.
        keep_original_order: If True, call partitions in the order of their first nodes. Default: False, an order that
            their dependencies permit.
        keep_original_node_name: If True, keep the nodes' names. Default: False.
        keep_original_input_name: If True, a partition's inputs keep their nodes' names; else they are ``arg_0``,
            ``arg_1``, ... Default: True.
        partition_affix: A string between ``submod`` and the partition's name. Default: None.
        tuple_return: If True, a partition with one result returns a tuple too. Default: False.

    Raises:
        RuntimeError: Partitions depend on each other.

    Example:
        >>> import triten as tt
        >>> from triten.fx.passes.split_module import split_module
        >>> module = tt.fx.symbolic_trace(lambda x: tt.relu(x + 1) * 2)
        >>> split = split_module(module, None, lambda node: 0 if node.name == "add" else 1)
        >>> [(node.op, node.target) for node in split.graph.nodes]
        [('placeholder', 'x'), ('call_module', 'submod_0'), ('call_module', 'submod_1'), ('output', 'output')]
        >>> split(tt.zeros(2))
        tensor([2., 2.])
    """
    part_of, partitions = _assigned(m, split_callback, partition_affix)
    for node in m.graph.nodes:
        for input_node in node._input_nodes:
            if node.op == "output" or node in part_of:
                _note_use(part_of, input_node, node)
    ordered = _ordered(partitions)
    for partition in partitions:
        _fill(
            m, partition, qualname_map, bool(keep_original_node_name), keep_original_input_name, tuple_return
        )
    base = Graph()
    values: dict[Node, Node] = {}
    attributes: dict[str, Any] = {}

    def copy_input(node: Node) -> None:
        if node in values or node.op not in ("placeholder", "get_attr"):
            return
        if node.op == "placeholder":
            default = node.args[0] if node.args else inspect.Signature.empty
            name = node.name if keep_original_node_name else node.target
            values[node] = base.placeholder(name, node.type, default)
        else:
            values[node] = base.get_attr(node.target)
            attributes[node.target] = _get_attr(m, node.target)
        values[node].meta = dict(node.meta)

    for node in m.graph.nodes:
        if node.op == "placeholder" or not keep_original_order:
            copy_input(node)
    for partition in partitions if keep_original_order else ordered:
        for node in partition.inputs:
            copy_input(node)
        attributes[partition.submod_name] = GraphModule(partition.targets, partition.graph)
        called = base.call_module(partition.submod_name, tuple(values[node] for node in partition.inputs))
        if len(partition.outputs) == 1 and not tuple_return:
            values[next(iter(partition.outputs))] = called
        elif partition.outputs:
            results: Any = Proxy(called)
            for index, node in enumerate(partition.outputs):
                values[node] = results[index].node
    for node in m.graph.nodes:
        if node.op == "output":
            for input_node in node._input_nodes:
                copy_input(input_node)
            base.output(map_arg(node.args[0], values.__getitem__))
    split = GraphModule(attributes, base)
    split.meta["partition_names"] = {partition.submod_name for partition in partitions}
    return split


def _assigned(
    m: GraphModule, split_callback: Callable[[Node], int | str], affix: str | None
) -> tuple[dict[Node, Partition], list[Partition]]:
    """Return the partition of each node, and the partitions in the order of their first nodes."""
    partitions: dict[str, Partition] = {}
    part_of: dict[Node, Partition] = {}
    for node in m.graph.nodes:
        if node.op in ("placeholder", "get_attr", "output"):
            continue
        name = str(split_callback(node))
        name = name if affix is None else f"{affix}_{name}"
        part_of[node] = partitions.setdefault(name, Partition(name))
        part_of[node].nodes.append(node)
    return part_of, list(partitions.values())


def _note_use(part_of: dict[Node, Partition], defined: Node, user: Node) -> None:
    source, target = part_of.get(defined), part_of.get(user)
    if source is target:
        return
    if source is not None:
        source.outputs[defined] = None
    if target is not None:
        target.inputs[defined] = None
    if source is not None and target is not None:
        source.dependents[target] = None
        target.dependencies[source] = None


def _ordered(partitions: list[Partition]) -> list[Partition]:
    """Sort the partitions topologically by their dependencies.

    Raises:
        RuntimeError: Partitions depend on each other.
    """
    waiting = {partition: set(partition.dependencies) for partition in partitions}
    ready = [partition for partition in partitions if not waiting[partition]]
    ordered: list[Partition] = []
    while ready:
        partition = ready.pop()
        ordered.append(partition)
        for dependent in partition.dependents:
            waiting[dependent].discard(partition)
            if not waiting[dependent]:
                ready.append(dependent)
    if len(ordered) < len(partitions):
        raise RuntimeError("cycle exists between partitions!")
    return ordered


def _fill(
    m: GraphModule,
    partition: Partition,
    qualname_map: dict[str, str] | None,
    keep_node_name: bool,
    keep_input_name: bool,
    tuple_return: bool,
) -> None:
    """Write a part's graph."""
    graph, environment = partition.graph, partition.environment
    modules = [
        node
        for node in partition.inputs
        if node.op == "get_attr" and isinstance(_get_attr(m, node.target), Module)
    ]
    for node in modules:
        del partition.inputs[node]
    for index, node in enumerate(partition.inputs):
        environment[node] = graph.placeholder(node.name if keep_input_name else f"arg_{index}", node.type)
    for node in modules:
        environment[node] = graph.get_attr(node.target)
        partition.targets[node.target] = _get_attr(m, node.target)
    for node, made in environment.items():
        made.meta = dict(node.meta)
    for node in partition.nodes:
        target = node.target
        if node.op == "call_module":
            target = node.target.replace(".", "_")
            partition.targets[target] = _get_attr(m, node.target)
            if qualname_map is not None:
                qualname_map[f"{partition.submod_name}.{target}"] = node.target
        environment[node] = graph.create_node(
            node.op,
            target,
            map_arg(node.args, environment.__getitem__),
            map_arg(node.kwargs, environment.__getitem__),
            node.name if keep_node_name else None,
            node.type,
        )
        environment[node].meta = dict(node.meta)
    results = tuple(environment[node] for node in partition.outputs)
    graph.output(results[0] if len(results) == 1 and not tuple_return else results)
