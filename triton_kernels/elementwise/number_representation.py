"""Scalar functions that take numbers apart or look at what is not a number: signs, exponents, divisors, NaN."""

from ...runtime.cuda.triton.lazy_triton import libdevice, tl, triton
from .pointwise_functions import divide

INFINITY = tl.constexpr(float("inf"))


@triton.jit
def frac(a):
    return a - libdevice.trunc(a)


@triton.jit
def signbit(a):
    if a.dtype == tl.int1:
        return a & (a == 0)
    elif a.dtype.is_floating():
        # Only the sign bit tells the sign of NaN and zero.
        if a.dtype == tl.float64:
            return a.to(tl.int64, bitcast=True) < 0
        else:
            return a.to(tl.int32, bitcast=True) < 0
    else:
        return a < 0


@triton.jit
def copysign(a, b):
    return libdevice.copysign(a, b)


@triton.jit
def heaviside(a, values):
    return tl.where(a == 0, values, (a > 0).to(values.dtype))


@triton.jit
def hypot(a, b):
    return libdevice.hypot(a, b)


@triton.jit
def frexp_exponent(a):
    ordinary = (tl.abs(a) < INFINITY) & (a != 0.0)
    return tl.where(ordinary, libdevice.ilogb(tl.where(ordinary, a, 1.0)) + 1, 0)


@triton.jit
def frexp_mantissa(a):
    # In two steps: of the least numbers the power of two itself would overflow.
    power = -frexp_exponent(a)
    half = power // 2
    return libdevice.ldexp(libdevice.ldexp(a, half), power - half)


@triton.jit
def nextafter(a, b):
    """Return the neighbor of `a` towards `b` in the dtype itself, by its bits."""
    if a.dtype.primitive_bitwidth == 64:
        bits = a.to(tl.int64, bitcast=True)
        wide_a, wide_b = a, b
    elif a.dtype.primitive_bitwidth == 32:
        bits = a.to(tl.int32, bitcast=True)
        wide_a, wide_b = a, b
    else:
        bits = a.to(tl.int16, bitcast=True)
        wide_a, wide_b = a.to(tl.float32), b.to(tl.float32)
    away = (wide_a < wide_b) == (wide_a > 0.0)
    moved = tl.where(away, bits + 1, bits - 1)
    sign = bits * 0 + 1
    least = tl.where(wide_b < 0.0, sign << (bits.dtype.primitive_bitwidth - 1) | 1, sign)
    found = tl.where(wide_a == 0.0, least, moved).to(bits.dtype).to(a.dtype, bitcast=True)
    found = tl.where(wide_a == wide_b, b, found)
    return tl.where(wide_a != wide_a, a, tl.where(wide_b != wide_b, b, found))


@triton.jit
def nan_to_num(a, nan, posinf, neginf):
    return tl.where(a != a, nan, tl.where(a == INFINITY, posinf, tl.where(a == -INFINITY, neginf, a)))


@triton.jit
def logaddexp(a, b):
    high, low = tl.where(a > b, a, b), tl.where(a > b, b, a)
    distance = tl.where(high == low, 0.0, low - high)
    return tl.where((a != a) | (b != b), a + b, high + libdevice.log1p(libdevice.exp(distance)))


@triton.jit
def logaddexp2(a, b):
    high, low = tl.where(a > b, a, b), tl.where(a > b, b, a)
    distance = tl.where(high == low, 0.0, low - high)
    shared = libdevice.log1p(libdevice.exp2(distance)) * 1.4426950408889634
    return tl.where((a != a) | (b != b), a + b, high + shared)


@triton.jit
def logit(a):
    return libdevice.log(divide(a, 1.0 - a))


@triton.jit
def logit_within(a, eps):
    high = 1.0 - eps
    x = tl.where(a < eps, eps, tl.where(a > high, high, a))
    return libdevice.log(divide(x, 1.0 - x))


@triton.jit
def logit_backward(grad, a):
    inside = (a >= 0.0) & (a <= 1.0)
    divisor = a * (1.0 - a)
    slope = tl.where(divisor == 0.0, grad * INFINITY, divide(grad, divisor))
    return tl.where(inside, slope, float("nan"))


@triton.jit
def logit_backward_within(grad, a, eps):
    inside = (a >= eps) & (a <= 1.0 - eps)
    divisor = a * (1.0 - a)
    slope = tl.where(divisor == 0.0, grad * INFINITY, divide(grad, divisor))
    return tl.where(inside, slope, 0.0)


@triton.jit
def sinc(a):
    angle = a * 3.141592653589793
    return tl.where(a == 0.0, 1.0, divide(libdevice.sin(angle), angle))


@triton.jit
def truth_power(a, exponent):
    return (a != 0) | (exponent == 0)


@triton.jit
def magnitude(a):
    """Without sign, in 32 or 64 bits: the least number's magnitude is there too."""
    if a.dtype.primitive_bitwidth == 64:
        return tl.where(a < 0, 0 - a.to(tl.uint64), a.to(tl.uint64))
    else:
        return tl.where(a < 0, 0 - a.to(tl.uint32), a.to(tl.uint32))


@triton.jit
def common_divisor(a, b):
    """Euclid's algorithm, until the last of a program's elements is done; those that are stay as they are."""
    while tl.max((b != 0).to(tl.int32)) != 0:
        done = b == 0
        rest = a % tl.where(done, 1, b)
        a = tl.where(done, a, b)
        b = rest
    return a


@triton.jit
def gcd(a, b):
    return common_divisor(magnitude(a), magnitude(b)).to(a.dtype)


@triton.jit
def lcm(a, b):
    """Return the least common multiple. On overflow it wraps, and from 32 bits on loses its sign, as in C."""
    high, low = magnitude(a), magnitude(b)
    divisor = common_divisor(high, low)
    found = (high // tl.where(divisor == 0, 1, divisor) * low).to(a.dtype)
    if a.dtype.is_int_signed() and a.dtype.primitive_bitwidth >= 32:
        return tl.where(found < 0, 0 - found, found)
    else:
        return found
