"""Scalar functions of complex numbers: each gets (real, imaginary) blocks for an operand, and returns such a pair.

Infinities, NaN and signed zeros are those of C99, Annex G, except in products, which are the textbook's as PyTorch's
are. Sources: ISO/IEC 9899:1999, Annex G; Kahan, "Branch Cuts for Complex Elementary Functions" (1987); R. L. Smith,
"Algorithm 116: Complex Division" (1962).
"""

from ...runtime.cuda.triton.lazy_triton import libdevice, tl, triton
from .number_representation import nan_to_num as replaced
from .pointwise_functions import divide as divide_real
from .pointwise_functions import sqrt as sqrt_real

INFINITY = tl.constexpr(float("inf"))
LN2, LOG2_E, LOG10_E = (
    tl.constexpr(0.6931471805599453),
    tl.constexpr(1.4426950408889634),
    tl.constexpr(0.4342944819032518),
)


@triton.jit
def is_finite(x):
    return tl.abs(x) < INFINITY


@triton.jit
def same(a):
    return a


@triton.jit
def conjugate(a):
    re, im = a
    return re, im * -1.0


@triton.jit
def add(a, b):
    ar, ai = a
    br, bi = b
    return ar + br, ai + bi


@triton.jit
def add_scaled(a, b, alpha):
    return add(a, mul(b, alpha))


@triton.jit
def sub(a, b):
    ar, ai = a
    br, bi = b
    return ar - br, ai - bi


@triton.jit
def sub_scaled(a, b, alpha):
    return sub(a, mul(b, alpha))


@triton.jit
def rsub(a, b):
    return sub(b, a)


@triton.jit
def rsub_scaled(a, b, alpha):
    return sub(b, mul(a, alpha))


@triton.jit
def mul(a, b):
    ar, ai = a
    br, bi = b
    return ar * br - ai * bi, ar * bi + ai * br


@triton.jit
def divide(a, b):
    """By the larger part of the divisor first, so that no square overflows."""
    ar, ai = a
    br, bi = b
    swapped = tl.abs(br) < tl.abs(bi)
    large, small = tl.where(swapped, bi, br), tl.where(swapped, br, bi)
    ratio = divide_real(small, large)
    scale = divide_real(tl.full(ratio.shape, 1.0, ratio.dtype), large + small * ratio)
    re = tl.where(swapped, ar * ratio + ai, ar + ai * ratio) * scale
    im = tl.where(swapped, ai * ratio - ar, ai - ar * ratio) * scale
    zero = (br == 0) & (bi == 0)
    return tl.where(zero, divide_real(ar, tl.abs(br)), re), tl.where(zero, divide_real(ai, tl.abs(bi)), im)


@triton.jit
def reciprocal(a):
    re, _ = a
    return divide((tl.full(re.shape, 1.0, re.dtype), tl.zeros_like(re)), a)


@triton.jit
def neg(a):
    re, im = a
    return re * -1.0, im * -1.0


@triton.jit
def abs(a):
    re, im = a
    return libdevice.hypot(re, im)


@triton.jit
def exp(a):
    """Above the overflow of exp in two factors: times a small cosine the result may be finite."""
    re, im = a
    large = re > (709.0 if re.dtype == tl.float64 else 88.0)
    power = libdevice.exp(tl.where(large, re * 0.5, re))
    again = tl.where(large, power, 1.0)
    x = power * libdevice.cos(im) * again
    y = tl.where(im == 0, im, power * libdevice.sin(im) * again)
    wild = (is_finite(im) == 0) & (tl.abs(re) == INFINITY)
    x = tl.where(wild, tl.where(re < 0, 0.0, INFINITY), x)
    return x, tl.where(wild & (re < 0), 0.0, y)


@triton.jit
def shifted_exp(a, shift):
    """exp(a - shift), where the shift is finite; 0 of minus infinity whatever its imaginary part."""
    re, im = a
    re -= tl.where(shift - shift == 0, shift, tl.zeros_like(shift))
    vanishes = (re == -INFINITY) & (is_finite(im) == 0)
    return exp((re, tl.where(vanishes, tl.zeros_like(im), im)))


