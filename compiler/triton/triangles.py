"""The source of `tril` and `triu`, steps of pointwise kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...triton_kernels.conversion import triton_type
from ..triangles import TriangleCall
from .source_text import type_text

if TYPE_CHECKING:
    from .pointwise import ElementWriter


def triangle_text(call: TriangleCall, writer: ElementWriter) -> str:
    """Return the elements of a triangle, as source."""
    row, column = [writer.accesses.coordinate(dim) for dim in call.coordinates]
    value, type_ = writer.values_for(call)[call.source], type_text(triton_type(call.node.val.dtype))
    compared = ">=" if call.is_upper else "<="
    return f"tl.where({column} - {row} {compared} {call.diagonal}, convert({value}, {type_}), tl.full([], 0, {type_}))"
