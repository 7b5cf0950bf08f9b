"""Attention's forward pass for sm_100 in Gluon: matmuls of one tile of queries overlap the softmax of another.

Scores, weights and sums are in tensor memory. A thread block has 256 queries in two tiles and 16 warps:
- One warp copies (TMA), and one issues the matmuls (``tcgen05.mma``).
- Two groups of four compute the softmax of a tile of queries each, a row for each thread.
- One group of four rescales the sums of earlier keys if a row's maximum has grown.

Only the softmax is on the critical path from a tile's scores to its weights. The weights overwrite their
scores, as operand of the matmul by the values. While one tile's weights are multiplied and its next scores
computed, the other tile's softmax runs. A thread reads its row twice, a quarter at a time, once for the
maximum and once for the weights, since no thread of 512 has registers for a whole row. Source: Shah et al.,
"FlashAttention-3", 2024; Zadouri et al., "FlashAttention-4", of the groups' work.

Keys and values share one ring buffer of `STAGES` tiles. Each tile has a full barrier, and an empty barrier at
which the tensor cores arrive. Tiles are visited from the last to the first, so that those with a mask come
first. Other than that, the numerics are those of `forward_kernels`.
"""

from ...runtime.cuda.triton.lazy_gluon import blackwell, gl, gluon
from ..budget import declare
from .tiles import FORWARD_TENSOR_MEMORY


@gluon.jit
def scores_of(
    own,
    start,
    limit,
    MASKED: gl.constexpr,
    PART: gl.constexpr,
    COLUMNS: gl.constexpr,
    LAYOUT: gl.constexpr,
):
    """Load columns of a tile's scores, -inf from `limit` on; `start` is the tile's first key."""
    scores = own.slice(PART * COLUMNS, COLUMNS).load(LAYOUT)
    if MASKED:
        key = PART * COLUMNS + gl.arange(0, COLUMNS, gl.SliceLayout(0, LAYOUT))
        scores = gl.where(key[None, :] < (limit - start)[:, None], scores, float("-inf"))
    return scores


