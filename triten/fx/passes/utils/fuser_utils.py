"""Fusion of nodes of a graph into submodules (torch/fx/passes/utils/fuser_utils.py)."""

from __future__ import annotations

import heapq
import operator
from collections.abc import Iterable, Sequence

from ...graph import Graph
from ...graph_module import GraphModule
from ...node import Node
from ..tools_common import stable_topological_sort

__all__ = [
    "erase_nodes",
    "fuse_as_graphmodule",
    "fuse_by_partitions",
    "insert_subgm",
    "topo_sort",
    "validate_partition",
]


def topo_sort(nodes: Sequence[Node]) -> list[Node]:
    """Sort nodes so that each comes after its inputs; otherwise their order remains.

    Raises:
        AssertionError: The nodes use each other in a cycle, or one is given twice.
    """
    position = {node: number for number, node in enumerate(nodes)}
    missing = {node: sum(each in position for each in node.all_input_nodes) for node in position}
    ready = [position[node] for node in position if not missing[node]]
    heapq.heapify(ready)
    ordered: list[Node] = []
    while ready:
        ordered.append(nodes[heapq.heappop(ready)])
        for user in ordered[-1].users:
            if user in missing:
                missing[user] -= 1
                if not missing[user]:
                    heapq.heappush(ready, position[user])
    if len(ordered) != len(nodes):
        raise AssertionError("topological sorted nodes doesn't have same length as input nodes")
    return ordered


def validate_partition(partition: Sequence[Node]) -> bool:
    """Return whether nodes can be fused: no path leads out of them and back into them.

    Example:
        >>> import triten as tt
        >>> from triten.fx.passes.utils.fuser_utils import validate_partition
        >>> x, exp, relu, add, output = tt.fx.symbolic_trace(lambda x: (y := x.exp()) + y.relu()).graph.nodes
        >>> validate_partition([exp, relu, add]), validate_partition([exp, add])
        (True, False)
    """
    inside = set(partition)
    waiting = [user for node in partition for user in node.users if user not in inside]
    seen: set[Node] = set()
    while waiting:
        node = waiting.pop()
        if node in inside:
            return False
        if node not in seen:
            seen.add(node)
            waiting += node.users
    return True


def fuse_as_graphmodule(
    gm: GraphModule,
    nodes: Sequence[Node],
    module_name: str,
    partition_lookup_table: Iterable[Node] | None = None,
    *,
    always_return_tuple: bool = False,
) -> tuple[GraphModule, tuple[Node, ...], tuple[Node, ...]]:
    """Return a module of copies of nodes, which remain in the graph.

    Args:
        gm: The module of the graph.
        nodes: The nodes, sorted by `topo_sort`.
        module_name: The name of the new module's class.
        partition_lookup_table: The same nodes; accepted as PyTorch's argument.
        always_return_tuple: If True, the module returns a tuple even of one result. Default: False.

    Returns:
        The module, the nodes that are its arguments, and the nodes that it returns, which others use.

    Raises:
        AssertionError: A node is not in the graph, or a path leads out of the nodes and back.
    """
    present = set(gm.graph.nodes)
    for node in nodes:
        if node.graph.owning_module is not gm:
            raise AssertionError(f"{node} doesn't belong to passed in graph module {gm._get_name()}")
        if node not in present:
            raise AssertionError(f"{node} has been removed from owning graph")
    if not validate_partition(nodes):
        raise AssertionError("Invalid partition, found dependency cycles")
    graph = Graph()
    inputs: dict[Node, Node] = {}
    copies: dict[Node, Node] = {}

    def inside(node: Node) -> Node:
        if node in copies:
            return copies[node]
        if node not in inputs:
            inputs[node] = graph.placeholder(node.name, type_expr=node.type)
            inputs[node].meta = node.meta.copy()
        return inputs[node]

    for node in nodes:
        copies[node] = graph.node_copy(node, inside)
    outputs = [node for node in nodes if any(user not in copies for user in node.users)]
    results = tuple(copies[node] for node in outputs)
    graph.output(results[0] if len(results) == 1 and not always_return_tuple else results)
    graph.lint()
    return GraphModule(gm, graph, module_name), tuple(inputs), tuple(outputs)


