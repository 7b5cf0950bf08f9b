"""Views and their bases under autograd: histories that follow writes (torch/csrc/autograd CopySlices, as_view).

A view's gradient function is valid for one version of the shared memory. After a write through another tensor, it is
recomputed from the base, as a strided view.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ...runtime.dispatch_key import Functionality, functionality_bit
from ...runtime.grad_mode import is_grad_enabled
from ...runtime.storage import address_of
from ..generated import functions as ops
from .creation import refuse_marked
from .node import AccumulateGrad, Edge, Node, edge_of, leaf_meta, next_sequence, set_edge

if TYPE_CHECKING:
    from ...runtime.tensor_impl import TensorImpl
    from ..tensor import Tensor

_BATCHED = functionality_bit(Functionality.Batched)


class ViewGeometry(NamedTuple):
    """View as sizes, strides and offset, in its own elements, relative to its base's first element.

    A view may show the parts of a complex base as real numbers, or pairs of real numbers as complex ones.
    """

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    shows: str | None = None

    @staticmethod
    def of(view: TensorImpl, base: TensorImpl) -> ViewGeometry:
        """Return the geometry of `view` in `base`. Raises RuntimeError if the dtypes do not correspond."""
        check_view(view, base)
        dtype = view._spec.dtype
        shows = None if dtype is base._spec.dtype else "pairs" if dtype.is_complex else "parts"
        if view._spec.numel == 0:
            return ViewGeometry(view._spec.sizes, view._spec.strides, 0, shows)
        distance = address_of(view._data) - address_of(base._data)
        return ViewGeometry(view._spec.sizes, view._spec.strides, distance // view._spec.itemsize, shows)

    def take(self, tensor: Tensor) -> Tensor:
        """Return the same elements of a contiguous or dense tensor with the base's geometry."""
        start: int = tensor.storage_offset()
        if self.shows is None:
            return tensor.as_strided(self.sizes, self.strides, self.offset + start)
        if self.shows == "parts":
            parts = ops.view_as_real(tensor)
            return parts.as_strided(self.sizes, self.strides, self.offset + 2 * start)
        pairs = tensor.as_strided(
            (*self.sizes, 2), (*(2 * stride for stride in self.strides), 1), 2 * self.offset + start
        )
        return ops.view_as_complex(pairs)


def check_view(view: TensorImpl, base: TensorImpl) -> None:
    """Raise RuntimeError for a view whose elements are neither the base's nor parts or pairs of them."""
    shown, own = view._spec.dtype, base._spec.dtype
    if shown is own or (
        shown.is_complex is not own.is_complex
        and (shown.is_complex or shown.is_floating_point)
        and (own.is_complex or own.is_floating_point)
        and shown.to_complex() is own.to_complex()
    ):
        return
    raise RuntimeError(
        f"a view of dtype {view.dtype} of a base of dtype {base.dtype} cannot be written to under autograd"
    )


def elements_overlap(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """Return whether two indices may share an address."""
    if 0 in sizes:
        return False
    reach = 0
    for stride, size in sorted(zip(strides, sizes, strict=True)):
        if size > 1:
            if stride <= reach:
                return True
            reach += (size - 1) * stride
    return False


class BaseGeometry:
    """Spec of a base, as a node saves it."""

    __slots__ = ("spec",)

    def __init__(self, tensor: TensorImpl) -> None:
        self.spec = tensor._spec.detached


class AsStridedBackward0(Node):
    """Backward of a strided view: the gradient embedded in zeros."""

    __slots__ = ("base", "geometry")

    def __init__(self, base: TensorImpl, base_edge: Edge | None, geometry: ViewGeometry) -> None:
        self.next_edges = (base_edge,)
        self.sequence = next_sequence()
        self.base = BaseGeometry(base)
        self.geometry = geometry
        self.hooks = None

    def backward(self, *grads: Any) -> Sequence[Any]:
        from .formulas.views import as_strided_backward

        spec, geometry = self.base.spec, self.geometry
        if geometry.shows is None:
            sizes, strides = spec.sizes, spec.strides
            return (
                as_strided_backward(
                    grads[0], sizes, strides, geometry.sizes, geometry.strides, geometry.offset
                ),
            )
        if elements_overlap(spec.sizes, spec.strides):
            raise RuntimeError("as_strided backward: the base's elements overlap; clone() it first")
        full = grads[0].new_empty_strided(spec.sizes, spec.strides, dtype=spec.dtype).zero_()
        part = geometry.take(full)
        if elements_overlap(geometry.sizes, geometry.strides):
            raise RuntimeError("as_strided backward: the view's elements overlap; clone() it before using it")
        part.copy_(grads[0])
        return (full,)


class CopySlices(Node):
    """Backward of a write to a view, seen from its base.

    The gradient outside the view passes through; the gradient inside goes through the write's own node.
    """

    __slots__ = ("base", "geometry", "node")

    def __init__(self, base: TensorImpl, base_edge: Edge | None, geometry: ViewGeometry, node: Node) -> None:
        self.base = BaseGeometry(base)
        self.geometry = geometry
        self.node = node
        self.next_edges = (base_edge, *node.next_edges[1:])
        self.specs = (base._spec.detached,)
        self.sequence = next_sequence()
        self.hooks = None

    def backward(self, *grads: Any) -> Sequence[Any]:
        spec = self.base.spec
        if elements_overlap(spec.sizes, spec.strides):
            raise RuntimeError("a write to a view of a base with overlapping elements has no gradient")
        copied = grads[0].new_empty_strided(spec.sizes, spec.strides)
        copied.copy_(grads[0])
        part = self.geometry.take(copied)
        # Under `create_graph`, saved results lead back to the node. That node releases them by itself, so a copy runs.
        node = copy.copy(self.node) if is_grad_enabled() else self.node
        inner = node.backward(part.clone())
        if self.next_edges[0] is None:
            return (None, *inner[1:])
        first = inner[0] if len(inner) else None
        if first is not None and first._spec.keys & _BATCHED:
            # The node may have more vmap levels than the incoming gradient: the copy needs room for all their
            # examples.
            room = copied.new_empty(()) + first.new_empty(())
            wider = room.new_empty_strided(spec.sizes, spec.strides, dtype=copied.dtype)
            wider.copy_(copied)
            copied, part = wider, self.geometry.take(wider)
        if first is None:
            part.zero_()
        else:
            part.copy_(first)
        return (copied, *inner[1:])

    def release(self) -> None:
        self.node.release()


def refresh(view: Any) -> None:
    """Recompute a view's history from its base, after a write through another tensor."""
    base = view._view_base
    meta = view._autograd
    if meta is None:
        meta = view._autograd = leaf_meta()
    cell = view._version_cell
    is_recorded = meta.edge is not None and meta.edge[0].__class__ is not AccumulateGrad
    if not base._spec.requires_grad and not is_recorded:
        return
    refuse_marked(view, "its base or another view of its base has been")
    meta.version = 0 if cell is None else cell[0]
    base_edge = edge_of(base) if base._spec.requires_grad else None
    if base_edge is not None and base_edge[0].__class__ is AccumulateGrad and is_recorded:
        return
    node = AsStridedBackward0(base, base_edge, ViewGeometry.of(view, base))
    node.specs = (view._spec.detached,)
    set_edge(meta, (node, 0))
    if not view._spec.requires_grad:
        view._spec = view._spec.twin
