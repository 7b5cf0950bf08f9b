"""Loop that counts integers, or adds their weights, in one pass."""

from __future__ import annotations

from collections.abc import Callable

from ...runtime.cpu.calling_convention import HEADER
from ...runtime.cpu.code import Code, module_calls
from ...runtime.cpu.object_code import loop_function

KINDS = {"": "i64", "float32": "float", "float64": "double"}
"""LLVM type of the sums, by the weights' dtype."""


def bincount_text(weights: str) -> str:
    """Return the module of ``loop((count, bins), sums, largest, integers)``, with the weights as a last array.

    `sums` has an element more than there are bins, for integers that have no bin. `largest` is the largest integer,
    where a negative one counts as unsigned. Each integer is read once.
    """
    code, kind = Code(), KINDS[weights]
    count, bins = code.number("%g", 0), code.number("%g", 1)
    largest = code.variable("i64", "0")
    with code.loop("0", count) as i:
        value = code.new(f"load i64, ptr {code.at('i64', '%p2', i)}")
        before = code.new(f"load i64, ptr {largest}")
        code.do(f"store i64 {code.new(f'call i64 @llvm.umax.i64(i64 {value}, i64 {before})')}, ptr {largest}")
        place = code.at(kind, "%p0", code.new(f"call i64 @llvm.umin.i64(i64 {value}, i64 {bins})"))
        total = code.new(f"load {kind}, ptr {place}")
        if weights:
            weight = code.new(f"load {kind}, ptr {code.at(kind, '%p3', i)}")
            total = code.new(f"fadd {kind} {total}, {weight}")
        else:
            total = code.add(total, "1")
        code.do(f"store {kind} {total}, ptr {place}")
    code.do(f"store i64 {code.new(f'load i64, ptr {largest}')}, ptr %p1")
    arrays = 4 if weights else 3
    pointers = [f"ptr noalias nocapture {'' if j < 2 else 'readonly '}%p{j}" for j in range(arrays)]
    arguments = ", ".join(["ptr nocapture readonly %g", *pointers])
    extrema = "declare i64 @llvm.umax.i64(i64, i64)\ndeclare i64 @llvm.umin.i64(i64, i64)\n"
    body = code.function("loop", arguments, "noinline nounwind")
    return HEADER + extrema + body + module_calls("loop", arrays + 1)


def bincount_loop(weights: str) -> Callable[..., None]:
    """Return the loop for weights of a dtype of `KINDS`."""
    return loop_function(bincount_text(weights))
