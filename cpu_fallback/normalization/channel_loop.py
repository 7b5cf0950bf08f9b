"""LLVM IR of loops over the lines of channels: statistics and normalization (batch_norm, group_norm).

Lines are contiguous: those of all channels for each sample. A part is some channels, whose lines stay in the cache
from one pass to the next. A piece of a line is added in several lanes, in LLVM's order for the processor, and pieces
are added in float64.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from ...runtime.cpu.code import FloatCode
from ...runtime.cpu.object_code import loop_function

PIECE = 2048
"""Elements of a line that are added in the dtype itself."""
NUMBERS = ("first", "last", "samples", "channels", "length")
"""Numbers of a part: its channels, and the counts of samples, channels and elements of a line."""


class _Lines(FloatCode):
    """The body of a loop over the lines of channels."""

    def __init__(self, dtype: str) -> None:
        super().__init__(dtype)
        self.n = self.numbers("%g", NUMBERS)

    @contextlib.contextmanager
    def pieces(self, channel: str) -> Iterator[tuple[str, str]]:
        """Iterate over the pieces of a channel's lines: start and length."""
        with self.loop("0", self.n["samples"]) as sample:
            line = self.mul(self.add(self.mul(sample, self.n["channels"]), channel), self.n["length"])
            with self.loop("0", self.n["length"], PIECE) as start:
                left = self.new(f"sub i64 {self.n['length']}, {start}")
                count = self.new(f"call i64 @llvm.smin.i64(i64 {left}, i64 {PIECE})")
                yield self.add(line, start), count

    def sum(self, channel: str, terms: Callable[[str], list[str]], count: int) -> list[str]:
        """Emit sums over a channel of the terms of each place, in float64."""
        totals = [self.variable("double", "0.0") for _ in range(count)]
        with self.pieces(channel) as (start, length):
            self.add_piece(totals, length, lambda i: terms(self.add(start, i)))
        return [self.new(f"load double, ptr {total}") for total in totals]

    def text(self, arrays: int, written: int) -> str:
        """Return the module."""
        return self.module("lines", arrays, written)


def moments_text(dtype: str) -> str:
    """Return the loop ``loop(numbers, x, mean, squares)``: means and sums of squared deviations, in float64."""
    code = _Lines(dtype)
    kind = code.kind
    count = code.new(f"sitofp i64 {code.mul(code.n['samples'], code.n['length'])} to double")
    with code.loop(code.n["first"], code.n["last"]) as channel:
        (total,) = code.sum(channel, lambda place: [code.value("%p0", place)], 1)
        mean = code.new(f"fdiv double {total}, {count}")
        pivot = mean if kind == "double" else code.new(f"fptrunc double {mean} to float")

        def squared(place: str) -> list[str]:
            gap = code.new(f"fsub {kind} {code.value('%p0', place)}, {pivot}")
            return [code.new(f"fmul {kind} {gap}, {gap}")]

        (squares,) = code.sum(channel, squared, 1)
        # Correct for the rounding of the pivot.
        gap = code.new(f"fsub double {mean}, {code.wide(pivot)}")
        left = code.new(f"fmul double {code.new(f'fmul double {gap}, {gap}')}, {count}")
        code.store(mean, "%p1", channel, "double")
        code.store(code.new(f"fsub double {squares}, {left}"), "%p2", channel, "double")
    return code.text(3, 2)


def scaled_text(dtype: str) -> str:
    """Return the loop ``loop(numbers, x, mean, scale, shift, out)``: (x - mean) * scale + shift."""
    code = _Lines(dtype)
    kind = code.kind
    with code.loop(code.n["first"], code.n["last"]) as channel:
        mean, scale, shift = (code.value(f"%p{j}", channel) for j in (1, 2, 3))
        with code.pieces(channel) as (start, length), code.loop("0", length) as i:
            place = code.add(start, i)
            gap = code.new(f"fsub {kind} {code.value('%p0', place)}, {mean}")
            made = code.new(f"fmul {kind} {gap}, {scale}")
            code.store(code.new(f"fadd {kind} {made}, {shift}"), "%p4", place)
    return code.text(5, 1)


def gradient_sums_text(dtype: str) -> str:
    """Return the loop ``loop(numbers, grad, x, mean, plain, scaled)``: sums of grad and grad * (x - mean), in
    float64."""
    code = _Lines(dtype)
    kind = code.kind
    with code.loop(code.n["first"], code.n["last"]) as channel:
        mean = code.value("%p2", channel)

        def terms(place: str) -> list[str]:
            grad = code.value("%p0", place)
            gap = code.new(f"fsub {kind} {code.value('%p1', place)}, {mean}")
            return [grad, code.new(f"fmul {kind} {grad}, {gap}")]

        plain, scaled = code.sum(channel, terms, 2)
        code.store(plain, "%p3", channel, "double")
        code.store(scaled, "%p4", channel, "double")
    return code.text(5, 2)


def gradient_text(dtype: str) -> str:
    """Return the loop ``loop(numbers, grad, x, mean, scale, slope, shift, to)``.

    It computes grad * scale - (x - mean) * slope - shift.
    """
    code = _Lines(dtype)
    kind = code.kind
    with code.loop(code.n["first"], code.n["last"]) as channel:
        mean, scale, slope, shift = (code.value(f"%p{j}", channel) for j in (2, 3, 4, 5))
        with code.pieces(channel) as (start, length), code.loop("0", length) as i:
            place = code.add(start, i)
            made = code.new(f"fmul {kind} {code.value('%p0', place)}, {scale}")
            gap = code.new(f"fsub {kind} {code.value('%p1', place)}, {mean}")
            made = code.new(f"fsub {kind} {made}, {code.new(f'fmul {kind} {gap}, {slope}')}")
            code.store(code.new(f"fsub {kind} {made}, {shift}"), "%p6", place)
    return code.text(7, 1)


TEXTS: dict[str, Callable[[str], str]] = {
    "moments": moments_text,
    "scaled": scaled_text,
    "gradient_sums": gradient_sums_text,
    "gradient": gradient_text,
}


def channel_loop(kind: str, dtype: str) -> Callable[..., None]:
    """Return the compiled loop of a kind, a key of `TEXTS`, and of a dtype."""
    return loop_function(TEXTS[kind](dtype))
