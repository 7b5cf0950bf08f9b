"""The program of bags of rows."""

from ...runtime.cuda.triton.lazy_triton import tl, triton
from ..budget import Configuration, declare
from ..conversion import convert
from ..folded_grid import place_in_grid


@triton.jit
def pool_bags(
    weight,
    indices,
    offsets,
    scale,
    out,
    origin,
    sizes,
    attained,
    flag,
    bags,
    bounds,
    n,
    width,
    rows,
    padding,
    row_step,
    index_step,
    offset_step,
    scale_step,
    MODE: tl.constexpr,
    TYPE: tl.constexpr,
    INDEX: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """out[bag] = the sum, the mean or the maximum of weight[indices[bag]], the rows at `padding` left out.

    A program has a bag and a block of columns. Sums are added in ROWS parts, of which each takes every ROWS-th row in
    order, and then the parts: the same for every launch. The maximum takes one row after another, so that a NaN
    counts only where it comes first. Indices after the last of `bounds` offsets are in no bag. The first flag says
    that an index is wrong, the second that an offset is.
    """
    bag, across = place_in_grid(bags)
    bag = bag.to(INDEX)
    c = across * BLOCK + tl.arange(0, BLOCK)
    inside = c < width
    start = tl.load(offsets + bag * offset_step).to(tl.int64)
    end = tl.load(offsets + (bag + 1) * offset_step, mask=bag + 1 < bounds, other=n).to(tl.int64)
    wrong = (start < 0) | (end > n) | (end < start) | ((bag == 0) & (start != 0))
    tl.store(flag + 1, 1, mask=wrong)
    # Bags that are wrong are empty: nothing outside the indices is read.
    first = tl.where(wrong, 0, start).to(INDEX)
    last = tl.where(wrong, 0, end).to(INDEX)
    part = tl.arange(0, ROWS)
    total = tl.zeros((ROWS, BLOCK), TYPE)
    best = tl.zeros((ROWS, BLOCK), tl.int64)
    count = tl.zeros((ROWS,), tl.int32)
    for base in range(first, last, ROWS):
        at = base + part
        mask = at < last
        i = tl.load(indices + at * index_step, mask=mask, other=0).to(tl.int64)
        bad = mask & ((i < 0) | (i >= rows))
        tl.store(flag + tl.zeros_like(part), 1, mask=bad)
        if across == 0:
            tl.store(origin + at, (bag + tl.zeros_like(at)).to(origin.dtype.element_ty), mask=mask)
        kept = mask & (i != padding) & (bad == 0)
        taken = kept[:, None] & inside[None, :]
        row = tl.where(kept, i, 0).to(INDEX) * row_step
        value = convert(tl.load(weight + row[:, None] + c[None, :], mask=taken, other=0), TYPE)
        if scale is not None:
            value *= convert(tl.load(scale + at * scale_step, mask=kept, other=0), TYPE)[:, None]
        if MODE == 2:
            better = taken & ((count[:, None] == 0) | (value > total))
            total = tl.where(better, value, total)
            best = tl.where(better, tl.zeros_like(best) + i[:, None], best)
        else:
            # Excluded elements add nothing, even if a scale is infinite.
            total += tl.where(taken, value, 0)
        count += kept.to(tl.int32)
    if (across == 0) & (bag == bags - 1):
        for base in range(last, n, BLOCK):
            after = base + tl.arange(0, BLOCK)
            tl.store(
                origin + after, (bags + tl.zeros_like(after)).to(origin.dtype.element_ty), mask=after < n
            )
    result = tl.sum(total, 0)
    number = tl.sum(count, 0)
    if MODE == 1:
        divisor = tl.maximum(number, 1)
        if result.dtype == tl.float64:
            result = result / divisor.to(tl.float64)
        else:
            result = tl.div_rn(result, (tl.zeros((BLOCK,), tl.int32) + divisor).to(tl.float32))
    out_offset = bag * width + c
    tl.store(out + out_offset, convert(result, out.dtype.element_ty), mask=inside)
    if MODE == 2:
        tl.store(attained + out_offset, tl.sum(best, 0).to(attained.dtype.element_ty), mask=inside)
    if across == 0:
        tl.store(sizes + bag, number.to(sizes.dtype.element_ty))
        if MODE != 2:
            tl.store(attained + bag, number.to(attained.dtype.element_ty))


declare(
    pool_bags,
    why="32 warps: eight rows of a bag are in flight in a block, and other blocks run while it waits for its indices",
    operand="weight",
    tile=("ROWS", "BLOCK"),
    dtypes={
        ("fp32",): (Configuration((8, 128), all_registers=True), Configuration((1, 512))),
        ("fp16", "bf16"): (Configuration((8, 256), all_registers=True), Configuration((1, 1024))),
        ("fp64",): (Configuration((8, 64), all_registers=True), Configuration((1, 256))),
    },
    smaller=True,
    operations="n width, twice as many with scales",
    traffic="n (width itemsize + 8) and bags width itemsize",
    loads=("weight",),
)
