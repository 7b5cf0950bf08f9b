"""Elementary functions of float32 as instructions in float64.

NumPy's own functions call the C library for each element, in 10 to 30 nanoseconds, unless the processor has AVX-512.
These take 2. Before a result is rounded, it is off by some 1e-10 of itself (erfc by 1e-9), so it is within 0.51 ulp of
the true value (erfc 0.52).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence

import numpy as np

from ...runtime.cpu.element_program import CannotLower, ElementProgram, Value
from .vector_passes import NUMPY_HAS_VECTORS

F64, I64 = "float64", "int64"


def _bits(value: float) -> int:
    return int(struct.unpack("<q", struct.pack("<d", value))[0])


ROOT_HALF_BITS, ONE_BITS, EXPONENT_BITS = _bits(math.sqrt(0.5)), _bits(1.0), _bits(2.0**52)
MANTISSA, SIGN = 52, -(1 << 63)


class Steps:
    """Arithmetic on float64 values of a program; bool values only select.

    Args:
        program: The program.
    """

    def __init__(self, program: ElementProgram) -> None:
        from ...runtime.cpu.object_code import target

        processor = target()
        self.program, self.fuses = program, processor is not None and processor.fuses

    def number(self, value: float) -> Value:
        """Return a number."""
        return self.program.number(value, F64)

    def add(self, a: Value, b: Value) -> Value:
        """Add."""
        return self.program.arithmetic("add", a, b)

    def sub(self, a: Value, b: Value) -> Value:
        """Subtract."""
        return self.program.arithmetic("sub", a, b)

    def mul(self, a: Value, b: Value) -> Value:
        """Multiply."""
        return self.program.arithmetic("mul", a, b)

    def fused(self, a: Value, b: Value, c: Value) -> Value:
        """Return a * b + c, rounded once if the processor can."""
        return self.program.fused(a, b, c) if self.fuses else self.add(self.mul(a, b), c)

    def div(self, a: Value, b: Value) -> Value:
        """Divide."""
        return self.program.arithmetic("div", a, b)

    def sqrt(self, a: Value) -> Value:
        """Return the square root."""
        return self.program.intrinsic("sqrt", a)

    def less(self, a: Value, b: Value) -> Value:
        """Return True for a < b; False with NaN."""
        return self.program.compare("lt", a, b)

    def equal(self, a: Value, b: Value) -> Value:
        """Return True for a == b; False with NaN."""
        return self.program.compare("eq", a, b)

    def select(self, mask: Value, a: Value, b: Value) -> Value:
        """Return `a` where the mask is True, else `b`."""
        return self.program.select(mask, a, b)

    def absolute(self, a: Value) -> Value:
        """Return the absolute value."""
        return self.program.intrinsic("fabs", a)

    def is_negative(self, a: Value) -> Value:
        """Return True for a set sign bit."""
        return self.program.compare("lt", self._bits_of(a), self._integer(0))

    def signed(self, a: Value, sign: Value) -> Value:
        """Return the absolute value of `a` with the sign of another value."""
        p = self.program
        sign_bit = p.bitwise("and", self._bits_of(sign), self._integer(SIGN))
        return p.reinterpreted(p.bitwise("or", self._bits_of(self.absolute(a)), sign_bit), F64)

    def power(self, word: Value) -> Value:
        """Return 2**n for the whole number n in the low bits of a word."""
        p = self.program
        shifted = p.shifted("shl", self._bits_of(word), MANTISSA)
        return p.reinterpreted(p.arithmetic("add", shifted, self._integer(ONE_BITS)), F64)

    def is_odd(self, word: Value) -> Value:
        """Return True if the whole number in the low bits of a word is odd."""
        p = self.program
        return p.compare("ne", p.bitwise("and", self._bits_of(word), self._integer(1)), self._integer(0))

    def split(self, a: Value) -> tuple[Value, Value]:
        """Return exponent and mantissa, from sqrt(1/2) to sqrt(2), of a positive normal number."""
        p, bits = self.program, self._bits_of(a)
        rest = p.arithmetic("sub", bits, self._integer(ROOT_HALF_BITS - ONE_BITS))
        biased = p.shifted("lshr", rest, MANTISSA)
        mantissa = p.arithmetic("sub", bits, p.shifted("shl", biased, MANTISSA))
        mantissa = p.arithmetic("add", mantissa, self._integer(ONE_BITS))
        exponent = p.reinterpreted(p.bitwise("or", biased, self._integer(EXPONENT_BITS)), F64)
        return self.sub(exponent, self.number(2.0**52 + 1023)), p.reinterpreted(mantissa, F64)

    def _bits_of(self, a: Value) -> Value:
        return self.program.reinterpreted(a, I64)

    def _integer(self, value: int) -> Value:
        return self.program.number(value, I64)


TO_WHOLE = 1.5 * 2.0**52
"""Added to a float64 it leaves the nearest whole number in the low bits."""
TINY = 2.0**-40
"""Numbers below it are their own sinh, arctangent, log1p and so on, to 1e-12."""
EXPM1 = [1 / math.factorial(k) for k in range(1, 10)]
"""(exp(r) - 1) / r in powers of r, up to ln(2) / 2: off by 2e-11."""
LOG2_E, LN2 = 1 / math.log(2), math.log(2)
LN2_HIGH = float(np.float32(LN2))
LN2_LOW = LN2 - LN2_HIGH
LOG_SERIES = [2 / (2 * k + 1) for k in range(7)]
"""log((1 + s) / (1 - s)) / s in powers of s^2, up to s = 0.172: off by 2e-12."""
SINE = [(-1) ** k / math.factorial(2 * k + 1) for k in range(6)]
COSINE = [(-1) ** k / math.factorial(2 * k) for k in range(7)]
"""Series of sin(r) / r and cos(r) in powers of r^2, up to pi / 4: off by 1e-11."""
HALF_PI_HIGH = float(np.float32(math.pi / 2))
HALF_PI_LOW = (math.pi / 2 - HALF_PI_HIGH) + 6.123233995736766e-17
"""The first part has few bits, so that its products with whole numbers are exact (Cody and Waite)."""
TAN_RANGE = 1e5
"""Numbers up to which the tangent is exact; larger ones are the C library's."""
ARCTANGENT = (
    *(-0.33333333281082606, 0.1999997778435178, -0.14284175492710222, 0.11071759151813904),
    *(-0.08627289506130752, 0.05054209706134144),
)
"""(atan(t) / t - 1) / t^2 in powers of t^2 up to t = tan(pi / 8), fitted: off by 9e-11."""
TAN_PI_8 = math.tan(math.pi / 8)
MAX_EXPONENT = 110.0
"""Exponents beyond which a float32 exp is infinite or -1 for certain."""


