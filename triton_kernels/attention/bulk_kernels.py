"""Attention's forward pass with tensor descriptors: no thread computes an address, and rows out of bounds are
zeros.

This is the plain case of `forward_kernels` for sm_90 and later: 16-bit operands whose row strides are whole
vectors, no mask but the causal one, no dropout, a positive scale, no split keys. Numerics are the same.

Warp specialization of the loops over keys was tried with Triton 3.9 and these descriptors:
- sm_90, 4 warps (128x64x64, 64x64x64): the compiler's pass fails, since it copies the whole tile of queries
  into each half of it.
- sm_90, 8 warps (128x64x128): the compiler ignores it.
- sm_100: it specializes, with 384 threads for 128x64x64 and 4 warps, 640 for 128x64x128 and 512 for
  128x128x64 with 8 warps, but spills 8 to 16 bytes of each.

No kernel here declares it for this reason.
"""

from ...runtime.cuda.triton.lazy_triton import tl, triton
from ..budget import declare
from ..conversion import convert
from .scores import product_of_tiles
from .tiles import FORWARD_BULK


@triton.jit
def attend_in_bulk(
    total,
    row_max,
    sums,
    x,
    k,
    v,
    batch,
    head_k,
    query,
    low,
    high,
    length_k,
    scale,
    CAUSAL: tl.constexpr,
    MASKED: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BLOCK_DV: tl.constexpr,
):
    """Return the running (sum of weighted values, maximum, sum of weights) after the keys from `low` to `high`.

    Scores and their maximum are scaled in the exponent alone; see `forward_kernels.attend`.
    """
    for start in range(low, high, BLOCK_N):
        y = k.load([batch, head_k, start, 0]).reshape(BLOCK_N, BLOCK_D)
        scores = product_of_tiles(x, y.T)
        if MASKED:
            key = start + tl.arange(0, BLOCK_N)
            seen = (key < length_k)[None, :]
            if CAUSAL:
                seen = seen & (key[None, :] <= query[:, None])
            scores = tl.where(seen, scores, float("-inf"))
        highest = tl.maximum(row_max, tl.max(scores, 1))
        # If all scores so far are minus infinity, their differences to 0 are too.
        shift = tl.where(highest == float("-inf"), 0.0, highest)
        weights = tl.exp2(scores * scale - (shift * scale)[:, None])
        shrink = tl.exp2(row_max * scale - shift * scale)
        sums = sums * shrink + tl.sum(weights, 1)
        total = total * shrink[:, None]
        z = v.load([batch, head_k, start, 0]).reshape(BLOCK_N, BLOCK_DV)
        total = tl.dot(convert(weights, v.dtype), z, total, input_precision="ieee")
        row_max = highest
    return total, row_max, sums


@triton.jit
def attention_bulk(
    q,
    k,
    v,
    out,
    logsumexp,
    draws_seed,
    draws_offset,
    length_q,
    length_k,
    heads,
    group,
    scale,
    CAUSAL: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BLOCK_DV: tl.constexpr,
):
    """Compute attention for a block of queries of one head. All four tensor descriptors are (batch, heads, length,
    head dim).
    """
    tiles = tl.cdiv(length_q, BLOCK_M)
    program = tl.program_id(0)
    # The longest rows of a causal mask first, so that the last programs to start are short ones.
    tile = tiles - 1 - program % tiles
    batch = program // tiles // heads
    head = program // tiles % heads
    head_k = head // group
    if program == 0:
        tl.store(draws_seed, 0)
        tl.store(draws_offset, 0)
    begin = tile * BLOCK_M
    query = begin + tl.arange(0, BLOCK_M)
    x = q.load([batch, head, begin, 0]).reshape(BLOCK_M, BLOCK_D)
    stop, seen_by_all = length_k, length_k
    if CAUSAL:
        stop = tl.minimum(length_k, begin + BLOCK_M)
        seen_by_all = tl.minimum(length_k, begin + 1)
    middle = seen_by_all // BLOCK_N * BLOCK_N
    total = tl.zeros((BLOCK_M, BLOCK_DV), tl.float32)
    row_max = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    sums = tl.zeros((BLOCK_M,), tl.float32)
    total, row_max, sums = attend_in_bulk(
        total, row_max, sums, x, k, v, batch, head_k, query, 0, middle, length_k, scale, CAUSAL, False, BLOCK_N,
        BLOCK_D, BLOCK_DV,
    )  # fmt: skip
    total, row_max, sums = attend_in_bulk(
        total, row_max, sums, x, k, v, batch, head_k, query, middle, stop, length_k, scale, CAUSAL, True, BLOCK_N,
        BLOCK_D, BLOCK_DV,
    )  # fmt: skip
    empty = sums == 0
    factor = tl.div_rn(1.0, tl.where(empty, 1.0, sums))
    out.store(
        [batch, head, begin, 0], convert(total * factor[:, None], out.dtype).reshape(1, 1, BLOCK_M, BLOCK_DV)
    )
    if logsumexp is not None:
        value = (row_max * scale + tl.log2(sums)) * 0.6931471805599453
        line = (batch.to(tl.int64) * heads + head) * length_q
        tl.store(logsumexp + line + query, tl.where(empty, 0.0, value), mask=query < length_q)


declare(
    attention_bulk,
    why="see each configuration; bound by products and exponentials, a tile by the registers of its sums",
    operand="q",
    tile=("BLOCK_M", "BLOCK_N", "BLOCK_D", "BLOCK_DV"),
    dtypes={("bf16", "fp16"): FORWARD_BULK},
    smaller=True,
    operations="2 h l s (d + dv), half of it under a causal mask, and h l s exponentials",
    traffic="h l (d + dv) itemsize + 4 h l, and keys and values for every tile of queries that does not find them in "
    "L2",
    loads=("q", "k", "v"),
    stores=("out",),
    tensor_cores=("bf16", "fp16"),
)
