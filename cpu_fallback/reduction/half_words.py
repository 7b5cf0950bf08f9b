"""Reductions of contiguous 16-bit floats: two of them are one 32-bit word, whose halves widen to float32
separately.

Each half takes a few vector passes over a block in the cache, without the GIL. NumPy's casts convert one
number at a time, or hold the GIL. float16 bits move to float32's positions with a different bias, so values
are scaled by 2**-112. Sums lose nothing by this scale, since the terms are multiples of the least subnormal
float32 too. One multiplication restores it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from ...runtime.cpu.loop_requests import DeferredLoop
from ...runtime.cpu.workspace import borrow, give_back
from ...runtime.parallel import parallel_for
from ...runtime.scalar_type import bfloat16, float16
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.tensor_spec import TensorSpec
from ..plain_numpy import np
from ..widen import FLOAT32
from .line_reductions import DIRECT, RUN, SIXTEEN, line_sums
from .sums import row_sums

Array = np.ndarray[Any, Any]

SHORT_ROW = 1 << 10
"""Elements of the shortest rows that are reduced as they lie: NumPy takes shorter ones slowly."""
WORDS = 1 << 16
"""Words of a block: with what they are widened to it stays in the second-level cache."""
FROM = 1 << 12
"""Elements from which that is quicker than to widen all of them."""
SHARED_WORDS = 1 << 18
"""The same where threads take part, who wait for each other's Python after every pass: longer ones are worth more."""
HANDED_OVER = 1 << 22
"""Bytes from which another thread takes a part: it needs some 70 us to wake."""
_HIGH_HALF, _HALF = np.uint32(0xFFFF0000), np.uint32(16)
_SIGNED_HALF, _EXPONENTS = np.int32(16), np.int32(3)
_SIGN_AND_SHIFTED = np.int32(0x8FFFE000 - (1 << 32))
_ALL_SHIFTED, _ALL = np.int32(0x0F800000), np.int32(0x7F800000)
_INFINITE, _MINUS_INFINITE = 0x7C00, 0xFC00


def bfloat16_halves(words: Array, wide: Array) -> None:
    """Widen the first and the second elements of words to float32, in ``wide[0]`` and ``wide[1]``."""
    np.left_shift(words, _HALF, wide[0])
    np.bitwise_and(words, _HIGH_HALF, wide[1])


def float16_halves(words: Array, wide: Array) -> None:
    """Widen float16 halves the same way, times 2**-112; infinity and NaN stay."""
    signed, bits = words.view(np.int32), wide.view(np.int32)
    np.left_shift(signed, _SIGNED_HALF, bits[0])
    np.right_shift(bits[0], _EXPONENTS, bits[0])
    np.right_shift(signed, _EXPONENTS, bits[1])
    np.bitwise_and(bits, _SIGN_AND_SHIFTED, bits)
    if not _is_finite(words):
        bits[bits & _ALL_SHIFTED == _ALL_SHIFTED] |= _ALL


def _is_finite(words: Array) -> bool:
    """Return True if no float16 in words is infinite or NaN, which have the largest bits of each sign."""
    return bool(words.view(np.int16).max() < _INFINITE and words.view(np.uint16).max() < _MINUS_INFINITE)


HALVES: dict[ScalarType, Callable[[Array, Array], None]] = {
    bfloat16: bfloat16_halves,
    float16: float16_halves,
}


def _loop_of(dtype: str) -> Callable[..., None] | None:
    from .run_sums_loop import run_sums_loop

    return run_sums_loop(dtype)


_LOOPS = {kind: DeferredLoop(partial(_loop_of, kind.name), 1 << 23) for kind in HALVES}
REBIAS: dict[ScalarType, Any] = {bfloat16: np.float32(1), float16: np.float32(2.0**112)}
"""Factors that restore the scale of the halves' results."""


class Fold(NamedTuple):
    """How float32 is reduced along the last axis, and from rows [..., n, length] to one, [..., length]."""

    lines: Callable[[Array], Array]
    rows: Callable[[Array], Array]


def _extremum(ufunc: np.ufunc) -> Fold:
    return Fold(lambda lines: ufunc.reduce(lines, -1), lambda rows: ufunc.reduce(rows, -2))


FOLDS: dict[np.ufunc, Fold] = {
    np.add: Fold(line_sums, row_sums),
    np.maximum: _extremum(np.maximum),
    np.minimum: _extremum(np.minimum),
}