def polynomial(s: Steps, coefficients: Sequence[float], x: Value) -> Value:
    """Evaluate a polynomial by Horner's rule; coefficients start with the lowest power."""
    value = s.number(coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        value = s.fused(value, x, s.number(coefficient))
    return value


def _clipped(s: Steps, a: Value, limit: float) -> Value:
    """Return `a` within the limits; NaN stays."""
    low, high = s.number(-limit), s.number(limit)
    a = s.select(s.less(a, low), low, a)
    return s.select(s.less(high, a), high, a)


def _unless_tiny(s: Steps, a: Value, result: Value) -> Value:
    """Return the result, or a tiny number itself, also a zero with its sign."""
    return s.select(s.less(s.absolute(a), s.number(TINY)), a, result)


def _power_parts(s: Steps, a: Value) -> tuple[Value, Value]:
    """Return 2**n and p with exp(a) = 2**n (1 + p)."""
    word = s.fused(a, s.number(LOG2_E), s.number(TO_WHOLE))
    whole = s.sub(word, s.number(TO_WHOLE))
    rest = s.fused(whole, s.number(-LN2_HIGH), a)
    rest = s.fused(whole, s.number(-LN2_LOW), rest)
    return s.power(word), s.mul(rest, polynomial(s, EXPM1, rest))


def _expm1(s: Steps, a: Value) -> Value:
    scale, part = _power_parts(s, _clipped(s, a, MAX_EXPONENT))
    return s.fused(scale, part, s.sub(scale, s.number(1)))


def expm1(s: Steps, a: Value) -> Value:
    """Compute exp(a) - 1."""
    return _unless_tiny(s, a, _expm1(s, a))


def exp2(s: Steps, a: Value) -> Value:
    """Compute 2**a."""
    a = _clipped(s, a, 200.0)
    word = s.add(a, s.number(TO_WHOLE))
    rest = s.mul(s.sub(a, s.sub(word, s.number(TO_WHOLE))), s.number(LN2))
    scale = s.power(word)
    return s.fused(scale, s.mul(rest, polynomial(s, EXPM1, rest)), scale)


def sinh(s: Steps, a: Value) -> Value:
    """Compute the hyperbolic sine."""
    made = _expm1(s, s.absolute(a))
    made = s.add(made, s.div(made, s.add(made, s.number(1))))
    return _unless_tiny(s, a, s.signed(s.mul(made, s.number(0.5)), a))


def cosh(s: Steps, a: Value) -> Value:
    """Compute the hyperbolic cosine."""
    scale, part = _power_parts(s, _clipped(s, a, MAX_EXPONENT))
    made = s.fused(scale, part, scale)
    return s.mul(s.add(made, s.div(s.number(1), made)), s.number(0.5))


def _logarithm(s: Steps, a: Value, small: Value | None = None) -> tuple[Value, Value]:
    """Return the exponent of a positive number, and the logarithm of its mantissa.

    `small` is `a` less 1, exactly: it is the mantissa less 1 where the exponent is 0.
    """
    exponent, mantissa = s.split(a)
    part = s.sub(mantissa, s.number(1))
    if small is not None:
        part = s.select(s.equal(exponent, s.number(0)), small, part)
    share = s.div(part, s.add(part, s.number(2)))
    return exponent, s.mul(share, polynomial(s, LOG_SERIES, s.mul(share, share)))


def _of_logarithm(s: Steps, a: Value, result: Value) -> Value:
    """Return a logarithm where `a` is positive and finite: NaN below 0, and -inf at 0; inf and NaN stay."""
    result = s.select(s.less(a, s.number(math.inf)), result, a)
    result = s.select(s.less(a, s.number(0)), s.number(math.nan), result)
    return s.select(s.equal(a, s.number(0)), s.number(-math.inf), result)


def log2(s: Steps, a: Value) -> Value:
    """Compute the logarithm to base 2."""
    exponent, part = _logarithm(s, a)
    return _of_logarithm(s, a, s.fused(part, s.number(LOG2_E), exponent))


def log10(s: Steps, a: Value) -> Value:
    """Compute the logarithm to base 10."""
    exponent, part = _logarithm(s, a)
    part = s.mul(part, s.number(1 / math.log(10)))
    return _of_logarithm(s, a, s.fused(exponent, s.number(math.log10(2)), part))


def _log1p(s: Steps, a: Value) -> Value:
    raised = s.add(a, s.number(1))
    exponent, part = _logarithm(s, raised, a)
    return _of_logarithm(s, raised, s.fused(exponent, s.number(LN2), part))


def log1p(s: Steps, a: Value) -> Value:
    """Compute log(1 + a)."""
    return _unless_tiny(s, a, _log1p(s, a))


def atanh(s: Steps, a: Value) -> Value:
    """Compute the inverse hyperbolic tangent."""
    size = s.absolute(a)
    made = _log1p(s, s.div(s.add(size, size), s.sub(s.number(1), size)))
    return _unless_tiny(s, a, s.signed(s.mul(made, s.number(0.5)), a))


def tan(s: Steps, a: Value) -> Value:
    """Compute the tangent of numbers up to `TAN_RANGE`."""
    word = s.fused(a, s.number(2 / math.pi), s.number(TO_WHOLE))
    whole = s.sub(word, s.number(TO_WHOLE))
    rest = s.fused(whole, s.number(-HALF_PI_HIGH), a)
    rest = s.fused(whole, s.number(-HALF_PI_LOW), rest)
    square = s.mul(rest, rest)
    sine, cosine = s.mul(rest, polynomial(s, SINE, square)), polynomial(s, COSINE, square)
    is_odd = s.is_odd(word)
    above = s.select(is_odd, s.sub(s.number(0), cosine), sine)
    return _unless_tiny(s, a, s.div(above, s.select(is_odd, sine, cosine)))


def _finite(s: Steps, a: Value) -> Value:
    """Return a number beside which any finite float32 is next to nothing, for infinity."""
    large = s.number(1e300)
    return s.select(s.less(large, a), large, a)


def atan2(s: Steps, y: Value, x: Value) -> Value:
    """Compute the angle of a point: by the lesser quotient of its coordinates, less pi / 4 if that is large."""
    height, width = (_finite(s, s.absolute(a)) for a in (y, x))
    is_steep = s.less(width, height)
    low, high = s.select(is_steep, width, height), s.select(is_steep, height, width)
    is_large = s.less(s.mul(high, s.number(TAN_PI_8)), low)
    above = s.select(is_large, s.sub(low, high), low)
    below = s.select(is_large, s.add(low, high), high)
    below = s.select(s.equal(high, s.number(0)), s.number(1), below)
    share = s.div(above, below)
    square = s.mul(share, share)
    angle = s.fused(s.mul(share, square), polynomial(s, ARCTANGENT, square), share)
    angle = s.add(angle, s.select(is_large, s.number(math.pi / 4), s.number(0)))
    angle = s.select(is_steep, s.sub(s.number(math.pi / 2), angle), angle)
    angle = s.select(s.is_negative(x), s.sub(s.number(math.pi), angle), angle)
    return s.signed(angle, y)


def atan(s: Steps, a: Value) -> Value:
    """Compute the inverse tangent."""
    return _unless_tiny(s, a, atan2(s, a, s.number(1)))


def _other_side(s: Steps, a: Value) -> Value:
    """Return sqrt(1 - a**2), NaN beyond 1."""
    one = s.number(1)
    return s.sqrt(s.mul(s.sub(one, a), s.add(one, a)))


def asin(s: Steps, a: Value) -> Value:
    """Compute the inverse sine."""
    return _unless_tiny(s, a, atan2(s, a, _other_side(s, a)))


def acos(s: Steps, a: Value) -> Value:
    """Compute the inverse cosine."""
    return atan2(s, _other_side(s, a), a)


def erfc(s: Steps, a: Value) -> Value:
    """Compute the complementary error function, by exp(x^2) erfc(x) in powers of 1 / (1 + 0.4 x)."""
    from ..special.float32_functions import SCALED_TAIL, TAIL_END, TAIL_SCALE

    size = s.absolute(_clipped(s, a, float(TAIL_END)))
    share = s.div(s.number(1), s.add(s.mul(size, s.number(float(TAIL_SCALE))), s.number(1)))
    scale, part = _power_parts(s, s.sub(s.number(0), s.mul(size, size)))
    power = s.fused(scale, part, scale)
    made = s.mul(polynomial(s, [float(c) for c in SCALED_TAIL], share), power)
    return s.select(s.less(a, s.number(0)), s.sub(s.number(2), made), made)


INVERSE_ERROR = (
    (
        *(0.8862269254428251, 0.20897638434041757, 0.031075130291783336, 0.002948146702001429),
        *(
            0.0001243053385349931,
            -1.6974746927671043e-06,
            5.163717395421961e-07,
            2.037388320007366e-07,
            5.487954635837538e-10,
        ),
    ),
    (
        *(1.0, -0.025994790038284688, 0.028837920550462328, -0.0012495079275434112),
        *(0.00016761541719385599, -9.948793686436765e-06, 1.0142039735503165e-06, 1.740682177874513e-08),
    ),
)
"""erfinv(x) / x as a quotient of polynomials in -log(1 - x^2), fitted up to 16.4: off by 1.4e-10 of itself."""


def erfinv(s: Steps, a: Value) -> Value:
    """Compute the inverse of erf: infinite at 1 and -1, NaN beyond."""
    one = s.number(1)
    rest = s.mul(s.sub(one, a), s.add(one, a))
    exponent, part = _logarithm(s, rest)
    w = s.sub(s.number(0), s.fused(exponent, s.number(LN2), part))
    above, below = (polynomial(s, coefficients, w) for coefficients in INVERSE_ERROR)
    made = s.mul(a, s.div(above, below))
    made = s.select(s.equal(rest, s.number(0)), s.mul(a, s.number(math.inf)), made)
    return s.select(s.less(rest, s.number(0)), s.number(math.nan), made)


def ndtr(s: Steps, a: Value) -> Value:
    """Compute the cumulative distribution function of the normal distribution."""
    return s.mul(erfc(s, s.mul(a, s.number(-math.sqrt(0.5)))), s.number(0.5))


FUNCTIONS: dict[str, Callable[..., Value]] = {
    "acos": acos,
    "asin": asin,
    "atan": atan,
    "atan2": atan2,
    "atanh": atanh,
    "cosh": cosh,
    "erfc": erfc,
    "erfinv": erfinv,
    "exp2": exp2,
    "expm1": expm1,
    "log10": log10,
    "log1p": log1p,
    "log2": log2,
    "special_ndtr": ndtr,
    "sinh": sinh,
    "tan": tan,
}
"""By stub."""
SERVED = frozenset(["erfc", "erfinv", "special_ndtr"] if NUMPY_HAS_VECTORS else FUNCTIONS)
"""Functions that these instructions compute for many elements."""


def instructions(program: ElementProgram, name: str, *operands: Value) -> Value:
    """Return a function of float32 values as instructions. Raise CannotLower if it has a range, and loops may not."""
    if name == "tan":
        if not program.has_ranges:
            raise CannotLower(name)
        size = program.intrinsic("fabs", operands[0])
        program.outside.append(program.compare("gt", size, program.number(TAN_RANGE, "float32")))
    wide = [program.convert(a, F64) for a in operands]
    return program.convert(FUNCTIONS[name](Steps(program), *wide), "float32")
