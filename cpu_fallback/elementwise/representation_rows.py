"""Lowering of functions of a float's bits, and of remainders of floats, with the bits of their NumPy passes."""

from __future__ import annotations

from ...dispatch.layers.graph.graph import Node
from ...runtime.cpu.element_program import CannotLower, Value
from .operator_step import Row, Step
from .vector_passes import LONG, WHOLE


def _word_of(s: Step) -> tuple[str, int]:
    """Return the dtype of a float's bits, and their number."""
    return ("int32", 32) if s.dtype == "float32" else ("int64", 64)


def _with_sign(s: Step, a: Value, b: Value) -> Value:
    """Return the magnitude of `a` with the sign of `b`."""
    p, (word, size) = s.program, _word_of(s)
    sign, rest = p.number(-(2 ** (size - 1)), word), p.number(2 ** (size - 1) - 1, word)
    bits = p.bitwise("and", p.reinterpreted(a, word), rest)
    return p.reinterpreted(p.bitwise("or", bits, p.bitwise("and", p.reinterpreted(b, word), sign)), s.dtype)


def copysign(s: Step) -> Value:
    """Lower the magnitude of one number with the sign of another."""
    s.need("f")
    return _with_sign(s, *s.operands)


def frac(s: Step) -> Value:
    """Lower the fractional part."""
    s.need("f")
    a = s.operand("self")
    return s.program.arithmetic("sub", a, s.program.intrinsic("trunc", a))


def nextafter(s: Step) -> Value:
    """Lower the neighbor of `a` towards `b`: away from zero, the bits count up."""
    s.need("f")
    if s.is_narrow:
        raise CannotLower("nextafter")
    p, (word, _), (a, b) = s.program, _word_of(s), s.operands
    zero, one, bits = s.number(0), p.number(1, word), p.reinterpreted(a, word)
    is_outward = p.bitwise("xor", p.compare("gt", b, a), p.compare("lt", a, zero))
    step = p.select(is_outward, one, p.number(-1, word))
    made = p.reinterpreted(p.arithmetic("add", bits, step), s.dtype)
    made = p.select(p.compare("eq", a, zero), _with_sign(s, p.reinterpreted(one, s.dtype), b), made)
    made = p.select(p.compare("eq", a, b), b, made)
    return p.select(p.is_nan(a), a, p.select(p.is_nan(b), b, made))


def _rest(s: Step, a: Value, b: Value) -> Value:
    """Return the remainder of float32 with the dividend's sign, from an exact product in float64.

    Quotients that are too large, and remainders that are NaN, are outside of the loop's range.
    """
    p = s.program
    if s.dtype != "float32" or s.numel <= LONG or not p.has_ranges:
        raise CannotLower("a remainder")
    wide, divisor = p.convert(a, "float64"), p.convert(b, "float64")
    quotient = p.intrinsic("trunc", p.arithmetic("div", wide, divisor))
    rest = p.arithmetic("sub", wide, p.arithmetic("mul", quotient, divisor))
    rest = p.convert(rest, "float32")
    is_large = p.compare("ge", p.intrinsic("fabs", quotient), p.number(WHOLE, "float64"))
    p.outside.append(p.bitwise("or", is_large, p.is_nan(rest)))
    # The passes set the dividend's sign bit, and clear none.
    word = p.reinterpreted(a, "int32")
    sign = p.bitwise("and", word, p.number(-(1 << 31), "int32"))
    return p.reinterpreted(p.bitwise("or", p.reinterpreted(rest, "int32"), sign), "float32")


def fmod(s: Step) -> Value:
    """Lower the remainder with the dividend's sign."""
    return _rest(s, *s.operands)


def remainder(s: Step) -> Value:
    """Lower `fmod` brought to the divisor's sign, which a zero has too."""
    p, (a, b) = s.program, s.operands
    rest, zero = _rest(s, a, b), s.number(0)
    differs = p.bitwise("xor", p.compare("lt", b, zero), p.compare("lt", rest, zero))
    crosses = p.bitwise("and", p.compare("ne", rest, zero), differs)
    rest = p.select(crosses, p.arithmetic("add", rest, b), rest)
    return p.select(p.compare("eq", rest, zero), _with_sign(s, rest, b), rest)


def lerp(s: Step) -> Value:
    """Lower lerp with a tensor of weights; infinite terms without weight count as 0, as in the passes."""
    s.need("f")
    p, one, zero = s.program, s.number(1), s.number(0)
    start, end, weight = (s.operand(name) for name in ("self", "end", "weight"))
    span, rest = p.arithmetic("sub", end, start), p.arithmetic("sub", one, weight)
    from_start = p.arithmetic("add", start, p.arithmetic("mul", weight, span))
    from_end = p.arithmetic("sub", end, p.arithmetic("mul", span, rest))
    is_small = p.compare("lt", p.intrinsic("fabs", weight), s.number(0.5))
    made = p.select(is_small, from_start, from_end)

    def share(a: Value, factor: Value) -> Value:
        is_infinite = p.compare("eq", p.intrinsic("fabs", a), s.number(float("inf")))
        is_nothing = p.bitwise("and", p.compare("eq", factor, zero), is_infinite)
        return p.select(is_nothing, zero, p.arithmetic("mul", a, factor))

    weighted = p.arithmetic("add", share(start, rest), share(end, weight))
    return p.select(p.is_nan(made), weighted, made)


def of_floats(row: Row, other: Row) -> Row:
    """Return the lowering of an operator by `row` for floats, and by `other` for integers."""
    return lambda s: (row if "float" in s.dtype else other)(s)


def of_weights(row: Row, of_number: Row) -> Row:
    """Return the lowering of lerp by `row` for a tensor of weights, and by `of_number` for a number."""
    return lambda s: (row if isinstance(s.raw("weight"), Node) else of_number)(s)
