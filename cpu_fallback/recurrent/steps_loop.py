"""LLVM IR of several steps of a recurrent layer: a matmul and the loop of a cell for each.

A part is some rows (sequences), whose steps do not depend on other rows, so threads share the rows of a layer and not
those of each step. A weight is packed into panels of `panel_width` columns, whose rows are contiguous. A sum adds
`DEPTH` terms in order, then these sums, whatever the number of rows.
"""

from __future__ import annotations

from collections.abc import Callable

from ...runtime.cpu.calling_convention import HEADER
from ...runtime.cpu.code import Code, module_calls
from ...runtime.cpu.object_code import loop_function, target
from ...runtime.cpu.vector_tile import Shape, VectorTile

DEPTH = 256
"""Terms that are added one after the other."""
VECTORS = 2
"""Vectors of a panel."""
ROWS = (4, 2, 1)
"""Rows of tiles: four by two vectors are as many sums as hide the latency of a fused multiply-add."""
NUMBERS = (
    "steps",
    "rows",
    "terms",
    "panels",
    "state",
    "state_row",
    "state_step",
    "product",
    "product_row",
    "cell",
)
"""Numbers of a part: counts, then offsets and strides in elements, and the address of the cell's loop.

Behind them are, for each array of the cell, the bytes to the next step and a mask of the step, and the cell's numbers.
"""
FIXED = 3
"""Arrays before those of the cell: the packed weight, the state that it multiplies, and the product."""


def panel_width() -> int:
    """Return the columns of a panel on this processor."""
    return VECTORS * _shape().lanes


def _shape() -> Shape:
    found = target()
    assert found is not None
    return Shape("float32", found.vector_bits, found.vector_registers)


def _tile(shape: Shape, rows: int) -> str:
    """Return the function that adds terms to a tile of some rows and a panel's columns."""
    code = Code()
    tile = VectorTile(code, shape, rows, VECTORS)
    bases = tile.rows_of("%a", "%a_row")
    width = str(VECTORS * shape.lanes)
    with code.loop("0", "%terms", plain=True) as term:
        tile.add([(base, term) for base in bases], code.at(shape.kind, "%b", code.mul(term, width)))
    tile.store("%c", "%c_row", "%adds")
    arguments = (
        "ptr nocapture readonly %a, i64 %a_row, ptr nocapture readonly %b, "
        "ptr noalias nocapture %c, i64 %c_row, i64 %terms, i1 %adds"
    )
    return code.function(f"tile{rows}", arguments, "noinline nounwind")


def _steps_text(shape: Shape, arrays: int) -> str:
    """Return the module of ``call(numbers, weight, state, product, *arrays)``."""
    code, width = Code(), str(VECTORS * shape.lanes)
    n = code.numbers("%g", NUMBERS)
    code.variables.append(f"  %pointers = alloca [{arrays} x ptr]")
    cell = code.new(f"inttoptr i64 {n['cell']} to ptr")
    strides = code.at("i64", "%g", str(len(NUMBERS)))
    cell_numbers = code.at("i64", "%g", str(len(NUMBERS) + 2 * arrays))
    product = code.at("float", "%p2", n["product"])
    panel_size = code.mul(n["terms"], width)
    with code.loop("0", n["steps"]) as step:
        state = code.at("float", "%p1", code.add(n["state"], code.mul(step, n["state_step"])))
        with code.loop("0", n["panels"]) as panel:
            weight = code.at("float", "%p0", code.mul(panel, panel_size))
            to = code.at("float", product, code.mul(panel, width))
            with code.loop("0", n["terms"], DEPTH) as first:
                left = code.new(f"sub i64 {n['terms']}, {first}")
                terms = code.new(f"call i64 @llvm.smin.i64(i64 {left}, i64 {DEPTH})")
                adds = code.new(f"icmp ne i64 {first}, 0")
                a = code.at("float", state, first)
                b = code.at("float", weight, code.mul(first, width))
                for rows, begin, end in code.in_steps(n["rows"], ROWS):
                    with code.loop(begin, end, rows) as row:
                        of_a = code.at("float", a, code.mul(row, n["state_row"]))
                        of_c = code.at("float", to, code.mul(row, n["product_row"]))
                        code.do(
                            f"call void @tile{rows}(ptr {of_a}, i64 {n['state_row']}, ptr {b}, ptr {of_c}, "
                            f"i64 {n['product_row']}, i64 {terms}, i1 {adds})"
                        )
        for j in range(arrays):
            stride, mask = code.number(strides, 2 * j), code.number(strides, 2 * j + 1)
            moved = code.mul(code.new(f"and i64 {step}, {mask}"), stride)
            code.do(
                f"store ptr {code.at('i8', f'%p{FIXED + j}', moved)}, ptr {code.at('ptr', '%pointers', str(j))}"
            )
        code.do(f"call void {cell}(ptr {cell_numbers}, ptr %pointers)")
    pointers = ", ".join(f"ptr %p{j}" for j in range(FIXED + arrays))
    body = code.function("steps", f"ptr %g, {pointers}", "noinline nounwind")
    tiles = "\n".join(_tile(shape, rows) for rows in ROWS)
    return "\n".join([HEADER, shape.declarations, tiles, body, module_calls("steps", 1 + FIXED + arrays)])


def steps_loop(arrays: int) -> Callable[..., None]:
    """Return the loop ``loop(numbers, weight, state, product, *arrays)`` for a cell of this many arrays."""
    return loop_function(_steps_text(_shape(), arrays))
