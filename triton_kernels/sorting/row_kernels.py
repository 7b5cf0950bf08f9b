"""The program that sorts short rows, several in a tile, each in registers.

A row is sorted as numbers that hold a key above and its place below: no two are equal, so that a network of
comparisons is stable. Keys of 64 bits leave no room for places and are sorted twice, by the lower and then by the
upper half.
"""

from ...runtime.cuda.triton.lazy_triton import tl, triton
from ..budget import Configuration, declare
from .ordered_keys import ordered_key
from .select_kernels import rank_of_median

FIRST, LAST, MEDIAN, MEDIAN_OF_NUMBERS = (tl.constexpr(i) for i in range(4))
"""Output of each row."""


@triton.jit
def places_in_order(key, i, x, mask, INFINITY: tl.constexpr, SIGNED: tl.constexpr, DESCENDING: tl.constexpr):
    """Return the indices of a tile's keys in their rows, in key order; `i` counts along rows, which start at `x`.

    Indices beyond a row are greater than those in it, so they stay behind even if keys are equal.
    """
    width: tl.constexpr = key.dtype.primitive_bitwidth
    if width <= 16:
        return (tl.sort((key.to(tl.uint32) << 16) | i.to(tl.uint32)) & 0xFFFF).to(tl.int32)
    elif width == 32:
        return tl.sort((key.to(tl.uint64) << 32) | i.to(tl.uint64)).to(tl.int32)
    else:
        place = tl.sort((key << 32) | i.to(tl.uint64)).to(tl.int32)
        again = ordered_key(tl.load(x + place, mask=place < mask, other=0), INFINITY, SIGNED, DESCENDING)
        upper = tl.where(place < mask, again >> 32, 0xFFFFFFFF).to(tl.uint64)
        rank = i.to(tl.uint64) << 16
        return (tl.sort((upper << 32) | rank | place.to(tl.uint64)) & 0xFFFF).to(tl.int32)


@triton.jit
def sort_rows(
    x,
    order,
    values,
    places,
    rows,
    n,
    k,
    RANK: tl.constexpr,
    INFINITY: tl.constexpr,
    SIGNED: tl.constexpr,
    DESCENDING: tl.constexpr,
    INDEX: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Store the first `k` of each row of `n` in order, and their indices, or the entries of `order` at them.

    If RANK is set, store one element of each row: the last of the first `k`, or the median (see `rank_of_median`).
    """
    row = tl.program_id(0).to(INDEX) * ROWS + tl.arange(0, ROWS).to(INDEX)[:, None]
    i = tl.broadcast_to(tl.arange(0, BLOCK)[None, :], (ROWS, BLOCK))
    mask = (row < rows) & (i < n)
    key = ordered_key(tl.load(x + row * n + i, mask=mask, other=0), INFINITY, SIGNED, DESCENDING)
    key = tl.where(mask, key, ~tl.zeros_like(key))
    place = places_in_order(key, i, x + row * n, tl.where(row < rows, n, 0), INFINITY, SIGNED, DESCENDING)
    if RANK == FIRST:
        mask = (row < rows) & (i < k)
        out_offset = row * k + i
    else:
        rank = k - 1
        if RANK != LAST:
            missing = tl.sum((mask & (key == ~tl.zeros_like(key))).to(tl.int32), 1, keep_dims=True)
            rank = rank_of_median(n, missing * (INFINITY != 0), RANK == MEDIAN_OF_NUMBERS)
        mask = (row < rows) & (i == rank)
        out_offset = row + tl.zeros_like(i)
    tl.store(values + out_offset, tl.load(x + row * n + place, mask=mask), mask=mask)
    if order is not None:
        place = tl.load(order + row * n + place, mask=mask)
    tl.store(places + out_offset, place.to(places.dtype.element_ty), mask=mask)


declare(
    sort_rows,
    why="32 warps: comparisons follow from each other, through registers, shuffles and barriers by turns, and two "
    "blocks of 16 warps hide each other's; four elements for each lane, the fewest steps that cross warps",
    operand="x",
    tile=("ROWS", "BLOCK"),
    dtypes={
        ("u32", "u16", "u8"): (
            Configuration((1, 2048), 16),
            Configuration((1, 1024), 8),
            Configuration((8, 128), 8),
            Configuration((1, 4096), 32, blocks=1),
        ),
        # Keys of 64 bits are sorted twice, by halves, and both live at once.
        ("u64",): (
            Configuration((1, 2048), 16, blocks=1),
            Configuration((1, 1024), 8, blocks=2),
            Configuration((8, 128), 8, blocks=2),
            Configuration((1, 4096), 32, blocks=1),
        ),
    },
    smaller=True,
    operations="n log2(n) (log2(n) + 1) / 4 comparisons and exchanges, twice as many of keys of 64 bits",
    traffic="rows (n itemsize + k (itemsize + 8)); values are read again where they lie in the first cache",
)
