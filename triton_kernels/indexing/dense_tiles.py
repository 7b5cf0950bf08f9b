"""Tiles of contiguous elements, read in vectors."""

from ...runtime.cuda.triton.lazy_triton import tl, triton


@triton.jit
def dense_tile(x, start, n, BLOCK: tl.constexpr):
    """Load a tile of contiguous elements, 128 bits at a time if it is full; zeros after the last element."""
    i = start + tl.arange(0, BLOCK)
    if start + BLOCK <= n:
        value = tl.load(x + i)
    else:
        value = tl.load(x + i, mask=i < n, other=0)
    return value
