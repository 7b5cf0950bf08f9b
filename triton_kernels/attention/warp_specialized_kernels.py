"""Attention's forward pass for sm_90 in Gluon: matmuls of one tile overlap the softmax of another.

Shah, Bikshandi, Zhang, Thakkar, Ramani, Dao, "FlashAttention-3: fast and accurate attention with asynchrony
and low-precision", 2024. A thread block has 384 threads: four warps copy (TMA) and two groups of four
compute, each with its own 64 queries. One warp would do for the copies, but register counts are set for four
warps at a time.

Keys and values go through ring buffers of `STAGES` tiles, with a full barrier for each tile and an empty
barrier at which both groups arrive. A group issues the scores of a tile, then the previous tile's matmul by
its values. It waits for the scores alone (``wgmma.wait_group 1``), and computes their softmax while the other
matmul runs. The groups alternate in issuing, so that their softmaxes do not coincide.

The compiler does not know the purpose of a wait, and ptxas hoists it above the softmax if it can. It cannot
hoist across a branch, so the wait for the next tile of keys is between the softmax and `wait_group 0`.

Tiles are visited from the last to the first, so that those with a mask come first. Other than that, the
numerics are those of `forward_kernels`.
"""

from ...runtime.cuda.triton.lazy_gluon import gl, gluon, hopper
from ..budget import declare
from .tiles import FORWARD_SPECIALIZED


@gluon.jit
def softmax_of_tile(
    scores,
    row_max,
    sums,
    start,
    query,
    length_k,
    scale,
    MASKED: gl.constexpr,
    CAUSAL: gl.constexpr,
    BLOCK_N: gl.constexpr,
    TILE: gl.constexpr,
):
    """Return a tile's weights, the updated running maximum and sum, and the factor that rescales earlier sums."""
    if MASKED:
        key = start + gl.arange(0, BLOCK_N, gl.SliceLayout(0, TILE))
        seen = (key < length_k)[None, :]
        if CAUSAL:
            seen = seen & (key[None, :] <= query[:, None])
        scores = gl.where(seen, scores, float("-inf"))
    highest = gl.maximum(row_max, gl.max(scores, 1))
    # If all scores so far are minus infinity, their differences to 0 are too.
    shift = gl.where(highest == float("-inf"), 0.0, highest)
    weights = gl.exp2(scores * scale - (shift * scale)[:, None])
    shrink = gl.exp2(row_max * scale - shift * scale)
    sums = sums * shrink + gl.sum(weights, 1)
    return weights, highest, sums, shrink


