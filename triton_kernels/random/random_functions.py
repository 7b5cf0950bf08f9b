"""Device functions that map Philox words to the values of random ops; `dispatch/structured/meta/draws.py` is the
contract.

A function gets a block of words (uint32 or uint64) and up to four numbers, with the output's type and the
significant bits of a uniform as constexprs. *Paired* functions get the words of even and odd elements
separately and return both values.
"""

from ...runtime.cuda.triton.lazy_triton import libdevice, tl, triton
from ..conversion import convert


@triton.jit
def words(draw, a, b, c, d, OUT: tl.constexpr, BITS: tl.constexpr):
    return draw


@triton.jit
def uniform(draw, scale, low, edge, floor, OUT: tl.constexpr, BITS: tl.constexpr):
    """Compute u * scale + low, replacing values that round to `edge` by `floor`."""
    if draw.dtype == tl.uint64:
        u = (draw >> 11).to(tl.float64) * 1.1102230246251565e-16
    else:
        u = (draw >> (32 - BITS)).to(tl.float32) * (1.0 / (1 << BITS))
    value = u * scale + low
    return tl.where(convert(convert(value, OUT), value.dtype) == edge, floor, value)


@triton.jit
def standard_normal(even, odd):
    """Compute normal samples by Box-Muller in float64 from pairs of random words."""
    if even.dtype == tl.uint64:
        a = ((even >> 11).to(tl.float64) + 1.0) * 1.1102230246251565e-16
        b = (odd >> 11).to(tl.float64) * 1.1102230246251565e-16
    else:
        a = (even.to(tl.float64) + 1.0) * 2.3283064365386963e-10
        b = odd.to(tl.float64) * 2.3283064365386963e-10
    radius = tl.sqrt(libdevice.log(a) * -2.0)
    angle = b * 6.283185307179586
    return radius * libdevice.cos(angle), radius * libdevice.sin(angle)


@triton.jit
def normal(even, odd, mean_even, mean_odd, std, d, OUT: tl.constexpr, BITS: tl.constexpr):
    x, y = standard_normal(even, odd)
    return x * std + mean_even, y * std + mean_odd


@triton.jit
def log_normal(even, odd, mean, std, c, d, OUT: tl.constexpr, BITS: tl.constexpr):
    x, y = standard_normal(even, odd)
    return libdevice.exp(x * std + mean), libdevice.exp(y * std + mean)


@triton.jit
def open_unit(draw):
    """Convert random words to float64 strictly between 0 and 1."""
    if draw.dtype == tl.uint64:
        return ((draw >> 12).to(tl.float64) + 0.5) * 2.220446049250313e-16
    else:
        return (draw.to(tl.float64) + 0.5) * 2.3283064365386963e-10


@triton.jit
def exponential(draw, minus_lambd, b, c, d, OUT: tl.constexpr, BITS: tl.constexpr):
    return libdevice.log(open_unit(draw)) / minus_lambd


@triton.jit
def geometric(draw, log_of_failure, b, c, d, OUT: tl.constexpr, BITS: tl.constexpr):
    return libdevice.ceil(libdevice.log(open_unit(draw)) / log_of_failure)


@triton.jit
def cauchy(draw, median, sigma, c, d, OUT: tl.constexpr, BITS: tl.constexpr):
    return libdevice.tan((open_unit(draw) - 0.5) * 3.141592653589793) * sigma + median


@triton.jit
def bernoulli(draw, threshold, b, c, d, OUT: tl.constexpr, BITS: tl.constexpr):
    return draw.to(tl.int64) < threshold


@triton.jit
def integers(draw, span, low, c, d, OUT: tl.constexpr, BITS: tl.constexpr):
    """Return low + floor(draw * span / 2**bits), modulo 2**64; a span of 0 stands for 2**64."""
    span = span.to(tl.uint64)
    if draw.dtype == tl.uint64:
        value = tl.where(span == 0, draw, tl.umulhi(draw, span + tl.zeros_like(draw)))
    else:
        value = (draw.to(tl.uint64) * span) >> 32
    value = value + low.to(tl.uint64)
    if tl.uint64 == OUT:
        return value
    else:
        return value.to(tl.int64)


@triton.jit
def below(draw, p):
    """Return True if a 32-bit random word is below p * 2**32, exactly."""
    return draw.to(tl.float64) < p * 4294967296.0


@triton.jit
def scaled_sum(z, mean, std):
    return z * std + mean


@triton.jit
def kept(value, mask, scale):
    return value * scale * mask.to(value.dtype)


@triton.jit
def no_probability(p):
    return ((p >= 0.0) & (p <= 1.0)) == 0


@triton.jit
def no_deviation(std):
    return (std >= 0.0) == 0
