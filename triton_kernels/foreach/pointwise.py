"""Pointwise operators over lists of tensors as launches: one for each dtype among the rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...dispatch.scalars import fitting_number
from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.scalar_type import dtype as ScalarType
from ..elementwise import pointwise_functions as f
from ..elementwise.pointwise import FUNCTIONS, NARROW, ROUNDING, SCALED
from ..optimizers.fused import Group
from .independence import Rows
from .pointwise_kernel import clamped_within, copied, filled, multi_tensor_pointwise

RENAMED: dict[str, Any] = {
    "clamp_max": f.minimum,
    "clamp_min": f.maximum,
    "clamp_within": clamped_within,
    "copy": copied,
    "fill": filled,
}
"""Operators whose function has another name."""


def function_of(operator: str, operands: int, dtype: ScalarType) -> Any:
    """Return the scalar function of an operator over this many operands of a dtype, a scale among them."""
    if operator in SCALED:
        plain, with_scale, _ = SCALED[operator]
        return with_scale if operands > (3 if operator.startswith("addc") else 2) else plain
    function = RENAMED.get(operator) or ROUNDING.get(operator)
    if function is None:
        function = FUNCTIONS[operator][0]
    return NARROW.get(function, function) if dtype.itemsize == 2 else function


def plan_pointwise(call: StructuredCall) -> PlannedKernel:
    """``into(columns, last)``: the lists' bytes, those that are written first; a number, an element's bytes or None.

    It computes nothing and returns False if a row would write what another one has.
    """
    lists: tuple[Sequence[Any], ...] = call.args["lists"]
    operator, in_place = call.extra["operator"], call.extra["in_place"]
    by_dtype: dict[ScalarType, list[int]] = {}
    for index, spec in enumerate(lists[0]):
        if spec.numel:
            by_dtype.setdefault(spec.dtype, []).append(index)
    every = [
        (dtype, Group(call.device, multi_tensor_pointwise, lists[0], indices, rate=call.args["element"]))
        for dtype, indices in by_dtype.items()
    ]
    rows = Rows(lists) if in_place else None
    is_fitting = operator.startswith("clamp_") or operator == "fill"

    def into(columns: Sequence[Sequence[Any]], last: Any) -> bool:
        if rows is not None and not rows.are_independent(columns):
            return False
        has_last = last is not None
        is_number = isinstance(last, float | int)
        for dtype, group in every:
            constants: dict[str, object] = {
                "FUNCTION": function_of(operator, len(lists) + has_last, dtype),
                "LISTS": len(lists),
                "LAST": has_last,
                "INDIRECT": has_last and not is_number,
                "FIRST": 2 if in_place else 3,
            }
            if is_number and is_fitting:
                fitting_number(dtype)(last)
            group.launch(columns, {"last": float(last) if is_number else last}, constants)
        return True

    return PlannedKernel(into)


register_stub("multi_tensor_pointwise_stub", "cuda", plan_pointwise)
