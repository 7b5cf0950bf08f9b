"""Which values forward keeps for backward: as few bytes as can be, where all else is computed again.

The choice is a minimum cut (AOTAutograd's `min_cut_rematerialization_partition`). Every value is an edge whose capacity
is the bytes that it holds; a value that may be computed again has edges of infinite capacity from its operands; what
may not comes from the source, and what backward reads goes to the sink. The edges of the cut are the values to keep. Of
several least cuts the one nearest to backward is taken, in which the fewest steps run twice.

Computed again are views, copies, constants and pointwise operators, which run as fused kernels. Products, convolutions,
reductions, scans and draws of random numbers are not, and neither is the last step of a long chain.

What eager's backward does not hold may change before backward runs: an input of the call, which its owner may write to,
and the memory of a result. So those are kept only where backward itself reads them.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Collection, Sequence

from ..dispatch.core.op_overload import OpOverload
from ..dispatch.layers.graph.graph import Graph, Node
from ..runtime.tensor_spec import TensorSpec
from .max_flow import FlowNetwork

LONGEST_CHAIN = 16
"""Pointwise steps, one reading the other, that are computed again to spare a value."""

COPIES = frozenset({"clone", "_to_copy", "masked_fill", "tril", "triu", "fill"})
"""Operators without the tag `pointwise` that take as long as a copy."""

CONSTANTS = frozenset({
    "empty", "empty_strided", "empty_like", "zeros", "zeros_like", "ones", "ones_like", "full", "full_like",
    "scalar_tensor", "_arange",
})  # fmt: skip
"""Operators that write numbers which are in the graph."""


def values_to_keep(
    graph: Graph,
    wanted: Collection[Node],
    read: Collection[Node],
    forward: Collection[Node],
    external: Collection[Node],
    written: Collection[Node],
    held: Collection[Node],
) -> set[Node]:
    """The values that forward keeps for backward, inputs among them.

    Args:
        graph: forward and backward as one.
        wanted: the values without gradients that steps with gradients read.
        read: the values of forward that eager's backward reads.
        forward: the steps that results need. What is none of them runs once, in backward, if it is not kept.
        external: the inputs, and the results, whose memory others have.
        written: the inputs that the graph writes to, which have other elements when backward runs.
        held: the inputs that live on whether they are kept or not.
    """
    needed = needed_for(wanted)
    before = [node for node in graph.nodes if node in needed]
    roots = roots_of(before)
    shared = {roots[node] for node in external if node in roots}
    guarded = shared - {roots[node] for node in read if node in roots} | set(written)
    number = {node: 2 * i + 2 for i, node in enumerate(before)}
    network = FlowNetwork(2 * len(before) + 2)
    depths: dict[Node, int] = {}
    for node in before:
        here, root = number[node], roots[node]
        runs_once = node.op != "placeholder" and node not in forward
        depths[node] = depth = 0 if node.op == "placeholder" else _depth(node, depths)
        # A view of an input is taken from the input again.
        is_view_of_input = root is not node and root.op == "placeholder"
        if root in guarded or is_view_of_input or (runs_once and not may_run_twice(node)):
            network.add_edge(here, here + 1, math.inf)
        else:
            network.add_edge(here, here + 1, 0 if root in held else bytes_of(node, root))
        if not depth and not runs_once:
            network.add_edge(0, here, math.inf)
            continue
        for given in node.all_input_nodes:
            network.add_edge(number[given] + 1, here, math.inf)
    for node in wanted:
        network.add_edge(number[node] + 1, 1, math.inf)
    network.maximum_flow(0, 1)
    behind = network.sink_side(1)
    return {node for node in before if number[node] not in behind and number[node] + 1 in behind}


def needed_for(targets: Collection[Node], given: Collection[Node] = ()) -> set[Node]:
    """The targets and all that they are computed from; what is given is not looked behind."""
    found: set[Node] = set()
    pending = list(targets)
    while pending:
        node = pending.pop()
        if node not in found:
            found.add(node)
            pending += () if node in given else node.all_input_nodes
    return found


def is_view(node: Node) -> bool:
    """Whether a step gives a tensor, or several, over the memory of its first operand."""
    if not isinstance(node.target, OpOverload):
        return False
    schema = node.target._entry.schema
    return node.target._opname == "_unsafe_view" or any(r.alias_info is not None for r in schema.returns)


def roots_of(nodes: Sequence[Node]) -> dict[Node, Node]:
    """For each step the one that made the memory in which its result is."""
    roots: dict[Node, Node] = {}
    for node in nodes:
        given = node.all_input_nodes
        source = given[0] if given and is_view(node) else None
        if node.target is operator.getitem and (
            is_view(given[0]) or not isinstance(given[0].val, tuple | list)
        ):
            source = given[0]
        roots[node] = node if source is None else roots.get(source, source)
    return roots


def bytes_of(node: Node, root: Node) -> float:
    """The bytes that live on while a value does; infinitely many for what is no single tensor."""
    if not isinstance(node.val, TensorSpec):
        return math.inf
    spec = root.val if isinstance(root.val, TensorSpec) else node.val
    # A value without elements, too, takes the place of one in a call.
    return max(spec.numel * spec.itemsize, 1)


def may_run_twice(node: Node) -> bool:
    """Whether a step gives the same bits again, in a time that reading its operands takes."""
    if node.target is operator.getitem:
        return True
    if node.op != "call_function" or node.is_impure or not isinstance(node.target, OpOverload):
        return False
    if is_view(node) or node.target._opname in CONSTANTS:
        return True
    return "pointwise" in node.target._entry.tags or node.target._opname in COPIES


def _depth(node: Node, depths: dict[Node, int]) -> int:
    """How many steps run again for a value, views not counted, and 1 at least; 0 for what never runs again."""
    if not may_run_twice(node):
        return 0
    given = node.all_input_nodes
    if node.target is operator.getitem and not depths.get(given[0]):
        return 0
    before = max((depths.get(n, 0) for n in given), default=0)
    if is_view(node) or node.target is operator.getitem:
        return max(before, 1)
    return 0 if before >= LONGEST_CHAIN else before + 1
