"""Scalar functions of pointwise operators, as Triton compiles and interprets them.

They get blocks in the compute type (float32 for 16-bit and 8-bit floats) and return the result in any type,
which the skeleton converts. Division and square root round as in IEEE 754. NaN behaves in comparisons as in
PyTorch.
"""

from ...runtime.cuda.triton.lazy_triton import libdevice, tl, triton


@triton.jit
def divide(a, b):
    if a.dtype == tl.float32:
        return tl.div_rn(a, b)
    else:
        return a / b


@triton.jit
def add(a, b):
    if a.dtype == tl.int1:
        return a | b
    else:
        return a + b


@triton.jit
def add_scaled(a, b, alpha):
    if a.dtype == tl.int1:
        return a | (b & alpha)
    else:
        return a + b * alpha


@triton.jit
def sub(a, b):
    return a - b


@triton.jit
def sub_scaled(a, b, alpha):
    return a - b * alpha


@triton.jit
def rsub(a, b):
    return b - a


@triton.jit
def rsub_scaled(a, b, alpha):
    return b - a * alpha


@triton.jit
def mul(a, b):
    if a.dtype == tl.int1:
        return a & b
    else:
        return a * b


@triton.jit
def neg(a):
    if a.dtype.is_floating():
        return a * -1.0
    else:
        return 0 - a


@triton.jit
def abs(a):
    if a.dtype.is_int() and not a.dtype.is_int_signed():
        return a
    else:
        return tl.abs(a)


@triton.jit
def sign(a):
    if a.dtype == tl.int1:
        return a
    elif a.dtype.is_int() and not a.dtype.is_int_signed():
        return (a != 0).to(a.dtype)
    else:
        return (a > 0).to(a.dtype) - (a < 0).to(a.dtype)


@triton.jit
def sgn(a):
    return sign(a)


@triton.jit
def same(a):
    return a


@triton.jit
def conjugate(a):
    return a


@triton.jit
def reciprocal(a):
    one = tl.full(a.shape, 1.0, a.dtype)
    return divide(one, a) if a.dtype == tl.float64 else tl.div_rn(one, a)


@triton.jit
def sqrt(a):
    if a.dtype == tl.float32:
        return tl.sqrt_rn(a)
    else:
        return tl.sqrt(a)


@triton.jit
def rsqrt(a):
    return reciprocal(sqrt(a))


@triton.jit
def exp(a):
    return libdevice.exp(a)


@triton.jit
def exp2(a):
    return libdevice.exp2(a)


@triton.jit
def expm1(a):
    return libdevice.expm1(a)


@triton.jit
def log(a):
    return libdevice.log(a)


@triton.jit
def log1p(a):
    return libdevice.log1p(a)


@triton.jit
def log2(a):
    return libdevice.log2(a)


@triton.jit
def log10(a):
    return libdevice.log10(a)


@triton.jit
def sin(a):
    return libdevice.sin(a)


@triton.jit
def cos(a):
    return libdevice.cos(a)


@triton.jit
def tan(a):
    return libdevice.tan(a)


@triton.jit
def asin(a):
    return libdevice.asin(a)


@triton.jit
def acos(a):
    return libdevice.acos(a)


@triton.jit
def atan(a):
    return libdevice.atan(a)


@triton.jit
def atan2(a, b):
    return libdevice.atan2(a, b)


@triton.jit
def sinh(a):
    return libdevice.sinh(a)


@triton.jit
def cosh(a):
    return libdevice.cosh(a)


@triton.jit
def tanh(a):
    return libdevice.tanh(a)


@triton.jit
def asinh(a):
    return libdevice.asinh(a)


@triton.jit
def acosh(a):
    return libdevice.acosh(a)


@triton.jit
def atanh(a):
    return libdevice.atanh(a)


@triton.jit
def erf(a):
    return libdevice.erf(a)


@triton.jit
def erfc(a):
    return libdevice.erfc(a)


@triton.jit
def ceil(a):
    return libdevice.ceil(a)


@triton.jit
def floor(a):
    return libdevice.floor(a)


@triton.jit
def round(a):
    return libdevice.rint(a)


@triton.jit
def round_places(a, power):
    return divide(libdevice.rint(a * power), power)


