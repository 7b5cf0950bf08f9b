"""Choice of the values that forward saves for backward: the fewest bytes, with recomputation of the rest.

The choice is a minimum cut (AOTAutograd's `min_cut_rematerialization_partition`):

- Every value is an edge whose capacity is its size in bytes.
- A recomputable value has edges of infinite capacity from its operands; any other value has one from the source.
- Values that backward reads have edges to the sink.
- The edges of the cut are the values to save.

Among several minimum cuts, the one nearest to backward recomputes the fewest steps.

Views, copies, constants and pointwise operators are recomputed, since they run as fused kernels. Matmuls,
convolutions, reductions, scans and random ops are not recomputed, nor is the last step of a long chain.

An input of the call and the memory of a result may change before backward runs, as eager's backward does not hold
them. They are saved only if eager's backward reads them.
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
    targets: Collection[Node],
    read: Collection[Node],
    forward: Collection[Node],
    external: Collection[Node],
    written: Collection[Node],
    held: Collection[Node],
) -> set[Node]:
    """Return the values that forward saves for backward, including inputs.

    Args:
        graph: The joint graph of forward and backward.
        targets: The values without gradients that steps with gradients read.
        read: The values of forward that eager's backward reads.
        forward: The steps that results need. Other steps run once, in backward, unless their value is saved.
        external: The inputs and results, whose memory is visible to the caller.
        written: The inputs that the graph writes to, which have other elements when backward runs.
        held: The inputs that stay alive whether they are saved or not.
    """
    needed = needed_for(targets)
    before = [node for node in graph.nodes if node in needed]
    roots = roots_of(before)
    shared = {roots[node] for node in external if node in roots}
    guarded = shared - {roots[node] for node in read if node in roots} | set(written)
    number = {node: 2 * i + 2 for i, node in enumerate(before)}
    network = FlowNetwork(2 * len(before) + 2)
    depths: dict[Node, int] = {}
    for node in before:
        vertex, root = number[node], roots[node]
        runs_once = node.op != "placeholder" and node not in forward
        depths[node] = depth = 0 if node.op == "placeholder" else _depth(node, depths)
        # A view of an input is taken from the input again.
        is_view_of_input = root is not node and root.op == "placeholder"
        if root in guarded or is_view_of_input or (runs_once and not may_run_twice(node)):
            network.add_edge(vertex, vertex + 1, math.inf)
        else:
            network.add_edge(vertex, vertex + 1, 0 if root in held else bytes_of(node, root))
        if not depth and not runs_once:
            network.add_edge(0, vertex, math.inf)
            continue
        for operand in node.all_input_nodes:
            network.add_edge(number[operand] + 1, vertex, math.inf)
    for node in targets:
        network.add_edge(number[node] + 1, 1, math.inf)
    network.maximum_flow(0, 1)
    behind = network.sink_side(1)
    return {node for node in before if number[node] not in behind and number[node] + 1 in behind}


def needed_for(targets: Collection[Node], boundary: Collection[Node] = ()) -> set[Node]:
    """Return the targets and all their ancestors, stopping at `boundary` nodes."""
    needed: set[Node] = set()
    pending = list(targets)
    while pending:
        node = pending.pop()
        if node not in needed:
            needed.add(node)
            pending += () if node in boundary else node.all_input_nodes
    return needed


def is_view(node: Node) -> bool:
    """Return True if a step returns one or more views of its first operand."""
    if not isinstance(node.target, OpOverload):
        return False
    schema = node.target._entry.schema
    return node.target._opname == "_unsafe_view" or any(r.alias_info is not None for r in schema.returns)


def roots_of(nodes: Sequence[Node]) -> dict[Node, Node]:
    """Return for each step the step that owns the memory of its result."""
    roots: dict[Node, Node] = {}
    for node in nodes:
        operands = node.all_input_nodes
        source = operands[0] if operands and is_view(node) else None
        if node.target is operator.getitem and (
            is_view(operands[0]) or not isinstance(operands[0].val, tuple | list)
        ):
            source = operands[0]
        roots[node] = node if source is None else roots.get(source, source)
    return roots


def bytes_of(node: Node, root: Node) -> float:
    """Return the bytes that a live value holds; infinity for several results."""
    if not isinstance(node.val, TensorSpec):
        return math.inf
    spec = root.val if isinstance(root.val, TensorSpec) else node.val
    # A value without elements, too, takes the place of one in a call.
    return max(spec.numel * spec.itemsize, 1)


def may_run_twice(node: Node) -> bool:
    """Return True if recomputing a step is bitwise identical and costs about as much as reading its operands."""
    if node.target is operator.getitem:
        return True
    if node.op != "call_function" or node.is_impure or not isinstance(node.target, OpOverload):
        return False
    if is_view(node) or node.target._opname in CONSTANTS:
        return True
    return "pointwise" in node.target._entry.tags or node.target._opname in COPIES


def _depth(node: Node, depths: dict[Node, int]) -> int:
    """Return the number of steps, without views, that recomputing a value runs, at least 1; 0 if it is not
    recomputed."""
    if not may_run_twice(node):
        return 0
    operands = node.all_input_nodes
    if node.target is operator.getitem and not depths.get(operands[0]):
        return 0
    before = max((depths.get(n, 0) for n in operands), default=0)
    if is_view(node) or node.target is operator.getitem:
        return max(before, 1)
    return 0 if before >= LONGEST_CHAIN else before + 1
