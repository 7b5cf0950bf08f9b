"""Layout of sequences: packed, in a batch dimension, or in pages of a page table.

A packed sequence i has the rows from ``starts[i]`` to ``starts[i + 1]``; these bounds are in device memory
and need no host synchronization. Kernels clamp the bounds to the existing rows and report invalid ones. Rows
after the last sequence form one more sequence, with the number `sequences`, without rows of the other
operand. Without `starts`, every sequence has all rows of its batch. Kernels do not read page numbers outside
the pool, and report them.
"""

from ...runtime.cuda.triton.lazy_triton import tl, triton


@triton.jit
def bounds_of(starts, sequence, sequences, total):
    """Return the first row of a sequence and its number of rows."""
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
    """Return the sequence of a tile of BLOCK rows and the tile's first row in it. Every sequence begins with its own
    tile.

    A tile beyond those of all sequences starts after the end of the last sequence.
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
def place_of_tile(
    starts, others, sequences, total, other_total, tile, BLOCK: tl.constexpr, CHUNK: tl.constexpr
):
    """(sequence, the tile's first row there, first and number of rows, first and number of the other operand's)."""
    if starts is None:
        tiles = tl.cdiv(total, BLOCK)
        sequence, start = tile // tiles, tile % tiles * BLOCK
        first, length = tl.full((), 0, tl.int32), total
        other_first, other_length = tl.full((), 0, tl.int32), other_total
    else:
        sequence, start = tile_of_sequences(starts, sequences, total, tile, BLOCK, CHUNK)
        first, length = bounds_of(starts, sequence, sequences, total)
        if others is None:
            other_first = tl.full((), 0, tl.int32)
            other_length = tl.where(sequence < sequences, other_total, 0)
        else:
            other_first, other_length = other_bounds_of(others, sequence, sequences, other_total)
    return sequence, start, first, length, other_first, other_length


@triton.jit
def offset_of(starts, sequence, first, batch_stride, row_stride):
    """Return the offset in elements of a sequence's rows from the rows of the first sequence."""
    if starts is None:
        return sequence.to(tl.int64) * batch_stride
    else:
        return first.to(tl.int64) * row_stride


@triton.jit
def line_of(starts, sequence, first, head, heads, length):
    """Return the number of a sequence's first line among (sequences, heads, length), or packed (heads, length)."""
    if starts is None:
        return (sequence.to(tl.int64) * heads + head) * length
    else:
        return head * length + first


@triton.jit
def place_in_pages(table, start, key, length, page_size, n_pages, WHOLE: tl.constexpr):
    """Return the pages of the keys (1-d) from `start` on, their rows in the pages, and the number of keys that exist.

    A WHOLE tile lies in one page, so its page is a scalar; an invalid page number is clamped to the pool. In other
    tiles, a key without a page has no rows.
    """
    if WHOLE:
        page = tl.minimum(tl.maximum(tl.load(table + start // page_size), 0), n_pages - 1)
        first = start % page_size
        return page.to(tl.int64), first + (key - start), first + (length - start)
    else:
        page = tl.load(table + key // page_size, mask=key < length, other=-1)
        exists = (page >= 0) & (page < n_pages)
        return page.to(tl.int64), tl.where(exists, key % page_size, page_size), page_size


@triton.jit
def has_wrong_bounds(starts, sequences, total, CHUNK: tl.constexpr):
    """Return True if bounds do not start with 0, descend, or exceed `total`."""
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
def has_wrong_counts(counts, starts, sequences, total, CHUNK: tl.constexpr):
    """Return True if a count is negative or exceeds its sequence's length, which is `total` without `starts`."""
    found = 0
    for first in range(0, sequences, CHUNK):
        i = first + tl.arange(0, CHUNK)
        exists = i < sequences
        length = total
        if starts is not None:
            low = tl.load(starts + i, mask=exists, other=0)
            length = tl.load(starts + i + 1, mask=exists, other=0) - low
        count = tl.load(counts + i, mask=exists, other=0)
        wrong = exists & ((count < 0) | (count > length))
        found = tl.maximum(found, tl.max(wrong.to(tl.int32), 0))
    return found > 0


@triton.jit
def has_wrong_pages(table, first, end, n_pages, CHUNK: tl.constexpr):
    """Return True if an entry from `first` to `end` is not a page of the pool."""
    found = 0
    for start in range(first, end, CHUNK):
        i = start + tl.arange(0, CHUNK)
        page = tl.load(table + i, mask=i < end, other=0)
        found = tl.maximum(found, tl.max(((page < 0) | (page >= n_pages)).to(tl.int32), 0))
    return found > 0
