"""Gamma, Poisson, binomial and Dirichlet numbers as PyTorch's CPU kernels make them of a Mersenne Twister's words.

Each element takes as many words as its rejections need, so that elements are computed one after the other.

Sources: G. Marsaglia, W. W. Tsang, "A simple method for generating gamma variables" (2000); W. Hörmann, "The
transformed rejection method for generating Poisson random variables" and "The generation of binomial random variates"
(1993).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ...dispatch.structured.stub import StructuredCall
from ...runtime.mersenne_twister import MersenneTwister
from ...runtime.scalar_type import finfo
from ..plain_numpy import np
from .engine import Kernel
from .mersenne_draws import writer

Array = Any
Uniform = Callable[[], float]
AHEAD = 1 << 12
"""Numbers that are drawn ahead."""
_THIRD = float(np.float32(1.0) / np.float32(3.0))
_SQUEEZE = float(np.float32(0.0331))
_TAILS = (
    *(0.0810614667953272, 0.0413406959554092, 0.0276779256849983, 0.02079067210376509, 0.0166446911898211),
    *(0.0138761288230707, 0.0118967099458917, 0.0104112652619720, 0.00925546218271273, 0.00833056343336287),
)
"""Tails of Stirling's approximation for the first factorials."""


@contextmanager
def uniform_numbers(twister: MersenneTwister, count: int) -> Iterator[Uniform]:
    """Yield a function that returns the stream's float64 numbers one by one.

    Afterwards the stream is behind the last of them.

    Args:
        twister: the stream.
        count: numbers that are needed at least.
    """
    ahead = min(max(2 * count, 16), AHEAD)
    with twister.lock:
        begin = twister.position()
        used = 0

        def runs() -> Iterator[float]:
            nonlocal begin, used
            while True:
                begin, used = twister.position(), 0
                for number in twister.doubles(ahead).tolist():
                    used += 1
                    yield number

        try:
            yield runs().__next__
        finally:
            twister.go_back(begin, 2 * used)


def normal_number(twister: MersenneTwister, uniform: Uniform) -> float:
    """Return the next normal number, of a pair of which the second waits in the stream."""
    waiting = twister.next_normal
    if waiting is not None:
        twister.next_normal = None
        return waiting
    angle = 2.0 * math.pi * uniform()
    radius = math.sqrt(-2.0 * math.log1p(-uniform()))
    twister.next_normal = radius * math.sin(angle)
    return radius * math.cos(angle)


def gamma_number(twister: MersenneTwister, uniform: Uniform, alpha: float, number: Any) -> float:
    """Return a gamma number; `number` is the type of `alpha` in PyTorch's kernel, np.float32 or float."""
    scale = 1.0
    if alpha < 1.0:
        if alpha == 0.0:
            return 0.0
        scale = math.pow(1.0 - uniform(), float(number(1.0) / number(alpha)))
        alpha = float(number(alpha) + number(1.0))
    d = float(number(alpha) - number(_THIRD))
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        y = 0.0
        while y <= 0.0:
            x = normal_number(twister, uniform)
            y = 1.0 + c * x
        v = y * y * y
        u = 1.0 - uniform()
        square = x * x
        if u < 1.0 - _SQUEEZE * square * square:
            return scale * d * v
        if math.log(u) < 0.5 * square + d * (1.0 - v + math.log(v)):
            return scale * d * v


def poisson_number(uniform: Uniform, rate: float) -> int:
    """Return a Poisson number."""
    if rate == 0.0:
        return 0
    if rate < 10.0:
        least, product, made = math.exp(-rate), 1.0, -1
        while made < 0 or product > least:
            product *= uniform()
            made += 1
        return made
    log_rate = math.log(rate)
    b = 0.931 + 2.53 * math.sqrt(rate)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    bound = 0.9277 - 3.6224 / (b - 2.0)
    while True:
        u = uniform() - 0.5
        v = uniform()
        us = 0.5 - abs(u)
        if us == 0.0:
            continue
        k = math.floor((2.0 * a / us + b) * u + rate + 0.43)
        if us >= 0.07 and v <= bound:
            return k
        if k < 0 or (us < 0.013 and v > us):
            continue
        level = _log(v) + math.log(inverse_alpha) - math.log(a / (us * us) + b)
        if level <= -rate + k * log_rate - math.lgamma(k + 1.0):
            return k


def _log(x: float) -> float:
    return math.log(x) if x else -math.inf


def _tail(k: float) -> float:
    if k < len(_TAILS):
        return _TAILS[int(k)]
    square = (k + 1.0) * (k + 1.0)
    return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1.0)


