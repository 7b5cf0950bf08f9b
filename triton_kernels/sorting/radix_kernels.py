"""The programs of a radix sort of lines, least significant digit first: count digits, add counts up, move.

A line is cut into parts, one for each program, so that the table of counts stays small however long the line.
Within a tile elements are brought into the order of their digits in registers, by numbers that hold a digit
above and a lane below; elements of one digit are then stored beside each other. Nothing is atomic: where an
element goes depends on the keys alone.

Source: Duane Merrill, Andrew Grimshaw, "High Performance and Scalable Radix Sorting: A Case Study of
Implementing Dynamic Parallelism for GPU Computing", 2011 (the three steps of a pass).
"""

from ...runtime.cuda.triton.lazy_triton import tl, triton
from ..budget import Configuration, declare
from .ordered_keys import bits_of_key, ordered_key


@triton.jit
def part_of_line(parts, chunk, n, INDEX: tl.constexpr):
    """The program's line, its part of it, and where that begins and ends."""
    program = tl.program_id(0).to(INDEX)
    line = program // parts
    part = program % parts
    first = part * chunk
    return line, part, first, tl.minimum(first + chunk, n)


@triton.jit
def count_digits(
    x,
    counts,
    parts,
    chunk,
    n,
    shift,
    ENCODED: tl.constexpr,
    INFINITY: tl.constexpr,
    SIGNED: tl.constexpr,
    DESCENDING: tl.constexpr,
    INDEX: tl.constexpr,
    BUCKETS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """counts[line, part, digit]: how often the digit at bit `shift` occurs in a part of a line."""
    line, part, first, last = part_of_line(parts, chunk, n, INDEX)
    total = tl.zeros((BUCKETS,), tl.int32)
    for start in range(first, last, BLOCK):
        i = start + tl.arange(0, BLOCK).to(INDEX)
        mask = i < last
        key = tl.load(x + line * n + i, mask=mask, other=0)
        if not ENCODED:
            key = ordered_key(key, INFINITY, SIGNED, DESCENDING)
        digit = ((key >> shift) & (BUCKETS - 1)).to(tl.int32)
        total += tl.histogram(digit, BUCKETS, mask)
    to = counts + (line * parts + part) * BUCKETS + tl.arange(0, BUCKETS)
    tl.store(to, total.to(counts.dtype.element_ty))


@triton.jit
def add_counts_up(counts, totals, parts, BUCKETS: tl.constexpr, COLUMNS: tl.constexpr, BLOCK: tl.constexpr):
    """counts[line, part, digit] = the sum over the parts before; totals[line, digit] over all of them."""
    groups: tl.constexpr = BUCKETS // COLUMNS
    line = (tl.program_id(0) // groups).to(tl.int64)
    digit = tl.program_id(0) % groups * COLUMNS + tl.arange(0, COLUMNS)
    carry = tl.zeros((COLUMNS,), counts.dtype.element_ty)
    for start in range(0, parts, BLOCK):
        part = start + tl.arange(0, BLOCK)
        at = counts + (line * parts + part)[:, None] * BUCKETS + digit[None, :]
        mask = (part < parts)[:, None]
        value = tl.load(at, mask=mask, other=0)
        tl.store(at, tl.cumsum(value, 0) - value + carry[None, :], mask=mask)
        carry += tl.sum(value, 0)
    tl.store(totals + line * BUCKETS + digit, carry)


@triton.jit
def move_by_digit(
    x,
    order,
    source,
    labels,
    counts,
    totals,
    keys,
    places,
    parts,
    chunk,
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
):
    """Keys, and the places they came from, to where their digit's turn is in their line.

    Args:
        order: places of the keys; None where they count up.
        source: the line's elements, to look up those that a key stands for several of; only if DECODED.
        labels: what is written for each place; None for the place itself.
        counts: of the parts before this one; None where a line has one part.
        ENCODED, DECODED: whether `x` holds keys rather than elements, and whether elements are written.
    """
    line, part, first, last = part_of_line(parts, chunk, n, INDEX)
    bucket = tl.arange(0, BUCKETS)
    total = tl.load(totals + line * BUCKETS + bucket)
    base = tl.cumsum(total, 0) - total
    if counts is not None:
        base += tl.load(counts + (line * parts + part) * BUCKETS + bucket)
    lane = tl.arange(0, BLOCK)
    for start in range(first, last, BLOCK):
        mask = start + lane.to(INDEX) < last
        own = x + line * n + start
        key = tl.load(own + lane, mask=mask, other=0)
        if not ENCODED:
            key = ordered_key(key, INFINITY, SIGNED, DESCENDING)
        digit = tl.where(mask, ((key >> shift) & (BUCKETS - 1)).to(tl.int32), BUCKETS - 1)
        count = tl.histogram(digit, BUCKETS, mask).to(base.dtype)
        before = tl.cumsum(count, 0) - count
        word = tl.sort((digit.to(tl.uint32) << 16) | lane.to(tl.uint32))
        from_lane = (word & 0xFFFF).to(tl.int32)
        to = line * n + (tl.gather(base - before, (word >> 16).to(tl.int32), 0) + lane).to(INDEX)
        base += count
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
            tl.store(keys + to, element, mask=mask)
        else:
            tl.store(keys + to, key, mask=mask)
        if labels is not None:
            place = tl.load(labels + line * n + place, mask=mask, other=0)
        tl.store(places + to, place.to(places.dtype.element_ty), mask=mask)


WORDS = ("u32", "u64", "u16", "u8")

declare(
    count_digits,
    why="32 warps: counts are added up in shared memory, and other blocks load meanwhile",
    operand="x",
    tile=("BLOCK",),
    dtypes=WORDS,
    configurations=(Configuration((2048,), 8), Configuration((4096,), 8)),
    smaller=True,
    operations="2 n, and an addition in shared memory",
    traffic="n itemsize, and 1,024 for each part",
    loads=("x",),
)
declare(
    add_counts_up,
    why="16 warps: 64 programs for each line, which has a program for eight digits",
    warps=16,
    operand="counts",
    tile=("BLOCK", "COLUMNS"),
    dtypes=("i32", "i64"),
    configurations=(Configuration((128, 8), 4),),
    smaller=True,
    operations="2 for each part and digit",
    traffic="2 itemsize for each part and digit",
)
declare(
    move_by_digit,
    why="two blocks, of which one waits at a barrier while the other runs: a tile as long as shared memory and "
    "registers allow makes runs of eight equal digits, which fill a sector of 32 bytes; 64-bit keys have one block",
    operand="x",
    tile=("BLOCK",),
    dtypes={
        # With 64-bit places there are ten registers more than two blocks have.
        ("u32", "u16", "u8"): (Configuration((2048,), 8, blocks={80: 2, 90: 1, 100: 1}),),
        ("u64",): (Configuration((2048,), 8, blocks=1),),
    },
    smaller=True,
    operations="33 comparisons and exchanges of a tile of 2,048, and 10 more for offsets",
    traffic="n (2 itemsize + 8) for each of the itemsize passes, the first without places read; sectors that a "
    "run of equal digits fills in part cost as much as whole ones",
)
