"""Attention's backward pass for sm_90 in Gluon: by keys, and by queries, as in `backward_kernels`, with its
numerics.

Thread blocks, ring buffers and barriers are those of `warp_specialized_kernels`. Four warps copy, and two
groups of four compute, each with its own 64 keys or 64 queries. The register operands of matmuls are weights
and score gradients, which therefore never go through shared memory. The groups exchange no data.

One pass with five matmuls would replace these two passes with seven, but would have to accumulate each key
block's contribution to the queries. In a fixed order this serializes the blocks at each tile of queries. It
also costs float32 sums of 4 h l d bytes in global memory, read and written once for each block of keys, and
score gradients in shared memory for both groups. FlashAttention-3 publishes some 550 TFLOP/s for five matmuls
without that order. Seven matmuls that stay in registers are as fast at 1.4 times its rate.
`docs/gpu_kernels_internals.md` has the model's figures.
"""

from ...runtime.cuda.triton.lazy_gluon import gl, gluon, hopper
from ..budget import declare
from .tiles import KEYS_SPECIALIZED, QUERIES_SPECIALIZED


@gluon.jit
def gradients_of_keys(
    grad_k,
    grad_v,
    logsumexp,
    delta,
    q,
    g,
    k,
    v,
    kv_ready,
    q_ready,
    g_ready,
    q_free,
    g_free,
    batch,
    head_k,
    heads,
    group,
    begin,
    low,
    count,
    length_q,
    scale,
    factor,
    GROUP: gl.constexpr,
    CAUSAL: gl.constexpr,
    BLOCK_M: gl.constexpr,
    BLOCK_N: gl.constexpr,
    BLOCK_D: gl.constexpr,
    STAGES: gl.constexpr,
):
    """Compute the gradients of a warp group's keys and values, from key `begin` on. Tiles of scores are (keys,
    queries).
    """
    TILE: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_M, 16])
    SUMS: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_D, 16])
    LEFT: gl.constexpr = gl.DotOperandLayout(0, SUMS, 2)
    key = begin + gl.arange(0, BLOCK_N, gl.SliceLayout(1, TILE))
    x = k.index(GROUP).reshape((BLOCK_N, BLOCK_D))
    z = v.index(GROUP).reshape((BLOCK_N, BLOCK_D))
    zeros = gl.zeros((BLOCK_N, BLOCK_M), gl.float32, TILE)
    sums_k = gl.zeros((BLOCK_N, BLOCK_D), gl.float32, SUMS)
    sums_v = gl.zeros((BLOCK_N, BLOCK_D), gl.float32, SUMS)
    hopper.mbarrier.wait(kv_ready, 0)
    for i in range(group * count):
        slot, phase = i % STAGES, i // STAGES & 1
        start = low + i % count * BLOCK_M
        line = ((batch * heads + head_k * group + i // count).to(gl.int64)) * length_q
        y = q.index(slot).reshape((BLOCK_M, BLOCK_D))
        h = g.index(slot).reshape((BLOCK_M, BLOCK_D))
        query = start + gl.arange(0, BLOCK_M, gl.SliceLayout(0, TILE))
        exists = query < length_q
        lse = gl.load(logsumexp + line + query, mask=exists, other=float("inf")) * 1.4426950408889634
        if not CAUSAL:
            relative = gl.load(delta + line + query, mask=exists, other=0)
        hopper.mbarrier.wait(q_ready.index(slot), phase)
        hopper.mbarrier.wait(g_ready.index(slot), phase)
        scores = hopper.warpgroup_mma(x, y.permute((1, 0)), zeros, use_acc=False, is_async=True)
        changes = hopper.warpgroup_mma(z, h.permute((1, 0)), zeros, use_acc=False, is_async=True)
        scores = hopper.warpgroup_mma_wait(1, (scores,))
        if CAUSAL:
            scores = gl.where(key[:, None] <= query[None, :], scores, float("-inf"))
        wide = gl.exp2(scores * scale - lse[None, :])
        weights = gl.convert_layout(wide.to(q.dtype), LEFT)
        running_v = hopper.warpgroup_mma(weights, h, sums_v, is_async=True)
        if CAUSAL:
            # Not earlier: places of keys and queries have the registers.
            relative = gl.load(delta + line + query, mask=exists, other=0)
        changes = hopper.warpgroup_mma_wait(1, (changes,))
        left = gl.convert_layout((wide * (changes - relative[None, :])).to(q.dtype), LEFT)
        running_k = hopper.warpgroup_mma(left, y, sums_k, is_async=True)
        sums_v, sums_k, _, _ = hopper.warpgroup_mma_wait(0, (running_v, running_k, weights, left))
        hopper.mbarrier.arrive(q_free.index(slot))
        hopper.mbarrier.arrive(g_free.index(slot))
    # The group's keys and values are not needed any more.
    x.store((sums_k * factor).to(q.dtype))
    z.store(sums_v.to(q.dtype))
    hopper.fence_async_shared()
    hopper.tma.async_store(grad_k, [batch, head_k, begin, 0], k.index(GROUP))
    hopper.tma.async_store(grad_v, [batch, head_k, begin, 0], v.index(GROUP))
    hopper.tma.store_wait(0)


@gluon.jit
def copy_queries(
    q,
    grad,
    k,
    v,
    q_all,
    g_all,
    k_all,
    v_all,
    kv_ready,
    q_ready,
    g_ready,
    q_free,
    g_free,
    batch,
    head_k,
    group,
    begin,
    low,
    count,
    BLOCK_M: gl.constexpr,
    BLOCK_N: gl.constexpr,
    STAGES: gl.constexpr,
):
    """Both groups' keys and values, then queries and gradients of the output, head by head."""
    hopper.mbarrier.expect(kv_ready, 2 * (k.nbytes_per_cta + v.nbytes_per_cta))
    for part in gl.static_range(2):
        place = [batch, head_k, begin + part * BLOCK_N, 0]
        hopper.tma.async_load(k, place, kv_ready, k_all.index(part))
        hopper.tma.async_load(v, place, kv_ready, v_all.index(part))
    for i in range(group * count):
        slot, phase = i % STAGES, i // STAGES & 1 ^ 1
        place = [batch, head_k * group + i // count, low + i % count * BLOCK_M, 0]
        hopper.mbarrier.wait(q_free.index(slot), phase)
        hopper.mbarrier.expect(q_ready.index(slot), q.nbytes_per_cta)
        hopper.tma.async_load(q, place, q_ready.index(slot), q_all.index(slot))
        hopper.mbarrier.wait(g_free.index(slot), phase)
        hopper.mbarrier.expect(g_ready.index(slot), grad.nbytes_per_cta)
        hopper.tma.async_load(grad, place, g_ready.index(slot), g_all.index(slot))


@gluon.jit
def attention_backward_keys_warp_specialized(
    q,
    k,
    v,
    grad,
    logsumexp,
    delta,
    grad_k,
    grad_v,
    length_q,
    length_k,
    heads,
    group,
    scale,
    factor,
    CAUSAL: gl.constexpr,
    BLOCK_M: gl.constexpr,
    BLOCK_N: gl.constexpr,
    BLOCK_D: gl.constexpr,
    BLOCK_DV: gl.constexpr,
    STAGES: gl.constexpr,
):
    """Compute the gradients of a block of keys and values of one head, over the queries of all heads that share it in
    order.

    Operands and gradients are described as (batch, heads, length, head); `BLOCK_DV` is `BLOCK_D`, and blocks of `k`,
    `v` and their gradients have half of `BLOCK_N` rows.
    """
    HALF: gl.constexpr = BLOCK_N // 2
    blocks = gl.cdiv(length_k, BLOCK_N)
    program = gl.program_id(0)
    # Under a causal mask the first keys have the most queries, so the last programs to start are short.
    begin = program % blocks * BLOCK_N
    heads_k = heads // group
    batch = program // blocks // heads_k
    head_k = program // blocks % heads_k
    low = 0
    if CAUSAL:
        low = gl.minimum(begin, length_q) // BLOCK_M * BLOCK_M
    count = gl.cdiv(length_q - low, BLOCK_M)
    q_all = gl.allocate_shared_memory(q.dtype, [STAGES, 1, 1, BLOCK_M, BLOCK_D], q.layout)
    g_all = gl.allocate_shared_memory(q.dtype, [STAGES, 1, 1, BLOCK_M, BLOCK_D], grad.layout)
    k_all = gl.allocate_shared_memory(k.dtype, [2, 1, 1, HALF, BLOCK_D], k.layout)
    v_all = gl.allocate_shared_memory(v.dtype, [2, 1, 1, HALF, BLOCK_D], v.layout)
    kv_ready = hopper.mbarrier.allocate_mbarrier()
    q_ready = hopper.mbarrier.allocate_mbarrier(batch=STAGES)
    g_ready = hopper.mbarrier.allocate_mbarrier(batch=STAGES)
    q_free = hopper.mbarrier.allocate_mbarrier(batch=STAGES)
    g_free = hopper.mbarrier.allocate_mbarrier(batch=STAGES)
    hopper.mbarrier.init(kv_ready, 1)
    for i in gl.static_range(STAGES):
        hopper.mbarrier.init(q_ready.index(i), 1)
        hopper.mbarrier.init(g_ready.index(i), 1)
        hopper.mbarrier.init(q_free.index(i), 2)
        hopper.mbarrier.init(g_free.index(i), 2)
    hopper.fence_async_shared()
    gl.warp_specialize(
        [
            (gradients_of_keys, (
                grad_k, grad_v, logsumexp, delta, q_all, g_all, k_all, v_all, kv_ready, q_ready, g_ready, q_free,
                g_free, batch, head_k, heads, group, begin, low, count, length_q, scale, factor, 0, CAUSAL, BLOCK_M,
                HALF, BLOCK_D, STAGES,
            )),
            (gradients_of_keys, (
                grad_k, grad_v, logsumexp, delta, q_all, g_all, k_all, v_all, kv_ready, q_ready, g_ready, q_free,
                g_free, batch, head_k, heads, group, begin + HALF, low, count, length_q, scale, factor, 1, CAUSAL,
                BLOCK_M, HALF, BLOCK_D, STAGES,
            )),
            (copy_queries, (
                q, grad, k, v, q_all, g_all, k_all, v_all, kv_ready, q_ready, g_ready, q_free, g_free, batch, head_k,
                group, begin, low, count, BLOCK_M, HALF, STAGES,
            )),
        ],
        [4, 4],
        [240, 24],
    )  # fmt: skip


@gluon.jit
def add_tiles_of_keys(
    sums,
    x,
    h,
    k,
    v,
    k_ready,
    v_ready,
    k_free,
    v_free,
    low,
    high,
    tiles,
    query,
    lse,
    relative,
    length_k,
    scale,
    MASKED: gl.constexpr,
    CAUSAL: gl.constexpr,
    BLOCK_M: gl.constexpr,
    BLOCK_N: gl.constexpr,
    BLOCK_D: gl.constexpr,
    STAGES: gl.constexpr,
    TILE: gl.constexpr,
    LEFT: gl.constexpr,
):
    """Add the contribution of the key tiles from `low` to `high` to the gradients of a warp group's queries. Tile
    `low` has arrived.
    """
    zeros = gl.zeros((BLOCK_M, BLOCK_N), gl.float32, TILE)
    for i in range(low, high):
        slot = i % STAGES
        y = k.index(slot).reshape((BLOCK_N, BLOCK_D))
        z = v.index(slot).reshape((BLOCK_N, BLOCK_D))
        scores = hopper.warpgroup_mma(x, y.permute((1, 0)), zeros, use_acc=False, is_async=True)
        hopper.mbarrier.wait(v_ready.index(slot), i // STAGES & 1)
        changes = hopper.warpgroup_mma(h, z.permute((1, 0)), zeros, use_acc=False, is_async=True)
        scores = hopper.warpgroup_mma_wait(1, (scores,))
        if MASKED:
            key = i * BLOCK_N + gl.arange(0, BLOCK_N, gl.SliceLayout(0, TILE))
            seen = (key < length_k)[None, :]
            if CAUSAL:
                seen = seen & (key[None, :] <= query[:, None])
            wide = gl.exp2(gl.where(seen, scores * scale, float("-inf")) - lse[:, None])
        else:
            wide = gl.exp2(scores * scale - lse[:, None])
        # Here, so that the weights are computed before the wait behind it; see `warp_specialized_kernels`.
        hopper.mbarrier.wait(k_ready.index((i + 1) % STAGES), (i + 1) // STAGES & 1, pred=i + 1 < tiles)
        changes = hopper.warpgroup_mma_wait(0, (changes,))
        hopper.mbarrier.arrive(v_free.index(slot))
        left = gl.convert_layout((wide * (changes - relative[:, None])).to(k.dtype), LEFT)
        running = hopper.warpgroup_mma(left, y, sums, is_async=True)
        sums, _ = hopper.warpgroup_mma_wait(0, (running, left))
        hopper.mbarrier.arrive(k_free.index(slot))
    return sums


@gluon.jit
def gradients_of_queries(
    grad_q,
    logsumexp,
    delta,
    q,
    g,
    k,
    v,
    qg_ready,
    k_ready,
    v_ready,
    k_free,
    v_free,
    batch,
    head,
    heads,
    begin,
    tiles,
    length_q,
    length_k,
    scale,
    factor,
    GROUP: gl.constexpr,
    CAUSAL: gl.constexpr,
    BLOCK_M: gl.constexpr,
    BLOCK_N: gl.constexpr,
    BLOCK_D: gl.constexpr,
    STAGES: gl.constexpr,
):
    """Compute the gradients of a warp group's queries, from query `begin` on. Tiles of scores are (queries, keys)."""
    TILE: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_N, 16])
    SUMS: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_D, 16])
    LEFT: gl.constexpr = gl.DotOperandLayout(0, SUMS, 2)
    query = begin + gl.arange(0, BLOCK_M, gl.SliceLayout(1, TILE))
    exists = query < length_q
    line = ((batch * heads + head).to(gl.int64)) * length_q
    lse = gl.load(logsumexp + line + query, mask=exists, other=float("inf")) * 1.4426950408889634
    relative = gl.load(delta + line + query, mask=exists, other=0)
    x = q.index(GROUP).reshape((BLOCK_M, BLOCK_D))
    h = g.index(GROUP).reshape((BLOCK_M, BLOCK_D))
    sums = gl.zeros((BLOCK_M, BLOCK_D), gl.float32, SUMS)
    seen_by_all = length_k
    if CAUSAL:
        seen_by_all = gl.minimum(length_k, begin + 1)
    plain = seen_by_all // BLOCK_N
    hopper.mbarrier.wait(qg_ready, 0)
    hopper.mbarrier.wait(k_ready.index(0), 0)
    sums = add_tiles_of_keys(
        sums, x, h, k, v, k_ready, v_ready, k_free, v_free, 0, plain, tiles, query, lse, relative, length_k, scale,
        False, CAUSAL, BLOCK_M, BLOCK_N, BLOCK_D, STAGES, TILE, LEFT,
    )  # fmt: skip
    sums = add_tiles_of_keys(
        sums, x, h, k, v, k_ready, v_ready, k_free, v_free, plain, tiles, tiles, query, lse, relative, length_k, scale,
        True, CAUSAL, BLOCK_M, BLOCK_N, BLOCK_D, STAGES, TILE, LEFT,
    )  # fmt: skip
    # The group's queries are not needed any more.
    x.store((sums * factor).to(q.dtype))
    hopper.fence_async_shared()
    hopper.tma.async_store(grad_q, [batch, head, begin, 0], q.index(GROUP))
    hopper.tma.store_wait(0)


@gluon.jit
def copy_keys(
    q,
    grad,
    k,
    v,
    q_all,
    g_all,
    k_all,
    v_all,
    qg_ready,
    k_ready,
    v_ready,
    k_free,
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
    """Both groups' queries and gradients of the output, then keys and values."""
    hopper.mbarrier.expect(qg_ready, 2 * (q.nbytes_per_cta + grad.nbytes_per_cta))
    for part in gl.static_range(2):
        place = [batch, head, begin + part * BLOCK_M, 0]
        hopper.tma.async_load(q, place, qg_ready, q_all.index(part))
        hopper.tma.async_load(grad, place, qg_ready, g_all.index(part))
    for i in range(tiles):
        slot, phase = i % STAGES, i // STAGES & 1 ^ 1
        place = [batch, head_k, i * BLOCK_N, 0]
        hopper.mbarrier.wait(k_free.index(slot), phase)
        hopper.mbarrier.expect(k_ready.index(slot), k.nbytes_per_cta)
        hopper.tma.async_load(k, place, k_ready.index(slot), k_all.index(slot))
        hopper.mbarrier.wait(v_free.index(slot), phase)
        hopper.mbarrier.expect(v_ready.index(slot), v.nbytes_per_cta)
        hopper.tma.async_load(v, place, v_ready.index(slot), v_all.index(slot))


@gluon.jit
def attention_backward_queries_warp_specialized(
    q,
    k,
    v,
    grad,
    logsumexp,
    delta,
    grad_q,
    length_q,
    length_k,
    heads,
    group,
    scale,
    factor,
    CAUSAL: gl.constexpr,
    BLOCK_M: gl.constexpr,
    BLOCK_N: gl.constexpr,
    BLOCK_D: gl.constexpr,
    BLOCK_DV: gl.constexpr,
    STAGES: gl.constexpr,
):
    """Compute the gradients of a block of queries of one head.

    Operands and the gradient are described as (batch, heads, length, head); `BLOCK_DV` is `BLOCK_D`, and blocks of
    `q`, `grad` and `grad_q` have half of `BLOCK_M` rows.
    """
    HALF: gl.constexpr = BLOCK_M // 2
    blocks = gl.cdiv(length_q, BLOCK_M)
    program = gl.program_id(0)
    # The longest rows of a causal mask first, so that the last programs to start are short ones.
    begin = (blocks - 1 - program % blocks) * BLOCK_M
    batch = program // blocks // heads
    head = program // blocks % heads
    head_k = head // group
    stop = length_k
    if CAUSAL:
        stop = gl.minimum(length_k, begin + BLOCK_M)
    tiles = gl.cdiv(stop, BLOCK_N)
    q_all = gl.allocate_shared_memory(q.dtype, [2, 1, 1, HALF, BLOCK_D], q.layout)
    g_all = gl.allocate_shared_memory(q.dtype, [2, 1, 1, HALF, BLOCK_D], grad.layout)
    k_all = gl.allocate_shared_memory(k.dtype, [STAGES, 1, 1, BLOCK_N, BLOCK_D], k.layout)
    v_all = gl.allocate_shared_memory(v.dtype, [STAGES, 1, 1, BLOCK_N, BLOCK_D], v.layout)
    qg_ready = hopper.mbarrier.allocate_mbarrier()
    k_ready = hopper.mbarrier.allocate_mbarrier(batch=STAGES)
    v_ready = hopper.mbarrier.allocate_mbarrier(batch=STAGES)
    k_free = hopper.mbarrier.allocate_mbarrier(batch=STAGES)
    v_free = hopper.mbarrier.allocate_mbarrier(batch=STAGES)
    hopper.mbarrier.init(qg_ready, 1)
    for i in gl.static_range(STAGES):
        hopper.mbarrier.init(k_ready.index(i), 1)
        hopper.mbarrier.init(v_ready.index(i), 1)
        hopper.mbarrier.init(k_free.index(i), 2)
        hopper.mbarrier.init(v_free.index(i), 2)
    hopper.fence_async_shared()
    gl.warp_specialize(
        [
            (gradients_of_queries, (
                grad_q, logsumexp, delta, q_all, g_all, k_all, v_all, qg_ready, k_ready, v_ready, k_free, v_free,
                batch, head, heads, begin, tiles, length_q, length_k, scale, factor, 0, CAUSAL, HALF, BLOCK_N,
                BLOCK_D, STAGES,
            )),
            (gradients_of_queries, (
                grad_q, logsumexp, delta, q_all, g_all, k_all, v_all, qg_ready, k_ready, v_ready, k_free, v_free,
                batch, head, heads, begin + HALF, tiles, length_q, length_k, scale, factor, 1, CAUSAL, HALF, BLOCK_N,
                BLOCK_D, STAGES,
            )),
            (copy_keys, (
                q, grad, k, v, q_all, g_all, k_all, v_all, qg_ready, k_ready, v_ready, k_free, v_free, batch, head,
                head_k, begin, tiles, HALF, BLOCK_N, STAGES,
            )),
        ],
        [4, 4],
        [240, 24],
    )  # fmt: skip


PUT_BY = (
    48,
    "of a head of 128, sums, scores and their changes have 192 of a thread's 240 registers, and weights, logarithms "
    "and places of queries the rest: up to 12 numbers wait in local memory while a tile is masked",
)

for kernel, configurations, products, outputs, local in (
    (attention_backward_keys_warp_specialized, KEYS_SPECIALIZED, 4, ("grad_k", "grad_v"), {"CAUSAL": PUT_BY}),
    (attention_backward_queries_warp_specialized, QUERIES_SPECIALIZED, 3, ("grad_q",), {}),
):
    declare(
        kernel,
        why="a block's registers are a multiprocessor's; what one group of warps waits for, the other one hides",
        operand="q",
        tile=("BLOCK_M", "BLOCK_N", "BLOCK_D", "BLOCK_DV"),
        dtypes={("bf16", "fp16"): configurations},
        operations=f"{2 * products} h l s d, half of it under a causal mask, and h l s exponentials",
        traffic="h (l + s) 2 d itemsize + 8 h l, and what a block reads of the other side that it does not find in L2",
        loads=("q", "k", "v", "grad"),
        stores=outputs,
        tensor_cores=("bf16", "fp16"),
        local=local,
    )