@triton.jit
def shifted_log(a, shift):
    """log(a) + shift, where the shift is finite."""
    re, im = log(a)
    return re + tl.where(shift - shift == 0, shift, tl.zeros_like(shift)), im


@triton.jit
def exp2(a):
    """exp(a log 2), both parts by the real factor, so that infinite ones stay apart."""
    re, im = a
    return exp((re * LN2, im * LN2))


@triton.jit
def expm1(a):
    """exp(x) cos(y) - 1 as expm1(x) cos(y) - 2 sin(y / 2)**2."""
    re, im = a
    x, y = exp(a)
    half = libdevice.sin(im * 0.5)
    near = libdevice.expm1(re) * libdevice.cos(im) - 2.0 * half * half
    return tl.where(tl.abs(re) < 1.0, near, x - 1.0), y


@triton.jit
def log(a):
    """Compute log |a|, near 1 by log1p of |a|**2 - 1, which avoids cancellation."""
    re, im = a
    large, small = tl.abs(re), tl.abs(im)
    swapped = large < small
    large, small = tl.where(swapped, small, large), tl.where(swapped, large, small)
    huge = large > (1e300 if re.dtype == tl.float64 else 1e37)
    scale = tl.where(huge, 0.25, 1.0).to(re.dtype)
    size = libdevice.hypot(large * scale, small * scale)
    far = libdevice.log(size) + tl.where(huge, 2 * LN2, 0.0).to(re.dtype)
    near = 0.5 * libdevice.log1p((large - 1.0) * (large + 1.0) + small * small)
    real = tl.where((size > 0.75) & (size < 1.5) & (huge == 0), near, far)
    return real, libdevice.atan2(im, re)


@triton.jit
def log2(a):
    re, im = log(a)
    return re * LOG2_E, im * LOG2_E


@triton.jit
def log10(a):
    re, im = log(a)
    return re * LOG10_E, im * LOG10_E


@triton.jit
def log1p(a):
    re, im = a
    near = 0.5 * libdevice.log1p(re * (2.0 + re) + im * im)
    real, angle = log((re + 1.0, im))
    return tl.where((tl.abs(re) < 0.5) & (tl.abs(im) < 0.5), near, real), angle


@triton.jit
def sqrt(a):
    """Scaled by a power of four where the size would overflow, or loses bits below the normal numbers."""
    re, im = a
    size = tl.maximum(tl.abs(re), tl.abs(im))
    if re.dtype == tl.float64:
        down, up = size > 1e307, size < 1e-300
        grown, shrunk = 1.0 / 4294967296.0, 18446744073709551616.0
    else:
        down, up = size > 1e37, size < 1e-30
        grown, shrunk = 1.0 / 4294967296.0, 18446744073709551616.0
    scale = tl.where(down, 0.25, tl.where(up, shrunk, 1.0)).to(re.dtype)
    back = tl.where(down, 2.0, tl.where(up, grown, 1.0)).to(re.dtype)
    x, y = re * scale, im * scale
    t = sqrt_real((tl.abs(x) + libdevice.hypot(x, y)) * 0.5)
    other = divide_real(tl.abs(y), t * 2.0)
    real = tl.where(x >= 0, t, other) * back
    imaginary = libdevice.copysign(tl.where(x >= 0, other, t) * back, im)
    # The formula gives NaN for zero and infinities.
    zero = (re == 0) & (im == 0)
    real = tl.where(zero, 0.0, real)
    imaginary = tl.where(zero, im, imaginary)
    right, left = re == INFINITY, re == -INFINITY
    real = tl.where(right, INFINITY, tl.where(left, tl.where(im == im, 0.0, im), real))
    imaginary = tl.where(right, tl.where(im == im, libdevice.copysign(tl.zeros_like(im), im), im), imaginary)
    imaginary = tl.where(left, libdevice.copysign(tl.full(im.shape, INFINITY, im.dtype), im), imaginary)
    unbounded = tl.abs(im) == INFINITY
    nothing = (re != re) & (unbounded == 0)
    real = tl.where(unbounded, INFINITY, tl.where(nothing, re, real))
    return real, tl.where(unbounded, im, tl.where(nothing, re, imaginary))