@triton.jit
def round_tens(a, power):
    return libdevice.rint(divide(a, power)) * power


@triton.jit
def trunc(a):
    return libdevice.trunc(a)


@triton.jit
def relu(a):
    # NaN is not below zero and stays.
    return tl.where(a < 0, 0, a).to(a.dtype)


@triton.jit
def threshold_backward(grad, a, threshold):
    return tl.where(a <= threshold, 0, grad).to(grad.dtype)


@triton.jit
def sigmoid(a):
    return reciprocal(1.0 + libdevice.exp(a * -1.0))


@triton.jit
def sigmoid_backward(grad, y):
    return grad * (y * (1.0 - y))


@triton.jit
def tanh_backward(grad, y):
    return grad * (1.0 - y * y)


@triton.jit
def silu(a):
    return divide(a, 1.0 + libdevice.exp(a * -1.0))


@triton.jit
def silu_backward(grad, a):
    s = sigmoid(a)
    return grad * (s * (1.0 + a * (1.0 - s)))


@triton.jit
def softplus(a, beta, threshold):
    scaled = a * beta
    return tl.where(scaled > threshold, a, divide(libdevice.log1p(libdevice.exp(scaled)), beta))


@triton.jit
def softplus_backward(grad, a, beta, threshold):
    scaled = a * beta
    z = libdevice.exp(scaled)
    return tl.where(scaled > threshold, grad, divide(grad * z, z + 1.0))


@triton.jit
def leaky_relu(a, slope):
    return tl.where(a > 0, a, a * slope)


@triton.jit
def leaky_relu_backward(grad, a, slope):
    return tl.where(a > 0, grad, grad * slope)


@triton.jit
def gelu(a):
    return a * (0.5 * (1.0 + libdevice.erf(a * 0.7071067811865476)))


@triton.jit
def gelu_backward(grad, a):
    cdf = 0.5 * (1.0 + libdevice.erf(a * 0.7071067811865476))
    pdf = libdevice.exp(-0.5 * a * a) * 0.3989422804014327
    return grad * (cdf + a * pdf)


@triton.jit
def gelu_tanh(a):
    return 0.5 * a * (1.0 + libdevice.tanh(0.7978845608028654 * (a + 0.044715 * a * a * a)))


@triton.jit
def gelu_tanh_backward(grad, a):
    square = a * a
    t = libdevice.tanh(0.7978845608028654 * (a + 0.044715 * square * a))
    slope = 0.7978845608028654 * (1.0 + 0.134145 * square)
    return grad * (0.5 * (1.0 + t) + 0.5 * a * (1.0 - t * t) * slope)


@triton.jit
def maximum(a, b):
    if a.dtype.is_floating():
        return tl.where((a != a) | (a > b), a, b)
    else:
        return tl.where(a > b, a, b)


@triton.jit
def minimum(a, b):
    if a.dtype.is_floating():
        return tl.where((a != a) | (a < b), a, b)
    else:
        return tl.where(a < b, a, b)


@triton.jit
def fmax(a, b):
    if a.dtype.is_floating():
        return tl.where((b != b) | (a > b), a, b)
    else:
        return tl.where(a > b, a, b)


@triton.jit
def fmin(a, b):
    if a.dtype.is_floating():
        return tl.where((b != b) | (a < b), a, b)
    else:
        return tl.where(a < b, a, b)


@triton.jit
def clamp(a, low, high):
    return minimum(maximum(a, low), high)


@triton.jit
def eq(a, b):
    return a == b


@triton.jit
def ne(a, b):
    return a != b


@triton.jit
def lt(a, b):
    return a < b


@triton.jit
def le(a, b):
    return a <= b


@triton.jit
def gt(a, b):
    return a > b


@triton.jit
def ge(a, b):
    return a >= b


@triton.jit
def logical_not(a):
    return a == 0


@triton.jit
def logical_and(a, b):
    return (a != 0) & (b != 0)


@triton.jit
def logical_or(a, b):
    return (a != 0) | (b != 0)


@triton.jit
def logical_xor(a, b):
    return (a != 0) ^ (b != 0)


@triton.jit
def bitwise_and(a, b):
    return a & b


