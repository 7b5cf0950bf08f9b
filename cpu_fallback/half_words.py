"""Reductions of 16-bit floats that lie side by side: two of them are one word, whose halves become float32 apart.

Each half takes a pass or a few over a block in the cache, in whole vectors and without the GIL; casts of NumPy's take
one number at a time, or hold the GIL. float16 moves to float32's places with another bias, 2**-112 of its value: sums
lose nothing by that, as what is added are multiples of the least subnormal float32 too, so that one product mends them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from ..dispatch.iterator.parallel import parallel_for
from ..runtime.scalar_type import bfloat16, float16
from ..runtime.tensor_spec import TensorSpec
from .line_reductions import line_sums
from .undispatched import np
from .widen import FLOAT32, widened_halves

Array = np.ndarray[Any, Any]

WORDS = 1 << 16
"""Words of a block: with one half widened it stays in the second-level cache."""
FROM = 1 << 12
"""Elements from which that is quicker than to widen all of them."""
SHARED_WORDS = 1 << 19
"""The same where threads take part, who wait for each other's Python after every pass: longer ones are worth more."""
HANDED_OVER = 1 << 22
"""Bytes from which another thread takes a part: it needs some 70 us to wake."""
_HIGH_HALF, _HALF = np.uint32(0xFFFF0000), np.uint32(16)
_SIGNED_HALF, _EXPONENTS = np.int32(16), np.int32(3)
_SIGN_AND_SHIFTED = np.int32(0x8FFFE000 - (1 << 32))
_REBIAS = np.float32(2.0**112)
_INFINITE, _MINUS_INFINITE = 0x7C00, 0xFC00


def bfloat16_halves(words: Array, wide: Array) -> Iterator[Array]:
    """The first and the second elements of words, each as float32 in `wide`."""
    np.left_shift(words, _HALF, wide)
    yield wide.view(FLOAT32)
    np.bitwise_and(words, _HIGH_HALF, wide)
    yield wide.view(FLOAT32)


def float16_halves(words: Array, wide: Array) -> Iterator[Array]:
    """The same of finite float16, times 2**-112."""
    words, bits = words.view(np.int32), wide.view(np.int32)
    np.left_shift(words, _SIGNED_HALF, bits)
    for source in (bits, words):
        np.right_shift(source, _EXPONENTS, bits)
        np.bitwise_and(bits, _SIGN_AND_SHIFTED, bits)
        yield wide.view(FLOAT32)


def _is_finite(words: Array) -> bool:
    """Whether no float16 in words is infinite or NaN, which have the largest bits of each sign."""
    return bool(words.view(np.int16).max() < _INFINITE and words.view(np.uint16).max() < _MINUS_INFINITE)


def _greatest(lines: Array) -> Array:
    found: Array = np.maximum.reduce(lines, -1)
    return found


def _least(lines: Array) -> Array:
    found: Array = np.minimum.reduce(lines, -1)
    return found


FOLDS: dict[np.ufunc, Callable[[Array], Array]] = {
    np.add: line_sums,
    np.maximum: _greatest,
    np.minimum: _least,
}


def over_half_words(
    spec: TensorSpec, dims: tuple[int, ...], ufunc: np.ufunc
) -> Callable[[Array], Array] | None:
    """A function that reduces the last dimensions of contiguous 16-bit floats to float32, as one line.

    None where they are few or of another dtype, or lines have an odd number of elements.
    """
    if spec.dtype not in (bfloat16, float16) or ufunc not in FOLDS or spec.numel < FROM:
        return None
    if not spec.is_contiguous or dims != tuple(range(spec.ndim - len(dims), spec.ndim)):
        return None
    length = math.prod(spec.sizes[d] for d in dims)
    if length % 2:
        return None
    shares = spec.nbytes >= HANDED_OVER
    most = SHARED_WORDS if shares else WORDS
    rows, width = spec.numel // length, min(length // 2, most)
    together, pieces = max(most // width, 1), -(-length // 2 // width)
    blocks = -(-rows // together)
    fold, halves = FOLDS[ufunc], bfloat16_halves if spec.dtype is bfloat16 else float16_halves

    def reduced(block: Array, wide: Array) -> Array:
        if spec.dtype is float16 and not _is_finite(block):
            return fold(widened_halves(block.view(np.float16)))
        first, second = [fold(half) for half in halves(block, wide)]
        found: Array = ufunc(first, second)
        return found if spec.dtype is bfloat16 else np.multiply(found, _REBIAS)

    def over(array: Array) -> Array:
        words = array.reshape(rows, length).view(np.uint32)
        partial = np.empty((rows, pieces), np.float32)

        def part(first: int, last: int) -> None:
            space = np.empty(min(together, rows) * width, np.uint32)
            for i in range(first, last):
                row, piece = divmod(i, pieces)
                block = words[row * together : (row + 1) * together, piece * width : (piece + 1) * width]
                wide = space[: block.size].reshape(block.shape)
                partial[row * together : (row + 1) * together, piece] = reduced(block, wide)

        if shares:
            parallel_for(0, blocks * pieces, 1, part)
        else:
            part(0, blocks * pieces)
        return partial[:, 0] if pieces == 1 else fold(partial)

    return over
