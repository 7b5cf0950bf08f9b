"""Plans of operators that return several views along a dimension: they run the views' own plans in order."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...runtime.tensor_spec import TensorSpec
from ...runtime.traceback_filter import hide_inner_frames
from ..autograd.creation import mark_several
from ..core.kernel_function import Plan
from ..core.operator_entry import OperatorEntry
from ..plans.delegated import plan_of_part
from ..structured.meta.dims import wrap_dim

if TYPE_CHECKING:
    from ..tensor import Tensor

MAX_PARTS = 64
"""Maximum number of views that a plan creates at once; more views are created one by one."""
MAX_VIEWS = 1 << 26
"""Maximum number of views of one call: the Python objects of more would take tens of gigabytes."""


def refuse_too_many_views(name: str, count: int) -> None:
    """Raise RuntimeError if a call would return more than `MAX_VIEWS` views."""
    if count > MAX_VIEWS:
        raise RuntimeError(
            f"{name}: {count} views are more than {MAX_VIEWS}; pass a smaller tensor or larger parts"
        )


def _plan_several(
    op: OperatorEntry,
    key_set: int,
    args: Sequence[Any],
    part: str,
    of_each: Sequence[tuple[Any, ...]],
    node: str,
) -> Plan | None:
    """Plan the views that `part` creates from a call's tensor, one for each tuple of arguments."""
    if len(of_each) > MAX_PARTS:
        return None
    plans = []
    for view_args in of_each:
        plan = plan_of_part(op, key_set, args, part, (args[0], *view_args))
        if plan is None:
            return None
        plans.append(plan)
    dim = wrap_dim(args[-1], args[0]._spec.ndim)

    def planned(self: Tensor) -> tuple[Tensor, ...]:
        try:
            return mark_several(tuple([plan(self) for plan in plans]), node, dim)
        except BaseException:
            hide_inner_frames()
            raise

    return planned


def plan_split(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan | None:
    """Plan views of equal size; the composite handles empty and invalid calls."""
    self, length, dim = args
    if length <= 0:
        return None
    size = _size_along(self._spec, dim)
    if not 0 < size <= MAX_PARTS * length:
        return None
    return _plan_slices(op, key_set, args, [*range(length, size, length), size], "Split")


def plan_split_with_sizes(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan | None:
    """Plan parts of the sizes given."""
    self, sizes, dim = args
    if not sizes or any(n < 0 for n in sizes) or sum(sizes) != _size_along(self._spec, dim):
        return None
    return _plan_slices(op, key_set, args, list(itertools.accumulate(sizes)), "SplitWithSizes")


def plan_chunk(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan | None:
    """Plan this number of parts of one size."""
    self, chunks, dim = args
    if chunks <= 0:
        return None
    size = _size_along(self._spec, dim)
    length = -(-size // chunks)
    if not 0 < size <= MAX_PARTS * length:
        return None
    return _plan_slices(op, key_set, args, [*range(length, size, length), size], "Split")


def _size_along(spec: TensorSpec, dim: int) -> int:
    """Return the size of a dimension; 0 for a tensor without any."""
    return spec.sizes[wrap_dim(dim, spec.ndim)] if spec.ndim else 0


def _plan_slices(
    op: OperatorEntry, key_set: int, args: Sequence[Any], ends: Sequence[int], node: str
) -> Plan | None:
    """Plan consecutive slices."""
    slices = [(args[-1], start, end, 1) for start, end in zip([0, *ends[:-1]], ends, strict=True)]
    return _plan_several(op, key_set, args, "aten::slice.Tensor", slices, node) if slices else None


def plan_unbind(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan | None:
    """Plan a view of every index of a dimension."""
    self, dim = args
    size = _size_along(self._spec, dim)
    if not 0 < size <= MAX_PARTS:
        return None
    return _plan_several(op, key_set, args, "aten::select.int", [(dim, i) for i in range(size)], "Unbind")
