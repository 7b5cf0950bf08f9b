"""LLVM IR of softmax, log_softmax and their gradients in float32, over short rows or over lines of another dimension.

A line of a contiguous (outer, n, inner) tensor has `n` elements at a stride of `inner`. If `inner` is 1, a row is
reduced in several lanes, in LLVM's order for the processor. Otherwise a block of adjacent lines is reduced element by
element, in order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ...runtime.cpu.code import FloatCode
from ...runtime.cpu.element_loop import made_of
from ...runtime.cpu.element_program import ElementProgram, Value
from ...runtime.cpu.elementary_functions import F32, exp, log, number
from ...runtime.cpu.hyperbolic_tangent import MIN_EXPONENT, exponential
from ...runtime.cpu.llvm_source import declarations, element_lines
from ...runtime.cpu.object_code import loop_function, target

NUMBERS = ("first", "last", "n", "inner")
"""Numbers of a part: its rows, or blocks of lines; the elements of a line, and the lines side by side."""
WIDTH = 256
"""Lines of a block."""
NEGATIVE_INFINITY = "0xFFF0000000000000"
LARGEST = str(2**31 - 1)
"""The mask of all bits but the sign."""


class Kind(NamedTuple):
    """Operator of a loop.

    Attributes:
        is_log: True for log_softmax.
        is_backward: True for the gradient.
    """

    is_log: bool
    is_backward: bool


KINDS = {
    "softmax": Kind(False, False),
    "log_softmax": Kind(True, False),
    "softmax_backward": Kind(False, True),
    "log_softmax_backward": Kind(True, True),
}


def _below_zero(p: ElementProgram, a: Value) -> Value:
    """Return e to the power of a number up to 0; less than e**-87 is 0."""
    least = number(p, MIN_EXPONENT)
    scale, share = exponential(p, p.select(p.compare("lt", a, least), least, a))
    return p.select(p.compare("lt", a, least), number(p, 0), p.fused(scale, share, scale))


FUNCTIONS: dict[str, Callable[[ElementProgram, Value], Value]] = {
    "below_zero": _below_zero,
    "exp": exp,
    "log": log,
}


def _functions(names: tuple[str, ...]) -> str:
    """Return functions of a float, which LLVM inlines, and the declarations of their intrinsics."""
    texts, used = [], []
    for name in names:
        p = ElementProgram(True, True)
        a = p.value("input", F32, detail=0)
        result = FUNCTIONS[name](p, a)
        instructions = [value for value in made_of([result], (a,)) if value.kind == "instruction"]
        known = {id(a): "%a"}
        lines = element_lines([], instructions, [], known)
        head = f"define internal float @{name}(float %a) alwaysinline {{"
        texts.append("\n".join([head, *lines, f"  ret float {known[id(result)]}", "}"]) + "\n")
        used += instructions
    return declarations(used) + "".join(texts)


class _Softmax(FloatCode):
    """Body of a loop, whose steps are those of one element: of a row, or of each line of a block."""

    def __init__(self, kind: Kind) -> None:
        super().__init__("float32")
        self.n = self.numbers("%g", NUMBERS)
        self.kind_of_call = kind
        self.inputs = ["%p0", "%p1"] if kind.is_backward else ["%p0"]
        self.workspace, self.out = f"%p{len(self.inputs)}", f"%p{len(self.inputs) + 1}"

    def call(self, name: str, value: str) -> str:
        """Emit the call of a function."""
        return self.new(f"call float @{name}(float {value})")

    def binary(self, name: str, a: str, b: str) -> str:
        """Emit ``fadd``, ``fsub``, ``fmul`` or ``fdiv``."""
        return self.new(f"{name} float {a}, {b}")

    def term(self, at: list[str], i: str, row_max: str) -> str:
        """Emit the summand of an element. Store the exponential of softmax to the output."""
        if self.kind_of_call.is_backward:
            grad = self.value(at[0], i)
            return grad if self.kind_of_call.is_log else self.binary("fmul", grad, self.value(at[1], i))
        power = self.call("below_zero", self.binary("fsub", self.value(at[0], i), row_max))
        if not self.kind_of_call.is_log:
            self.store(power, at[-1], i)
        return power

    def result(self, at: list[str], i: str, row_max: str, total: str) -> None:
        """Emit the result of an element; the total of log_softmax is its logarithm."""
        is_log, is_backward = self.kind_of_call
        if not is_backward and is_log:
            made = self.binary("fsub", self.binary("fsub", self.value(at[0], i), row_max), total)
        elif not is_backward:
            made = self.binary("fdiv", self.value(at[-1], i), total)
        else:
            grad, output = self.value(at[0], i), self.value(at[1], i)
            if is_log:
                made = self.binary("fsub", grad, self.binary("fmul", self.call("exp", output), total))
            else:
                made = self.binary("fmul", self.binary("fsub", grad, total), output)
        self.store(made, at[-1], i)

    def finished(self, total: str) -> str:
        """Emit the logarithm of a total where results need it."""
        kind = self.kind_of_call
        return self.call("log", total) if kind.is_log and not kind.is_backward else total

    def rows(self) -> None:
        """Emit the loop over rows."""
        with self.loop(self.n["first"], self.n["last"]) as row:
            start = self.mul(row, self.n["n"])
            at = [self.at("float", array, start) for array in (*self.inputs, self.out)]
            row_max = "" if self.kind_of_call.is_backward else self.row_max(at[0])
            sums = self.variable("float", "0.0")
            with self.loop("0", self.n["n"]) as i:
                old = self.new(f"load float, ptr {sums}")
                added = self.binary("fadd reassoc", old, self.term(at, i, row_max))
                self.do(f"store float {added}, ptr {sums}")
            total = self.finished(self.new(f"load float, ptr {sums}"))
            with self.loop("0", self.n["n"]) as i:
                self.result(at, i, row_max, total)

    def row_max(self, x: str) -> str:
        """Emit the maximum of a row, of integers in the order of floats, which LLVM vectorizes.

        A NaN may be ignored: the sum of the row is NaN anyway.
        """
        best = self.variable("i32", str(-(2**31)))
        with self.loop("0", self.n["n"]) as i:
            bits = self.value(x, i, "i32")
            key, old = self.in_order(bits), self.new(f"load i32, ptr {best}")
            larger = self.new(f"icmp sgt i32 {key}, {old}")
            self.do(f"store i32 {self.new(f'select i1 {larger}, i32 {key}, i32 {old}')}, ptr {best}")
        return self.new(f"bitcast i32 {self.in_order(self.new(f'load i32, ptr {best}'))} to float")

    def in_order(self, bits: str) -> str:
        """Emit the integer whose order is that of a float with these bits, or the bits of such an integer."""
        mask = self.new(f"and i32 {self.new(f'ashr i32 {bits}, 31')}, {LARGEST}")
        return self.new(f"xor i32 {bits}, {mask}")

    def blocks(self) -> None:
        """Emit the loop over blocks of adjacent lines."""
        n, inner = self.n["n"], self.n["inner"]
        blocks = self.new(f"sdiv i64 {self.add(inner, str(WIDTH - 1))}, {WIDTH}")
        maxima, totals = self.workspace, self.at("float", self.workspace, str(WIDTH))
        with self.loop(self.n["first"], self.n["last"]) as block:
            outer = self.new(f"sdiv i64 {block}, {blocks}")
            begin = self.mul(self.new(f"sub i64 {block}, {self.mul(outer, blocks)}"), str(WIDTH))
            left = self.new(f"sub i64 {inner}, {begin}")
            width = self.new(f"call i64 @llvm.smin.i64(i64 {left}, i64 {WIDTH})")
            start = self.add(self.mul(self.mul(outer, n), inner), begin)
            with self.loop("0", width) as w:
                self.store(NEGATIVE_INFINITY, maxima, w)
                self.store("0.0", totals, w)

            def each(step: Callable[[list[str], str], None]) -> None:
                with self.loop("0", n) as k:
                    line = self.add(start, self.mul(k, inner))
                    at = [self.at("float", array, line) for array in (*self.inputs, self.out)]
                    with self.loop("0", width) as w:
                        step(at, w)

            def larger(at: list[str], w: str) -> None:
                value, old = self.value(at[0], w), self.value(maxima, w)
                mask = self.new(f"fcmp ogt float {value}, {old}")
                self.store(self.new(f"select i1 {mask}, float {value}, float {old}"), maxima, w)

            def adding(at: list[str], w: str) -> None:
                term = self.term(at, w, self.value(maxima, w))
                self.store(self.binary("fadd", self.value(totals, w), term), totals, w)

            if not self.kind_of_call.is_backward:
                each(larger)
            each(adding)
            with self.loop("0", width) as w:
                self.store(self.finished(self.value(totals, w)), totals, w)
            each(lambda at, w: self.result(at, w, self.value(maxima, w), self.value(totals, w)))


def softmax_text(name: str, is_row: bool) -> str:
    """Return the loop ``loop(numbers, *operands, workspace, out)`` of a key of `KINDS`.

    Args:
        name: The operator.
        is_row: True for lines along the last dimension.
    """
    kind = KINDS[name]
    code = _Softmax(kind)
    if is_row:
        code.rows()
    else:
        code.blocks()
    used = (("exp",) if kind.is_log else ()) if kind.is_backward else ("below_zero", "log")
    return code.module("softmax", len(code.inputs) + 2, 2) + _functions(used)


def softmax_loop(name: str, is_row: bool) -> Callable[..., None] | None:
    """Return the compiled loop of an operator, or None if the processor has no fused multiply-add."""
    processor = target()
    if processor is None or not processor.fuses:
        return None
    return loop_function(softmax_text(name, is_row))
