"""The hyperbolic tangent and the logistic function of float32 as instructions.

NumPy's vector loop reads coefficients from a table, at a place that each number has of its own. These instructions
need no table: a polynomial gives small numbers, and tanh(x) = 1 - 2 / (exp(2x) + 1) the others. The exponential is
reduced as `elementary_functions.exp` is.
"""

from __future__ import annotations

from .element_program import ElementProgram, Value
from .elementary_functions import F32, I32, LN2_HIGH, LN2_LOW, LOG2_E, TO_WHOLE, number, polynomial

OWN_TANH = "own_tanh"
"""Name by which a lowering asks whether eager kernels use these instructions, too."""
TANH_SATURATION = 9.25
"""From 9.02 on, the nearest float32 of tanh is 1."""
MIN_EXPONENT = -87.0
"""The least number whose sigmoid is not 0, and whose exponential has a power of two among normal numbers."""
SMALL = 0.9
"""Numbers up to this one have the polynomial."""
TANH = (
    *(-0.33333332783770964, 0.1333326523939886, -0.053954370514804395, 0.021761912187042546),
    *(-0.008456774749236734, 0.0027655483798709594, -0.0005229825437985706),
)
"""(tanh(x) / x - 1) / x**2 as a polynomial of x**2 up to `SMALL`, minimax; coefficients from the lowest power."""
EXP_MINUS_ONE = (0.5, 1 / 6, 1 / 24, 1 / 120, 1 / 720)
"""(exp(r) - 1 - r) / r**2 on [-ln(2)/2, ln(2)/2]; the next term is a tenth of a unit in the last place."""


def tanh(p: ElementProgram, a: Value) -> Value:
    """Return the hyperbolic tangent, within 1.2 units in the last place."""
    size, square = p.intrinsic("fabs", a), p.arithmetic("mul", a, a)
    small = p.fused(p.arithmetic("mul", square, polynomial(p, TANH, square)), size, size)
    saturation = number(p, TANH_SATURATION)
    x = p.select(p.compare("gt", size, saturation), saturation, size)
    scale, share = exponential(p, p.arithmetic("add", x, x))
    above = p.arithmetic("add", p.fused(scale, share, scale), number(p, 1))
    large = p.arithmetic("sub", number(p, 1), p.arithmetic("div", number(p, 2), above))
    result = p.select(p.compare("lt", size, number(p, SMALL)), small, large)
    sign = p.bitwise("and", p.reinterpreted(a, I32), p.number(-(2**31), I32))
    return p.reinterpreted(p.bitwise("or", p.reinterpreted(result, I32), sign), F32)


def sigmoid(p: ElementProgram, a: Value) -> Value:
    """Return 1 / (1 + exp(-a)), within 3.3 units in the last place."""
    least, zero = number(p, MIN_EXPONENT), number(p, 0)
    x = p.negative(p.select(p.compare("lt", a, least), least, a))
    x = p.select(p.compare("lt", x, least), least, x)
    scale, share = exponential(p, x)
    above = p.arithmetic("add", p.fused(scale, share, scale), number(p, 1))
    return p.select(p.compare("lt", a, least), zero, p.arithmetic("div", number(p, 1), above))


def exponential(p: ElementProgram, x: Value) -> tuple[Value, Value]:
    """Return a power of two s and a small number e with exp(x) = s * (1 + e), for numbers from `MIN_EXPONENT` to 88."""
    magic = number(p, TO_WHOLE)
    word = p.fused(x, number(p, LOG2_E), magic)
    whole = p.arithmetic("sub", word, magic)
    rest = p.fused(whole, number(p, -LN2_HIGH), x)
    rest = p.fused(whole, number(p, -LN2_LOW), rest)
    share = p.fused(p.arithmetic("mul", rest, rest), polynomial(p, EXP_MINUS_ONE, rest), rest)
    # The bits of the number hold the power, even for NaN, which no instruction converts to an integer.
    power = p.arithmetic("sub", p.reinterpreted(word, I32), p.reinterpreted(magic, I32))
    return p.reinterpreted(p.shifted("shl", p.arithmetic("add", power, p.number(127, I32)), 23), F32), share
