"""Where sequences lie that are packed one after another: what programs of variable lengths load to find their own.

Sequence i has the rows from ``starts[i]`` to ``starts[i + 1]``, bounds in device memory that the host never waits for.
They are held to the rows that exist, so that wrong ones reach nothing, and are reported. Rows behind the last sequence
are one more, that of number `sequences`, without rows of the other operand.
"""

from ...runtime.cuda.triton.lazy_triton import tl, triton


@triton.jit
def bounds_of(starts, sequence, sequences, total):
    """The first row of a sequence and how many it has."""
    low = tl.minimum(tl.maximum(tl.load(starts + sequence), 0), total)
    high = tl.load(starts + sequence + 1, mask=sequence < sequences, other=total)
    return low, tl.maximum(tl.minimum(high, total) - low, 0)


@triton.jit
def other_bounds_of(starts, sequence, sequences, total):
    """`bounds_of` in the other operand, in which the rows behind the last sequence have no counterpart."""
    low, length = bounds_of(starts, sequence, sequences, total)
    return low, tl.where(sequence < sequences, length, 0)


@triton.jit
def tile_of_sequences(starts, sequences, total, tile, BLOCK: tl.constexpr, CHUNK: tl.constexpr):
    """The sequence of a tile of BLOCK rows, and its first row there; every sequence begins with a tile of its own.

    A tile that no sequence has left is one behind the end of the last.
    """
    before, sequence, start = 0, sequences, total
    for first in range(0, sequences + 1, CHUNK):
        i = first + tl.arange(0, CHUNK)
        low = tl.load(starts + i, mask=i <= sequences, other=total)
        low = tl.minimum(tl.maximum(low, 0), total)
        high = tl.load(starts + i + 1, mask=i < sequences, other=total)
        tiles = tl.cdiv(tl.maximum(tl.minimum(high, total) - low, 0), BLOCK)
        ends = before + tl.cumsum(tiles, 0)
        mine = (tile >= ends - tiles) & (tile < ends)
        found = tl.max(tl.where(mine, i, -1), 0)
        own = tl.max(tl.where(mine, (tile - (ends - tiles)) * BLOCK, 0), 0)
        sequence = tl.where(found >= 0, found, sequence)
        start = tl.where(found >= 0, own, start)
        before += tl.sum(tiles, 0)
    return sequence, start


@triton.jit
def has_wrong_bounds(starts, sequences, total, CHUNK: tl.constexpr):
    """Whether bounds begin elsewhere than with 0, descend, or go beyond `total`."""
    found = 0
    for first in range(0, sequences, CHUNK):
        i = first + tl.arange(0, CHUNK)
        exists = i < sequences
        low = tl.load(starts + i, mask=exists, other=0)
        high = tl.load(starts + i + 1, mask=exists, other=0)
        wrong = (low > high) | (high > total) | ((i == 0) & (low != 0))
        found = tl.maximum(found, tl.max((exists & wrong).to(tl.int32), 0))
    return found > 0


@triton.jit
def has_wrong_counts(counts, starts, sequences, CHUNK: tl.constexpr):
    """Whether a count is negative, or above its sequence's length."""
    found = 0
    for first in range(0, sequences, CHUNK):
        i = first + tl.arange(0, CHUNK)
        exists = i < sequences
        low = tl.load(starts + i, mask=exists, other=0)
        high = tl.load(starts + i + 1, mask=exists, other=0)
        count = tl.load(counts + i, mask=exists, other=0)
        wrong = exists & ((count < 0) | (count > high - low))
        found = tl.maximum(found, tl.max(wrong.to(tl.int32), 0))
    return found > 0
