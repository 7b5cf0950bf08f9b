"""Creation marks of views: whether a write can go through the base's history (torch/csrc/autograd CreationMeta).

Some views have no history that a write could follow: those made while nothing was recorded, by an operator of several
views, or inside a custom Function. They are marked when made, and their views inherit the mark. A write with grad
mode on is refused with PyTorch's message.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any

from ...runtime.grad_mode import inference_enabled, state
from .node import AccumulateGrad, AutogradMeta
from .views_together import join_nodes

if TYPE_CHECKING:
    from ...runtime.tensor_impl import TensorImpl


class Creation(enum.Enum):
    """Origin of a view for which autograd forbids writes."""

    NO_GRAD = "no_grad"
    INFERENCE = "inference"
    ONE_OF_SEVERAL = "one of several"
    CUSTOM_FUNCTION = "custom function"


# Plain names: an enumeration lookup, or its hash, costs as much as a view.
_NO_GRAD, _INFERENCE, _ONE_OF_SEVERAL = Creation.NO_GRAD, Creation.INFERENCE, Creation.ONE_OF_SEVERAL
_BLOCKS = (
    " Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your code by moving both "
    "the view and the inplace either both inside the {0} block (if you don't want the inplace to be tracked) or both "
    "outside (if you want the inplace to be tracked)."
)
_REASONS = {
    Creation.NO_GRAD: _BLOCKS.format("no_grad"),
    Creation.INFERENCE: _BLOCKS.format("inference_mode"),
    Creation.ONE_OF_SEVERAL: (
        " This view is the output of a function that returns multiple views. Such functions do not allow the output "
        "views to be modified inplace. You should replace the inplace operation by an out-of-place one."
    ),
    Creation.CUSTOM_FUNCTION: (
        " This view was created inside a custom Function (or because an input was returned as-is) and the autograd "
        "logic to handle view+inplace would override the custom backward associated with the custom Function, leading "
        "to incorrect gradients. This behavior is forbidden. You can fix this by cloning the output of the custom "
        "Function."
    ),
}


def creation_of(view: TensorImpl) -> Creation | None:
    """Return the mark of a view; None for a view that follows its base."""
    return getattr(view, "_creation", None)


def version_at_creation(view: TensorImpl) -> int:
    """Return the version that the bytes had when a view of them was made."""
    return getattr(view, "_made_at", 0)


def mark_unrecorded(view: Any) -> None:
    """Mark a new view if this thread records nothing; the view requires grad as its base does."""
    if state.grad_enabled:
        return
    view._creation = _INFERENCE if inference_enabled and state.inference else _NO_GRAD
    if view._view_base._spec.requires_grad:
        spec = view._spec
        if not spec.requires_grad and (spec.dtype.is_floating_point or spec.dtype.is_complex):
            view._spec = spec.twin
            meta = view._autograd = AutogradMeta()
            meta.edge = meta.grad = None
            meta.version = view._version_cell[0]


def _records_nothing(creation: Creation | None) -> bool:
    return creation is _NO_GRAD or creation is _INFERENCE


def unmark(view: TensorImpl) -> None:
    """Undo `mark_unrecorded` for a view that is recorded after all."""
    if _records_nothing(creation_of(view)):
        view._creation = None
        view._spec = view._spec.detached
        if not hasattr(view._autograd, "tangents"):
            view._autograd = None


def is_unrecorded(tensor: TensorImpl) -> bool:
    """Return whether a tensor requires grad only because it is an unrecorded view of one that does."""
    base = tensor._view_base
    return base is not None and base._spec.requires_grad and _records_nothing(creation_of(tensor))


def mark_several(views: tuple[Any, ...], name: str, dim: int) -> tuple[Any, ...]:
    """Mark the views along a dimension that the operator `name` returned together, and join their nodes."""
    join_nodes(views, name, dim)
    for number, view in enumerate(views):
        if view._view_base is None:
            continue
        try:
            creation = view._creation
        except AttributeError:  # made elsewhere, unmarked
            creation = None
        if creation is not _NO_GRAD and creation is not _INFERENCE:
            view._creation = _ONE_OF_SEVERAL
            if view._autograd is not None:
                view._autograd.made_by = f"Output {number} of {name}"
    return views


def refuse_marked(view: TensorImpl, written: str) -> None:
    """Raise RuntimeError if `view` is marked. `written` completes the message ("is being", or the base "has been")."""
    creation = creation_of(view)
    if creation is None:
        return
    meta = view._autograd
    edge = None if meta is None else meta.edge
    made = getattr(meta, "made_by", None)
    if made is None and edge is not None and edge[0].__class__ is not AccumulateGrad:
        made = f"Output {edge[1]} of {edge[0].name().removesuffix('Backward0').removesuffix('Backward')}"
    if _records_nothing(creation) or made is None:
        start = (
            "A view was created in" if made is None else f"{made} is a view of a view which was created in"
        )
        inference = creation is Creation.INFERENCE
        mode, now = (
            ("inference mode", "in normal mode") if inference else ("no_grad mode", "with grad mode enabled")
        )
        text = f"{start} {mode} and {written} modified inplace {now}."
    else:
        text = f"{made} is a view and {written} modified inplace."
    raise RuntimeError(text + _REASONS[creation])
