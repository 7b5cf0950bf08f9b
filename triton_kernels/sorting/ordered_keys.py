"""Numbers as unsigned keys whose order is that of sorting: NaN above all others, -0.0 equal to 0.0.

Kernels load elements as the unsigned integers that their bits are. A format says what the bits mean.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...runtime.cuda.triton.lazy_triton import tl, triton
from ...runtime.scalar_type import bool_
from ...runtime.scalar_type import dtype as ScalarType

WORDS = {1: "u8", 2: "u16", 4: "u32", 8: "u64"}
"""The type as which elements of so many bytes are loaded."""


class KeyFormat(NamedTuple):
    """Interpretation of an element's bits as a sort key.

    Args:
        word: Triton's name of the unsigned integer that has them.
        infinity: the bits of infinity, above which magnitudes are NaN; 0 for integers.
        signed: If True, the first bit is a sign.
    """

    word: str
    infinity: int
    signed: bool

    @property
    def bits(self) -> int:
        return int(self.word[1:])

    def constants(self) -> dict[str, object]:
        """Return the constexprs of kernels that take keys."""
        return {"INFINITY": self.infinity, "SIGNED": self.signed}


def key_format(dtype: ScalarType) -> KeyFormat:
    """Return the format of an ordered dtype: bool, integers, floats of 16 bits and more."""
    word = WORDS[dtype.itemsize]
    if dtype.is_floating_point:
        infinity = int(np.array(np.inf, dtype.np).view(f"u{dtype.itemsize}"))
        return KeyFormat(word, infinity, True)
    return KeyFormat(word, 0, dtype is not bool_ and dtype.is_signed)


@triton.jit
def sign_bit(x):
    """Return the sign bit of `x`'s dtype as a constant."""
    return tl.full((), 1, x.dtype) << (x.dtype.primitive_bitwidth - 1)


@triton.jit
def ordered_key(bits, INFINITY: tl.constexpr, SIGNED: tl.constexpr, DESCENDING: tl.constexpr):
    """Return the sort key of an element; a descending order complements it, so that equal elements keep their order."""
    sign = sign_bit(bits)
    if INFINITY:
        magnitude = bits & ~sign
        bits = tl.where(magnitude > INFINITY, ~sign, tl.where(magnitude == 0, 0, bits)).to(bits.dtype)
        key = tl.where((bits & sign) != 0, ~bits, bits | sign)
    elif SIGNED:
        key = bits ^ sign
    else:
        key = bits
    if DESCENDING:
        key = ~key
    return key


@triton.jit
def bits_of_key(key, INFINITY: tl.constexpr, SIGNED: tl.constexpr, DESCENDING: tl.constexpr):
    """Return the element of a key, and whether the key is ambiguous: a zero or NaN, which must be looked up."""
    sign = sign_bit(key)
    if DESCENDING:
        key = ~key
    if INFINITY:
        bits = tl.where((key & sign) != 0, key & ~sign, ~key)
        return bits, (bits == 0) | (bits > INFINITY) & (bits < sign)
    elif SIGNED:
        bits = key ^ sign
        return bits, bits != bits
    else:
        return key, key != key