def insert_subgm(
    gm: GraphModule,
    sub_gm: GraphModule,
    orig_inputs: tuple[Node, ...],
    orig_outputs: tuple[Node, ...],
    insertion_point: Node | None = None,
) -> GraphModule:
    """Call a module of `fuse_as_graphmodule` in the graph, and use its results for those of the original nodes.

    Args:
        gm: The module of the graph.
        sub_gm: The new module; the name of its class becomes its name.
        orig_inputs, orig_outputs: As `fuse_as_graphmodule` returns them.
        insertion_point: The node after which it is called. Default: the last one of `orig_outputs`.

    Raises:
        AssertionError: There is neither an insertion point nor an output.
    """
    if insertion_point is None:
        insertion_point = next((node for node in reversed(gm.graph.nodes) if node in orig_outputs), None)
        if insertion_point is None:
            raise AssertionError(
                "Cannot determine insertion point: no insertion_point provided and orig_outputs is empty. Pass the "
                "last partition node as insertion_point."
            )
    name = type(sub_gm).__name__
    gm.add_submodule(name, sub_gm)
    with gm.graph.inserting_after(insertion_point):
        call = gm.graph.call_module(name, args=orig_inputs)
    is_tuple = isinstance(sub_gm.graph.output_node().args[0], tuple)
    if not is_tuple:
        orig_outputs[0].replace_all_uses_with(call, propagate_meta=True)
        return gm
    with gm.graph.inserting_before(call.next):
        for number, node in enumerate(orig_outputs):
            node.replace_all_uses_with(
                gm.graph.call_function(operator.getitem, (call, number)), propagate_meta=True
            )
    if orig_outputs:
        call.meta["val"] = tuple(node.meta.get("val") for node in orig_outputs)
    return gm


def erase_nodes(gm: GraphModule, nodes: Sequence[Node]) -> None:
    """Remove nodes, sorted by `topo_sort`, from the graph."""
    for node in reversed(nodes):
        gm.graph.erase_node(node)


def fuse_by_partitions(
    gm: GraphModule,
    partitions: Sequence[Iterable[Node]],
    prefix: str = "fused_",
    always_return_tuple: bool = False,
) -> GraphModule:
    """Replace each of several sets of nodes by a submodule, in place.

    Args:
        gm: The module of the graph.
        partitions: The sets: lists or dicts whose keys are nodes.
        prefix: The submodules have this name and a number. Default: ``"fused_"``.
        always_return_tuple: If True, the submodules return tuples even of one result. Default: False.

    Returns:
        The module. `recompile` writes its code anew.

    Raises:
        AssertionError: A set leads out of itself and back, or a node is in two sets.

    Example:
        >>> import triten as tt
        >>> from triten.fx.passes.utils.fuser_utils import fuse_by_partitions
        >>> module = tt.fx.symbolic_trace(lambda x: x.exp().relu().sum())
        >>> x, exp, relu, total, output = module.graph.nodes
        >>> fused = fuse_by_partitions(module, [[exp, relu]])
        >>> [node.name for node in fused.graph.nodes]
        ['x', 'fused_0', 'sum_1', 'output']
    """
    for number, partition in enumerate(partitions):
        nodes = topo_sort(list(partition))
        sub_gm, inputs, outputs = fuse_as_graphmodule(
            gm, nodes, f"{prefix}{number}", always_return_tuple=always_return_tuple
        )
        insert_subgm(gm, sub_gm, inputs, outputs, nodes[-1])
        erase_nodes(gm, nodes)
    stable_topological_sort(gm)
    gm.graph.lint()
    return gm
