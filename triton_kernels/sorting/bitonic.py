"""A bitonic sorting network for a tile in registers, as a loop over its stages.

`tl.sort` unrolls log2(n) (log2(n) + 1) / 2 steps, 66 of 2,048 elements, and the compiler's passes over so many
operations take most of a kernel's compilation. Here a stage's steps are conditional on the stage, so the code has
log2(n) of them. The executed exchanges are the same.

A run that has to descend is complemented before its stage and after it, so that all exchanges ascend.

Source: K. E. Batcher, "Sorting networks and their applications", 1968.
"""

from ...runtime.cuda.triton.lazy_triton import tl, triton


@triton.jit
def exchange(x, BIT: tl.constexpr, SIZE: tl.constexpr):
    """Put each pair of elements whose indices differ in a bit into ascending order."""
    pairs = tl.reshape(x, [SIZE >> (BIT + 1), 2, 1 << BIT])
    partner = pairs ^ tl.xor_sum(pairs, 1, keep_dims=True)
    is_upper = tl.arange(0, 2)[None, :, None] != 0
    ordered = tl.where(is_upper, tl.maximum(pairs, partner), tl.minimum(pairs, partner))
    return tl.reshape(ordered, [SIZE])


@triton.jit
def sort_runs(x, BITS: tl.constexpr, SIZE: tl.constexpr):
    """Return `SIZE` unsigned integers with each run of ``1 << BITS`` of them sorted."""
    lane = tl.arange(0, SIZE) & ((1 << BITS) - 1)
    for stage in range(1, BITS + 1):
        descends = ((lane >> stage) & 1) != 0
        x = tl.where(descends, ~x, x)
        for step in tl.static_range(BITS):
            if BITS - 1 - step < stage:
                x = exchange(x, BITS - 1 - step, SIZE)
        x = tl.where(descends, ~x, x)
    return x


@triton.jit
def sort_tile(x, SIZE: tl.constexpr):
    """Return `SIZE` unsigned integers in ascending order; a power of two up to 32,768."""
    for bits in tl.static_range(16):
        if 1 << bits == SIZE:
            x = sort_runs(x, bits, SIZE)
    return x
