"""Philox 4x32-10 over whole arrays of counters, the generator behind every random number here.

Source: Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC11 (Random123's `philox4x32_R(10,
...)`); ``tl.philox`` and ``tl.randint4x`` of Triton give the same words for the same counter. How operators
map elements to words is said in `dispatch/structured/meta/draws.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...runtime.cpu.loop_requests import DeferredLoop
from ...runtime.cpu.workspace import borrow, give_back
from ..plain_numpy import np

ROUNDS = 10
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
BLOCK = 1 << 13
"""Counters of a block: its arrays stay in the second-level cache."""

PAGE = 2048
"""Counters of the cached run that serves small random ops."""


def _words_loop() -> Callable[..., None]:
    from .draw_loops import words_loop

    return words_loop()


_loop = DeferredLoop(_words_loop, 1 << 19)

_kept: tuple[int, int, Any] = (-1, -1, None)
_MASK = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)
_M0, _M1 = (np.uint64(m) for m in MULTIPLIERS)


def philox(c0: Any, c1: Any, c2: Any, c3: Any, key: tuple[int, int]) -> tuple[Any, Any, Any, Any]:
    """Ten rounds over counters given as four uint64 arrays of 32-bit words; the words of the result likewise.

    The arrays are overwritten. One round is ten array operations, on 64-bit lanes because the product is 64
    bits.
    """
    k0, k1 = key
    p0, p1 = np.empty_like(c0), np.empty_like(c0)
    for _ in range(ROUNDS):
        np.multiply(c0, _M0, p0)
        np.multiply(c2, _M1, p1)
        np.right_shift(p1, _SHIFT, c0)
        np.bitwise_xor(c0, c1, c0)
        np.bitwise_xor(c0, np.uint64(k0), c0)
        np.bitwise_and(p1, _MASK, c1)
        np.right_shift(p0, _SHIFT, c2)
        np.bitwise_xor(c2, c3, c2)
        np.bitwise_xor(c2, np.uint64(k1), c2)
        np.bitwise_and(p0, _MASK, c3)
        k0 = (k0 + WEYL[0]) & 0xFFFFFFFF
        k1 = (k1 + WEYL[1]) & 0xFFFFFFFF
    return c0, c1, c2, c3


def words(seed: int, first: int, counters: int) -> Any:
    """Return the uint32 words of `counters` counters from `first` on, an array of shape (counters, 4).

    The key is the (low, high) halves of the seed; a counter is (low half, high half, 0, 0) of its number.
    Small requests are slices of a cached run of counters, since a hundred array operations cost the same for
    one element as for many.
    """
    page, offset = divmod(first, PAGE)
    if offset + counters <= PAGE:
        global _kept
        page_words = _kept
        if page_words[0] != seed or page_words[1] != page:
            made = np.empty((PAGE, 4), np.uint32)
            fill_words(made, seed, page * PAGE)
            page_words = _kept = (seed, page, made)
        return page_words[2][offset : offset + counters]
    out = np.empty((counters, 4), np.uint32)
    fill_words(out, seed, first)
    return out


def fill_words(out: Any, seed: int, first: int) -> None:
    """Write `words` into an array of shape (counters, 4)."""
    key = (seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF)
    loop = _loop.beside(len(out))
    if loop is not None and len(out):
        loop(np.array((len(out), first % (1 << 64), *key), np.uint64), out)
        return
    size = min(len(out), BLOCK)
    room = borrow(8 * 5 * size)
    arrays = room[: 8 * 5 * size].view(np.uint64).reshape(5, size)
    start = 0
    while start < len(out):
        low = (first + start) & 0xFFFFFFFF
        high = (first + start) >> 32 & 0xFFFFFFFF
        end = min(start + BLOCK, len(out), start + (1 << 32) - low)  # of one high half
        piece = out[start:end]
        number = np.arange(low, low + end - start, dtype=np.uint64)
        _from_numbers(piece, number, high, key, arrays[:, : end - start])
        start = end
    give_back(room)


def _from_numbers(out: Any, number: Any, high: int, key: tuple[int, int], arrays: Any) -> None:
    """`philox` of the counters (number, high, 0, 0), of which most words are the same for all in the first rounds."""
    c0, c1, c2, c3, product = arrays
    k0, k1 = key

    # After the first round the first word is a number, and the second zero.
    np.multiply(number, _M0, c3)
    np.right_shift(c3, _SHIFT, c2)
    np.bitwise_xor(c2, np.uint64(k1), c2)
    same = high ^ k0
    k0, k1 = (k0 + WEYL[0]) & 0xFFFFFFFF, (k1 + WEYL[1]) & 0xFFFFFFFF

    # After the second one the fourth is.
    upper, same = divmod(same * MULTIPLIERS[0], 1 << 32)
    np.multiply(c2, _M1, c1)
    np.right_shift(c1, _SHIFT, c0)
    np.bitwise_xor(c0, np.uint64(k0), c0)
    np.bitwise_and(c3, _MASK, c2)
    np.bitwise_xor(c2, np.uint64(upper ^ k1), c2)
    k0, k1 = (k0 + WEYL[0]) & 0xFFFFFFFF, (k1 + WEYL[1]) & 0xFFFFFFFF
    fourth: Any = np.uint64(same)

    for _ in range(2, ROUNDS):
        # The second and fourth words have the whole products here, and the upper halves are taken off the others.
        np.multiply(c0, _M0, product)
        np.multiply(c2, _M1, c2)
        np.right_shift(c2, _SHIFT, c0)
        np.bitwise_xor(c0, c1, c0)
        np.bitwise_xor(c0, np.uint64(k0), c0)
        np.bitwise_and(c0, _MASK, c0)
        c1, c2 = c2, c1
        np.right_shift(product, _SHIFT, c2)
        np.bitwise_xor(c2, fourth, c2)
        np.bitwise_xor(c2, np.uint64(k1), c2)
        np.bitwise_and(c2, _MASK, c2)
        fourth, product = product, c3 if fourth.__class__ is np.uint64 else fourth
        k0, k1 = (k0 + WEYL[0]) & 0xFFFFFFFF, (k1 + WEYL[1]) & 0xFFFFFFFF
    for column, word in enumerate((c0, c1, c2, fourth)):
        np.copyto(out[:, column], word, casting="unsafe")  # modulo 2**32


def draws32(seed: int, first: int, count: int) -> Any:
    """Return the 32-bit words of elements 0 to `count`: element i has word i % 4 of counter first + i // 4."""
    return words(seed, first, counters_of(count, 4)).reshape(-1)[:count]


def draws64(seed: int, first: int, count: int) -> Any:
    """Return the 64-bit words: element i has a pair of words, low first, of counter first + i // 2."""
    pairs = words(seed, first, counters_of(count, 2)).reshape(-1, 2)
    return pairs.view("<u8").reshape(-1)[:count]


def counters_of(count: int, per_counter: int) -> int:
    """Return the number of counters that `count` elements consume."""
    return -(-count // per_counter)
