"""Views of distributed tensors: what is written to one is written to its base, and what cannot be is refused.

A view's part is a view of the base's part, if nothing had to be sent. Autograd knows views by their strides in a memory
that distributed tensors do not have, so that it cannot follow writes to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...runtime.grad_mode import is_grad_enabled
from .dtensor import DTensor, Part
from .spec import DTensorSpec

__all__ = ["check_view", "check_writes", "tie_views"]


def tie_views(
    viewed: Sequence[int | None], sources: Sequence[DTensorSpec | None], tensors: Sequence[Any], made: Any
) -> None:
    """Tie views to their bases, whose version counters they share.

    Args:
        viewed: For each result, the index of the tensor that it views, or None.
        sources: Specs of the tensors that were redistributed; None for the others.
        tensors: Tensor arguments of the call.
        made: Results of the call.
    """
    results = made if isinstance(made, tuple | list) else (made,)
    flat = [each for value in results for each in (value if isinstance(value, tuple | list) else (value,))]
    for tensor_index, result in zip(viewed, flat, strict=False):
        if (
            tensor_index is None
            or not isinstance(result, DTensor)
            or not isinstance(tensors[tensor_index], DTensor)
        ):
            continue
        base = tensors[tensor_index]
        part: Part = result._data
        part.is_copy = sources[tensor_index] is not None or base._data.is_copy
        part.base = base if base._data.base is None else base._data.base
        if not part.is_copy and not base._spec.is_inference:
            result._version_cell = cell = base.version_cell()
            part.version = cell[0]


def check_writes(tensors: Sequence[Any], written: Sequence[int], name: str) -> None:
    """Raise RuntimeError for a write that would not reach the base, or that autograd would not record."""
    records = is_grad_enabled()
    for index in written:
        tensor = tensors[index]
        part: Any = tensor._data if isinstance(tensor, DTensor) else None
        if part is None or part.base is None:
            continue
        if part.is_copy:
            raise RuntimeError(
                f"{name}: cannot write to a view of a DTensor that had to be redistributed, since its base would not "
                f"change: {part.spec}. Redistribute the base before, or clone() the view"
            )
        if records and (part.base._spec.requires_grad or any(each._spec.requires_grad for each in tensors)):
            raise RuntimeError(
                f"{name}: a write to a view of a DTensor cannot be recorded: {part.spec}. Write to the base, or "
                "clone() the view"
            )


def check_view(tensor: DTensor, part: Part, name: str) -> None:
    """Raise RuntimeError for a view whose gradient function is older than its base's elements."""
    base = part.base
    if (
        base is not None
        and not part.is_copy
        and tensor._spec.requires_grad
        and not base.is_leaf
        and tensor._version_cell is not None
        and tensor._version_cell[0] != part.version
        and is_grad_enabled()
    ):
        raise RuntimeError(
            f"{name}: the base of a view of a DTensor was written to since the view was made: {part.spec}. Make it anew"
        )
