"""Rows of a table in a kernel over rows on CUDA: a load at the row that another load names.

A number that names no row is reported as the eager kernel reports it (`runtime/cuda/faults.py`), and its row is zeros.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ...triton_kernels.indexing.index_bounds import Bound
from ..gathers import GatherCall
from ..picks import GATHER, PickCall
from .picking import picked, table_row

if TYPE_CHECKING:
    from .pointwise import ElementWriter
    from .row_statements import Program


def bound_of(call: GatherCall) -> Bound:
    """Return the bounds of a gather's indices, and the eager kernel's error."""
    rows = call.rows
    spec, size = rows.numbers.val, rows.table.val.sizes[0]
    name = call.node.target._opname
    if rows.wraps:
        return Bound(name, spec, size, 0, True, IndexError)
    return Bound(name, spec, size, 0, False, IndexError, "index out of range in self")


def bound_of_pick(call: PickCall) -> Bound:
    """Return the bounds of an element gather's indices, and the eager kernel's error."""
    spec, size = call.numbers.val, call.source.val.sizes[call.dim]
    name = call.node.target._opname
    if call.node.target._entry.name == GATHER:
        return Bound(name, spec, size, call.dim, False, RuntimeError)
    return Bound(name, spec, size, call.dim, False, IndexError, "index out of range in self")


def picked_text(call: PickCall, pointer: str, number: str, flag: int, imports: dict[Any, str]) -> str:
    """Return the gathered elements, as source.

    Args:
        call: The gather.
        pointer: Pointer to the elements at index 0, as source.
        number: The name of the indices' value.
        flag: The position of the launch's flag for indices out of bounds.
        imports: Functions by their names in the source; others are added.
    """
    name = imports.setdefault(picked, f"f_picked_{len(imports)}")
    source = call.source.val
    size, step = source.sizes[call.dim], source.strides[call.dim]
    return f"{name}({pointer}, {number}, {size}, {step}, flags + {flag}, mask)"


def picked_elements(call: PickCall, writer: ElementWriter) -> str:
    """Return the gathered elements in a pointwise kernel, as source."""
    number = writer.values_for(call)[call.numbers]
    pointer = f"{writer.pointers[call.source]} + {writer.offset(writer.accesses.strides_of_source(call))}"
    return picked_text(call, pointer, number, writer.kernel.picks.index(call), writer.imports)


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
