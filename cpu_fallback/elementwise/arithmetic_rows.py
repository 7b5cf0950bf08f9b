"""Lowering of arithmetic: sums and products, comparisons, selection, bits, rounding, roots and powers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...dispatch.layers.graph.graph import Node
from ...runtime.cpu.element_program import CannotLower, Value, kind_of
from . import representation_rows as rows
from .operator_step import Row, Step, check_extremes, inverse, product
from .vector_passes import LONG


def _scaled(s: Step, name: str, scale: str) -> Value:
    """Return an operand times a scale, which is omitted if it is 1."""
    value = s.operand(name)
    return product(s, value, s.operand(scale)) if scale in s.call.runtime else value


def _add(s: Step) -> Value:
    return s.program.arithmetic("add", s.operand("self"), _scaled(s, "other", "alpha"))


def _sub(s: Step) -> Value:
    return s.program.arithmetic("sub", s.operand("self"), _scaled(s, "other", "alpha"))


def _rsub(s: Step) -> Value:
    return s.program.arithmetic("sub", s.operand("other"), _scaled(s, "self", "alpha"))


def _mul(s: Step) -> Value:
    return s.program.arithmetic("mul", *s.operands)


def _div(s: Step) -> Value:
    s.need("f")
    return s.program.arithmetic("div", *s.operands)


def _addc(name: str) -> Row:
    """Return the lowering of self + value * tensor1 * tensor2, or with a division by tensor2."""

    def row(s: Step) -> Value:
        s.need("f" if name == "div" else "fiu")
        scaled = s.operand("tensor1")
        if "value" in s.call.runtime:
            scaled = product(s, s.operand("value"), scaled)
        term = s.program.arithmetic(name, scaled, s.operand("tensor2"))
        return s.program.arithmetic("add", s.operand("self"), term)

    return row


def _compare(name: str) -> Row:
    return lambda s: s.program.compare(name, *s.operands)


def _bitwise(name: str) -> Row:
    return lambda s: s.program.bitwise(name, *s.operands)


def _bitwise_not(s: Step) -> Value:
    a = s.operand("self")
    all_ones = True if kind_of(a) == "b" else -1
    return s.program.bitwise("xor", a, s.program.number(all_ones, a.dtype))


def _logical(name: str) -> Row:
    """Return the lowering of a logical operator; operands of other dtypes are compared with zero first."""

    def row(s: Step) -> Value:
        truths = [s.program.convert(value, "bool") for value in s.operands]
        return s.program.bitwise(name, *truths)

    return row


def _logical_not(s: Step) -> Value:
    truth = s.program.convert(s.operand("self"), "bool")
    return s.program.bitwise("xor", truth, s.program.number(True, "bool"))


def _shift(name: str) -> Row:
    """Return the lowering of a shift by a number of bits within the width."""

    def row(s: Step) -> Value:
        s.need("iu")
        a, bits = s.operand("self"), s.raw("other")
        if isinstance(bits, Node) or not 0 <= bits < 8 * np.dtype(a.dtype).itemsize:
            raise CannotLower(name)
        code = "shl" if name == "left" else "ashr" if kind_of(a) == "i" else "lshr"
        return s.program.instruction(a.dtype, f"{code} {a.register} {{0}}, {bits}", a)

    return row


def _integer_division(name: str) -> Row:
    """Return the lowering of integer division or remainder by a constant other than 0 and -1."""

    def row(s: Step) -> Value:
        s.need("iu")
        p, a, divisor = s.program, s.operand("self"), s.raw("other")
        if isinstance(divisor, Node) or divisor != int(divisor) or divisor in (0, -1):
            raise CannotLower(name)
        b = s.operand("other")
        if int(b.text) != divisor:
            raise CannotLower("a divisor that wraps")
        sign = "s" if kind_of(a) == "i" else "u"
        quotient = p.instruction(a.dtype, f"{sign}div {a.register} {{0}}, {{1}}", a, b)
        rest = p.instruction(a.dtype, f"{sign}rem {a.register} {{0}}, {{1}}", a, b)
        is_floor = name in ("floor_divide", "remainder") and sign == "s"
        if not is_floor:
            return quotient if name.endswith("divide") else rest
        zero = p.number(0, a.dtype)
        crosses = p.bitwise(
            "and", p.compare("ne", rest, zero), p.compare("lt" if divisor > 0 else "gt", rest, zero)
        )
        if name == "remainder":
            return p.select(crosses, p.arithmetic("add", rest, b), rest)
        return p.arithmetic("sub", quotient, p.select(crosses, p.number(1, a.dtype), zero))

    return row


def _div_mode(s: Step) -> Value:
    mode = s.call.args["rounding_mode"]
    if mode is None:
        return _div(s)
    if kind_of(s.operand("self")) == "f":
        if mode == "floor":
            raise CannotLower("floor of a quotient")
        quotient = s.program.arithmetic("div", *s.operands)
        if s.is_narrow:
            quotient = s.program.convert(s.program.convert(quotient, s.common.name), s.dtype)
        return s.program.intrinsic("trunc", quotient)
    return _integer_division("floor_divide" if mode == "floor" else "trunc_divide")(s)


def _extreme(name: str) -> Row:
    def row(s: Step) -> Value:
        check_extremes(s)
        return getattr(s.program, name)(*s.operands)  # type: ignore[no-any-return]

    return row


def _clamp(s: Step) -> Value:
    s.need("fiu")
    p, a = s.program, s.operand("self")
    low, high = (s.call.args.get(name) is not None for name in ("min", "max"))
    bounds = [name for name in ("min", "max") if s.call.args.get(name) is not None]
    if any(isinstance(s.raw(name), Node) and s.call.args[name].ndim for name in bounds) and len(bounds) == 2:
        if s.numel <= LONG:
            raise CannotLower("clamp")
        check_extremes(s)
        return p.minimum(p.maximum(a, s.operand("min")), s.operand("max"))
    if low and high:
        for name, order in (("min", "ge"), ("max", "le")):
            bound = s.operand(name)
            chosen = p.select(p.compare(order, a, bound), a, bound)
            a = p.select(p.is_nan(a), a, chosen) if kind_of(a) == "f" else chosen
        return a
    check_extremes(s)
    return (p.maximum if low else p.minimum)(a, s.operand(bounds[0]))


def _where(s: Step) -> Value:
    dtype = s.call.extra["common_dtype"].name
    return s.program.select(
        s.operand("condition", "bool"), s.operand("self", dtype), s.operand("other", dtype)
    )


def _abs(s: Step) -> Value:
    p, a = s.program, s.operand("self")
    kind = kind_of(a)
    if kind == "f":
        return p.intrinsic("fabs", a)
    return a if kind == "u" else p.select(p.compare("lt", a, s.number(0)), p.negative(a), a)


def _neg(s: Step) -> Value:
    s.need("fiu")
    return s.program.negative(s.operand("self"))


def _sign(s: Step) -> Value:
    p, a = s.program, s.operand("self")
    if kind_of(a) == "b":
        return a
    below = s.number(0)
    if kind_of(a) != "u":
        below = p.select(p.compare("lt", a, s.number(0)), s.number(-1), s.number(0))
    return p.select(p.compare("gt", a, s.number(0)), s.number(1), below)


def _signbit(s: Step) -> Value:
    p, a = s.program, s.operand("self")
    if kind_of(a) != "f":
        return p.compare("lt", a, p.number(0, a.dtype))
    word = "int32" if a.dtype == "float32" else "int64"
    bits = p.instruction(word, f"bitcast {a.register} {{0}} to {'i' + word[3:]}", a)
    return p.compare("lt", bits, p.number(0, word))


def _rounding(name: str) -> Row:
    def row(s: Step) -> Value:
        a = s.operand("self")
        return s.program.intrinsic(name, a) if kind_of(a) == "f" else a

    return row


def _sqrt(s: Step) -> Value:
    s.need("f")
    return s.program.intrinsic("sqrt", s.operand("self"))


def _reciprocal(s: Step) -> Value:
    s.need("f")
    return inverse(s, s.operand("self"))


def _rsqrt(s: Step) -> Value:
    return inverse(s, _sqrt(s))


def _pow(s: Step) -> Value:
    """Lower a power whose exponent reduces to multiplications and roots."""
    s.need("f")
    exponent = s.raw("exponent")
    if isinstance(exponent, Node) or not isinstance(s.raw("self"), Node):
        raise CannotLower("pow")
    if s.is_narrow and exponent != 2:
        raise CannotLower("pow")  # NumPy computes the power; the square of a 16-bit float is exact in float32
    a = s.operand("self")
    square = product(s, a, a)
    made: dict[float, Callable[[], Value]] = {
        0.5: lambda: s.program.intrinsic("sqrt", a),
        1.0: lambda: a,
        2.0: lambda: square,
        3.0: lambda: product(s, square, a),
        -0.5: lambda: inverse(s, s.program.intrinsic("sqrt", a)),
        -1.0: lambda: inverse(s, a),
        -2.0: lambda: inverse(s, square),
    }
    if exponent not in made:
        raise CannotLower("pow")
    return made[exponent]()


def _lerp(s: Step) -> Value:
    """Lower lerp with a number as weight."""
    s.need("f")
    p, start, end, weight = s.program, s.operand("self"), s.operand("end"), s.raw("weight")
    span = p.arithmetic("sub", end, start)
    rounded = np.dtype(s.dtype).type(weight)
    if abs(rounded) < 0.5:
        made = p.arithmetic("add", start, product(s, span, s.operand("weight")))
    else:
        made = p.arithmetic("sub", end, product(s, span, s.number(1 - rounded)))

    def share(a: Value, factor: float) -> Value:
        term = product(s, a, s.number(factor))
        if factor != 0:
            return term
        is_infinite = p.compare("eq", p.intrinsic("fabs", a), s.number(np.inf))
        return p.select(is_infinite, s.number(0), term)

    # If the span is infinite, use the weighted sum, which is infinite between a number and infinity.
    weighted = p.arithmetic("add", share(start, 1 - rounded), share(end, rounded))
    return p.select(p.is_nan(made), weighted, made)


ARITHMETIC: dict[str, Row] = {
    "abs": _abs,
    "add": _add,
    "addcdiv": _addc("div"),
    "addcmul": _addc("mul"),
    "bitwise_and": _bitwise("and"),
    "bitwise_left_shift": _shift("left"),
    "bitwise_not": _bitwise_not,
    "bitwise_or": _bitwise("or"),
    "bitwise_right_shift": _shift("right"),
    "bitwise_xor": _bitwise("xor"),
    "ceil": _rounding("ceil"),
    "clamp": _clamp,
    "clamp_max": _clamp,
    "clamp_min": _clamp,
    "copysign": rows.copysign,
    "div": _div,
    "div_mode": _div_mode,
    "eq": _compare("eq"),
    "floor": _rounding("floor"),
    "floor_divide": _integer_division("floor_divide"),
    "fmod": rows.of_floats(rows.fmod, _integer_division("fmod")),
    "frac": rows.frac,
    "ge": _compare("ge"),
    "gt": _compare("gt"),
    "le": _compare("le"),
    "lerp": rows.of_weights(rows.lerp, _lerp),
    "logical_and": _logical("and"),
    "logical_not": _logical_not,
    "logical_or": _logical("or"),
    "logical_xor": _logical("xor"),
    "lt": _compare("lt"),
    "maximum": _extreme("maximum"),
    "minimum": _extreme("minimum"),
    "mul": _mul,
    "ne": _compare("ne"),
    "neg": _neg,
    "nextafter": rows.nextafter,
    "pow": _pow,
    "reciprocal": _reciprocal,
    "remainder": rows.of_floats(rows.remainder, _integer_division("remainder")),
    "round": _rounding("rint"),
    "rsqrt": _rsqrt,
    "rsub": _rsub,
    "sgn": _sign,
    "sign": _sign,
    "signbit": _signbit,
    "sqrt": _sqrt,
    "sub": _sub,
    "trunc": _rounding("trunc"),
    "where": _where,
}
"""By stub."""
