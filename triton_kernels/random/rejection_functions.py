"""Gamma, Poisson and binomial samples by rejection: a lane consumes its own counters until its proposal is
accepted.

The formulas are those of the host (`cpu_fallback/random/rejection.py`, which names the sources), all in
float64. A function gets up to two parameters, Philox's arguments, and a mask of valid lanes. A finished lane
waits for the others of its program, whose samples do not depend on it.
"""

from ...runtime.cuda.triton.lazy_triton import libdevice, tl, triton
from ..special.gamma import any_of

MAX_ATTEMPTS = tl.constexpr(256)
MAX_STEPS = tl.constexpr(256)
SEARCHED = tl.constexpr(10.0)
SMALL_COUNT = tl.constexpr(16.0)
INFINITY = tl.constexpr(float("inf"))


@triton.jit
def words(seed, counter, number):
    """Return the four random words of counters whose third word is `number`."""
    low = counter.to(tl.uint32)
    high = (counter >> 32).to(tl.uint32)
    zero = low * 0
    return tl.philox(seed, low, high, zero + number.to(tl.uint32), zero)


@triton.jit
def unit52(low, high):
    q = low.to(tl.uint64) | (high.to(tl.uint64) << 32)
    return ((q >> 12).to(tl.float64) + 0.5) * 2.220446049250313e-16


@triton.jit
def two(seed, counter, number):
    """Two float64 strictly between 0 and 1, of 52 bits."""
    w0, w1, w2, w3 = words(seed, counter, number)
    return unit52(w0, w1), unit52(w2, w3)


@triton.jit
def unit32(word):
    return (word.to(tl.float64) + 0.5) * 2.3283064365386963e-10


@triton.jit
def four(seed, counter, attempt, WIDE: tl.constexpr):
    """Four float64 strictly between 0 and 1, of 52 bits if `WIDE`, else of 32."""
    if WIDE:
        u0, u1 = two(seed, counter, 2 * attempt + 1)
        u2, u3 = two(seed, counter, 2 * attempt + 2)
        return u0, u1, u2, u3
    else:
        w0, w1, w2, w3 = words(seed, counter, attempt + 1)
        return unit32(w0), unit32(w1), unit32(w2), unit32(w3)


@triton.jit
def gamma_numbers(alpha, seed, counter, inside, WIDE: tl.constexpr, LOGARITHM: tl.constexpr):
    """Marsaglia and Tsang's method; a shape below 1 is raised by 1, and scaled back."""
    value = tl.full(alpha.shape, float("nan"), tl.float64)
    value = tl.where(alpha == INFINITY, INFINITY, value)
    if LOGARITHM:
        value = tl.where(alpha == 0.0, -INFINITY, value)
    else:
        value = tl.where(alpha == 0.0, 0.0, value)
    waiting = inside & (alpha > 0.0) & (alpha < INFINITY)
    shape = tl.where(waiting, alpha, 1.0)
    small = shape < 1.0
    d = shape + small.to(tl.float64) - 0.3333333333333333
    deviation = tl.sqrt(9.0 * d)
    attempt = tl.max(counter.to(tl.int32) * 0, 0)
    while (attempt < MAX_ATTEMPTS) & (any_of(waiting) != 0):
        u0, u1, u2, u3 = four(seed, counter, attempt, WIDE)
        x = tl.sqrt(libdevice.log(u0) * -2.0) * libdevice.cos(u1 * 6.283185307179586)
        v = 1.0 + x / deviation
        positive = v > 0.0
        v = tl.where(positive, v * v * v, 1.0)
        log_v = libdevice.log(v)
        accepted = positive & (libdevice.log(u2) < 0.5 * x * x + d * (1.0 - v + log_v))
        boost = tl.where(small, libdevice.log(u3) / shape, 0.0)
        if LOGARITHM:
            made = libdevice.log(d) + log_v + boost
        else:
            made = d * v * libdevice.exp(boost)
        value = tl.where(waiting & accepted, made, value)
        waiting = waiting & (accepted == 0)
        attempt += 1
    return value


@triton.jit
def standard_gamma(alpha, other, seed, counter, inside, WIDE: tl.constexpr):
    return gamma_numbers(alpha, seed, counter, inside, WIDE, False)


@triton.jit
def log_standard_gamma(alpha, other, seed, counter, inside, WIDE: tl.constexpr):
    return gamma_numbers(alpha, seed, counter, inside, WIDE, True)


@triton.jit
def log_factorial_excess(k):
    """Compute log k! - k log k + k, which grows as log(2 pi k) / 2."""
    small = k < SMALL_COUNT
    safe = tl.where(small, SMALL_COUNT, k)
    z = 1.0 / (safe * safe)
    series = (
        0.08333333333333333
        - z * (0.002777777777777778 - z * (0.0007936507936507937 - z * 0.0005952380952380953))
    ) / safe
    large = 0.5 * libdevice.log(6.283185307179586 * safe) + series
    few = tl.where(small & (k > 0.0), k, 0.0)
    direct = libdevice.lgamma(few + 1.0) - few * libdevice.log(tl.where(few > 1.0, few, 1.0)) + few
    return tl.where(small, direct, large)


@triton.jit
def deviance(k, mean):
    """Compute k log(k / mean) + mean - k without cancellation for k near the mean."""
    t = (k - mean) / mean
    safe = tl.where(t > -1.0, t, 0.0)
    return mean * (tl.where(t > -1.0, (1.0 + safe) * libdevice.log1p(safe), 0.0) - t)