@triton.jit
def rsqrt(a):
    return reciprocal(sqrt(a))


@triton.jit
def sinh_cosh(re, im):
    """(sinh(re) cos(im), cosh(re) sin(im), cosh(re) cos(im), sinh(re) sin(im)), where each is defined."""
    large = tl.abs(re) > (709.0 if re.dtype == tl.float64 else 88.0)
    half = libdevice.exp(tl.abs(re) * 0.5)
    sign = libdevice.copysign(tl.full(re.shape, 1.0, re.dtype), re)
    again = tl.where(large, half, 1.0)
    sine = tl.where(large, 0.5 * half * sign, libdevice.sinh(re))
    cosine = tl.where(large, 0.5 * half, libdevice.cosh(re))
    s, c = libdevice.sin(im), libdevice.cos(im)
    wild = (tl.abs(re) == INFINITY) & (is_finite(im) == 0)
    sc = tl.where(re == 0, re, tl.where(wild, re, sine * c * again))
    cs = tl.where(im == 0, im, cosine * s * again)
    cc = tl.where(wild, INFINITY, cosine * c * again)
    ss = tl.where((re == 0) | (im == 0), sign * libdevice.copysign(tl.zeros_like(im), im), sine * s * again)
    # Zero times what is no number is none, except where the zero is a part of the operand and the rest a number.
    ss = tl.where((im == 0) & (re != re), im, ss)
    return sc, cs, cc, ss


@triton.jit
def sinh(a):
    re, im = a
    sc, cs, _, _ = sinh_cosh(re, im)
    return sc, cs


@triton.jit
def cosh(a):
    re, im = a
    _, _, cc, ss = sinh_cosh(re, im)
    return cc, ss


@triton.jit
def sin(a):
    """-i sinh(i a)."""
    re, im = a
    sc, cs, _, _ = sinh_cosh(im * -1.0, re)
    return cs, sc * -1.0


@triton.jit
def cos(a):
    """cosh(i a)."""
    re, im = a
    return cosh((im * -1.0, re))


@triton.jit
def tanh(a):
    """Compute tanh by Kahan's algorithm, and from exp(-2 |re|) alone if only that distinguishes the result from 1."""
    re, im = a
    size = tl.abs(re)
    far = size > (22.0 if re.dtype == tl.float64 else 11.0)
    sine, s, c = libdevice.sinh(tl.where(far, 0.0, re)), libdevice.sin(im), libdevice.cos(im)
    # With numerator and denominator times cos(im)**2, so that the tangent's pole is none here.
    bottom = c * c + sine * sine
    real = divide_real(sine * sqrt_real(1.0 + sine * sine), bottom)
    imaginary = divide_real(s * c, bottom)
    one = libdevice.copysign(tl.full(re.shape, 1.0, re.dtype), re)
    small = libdevice.exp(size * -1.0)
    known = is_finite(im)
    product = tl.where(known, s * c, libdevice.copysign(tl.zeros_like(im), im))
    distant = tl.where((size == INFINITY) | known, 4.0 * product * small * small, im * 0.0)
    real = tl.where(far, tl.where((size == INFINITY) | known, one, im - im), real)
    imaginary = tl.where(far, tl.where((size < INFINITY) & (known == 0), im - im, distant), imaginary)
    real = tl.where(re == 0, re, real)
    return real, tl.where(im == 0, im, imaginary)


@triton.jit
def tan(a):
    """-i tanh(i a)."""
    re, im = a
    x, y = tanh((im * -1.0, re))
    return y, x * -1.0


