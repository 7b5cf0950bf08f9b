"""Loop of a pass of radix sort over 64-bit numbers."""

from __future__ import annotations

from collections.abc import Callable

from ...runtime.cpu.calling_convention import HEADER
from ...runtime.cpu.code import Code, module_calls
from ...runtime.cpu.object_code import loop_function

DIGIT_BITS = 11
"""Bits that a pass sorts by: its counts stay in the first-level cache."""


def radix_text() -> str:
    """Return the module of ``loop((count, shift), out, counts, numbers)``, which sorts by the bits from `shift` on.

    The pass is stable. `counts` has ``1 << DIGIT_BITS`` elements of int64, which are zero.
    """
    code = Code()
    count, shift = code.number("%g", 0), code.number("%g", 1)

    def loaded(i: str) -> tuple[str, str]:
        """Emit the load of a number, and the pointer to its digit's count."""
        number = code.number("%p2", i)
        digit = code.new(f"and i64 {code.new(f'lshr i64 {number}, {shift}')}, {(1 << DIGIT_BITS) - 1}")
        return number, code.at("i64", "%p1", digit)

    with code.loop("0", count) as i:
        _, at = loaded(i)
        code.do(f"store i64 {code.add(code.new(f'load i64, ptr {at}'), '1')}, ptr {at}")
    first = code.variable("i64", "0")
    with code.loop("0", str(1 << DIGIT_BITS)) as digit:
        at = code.at("i64", "%p1", digit)
        before = code.new(f"load i64, ptr {first}")
        code.do(f"store i64 {code.add(before, code.new(f'load i64, ptr {at}'))}, ptr {first}")
        code.do(f"store i64 {before}, ptr {at}")
    with code.loop("0", count) as i:
        number, at = loaded(i)
        place = code.new(f"load i64, ptr {at}")
        code.do(f"store i64 {code.add(place, '1')}, ptr {at}")
        code.do(f"store i64 {number}, ptr {code.at('i64', '%p0', place)}")
    arguments = (
        "ptr nocapture readonly %g, ptr noalias nocapture %p0, ptr noalias nocapture %p1, "
        "ptr noalias nocapture readonly %p2"
    )
    return HEADER + code.function("loop", arguments, "noinline nounwind") + module_calls("loop", 4)


def radix_loop() -> Callable[..., None]:
    """Return the compiled loop of a pass."""
    return loop_function(radix_text())
