"""Bessel functions of orders 0 and 1, modified and scaled ones, and the spherical one of order 0.

The unscaled ones of the first kinds are libdevice's. Sources of the others: NIST Digital Library of Mathematical
Functions, 10.31 (K near zero), 10.40 (I and K for large arguments).
"""

from ...runtime.cuda.triton.lazy_triton import libdevice, tl, triton
from ..elementwise.pointwise_functions import divide, sqrt
from .chebyshev_series import chebyshev_series

INFINITY = tl.constexpr(float("inf"))
GREATEST = tl.constexpr(3.4028234663852886e38)
"""Substitute for infinity in a quotient, so that it gives a limit and not NaN."""
K0_SCALED = tl.constexpr(
    (
        1.2201515410329777,
        -0.0314481013119645,
        0.0015698838857300533,
        -0.00012849549581627802,
        1.39498137188765e-05,
        -1.8317555227191195e-06,
        2.766813639445015e-07,
        -4.660489897687948e-08,
        8.574034017414225e-09,
        -1.6975345093890614e-09,
        3.5773972814003283e-10,
        -7.957489244477396e-11,
        1.8559491149549264e-11,
        -4.514597883374519e-12,
        1.1403405882073441e-12,
        -2.9800969231481784e-13,
        8.032890775068375e-14,
        -2.2275133267462965e-14,
        6.340076476276646e-15,
        -1.848593377920907e-15,
        5.5120559994043335e-16,
        -1.6782311257549006e-16,
        5.2103917776435543e-17,
    )
)
K1_SCALED = tl.constexpr(
    (
        1.3603130952422213,
        0.10392373657681724,
        -0.002857816859622779,
        0.00019521551847135162,
        -1.936197974166083e-05,
        2.406484947837217e-06,
        -3.5019606030878126e-07,
        5.7410841254500495e-08,
        -1.0345762465678097e-08,
        2.0150497551970347e-09,
        -4.1903547593419254e-10,
        9.218315187605315e-11,
        -2.129967838427791e-11,
        5.139639673482343e-12,
        -1.2891739609498229e-12,
        3.348419666052243e-13,
        -8.976705182010146e-14,
        2.4771544242195988e-14,
        -7.0198370892147685e-15,
        2.038703166239861e-15,
        -6.057047270643018e-16,
        1.8380935752430455e-16,
        -5.689462849193648e-17,
    )
)
"""sqrt(x) exp(x) K(x) for x from 2 on, as series in 4 / x - 1."""
HARMONIC = tl.constexpr(
    (
        0.0,
        1.0,
        1.5,
        1.8333333333333333,
        2.083333333333333,
        2.283333333333333,
        2.4499999999999997,
        2.5928571428571425,
        2.7178571428571425,
        2.8289682539682537,
        2.9289682539682538,
        3.0198773448773446,
        3.103210678210678,
        3.180133755133755,
        3.251562326562327,
        3.3182289932289937,
        3.3807289932289937,
    )
)
"""1 + 1/2 + ... + 1/k."""


@triton.jit
def i0(a):
    return libdevice.cyl_bessel_i0(a)


@triton.jit
def i1(a):
    return libdevice.cyl_bessel_i1(a)


@triton.jit
def scaled_far(x, four_squares: tl.constexpr):
    """exp(-x) I(x) of order 0 or 1 (`four_squares` is 4 order^2) from 30 on, by its asymptotic series."""
    x = tl.where(x < 30.0, 30.0, x)
    x = tl.where(x == INFINITY, GREATEST, x)
    step = divide(tl.full(x.shape, -0.125, x.dtype), x)
    term = tl.full(x.shape, 1.0, x.dtype)
    total = term
    for k in tl.static_range(1, 18):
        term = term * step * ((four_squares - (2.0 * k - 1.0) * (2.0 * k - 1.0)) / k)
        total += term
    return divide(total, sqrt(x) * 2.5066282746310002)


@triton.jit
def i0e(a):
    x = tl.abs(a)
    near = libdevice.cyl_bessel_i0(tl.where(x < 30.0, x, 0.0)) * libdevice.exp(x * -1.0)
    value = tl.where(x == INFINITY, 0.0, tl.where(x < 30.0, near, scaled_far(x, 0.0)))
    return tl.where(a == a, value, a)


