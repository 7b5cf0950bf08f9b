"""Replacement of a reduction and an unsqueeze by a reduction with keepdim.

Before::

    graph(%x : float32[4, 6]):
        %mean : float32[4] = aten.mean.dim(%x, [-1])
        %unsqueeze : float32[4, 1] = aten.unsqueeze(%mean, 1)
        %sub : float32[4, 6] = aten.sub.Tensor(%x, %unsqueeze)
        return [%sub]

After::

    graph(%x : float32[4, 6]):
        %mean : float32[4, 1] = aten.mean.dim(%x, [-1], keepdim=True)
        %sub : float32[4, 6] = aten.sub.Tensor(%x, %mean)
        return [%sub]

So a kernel over rows need not go through a view. The pass skips a reduction with another reader, and a view that is a
result of the program.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...dispatch.core.op_overload import OpOverload
from ...dispatch.layers.graph.graph import Graph, Node
from ...runtime.tensor_spec import TensorSpec
from ..reductions import OPERATORS

VIEWS = frozenset({"aten::unsqueeze", "aten::view"})


def keep_dimensions(graph: Graph) -> bool:
    """Replace views of reductions by reductions that keep their dimensions. Return True if any was replaced."""
    results = set(graph.output_node.all_input_nodes)
    changed = False
    for node in graph.nodes:
        if node in results or _name(node) not in VIEWS:
            continue
        source = node.args[0]
        if not isinstance(source, Node) or not _is_reduced(source) or len(source.users) != 1:
            continue
        if not _puts_back(node, source):
            continue
        names = [a.name for a in source.target._entry.schema.arguments]
        index = names.index("keepdim")
        if len(source.args) > index:
            source.args = (*source.args[:index], True, *source.args[index + 1 :])
        else:
            source.kwargs = {**source.kwargs, "keepdim": True}
        source.val = node.val
        node.replace_all_uses_with(source)
        graph.erase_node(node)
        changed = True
    return changed


def _name(node: Node) -> str:
    return node.target._entry.name if isinstance(node.target, OpOverload) else ""


def _is_reduced(node: Node) -> bool:
    """Return True if a step is a reduction with one result and without keepdim."""
    if _name(node) not in OPERATORS or not isinstance(node.val, TensorSpec):
        return False
    names = {a.name for a in node.target._entry.schema.arguments}
    return {"keepdim", "dim"} <= names and bool(node.args[0].val.ndim > node.val.ndim)


def _puts_back(view: Node, source: Node) -> bool:
    """Return True if a view restores the reduced dimensions as size 1."""
    sizes = source.args[0].val.sizes
    index = [a.name for a in source.target._entry.schema.arguments].index("dim")
    reduced_dims = source.args[index] if len(source.args) > index else source.kwargs.get("dim")
    dims: Sequence[Any] = reduced_dims if isinstance(reduced_dims, tuple | list) else [reduced_dims]
    if any(d.__class__ is not int for d in dims) or not sizes:
        return False
    reduced = {d % len(sizes) for d in dims} if dims else set(range(len(sizes)))
    keepdim_sizes = tuple([1 if d in reduced else n for d, n in enumerate(sizes)])
    return bool(view.val.sizes == keepdim_sizes and view.val.is_contiguous)