@triton.jit
def bitwise_or(a, b):
    return a | b


@triton.jit
def bitwise_xor(a, b):
    return a ^ b


@triton.jit
def bitwise_not(a):
    if a.dtype == tl.int1:
        return a == 0
    else:
        return ~a


@triton.jit
def left_shift(a, b):
    return a << b


@triton.jit
def right_shift(a, b):
    return a >> b


@triton.jit
def where(condition, a, b):
    return tl.where(condition, a, b)


@triton.jit
def _share(a, weight):
    """Return the term of a weighted sum; an infinity of weight 0 contributes nothing."""
    return tl.where((weight == 0) & (tl.abs(a) == float("inf")), 0.0, a * weight)


@triton.jit
def lerp(start, end, weight):
    span = end - start
    made = tl.where(tl.abs(weight) < 0.5, start + weight * span, end - span * (1.0 - weight))
    # If the span is infinite, use the weighted sum, which is infinite between a number and infinity.
    return tl.where(made != made, _share(start, 1.0 - weight) + _share(end, weight), made)


@triton.jit
def addcmul(a, x, y):
    return a + x * y


@triton.jit
def addcmul_scaled(a, x, y, value):
    return a + value * x * y


@triton.jit
def addcdiv(a, x, y):
    return a + divide(x, y)


@triton.jit
def addcdiv_scaled(a, x, y, value):
    return a + value * divide(x, y)


@triton.jit
def trunc_divide(a, b):
    if a.dtype.is_floating():
        return libdevice.trunc(divide(a, b))
    else:
        return a // b


@triton.jit
def fmod(a, b):
    if a.dtype.is_floating():
        return libdevice.fmod(a, b)
    else:
        return a % b


@triton.jit
def remainder(a, b):
    if a.dtype.is_floating():
        r = libdevice.fmod(a, b)
        r = tl.where((r != 0) & ((r < 0) != (b < 0)), r + b, r)
        return tl.where(r == 0, libdevice.copysign(r, b), r)
    elif a.dtype.is_int_signed():
        r = a % b
        return tl.where((r != 0) & ((r < 0) != (b < 0)), r + b, r)
    else:
        return a % b


@triton.jit
def floor_divide(a, b):
    if a.dtype.is_floating():
        # As the remainder defines it: a / b alone may round up to the next integer.
        r = libdevice.fmod(a, b)
        quotient = divide(a - r, b)
        quotient = tl.where((r != 0) & ((b < 0) != (r < 0)), quotient - 1.0, quotient)
        whole = libdevice.floor(quotient)
        whole = tl.where(quotient - whole > 0.5, whole + 1.0, whole)
        ratio = divide(a, b)
        whole = tl.where(quotient != 0, whole, libdevice.copysign(quotient * 0.0, ratio))
        return tl.where(b == 0, ratio, whole)
    elif a.dtype.is_int_signed():
        quotient = a // b
        r = a - quotient * b
        return tl.where((r != 0) & ((r < 0) != (b < 0)), quotient - 1, quotient)
    else:
        return a // b


@triton.jit
def pow(a, b):
    if a.dtype.is_floating():
        return libdevice.pow(a, b)
    else:
        result = a * 0 + 1
        base = a
        left = b
        for _ in range(32):
            result = tl.where((left & 1) != 0, result * base, result)
            base = base * base
            left = left >> 1
        if a.dtype.is_int_signed():
            odd = (b & 1) != 0
            inverse = tl.where(a == 1, 1, tl.where(a == -1, tl.where(odd, -1, 1), 0)).to(a.dtype)
            return tl.where(b < 0, inverse, result)
        else:
            return result


@triton.jit
def pow_number(a, b):
    """Compute a ** b for one exponent, with roots, products and reciprocals for frequent ones, as PyTorch does."""
    if a.dtype.is_floating():
        if b == 2.0:
            result = a * a
        elif b == 3.0:
            result = a * a * a
        elif b == 0.5:
            result = sqrt(a)
        elif b == -0.5:
            result = rsqrt(a)
        elif b == -1.0:
            result = reciprocal(a)
        elif b == -2.0:
            result = reciprocal(a * a)
        else:
            result = libdevice.pow(a, b)
        return result
    else:
        return pow(a, b)