@triton.jit
def i1e(a):
    x = tl.abs(a)
    near = libdevice.cyl_bessel_i1(tl.where(x < 30.0, x, 0.0)) * libdevice.exp(x * -1.0)
    value = tl.where(x == INFINITY, 0.0, tl.where(x < 30.0, near, scaled_far(x, 4.0)))
    return tl.where(a == a, tl.where(a < 0.0, value * -1.0, value), a)


@triton.jit
def j0(a):
    return libdevice.j0(a)


@triton.jit
def j1(a):
    return libdevice.j1(a)


@triton.jit
def y0(a):
    return tl.where(a < 0.0, float("nan"), tl.where(a == 0.0, -INFINITY, libdevice.y0(a)))


@triton.jit
def y1(a):
    return tl.where(a < 0.0, float("nan"), tl.where(a == 0.0, -INFINITY, libdevice.y1(a)))


@triton.jit
def k0_near(x):
    """K0 up to 2: -(log(x / 2) + gamma) I0(x) + the sum of H_k (x^2 / 4)^k / k!^2."""
    q = x * x * 0.25
    term = tl.full(x.shape, 1.0, x.dtype)
    regular, harmonic_sum = term, term * 0.0
    for k in tl.static_range(1, 16):
        term = term * q * (1.0 / (k * k))
        regular += term
        harmonic_sum += term * HARMONIC[k]
    return harmonic_sum - (libdevice.log(x * 0.5) + 0.5772156649015329) * regular


@triton.jit
def k1_near(x):
    """Compute K1 for x up to 2: 1 / x + log(x / 2) I1(x) - x / 4 * sum((psi(k + 1) + psi(k + 2)) (x^2 / 4)^k / (k! (k
    + 1)!)).
    """
    q = x * x * 0.25
    term = tl.full(x.shape, 1.0, x.dtype)
    regular, other = term, term * (HARMONIC[0] + HARMONIC[1] - 1.1544313298030658)
    for k in tl.static_range(1, 16):
        term = term * q * (1.0 / (k * (k + 1)))
        regular += term
        other += term * (HARMONIC[k] + HARMONIC[k + 1] - 1.1544313298030658)
    return divide(tl.full(x.shape, 1.0, x.dtype), x) + x * 0.5 * (
        libdevice.log(x * 0.5) * regular - 0.5 * other
    )


@triton.jit
def scaled_k(a, order: tl.constexpr, scaled: tl.constexpr):
    """K of order 0 or 1, times exp(a) if scaled."""
    x = tl.where(a > 2.0, a, 2.0)
    x = tl.where(x == INFINITY, GREATEST, x)
    t = divide(tl.full(x.shape, 4.0, x.dtype), x) - 1.0
    if order == 0:
        near = k0_near(tl.where(a > 2.0, 2.0, a))
        far = chebyshev_series(t, K0_SCALED, 23 if a.dtype == tl.float64 else 8)
    else:
        near = k1_near(tl.where(a > 2.0, 2.0, a))
        far = chebyshev_series(t, K1_SCALED, 23 if a.dtype == tl.float64 else 9)
    far = divide(far, sqrt(x))
    if scaled:
        near = near * libdevice.exp(tl.where(a > 2.0, 2.0, a))
    else:
        far = far * libdevice.exp(x * -1.0)
    value = tl.where(a == INFINITY, 0.0, tl.where(a > 2.0, far, near))
    return tl.where(a < 0.0, float("nan"), tl.where(a == 0.0, INFINITY, tl.where(a == a, value, a)))


@triton.jit
def k0(a):
    return scaled_k(a, 0, False)


@triton.jit
def k1(a):
    return scaled_k(a, 1, False)


@triton.jit
def k0e(a):
    return scaled_k(a, 0, True)


@triton.jit
def k1e(a):
    return scaled_k(a, 1, True)


@triton.jit
def spherical_j0(a):
    """sin(a) / a; a series near zero, 0 at the infinities."""
    square = a * a
    near = 1.0 - square * (
        0.16666666666666666
        - square
        * (
            0.008333333333333333
            - square
            * (0.0001984126984126984 - square * (2.7557319223985893e-06 - square * 2.505210838544172e-08))
        )
    )
    far = divide(libdevice.sin(a), a)
    return tl.where(tl.abs(a) < 0.5, near, tl.where(tl.abs(a) == INFINITY, 0.0, far))
