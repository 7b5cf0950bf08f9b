"""Shared nodes of operators that split a tensor into views: one node joins the gradients of all views.

The views are recorded one by one, and `join_nodes` gives them a shared node. `record_whole` records an operator that a
mode or a subclass sees whole; its backward calls PyTorch's operators.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...runtime.tensor_spec import TensorSpec
from ..core.operator_entry import BELOW_AUTOGRAD, OperatorEntry
from ..core.whole_operators import recorders
from .node import Node, edge_of, next_sequence, set_history


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


class UnsafeSplitBackward0(SplitBackward0):
    """Backward of `unsafe_split` and `unsafe_chunk`."""

    __slots__ = ()


class UnsafeSplitWithSizesBackward0(SplitWithSizesBackward0):
    """Backward of `unsafe_split_with_sizes`."""

    __slots__ = ()


Together = SplitBackward0 | SplitWithSizesBackward0 | UnbindBackward0
NODES: dict[str, type[Together]] = {
    "Split": SplitBackward0,
    "SplitWithSizes": SplitWithSizesBackward0,
    "UnsafeSplit": UnsafeSplitBackward0,
    "UnsafeSplitWithSizes": UnsafeSplitWithSizesBackward0,
    "Unbind": UnbindBackward0,
}
"""Node classes by the operator's name in messages."""


def joined(node: Together, grads: Sequence[Any], how: str) -> Any:
    """Return the tensor's gradient from those of its views, with zeros for views without one."""
    from ..generated import functions as ops

    if not node.views:
        return getattr(ops, how)(_with_zeros(node, grads), node.dim)
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


def _with_zeros(node: Together, grads: Sequence[Any]) -> list[Any]:
    """Return the gradients of all views, with zeros for views without one, by PyTorch's operators."""
    from ..generated import functions as ops

    is_stacked = isinstance(node, UnbindBackward0)

    def zeros(spec: TensorSpec) -> Any:
        made = ops.zeros(() if is_stacked else spec.sizes, dtype=spec.dtype, device=spec.device)
        return made.expand(spec.sizes) if is_stacked else made

    return [zeros(spec) if grad is None else grad for spec, grad in zip(node.specs, grads, strict=True)]


def record_whole(op: OperatorEntry, key_set: int, values: Sequence[Any]) -> tuple[Any, ...]:
    """Call an operator of several views below autograd, and record it as one node.

    The arguments start with the tensor and end with the dimension.
    """
    from .creation import mark_several

    self, dim = values[0], values[-1]
    views: tuple[Any, ...] = tuple(op.call_with_keys(key_set & BELOW_AUTOGRAD, values))
    if not self._spec.requires_grad or self._spec.is_inference:
        return views
    name = _NAMES[op.name]
    node = NODES[name]()
    node.views = ()
    node.next_edges = (edge_of(self),)
    node.sequence = next_sequence()
    node.hooks = None
    node.dim = dim
    node.specs = tuple([view._spec.detached for view in views])
    for number, view in enumerate(views):
        set_history(view, node, number)
    return views if name.startswith("Unsafe") else mark_several(views, name, dim)


_NAMES = {
    "aten::chunk": "Split",
    "aten::split.Tensor": "Split",
    "aten::split.sizes": "SplitWithSizes",
    "aten::split_with_sizes": "SplitWithSizes",
    "aten::unbind.int": "Unbind",
    "aten::unsafe_chunk": "UnsafeSplit",
    "aten::unsafe_split.Tensor": "UnsafeSplit",
    "aten::unsafe_split_with_sizes": "UnsafeSplitWithSizes",
}

recorders.update(dict.fromkeys(_NAMES, record_whole))


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
