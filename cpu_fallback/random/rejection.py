"""Gamma, Poisson, binomial and Dirichlet samples on the host: each element has its own stream of counters.

The contract is in `dispatch/structured/meta/draws.py`. All math is float64. Elements whose proposal was
rejected try again, without the accepted ones. Sources: G. Marsaglia, W. W. Tsang, "A simple method for
generating gamma variables" (2000); W. Hörmann, "The transformed rejection method for generating Poisson
random variables" and "The generation of binomial random variates" (1993); C. Loader, "Fast and accurate
computation of binomial probabilities" (2000).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

from ...dispatch.structured.stub import PlannedKernel, StructuredCall
from ...runtime.float_errors import quietly
from ...runtime.parallel import parallel_for
from ...runtime.scalar_type import finfo, float64
from ..plain_numpy import np
from . import mersenne_rejection
from .engine import register_draws
from .philox import philox

BLOCK = 1 << 13
"""Elements computed at a time."""
MAX_ATTEMPTS = 256
"""Every proposal is accepted with a probability of 0.75 or more: this many are never reached."""
MAX_STEPS = 256
"""A search of a mean below 10 ends before, whatever is drawn."""
SEARCHED = 10.0
"""Poisson and binomial numbers of a mean below are found by inversion."""
SMALL_COUNT = 16.0
TWO_PI = 6.283185307179586
_LOW, _HIGH = np.uint64(0xFFFFFFFF), np.uint64(32)

Array = Any
Sampler = Callable[..., Array]


@cache
def _log_gamma() -> Any:
    from scipy.special import gammaln

    return gammaln


def words(seed: int, counter: Array, number: int) -> tuple[Array, Array, Array, Array]:
    """Return the four words of counters (uint64) whose third word is `number`."""
    third = np.full_like(counter, number)
    key = (seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF)
    return philox(counter & _LOW, counter >> _HIGH, third, np.zeros_like(counter), key)


def two(seed: int, counter: Array, number: int) -> list[Array]:
    """Return two float64 strictly between 0 and 1 for each counter, of 52 bits."""
    w0, w1, w2, w3 = words(seed, counter, number)
    return [
        (((low | high << _HIGH) >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
        for low, high in ((w0, w1), (w2, w3))
    ]


def four(seed: int, counter: Array, attempt: int, wide: bool) -> list[Array]:
    """Return four float64 strictly between 0 and 1 for each counter, of 52 bits if `wide`, else of 32."""
    if wide:
        return two(seed, counter, 2 * attempt + 1) + two(seed, counter, 2 * attempt + 2)
    return [(w.astype(np.float64) + 0.5) * 2.0**-32 for w in words(seed, counter, attempt + 1)]


def standard_gamma(seed: int, counter: Array, wide: bool, alpha: Array, logarithm: bool = False) -> Array:
    """Gamma numbers of a scale of 1, or their logarithms; a shape below 1 is raised by 1, and scaled back."""
    with np.errstate(all="ignore"):
        value = np.where(alpha == 0, 0.0, np.where(alpha == np.inf, np.inf, np.nan))
        if logarithm:
            value = np.log(value)
        waiting = np.flatnonzero((alpha > 0) & (alpha < np.inf))
        for attempt in range(MAX_ATTEMPTS):
            if not len(waiting):
                break
            shape = alpha[waiting]
            small = shape < 1
            d = shape + small - 1.0 / 3.0
            u0, u1, u2, u3 = four(seed, counter[waiting], attempt, wide)
            x = np.sqrt(-2.0 * np.log(u0)) * np.cos(TWO_PI * u1)
            v = 1.0 + x / np.sqrt(9.0 * d)
            v = v * v * v
            log_v = np.log(v)
            accepted = np.log(u2) < 0.5 * x * x + d * (1.0 - v + log_v)
            if logarithm:
                made = np.log(d) + log_v + np.where(small, np.log(u3) / shape, 0.0)
            else:
                made = d * v * np.where(small, np.exp(np.log(u3) / shape), 1.0)
            value[waiting[accepted]] = made[accepted]
            waiting = waiting[~accepted]
    return value


def log_factorial_excess(k: Array) -> Array:
    """Compute log k! - k log k + k, which grows as log(2 pi k) / 2."""
    small = k < SMALL_COUNT
    safe = np.where(small, SMALL_COUNT, k)
    z = 1.0 / (safe * safe)
    series = (1.0 / 12.0 - z * (1.0 / 360.0 - z * (1.0 / 1260.0 - z * (1.0 / 1680.0)))) / safe
    large = 0.5 * np.log(TWO_PI * safe) + series
    few = np.where(small, np.maximum(k, 0.0), 0.0)
    return np.where(small, _log_gamma()(few + 1.0) - few * np.log(np.maximum(few, 1.0)) + few, large)


def deviance(k: Array, mean: Array) -> Array:
    """Compute k log(k / mean) + mean - k, without cancellation if they are near."""
    t = (k - mean) / mean
    return mean * (np.where(t > -1.0, (1.0 + t) * np.log1p(np.maximum(t, -1.0)), 0.0) - t)


def searched(u: Array, least: Array, ratio: Callable[[int], Array], whole: Array) -> Array:
    """Invert a distribution by search: return the number at which the running sum of probabilities exceeds `u`.

    The sum begins with `least`, and `ratio` gives each next term relative to the last.
    """
    value = np.zeros_like(u)
    term = least
    total = least.copy()
    for k in range(1, MAX_STEPS):
        beyond = (u > total) & (value < whole)
        if not beyond.any():
            break
        value += beyond
        term = term * ratio(k)
        total = np.where(beyond, total + term, total)
    return value


def poisson(seed: int, counter: Array, wide: bool, rate: Array) -> Array:
    """Sample Poisson numbers: by search below a rate of 10, by transformed rejection from there."""
    with np.errstate(all="ignore"):
        value = np.where(rate == np.inf, np.inf, 0.0)
        few = np.flatnonzero((rate > 0) & (rate < SEARCHED))
        if len(few):
            mean = rate[few]
            u, _ = two(seed, counter[few], 1)
            value[few] = searched(u, np.exp(-mean), lambda k: mean / k, np.inf)
        waiting = np.flatnonzero((rate >= SEARCHED) & (rate < np.inf))
        for attempt in range(MAX_ATTEMPTS):
            if not len(waiting):
                break
            mean = rate[waiting]
            b = 0.931 + 2.53 * np.sqrt(mean)
            a = -0.059 + 0.02483 * b
            u, v = two(seed, counter[waiting], attempt + 1)
            u = u - 0.5
            us = 0.5 - np.abs(u)
            k = np.floor((2.0 * a / us + b) * u + mean + 0.43)
            level = np.log(v * (1.1239 + 1.1328 / (b - 3.4)) / (a / (us * us) + b))
            below = level <= -log_factorial_excess(k) - deviance(k, mean)
            quick = (us >= 0.07) & (v <= 0.9277 - 3.6224 / (b - 2.0))
            accepted = quick | ((k >= 0) & ((us >= 0.013) | (v <= us)) & below)
            value[waiting[accepted]] = k[accepted]
            waiting = waiting[~accepted]
    return value


def binomial(seed: int, counter: Array, wide: bool, count: Array, prob: Array) -> Array:
    """Sample binomial numbers of min(p, 1 - p): by search below a mean of 10, by transformed rejection from there."""
    with np.errstate(all="ignore"):
        n = np.floor(count)
        flipped = prob > 0.5
        p = np.where(flipped, 1.0 - prob, prob)
        value = np.where(np.isnan(count) | np.isnan(prob), np.nan, 0.0)
        drawn = (n > 0) & (p > 0) & (n < np.inf)
        few = np.flatnonzero(drawn & (n * p < SEARCHED))
        if len(few):
            size, chance = n[few], p[few]
            odds = chance / (1.0 - chance)
            u, _ = two(seed, counter[few], 1)
            least = np.exp(size * np.log1p(-chance))
            value[few] = searched(u, least, lambda k: (size - (k - 1)) / k * odds, size)
        waiting = np.flatnonzero(drawn & (n * p >= SEARCHED))
        for attempt in range(MAX_ATTEMPTS):
            if not len(waiting):
                break
            size, chance = n[waiting], p[waiting]
            other = 1.0 - chance
            mean = size * chance
            deviation = np.sqrt(mean * other)
            b = 1.15 + 2.53 * deviation
            a = -0.0873 + 0.0248 * b + 0.01 * chance
            alpha = (2.83 + 5.1 / b) * deviation
            mode = np.floor((size + 1.0) * chance)
            u, v = two(seed, counter[waiting], attempt + 1)
            u = u - 0.5
            us = 0.5 - np.abs(u)
            k = np.floor((2.0 * a / us + b) * u + mean + 0.5)
            inside = (k >= 0) & (k <= size)
            k = np.where(inside, k, mode)
            level = np.log(v * alpha / (a / (us * us) + b))
            peak = binomial_excess(mode, size, mean, size * other)
            below = level <= binomial_excess(k, size, mean, size * other) - peak
            accepted = inside & (((us >= 0.07) & (v <= 0.92 - 4.2 / b)) | below)
            value[waiting[accepted]] = k[accepted]
            waiting = waiting[~accepted]
        value = np.where(flipped & (n > 0), n - value, value)
        return np.where((n > 0) & (n == np.inf) & (prob > 0), np.inf, value)


def binomial_excess(k: Array, n: Array, mean: Array, other_mean: Array) -> Array:
    """Return the log-probability of k, up to a term of n alone."""
    rest = n - k
    return (
        -log_factorial_excess(k) - log_factorial_excess(rest) - deviance(k, mean) - deviance(rest, other_mean)
    )


def by_elements(
    call: StructuredCall, sampler: Sampler, check: Callable[[Array], None] | None = None
) -> PlannedKernel:
    """Return a kernel that fills `out` with samples, element i from the stream of counter first + i."""
    out_spec = call.outputs[0]
    if not out_spec.dtype.is_floating_point:
        raise call.refuse(out_spec)
    wide, count, sizes = out_spec.dtype is float64, out_spec.numel, out_spec.sizes

    @quietly
    def into(out: Array, *rest: Any) -> None:
        *parameters_data, seed, first = rest
        if check is not None:
            check(parameters_data[0])
        flat = [np.broadcast_to(parameter, sizes).reshape(-1) for parameter in parameters_data]
        made = np.empty(count, np.float64)

        def part(begin: int, end: int) -> None:
            for start in range(begin * BLOCK, min(end * BLOCK, count), BLOCK):
                stop = min(start + BLOCK, count)
                counter = np.arange(start, stop, dtype=np.uint64) + np.uint64(first)
                parameters = [parameter[start:stop].astype(np.float64) for parameter in flat]
                made[start:stop] = sampler(seed, counter, wide, *parameters)

        parallel_for(0, -(-count // BLOCK), 1, part)
        np.copyto(out, made.reshape(sizes), casting="unsafe")

    return PlannedKernel(into)


def gamma(call: StructuredCall) -> PlannedKernel:
    """Sample gamma numbers, at least the smallest normal number of the dtype."""
    spec = call.outputs[0]
    if not spec.dtype.is_floating_point:
        raise call.refuse(spec)
    least = finfo(spec.dtype).tiny

    def sampler(seed: int, counter: Array, wide: bool, alpha: Array) -> Array:
        return np.maximum(standard_gamma(seed, counter, wide, alpha), least)

    return by_elements(call, sampler)


def check_rates(rates: Array) -> None:
    """Raise RuntimeError for a rate that is negative or nan."""
    if not (rates >= 0).all():
        raise RuntimeError("invalid Poisson rate, expected rate to be non-negative")


def poisson_numbers(call: StructuredCall) -> PlannedKernel:
    """Sample Poisson numbers by rates."""
    return by_elements(call, poisson, check_rates)


def binomial_numbers(call: StructuredCall) -> PlannedKernel:
    """Sample binomial numbers by counts and probabilities."""
    return by_elements(call, binomial)


def dirichlet(call: StructuredCall) -> PlannedKernel:
    """Divide gamma samples by their sum along the last dimension, in logarithms, so small ones do not underflow."""
    spec = call.outputs[0]
    if not spec.dtype.is_floating_point:
        raise call.refuse(spec)
    limits, wide = finfo(spec.dtype), spec.dtype is float64
    min_share, max_share = limits.tiny, 1.0 - limits.eps / 2
    columns = spec.sizes[-1] if spec.sizes else 1
    rows = spec.numel // max(columns, 1)

    @quietly
    def into(out: Array, alpha: Array, seed: int, first: int) -> None:
        flat = np.ascontiguousarray(alpha).reshape(-1)
        logs = np.empty(rows * columns, np.float64)

        def part(begin: int, end: int) -> None:
            for start in range(begin * BLOCK, min(end * BLOCK, len(logs)), BLOCK):
                stop = min(start + BLOCK, len(logs))
                counter = np.arange(start, stop, dtype=np.uint64) + np.uint64(first)
                shape = flat[start:stop].astype(np.float64)
                logs[start:stop] = standard_gamma(seed, counter, wide, shape, logarithm=True)

        parallel_for(0, -(-len(logs) // BLOCK), 1, part)
        table = logs.reshape(rows, columns)
        table -= np.maximum(table.max(-1, keepdims=True), -math.inf)
        table[np.isnan(table) & (alpha == 0).reshape(rows, columns)] = 0.0
        weights = np.exp(table)
        weights /= weights.sum(-1, keepdims=True)
        np.clip(weights, min_share, max_share, weights)
        np.copyto(out, weights.reshape(spec.sizes), casting="unsafe")

    return PlannedKernel(into)


register_draws("standard_gamma_stub", gamma, mersenne_rejection.gamma)
register_draws("poisson_stub", poisson_numbers, mersenne_rejection.poisson)
register_draws("binomial_stub", binomial_numbers, mersenne_rejection.binomial)
register_draws("sample_dirichlet_stub", dirichlet, mersenne_rejection.dirichlet)
