"""A Triton kernel with as many arguments as a usual one. Importing it imports Triton."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def nine_arguments(a, b, out, n, p, q, r, s, t, BLOCK: tl.constexpr):
    """Compute out = a * p + b * q + r + s + t."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    x = tl.load(a + i, mask=mask, other=0.0) * p + tl.load(b + i, mask=mask, other=0.0) * q
    tl.store(out + i, x + r + s + t, mask=mask)
