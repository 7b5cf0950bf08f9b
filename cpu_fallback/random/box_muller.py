"""Normal numbers from pairs of random words, by the Box-Muller transform in float64.

The C library computes sines and cosines one at a time, at 8 nanoseconds each. Here an angle is the nearest of
`STEPS` points of the circle, whose sines and cosines are in a table, plus a small rest, whose series have
three terms. This takes some thirty passes of vector loops, whose bits are the same on every processor. A
compiled loop makes it one pass.

Source: G. E. P. Box, M. E. Muller, "A note on the generation of random normal deviates" (1958).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

from ...runtime.cpu.loop_requests import DeferredLoop
from ...runtime.cpu.workspace import borrow, give_back
from ..plain_numpy import np

Array = np.ndarray[Any, Any]

TWO_PI = 6.283185307179586
STEPS = 1024
"""Points of the circle: up to half a step from one, terms after the third are below half a unit in the last place."""
STEP = np.ldexp(np.floor(np.ldexp(TWO_PI / STEPS, 49)), -49)
"""The angle between two of them, in 42 bits: its multiples are exact, and so is an angle less the nearest of them."""
BLOCK = 1 << 13
"""Pairs that are computed at a time: their arrays stay in the second-level cache."""
ARRAYS = 7
_DROPPED = np.uint64(11)


def _loop_of_words(nbytes: int) -> Callable[..., None]:
    from .draw_loops import normal_loop

    return normal_loop({4: "i32", 8: "i64"}[nbytes])


LOOPS = {nbytes: DeferredLoop(partial(_loop_of_words, nbytes), 1 << 19) for nbytes in (4, 8)}
"""Compiled loops by the bytes of a random word."""


@cache
def circle() -> tuple[Array, Array]:
    """Return the cosines and sines of the points; the first point is repeated at the end."""
    angles = np.arange(STEPS + 1) * STEP
    return np.cos(angles), np.sin(angles)


def normal_pairs(draws: Array) -> Array:
    """Return standard normal numbers from an even number of contiguous random words of 32 or 64 bits.

    Words are integers w, or the upper 53 bits of 64, in units of 2**-32 or 2**-53. With a = (even + 1) unit
    and b = odd unit, a pair becomes sqrt(-2 log a) times the cosine and the sine of the float64
    6.283185307179586 b.
    """
    count = len(draws) // 2
    unit = 2.0**-32 if draws.itemsize == 4 else 2.0**-53
    out = np.empty(2 * count)
    room = borrow(8 * ARRAYS * min(count, BLOCK))
    loop = LOOPS[draws.itemsize].beside(count)
    for first in range(0, count, BLOCK):
        last = min(first + BLOCK, count)
        arrays = room[: 8 * ARRAYS * (last - first)].view(np.float64).reshape(ARRAYS, -1)
        logarithm, some = arrays[0], draws[2 * first : 2 * last]
        even = some[0::2]
        np.copyto(logarithm, even if draws.itemsize == 4 else even >> _DROPPED)
        np.add(logarithm, 1.0, logarithm)
        np.multiply(logarithm, unit, logarithm)
        np.log(logarithm, logarithm)
        target = out[2 * first : 2 * last]
        if loop is not None:
            loop(np.array(last - first), target, logarithm, some, *circle())
        else:
            odd = some[1::2]
            _pairs_of(target, odd if draws.itemsize == 4 else odd >> _DROPPED, unit, arrays)
    give_back(room)
    return out


def _pairs_of(out: Array, odd: Array, unit: float, arrays: Array) -> None:
    """Write the pairs of angles, and of logarithms in the first of the arrays."""
    radius, rest, square, sine, cosine, scratch, other = arrays
    np.multiply(radius, -2.0, radius)
    np.sqrt(radius, radius)

    np.copyto(rest, odd)
    np.multiply(rest, unit * STEPS, scratch)
    np.rint(scratch, scratch)
    nearest = square.view(np.intp)
    np.copyto(nearest, scratch, casting="unsafe")
    cosines, sines = circle()
    cosines.take(nearest, None, cosine, "clip")
    sines.take(nearest, None, sine, "clip")
    np.multiply(rest, unit * TWO_PI, rest)  # the unit is a power of two
    np.multiply(scratch, STEP, scratch)
    np.subtract(rest, scratch, rest)

    # `rest` becomes its sine, `square` its cosine less 1.
    np.multiply(rest, rest, square)
    np.multiply(square, 1.0 / 120.0, scratch)
    np.subtract(scratch, 1.0 / 6.0, scratch)
    np.multiply(scratch, square, scratch)
    np.multiply(scratch, rest, scratch)
    np.add(rest, scratch, rest)
    np.multiply(square, 1.0 / 24.0, scratch)
    np.subtract(scratch, 0.5, scratch)
    np.multiply(square, scratch, square)

    np.multiply(cosine, square, scratch)
    np.multiply(sine, rest, other)
    np.subtract(scratch, other, scratch)
    np.add(scratch, cosine, scratch)
    np.multiply(sine, square, other)
    np.add(sine, other, sine)
    np.multiply(cosine, rest, other)
    np.add(sine, other, sine)
    np.multiply(radius, scratch, out[0::2])
    np.multiply(radius, sine, out[1::2])