@triton.jit
def asin(a):
    """Compute the arcsine by Kahan's algorithm, from the roots of 1 - a and 1 + a, which avoid the cancellation of 1 -
    a**2.
    """
    re, im = a
    lr, li = sqrt((1.0 - re, im * -1.0))
    rr, ri = sqrt((1.0 + re, im))
    real = tl.where(re == 0, re, libdevice.atan2(re, lr * rr - li * ri))
    return inverse_outside(re, im, real, libdevice.asinh(lr * ri - li * rr))


@triton.jit
def inverse_outside(re, im, real, imaginary):
    """Return the arcsine far from 1, from modulus and angle: products of roots would overflow or be NaN there."""
    large, small = tl.abs(re), tl.abs(im)
    far = (large > (1e150 if re.dtype == tl.float64 else 1e18)) | (
        small > (1e150 if re.dtype == tl.float64 else 1e18)
    )
    size, _ = log((large, small))
    angle = libdevice.atan2(large, small)
    real = tl.where(far, libdevice.copysign(angle, re), real)
    return real, tl.where(far, libdevice.copysign(size + LN2, im), imaginary)


@triton.jit
def acos(a):
    """Half a pi less the arcsine, its real part by the roots where that would cancel."""
    re, im = a
    lr, li = sqrt((1.0 - re, im * -1.0))
    rr, ri = sqrt((1.0 + re, im))
    real = 2.0 * libdevice.atan2(lr, rr)
    _, y = inverse_outside(re, im, re * 0.0, libdevice.asinh(lr * ri - li * rr))
    huge = (tl.abs(re) > 1e18) | (tl.abs(im) > 1e18)
    real = tl.where(huge, libdevice.atan2(tl.abs(im), re), real)
    return tl.where(re == 0, 1.5707963267948966, real), y * -1.0


@triton.jit
def acosh(a):
    """Compute i acos(a) or -i acos(a), whichever has a nonnegative real part."""
    _, im = a
    x, y = acos(a)
    return tl.abs(y), libdevice.copysign(x, im)


@triton.jit
def asinh(a):
    """-i asin(i a)."""
    re, im = a
    x, y = asin((im * -1.0, re))
    return y, x * -1.0


@triton.jit
def atanh(a):
    re, im = a
    large, small = tl.abs(re), tl.abs(im)
    far = (large > (1e150 if re.dtype == tl.float64 else 1e18)) | (
        small > (1e150 if re.dtype == tl.float64 else 1e18)
    )
    x, y = tl.where(far, 0.0, large), tl.where(far, 0.0, small)
    below = 1.0 - x
    real = 0.25 * libdevice.log1p(divide_real(4.0 * x, below * below + y * y))
    real = tl.where(below == 0, 0.5 * libdevice.log(divide_real(libdevice.hypot(y, y * 0.0 + 2.0), y)), real)
    real = tl.where(re == 0, 0.0, real)
    angle = 0.5 * libdevice.atan2(2.0 * y, below * (1.0 + x) - y * y)
    # Far away 1 / a is what is left of the real part.
    inverse, _ = reciprocal((large, small))
    bounded = (large < INFINITY) & (small < INFINITY)
    unbounded = (large == INFINITY) | (small == INFINITY)
    real = tl.where(far, tl.where(bounded, inverse, tl.where(unbounded, 0.0, large + small)), real)
    angle = tl.where(far, 1.5707963267948966, angle)
    nothing = (re != re) & (unbounded == 0)
    angle = tl.where(im != im, im, tl.where(nothing, re, angle))
    real = tl.where(nothing, re, real)
    return libdevice.copysign(real, re), libdevice.copysign(angle, im)


@triton.jit
def atan(a):
    """-i atanh(i a)."""
    re, im = a
    x, y = atanh((im * -1.0, re))
    return y, x * -1.0


@triton.jit
def sigmoid(a):
    x, y = exp(neg(a))
    return reciprocal((x + 1.0, y))


@triton.jit
def sigmoid_backward(grad, y):
    re, im = y
    return mul(grad, conjugate(mul(y, (1.0 - re, im * -1.0))))


@triton.jit
def tanh_backward(grad, y):
    re, im = mul(y, y)
    return mul(grad, (1.0 - re, im))


