"""Kernel that merges attention's partial results of several spans of keys.

A part has for each line the maximum score, the sum of the weights relative to it, and the sum of the weighted
values. A block loads all parts of a line at once, up to BLOCK_P of them, so that their latencies overlap; a
reduction tree of fixed shape adds them.
"""

from ...runtime.cuda.triton.lazy_triton import tl, triton
from ..budget import Configuration, declare
from ..conversion import convert
from ..programmatic import wait_for_earlier

MERGED = Configuration((1, 32, 128), 4)
"""Lines, parts, and block of a head of the values."""


@triton.jit
def merge(
    totals,
    sums,
    tops,
    out,
    logsumexp,
    n_lines,
    parts,
    length_q,
    heads,
    ob,
    oh,
    om,
    kept_scale,
    OF_SEQUENCES: tl.constexpr,
    DV: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_DV: tl.constexpr,
    OVERLAPS: tl.constexpr,
):
    """Merge the parts of BLOCK_M lines. `totals` is (parts, lines, DV), `sums` and `tops` are (parts, lines)."""
    wait_for_earlier(OVERLAPS)
    line = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    dv = tl.arange(0, BLOCK_DV)
    row_mask = line < n_lines
    total = tl.zeros((BLOCK_M, BLOCK_DV), tl.float32)
    row_max = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    weight = tl.zeros((BLOCK_M,), tl.float32)
    for first in range(0, parts, BLOCK_P):
        part = first + tl.arange(0, BLOCK_P)
        at = line[:, None] + part[None, :] * n_lines
        exists = row_mask[:, None] & (part < parts)[None, :]
        own = tl.load(tops + at, mask=exists, other=float("-inf"))
        own_weight = tl.load(sums + at, mask=exists, other=0)
        mask = exists[:, :, None] & (dv < DV)[None, None, :]
        own_total = tl.load(totals + at[:, :, None] * DV + dv[None, None, :], mask=mask, other=0)
        highest = tl.maximum(row_max, tl.max(own, 1))
        # If all scores so far are minus infinity, their differences to 0 are too.
        shift = tl.where(highest == float("-inf"), 0.0, highest)
        shrink, grow = tl.exp2(row_max - shift), tl.exp2(own - shift[:, None])
        weight = weight * shrink + tl.sum(own_weight * grow, 1)
        total = total * shrink[:, None] + tl.sum(own_total * grow[:, :, None], 1)
        row_max = highest
    empty = weight == 0
    factor = tl.div_rn(1.0, tl.where(empty, 1.0, weight)) * kept_scale
    query, head, batch = line % length_q, line // length_q % heads, line // length_q // heads
    out_ptrs = out + (batch * ob + head * oh + query * om)[:, None] + dv[None, :]
    mask = row_mask[:, None] & (dv < DV)[None, :]
    tl.store(out_ptrs, convert(total * factor[:, None], out.dtype.element_ty), mask=mask)
    if logsumexp is not None:
        value = (row_max + tl.log2(weight)) * 0.6931471805599453
        tl.store(
            logsumexp + line, tl.where(empty, float("-inf") if OF_SEQUENCES else 0.0, value), mask=row_mask
        )


declare(
    merge,
    why="32 warps; a few microseconds that wait for memory, beside a split's kilobytes of keys",
    tile=("BLOCK_M", "BLOCK_P", "BLOCK_DV"),
    dtypes=("fp32", "bf16", "fp16"),
    configurations=(MERGED,),
    smaller=True,
    operations="3 parts h l dv",
    traffic="parts h l (4 dv + 8) + h l dv itemsize",
    loads=("totals",),
)
