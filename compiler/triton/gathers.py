"""Rows of a table in a kernel over rows on CUDA: a load at the row that another load names.

A number that names no row is reported as the eager kernel reports it (`runtime/cuda/faults.py`), and its row is zeros.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ...runtime.cuda.triton.lazy_triton import tl, triton
from ...triton_kernels.indexing.index_bounds import Bound
from ..gathers import GatherCall

if TYPE_CHECKING:
    from .row_statements import Program


@triton.jit
def table_row(table, index, r, flag, rows, width, is_row, is_element, WRAPS: tl.constexpr):
    """The elements `r` of rows of a table, whose `rows` rows are `width` elements each."""
    index = index.to(tl.int64)
    if WRAPS:
        index = tl.where(index < 0, index + rows, index)
    is_wrong = is_row & ((index < 0) | (index >= rows))
    tl.store(flag + tl.zeros_like(is_wrong.to(tl.int32)), 1, mask=is_wrong)
    found = tl.where(is_wrong, 0, index)
    return tl.load(table + found * width + r, mask=is_element & (is_wrong == 0), other=0)


def bound_of(call: GatherCall) -> Bound:
    """What the numbers may be, and the eager kernel's error for others."""
    rows = call.rows
    spec, size = rows.index.val, rows.table.val.sizes[0]
    name = call.node.target._opname
    if rows.wraps:
        return Bound(name, spec, size, 0, True, IndexError)
    return Bound(name, spec, size, 0, False, IndexError, "index out of range in self")


def taken_rows(made: Program, call: GatherCall, values: dict[Any, str]) -> str:
    """Write the step to a program. Returns the name of its value."""
    rows = call.rows
    table, index = rows.table.val, values[rows.index]
    flag = made.flag(bound_of(call), rows.index)
    width = math.prod(table.sizes[1:])
    text = (
        f"{made.function(table_row)}({made.pointer(rows.table)}, {{{index}}}, r, {flag}, {table.sizes[0]}, {width}, "
        f"is_row, is_element, {rows.wraps})"
    )
    words = max(table.itemsize // 4, 1)
    return made.value(text, index, comment=call.node.format_node(), words=words, moves_along_rows=True)
