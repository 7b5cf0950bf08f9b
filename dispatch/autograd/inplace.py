"""In-place operators under autograd: checks, and rebased histories (torch VariableTypeUtils)."""

from __future__ import annotations

import gc

from ...runtime.tensor_impl import TensorImpl
from ...runtime.transform_stack import note_tracked, stack
from ...runtime.version_cell import may_have_views
from .creation import refuse_marked, version_at_creation
from .node import AccumulateGrad, Edge, Node, edge_of, leaf_meta, set_edge
from .view_history import CopySlices, ViewGeometry, check_view, refresh


def check_inplace(tensor: TensorImpl) -> None:
    """Raise an error for a write that no history can follow: to a leaf that requires grad, or to a view of one or of
    another dtype.

    Called with grad mode on, before the write.
    """
    base = tensor._view_base
    if base is not None:
        refuse_marked(tensor, "is being")
        check_view(tensor, base)
    if not tensor._spec.requires_grad:
        return
    if base is None:
        meta = tensor._autograd
        if meta.edge is None or meta.edge[0].__class__.__name__ == "AccumulateGrad":
            raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")
    else:
        # A base that does not require grad is a leaf too: its view's history has nowhere to go.
        meta = base._autograd if base._spec.requires_grad else None
        if meta is None or meta.edge is None or meta.edge[0].__class__.__name__ == "AccumulateGrad":
            raise RuntimeError(
                "a view of a leaf Variable that requires grad is being used in an in-place operation."
            )


def inplace_edge(tensor: TensorImpl) -> Edge | None:
    """Return the edge of the tensor before it is written to."""
    return edge_of(tensor) if tensor._spec.requires_grad else None


def rebase_history(tensor: TensorImpl, node: Node) -> None:
    """Make `node` the gradient function of a tensor that was written in place.

    The history of a view's base becomes a `CopySlices` around the node; the view's own is derived from the base.
    """
    base = tensor._view_base
    if base is None:
        _set_edge(tensor, (node, 0), 1)
        return
    base_edge = edge_of(base) if base._spec.requires_grad else None
    geometry = ViewGeometry.of(tensor, base)
    _set_edge(base, (CopySlices(base, base_edge, geometry, node), 0), 2)
    refresh(tensor)


def _set_edge(tensor: TensorImpl, edge: Edge, holders: int) -> None:
    """Store a history; `holders` counts the written tensors that share the version counter."""
    meta = tensor._autograd
    if meta is None:
        meta = tensor._autograd = leaf_meta()
    set_edge(meta, edge)
    cell = tensor._version_cell
    meta.version = 0 if cell is None else cell[0]
    if not tensor._spec.requires_grad:
        tensor._spec = tensor._spec.twin
        if cell is not None and may_have_views(tensor, holders + 1):  # this function's `cell`
            tell_views(tensor, cell)
        if stack.levels:
            note_tracked(tensor)


def tell_views(base: TensorImpl, cell: list[int]) -> None:
    """Update views made before their base required grad, found as the other holders of its version counter."""
    for holder in gc.get_referrers(cell):
        if isinstance(holder, TensorImpl) and holder._view_base is base and not holder._spec.requires_grad:
            holder._spec = holder._spec.twin
            if holder._autograd is None:
                holder._autograd = leaf_meta()
            holder._autograd.version = -1


def forget_history(base: TensorImpl) -> None:
    """Take a tensor and its views out of the graph of a transform that has ended.

    Nodes that saved the tensor stay as they are: no gradient by it is asked of them any more.
    """
    for tensor in (base, *_views_of(base)):
        tensor._spec = tensor._spec.detached
        tensor._autograd = None


def _views_of(base: TensorImpl) -> list[TensorImpl]:
    if not may_have_views(base):  # finding referrers scans all objects of the process
        return []
    return [h for h in gc.get_referrers(base) if isinstance(h, TensorImpl) and h._view_base is base]


def follow_leaf(base: TensorImpl) -> None:
    """Update views made before a leaf began or stopped to require grad, so that they follow the leaf.

    A view is a leaf unless its memory was written after its creation; then its history leads to the base. Views are
    found among the objects that refer to the base, so the caller first checks that views may exist.
    """
    for holder in _views_of(base):
        spec, meta = holder._spec, holder._autograd
        if base._spec.requires_grad:
            if spec.requires_grad or not (spec.dtype.is_floating_point or spec.dtype.is_complex):
                continue
            if meta is None:
                meta = holder._autograd = leaf_meta()
            meta.follows, meta.version = True, version_at_creation(holder)
        elif (
            spec.requires_grad
            and getattr(meta, "follows", False)
            and (meta.edge is None or meta.edge[0].__class__ is AccumulateGrad)
        ):
            meta.follows = False
        else:
            continue
        holder._spec = spec.twin
