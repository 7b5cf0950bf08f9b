"""Loops that reduce contiguous lines of float32 to one number each, in the order of eager kernels.

A loop serves lines of every length and number, and threads share its parts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy._core.multiarray import c_einsum

from ...runtime.cpu.calling_convention import HEADER, loaded_number, python_call
from ...runtime.cpu.object_code import loop_function
from ..function_check import streamed_sums
from .line_code import LineCode
from .line_products import LONGEST_PRODUCT, line_product, products_of_halves
from .line_reductions import RUN, line_sums
from .reduction_source import extremum, line_sum, run_sum

TEXTS: dict[str, Callable[[], str]] = {
    "run_sum": lambda: run_sum(),
    "line_sum": lambda: run_sum() + line_sum("line_sum"),
    "streamed_sum": lambda: run_sum() + line_sum("streamed_sum"),
    "maximum": lambda: extremum("maximum"),
    "minimum": lambda: extremum("minimum"),
    "line_product": line_product,
    "line_square_sum": lambda: "".join(
        (run_sum(), run_sum("run_squares"), line_sum("line_squares"), square_sum())
    ),
}
"""LLVM IR of the function of a line, by name."""
EAGER: dict[str, Callable[[Any], Any]] = {
    "run_sum": lambda lines: c_einsum("...i->...", lines),
    "line_sum": line_sums,
    "streamed_sum": streamed_sums,
    "maximum": lambda lines: np.take_along_axis(lines, lines.argmax(1, keepdims=True), 1)[:, 0],
    "minimum": lambda lines: np.take_along_axis(lines, lines.argmin(1, keepdims=True), 1)[:, 0],
    "line_product": products_of_halves,
    "line_square_sum": lambda lines: line_sums(np.square(lines)),
}
"""NumPy passes, by name."""
LENGTHS = (1, 3, 16, 37, 129, RUN, 1000, 1030, LONGEST_PRODUCT - 1, 9000)
"""Lengths of the lines that are compared with eager kernels; those of products end at `LONGEST_PRODUCT`."""


def square_sum() -> str:
    """Return ``float @line_square_sum(ptr, i64)``: the sum of squared deviations from zero."""
    f = LineCode("line_square_sum")
    return f.end(f"float {f.new('call float @line_squares(ptr %x, i64 %n, float 0.0)')}")


def lines_text(name: str) -> str:
    """Return the loop ``loop((count, length, first), out, lines)``, which reduces `count` lines from line `first`."""
    return f"""{HEADER}{TEXTS[name]()}
define internal void @loop(ptr %g, ptr noalias %p0, ptr readonly %p1) noinline {{
entry:
{chr(10).join([*loaded_number("n", 0), *loaded_number("m", 1), *loaded_number("first", 2)])}
  %end = add i64 %first, %n
  %any = icmp slt i64 %first, %end
  br i1 %any, label %line, label %done
line:
  %i = phi i64 [%first, %entry], [%i_next, %line]
  %start = mul i64 %i, %m
  %x = getelementptr float, ptr %p1, i64 %start
  %v = call float @{name}(ptr %x, i64 %m)
  %at = getelementptr float, ptr %p0, i64 %i
  store float %v, ptr %at, align 4
  %i_next = add i64 %i, 1
  %more = icmp slt i64 %i_next, %end
  br i1 %more, label %line, label %done
done:
  ret void
}}
{python_call(2, 2)}"""


def line_loop(name: str) -> Callable[..., None] | None:
    """Return the loop of a name; None if it is not bitwise identical to NumPy's passes."""
    loop = loop_function(lines_text(name))
    return loop if reduces_as_numpy(name, loop) else None


def reduces_as_numpy(name: str, loop: Callable[..., None]) -> bool:
    """Return True if a loop is bitwise identical to the NumPy passes on this processor."""
    rng = np.random.default_rng(11)
    for length in LENGTHS if name != "line_product" else LENGTHS[:-1]:
        lines, actual = rng.standard_normal((5, length), np.float32), np.empty(5, np.float32)
        lines[3] = np.where(lines[3] > 0, np.float32(0), np.float32(-0.0))
        lines[4, length // 2] = np.nan
        loop(np.array([5, length, 0]), actual, lines)
        expected = EAGER[name](lines)
        if not np.array_equal(actual, expected, equal_nan=True) or np.signbit(actual[3]) != np.signbit(
            expected[3]
        ):
            return False
    return True
