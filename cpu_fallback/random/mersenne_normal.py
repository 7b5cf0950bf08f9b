"""Normal numbers as PyTorch's CPU kernels make them of the words of a Mersenne Twister.

- A contiguous tensor of 16 elements or more is filled in blocks of 16. The first 8 uniform numbers of a block give the
  radii, the last 8 the angles. The last 16 elements are drawn anew if the blocks do not end with the tensor.
- Elements of others come one after the other, in pairs, in float64; the second number of the last pair is kept for the
  next call.

In float32 logarithm, sine and cosine are those of the Cephes library as PyTorch's AVX2 kernels compute them, with fused
multiply-adds, to the bit. In float64 they are the C library's.

Sources: G. E. P. Box, M. E. Muller, "A note on the generation of random normal deviates" (1958); S. Moshier, Cephes
mathematical library (1989).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...runtime.cpu.loop_requests import DeferredLoop
from ...runtime.mersenne_twister import BLOCK, MersenneTwister
from ...runtime.parallel import parallel_for
from ..plain_numpy import np
from .fused_multiply_add import fma32, fma64

Array = Any
GROUP = 16
"""Elements of a block of the transform."""
HALF = GROUP // 2


def _normal_loop() -> Callable[..., None] | None:
    from .draw_loops import mersenne_normal_loop

    return mersenne_normal_loop()


LOOP = DeferredLoop(_normal_loop, 1 << 19)
_32 = np.float32
SQRT_HALF = _32(0.707106781186547524)
LOG = [
    _32(p)
    for p in (
        *(7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1),
        *(-1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1),
    )
]
LOG_2_LOW, LOG_2_HIGH = _32(-2.12194440e-4), _32(0.693359375)
SIN = [_32(p) for p in (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)]
COS = [_32(p) for p in (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)]
QUARTER_PI = [_32(p) for p in (-0.78515625, -2.4187564849853515625e-4, -3.77489497744594108e-8)]
"""A quarter of pi in three parts, of which the first two have few bits."""
FOUR_OVER_PI = _32(1.27323954473516)
ANGLE = _32(2 * math.pi)


def libm(function: Callable[[float], float], values: Array) -> Array:
    """Apply a function of the C library to each element: NumPy's vector functions differ from it in the last bits."""
    return np.fromiter(map(function, values.tolist()), np.float64, len(values))


def normal_numbers(
    twister: MersenneTwister, count: int, real: Any, grouped: bool, mean: float, std: float
) -> Array:
    """Return the next normal numbers.

    Args:
        twister: the stream, whose lock the caller holds.
        count: Number of values.
        real: NumPy's dtype of the tensor that they are for. It decides about words and precision.
        grouped: If True, the tensor is contiguous.
        mean: Mean of the distribution.
        std: Standard deviation of the distribution.
    """
    if not (grouped and count >= GROUP):
        return one_by_one(twister, count, mean, std)
    whole, rest = count - count % GROUP, count % GROUP
    wide = real == np.float64
    if wide or real == np.float32:
        uniform = twister.doubles(count) if wide else twister.singles(count)
    else:
        uniform = twister.singles(whole)
    fill = _grouped64 if wide else _grouped32
    made = np.empty(count, uniform.dtype)
    fill(made[:whole], uniform[:whole], mean, std)
    if rest:
        last = twister.doubles(GROUP) if wide else twister.singles(GROUP)
        fill(made[-GROUP:], last, mean, std)
    return made


def one_by_one(twister: MersenneTwister, count: int, mean: float = 0.0, std: float = 1.0) -> Array:
    """Return normal numbers in float64, in pairs of which the second one waits in the stream for the next call."""
    made = np.empty(count + 2)
    begin = 0
    if twister.next_normal is not None and count:
        made[0], twister.next_normal, begin = twister.next_normal, None, 1
    pairs = (count - begin + 1) // 2
    uniform = twister.doubles(2 * pairs)
    radius = np.sqrt(-2.0 * libm(math.log1p, -uniform[1::2]))
    angle = 2.0 * math.pi * uniform[0::2]
    made[begin : begin + 2 * pairs : 2] = radius * libm(math.cos, angle)
    made[begin + 1 : begin + 2 * pairs : 2] = radius * libm(math.sin, angle)
    if begin + 2 * pairs > count:
        twister.next_normal = float(made[count])
    return fma64(made[:count], std, mean)


