"""Loops that scan lines of contiguous arrays: running sums, products, maxima and minima.

A scan of one line waits for each step. A loop therefore scans several lines at a time, each in the order of
``ufunc.accumulate``, so that results have the bits of NumPy's. The elements of a line are adjacent, or those of
adjacent lines are.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ...runtime.cpu.calling_convention import HEADER
from ...runtime.cpu.code import Code, module_calls
from ...runtime.cpu.object_code import loop_function

LINES, ADJACENT = (4, 1), (16, 4, 1)
"""Lines that are scanned at a time, largest first, and adjacent ones. Eight lines of a power of two in length fall into
the same sets of the first-level cache, which took seven times as long.
"""
KINDS = {"float32": "float", "float64": "double", "int64": "i64"}
ACCUMULATORS = {"float": "double", "double": "double", "i64": "i64"}
"""LLVM type of running sums and products, by that of the elements."""
STARTS = {"add": {"double": "0.0", "i64": "0"}, "multiply": {"double": "1.0", "i64": "1"}}
COMBINED = {
    ("add", "double"): "fadd",
    ("add", "i64"): "add",
    ("multiply", "double"): "fmul",
    ("multiply", "i64"): "mul",
}
REPLACES = {
    ("maximum", True): "fcmp oge",
    ("minimum", True): "fcmp ole",
    ("maximum", False): "icmp sge",
    ("minimum", False): "icmp sle",
}
"""Comparison by which an element replaces the extremum, by ufunc and whether elements are floats."""
LENGTHS = (1, 2, 7, 64, 129)
"""Lengths of the lines that are compared with NumPy's."""


class Lines(Code):
    """Loop over lines of an array (outer, length, inner), of which a part has `count` from line `first` on.

    Args:
        adjacent: If True, the lines of a part begin at adjacent elements; otherwise `inner` is 1.
    """

    def __init__(self, adjacent: bool) -> None:
        super().__init__()
        self.adjacent = adjacent
        self.count, self.length, self.first, self.inner = (self.number("%g", i) for i in range(4))

    def begins(self) -> Iterator[list[str]]:
        """Yield the offsets of the first elements of some lines, as often as different numbers of lines are scanned."""
        if self.adjacent:
            outer = self.new(f"sdiv i64 {self.first}, {self.inner}")
            column = self.new(f"srem i64 {self.first}, {self.inner}")
            base = self.add(self.mul(outer, self.mul(self.length, self.inner)), column)
        for lines, start, end in self.in_steps(self.count, ADJACENT if self.adjacent else LINES):
            with self.loop(start, end, lines) as index:
                if self.adjacent:
                    at = self.add(base, index)
                    yield [self.add(at, str(j)) for j in range(lines)]
                else:
                    at = self.mul(self.add(self.first, index), self.length)
                    yield [self.add(at, self.mul(self.length, str(j))) for j in range(lines)]

    @contextlib.contextmanager
    def along(self) -> Iterator[tuple[str, str]]:
        """Emit a loop along lines; it yields the index in a line and the offset from the line's first element."""
        with self.loop("0", self.length) as i:
            yield i, self.mul(i, self.inner) if self.adjacent else i


def scan_text(name: str, dtype: str, adjacent: bool) -> str:
    """Return the module of ``loop((count, length, first, inner), out, array)`` (`Lines`)."""
    code, kind = Lines(adjacent), KINDS[dtype]
    accumulator = ACCUMULATORS[kind]
    for begins in code.begins():
        totals = [code.variable(accumulator, STARTS[name][accumulator]) for _ in begins]
        sources = [code.at(kind, "%p1", begin) for begin in begins]
        targets = [code.at(kind, "%p0", begin) for begin in begins]
        for total in totals:
            code.do(f"store {accumulator} {STARTS[name][accumulator]}, ptr {total}")
        with code.along() as (_, i):
            values = [code.new(f"load {kind}, ptr {code.at(kind, source, i)}") for source in sources]
            for total, target, value in zip(totals, targets, values, strict=True):
                wide = code.new(f"fpext float {value} to double") if kind == "float" else value
                before = code.new(f"load {accumulator}, ptr {total}")
                made = code.new(f"{COMBINED[name, accumulator]} {accumulator} {before}, {wide}")
                code.do(f"store {accumulator} {made}, ptr {total}")
                narrow = code.new(f"fptrunc double {made} to float") if kind == "float" else made
                code.do(f"store {kind} {narrow}, ptr {code.at(kind, target, i)}")
    return _module(code, 2)


