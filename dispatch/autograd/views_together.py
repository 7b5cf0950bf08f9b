"""Shared nodes of operators that split a tensor into views: one node joins the gradients of all views."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .node import Node, next_sequence


class SplitBackward0(Node):
    """Backward of `split` and `chunk`: concatenates the parts' gradients."""

    __slots__ = ("dim", "views")

    dim: int
    views: Sequence[Node]

    def backward(self, *grads: Any) -> Sequence[Any]:
        return (joined(self, grads, "cat"),)


class SplitWithSizesBackward0(Node):
    """Backward of `split_with_sizes`."""

    __slots__ = ("dim", "views")

    dim: int
    views: Sequence[Node]

    def backward(self, *grads: Any) -> Sequence[Any]:
        return (joined(self, grads, "cat"),)


class UnbindBackward0(Node):
    """Backward of `unbind`: stacks the slices' gradients."""

    __slots__ = ("dim", "views")

    dim: int
    views: Sequence[Node]

    def backward(self, *grads: Any) -> Sequence[Any]:
        return (joined(self, grads, "stack"),)


Together = SplitBackward0 | SplitWithSizesBackward0 | UnbindBackward0
NODES: dict[str, type[Together]] = {
    "Split": SplitBackward0,
    "SplitWithSizes": SplitWithSizesBackward0,
    "Unbind": UnbindBackward0,
}
"""Node classes by the operator's name in messages."""


def joined(node: Together, grads: Sequence[Any], how: str) -> Any:
    """Return the tensor's gradient from those of its views, with zeros for views without one."""
    from ..generated import functions as ops

    present = [number for number, grad in enumerate(grads) if grad is not None]
    if len(present) <= 1:
        return node.views[present[0]].backward(grads[present[0]])[0] if present else None
    like = grads[present[0]]
    zeros: dict[tuple[int, ...], Any] = {}
    parts = []
    for spec, grad in zip(node.specs, grads, strict=True):
        if grad is None:
            grad = zeros.get(spec.sizes)
            if grad is None:
                grad = zeros[spec.sizes] = like.new_zeros(spec.sizes)
        parts.append(grad)
    return getattr(ops, how)(parts, node.dim)


def join_nodes(views: Sequence[Any], name: str, dim: int) -> None:
    """Give separately recorded views of one tensor a shared node."""
    if not views:
        return
    edges = [None if view._autograd is None else view._autograd.edge for view in views]
    first = edges[0]
    if first is None or len(first[0].next_edges) != 1:
        return
    source = first[0].next_edges[0]
    for edge in edges:
        if edge is None or edge[1] or len(edge[0].specs) != 1 or list(edge[0].next_edges) != [source]:
            return
    node = NODES[name]()
    node.views = tuple([edge[0] for edge in edges if edge is not None])
    node.next_edges = (source,)
    node.sequence = next_sequence()
    node.hooks = None
    node.dim = dim
    node.specs = tuple([each.specs[0] for each in node.views])
    for number, view in enumerate(views):
        view._autograd.edge = node, number
