"""Kernels of radix select: find the element of a rank in each long line, and collect those before it.

The key of a rank is found digit by digit, the highest first. Each pass counts the next digit of all keys that
share the digits found so far, and continues in the bucket that contains the rank. A pass over the line reads
it and writes nothing.

Source: Tolu Alabi, Jeffrey D. Blanchard, Bradley Gordon, Russel Steinbach, "Fast K-Selection Algorithms for
Graphics Processing Units", 2012 (radix selection).
"""

from ...runtime.cuda.triton.lazy_triton import tl, triton
from ..budget import Configuration, declare
from .ordered_keys import ordered_key
from .radix_kernels import WORDS, part_of_line


@triton.jit
def count_candidates(
    x,
    found,
    counts,
    parts,
    chunk,
    n,
    shift,
    FIRST: tl.constexpr,
    INFINITY: tl.constexpr,
    SIGNED: tl.constexpr,
    DESCENDING: tl.constexpr,
    INDEX: tl.constexpr,
    BUCKETS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """counts[line, part, digit] of the keys whose digits above `shift` are those of ``found[line]``."""
    line, part, first, last = part_of_line(parts, chunk, n, INDEX)
    total = tl.zeros((BUCKETS,), tl.int32)
    if not FIRST:
        selected_key = tl.load(found + line) // BUCKETS >> shift
    for start in range(first, last, BLOCK):
        i = start + tl.arange(0, BLOCK).to(INDEX)
        mask = i < last
        key = ordered_key(tl.load(x + line * n + i, mask=mask, other=0), INFINITY, SIGNED, DESCENDING)
        if not FIRST:
            mask = mask & (key // BUCKETS >> shift == selected_key)
        digit = ((key >> shift) & (BUCKETS - 1)).to(tl.int32)
        total += tl.histogram(digit, BUCKETS, mask)
    out_ptrs = counts + (line * parts + part) * BUCKETS + tl.arange(0, BUCKETS)
    tl.store(out_ptrs, total.to(counts.dtype.element_ty))


@triton.jit
def rank_of_median(n, missing, IGNORES: tl.constexpr):
    """Return the rank of the lower median of `n` numbers of which `missing` are NaN; unless it IGNORES them, that of
    the first NaN.
    """
    if IGNORES:
        return tl.maximum(n - missing - 1, 0) // 2
    else:
        return tl.where(missing > 0, n - missing, (n - 1) // 2)


@triton.jit
def narrow_down(
    counts,
    missing,
    found,
    ranks,
    parts,
    n,
    rank,
    shift,
    FIRST: tl.constexpr,
    IGNORES: tl.constexpr,
    BUCKETS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Add to ``found[line]`` the digit that ``ranks[line]`` falls into, and take what lies before it off the rank.

    At the FIRST digit the rank is `rank`, or that of the median if there are counts of `missing` [line, 2, part].
    """
    line = tl.program_id(0).to(tl.int64)
    bucket = tl.arange(0, BUCKETS)
    total = tl.zeros((BUCKETS,), counts.dtype.element_ty)
    gone = tl.zeros((BLOCK,), counts.dtype.element_ty)
    for start in range(0, parts, BLOCK):
        part = start + tl.arange(0, BLOCK)
        at = counts + (line * parts + part)[:, None] * BUCKETS + bucket[None, :]
        total += tl.sum(tl.load(at, mask=(part < parts)[:, None], other=0), 0)
        if missing is not None:
            gone += tl.load(missing + (2 * line + 1) * parts + part, mask=part < parts, other=0)
    if FIRST:
        if missing is not None:
            rank = rank_of_median(n, tl.sum(gone, 0), IGNORES)
        rank = rank.to(total.dtype)
    else:
        rank = tl.load(ranks + line)
    up_to = tl.cumsum(total, 0)
    digit = tl.sum((up_to <= rank).to(tl.int32), 0)
    before = tl.sum(tl.where(bucket < digit, total, 0), 0)
    key = digit.to(found.dtype.element_ty) << shift
    if not FIRST:
        key = key | tl.load(found + line)
    tl.store(found + line, key)
    tl.store(ranks + line, rank - before)


@triton.jit
def count_selected(
    x,
    found,
    counts,
    parts,
    chunk,
    n,
    INFINITY: tl.constexpr,
    SIGNED: tl.constexpr,
    DESCENDING: tl.constexpr,
    INDEX: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """counts[line, 0, part] of keys before ``found[line]``, and counts[line, 1, part] of equal ones.

    Without `found` those are counted that are NaN.
    """
    line, part, first, last = part_of_line(parts, chunk, n, INDEX)
    before = tl.zeros((BLOCK,), counts.dtype.element_ty)
    equal = tl.zeros((BLOCK,), counts.dtype.element_ty)
    for start in range(first, last, BLOCK):
        i = start + tl.arange(0, BLOCK).to(INDEX)
        mask = i < last
        key = ordered_key(tl.load(x + line * n + i, mask=mask, other=0), INFINITY, SIGNED, DESCENDING)
        if found is None:
            selected_key = ~tl.zeros_like(key)
        else:
            selected_key = tl.load(found + line)
        before += (mask & (key < selected_key)).to(before.dtype)
        equal += (mask & (key == selected_key)).to(equal.dtype)
    tl.store(counts + 2 * line * parts + part, tl.sum(before, 0))
    tl.store(counts + (2 * line + 1) * parts + part, tl.sum(equal, 0))


@triton.jit
def write_selected(
    x,
    found,
    ranks,
    counts,
    values,
    places,
    parts,
    chunk,
    n,
    k,
    ONE: tl.constexpr,
    INFINITY: tl.constexpr,
    SIGNED: tl.constexpr,
    DESCENDING: tl.constexpr,
    INDEX: tl.constexpr,
    PARTS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Store the elements before ``found[line]`` in index order, then as many equal elements as the rank says.

    If ONE, store only the last of these.
    """
    line, part, first, last = part_of_line(parts, chunk, n, INDEX)
    each = tl.arange(0, PARTS)
    selected_key = tl.load(found + line)
    rank = tl.load(ranks + line)
    before = tl.load(counts + 2 * line * parts + each, mask=each < parts, other=0)
    equal = tl.load(counts + (2 * line + 1) * parts + each, mask=each < parts, other=0)
    all_before = tl.sum(before, 0)
    before_here = tl.sum(tl.where(each < part, before, 0), 0)
    equal_here = tl.sum(tl.where(each < part, equal, 0), 0)
    for start in range(first, last, BLOCK):
        i = start + tl.arange(0, BLOCK).to(INDEX)
        mask = i < last
        element = tl.load(x + line * n + i, mask=mask, other=0)
        key = ordered_key(element, INFINITY, SIGNED, DESCENDING)
        # Both counts in one number, of 16 bits each: a tile has fewer elements than that.
        ones = (mask & (key < selected_key)).to(tl.int32) + (
            (mask & (key == selected_key)).to(tl.int32) << 16
        )
        turns = tl.cumsum(ones, 0) - ones
        turn = (turns >> 16) + equal_here
        if ONE:
            hit = (ones >> 16 != 0) & (turn == rank)
            out_offset = line + tl.zeros_like(i)
        else:
            own = (turns & 0xFFFF) + before_here
            hit = (ones == 1) | (ones >> 16 != 0) & (turn <= rank)
            out_offset = line * k + tl.where(ones == 1, own, all_before + turn).to(INDEX)
        tl.store(values + out_offset, element, mask=hit)
        tl.store(places + out_offset, i.to(places.dtype.element_ty), mask=hit)
        total = tl.sum(ones, 0)
        before_here += total & 0xFFFF
        equal_here += total >> 16


READING = "32 warps: tiles are only read, and other blocks load while one adds up"

declare(
    count_candidates,
    why=READING,
    operand="x",
    dtypes=WORDS,
    configurations=(Configuration((2048,), 8), Configuration((4096,), 8)),
    smaller=True,
    operations="6 n, and an addition in shared memory for each candidate",
    traffic="n itemsize, and 1,024 for each part",
    loads=("x",),
)
declare(
    narrow_down,
    why="one program for each line, which has few parts: as fast as its 1,024 bytes of each part arrive",
    operand="found",
    dtypes=WORDS,
    configurations=(Configuration((16,), 8, blocks=2),),
    smaller=True,
    operations="256 for each part",
    traffic="1,024 for each part",
)
declare(
    count_selected,
    why=READING,
    operand="x",
    dtypes=WORDS,
    configurations=(Configuration((2048,), 8),),
    smaller=True,
    operations="8 n",
    traffic="n itemsize",
    loads=("x",),
)
declare(
    write_selected,
    why="two blocks, since elements, keys and turns of a tile are live at once: prefix sums end in barriers, "
    "at which one block waits while another loads",
    operand="x",
    dtypes=WORDS,
    configurations=(Configuration((2048,), 8, blocks=2),),
    smaller=True,
    operations="8 n, and two prefix sums",
    traffic="n itemsize, and what is selected",
    loads=("x",),
)
