"""The program that makes keys of indices, counts their digits for the sort that follows, and clears what it fills."""

from ...runtime.cuda.triton.lazy_triton import tl, triton
from ..budget import Configuration, declare
from ..programmatic import let_later_begin
from .dense_tiles import dense_tile
from .picking_kernels import GATHERING, checked


@triton.jit
def count_keys(
    index,
    keys,
    flag,
    totals,
    out,
    n,
    step,
    size,
    cleared,
    WRAPS: tl.constexpr,
    PASSES: tl.constexpr,
    BITS: tl.constexpr,
    INDEX: tl.constexpr,
    BLOCK: tl.constexpr,
    CLEARED: tl.constexpr,
    LEADS: tl.constexpr,
):
    """keys[j] = index[j] * step, totals[pass, digit] += how often it occurs, and `cleared` elements of `out` zero.

    The first programs have a tile of indices each, those behind a tile of `out`, where it is given. Additions are of
    integers, so that their order does not matter.
    """
    let_later_begin(LEADS)
    buckets: tl.constexpr = 1 << BITS
    program = tl.program_id(0)
    tiles = tl.cdiv(n, BLOCK)
    if program < tiles:
        first = program.to(INDEX) * BLOCK
        j = first + tl.arange(0, BLOCK).to(INDEX)
        mask = j < n
        i = tl.maximum(checked(dense_tile(index, first, n, BLOCK), size, flag, mask, WRAPS), 0)
        key = (i.to(INDEX) * step).to(keys.dtype.element_ty)
        if first + BLOCK <= n:
            tl.store(keys + j, key)
        else:
            tl.store(keys + j, key, mask=mask)
        for turn in tl.static_range(PASSES):
            digit = ((key >> (turn * BITS)) & (buckets - 1)).to(tl.int32)
            counted = tl.histogram(digit, buckets, mask).to(totals.dtype.element_ty)
            tl.atomic_add(totals + turn * buckets + tl.arange(0, buckets), counted, sem="relaxed")
    elif out is not None:
        start = (program - tiles).to(tl.int64) * CLEARED
        at = start + tl.arange(0, CLEARED)
        if start + CLEARED <= cleared:
            tl.store(out + at, tl.zeros((CLEARED,), out.dtype.element_ty))
        else:
            tl.store(out + at, tl.zeros((CLEARED,), out.dtype.element_ty), mask=at < cleared)


declare(
    count_keys,
    why=GATHERING,
    operand="index",
    dtypes=("i64", "i32"),
    configurations=(Configuration((1024,)),),
    operations="an addition in shared memory for each digit",
    traffic="n (itemsize of index + itemsize of keys) + what is cleared",
    loads=("index",),
    stores=("keys", "out"),
)