@triton.jit
def silu(a):
    x, y = exp(neg(a))
    return divide(a, (x + 1.0, y))


@triton.jit
def silu_backward(grad, a):
    s = sigmoid(a)
    sr, si = s
    x, y = mul(a, (1.0 - sr, si * -1.0))
    return mul(grad, conjugate(mul(s, (x + 1.0, y))))


@triton.jit
def pow(a, b):
    """exp(b log(a)); 1 to the power of zero."""
    br, bi = b
    x, y = exp(mul(b, log(a)))
    one = (br == 0) & (bi == 0)
    return tl.where(one, 1.0, x), tl.where(one, 0.0, y)


@triton.jit
def eq(a, b):
    ar, ai = a
    br, bi = b
    return (ar == br) & (ai == bi)


@triton.jit
def ne(a, b):
    ar, ai = a
    br, bi = b
    return (ar != br) | (ai != bi)


@triton.jit
def is_true(a):
    re, im = a
    return (re != 0) | (im != 0)


@triton.jit
def logical_not(a):
    return is_true(a) == 0


@triton.jit
def logical_and(a, b):
    return is_true(a) & is_true(b)


@triton.jit
def logical_or(a, b):
    return is_true(a) | is_true(b)


@triton.jit
def logical_xor(a, b):
    return is_true(a) ^ is_true(b)


@triton.jit
def where(condition, a, b):
    ar, ai = a
    br, bi = b
    return tl.where(condition, ar, br), tl.where(condition, ai, bi)


@triton.jit
def filled_where(a, condition, b):
    return where(condition, b, a)


@triton.jit
def lerp(start, end, weight):
    wr, wi = weight
    span = sub(end, start)
    x, y = add(start, mul(weight, span))
    u, v = sub(end, mul(span, (1.0 - wr, wi * -1.0)))
    near = libdevice.hypot(wr, wi) < 0.5
    return tl.where(near, x, u), tl.where(near, y, v)


@triton.jit
def addcmul(a, x, y):
    return add(a, mul(x, y))


@triton.jit
def addcmul_scaled(a, x, y, value):
    return add(a, mul(mul(value, x), y))


@triton.jit
def addcdiv(a, x, y):
    return add(a, divide(x, y))


@triton.jit
def addcdiv_scaled(a, x, y, value):
    return add(a, divide(mul(value, x), y))


@triton.jit
def sgn(a):
    re, im = a
    size = libdevice.hypot(re, im)
    zero = size == 0.0
    return tl.where(zero, 0.0, divide_real(re, size)), tl.where(zero, 0.0, divide_real(im, size))


@triton.jit
def nan_to_num(a, nan, posinf, neginf):
    re, im = a
    return replaced(re, nan[0], posinf[0], neginf[0]), replaced(im, nan[0], posinf[0], neginf[0])


@triton.jit
def logaddexp(a, b):
    ar, ai = a
    br, bi = b
    larger = ar >= br
    high = tl.where(larger, ar, br), tl.where(larger, ai, bi)
    low = tl.where(larger, br, ar), tl.where(larger, bi, ai)
    z = exp(sub(low, high))
    usual_re, usual_im = add(high, log1p(z))
    apart_re, apart_im = log(add(exp(low), exp(high)))
    high_re, high_im = high
    unbounded = (tl.abs(high_re) == INFINITY) & (ar == br)
    re = tl.where(unbounded, tl.where(high_re < 0.0, high_re, apart_re), usual_re)
    im = tl.where(unbounded, tl.where(high_re < 0.0, high_im, apart_im), usual_im)
    nan = (ar != ar) | (ai != ai) | (br != br) | (bi != bi)
    return tl.where(nan, float("nan"), re), tl.where(nan, float("nan"), im)


@triton.jit
def sinc(a):
    re, im = a
    angle = re * 3.141592653589793, im * 3.141592653589793
    found_re, found_im = divide(sin(angle), angle)
    zero = (re == 0.0) & (im == 0.0)
    return tl.where(zero, 1.0, found_re), tl.where(zero, 0.0, found_im)