@gluon.jit
def softmax_of_tiles(
    row_max,
    sums,
    low,
    high,
    scores_all,
    shrink_all,
    scored,
    weighted,
    shrunk,
    shrink_free,
    tiles,
    limit,
    scale,
    GROUP: gl.constexpr,
    MASKED: gl.constexpr,
    BLOCK_M: gl.constexpr,
    BLOCK_N: gl.constexpr,
    TYPE: gl.constexpr,
    COLUMNS: gl.constexpr,
    LAYOUT: gl.constexpr,
):
    """Return the running maximum and sum after the key tiles from `low` to `high`; the last tile is number 0."""
    WEIGHTS: gl.constexpr = blackwell.TensorMemoryLayout([BLOCK_M, BLOCK_N], col_stride=1)
    PARTS: gl.constexpr = BLOCK_N // COLUMNS
    own = scores_all.index(GROUP)
    # Weights of a part take the place of scores that have been loaded for the last time.
    place = own.slice(0, BLOCK_N // 2).reinterpret(TYPE, [BLOCK_M, BLOCK_N], WEIGHTS)
    for i in range(low, high):
        start = (tiles - 1 - i) * BLOCK_N
        blackwell.mbarrier.wait(scored.index(GROUP), i & 1)
        highest = row_max
        for part in gl.static_range(PARTS):
            # The last ones are the first ones of the second time, for which the compiler keeps them.
            scores = scores_of(own, start, limit, MASKED, PARTS - 1 - part, COLUMNS, LAYOUT)
            highest = gl.maximum(highest, gl.max(scores, 1))
        # If all scores so far are minus infinity, their differences to 0 are too.
        shift = gl.where(highest == float("-inf"), 0.0, highest) * scale
        shrink = gl.exp2(row_max * scale - shift)
        blackwell.mbarrier.wait(shrink_free.index(GROUP), i & 1 ^ 1)
        shrink_all.index(GROUP).store(shrink)
        blackwell.mbarrier.arrive(shrunk.index(GROUP))
        sums = sums * shrink
        for part in gl.static_range(PARTS):
            scores = scores_of(own, start, limit, MASKED, part, COLUMNS, LAYOUT)
            weights = gl.exp2(scores * scale - shift[:, None])
            place.slice(part * COLUMNS, COLUMNS).store(weights.to(TYPE))
            sums += gl.sum(weights, 1)
        blackwell.mbarrier.arrive(weighted.index(GROUP))
        row_max = highest
    return row_max, sums


@gluon.jit
def softmax(
    logsumexp,
    scores_all,
    shrink_all,
    scored,
    weighted,
    shrunk,
    shrink_free,
    batch,
    head,
    heads,
    begin,
    tiles,
    length_q,
    length_k,
    scale,
    GROUP: gl.constexpr,
    CAUSAL: gl.constexpr,
    BLOCK_M: gl.constexpr,
    BLOCK_N: gl.constexpr,
    TYPE: gl.constexpr,
):
    """Compute the softmax weights of a tile of queries, from query `begin` on, key tile by key tile; finally store
    their logsumexp.
    """
    COLUMNS: gl.constexpr = BLOCK_N // 4
    LAYOUT: gl.constexpr = scores_all.index(GROUP).slice(0, COLUMNS).get_reg_layout()
    ROWS: gl.constexpr = gl.SliceLayout(1, LAYOUT)
    query = begin + gl.arange(0, BLOCK_M, ROWS)
    row_max = gl.full((BLOCK_M,), float("-inf"), gl.float32, ROWS)
    sums = gl.zeros((BLOCK_M,), gl.float32, ROWS)
    limit = gl.full((BLOCK_M,), 0, gl.int32, ROWS) + length_k
    seen_by_all = length_k
    if CAUSAL:
        limit = gl.minimum(length_k, query + 1)
        seen_by_all = gl.minimum(length_k, begin + 1)
    plain = gl.maximum(tiles - seen_by_all // BLOCK_N, 0)
    row_max, sums = softmax_of_tiles(
        row_max, sums, 0, plain, scores_all, shrink_all, scored, weighted, shrunk, shrink_free, tiles, limit, scale,
        GROUP, True, BLOCK_M, BLOCK_N, TYPE, COLUMNS, LAYOUT,
    )  # fmt: skip
    row_max, sums = softmax_of_tiles(
        row_max, sums, plain, tiles, scores_all, shrink_all, scored, weighted, shrunk, shrink_free, tiles, limit, scale,
        GROUP, False, BLOCK_M, BLOCK_N, TYPE, COLUMNS, LAYOUT,
    )  # fmt: skip
    blackwell.mbarrier.wait(shrink_free.index(GROUP), tiles & 1 ^ 1)
    shrink_all.index(GROUP).store(sums)
    blackwell.mbarrier.arrive(shrunk.index(GROUP))
    if logsumexp is not None:
        value = (row_max * scale + gl.log2(sums)) * 0.6931471805599453
        line = (batch.to(gl.int64) * heads + head) * length_q
        gl.store(logsumexp + line + query, gl.where(sums == 0, 0.0, value), mask=query < length_q)


@gluon.jit
def correct(
    out,
    q_all,
    total_all,
    shrink_all,
    weighted,
    shrunk,
    shrink_free,
    summed,
    batch,
    head,
    begin,
    tiles,
    BLOCK_M: gl.constexpr,
    BLOCK_D: gl.constexpr,
    COLUMNS: gl.constexpr,
):
    """Make both tiles' sums of earlier keys smaller, tile by tile of keys; at the end divide and store them."""
    PART: gl.constexpr = total_all.index(0).slice(0, COLUMNS).get_reg_layout()
    ROWS: gl.constexpr = gl.SliceLayout(1, PART)
    for i in range(tiles):
        for group in gl.static_range(2):
            blackwell.mbarrier.wait(shrunk.index(group), i & 1)
            shrink = shrink_all.index(group).load(ROWS)
            blackwell.mbarrier.arrive(shrink_free.index(group))
            if i > 0:
                blackwell.mbarrier.wait(summed.index(group), i - 1 & 1)
                for part in gl.static_range(BLOCK_D // COLUMNS):
                    place = total_all.index(group).slice(part * COLUMNS, COLUMNS)
                    place.store(place.load(PART) * shrink[:, None])
            blackwell.mbarrier.arrive(weighted.index(group))
    for group in gl.static_range(2):
        blackwell.mbarrier.wait(shrunk.index(group), tiles & 1)
        sums = shrink_all.index(group).load(ROWS)
        factor = gl.div_rn(1.0, gl.where(sums == 0, 1.0, sums))
        blackwell.mbarrier.wait(summed.index(group), tiles - 1 & 1)
        # The tile's queries are not needed any more.
        destination = q_all.index(group).reshape((BLOCK_M, BLOCK_D))
        for part in gl.static_range(BLOCK_D // COLUMNS):
            value = total_all.index(group).slice(part * COLUMNS, COLUMNS).load(PART) * factor[:, None]
            destination.slice(part * COLUMNS, COLUMNS, 1).store(value.to(out.dtype))
        blackwell.fence_async_shared()
        blackwell.tma.async_store(out, [batch, head, begin + group * BLOCK_M, 0], q_all.index(group))
    blackwell.tma.store_wait(0)


@gluon.jit
def multiply(
    q_all,
    k_all,
    scores_all,
    total_all,
    q_ready,
    ready,
    free,
    scored,
    weighted,
    summed,
    tiles,
    TYPE: gl.constexpr,
    BLOCK_M: gl.constexpr,
    BLOCK_N: gl.constexpr,
    BLOCK_D: gl.constexpr,
    STAGES: gl.constexpr,
):
    """Issue all matmuls: the scores of the first keys, then for each tile its weights by its values and the next
    scores.
    """
    WEIGHTS: gl.constexpr = blackwell.TensorMemoryLayout([BLOCK_M, BLOCK_N], col_stride=1)
    blackwell.mbarrier.wait(ready.index(0), 0)
    y = k_all.index(0).reshape((BLOCK_N, BLOCK_D)).permute((1, 0))
    for group in gl.static_range(2):
        blackwell.mbarrier.wait(q_ready.index(group), 0)
        x = q_all.index(group).reshape((BLOCK_M, BLOCK_D))
        blackwell.tcgen05_mma(x, y, scores_all.index(group), use_acc=False, mbarriers=[])
        blackwell.tcgen05_commit(scored.index(group))
    blackwell.tcgen05_commit(free.index(0))
    for i in range(tiles):
        of_values, of_keys = 2 * i + 1, 2 * i + 2
        slot, after = of_values % STAGES, of_keys % STAGES
        more = i + 1 < tiles
        blackwell.mbarrier.wait(ready.index(slot), of_values // STAGES & 1)
        z = k_all.index(slot).reshape((BLOCK_N, BLOCK_D))
        y = k_all.index(after).reshape((BLOCK_N, BLOCK_D)).permute((1, 0))
        for group in gl.static_range(2):
            blackwell.mbarrier.wait(weighted.index(group), i & 1)
            scores = scores_all.index(group)
            weights = scores.slice(0, BLOCK_N // 2).reinterpret(TYPE, [BLOCK_M, BLOCK_N], WEIGHTS)
            blackwell.tcgen05_mma(weights, z, total_all.index(group), use_acc=i > 0, mbarriers=[])
            blackwell.tcgen05_commit(summed.index(group))
            if group == 0:
                blackwell.mbarrier.wait(ready.index(after), of_keys // STAGES & 1, pred=more)
            x = q_all.index(group).reshape((BLOCK_M, BLOCK_D))
            blackwell.tcgen05_mma(x, y, scores, use_acc=False, pred=more, mbarriers=[])
            blackwell.tcgen05_commit(scored.index(group), pred=more)
        blackwell.tcgen05_commit(free.index(slot))
        blackwell.tcgen05_commit(free.index(after), pred=more)


@gluon.jit
def copy(
    q,
    k,
    v,
    q_all,
    k_all,
    q_ready,
    ready,
    free,
    batch,
    head,
    head_k,
    begin,
    tiles,
    BLOCK_M: gl.constexpr,
    BLOCK_N: gl.constexpr,
    STAGES: gl.constexpr,
):
    """Both tiles of queries, then keys and values in turns, the last first, whenever a place in the ring is free."""
    for group in gl.static_range(2):
        blackwell.mbarrier.expect(q_ready.index(group), q.nbytes_per_cta)
        blackwell.tma.async_load(
            q, [batch, head, begin + group * BLOCK_M, 0], q_ready.index(group), q_all.index(group)
        )
    for i in range(tiles):
        place = [batch, head_k, (tiles - 1 - i) * BLOCK_N, 0]
        first, second = 2 * i % STAGES, (2 * i + 1) % STAGES
        blackwell.mbarrier.wait(free.index(first), 2 * i // STAGES & 1 ^ 1)
        blackwell.mbarrier.expect(ready.index(first), k.nbytes_per_cta)
        blackwell.tma.async_load(k, place, ready.index(first), k_all.index(first))
        blackwell.mbarrier.wait(free.index(second), (2 * i + 1) // STAGES & 1 ^ 1)
        blackwell.mbarrier.expect(ready.index(second), v.nbytes_per_cta)
        blackwell.tma.async_load(v, place, ready.index(second), k_all.index(second))


@gluon.jit
def attention_tensor_memory(
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
    CAUSAL: gl.constexpr,
    BLOCK_M: gl.constexpr,
    BLOCK_N: gl.constexpr,
    BLOCK_D: gl.constexpr,
    BLOCK_DV: gl.constexpr,
    STAGES: gl.constexpr,
):
    """Compute attention for a block of queries of one head. All four tensor descriptors are (batch, heads, length,
    head dim).

    There is at least one key, `BLOCK_DV` is `BLOCK_D`, and blocks of `q` and `out` have half of `BLOCK_M` rows.
    """
    HALF: gl.constexpr = BLOCK_M // 2
    TYPE: gl.constexpr = v.dtype
    SCORES: gl.constexpr = blackwell.TensorMemoryLayout([HALF, BLOCK_N], col_stride=1)
    SUMS: gl.constexpr = blackwell.TensorMemoryLayout([HALF, BLOCK_D], col_stride=1)
    LINE: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0])
    blocks = gl.cdiv(length_q, BLOCK_M)
    program = gl.program_id(0)
    # The longest rows of a causal mask first, so that the last programs to start are short ones.
    block = blocks - 1 - program % blocks
    batch = program // blocks // heads
    head = program // blocks % heads
    head_k = head // group
    if program == 0:
        gl.store(draws_seed, 0)
        gl.store(draws_offset, 0)
    begin = block * BLOCK_M
    stop = length_k
    if CAUSAL:
        stop = gl.minimum(length_k, begin + BLOCK_M)
    tiles = gl.cdiv(stop, BLOCK_N)
    q_all = gl.allocate_shared_memory(q.dtype, [2, 1, 1, HALF, BLOCK_D], q.layout)
    k_all = gl.allocate_shared_memory(k.dtype, [STAGES, 1, 1, BLOCK_N, BLOCK_D], k.layout)
    shrink_all = gl.allocate_shared_memory(gl.float32, [2, HALF], LINE)
    scores_all = blackwell.allocate_tensor_memory(gl.float32, [2, HALF, BLOCK_N], SCORES)
    total_all = blackwell.allocate_tensor_memory(gl.float32, [2, HALF, BLOCK_D], SUMS)
    q_ready = blackwell.mbarrier.allocate_mbarrier(batch=2)
    ready = blackwell.mbarrier.allocate_mbarrier(batch=STAGES)
    free = blackwell.mbarrier.allocate_mbarrier(batch=STAGES)
    # Scores are there; weights and smaller sums are; factors are, and are taken; sums are there.
    scored = blackwell.mbarrier.allocate_mbarrier(batch=2)
    weighted = blackwell.mbarrier.allocate_mbarrier(batch=2)
    shrunk = blackwell.mbarrier.allocate_mbarrier(batch=2)
    shrink_free = blackwell.mbarrier.allocate_mbarrier(batch=2)
    summed = blackwell.mbarrier.allocate_mbarrier(batch=2)
    for i in gl.static_range(STAGES):
        blackwell.mbarrier.init(ready.index(i), 1)
        blackwell.mbarrier.init(free.index(i), 1)
    for i in gl.static_range(2):
        blackwell.mbarrier.init(q_ready.index(i), 1)
        blackwell.mbarrier.init(scored.index(i), 1)
        blackwell.mbarrier.init(weighted.index(i), 2)
        blackwell.mbarrier.init(shrunk.index(i), 1)
        blackwell.mbarrier.init(shrink_free.index(i), 1)
        blackwell.mbarrier.init(summed.index(i), 1)
    blackwell.fence_async_shared()
    gl.warp_specialize(
        [
            (correct, (
                out, q_all, total_all, shrink_all, weighted, shrunk, shrink_free, summed, batch, head, begin, tiles,
                HALF, BLOCK_D, 32,
            )),
            (softmax, (
                logsumexp, scores_all, shrink_all, scored, weighted, shrunk, shrink_free, batch, head, heads, begin,
                tiles, length_q, length_k, scale, 0, CAUSAL, HALF, BLOCK_N, TYPE,
            )),
            (softmax, (
                logsumexp, scores_all, shrink_all, scored, weighted, shrunk, shrink_free, batch, head, heads,
                begin + HALF, tiles, length_q, length_k, scale, 1, CAUSAL, HALF, BLOCK_N, TYPE,
            )),
            (multiply, (
                q_all, k_all, scores_all, total_all, q_ready, ready, free, scored, weighted, summed, tiles, TYPE, HALF,
                BLOCK_N, BLOCK_D, STAGES,
            )),
            (copy, (
                q, k, v, q_all, k_all, q_ready, ready, free, batch, head, head_k, begin, tiles, HALF, BLOCK_N, STAGES,
            )),
        ],
        [4, 4, 1, 1],
    )  # fmt: skip


declare(
    attention_tensor_memory,
    why="a block has all of tensor memory; what one tile of queries waits for, the other one hides",
    operand="q",
    tile=("BLOCK_M", "BLOCK_N", "BLOCK_D", "BLOCK_DV"),
    dtypes={("bf16", "fp16"): FORWARD_TENSOR_MEMORY},
    operations="2 h l s (d + dv), half of it under a causal mask, and h l s exponentials",
    traffic="h l (d + dv) itemsize + 4 h l, and keys and values for every tile of queries that does not find them in "
    "L2",
    loads=("q", "k", "v"),
    stores=("out",),
    tensor_cores=("bf16", "fp16"),
)
