"""Replacement of vector norms that need one pass by a fusible reduction.

Before::

    graph(%x : float32[4, 6]):
        %linalg_vector_norm : float32[4, 1] = aten.linalg_vector_norm(%x, 2, [-1], True)
        return [%linalg_vector_norm]

After::

    graph(%x : float32[4, 6]):
        %_vector_norm : float32[4, 1] = aten._vector_norm(%x, 2, [-1], True)
        return [%_vector_norm]

`linalg_vector_norm` calls it itself; the order is a string there. The pass replaces only norms of real numbers in
their own dtype. On the CPU it skips norms of all elements, for which `linalg_vector_norm` has a kernel of its own.
"""

from __future__ import annotations

from ...dispatch.composite.norm import ONE_PASS
from ...dispatch.core.op_overload import OpOverload, find_overload
from ...dispatch.layers.graph.graph import Graph, Node
from ..pointwise import bound_arguments


def reduce_to_norms(graph: Graph) -> bool:
    """Replace vector norms. Return True if any was replaced."""
    changed = False
    for node in graph.find_nodes(op="call_function"):
        if not isinstance(node.target, OpOverload) or node.target._entry.name != "aten::linalg_vector_norm":
            continue
        source, order, dims, keepdim, dtype = bound_arguments(node)
        if dims is None or dims == ():
            dims = tuple(range(source.val.ndim))
        if not _is_one_pass(source, order, dims, dtype):
            continue
        with graph.inserting_before(node):
            made = graph.call_function(
                find_overload("aten::_vector_norm"),
                (source, ONE_PASS[order], list(dims), keepdim),
                val=node.val,
            )
        node.replace_all_uses_with(made)
        graph.erase_node(node)
        changed = True
    return changed


def _is_one_pass(source: Node, order: object, dims: object, dtype: object) -> bool:
    spec = source.val
    if order not in ONE_PASS or dtype is not None or not isinstance(dims, tuple | list) or not dims:
        return False
    if not (spec.ndim and spec.dtype.is_floating_point) or any(d.__class__ is not int for d in dims):
        return False
    if spec.device.type == "cpu" and len(dims) == spec.ndim:
        return False
    return bool(spec.numel) and any(spec.sizes[d] > 1 for d in dims)
