"""Rows of a table in a kernel over rows on CUDA: a load at the row that another load names.

A number that names no row is reported as the eager kernel reports it (`runtime/cuda/faults.py`), and its row is zeros.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ...triton_kernels.indexing.index_bounds import Bound
from ...triton_kernels.indexing.picking_kernels import table_row
from ..gathers import GatherCall

if TYPE_CHECKING:
    from .row_statements import Program


def bound_of(call: GatherCall) -> Bound:
    """What the numbers may be, and the eager kernel's error for others."""
    rows = call.rows
    spec, size = rows.numbers.val, rows.table.val.sizes[0]
    name = call.node.target._opname
    if rows.wraps:
        return Bound(name, spec, size, 0, True, IndexError)
    return Bound(name, spec, size, 0, False, IndexError, "index out of range in self")


def taken_rows(made: Program, call: GatherCall, values: dict[Any, str]) -> str:
    """Write the step to a program. Returns the name of its value."""
    rows = call.rows
    table, index = rows.table.val, values[rows.numbers]
    flag = made.flag(bound_of(call), rows.numbers)
    width = math.prod(table.sizes[1:])
    text = (
        f"{made.function(table_row)}({made.pointer(rows.table)}, {{{index}}}, r, {flag}, {table.sizes[0]}, {width}, "
        f"is_row, is_element, {rows.wraps})"
    )
    words = max(table.itemsize // 4, 1)
    return made.value(text, index, comment=call.node.format_node(), words=words, moves_along_rows=True)
