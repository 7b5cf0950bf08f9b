"""Marks for the sizes of a tensor, set before a call of a compiled function (torch/_dynamo/decorators.py).

A mark is stored on the tensor under PyTorch's name for it, and is read when a call has no graph yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

DYNAMIC, WEAK, STATIC, RANGES = (
    "_dynamo_dynamic_indices", "_dynamo_weak_dynamic_indices", "_dynamo_static_indices", "_dynamo_dynamic_range",
)  # fmt: skip


class ConstraintViolationError(RuntimeError):
    """A marked dimension does not vary (`torch.fx.experimental.symbolic_shapes.ConstraintViolationError`)."""


class DimRange(NamedTuple):
    """Range of a marked dimension; None for a missing bound."""

    dim: int
    min: int | None
    max: int | None


class SizeMarks(NamedTuple):
    """Marks of a tensor's dimensions, counted from the front.

    Attributes:
        dynamic: Dimensions that must be dynamic.
        weak: Dimensions that are dynamic if possible.
        static: Dimensions with a graph for each size.
        ranges: Ranges of dynamic dimensions.
    """

    dynamic: frozenset[int]
    weak: frozenset[int]
    static: frozenset[int]
    ranges: tuple[DimRange, ...]


def mark_dynamic(
    t: Any,
    index: int | Sequence[int],
    *,
    hint_override: int | None = None,
    min: int | None = None,
    max: int | None = None,
    specialize_on: Sequence[Any] | None = None,
) -> None:
    """Have a dimension vary from the first call of a compiled function on (`torch._dynamo.mark_dynamic`).

    Args:
        t: a tensor that the function will be given.
        index: the dimension, or several.
        hint_override: has no effect.
        min: the least size that the dimension may have.
        max: the greatest.
        specialize_on: has no effect.

    A call raises ConstraintViolationError, a RuntimeError, if the size decides what the function computes, or is not in
    the range.

    Example:
        >>> import triten as tt
        >>> from triten._dynamo import mark_dynamic
        >>> double = tt.compile(lambda x: x * 2)
        >>> x = tt.ones(4, 2)
        >>> mark_dynamic(x, 0)
        >>> double(x).shape, double(tt.ones(9, 2)).shape
        (triten.Size([4, 2]), triten.Size([9, 2]))
    """
    for each in _indices(index):
        _mark(t, DYNAMIC, each)
        _mark(t, RANGES, DimRange(each, min, max))


def maybe_mark_dynamic(t: Any, index: int | Sequence[int]) -> None:
    """Mark a dimension dynamic without an error if it cannot vary (`torch._dynamo.maybe_mark_dynamic`)."""
    for each in _indices(index):
        _mark(t, WEAK, each)


def mark_static(t: Any, index: int | Sequence[int] | None = None) -> Any:
    """Have each size of a dimension have a graph of its own (`torch._dynamo.mark_static`).

    Args:
        t: a tensor. A class of modules is given back as it is: what a module holds is always taken as it is.
        index: the dimension, or several; None for all.

    Raises:
        TypeError: `t` is neither.
    """
    from ..nn.modules.module import Module
    from ..runtime.tensor_impl import TensorImpl

    if isinstance(t, type) and issubclass(t, Module):
        return t
    if not isinstance(t, TensorImpl):
        raise TypeError(f"mark_static expects a tensor/nn.Module class but received {type(t)}")
    for each in range(t.dim()) if index is None else _indices(index):
        _mark(t, STATIC, each)
    return None


def marks_of(tensor: Any) -> SizeMarks | None:
    """Return the marks of a tensor, or None."""
    state = vars(tensor)
    if DYNAMIC not in state and WEAK not in state and STATIC not in state:
        return None
    count = tensor._spec.ndim
    marked_dims = [
        frozenset([each % count for each in state.get(name, ()) if -count <= each < count])
        for name in (DYNAMIC, WEAK, STATIC)
    ]
    ranges = [
        DimRange(each.dim % count, each.min, each.max)
        for each in state.get(RANGES, ())
        if -count <= each.dim < count
    ]
    return SizeMarks(marked_dims[0], marked_dims[1], marked_dims[2], tuple(ranges))


def _indices(index: int | Sequence[int]) -> Sequence[int]:
    return (index,) if isinstance(index, int) else index


def _mark(tensor: Any, name: str, mark: Any) -> None:
    marks = vars(tensor).get(name)
    if marks is None:
        setattr(tensor, name, {mark})
    else:
        marks.add(mark)
