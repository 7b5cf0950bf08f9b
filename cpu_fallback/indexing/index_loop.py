"""Loop that gathers, writes or adds elements at an index along a dimension, with bounds checks."""

from __future__ import annotations

from collections.abc import Callable

from ...runtime.cpu.calling_convention import HEADER
from ...runtime.cpu.code import Code, module_calls
from ...runtime.cpu.object_code import loop_function

NUMBERS = (
    *("first", "last", "begin", "end", "picked", "size", "inner"),
    *("index_outer", "index_step", "small_outer", "small_step"),
)
"""Numbers of a part.

- `first`, `last`, `begin`, `end`: Its range of the outer dimension and of the inner one.
- `picked`, `size`, `inner`: The length of the index and of the large array along the dimension, and the whole inner
  dimension.
- `index_outer`, `index_step`, `small_outer`, `small_step`: Strides of the index and of the small array along the outer
  dimension and along the index.
"""
KINDS = {
    **{f"{bits} bits": f"i{bits}" for bits in (8, 16, 32, 64)},
    "float32": "float",
    "float64": "double",
    "int64": "i64",
}
"""LLVM type of the elements: by their size if they are moved, by their dtype if they are added."""


def index_text(name: str, elements: str, flat: bool, index_moves: bool, small_moves: bool) -> str:
    """Return the module of ``loop(numbers, out, array, index, failed)``.

    The large array is (outer, size, inner) and contiguous. A gather reads it, and writes the small array, `out`. Others
    write it at the index, in order, elements of the small array, `array`. An index out of bounds sets `failed` to 1; a
    gather then reads the first element, others write nothing. Each index is read once.

    Args:
        name: ``gather``, ``scatter`` or ``scatter_add``.
        elements: A key of `KINDS`.
        flat: If True, the inner dimension is 1.
        index_moves: If True, the index moves along the innermost loop: over the inner dimension, or if `flat` over the
            index.
        small_moves: The same of the small array.
    """
    code, kind = Code(), KINDS[elements]
    n = code.numbers("%g", NUMBERS)
    large, small = ("%p1", "%p0") if name == "gather" else ("%p0", "%p1")
    wrong = code.variable("i1", "false")

    def element(plane: str, index_at: str, small_at: str, c: str) -> None:
        index = code.new(f"load i64, ptr {index_at}")
        is_inside = code.new(f"icmp ult i64 {index}, {n['size']}")
        before = code.new(f"load i1, ptr {wrong}")
        outside = code.new(f"xor i1 {is_inside}, true")
        code.do(f"store i1 {code.new(f'or i1 {before}, {outside}')}, ptr {wrong}")
        if name == "gather":
            index = code.new(f"select i1 {is_inside}, i64 {index}, i64 0")
        row = index if flat else code.add(code.mul(index, n["inner"]), c)
        place = code.at(kind, large, code.add(plane, row))
        if name == "gather":
            value = code.new(f"load {kind}, ptr {place}")
            code.do(f"store {kind} {value}, ptr {small_at}")
            return
        with code.when(is_inside):
            value = code.new(f"load {kind}, ptr {small_at}")
            if name == "scatter_add":
                total = code.new(f"load {kind}, ptr {place}")
                value = code.new(f"{'add' if kind[0] == 'i' else 'fadd'} {kind} {total}, {value}")
            code.do(f"store {kind} {value}, ptr {place}")

    with code.loop(n["first"], n["last"]) as o:
        plane = code.mul(o, code.mul(n["size"], n["inner"]))
        index_row, small_row = code.mul(o, n["index_outer"]), code.mul(o, n["small_outer"])
        with code.loop("0", n["picked"]) as i:
            if flat:
                index_at = code.at("i64", "%p2", code.add(index_row, i) if index_moves else index_row)
                small_at = code.at(kind, small, code.add(small_row, i) if small_moves else small_row)
                element(plane, index_at, small_at, "")
            else:
                index_line = code.add(index_row, code.mul(i, n["index_step"]))
                small_line = code.add(small_row, code.mul(i, n["small_step"]))
                with code.loop(n["begin"], n["end"]) as c:
                    index_at = code.at("i64", "%p2", code.add(index_line, c) if index_moves else index_line)
                    small_at = code.at(kind, small, code.add(small_line, c) if small_moves else small_line)
                    element(plane, index_at, small_at, c)
    with code.when(code.new(f"load i1, ptr {wrong}")):
        code.do("store i64 1, ptr %p3")
    arguments = (
        "ptr nocapture readonly %g, ptr noalias nocapture %p0, ptr noalias nocapture readonly %p1, "
        "ptr noalias nocapture readonly %p2, ptr noalias nocapture %p3"
    )
    return HEADER + code.function("loop", arguments, "noinline nounwind") + module_calls("loop", 5)


def index_loop(
    name: str, elements: str, flat: bool, index_moves: bool, small_moves: bool
) -> Callable[..., None]:
    """Return the loop of `index_text`."""
    return loop_function(index_text(name, elements, flat, index_moves, small_moves))
