"""Loop that finds the extremum along an outer dimension, and its index, of adjacent columns at a time."""

from __future__ import annotations

from collections.abc import Callable

from ...runtime.cpu.calling_convention import HEADER
from ...runtime.cpu.code import Code, module_calls
from ...runtime.cpu.object_code import loop_function

NUMBERS = ("first", "last", "begin", "end", "length", "inner")
"""Numbers of a part: its range of the outer dimension and of the inner one; the length of the reduced dimension and the
whole inner dimension.
"""
KINDS = {"float32": "float", "float64": "double", "int32": "i32", "int64": "i64"}
REPLACES = {
    ("argmax", True): "fcmp ugt",
    ("argmin", True): "fcmp ult",
    ("argmax", False): "icmp sgt",
    ("argmin", False): "icmp slt",
}
"""Comparison by which an element replaces the extremum, by NumPy's method and whether elements are floats. A NaN, which
has no order, replaces any number.
"""
TILE = 1 << 10
"""Columns whose extrema and indices stay in the first-level cache."""


def column_extremum_text(method: str, dtype: str) -> str:
    """Return the module of ``loop(numbers, values, indices, array)`` over arrays (outer, length, inner).

    The extremum is the first of equal elements, or the first NaN.
    """
    code, kind = Code(), KINDS[dtype]
    is_float = kind not in ("i32", "i64")
    n = code.numbers("%g", NUMBERS)
    with code.loop(n["first"], n["last"]) as o, code.loop(n["begin"], n["end"], TILE) as begin:
        left = code.new(f"sub i64 {n['end']}, {begin}")
        count = code.new(f"call i64 @llvm.smin.i64(i64 {left}, i64 {TILE})")
        start = code.add(code.mul(o, n["inner"]), begin)
        values, indices = code.at(kind, "%p0", start), code.at("i64", "%p1", start)
        plane = code.add(code.mul(code.mul(o, n["length"]), n["inner"]), begin)
        first_row = code.at(kind, "%p2", plane)
        with code.loop("0", count) as c:
            value = code.new(f"load {kind}, ptr {code.at(kind, first_row, c)}")
            code.do(f"store {kind} {value}, ptr {code.at(kind, values, c)}")
            code.do(f"store i64 0, ptr {code.at('i64', indices, c)}")
        with code.loop("1", n["length"]) as i:
            row = code.at(kind, first_row, code.mul(i, n["inner"]))
            with code.loop("0", count) as c:
                best_at, index_at = code.at(kind, values, c), code.at("i64", indices, c)
                value = code.new(f"load {kind}, ptr {code.at(kind, row, c)}")
                best = code.new(f"load {kind}, ptr {best_at}")
                index = code.new(f"load i64, ptr {index_at}")
                replaces = code.new(f"{REPLACES[method, is_float]} {kind} {value}, {best}")
                if is_float:
                    is_number = code.new(f"fcmp ord {kind} {best}, 0.0")
                    replaces = code.new(f"and i1 {replaces}, {is_number}")
                new = code.new(f"select i1 {replaces}, {kind} {value}, {kind} {best}")
                code.do(f"store {kind} {new}, ptr {best_at}")
                code.do(
                    f"store i64 {code.new(f'select i1 {replaces}, i64 {i}, i64 {index}')}, ptr {index_at}"
                )
    arguments = (
        "ptr nocapture readonly %g, ptr noalias nocapture %p0, ptr noalias nocapture %p1, "
        "ptr noalias nocapture readonly %p2"
    )
    smin = "declare i64 @llvm.smin.i64(i64, i64)\n"
    return HEADER + smin + code.function("loop", arguments, "noinline nounwind") + module_calls("loop", 4)


def column_extremum_loop(method: str, dtype: str) -> Callable[..., None]:
    """Return the loop of ``argmax`` or ``argmin`` for a dtype of `KINDS`."""
    return loop_function(column_extremum_text(method, dtype))
