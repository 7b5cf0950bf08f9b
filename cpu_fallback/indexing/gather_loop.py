"""Loop that gathers elements along a dimension by an index of their own, with bounds checks."""

from __future__ import annotations

from collections.abc import Callable

from ...runtime.cpu.calling_convention import HEADER
from ...runtime.cpu.code import Code, module_calls
from ...runtime.cpu.object_code import loop_function

NUMBERS = ("first", "last", "begin", "end", "picked", "size", "inner")
"""Numbers of a part: its range of the outer dimension and of the inner one; the length of the index and of the array
along the dimension, and the whole inner dimension.
"""


def gather_text(bits: int) -> str:
    """Return the module of ``loop(numbers, out, array, index, failed)`` over arrays (outer, dimension, inner).

    An index out of bounds reads the first element and sets `failed` to 1. Each index is read once.
    """
    code, kind = Code(), f"i{bits}"
    n = code.numbers("%g", NUMBERS)
    wrong = code.variable("i1", "false")
    with code.loop(n["first"], n["last"]) as o:
        row = code.mul(o, code.mul(n["picked"], n["inner"]))
        plane = code.mul(o, code.mul(n["size"], n["inner"]))
        with code.loop("0", n["picked"]) as i:
            line = code.add(row, code.mul(i, n["inner"]))
            with code.loop(n["begin"], n["end"]) as c:
                at = code.add(line, c)
                index = code.new(f"load i64, ptr {code.at('i64', '%p2', at)}")
                is_inside = code.new(f"icmp ult i64 {index}, {n['size']}")
                safe = code.new(f"select i1 {is_inside}, i64 {index}, i64 0")
                place = code.add(code.add(plane, c), code.mul(safe, n["inner"]))
                value = code.new(f"load {kind}, ptr {code.at(kind, '%p1', place)}")
                code.do(f"store {kind} {value}, ptr {code.at(kind, '%p0', at)}")
                before = code.new(f"load i1, ptr {wrong}")
                outside = code.new(f"xor i1 {is_inside}, true")
                code.do(f"store i1 {code.new(f'or i1 {before}, {outside}')}, ptr {wrong}")
    with code.when(code.new(f"load i1, ptr {wrong}")):
        code.do("store i64 1, ptr %p3")
    arguments = (
        "ptr nocapture readonly %g, ptr noalias nocapture %p0, ptr nocapture readonly %p1, "
        "ptr nocapture readonly %p2, ptr noalias nocapture %p3"
    )
    return HEADER + code.function("loop", arguments, "noinline nounwind") + module_calls("loop", 5)


def gather_loop(bits: int) -> Callable[..., None]:
    """Return the loop of elements of 8, 16, 32 or 64 bits."""
    return loop_function(gather_text(bits))