def _grouped64(out: Array, uniform: Array, mean: float, std: float) -> None:
    for start in range(0, len(uniform), BLOCK):
        pairs = uniform[start : start + BLOCK].reshape(-1, 2, HALF)
        made = out[start : start + BLOCK].reshape(-1, 2, HALF)
        radius = np.sqrt(-2.0 * libm(math.log, (1.0 - pairs[:, 0]).reshape(-1)))
        angle = (2.0 * math.pi * pairs[:, 1]).reshape(-1)
        made[:, 0] = fma64(radius * libm(math.cos, angle), std, mean).reshape(-1, HALF)
        made[:, 1] = fma64(radius * libm(math.sin, angle), std, mean).reshape(-1, HALF)


def _grouped32(out: Array, uniform: Array, mean: float, std: float) -> None:
    loop = LOOP.beside(len(uniform))
    parameters = np.array((mean, std), np.float32)

    def part(begin: int, end: int) -> None:
        for start in range(begin * BLOCK, min(end * BLOCK, len(uniform)), BLOCK):
            if loop is not None:
                uniform_block = uniform[start : start + BLOCK]
                loop(
                    np.array(len(uniform_block) // GROUP),
                    out[start : start + BLOCK],
                    uniform_block,
                    parameters,
                )
                continue
            pairs = uniform[start : start + BLOCK].reshape(-1, 2, HALF)
            made = out[start : start + BLOCK].reshape(-1, 2, HALF)
            radius = np.sqrt(_32(-2.0) * log32(_32(1.0) - pairs[:, 0]))
            sine, cosine = sine_cosine32(ANGLE * pairs[:, 1])
            made[:, 0] = fma32(radius * cosine, _32(std), _32(mean))
            made[:, 1] = fma32(radius * sine, _32(std), _32(mean))

    parallel_for(0, -(-len(uniform) // BLOCK), 1, part)


def _polynomial(coefficients: list[Any], x: Array) -> Array:
    made = coefficients[0]
    for coefficient in coefficients[1:]:
        made = fma32(made, x, coefficient)
    return made


def log32(x: Array) -> Array:
    """Return the natural logarithm of normal positive float32 numbers."""
    bits = x.view(np.int32)
    exponent = ((bits >> 23) - 126).astype(np.float32)
    x = ((bits & 0x007FFFFF) | 0x3F000000).view(np.float32)
    small = x < SQRT_HALF
    exponent -= small
    x = (x - _32(1.0)) + np.where(small, x, _32(0.0))
    square = x * x
    series = _polynomial(LOG, x) * x
    series = fma32(series, square, exponent * LOG_2_LOW)
    series = fma32(square, _32(-0.5), series)
    return fma32(exponent, LOG_2_HIGH, x + series)


def sine_cosine32(x: Array) -> tuple[Array, Array]:
    """Return sine and cosine of float32 angles that are not negative."""
    octant = ((x * FOUR_OVER_PI).astype(np.int32) + 1) & ~1
    turns = octant.astype(np.float32)
    for part in QUARTER_PI:
        x = fma32(turns, part, x)
    square = x * x
    cosine = fma32(_polynomial(COS, square) * square, square, square * _32(-0.5)) + _32(1.0)
    sine = fma32(_polynomial(SIN, square) * square, x, x)
    straight = (octant & 2) == 0
    sine, cosine = np.where(straight, sine, cosine), np.where(straight, cosine, sine)
    sine.view(np.int32)[...] ^= (octant & 4) << 29
    cosine.view(np.int32)[...] ^= (~(octant - 2) & 4) << 29
    return sine, cosine