@gluon.jit
def attend_to_tiles(
    total,
    weights,
    row_max,
    sums,
    x,
    k,
    v,
    k_ready,
    k_free,
    v_ready,
    v_free,
    turns,
    low,
    high,
    tiles,
    query,
    length_k,
    scale,
    GROUP: gl.constexpr,
    MASKED: gl.constexpr,
    CAUSAL: gl.constexpr,
    BLOCK_M: gl.constexpr,
    BLOCK_N: gl.constexpr,
    BLOCK_D: gl.constexpr,
    STAGES: gl.constexpr,
    TILE: gl.constexpr,
    SUMS: gl.constexpr,
    LEFT: gl.constexpr,
):
    """Return the running state after the key tiles from `low` to `high`. The last tile of keys is number 0.

    `weights` are those of the previous tile, whose matmul by the values is not in `total` yet. The keys of tile
    `low` have arrived.
    """
    for i in range(low, high):
        slot, before = i % STAGES, (i - 1) % STAGES
        # The other group issues in between; a barrier that nobody has passed lets the first group's first turn go.
        hopper.mbarrier.wait(turns.index(GROUP), (i - 1 & 1) ^ (1 - GROUP))
        zeros = gl.zeros((BLOCK_M, BLOCK_N), gl.float32, TILE)
        y = k.index(slot).reshape((BLOCK_N, BLOCK_D)).permute((1, 0))
        scores = hopper.warpgroup_mma(x, y, zeros, use_acc=False, is_async=True)
        hopper.mbarrier.wait(v_ready.index(before), (i - 1) // STAGES & 1)
        z = v.index(before).reshape((BLOCK_N, BLOCK_D))
        running = hopper.warpgroup_mma(weights, z, total, is_async=True)
        hopper.mbarrier.arrive(turns.index(1 - GROUP))
        scores = hopper.warpgroup_mma_wait(1, (scores,))
        hopper.mbarrier.arrive(k_free.index(slot))
        start = (tiles - 1 - i) * BLOCK_N
        wide, row_max, sums, shrink = softmax_of_tile(
            scores, row_max, sums, start, query, length_k, scale, MASKED, CAUSAL, BLOCK_N, TILE
        )
        hopper.mbarrier.wait(k_ready.index((i + 1) % STAGES), (i + 1) // STAGES & 1, pred=i + 1 < tiles)
        total, _ = hopper.warpgroup_mma_wait(0, (running, weights))
        hopper.mbarrier.arrive(v_free.index(before))
        total = total * gl.convert_layout(shrink, gl.SliceLayout(1, SUMS))[:, None]
        weights = gl.convert_layout(wide.to(v.dtype), LEFT)
    return total, weights, row_max, sums


@gluon.jit
def compute(
    out,
    logsumexp,
    q,
    k,
    v,
    q_ready,
    k_ready,
    k_free,
    v_ready,
    v_free,
    turns,
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
    BLOCK_D: gl.constexpr,
    STAGES: gl.constexpr,
):
    """Compute attention for a warp group's queries, from query `begin` on."""
    TILE: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_N, 16])
    SUMS: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_D, 16])
    LEFT: gl.constexpr = gl.DotOperandLayout(0, SUMS, 2)
    ROWS: gl.constexpr = gl.SliceLayout(1, TILE)
    query = begin + gl.arange(0, BLOCK_M, ROWS)
    x = q.index(GROUP).reshape((BLOCK_M, BLOCK_D))
    seen_by_all = length_k
    if CAUSAL:
        seen_by_all = gl.minimum(length_k, begin + 1)
    masked = tiles - seen_by_all // BLOCK_N
    hopper.mbarrier.wait(q_ready.index(GROUP), 0)
    hopper.mbarrier.wait(k_ready.index(0), 0)
    zeros = gl.zeros((BLOCK_M, BLOCK_N), gl.float32, TILE)
    y = k.index(0).reshape((BLOCK_N, BLOCK_D)).permute((1, 0))
    scores = hopper.warpgroup_mma(x, y, zeros, use_acc=False, is_async=True)
    scores = hopper.warpgroup_mma_wait(0, (scores,))
    hopper.mbarrier.arrive(k_free.index(0))
    row_max = gl.full((BLOCK_M,), float("-inf"), gl.float32, ROWS)
    sums = gl.zeros((BLOCK_M,), gl.float32, ROWS)
    wide, row_max, sums, _ = softmax_of_tile(
        scores, row_max, sums, (tiles - 1) * BLOCK_N, query, length_k, scale, True, CAUSAL, BLOCK_N, TILE
    )
    weights = gl.convert_layout(wide.to(v.dtype), LEFT)
    total = gl.zeros((BLOCK_M, BLOCK_D), gl.float32, SUMS)
    hopper.mbarrier.wait(k_ready.index(1), 0, pred=tiles > 1)
    plain = 1
    if CAUSAL and BLOCK_N < 2 * BLOCK_M:
        # If key tiles are narrower than the block of queries, several tiles cross the diagonal.
        plain = gl.maximum(masked, 1)
        total, weights, row_max, sums = attend_to_tiles(
            total, weights, row_max, sums, x, k, v, k_ready, k_free, v_ready, v_free, turns, 1, plain, tiles, query,
            length_k, scale, GROUP, True, CAUSAL, BLOCK_M, BLOCK_N, BLOCK_D, STAGES, TILE, SUMS, LEFT,
        )  # fmt: skip
    total, weights, row_max, sums = attend_to_tiles(
        total, weights, row_max, sums, x, k, v, k_ready, k_free, v_ready, v_free, turns, plain, tiles, tiles, query,
        length_k, scale, GROUP, False, CAUSAL, BLOCK_M, BLOCK_N, BLOCK_D, STAGES, TILE, SUMS, LEFT,
    )  # fmt: skip
    last = tiles - 1
    hopper.mbarrier.wait(v_ready.index(last % STAGES), last // STAGES & 1)
    z = v.index(last % STAGES).reshape((BLOCK_N, BLOCK_D))
    total = hopper.warpgroup_mma(weights, z, total, is_async=True)
    total = hopper.warpgroup_mma_wait(0, (total,))
    empty = sums == 0
    factor = gl.div_rn(1.0, gl.where(empty, 1.0, sums))
    # The group's queries are not needed any more.
    x.store((total * gl.convert_layout(factor, gl.SliceLayout(1, SUMS))[:, None]).to(q.dtype))
    hopper.fence_async_shared()
    hopper.tma.async_store(out, [batch, head, begin, 0], q.index(GROUP))
    if logsumexp is not None:
        value = (row_max * scale + gl.log2(sums)) * 0.6931471805599453
        line = (batch.to(gl.int64) * heads + head) * length_q
        gl.store(logsumexp + line + query, gl.where(empty, 0.0, value), mask=query < length_q)
    hopper.tma.store_wait(0)


@gluon.jit
def copy(
    q,
    k,
    v,
    q_all,
    k_all,
    v_all,
    q_ready,
    k_ready,
    k_free,
    v_ready,
    v_free,
    batch,
    head,
    head_k,
    begin,
    tiles,
    BLOCK_M: gl.constexpr,
    BLOCK_N: gl.constexpr,
    STAGES: gl.constexpr,
):
    """Both groups' queries, then keys and values, the last tile first, whenever a place in the rings is free."""
    for group in gl.static_range(2):
        hopper.mbarrier.expect(q_ready.index(group), q.nbytes_per_cta)
        hopper.tma.async_load(
            q, [batch, head, begin + group * BLOCK_M, 0], q_ready.index(group), q_all.index(group)
        )
    for i in range(tiles):
        slot, phase = i % STAGES, i // STAGES & 1 ^ 1
        place = [batch, head_k, (tiles - 1 - i) * BLOCK_N, 0]
        hopper.mbarrier.wait(k_free.index(slot), phase)
        hopper.mbarrier.expect(k_ready.index(slot), k.nbytes_per_cta)
        hopper.tma.async_load(k, place, k_ready.index(slot), k_all.index(slot))
        hopper.mbarrier.wait(v_free.index(slot), phase)
        hopper.mbarrier.expect(v_ready.index(slot), v.nbytes_per_cta)
        hopper.tma.async_load(v, place, v_ready.index(slot), v_all.index(slot))


@gluon.jit
def attention_warp_specialized(
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
    v_all = gl.allocate_shared_memory(v.dtype, [STAGES, 1, 1, BLOCK_N, BLOCK_D], v.layout)
    q_ready = hopper.mbarrier.allocate_mbarrier(batch=2)
    k_ready = hopper.mbarrier.allocate_mbarrier(batch=STAGES)
    k_free = hopper.mbarrier.allocate_mbarrier(batch=STAGES)
    v_ready = hopper.mbarrier.allocate_mbarrier(batch=STAGES)
    v_free = hopper.mbarrier.allocate_mbarrier(batch=STAGES)
    turns = hopper.mbarrier.allocate_mbarrier(batch=2)
    for i in gl.static_range(2):
        hopper.mbarrier.init(q_ready.index(i), 1)
        hopper.mbarrier.init(turns.index(i), 1)
    for i in gl.static_range(STAGES):
        hopper.mbarrier.init(k_ready.index(i), 1)
        hopper.mbarrier.init(v_ready.index(i), 1)
        hopper.mbarrier.init(k_free.index(i), 2)
        hopper.mbarrier.init(v_free.index(i), 2)
    hopper.fence_async_shared()
    # A tuple with a name would make values of its constants. 240 registers for a thread that computes and 24 for one
    # that copies: 168 each when the block starts.
    gl.warp_specialize(
        [
            (compute, (
                out, logsumexp, q_all, k_all, v_all, q_ready, k_ready, k_free, v_ready, v_free, turns, batch, head,
                heads, begin, tiles, length_q, length_k, scale, 0, CAUSAL, HALF, BLOCK_N, BLOCK_D, STAGES,
            )),
            (compute, (
                out, logsumexp, q_all, k_all, v_all, q_ready, k_ready, k_free, v_ready, v_free, turns, batch, head,
                heads, begin + HALF, tiles, length_q, length_k, scale, 1, CAUSAL, HALF, BLOCK_N, BLOCK_D, STAGES,
            )),
            (copy, (
                q, k, v, q_all, k_all, v_all, q_ready, k_ready, k_free, v_ready, v_free, batch, head, head_k, begin,
                tiles, HALF, BLOCK_N, STAGES,
            )),
        ],
        [4, 4],
        [240, 24],
    )  # fmt: skip


declare(
    attention_warp_specialized,
    why="a block's registers are a multiprocessor's; what one group of warps waits for, the other one hides",
    operand="q",
    tile=("BLOCK_M", "BLOCK_N", "BLOCK_D", "BLOCK_DV"),
    dtypes={("bf16", "fp16"): FORWARD_SPECIALIZED},
    operations="2 h l s (d + dv), half of it under a causal mask, and h l s exponentials",
    traffic="h l (d + dv) itemsize + 4 h l, and keys and values for every tile of queries that does not find them in "
    "L2",
    loads=("q", "k", "v"),
    stores=("out",),
    tensor_cores=("bf16", "fp16"),
)
