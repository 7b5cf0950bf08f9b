"""Fills."""

from __future__ import annotations

from typing import Any

from ..dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from .conversion import compute_type
from .copy import identity
from .elementwise import check_dtypes, elementwise


def fill(call: StructuredCall) -> PlannedKernel:
    """Every element becomes the number; it comes last, after the tensor itself in ``fill_``."""
    out = call.outputs[0]
    check_dtypes(call, [out])
    into = elementwise(call, identity, [float], [compute_type(out.dtype)]).into
    return PlannedKernel(lambda data, *values: into(data, values[-1]))


def zero(call: StructuredCall) -> PlannedKernel:
    """Every element becomes zero."""
    into: Any = fill(call).into
    return PlannedKernel(lambda data, *_: into(data, 0))


register_stub("fill_stub", "cuda", fill)
register_stub("zero_stub", "cuda", zero)
