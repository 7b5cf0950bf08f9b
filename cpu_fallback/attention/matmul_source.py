"""LLVM IR of a matmul of unpacked operands: accumulator tiles stay in registers.

Operands are not packed: attention's operands are in the cache. A sum adds `DEPTH` terms in order, and these sums are
added afterwards, as BLAS does; it does not depend on how threads share the work.
"""

from __future__ import annotations

from ...runtime.cpu.code import Code
from ...runtime.cpu.vector_tile import Shape, VectorTile

DEPTH = 256
"""Terms that are added one after the other."""


def product_text(shape: Shape) -> str:
    """Return the function ``@product(a, a_row, a_term, b, b_term, c, c_row, rows, columns, terms, adds)``.

    c[i, j], at ``c + i c_row + j``, is set to the sum over t of ``a[i a_row + t a_term] * b[t b_term + j]``. If
    ``adds``, the sum is added to it. Strides are in elements. The columns are a whole number of vectors;
    `c` does not alias the operands.
    """
    tiles = _tiles(shape)
    code, kind = Code(), shape.kind
    with code.loop("0", "%terms", DEPTH) as first_term:
        left = code.new(f"sub i64 %terms, {first_term}")
        terms = code.new(f"call i64 @llvm.smin.i64(i64 {left}, i64 {DEPTH})")
        is_later = code.new(f"icmp ne i64 {first_term}, 0")
        adds = code.new(f"or i1 %adds, {is_later}")
        of_a = code.at(kind, "%a", code.mul(first_term, "%a_term"))
        of_b = code.at(kind, "%b", code.mul(first_term, "%b_term"))
        for width, first, last in code.in_steps("%columns", [v * shape.lanes for v in tiles]):
            vectors = width // shape.lanes
            with code.loop(first, last, width) as column:
                b, c = code.at(kind, of_b, column), code.at(kind, "%c", column)
                for rows, begin, end in code.in_steps("%rows", tiles[vectors]):
                    with code.loop(begin, end, rows) as row:
                        a = code.at(kind, of_a, code.mul(row, "%a_row"))
                        target = code.at(kind, c, code.mul(row, "%c_row"))
                        code.do(
                            f"call void @product{rows}x{vectors}(ptr {a}, i64 %a_row, i64 %a_term, ptr {b}, "
                            f"i64 %b_term, ptr {target}, i64 %c_row, i64 {terms}, i1 {adds})"
                        )
    made = [_tile(shape, rows, vectors) for vectors, steps in tiles.items() for rows in steps]
    arguments = (
        "ptr nocapture readonly %a, i64 %a_row, i64 %a_term, ptr nocapture readonly %b, i64 %b_term, "
        "ptr noalias nocapture %c, i64 %c_row, i64 %rows, i64 %columns, i64 %terms, i1 %adds"
    )
    return "\n".join([*made, code.function("product", arguments, "noinline nounwind")])


def _tiles(shape: Shape) -> dict[int, tuple[int, ...]]:
    """Return the rows of tiles by their vectors, both largest first; those of one are for the remainder."""
    if len(shape.tiles) == 4:  # many registers
        return {4: (6, 2, 1), 2: (8, 2, 1), 1: (8, 2, 1)}
    return {2: (5, 2, 1), 1: (8, 2, 1)}


def _tile(shape: Shape, rows: int, vectors: int) -> str:
    """Return the function of a tile: sums of some rows and columns."""
    code = Code()
    tile = VectorTile(code, shape, rows, vectors)
    bases = tile.rows_of("%a", "%a_row")
    with code.loop("0", "%terms", plain=True) as term:
        of_a = code.mul(term, "%a_term")
        tile.add([(base, of_a) for base in bases], code.at(shape.kind, "%b", code.mul(term, "%b_term")))
    tile.store("%c", "%c_row", "%adds")
    arguments = (
        "ptr nocapture readonly %a, i64 %a_row, i64 %a_term, ptr nocapture readonly %b, i64 %b_term, "
        "ptr noalias nocapture %c, i64 %c_row, i64 %terms, i1 %adds"
    )
    return code.function(f"product{rows}x{vectors}", arguments, "noinline nounwind")