@triton.jit
def poisson(rate, other, seed, counter, inside, WIDE: tl.constexpr):
    """Sample a Poisson distribution: by search below a rate of 10, else by transformed rejection."""
    value = tl.where(rate == INFINITY, INFINITY, rate * 0.0)
    few = inside & (rate > 0.0) & (rate < SEARCHED)
    mean = tl.where(few, rate, 1.0)
    number = tl.max(counter.to(tl.int32) * 0, 0)
    u, _ = two(seed, counter, number + 1)
    term = libdevice.exp(-mean)
    total = term
    found = mean * 0.0
    beyond = few & (u > total)
    k = number
    while (k < MAX_STEPS - 1) & (any_of(beyond) != 0):
        k += 1
        found = tl.where(beyond, found + 1.0, found)
        term = term * (mean / k)
        total = tl.where(beyond, total + term, total)
        beyond = beyond & (u > total)
    value = tl.where(few, found, value)
    waiting = inside & (rate >= SEARCHED) & (rate < INFINITY)
    mean = tl.where(waiting, rate, SEARCHED)
    b = 0.931 + 2.53 * tl.sqrt(mean)
    a = -0.059 + 0.02483 * b
    hat = 1.1239 + 1.1328 / (b - 3.4)
    quick_limit = 0.9277 - 3.6224 / (b - 2.0)
    attempt = number
    while (attempt < MAX_ATTEMPTS) & (any_of(waiting) != 0):
        u, v = two(seed, counter, attempt + 1)
        u = u - 0.5
        us = 0.5 - tl.abs(u)
        proposal = libdevice.floor((2.0 * a / us + b) * u + mean + 0.43)
        level = libdevice.log(v * hat / (a / (us * us) + b))
        below = level <= -log_factorial_excess(proposal) - deviance(proposal, mean)
        quick = (us >= 0.07) & (v <= quick_limit)
        accepted = quick | ((proposal >= 0.0) & ((us >= 0.013) | (v <= us)) & below)
        value = tl.where(waiting & accepted, proposal, value)
        waiting = waiting & (accepted == 0)
        attempt += 1
    return value


@triton.jit
def binomial_excess(k, n, mean, other_mean):
    """Return the logarithm of the probability of k, up to a term that depends on n alone."""
    rest = n - k
    return (
        -log_factorial_excess(k) - log_factorial_excess(rest) - deviance(k, mean) - deviance(rest, other_mean)
    )


@triton.jit
def binomial(count, prob, seed, counter, inside, WIDE: tl.constexpr):
    """Sample a binomial distribution with the smaller of p and 1 - p: by search below a mean of 10, else by
    transformed rejection.
    """
    n = libdevice.floor(count)
    flipped = prob > 0.5
    p = tl.where(flipped, 1.0 - prob, prob)
    value = tl.where((count != count) | (prob != prob), float("nan"), p * 0.0)
    value = tl.where(value == 0.0, 0.0, value)
    drawn = inside & (n > 0.0) & (p > 0.0) & (n < INFINITY)
    few = drawn & (n * p < SEARCHED)
    size = tl.where(few, n, 1.0)
    chance = tl.where(few, p, 0.5)
    odds = chance / (1.0 - chance)
    number = tl.max(counter.to(tl.int32) * 0, 0)
    u, _ = two(seed, counter, number + 1)
    term = libdevice.exp(size * libdevice.log1p(-chance))
    total = term
    found = size * 0.0
    beyond = few & (u > total) & (found < size)
    k = number
    while (k < MAX_STEPS - 1) & (any_of(beyond) != 0):
        k += 1
        found = tl.where(beyond, found + 1.0, found)
        term = term * ((size - (k - 1)) / k * odds)
        total = tl.where(beyond, total + term, total)
        beyond = beyond & (u > total) & (found < size)
    value = tl.where(few, found, value)
    waiting = drawn & (n * p >= SEARCHED)
    size = tl.where(waiting, n, 100.0)
    chance = tl.where(waiting, p, 0.5)
    other = 1.0 - chance
    mean = size * chance
    other_mean = size * other
    deviation = tl.sqrt(mean * other)
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * chance
    alpha = (2.83 + 5.1 / b) * deviation
    mode = libdevice.floor((size + 1.0) * chance)
    peak = binomial_excess(mode, size, mean, other_mean)
    quick_limit = 0.92 - 4.2 / b
    attempt = number
    while (attempt < MAX_ATTEMPTS) & (any_of(waiting) != 0):
        u, v = two(seed, counter, attempt + 1)
        u = u - 0.5
        us = 0.5 - tl.abs(u)
        proposal = libdevice.floor((2.0 * a / us + b) * u + mean + 0.5)
        possible = (proposal >= 0.0) & (proposal <= size)
        proposal = tl.where(possible, proposal, mode)
        level = libdevice.log(v * alpha / (a / (us * us) + b))
        below = level <= binomial_excess(proposal, size, mean, other_mean) - peak
        accepted = possible & (((us >= 0.07) & (v <= quick_limit)) | below)
        value = tl.where(waiting & accepted, proposal, value)
        waiting = waiting & (accepted == 0)
        attempt += 1
    value = tl.where(flipped & (n > 0.0), n - value, value)
    return tl.where((n == INFINITY) & (prob > 0.0), INFINITY, value)


@triton.jit
def negative_rate(rate):
    return (rate >= 0.0) == 0