def binomial_number(uniform: Uniform, count: float, prob: float, number: Any) -> float:
    """Return a binomial number; `number` is the type of the operands in PyTorch's kernel, np.float32 or float."""
    if count <= 0.0 or prob <= 0.0:
        return 0.0
    if prob >= 1.0:
        return count
    if prob <= 0.5:
        return _lesser_binomial(uniform, number(count), number(prob), number)
    if prob > 0.5:
        return count - _lesser_binomial(uniform, number(count), number(1.0 - prob), number)
    return math.nan


def _lesser_binomial(uniform: Uniform, count: Any, prob: Any, number: Any) -> float:
    """Return a binomial number of a probability of at most 0.5."""
    one = number(1.0)
    if not float(count * prob) >= 10.0:
        log_prob = float(np.log1p(-prob))
        total, made = 0.0, 0
        while True:
            total += math.ceil(_log(uniform()) / log_prob) if log_prob else math.inf
            if not total <= count:
                return float(made)
            made += 1
    deviation = float(np.sqrt(count * prob * (one - prob)))
    n, p = float(count), float(prob)
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p
    center = float(count * prob) + 0.5
    bound = 0.92 - 4.2 / b
    ratio = float(prob / (one - prob))
    alpha = (2.83 + 5.1 / b) * deviation
    mode = math.floor(float((count + one) * prob))
    while True:
        u = uniform() - 0.5
        v = uniform()
        us = 0.5 - abs(u)
        if us == 0.0:
            continue
        k = float(number(math.floor((2.0 * a / us + b) * u + center)))
        if k < 0 or k > n:
            continue
        if us >= 0.07 and v <= bound:
            return k
        level = _log(v * alpha / (a / (us * us) + b))
        limit = (
            (mode + 0.5) * math.log((mode + 1.0) / (ratio * (n - mode + 1.0)))
            + float(count + one) * math.log((n - mode + 1.0) / float(count - number(k) + one))
            + float(number(k + 0.5)) * math.log(ratio * float(count - number(k) + one) / (k + 1.0))
            + (_tail(mode) + _tail(n - mode) - _tail(k) - _tail(n - k))
        )
        if level <= limit:
            return k


def _number_of(array: Array) -> Any:
    return float if array.dtype == np.float64 else np.float32


def _floats(array: Array) -> list[float]:
    values: list[float] = array.astype(np.float64).reshape(-1).tolist()
    return values


def gamma(call: StructuredCall) -> Kernel:
    """Sample gamma numbers, at least the smallest normal number of the dtype."""
    spec = call.outputs[0]
    write, least = writer(spec), finfo(spec.dtype).tiny

    def into(out: Array, alpha: Array, twister: MersenneTwister) -> None:
        number = _number_of(out)
        with uniform_numbers(twister, 3 * spec.numel) as uniform:
            made = [gamma_number(twister, uniform, shape, number) for shape in _floats(alpha)]
        write(out, np.maximum(np.array(made).astype(out.dtype), out.dtype.type(least)))

    return into


def poisson(call: StructuredCall) -> Kernel:
    """Sample Poisson numbers by rates."""
    spec = call.outputs[0]
    write = writer(spec)

    def into(out: Array, rates: Array, twister: MersenneTwister) -> None:
        if not (rates >= 0).all():
            raise RuntimeError("invalid Poisson rate, expected rate to be non-negative")
        with uniform_numbers(twister, 2 * spec.numel) as uniform:
            made = [poisson_number(uniform, rate) if rate < math.inf else rate for rate in _floats(rates)]
        write(out, np.array(made, np.float64))

    return into


def binomial(call: StructuredCall) -> Kernel:
    """Sample binomial numbers by counts and probabilities."""
    spec = call.outputs[0]
    write = writer(spec)

    def into(out: Array, count: Array, prob: Array, twister: MersenneTwister) -> None:
        number = _number_of(out)
        pairs = zip(*(_floats(np.broadcast_to(value, spec.sizes)) for value in (count, prob)), strict=True)
        with uniform_numbers(twister, 2 * spec.numel) as uniform:
            made = [binomial_number(uniform, n, p, number) for n, p in pairs]
        write(out, np.array(made, np.float64))

    return into


def dirichlet(call: StructuredCall) -> Kernel:
    """Divide float64 gamma samples by their sum along the last dimension."""
    spec = call.outputs[0]
    write, limits = writer(spec), finfo(spec.dtype)
    min_share, max_share = limits.tiny, 1.0 - limits.eps / 2
    smallest = float(np.finfo(np.float64).tiny)

    def into(out: Array, alpha: Array, twister: MersenneTwister) -> None:
        with uniform_numbers(twister, 3 * spec.numel) as uniform:
            made = [max(smallest, gamma_number(twister, uniform, shape, float)) for shape in _floats(alpha)]
        numbers = np.array(made).reshape(spec.sizes)
        shares = (numbers / numbers.sum(-1, keepdims=True)).astype(out.dtype)
        write(out, np.clip(shares, out.dtype.type(min_share), out.dtype.type(max_share)))

    return into
