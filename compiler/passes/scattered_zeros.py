"""Replacement of zeros that a scatter copies by one expanded number.

Before::

    graph(%i : int64[4, 1], %g : float32[4, 1]):
        %new_zeros : float32[4, 6] = aten.new_zeros(%g, [4, 6])
        %scatter_add : float32[4, 6] = aten.scatter_add(%new_zeros, -1, %i, %g)
        return [%scatter_add]

After::

    graph(%i : int64[4, 1], %g : float32[4, 1]):
        %full : float32[] = aten.full([], 0, dtype=float32, device=cpu)
        %expand : float32[4, 6] = aten.expand(%full, [4, 6])
        %scatter_add : float32[4, 6] = aten.scatter_add(%expand, -1, %i, %g)
        return [%scatter_add]

An out-of-place scatter copies its first operand. So zeros are written once, and neither allocated nor read before. The
gradient of `gather` is of this kind.
"""

from __future__ import annotations

from ...dispatch.core.op_overload import OpOverload, find_overload
from ...dispatch.layers.graph.graph import Graph, Node
from ...runtime.tensor_spec import TensorSpec

ZEROS = frozenset({"aten::new_zeros", "aten::zeros", "aten::zeros_like"})
SCATTERS = frozenset({"aten::scatter_add", "aten::scatter.src", "aten::scatter.value"})


def scatter_into_a_number(graph: Graph) -> bool:
    """Replace zeros that only scatters copy. Return True if there were any."""
    results = set(graph.output_node.all_input_nodes)
    changed = False
    for node in graph.find_nodes(op="call_function"):
        if _name(node) not in ZEROS or node in results or not _are_copied(node):
            continue
        spec: TensorSpec = node.val
        number = TensorSpec.contiguous((), spec.dtype, spec.device)
        with graph.inserting_before(node):
            zero = graph.call_function(
                find_overload("aten::full"), ([], 0), {"dtype": spec.dtype, "device": spec.device}, val=number
            )
            made = graph.call_function(
                find_overload("aten::expand"),
                (zero, list(spec.sizes)),
                val=spec.replace(strides=(0,) * spec.ndim),
            )
        node.replace_all_uses_with(made)
        graph.erase_node(node)
        changed = True
    return changed


def _are_copied(node: Node) -> bool:
    """Return True if zeros are contiguous, and only scatters read them."""
    spec = node.val
    if not isinstance(spec, TensorSpec) or not spec.is_contiguous or spec.numel < 2:
        return False
    return bool(node.users) and all(
        _name(user) in SCATTERS
        and user.args[0] is node
        and user.all_input_nodes.count(node) == 1
        and user.val.is_contiguous
        for user in node.users
    )


def _name(node: Node) -> str:
    return node.target._entry.name if isinstance(node.target, OpOverload) else ""