def extremum_text(name: str, dtype: str, adjacent: bool) -> str:
    """Return the module of ``loop((count, length, first, inner), values, indices, array)`` (`Lines`).

    An element replaces the extremum if it is equal or beyond, and the first NaN replaces it for good. The index is
    that of the last element that replaced the extremum, or of the last NaN.
    """
    code, kind = Lines(adjacent), KINDS[dtype]
    is_float = kind != "i64"
    for begins in code.begins():
        sources, values = ([code.at(kind, p, begin) for begin in begins] for p in ("%p2", "%p0"))
        indices = [code.at("i64", "%p1", begin) for begin in begins]
        best = [code.variable(kind, code.new(f"load {kind}, ptr {source}")) for source in sources]
        places = [code.variable("i64", "0") for _ in begins]
        for source, extremum, place in zip(sources, best, places, strict=True):
            code.do(f"store {kind} {code.new(f'load {kind}, ptr {source}')}, ptr {extremum}")
            code.do(f"store i64 0, ptr {place}")
        with code.along() as (place_index, i):
            for source, target, to, extremum, place in zip(
                sources, values, indices, best, places, strict=True
            ):
                value = code.new(f"load {kind}, ptr {code.at(kind, source, i)}")
                old = code.new(f"load {kind}, ptr {extremum}")
                replaces = code.new(f"{REPLACES[name, is_float]} {kind} {value}, {old}")
                new = code.new(f"select i1 {replaces}, {kind} {value}, {kind} {old}")
                if is_float:
                    is_nan = code.new(f"fcmp uno {kind} {value}, 0.0")
                    was_nan = code.new(f"fcmp uno {kind} {old}, 0.0")
                    new = code.new(f"select i1 {is_nan}, {kind} {value}, {kind} {new}")
                    new = code.new(f"select i1 {was_nan}, {kind} {old}, {kind} {new}")
                    replaces = code.new(f"or i1 {replaces}, {is_nan}")
                before = code.new(f"load i64, ptr {place}")
                where = code.new(f"select i1 {replaces}, i64 {place_index}, i64 {before}")
                code.do(f"store {kind} {new}, ptr {extremum}")
                code.do(f"store i64 {where}, ptr {place}")
                code.do(f"store {kind} {new}, ptr {code.at(kind, target, i)}")
                code.do(f"store i64 {where}, ptr {code.at('i64', to, i)}")
    return _module(code, 3)


def _module(code: Code, arrays: int) -> str:
    """Return the module of a loop, whose arrays may be the same: each element is read before it is written."""
    arguments = ", ".join(["ptr nocapture readonly %g", *(f"ptr nocapture %p{j}" for j in range(arrays))])
    return HEADER + code.function("loop", arguments, "noinline nounwind") + module_calls("loop", arrays + 1)


def scan_loop(name: str, dtype: str, adjacent: bool) -> Callable[..., None] | None:
    """Return the loop of ``add``, ``multiply``, ``maximum`` or ``minimum``; None if its bits are not NumPy's.

    Args:
        name: Name of a ufunc.
        dtype: Name of the elements' dtype: float32, float64 or int64.
        adjacent: If True, the lines of a part begin at adjacent elements; otherwise elements of a line are adjacent.
    """
    text = scan_text if name in STARTS else extremum_text
    loop = loop_function(text(name, dtype, adjacent))
    return loop if _scans_as_numpy(name, dtype, adjacent, loop) else None


def _scans_as_numpy(name: str, dtype: str, adjacent: bool, loop: Callable[..., None]) -> bool:
    """Return True if a loop has the bits of ``ufunc.accumulate`` on this processor."""
    rng, axis, count = np.random.default_rng(5), 0 if adjacent else 1, 23
    ufunc: np.ufunc = getattr(np, name)
    for length in LENGTHS:
        lines: Any = (rng.standard_normal((count, length)) * 3).astype(dtype)
        lines[2] = -lines[2] * 0
        if dtype != "int64":
            lines[1, length // 2], lines[3, length // 2], lines[4, length // 3] = np.nan, np.inf, -np.inf
        lines = np.ascontiguousarray(lines.T) if adjacent else lines
        out = np.empty_like(lines)
        geometry = np.array([count, length, 0, count if adjacent else 1])
        with np.errstate(all="ignore"):
            if name in STARTS:
                wide = np.dtype(np.float64 if dtype == "float32" else dtype)
                expected = ufunc.accumulate(lines, axis, wide)
                expected = (expected + wide.type(0) if name == "add" else expected).astype(dtype)
                loop(geometry, out, lines)
            else:
                expected = ufunc.accumulate(lines, axis)
                loop(geometry, out, places := np.empty(lines.shape, np.int64), lines)
                attained = (lines == expected) | (lines != lines)
                steps = np.arange(length)[:, None] if adjacent else np.arange(length)
                if not np.array_equal(places, np.maximum.accumulate(attained * steps, axis)):
                    return False
        numbers = ~np.isnan(expected)
        if not np.array_equal(out, expected, equal_nan=dtype != "int64") or not np.array_equal(
            np.signbit(out[numbers]), np.signbit(expected[numbers])
        ):
            return False
    return True
