"""Mersenne Twister (mt19937), the engine of PyTorch's CPU generator, with PyTorch's state of 5056 bytes.

Source: M. Matsumoto, T. Nishimura, "Mersenne Twister: A 623-dimensionally equidistributed uniform pseudo-random number
generator" (1998). NumPy's `MT19937` computes the words; the seeding is `init_genrand` of the lower 32 bits of the seed.
"""

from __future__ import annotations

import struct
import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from .fork_lock import forkable

if TYPE_CHECKING:
    from numpy.typing import NDArray

WORDS = 624
"""32-bit words of the state."""
BLOCK = 1 << 14
"""Numbers computed at a time: their temporaries stay in the second-level cache."""
_HEAD = struct.Struct("<QiiQ")
"""Seed, words left before the next twist plus one, whether seeded, place of the next word."""
_TAIL = struct.Struct("<dddi4xf?3x")
"""Legacy normal number as (angle, value, radius, valid flag), then a float32 normal number with its flag."""
STATE_SIZE = _HEAD.size + 8 * WORDS + _TAIL.size
"""Bytes of PyTorch's state of a CPU generator."""


class MersenneTwister:
    """Stream of 32-bit words, and the second number of the last pair of normal numbers.

    A kernel holds `lock` from its first word to its last, so that threads do not share a run of words.
    """

    __slots__ = ("_bits", "_is_fresh", "_seeding", "lock", "next_normal", "seed")

    def __init__(self, seed: int) -> None:
        self.lock = forkable(threading.Lock())
        self._bits = np.random.MT19937(0)
        forkable(self._bits.lock)
        # It seeds `_bits` in place: a new RandomState per seed takes 500 times longer, as it asks for entropy.
        self._seeding = np.random.RandomState(self._bits)
        self.restart(seed)

    def restart(self, seed: int) -> None:
        """Begin at the lower 32 bits of a seed."""
        self.seed = seed
        self.next_normal: float | None = None
        self._seeding.seed(seed & 0xFFFFFFFF)
        self._is_fresh = True

    def _set_words(self, words: Any, position: int) -> None:
        self._bits.state = {"bit_generator": "MT19937", "state": {"key": words, "pos": position}}

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return the next words, each of 32 bits in an element of 64."""
        self._is_fresh &= not count
        return self._bits.random_raw(count)

    def wide_words(self, count: int) -> NDArray[np.uint64]:
        """Return the next numbers of 64 bits: two words each, the upper one first."""
        pairs = self.words(2 * count)
        return pairs[0::2] << np.uint64(32) | pairs[1::2]

    def doubles(self, count: int, out: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
        """Return the next float64 numbers of [0, 1), in `out` if given: the lower 53 bits of 64, times 2**-53."""
        made = np.empty(count) if out is None else out
        for start in range(0, count, BLOCK):
            part = made[start : start + BLOCK]
            np.multiply(self.wide_words(len(part)) & np.uint64((1 << 53) - 1), 2.0**-53, out=part)
        return made

    def singles(self, count: int, out: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
        """Return the next float32 numbers of [0, 1), in `out` if given: the lower 24 bits of a word, times 2**-24."""
        made = np.empty(count, np.float32) if out is None else out
        for start in range(0, count, BLOCK):
            part = made[start : start + BLOCK]
            np.multiply(
                self.words(len(part)) & np.uint64((1 << 24) - 1), 2.0**-24, out=part, casting="same_kind"
            )
        return made

    def position(self) -> tuple[Any, bool]:
        """Return the position in the stream, for `go_back`."""
        return self._bits.state, self._is_fresh

    def go_back(self, position: tuple[Any, bool], count: int) -> None:
        """Return to a position in the stream, and skip `count` words from there."""
        self._bits.state, self._is_fresh = position
        if count:
            self._is_fresh = False
            self._bits.random_raw(count, output=False)

    def state_bytes(self) -> bytes:
        """Return the state in PyTorch's format."""
        state = self._bits.state["state"]
        position = 0 if self._is_fresh else state["pos"]
        left = 1 if self._is_fresh else WORDS + 1 - position
        normal = self.next_normal
        return (
            _HEAD.pack(self.seed, left, 1, position)
            + state["key"].astype("<u8").tobytes()
            + _TAIL.pack(0.0, normal or 0.0, 0.0, normal is not None, 0.0, False)
        )

    def set_state_bytes(self, state: bytes) -> None:
        """Restore a state from `state_bytes` or PyTorch. Raise RuntimeError for an invalid state."""
        if len(state) != STATE_SIZE:
            raise RuntimeError(
                f"Expected a CPUGeneratorImplState of size {STATE_SIZE} but found the input RNG state size to be "
                f"{len(state)}"
            )
        seed, left, seeded, position = _HEAD.unpack_from(state)
        if not (seeded == 1 and 0 < left <= WORDS and position <= WORDS):
            raise RuntimeError(f"Invalid mt19937 state: seeded={seeded}, left={left}, next={position}")
        words = np.frombuffer(state, "<u8", WORDS, _HEAD.size).astype(np.uint32)
        _, normal, _, is_valid, _, _ = _TAIL.unpack_from(state, _HEAD.size + 8 * WORDS)
        # With one word left, the next call twists the state, regardless of the position of the next word.
        self._set_words(words, WORDS if left == 1 else position)
        self._is_fresh = left == 1 and position == 0
        self.seed = seed
        self.next_normal = normal if is_valid else None
