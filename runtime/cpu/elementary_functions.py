"""Elementary functions of float32 as instructions, bitwise identical to NumPy's vector loops.

NumPy's loops on processors with fused multiply-add follow published schemes. An argument is reduced exactly; then a
polynomial or a quotient of polynomials, evaluated by Horner's rule with one rounding for each step, gives the
function. The same steps in the same order are bitwise identical; `cpu_fallback/function_check.py` verifies it.

A function has one path for all arguments, so that LLVM vectorizes a loop with it: special cases are selected at the
end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from .element_program import ElementProgram, Value

F32 = "float32"
I32 = "int32"

EXP_ABOVE = (
    *(9.999999999980870924916e-01, 7.257664613233124478488e-01, 2.473615434895520810817e-01),
    *(5.114512081637298353406e-02, 6.757896990527504603057e-03, 5.082762527590693718096e-04),
)
EXP_BELOW = (1.0, -2.742335390411667452936e-01, 2.159509375685829852307e-02)
"""exp on [-ln(2)/2, ln(2)/2] as a quotient of polynomials, minimax; coefficients from the lowest power."""
LOG2_E = 1.44269504088896340736
LN2_HIGH, LN2_LOW = 6.93145752e-1, 1.42860677e-6
"""ln(2) in two parts; the first has few bits, so its products with integers are exact (Cody and Waite)."""
EXP_LEAST, EXP_MOST = -104.0, 89.0
"""Beyond them exp of float32 is 0 or infinite."""
TO_WHOLE = 1.5 * 2.0**23
"""Added to a float32 and taken away again it leaves the nearest whole number, which is in the low bits between."""

LOG_ABOVE = (
    *(0.0, 9.999999999999998702752e-01, 2.112677543073053063722, 1.480000633576506585156),
    *(3.808837741388407920751e-01, 2.589979117907922693523e-02),
)
LOG_BELOW = (
    *(1.0, 2.612677543073109236779, 2.453006071784736363091, 9.864942958519418960339e-01),
    *(1.546476374983906719538e-01, 5.875095403124574342950e-03),
)
"""log(1 + y) for 1 + y from sqrt(1/2) to sqrt(2) as a quotient of polynomials, minimax."""
LN2 = 0.693147180559945309417
ROOT_HALF = 0.7071068286895752
"""The float32 above sqrt(1/2): mantissas below it count as twice as much, with an exponent less by one."""

TWO_BY_PI = 0.6366197466850281
QUARTER_TURN = (1.570796012878418, 3.1391647326017846e-07, 5.390302529957765e-15)
"""pi/2 in three parts, of which the first ones have few bits (Cody and Waite)."""
COSINE = (1.0, -0.5, 0.04166661947965622, -0.001388652017340064, 2.4372266125283204e-05)
SINE = (0.0, -0.1666666716337204, 0.008333397097885609, -0.00019856491417158395, 2.8404097065504175e-06)
"""On a quarter of a turn around zero, in the square of the number; sine times the number, less the number."""


def number(p: ElementProgram, value: float) -> Value:
    """Return a number, rounded to float32."""
    return p.number(np.float32(value), F32)


def polynomial(p: ElementProgram, coefficients: Sequence[float], x: Value) -> Value:
    """Evaluate a polynomial by Horner's rule, each step rounded once; coefficients start from the lowest power."""
    value = number(p, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        value = p.fused(x, value, number(p, coefficient))
    return value


def scaled(p: ElementProgram, a: Value, power: Value) -> Value:
    """Return a * 2**power, rounded once: by two powers of two that float32 represents; the first step is exact."""
    half = p.shifted("ashr", power, 1)
    for part in (half, p.arithmetic("sub", power, half)):
        bits = p.shifted("shl", p.arithmetic("add", part, p.number(127, I32)), 23)
        a = p.arithmetic("mul", a, p.reinterpreted(bits, F32))
    return a


def exp(p: ElementProgram, a: Value) -> Value:
    """Return e to the power of `a`."""
    lower_bound, upper_bound = number(p, EXP_LEAST), number(p, EXP_MOST)
    x = p.select(p.compare("lt", a, lower_bound), lower_bound, a)
    x = p.select(p.compare("gt", x, upper_bound), upper_bound, x)
    magic = number(p, TO_WHOLE)
    word = p.arithmetic("add", p.arithmetic("mul", x, number(p, LOG2_E)), magic)
    whole = p.arithmetic("sub", word, magic)
    rest = p.fused(whole, number(p, -LN2_HIGH), x)
    rest = p.fused(whole, number(p, -LN2_LOW), rest)
    share = p.arithmetic("div", polynomial(p, EXP_ABOVE, rest), polynomial(p, EXP_BELOW, rest))
    # The number's bits hold the power, even for NaN, which no instruction converts to an integer.
    bits = p.arithmetic("sub", p.reinterpreted(word, I32), p.reinterpreted(magic, I32))
    return scaled(p, share, bits)


def log(p: ElementProgram, a: Value) -> Value:
    """Return the natural logarithm."""
    tiny = p.compare("lt", a, number(p, 2.0**-126))
    x = p.select(tiny, p.arithmetic("mul", a, number(p, 2.0**23)), a)
    word = p.reinterpreted(x, I32)
    # The mantissa is between sqrt(1/2) and sqrt(2), so the exponent counts from the bits of sqrt(1/2).
    base = p.reinterpreted(number(p, ROOT_HALF), I32)
    power = p.shifted("ashr", p.arithmetic("sub", word, base), 23)
    mantissa = p.reinterpreted(p.arithmetic("sub", word, p.shifted("shl", power, 23)), F32)
    power = p.select(tiny, p.arithmetic("sub", power, p.number(23, I32)), power)
    y = p.arithmetic("sub", mantissa, number(p, 1))
    share = p.arithmetic("div", polynomial(p, LOG_ABOVE, y), polynomial(p, LOG_BELOW, y))
    result = p.fused(p.convert(power, F32), number(p, LN2), share)
    infinite = number(p, float("inf"))
    result = p.select(p.compare("lt", a, infinite), result, a)  # infinity and NaN are unchanged
    result = p.select(p.compare("lt", a, number(p, 0)), number(p, float("nan")), result)
    return p.select(p.compare("eq", a, number(p, 0)), number(p, float("-inf")), result)


def _sine(is_cosine: bool) -> Callable[[ElementProgram, Value], Value]:
    """Return sin, or cos (a quarter turn ahead), of the number reduced by a whole number of quarter turns."""

    def write(p: ElementProgram, a: Value) -> Value:
        magic = number(p, TO_WHOLE)
        word = p.fused(a, number(p, TWO_BY_PI), magic)
        quarters = p.arithmetic("sub", word, magic)
        rest = a
        for part in QUARTER_TURN:
            rest = p.fused(quarters, number(p, -part), rest)
        square = p.arithmetic("mul", rest, rest)
        cosine = polynomial(p, COSINE, square)
        sine = p.fused(polynomial(p, SINE, square), rest, rest)
        count = p.arithmetic("sub", p.reinterpreted(word, I32), p.reinterpreted(magic, I32))
        if is_cosine:
            count = p.arithmetic("add", count, p.number(1, I32))
        is_even, is_first_half = (
            p.compare("eq", p.bitwise("and", count, p.number(bit, I32)), p.number(0, I32)) for bit in (1, 2)
        )
        result = p.select(is_even, sine, cosine)
        return p.select(is_first_half, result, p.arithmetic("sub", number(p, 0), result))

    return write


FUNCTIONS: dict[str, Callable[[ElementProgram, Value], Value]] = {"exp": exp, "log": log}
"""By the ufunc's name."""
RANGED: dict[str, tuple[Callable[[ElementProgram, Value], Value], float]] = {
    "sin": (_sine(False), 117435.992),
    "cos": (_sine(True), 71476.0625),
}
"""Those that hold for numbers up to one, which NumPy computes in vectors: larger ones are the C library's."""


def instructions_of(p: ElementProgram, name: str, a: Value) -> Value | None:
    """Return a ufunc of a number as instructions; None if there are none, or they are not bitwise identical here."""
    if (
        a.dtype != F32
        or not (name in FUNCTIONS or (name in RANGED and p.has_ranges))
        or not p.has_function(name)
    ):
        return None
    if name in FUNCTIONS:
        return FUNCTIONS[name](p, a)
    write, max_abs = RANGED[name]
    p.outside.append(p.compare("gt", p.intrinsic("fabs", a), number(p, max_abs)))
    return write(p, a)
