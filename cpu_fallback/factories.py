"""Fills."""

from __future__ import annotations

from typing import Any

from ..dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from .pointwise import constant_cache


def fill(call: StructuredCall) -> PlannedKernel:
    """Every element becomes the number."""
    constant = constant_cache(call.outputs[0].np_dtype)

    def into(out: Any, *values: Any) -> None:
        out.fill(constant(values[-1]))

    return PlannedKernel(into)


def zero(call: StructuredCall) -> PlannedKernel:
    """Every element becomes zero."""

    def into(out: Any, *_: Any) -> None:
        out.fill(0)

    return PlannedKernel(into)


register_stub("fill_stub", "cpu", fill)
register_stub("zero_stub", "cpu", zero)
