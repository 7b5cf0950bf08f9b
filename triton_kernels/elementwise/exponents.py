"""float8_e8m0fnu, of which Triton has no type: powers of two as bytes, to and from floats by their bits.

The rules are those of `runtime/exponent_format.py`.
"""

from __future__ import annotations

from ...runtime.cuda.triton.lazy_triton import tl, triton


@triton.jit
def from_exponents(a):
    """Convert exponent bytes (E8M0) to float32: byte 0 is a subnormal number, and 255 is NaN."""
    exponent = a.to(tl.uint32)
    bits = tl.where(exponent == 0, 0x00400000, exponent << 23)
    return tl.where(exponent == 255, 0x7FC00000, bits).to(tl.float32, bitcast=True)


@triton.jit
def to_exponents(a):
    """Return the power of two nearest to a magnitude as a byte (E8M0); halves round up."""
    bits = a.to(tl.float32).to(tl.uint32, bitcast=True) & 0x7FFFFFFF
    exponent = bits >> 23
    above = (bits & 0x7FFFFF) + (exponent > 0).to(tl.uint32) > 0x400000
    return tl.minimum(exponent + above.to(tl.uint32), 255).to(tl.uint8)


@triton.jit
def read_exponents(a):
    if a.dtype == tl.uint8:
        return from_exponents(a)
    else:
        return a


@triton.jit
def equal_exponents(a, b):
    """Bytes or numbers; NaN differs from itself."""
    return read_exponents(a) == read_exponents(b)


@triton.jit
def unequal_exponents(a, b):
    return read_exponents(a) != read_exponents(b)
