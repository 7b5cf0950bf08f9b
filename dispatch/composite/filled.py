"""Plans of new host memory filled with a number: one call allocates and fills."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...runtime.device import CPU
from ...runtime.layout import strided
from ...runtime.scalar_type import dtype_of_fill
from ...runtime.tensor_spec import TensorSpec
from ...runtime.traceback_filter import hide_inner_frames
from ..core.kernel_function import Plan
from ..core.operator_entry import OperatorEntry
from ..plans.host_kernel import is_unseen
from ..structured.allocation import allocator_of
from ..structured.meta.factories import is_sparse, like_spec, spec_from
from ..structured.stub import StructuredCall, find_kernel
from ..tensor import Tensor, blank_tensor


def plan_full(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan | None:
    """Plan new host memory filled in one step."""
    size, value, dtype, layout, device, pin = args
    if pin or is_sparse(layout) or value.__class__ not in (bool, int, float):
        return None
    if not is_unseen(key_set, ("aten::empty.memory_format", "aten::fill_.Scalar")):
        return None
    chosen = dtype_of_fill(value.__class__) if dtype is None else dtype
    made = spec_from("empty", size, chosen, layout, device)
    return _plan_filled(made, value.__class__) if made.device is CPU else None


def plan_full_like(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan | None:
    """Plan new host memory, in a tensor's memory order, filled in one step."""
    self, value, dtype, layout, device, pin, fmt = args
    if (
        pin
        or is_sparse(layout)
        or value.__class__ not in (bool, int, float)
        or self._spec.layout is not strided
    ):
        return None
    if not is_unseen(key_set, ("aten::empty_like", "aten::fill_.Scalar")):
        return None
    made = like_spec((self, dtype, layout, device, pin, fmt))
    if made.device is not CPU:
        return None
    fill = _plan_filled(made, value.__class__)
    return lambda self, value: fill(value)


def _plan_filled(made: TensorSpec, kind: type) -> Plan:
    """Return a plan of host memory filled with a number of this class, which each call passes."""
    allocate = allocator_of(made)
    call = StructuredCall("fill_", {"self": made, "value": kind}, ("value",), (made,), None, CPU, {})
    fill = find_kernel("fill_stub", "cpu", "fill_")(call).into

    def plan(value: Any) -> Tensor:
        out = blank_tensor()
        try:
            out._data = data = allocate()
            fill(data, value)
        except BaseException:
            hide_inner_frames()
            raise
        out._spec = made
        out._version_cell = out._autograd = out._view_base = None
        return out

    return plan


def plan_eye(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan | None:
    """Plan a square identity of ``(n, dtype, layout, device, pin_memory)``."""
    return plan_eye_m(op, key_set, (args[0], *args))


def plan_eye_m(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan | None:
    """Plan new host memory with ones on the diagonal, of ``(n, m, dtype, layout, device, pin_memory)``."""
    n, m, dtype, layout, device, pin = args
    if pin or is_sparse(layout) or n < 1 or m < 1:
        return None
    if not is_unseen(key_set, ("aten::empty.memory_format", "aten::zero_", "aten::fill_.Scalar")):
        return None
    made = spec_from("empty", (n, m), dtype, layout, device)
    if made.device is not CPU or made.np_dtype.kind not in "biufc":
        return None
    allocate, diagonal = allocator_of(made), slice(0, (min(n, m) - 1) * (m + 1) + 1, m + 1)

    def plan() -> Tensor:
        out = blank_tensor()
        try:
            out._data = data = allocate()
        except BaseException:
            hide_inner_frames()
            raise
        data.fill(0)
        data.reshape(-1)[diagonal] = 1
        out._spec = made
        out._version_cell = out._autograd = out._view_base = None
        return out

    return plan
