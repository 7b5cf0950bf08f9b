"""Kernels of a least-significant-digit radix sort of lines: count every digit, then one sweep for each
(Onesweep).

A line is split into tiles. Within a tile, elements are sorted by digit in registers, as integers with the
digit above the lane. Elements of one digit are then stored next to each other.

A program of a sweep has one tile. It publishes the tile's digit counts, and looks back over the previous
tiles, adding their counts until it finds a tile with a known prefix (decoupled look-back). A word holds a
count and its state, so a single read is consistent, and the programs share nothing else. Programs take tiles
by tickets. The tiles before a program's own belong to programs that run or have ended, and each publishes its
counts before it waits, so no wait is circular. Counts are integers, so sums do not depend on timing, and an
element's position depends on the keys alone.

Source: Andy Adinets, Duane Merrill, "Onesweep: A Faster Least Significant Digit Radix Sort for GPUs", 2022.
"""

from ...runtime.cuda.triton.lazy_triton import tl, triton
from ..budget import Configuration, declare
from ..programmatic import let_later_begin, wait_for_earlier
from .bitonic import sort_tile
from .ordered_keys import bits_of_key, ordered_key

OF_TILE, OF_ALL_BEFORE = tl.constexpr(1), tl.constexpr(2)
"""Scope of a word's count: one tile, or the tile and all before it in its line. 0 is an unpublished word."""


@triton.jit
def part_of_line(parts, chunk, n, INDEX: tl.constexpr):
    """Return the program's line, its part of it, and the part's bounds."""
    program = tl.program_id(0).to(INDEX)
    line = program // parts
    part = program % parts
    first = part * chunk
    return line, part, first, tl.minimum(first + chunk, n)


@triton.jit
def count_every_digit(
    x,
    totals,
    lines,
    parts,
    chunk,
    n,
    PASSES: tl.constexpr,
    INFINITY: tl.constexpr,
    SIGNED: tl.constexpr,
    DESCENDING: tl.constexpr,
    INDEX: tl.constexpr,
    BITS: tl.constexpr,
    BLOCK: tl.constexpr,
    LEADS: tl.constexpr,
):
    """totals[pass, line, digit] += how often the digit of a pass occurs in a part of a line."""
    let_later_begin(LEADS)
    buckets: tl.constexpr = 1 << BITS
    line, _, first, last = part_of_line(parts, chunk, n, INDEX)
    for turn in tl.static_range(PASSES):
        total = tl.zeros((buckets,), tl.int32)
        # A part is read again for each digit, from the caches.
        for start in range(first, last, BLOCK):
            i = start + tl.arange(0, BLOCK).to(INDEX)
            mask = i < last
            key = ordered_key(tl.load(x + line * n + i, mask=mask, other=0), INFINITY, SIGNED, DESCENDING)
            digit = ((key >> (turn * BITS)) & (buckets - 1)).to(tl.int32)
            total += tl.histogram(digit, buckets, mask)
        out_ptrs = totals + (turn * lines.to(tl.int64) + line) * buckets + tl.arange(0, buckets)
        tl.atomic_add(out_ptrs, total.to(totals.dtype.element_ty), sem="relaxed")


@triton.jit
def counted_before(words, is_first, BUCKETS: tl.constexpr):
    """Return how often each digit occurs in earlier tiles; `words` are those of the program's own tile."""
    before = tl.zeros((BUCKETS,), words.dtype.element_ty)
    back = tl.full((BUCKETS,), BUCKETS, tl.int64)
    waiting = tl.zeros((BUCKETS,), tl.int32) == tl.where(is_first, 1, 0)
    while tl.max(waiting.to(tl.int32), 0) > 0:
        word = tl.atomic_add(words - back, 0, mask=waiting, sem="acquire")
        kind = word & 3
        seen = waiting & (kind != 0)
        before += tl.where(seen, word >> 2, 0)
        back += tl.where(seen, BUCKETS, 0)
        waiting = waiting & (kind != OF_ALL_BEFORE)
    return before


