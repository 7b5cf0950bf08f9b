"""Kernel of attention's forward pass.

Online softmax: Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018. In tiles, fused
with the matmul by the values: Rabe and Staats, "Self-attention does not need O(n^2) memory", 2021; Dao, Fu,
Ermon, Rudra, Re, "FlashAttention: fast and memory-efficient exact attention with IO-awareness", 2022; Dao,
"FlashAttention-2: faster attention with better parallelism and work partitioning", 2023.

Numerics:
- Scores, their running maximum and sum, and the weighted sum of the values are float32.
- Weights round to the operands' dtype for the matmul by the values, as in PyTorch's flash backend, and
  normalization comes last.
- Weights below 2^-126 are zeros, which is negligible beside the row's largest weight, 1. Subnormal weights
  would cost three more instructions for each score.
- A row whose scores are all minus infinity gives zeros. A NaN score makes its row NaN.
- Values that a mask hides are multiplied by zero, so an infinite or NaN value may reach queries that it is
  hidden from.
"""

from ...runtime.cuda.triton.lazy_triton import tl, triton
from ..budget import declare
from ..conversion import convert
from ..random.random import start_of_draws
from .scores import kept, load_tile, product_of_tiles, with_bias
from .sequences import place_in_pages
from .tiles import FORWARD_HALF, FORWARD_SINGLE


@triton.jit
def attend(
    total,
    row_max,
    sums,
    x,
    k,
    v,
    bias,
    bias_rows,
    query,
    earliest,
    lines,
    low,
    high,
    length_k,
    kn,
    vn,
    bn,
    table,
    page_size,
    n_pages,
    kb,
    vb,
    scale,
    seed,
    first,
    limit,
    quads,
    RAW: tl.constexpr,
    CAUSAL: tl.constexpr,
    DROPOUT: tl.constexpr,
    MASKED: tl.constexpr,
    WHOLE: tl.constexpr,
    D: tl.constexpr,
    DV: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BLOCK_DV: tl.constexpr,
):
    """Return the running (sum of weighted values, maximum, sum of weights) after the keys from `low` to `high`.

    - Without MASKED, all keys exist, and every query of the tile attends to them.
    - With MASKED, a query attends to keys from `earliest` on, if given, and if CAUSAL up to the key `query`.
    - RAW scores and their maximum are scaled in the exponent only, by one fused multiply-add. This needs a positive
      scale and no additive mask.
    - With a `table`, keys are in pages, which are `kb` and `vb` apart. A WHOLE tile is in one page, as without a table.
    """
    d, dv = tl.arange(0, BLOCK_D), tl.arange(0, BLOCK_DV)
    for start in range(low, high, BLOCK_N):
        key = start + tl.arange(0, BLOCK_N)
        rows, end, from_k, from_v = key, length_k, k, v
        if table is not None:
            page, rows, end = place_in_pages(table, start, key, length_k, page_size, n_pages, WHOLE)
            from_k, from_v = k + page * kb, v + page * vb
        if WHOLE:
            y = load_tile(from_k, rows[None, :], d[:, None], kn, end, D, BLOCK_D, MASKED)
        else:
            y = load_tile(from_k[None, :], rows[None, :], d[:, None], kn, end, D, BLOCK_D, True)
        scores = product_of_tiles(x, y)
        if not RAW:
            scores *= scale
        if bias is not None:
            offsets = bias_rows[:, None] + key[None, :] * bn
            inside = (key < length_k)[None, :] if MASKED else None
            scores = with_bias(scores, bias, offsets, inside, False)
        if MASKED:
            seen = (key < length_k)[None, :]
            if CAUSAL:
                seen = seen & (key[None, :] <= query[:, None])
            if earliest is not None:
                seen = seen & (key[None, :] >= earliest[:, None])
            scores = tl.where(seen, scores, float("-inf"))
        highest = tl.maximum(row_max, tl.max(scores, 1))
        # If all scores so far are minus infinity, their differences to 0 are too.
        shift = tl.where(highest == float("-inf"), 0.0, highest)
        if RAW:
            weights = tl.exp2(scores * scale - (shift * scale)[:, None])
            shrink = tl.exp2(row_max * scale - shift * scale)
        else:
            weights = tl.exp2(scores - shift[:, None])
            shrink = tl.exp2(row_max - shift)
        sums = sums * shrink + tl.sum(weights, 1)
        total = total * shrink[:, None]
        if DROPOUT:
            weights = tl.where(kept(seed, first, lines, start, quads, limit, BLOCK_N), weights, 0.0)
        if WHOLE:
            z = load_tile(from_v, rows[:, None], dv[None, :], vn, end, DV, BLOCK_DV, MASKED)
        else:
            z = load_tile(from_v[:, None], rows[:, None], dv[None, :], vn, end, DV, BLOCK_DV, True)
        total = tl.dot(convert(weights, v.dtype.element_ty), z, total, input_precision="ieee")
        row_max = highest
    return total, row_max, sums