def over_half_words(
    spec: TensorSpec, dims: tuple[int, ...], ufunc: np.ufunc
) -> Callable[[Array], Array] | None:
    """Return a function that reduces the last or first dimensions of contiguous 16-bit floats to float32.

    It returns None for few elements, other dtypes, or an odd number of adjacent elements.
    """
    if spec.dtype not in HALVES or ufunc not in FOLDS or spec.numel < FROM or not spec.is_contiguous:
        return None
    if dims == tuple(range(spec.ndim - len(dims), spec.ndim)):
        length, over = math.prod(spec.sizes[d] for d in dims), _over_lines
    elif dims == tuple(range(len(dims))):
        length, over = math.prod(spec.sizes[len(dims) :]), _over_rows
    else:
        return None
    return None if length % 2 else over(spec, length, ufunc)


def _over_lines(spec: TensorSpec, length: int, ufunc: np.ufunc) -> Callable[[Array], Array]:
    """Return the reduction of lines of `length` elements."""
    shares = spec.nbytes >= HANDED_OVER
    max_words = SHARED_WORDS if shares else WORDS
    rows, width = spec.numel // length, min(length // 2, max_words)
    together, pieces = max(max_words // width, 1), -(-length // 2 // width)
    blocks = -(-rows // together)
    fold, halves, rebias = FOLDS[ufunc].lines, HALVES[spec.dtype], REBIAS[spec.dtype]

    adds, sums = ufunc is np.add, _LOOPS[spec.dtype]

    def reduced(array: Array) -> Array:
        words = array.reshape(rows, length).view(np.uint32)
        partial = np.empty((rows, pieces), np.float32)

        def part(first: int, last: int) -> None:
            room = borrow(8 * min(together, rows) * width)
            for i in range(first, last):
                row, piece = divmod(i, pieces)
                block = words[row * together : (row + 1) * together, piece * width : (piece + 1) * width]
                loop = sums.beside(block.size) if adds and _adds_in_runs(block) else None
                if loop is not None:
                    target = partial[row * together : (row + 1) * together, piece]
                    np.add.reduce(_line_sums(loop, block), 0, None, target)
                    continue
                wide = room[: 8 * block.size].view(np.uint32).reshape(2, *block.shape)
                halves(block, wide)
                folded = ufunc.reduce(fold(wide.view(FLOAT32)), 0)
                np.multiply(folded, rebias, partial[row * together : (row + 1) * together, piece])
            give_back(room)

        if shares:
            parallel_for(0, blocks * pieces, 1, part)
        else:
            part(0, blocks * pieces)
        return partial[:, 0] if pieces == 1 else fold(partial)

    return reduced


def _adds_in_runs(words: Array) -> bool:
    """Return True if the lines of a block are whole runs of vectors and contiguous."""
    width = words.shape[1]
    return bool(words.flags.c_contiguous and not width % (SIXTEEN if width <= DIRECT else RUN))


def _line_sums(loop: Callable[..., None], words: Array) -> Array:
    """Sum a block's first elements and its second ones, [2, rows], in the order of `line_sums`."""
    rows, width = words.shape
    runs = 1 if width <= DIRECT else width // RUN
    made = np.empty((2, rows * runs), np.float32)
    loop(np.array((rows * runs, width // runs)), made, words)
    return made if runs == 1 else line_sums(made.reshape(2, rows, runs))


def _over_rows(spec: TensorSpec, length: int, ufunc: np.ufunc) -> Callable[[Array], Array]:
    """Return the reduction of rows of `length` elements to one row, [length], which interleaves the halves
    again.
    """
    count = spec.numel // length
    shares = spec.nbytes >= HANDED_OVER
    fold, halves, rebias = FOLDS[ufunc].rows, HALVES[spec.dtype], REBIAS[spec.dtype]
    # Rows of a few elements are taken together as longer ones, whose parts are reduced in the end.
    together = min(-(-SHORT_ROW // length), count)
    lines, width = count // together, together * length // 2
    some = max((SHARED_WORDS if shares else WORDS) // width, 1)
    blocks = -(-lines // some)

    def reduced(array: Array) -> Array:
        flat = array.reshape(-1)
        words = flat[: lines * together * length].view(np.uint32).reshape(lines, width)
        rest = flat[lines * together * length :]
        partial = np.empty((blocks * together + rest.size // length, length), np.float32)
        sides = partial[: blocks * together].reshape(blocks, width, 2)

        def part(first: int, last: int) -> None:
            room = borrow(8 * min(some, lines) * width)
            for i in range(first, last):
                block = words[i * some : (i + 1) * some]
                wide = room[: 8 * block.size].view(np.uint32).reshape(2, *block.shape)
                halves(block, wide)
                np.multiply(fold(wide.view(FLOAT32)).T, rebias, sides[i])
            give_back(room)

        if shares:
            parallel_for(0, blocks, 1, part)
        else:
            part(0, blocks)
        partial[blocks * together :] = rest.reshape(-1, length)
        return partial[0] if len(partial) == 1 else fold(partial)

    return reduced
