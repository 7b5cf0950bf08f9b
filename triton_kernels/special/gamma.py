"""The gamma function's logarithm and its derivatives, and Hurwitz's zeta function.

Sources: NIST Digital Library of Mathematical Functions, 5.5 and 5.11 (recurrence, reflection and asymptotic series of
digamma), 25.11 (the zeta function by the sum of Euler and Maclaurin).
"""

from ...runtime.cuda.triton.lazy_triton import libdevice, tl, triton
from ..elementwise.pointwise_functions import divide

INFINITY = tl.constexpr(float("inf"))
MAX_TERMS = tl.constexpr(1 << 24)
"""Terms of a sum whose length depends on the operands, so that garbage in masked lanes cannot loop forever."""
CORRECTIONS = tl.constexpr(
    (
        12.0,
        -720.0,
        30240.0,
        -1209600.0,
        47900160.0,
        -1892437580.3183792,
        74724249600.0,
        -2950130727918.164,
        116467828143500.67,
        -4597978722407473.0,
        1.8152105401943546e17,
        -7.166165256175667e18,
    )
)
"""(2 j)! / B_2j, of Bernoulli's numbers."""


@triton.jit
def any_of(condition):
    """Return 1 if a condition holds in any lane, else 0."""
    flags = condition.to(tl.int32)
    if len(flags.shape) == 0:
        return flags
    else:
        return tl.max(flags.reshape([flags.numel]), 0)


@triton.jit
def lgamma(a):
    return tl.where(a == -INFINITY, INFINITY, libdevice.lgamma(a))


@triton.jit
def digamma(a):
    """Reflection below zero, recurrence up to 10, an asymptotic series from there."""
    negative = a < 0.0
    x = tl.where(negative, 1.0 - a, a)
    one = tl.full(x.shape, 1.0, x.dtype)
    rest = tl.full(x.shape, 0.0, x.dtype)
    for _ in tl.static_range(10):
        small = x < 10.0
        rest -= tl.where(small, divide(one, x), 0.0)
        x = tl.where(small, x + 1.0, x)
    inverse = divide(one, x)
    z = inverse * inverse
    tail = z * (
        0.08333333333333333
        - z
        * (
            0.008333333333333333
            - z
            * (
                0.003968253968253968
                - z
                * (
                    0.004166666666666667
                    - z * (0.007575757575757576 - z * (0.021092796092796094 - z * 0.08333333333333333))
                )
            )
        )
    )
    value = libdevice.log(x) - 0.5 * inverse - tail + rest
    whole = a == libdevice.trunc(a)
    turn = a - libdevice.trunc(a)
    tangent = divide(libdevice.sinpi(turn), libdevice.cospi(turn))
    value = tl.where(negative, value - divide(one * 3.141592653589793, tangent), value)
    value = tl.where(negative & whole, float("nan"), value)
    value = tl.where(a == 0.0, libdevice.copysign(one * INFINITY, a * -1.0), value)
    value = tl.where(a == INFINITY, INFINITY, value)
    return tl.where(a != a, a, value)


@triton.jit
def trigamma(a):
    """Reflection below 1/2, recurrence up to 12, an asymptotic series from there."""
    low = a < 0.5
    x = tl.where(low, 1.0 - a, a)
    one = tl.full(x.shape, 1.0, x.dtype)
    total = tl.full(x.shape, 0.0, x.dtype)
    for _ in tl.static_range(12):
        small = x < 12.0
        total += tl.where(small, divide(one, x * x), 0.0)
        x = tl.where(small, x + 1.0, x)
    inverse = divide(one, x)
    z = inverse * inverse
    tail = (
        inverse
        * z
        * (
            0.16666666666666666
            - z
            * (
                0.03333333333333333
                - z
                * (
                    0.023809523809523808
                    - z
                    * (
                        0.03333333333333333
                        - z * (0.07575757575757576 - z * (0.2531135531135531 - z * 1.1666666666666667))
                    )
                )
            )
        )
    )
    total += inverse + 0.5 * z + tail
    sine = libdevice.sin(3.141592653589793 * a)
    return tl.where(low, divide(one * 9.869604401089358, sine * sine) - total, total)


@triton.jit
def zeta(s, q):
    """Return the sum of (q + k)^-s: terms until q exceeds 9, then the Euler-Maclaurin correction."""
    s, q = tl.broadcast(s, q)
    pole = (q <= 0.0) & (q == libdevice.floor(q))
    a = tl.where(pole | (tl.abs(q) == INFINITY), 1.0, q)
    total = libdevice.pow(a, s * -1.0)
    b = total
    k = 0
    more = 1
    while (k < 9) | ((more != 0) & (k < MAX_TERMS)):
        going = (k < 9) | (a <= 9.0)
        a = tl.where(going, a + 1.0, a)
        b = tl.where(going, libdevice.pow(a, s * -1.0), b)
        total = tl.where(going, total + b, total)
        more = any_of(a <= 9.0)
        k += 1
    value = total + divide(b * a, s - 1.0) - 0.5 * b
    factor = tl.full(s.shape, 1.0, s.dtype)
    for i in tl.static_range(12):
        factor = factor * (s + 2.0 * i)
        b = divide(b, a)
        term = divide(factor * b, CORRECTIONS[i])
        value += tl.where(b == 0.0, 0.0, term)
        factor = factor * (s + (2.0 * i + 1.0))
        b = divide(b, a)
    value = tl.where((q <= 0.0) & (s != libdevice.floor(s)), float("nan"), value)
    value = tl.where(pole, INFINITY, value)
    value = tl.where((q == INFINITY) | ((s == INFINITY) & (q > 1.0)), float("nan"), value)
    return tl.where(s == 1.0, INFINITY, tl.where(s < 1.0, float("nan"), value))


@triton.jit
def polygamma(a, order, factor):
    """Return the derivative of digamma of an order from 2 on; `factor` is (-1)^(order + 1) order!."""
    return zeta(order + 1.0, a) * factor