@triton.jit
def attention(
    q,
    k,
    v,
    bias,
    out,
    logsumexp,
    tops,
    draws_seed,
    draws_offset,
    length_q,
    length_k,
    heads,
    group,
    span,
    qb,
    qh,
    qm,
    kb,
    kh,
    kn,
    vb,
    vh,
    vn,
    bb,
    bh,
    bm,
    bn,
    ob,
    oh,
    om,
    scale,
    seed,
    first,
    state,
    limit,
    kept_scale,
    RAW: tl.constexpr,
    CAUSAL: tl.constexpr,
    DROPOUT: tl.constexpr,
    PACKED: tl.constexpr,
    SPLIT: tl.constexpr,
    D: tl.constexpr,
    DV: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BLOCK_DV: tl.constexpr,
):
    """Compute attention for a block of queries of one head; if PACKED, of all heads that share its keys; if SPLIT,
    over a span of keys.

    `out`, `logsumexp` and `tops` of a split are each part's sum of weighted values, sum of weights and maximum.
    """
    n_rows = length_q * group if PACKED else length_q
    own_heads = heads // group if PACKED else heads
    tiles = tl.cdiv(n_rows, BLOCK_M)
    program = tl.program_id(0)
    # The longest rows of a causal mask first, so that the last programs to start are short ones.
    tile = tiles - 1 - program % tiles
    batch = (program // tiles // own_heads).to(tl.int64)
    head = program // tiles % own_heads
    head_k = head if PACKED else head // group
    head = (head * group if PACKED else head).to(tl.int64)
    row = tile * BLOCK_M + tl.arange(0, BLOCK_M)
    row_mask = row < n_rows
    if PACKED:
        query, of_group = row % length_q, row // length_q
        q_rows = of_group * qh + query * qm
        lowest, highest = 0, length_q - 1
    else:
        query = row
        q_rows = query * qm
        lowest, highest = tile * BLOCK_M, tile * BLOCK_M + BLOCK_M - 1
    line = (batch * heads + head) * length_q
    lines = row
    if DROPOUT:
        seed, first = start_of_draws(seed, first, state)
        lines = line + row
    if program + tl.program_id(1) == 0:
        if DROPOUT:
            tl.store(draws_seed, seed)
            tl.store(draws_offset, first)
        else:
            tl.store(draws_seed, 0)
            tl.store(draws_offset, 0)
    k += batch * kb + head_k.to(tl.int64) * kh
    v += batch * vb + head_k.to(tl.int64) * vh
    d = tl.arange(0, BLOCK_D)
    mask = row_mask[:, None] & (d < D)[None, :]
    x = tl.load(q + batch * qb + head * qh + q_rows[:, None] + d[None, :], mask=mask, other=0)
    bias_rows = query
    if bias is not None:
        bias += batch * bb + head * bh
        # Rows that do not exist read the last one's mask.
        existing = tl.minimum(row, n_rows - 1)
        if PACKED:
            bias_rows = existing // length_q * bh + existing % length_q * bm
        else:
            bias_rows = existing * bm
    begin = 0
    stop = tl.minimum(length_k, highest + 1) if CAUSAL else length_k
    seen_by_all = tl.minimum(length_k, lowest + 1) if CAUSAL else length_k
    if SPLIT:
        begin = tl.program_id(1) * span
        stop = tl.minimum(stop, begin + span)
        seen_by_all = tl.minimum(seen_by_all, begin + span)
    middle = begin + tl.maximum(seen_by_all - begin, 0) // BLOCK_N * BLOCK_N
    quads = tl.cdiv(length_k, 4)
    total = tl.zeros((BLOCK_M, BLOCK_DV), tl.float32)
    row_max = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    sums = tl.zeros((BLOCK_M,), tl.float32)
    total, row_max, sums = attend(
        total, row_max, sums, x, k, v, bias, bias_rows, query, None, lines, begin, middle, length_k, kn, vn, bn, None,
        0, 0, 0, 0, scale, seed, first, limit, quads, RAW, CAUSAL, DROPOUT, False, True, D, DV, BLOCK_N, BLOCK_D,
        BLOCK_DV,
    )  # fmt: skip
    total, row_max, sums = attend(
        total, row_max, sums, x, k, v, bias, bias_rows, query, None, lines, middle, stop, length_k, kn, vn, bn, None,
        0, 0, 0, 0, scale, seed, first, limit, quads, RAW, CAUSAL, DROPOUT, True, True, D, DV, BLOCK_N, BLOCK_D,
        BLOCK_DV,
    )  # fmt: skip
    if RAW:
        row_max *= scale
    dv = tl.arange(0, BLOCK_DV)
    mask = row_mask[:, None] & (dv < DV)[None, :]
    if SPLIT:
        part = tl.program_id(1).to(tl.int64) * (tl.num_programs(0) // tiles * n_rows) + line
        tl.store(out + part * DV + row[:, None] * DV + dv[None, :], total, mask=mask)
        tl.store(logsumexp + part + row, sums, mask=row_mask)
        tl.store(tops + part + row, row_max, mask=row_mask)
    else:
        empty = sums == 0
        factor = tl.div_rn(1.0, tl.where(empty, 1.0, sums))
        if DROPOUT:
            factor *= kept_scale
        if PACKED:
            o_rows = of_group * oh + query * om
        else:
            o_rows = query * om
        out_ptrs = out + batch * ob + head * oh + o_rows[:, None] + dv[None, :]
        tl.store(out_ptrs, convert(total * factor[:, None], out.dtype.element_ty), mask=mask)
        if logsumexp is not None:
            value = (row_max + tl.log2(sums)) * 0.6931471805599453
            tl.store(logsumexp + line + row, tl.where(empty, 0.0, value), mask=row_mask)


declare(
    attention,
    why="see each configuration; bound by products and exponentials, a tile by the registers of its sums",
    operand="q",
    tile=("BLOCK_M", "BLOCK_N", "BLOCK_D", "BLOCK_DV"),
    dtypes={("bf16", "fp16"): FORWARD_HALF, ("fp32",): FORWARD_SINGLE},
    smaller=True,
    operations="2 h l s (d + dv), half of it under a causal mask, and h l s exponentials; with dropout Philox's ten "
    "rounds for every four scores",
    traffic="h l (d + dv) itemsize + 4 h l, and keys and values for every tile of queries that does not find them in "
    "L2; the mask once for every head",
    loads=("q", "k", "v"),
    stores=("out",),
    tensor_cores=("bf16", "fp16"),
    exact=("fp32",),
)
