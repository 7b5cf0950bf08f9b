"""Replacement of reductions of views by reductions of the base.

Before::

    graph(%x : float32[4, 6, 8]):
        %relu : float32[4, 6, 8] = aten.relu(%x)
        %view : float32[24, 8] = aten.view(%relu, [24, 8])
        %sum_1 : float32[8] = aten.sum.dim_IntList(%view, [0])
        return [%sum_1]

After::

    graph(%x : float32[4, 6, 8]):
        %relu : float32[4, 6, 8] = aten.relu(%x)
        %sum_1 : float32[8] = aten.sum.dim_IntList(%relu, [0, 1])
        return [%sum_1]

So the gradient of a linear layer's bias is summed in the kernel that makes the summands. The pass skips a view that
merges reduced dimensions with others, and a result that would have other sizes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...dispatch.core.op_overload import OpOverload
from ...dispatch.layers.graph.graph import Graph, Node
from ...dispatch.structured.meta.dims import reduced_dims
from ..pointwise import bound_arguments

VIEWS = frozenset({"aten::view", "aten::_unsafe_view"})
OF_EVERYTHING = frozenset({"aten::sum", "aten::mean"})
OF_DIMENSIONS = frozenset({"aten::sum.dim_IntList", "aten::mean.dim", "aten::amax", "aten::amin"})
"""Reductions of one result over a list of dimensions, the second argument."""


def reduce_what_is_viewed(graph: Graph) -> bool:
    """Let reductions read the bases of their operands. Return True if any does."""
    changed = False
    for node in graph.find_nodes(op="call_function"):
        while _name(node) in OF_EVERYTHING | OF_DIMENSIONS and _reads_view(node):
            source = node.args[0].args[0]
            if _name(node) in OF_DIMENSIONS:
                dims = _dimensions_of(node, source)
                if dims is None:
                    break
                node.args = (source, dims, *node.args[2:])
                node.kwargs = {name: value for name, value in node.kwargs.items() if name != "dim"}
            else:
                node.args = (source, *node.args[1:])
            changed = True
    return changed


def _name(node: Node) -> str:
    return node.target._entry.name if isinstance(node.target, OpOverload) else ""


def _reads_view(node: Node) -> bool:
    """Return True if a step reads a view of another step's contiguous result."""
    view = node.args[0] if node.args else None
    if not isinstance(view, Node) or _name(view) not in VIEWS or not view.val.numel:
        return False
    source = view.args[0]
    return isinstance(source, Node) and source.op == "call_function" and bool(source.val.is_contiguous)


def _dimensions_of(node: Node, source: Node) -> list[int] | None:
    """Return the base's dimensions that a reduction of the view reduces; None if there are none."""
    view = node.args[0]
    dim_argument = bound_arguments(node)[1]
    dims = dim_argument if isinstance(dim_argument, tuple | list) else [dim_argument]
    if dim_argument is not None and any(d.__class__ is not int for d in dims):
        return None
    reduced = reduced_dims(dim_argument, view.val.ndim)
    base_dims: list[int] = []
    for mine, theirs in _matching(view.val.sizes, source.val.sizes):
        kinds = {d in reduced for d in mine if view.val.sizes[d] != 1}
        if len(kinds) > 1:
            return None
        if kinds == {True}:
            base_dims += theirs
    remaining_sizes = tuple([n for d, n in enumerate(source.val.sizes) if d not in base_dims])
    return base_dims if base_dims and remaining_sizes == tuple(node.val.sizes) else None


def _matching(a: Sequence[int], b: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """Return groups of dimensions of two shapes of one tensor that have the same elements.

    Example:
        >>> _matching((24, 8), (4, 6, 8))
        [([0], [0, 1]), ([1], [2])]
    """
    groups = []
    i = j = 0
    while i < len(a) and j < len(b):
        mine, theirs = [i], [j]
        while math.prod(a[d] for d in mine) != math.prod(b[d] for d in theirs):
            if math.prod(a[d] for d in mine) < math.prod(b[d] for d in theirs):
                mine.append(mine[-1] + 1)
            else:
                theirs.append(theirs[-1] + 1)
        groups.append((mine, theirs))
        i, j = mine[-1] + 1, theirs[-1] + 1
    if i < len(a) or j < len(b):  # of size 1
        groups.append((list(range(i, len(a))), list(range(j, len(b)))))
    return groups