@triton.jit
def sweep_by_digit(
    x,
    order,
    source,
    labels,
    totals,
    states,
    ticket,
    keys,
    places,
    tiles,
    n,
    shift,
    ENCODED: tl.constexpr,
    DECODED: tl.constexpr,
    INFINITY: tl.constexpr,
    SIGNED: tl.constexpr,
    DESCENDING: tl.constexpr,
    INDEX: tl.constexpr,
    BUCKETS: tl.constexpr,
    BLOCK: tl.constexpr,
    OVERLAPS: tl.constexpr,
):
    """Keys, and the places they came from, to where their digit's turn is in their line.

    Args:
        order: places of the keys; None where they count up.
        source: the line's elements, to look up those that a key stands for several of; only if DECODED.
        labels: what is written for each place; None for the place itself.
        totals: of each line's digits.
        states: the words of each tile, 0 before the launch, as `ticket` is.
        ENCODED, DECODED: whether `x` holds keys rather than elements, and whether elements are written.
    """
    wait_for_earlier(OVERLAPS)
    program = tl.atomic_add(ticket, 1, sem="relaxed").to(tl.int64)
    line = (program // tiles).to(INDEX)
    tile = (program % tiles).to(INDEX)
    start = tile * BLOCK
    bucket = tl.arange(0, BUCKETS)
    lane = tl.arange(0, BLOCK)
    mask = start + lane < n
    own = x + line * n + start
    key = tl.load(own + lane, mask=mask, other=0)
    if not ENCODED:
        key = ordered_key(key, INFINITY, SIGNED, DESCENDING)
    digit = tl.where(mask, ((key >> shift) & (BUCKETS - 1)).to(tl.int32), BUCKETS - 1)
    count = tl.histogram(digit, BUCKETS, mask).to(states.dtype.element_ty)
    words = states + program * BUCKETS + bucket
    is_first = tile == 0
    tl.atomic_xchg(words, count * 4 + tl.where(is_first, OF_ALL_BEFORE, OF_TILE), sem="release")
    # While others publish, the tile is brought into the order of its digits.
    word = sort_tile((digit.to(tl.uint32) << 16) | lane.to(tl.uint32), BLOCK)
    from_lane = (word & 0xFFFF).to(tl.int32)
    before = counted_before(words, is_first, BUCKETS)
    if not is_first:
        tl.atomic_xchg(words, (before + count) * 4 + OF_ALL_BEFORE, sem="release")
    total = tl.load(totals + line * BUCKETS + bucket)
    base = tl.cumsum(total, 0) - total + before - (tl.cumsum(count, 0) - count)
    out_offset = line * n + (tl.gather(base, (word >> 16).to(tl.int32), 0) + lane).to(INDEX)
    # Read again from where the tile was read just now: it still lies in the first cache.
    key = tl.load(own + from_lane, mask=mask, other=0)
    if not ENCODED:
        key = ordered_key(key, INFINITY, SIGNED, DESCENDING)
    if order is None:
        place = start + from_lane.to(INDEX)
    else:
        place = tl.load(order + line * n + start + from_lane, mask=mask, other=0).to(INDEX)
    if DECODED:
        element, several = bits_of_key(key, INFINITY, SIGNED, DESCENDING)
        if INFINITY:
            looked_up = tl.load(source + line * n + place, mask=mask & several, other=0)
            element = tl.where(several, looked_up, element)
        tl.store(keys + out_offset, element, mask=mask)
    else:
        tl.store(keys + out_offset, key, mask=mask)
    if labels is not None:
        place = tl.load(labels + line * n + place, mask=mask, other=0)
    tl.store(places + out_offset, place.to(places.dtype.element_ty), mask=mask)


WORDS = ("u32", "u64", "u16", "u8")

declare(
    count_every_digit,
    why="32 warps: counts are added up in shared memory, and other blocks load meanwhile",
    operand="x",
    tile=("BLOCK",),
    dtypes=WORDS,
    configurations=(Configuration((2048,), 8), Configuration((4096,), 8)),
    smaller=True,
    operations="2 n, and an addition in shared memory, for each digit",
    traffic="n itemsize, and 2,048 for each part and digit",
    loads=("x",),
)
declare(
    sweep_by_digit,
    why="two blocks, of which one waits at a barrier, or for the tiles before, while the other runs: a tile as long as "
    "shared memory and registers allow makes runs of eight equal digits, which fill a sector of 32 bytes; 64-bit keys "
    "have one block",
    operand="x",
    tile=("BLOCK",),
    dtypes={
        ("u32", "u16", "u8"): (Configuration((2048,), 8, blocks={80: 2, 90: 1, 100: 1}),),
        ("u64",): (Configuration((2048,), 8, blocks=1),),
    },
    smaller=True,
    operations="33 comparisons and exchanges of a tile of 2,048, and 10 more for offsets",
    traffic="n (2 itemsize + 8) for each of the itemsize passes, the first without places read, and 3 words of each "
    "tile and digit; sectors that a run of equal digits fills in part cost as much as whole ones",
)
