"""Attention's forward pass for sm_90 in Gluon: matmuls of one tile overlap the softmax of another.

Shah, Bikshandi, Zhang, Thakkar, Ramani, Dao, "FlashAttention-3: fast and accurate attention with asynchrony
and low-precision", 2024. A thread block has four warps that copy (TMA) and two or three groups of four that
compute, each with its own 64 queries: 384 or 512 threads. One warp would do for the copies, but register
counts are set for four warps at a time.

Keys and values go through ring buffers of `STAGES` tiles, with a full barrier for each tile and an empty
barrier at which all groups arrive. A group issues the scores of a tile, then the previous tile's matmul by
its values. It waits for the scores alone (``wgmma.wait_group 1``), and computes their softmax while the other
matmul runs. The groups alternate in issuing, so that their softmaxes do not coincide.

The compiler does not know the purpose of a wait, and ptxas hoists it above the softmax if it can. It cannot
hoist across a branch, so the wait for the next tile of keys is between the softmax and `wait_group 0`.

Tiles are visited from the last to the first. Only a group's first tile has a mask: its 64 rows cross the
diagonal in one tile of at least 64 keys. A group skips the tiles behind its diagonal. Other than that, the
numerics are those of `forward_kernels`.

Two constants select other forms of the kernel:

- PERSISTENT: a block computes several blocks of queries one after the other. The warps that copy run ahead
  into the next one, so that its first tiles arrive while the groups finish the last one.
- SLACK: the reference of a row's exponents follows the row's maximum only when the maximum is more than
  SLACK powers of two above it, as in FlashAttention-4. Sums are rescaled only if a row of the group needs
  it, by a branch. A weight is then at most 2 ** SLACK instead of 1. Weights round relative to their size,
  sums are float32, and the final division cancels the reference, so that the error bound stays the same.
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
    SLACK: gl.constexpr,
    TILE: gl.constexpr,
):
    """Return a tile's weights, the updated reference and sum, and the factor that rescales earlier sums.

    `row_max` is the reference of a row's exponents: its running maximum, or with SLACK a number that the maximum
    exceeds by at most so many powers of two.
    """
    if MASKED:
        key = start + gl.arange(0, BLOCK_N, gl.SliceLayout(0, TILE))
        seen = (key < length_k)[None, :]
        if CAUSAL:
            seen = seen & (key[None, :] <= query[:, None])
        scores = gl.where(seen, scores, float("-inf"))
    highest = gl.maximum(row_max, gl.max(scores, 1))
    if SLACK:
        # The difference of two minus infinities is NaN, which is not greater.
        moves = (highest - row_max) * scale > SLACK
        highest = gl.where(moves, highest, row_max)
    # If all scores so far are minus infinity, their differences to 0 are too.
    shift = gl.where(highest == float("-inf"), 0.0, highest)
    weights = gl.exp2(scores * scale - (shift * scale)[:, None])
    shrink = gl.exp2(row_max * scale - shift * scale)
    if SLACK:
        shrink = gl.where(moves, shrink, 1.0)
    sums = sums * shrink + gl.sum(weights, 1)
    return weights, highest, sums, shrink


@gluon.jit
def place_of(
    item,
    items,
    section,
    length_q,
    length_k,
    heads,
    CAUSAL: gl.constexpr,
    BLOCK_M: gl.constexpr,
    BLOCK_N: gl.constexpr,
):
    """Return the batch, head, first query and number of key tiles of a block of queries.

    Items go through sections of `section` heads, whose keys and values stay in L2. Within a section the blocks with the
    most keys come first.
    """
    blocks = gl.cdiv(length_q, BLOCK_M)
    first = item // (section * blocks) * section
    own = gl.minimum(section, items // blocks - first)
    rest = item - first * blocks
    begin = (blocks - 1 - rest // own) * BLOCK_M
    line = first + rest % own
    stop = length_k
    if CAUSAL:
        stop = gl.minimum(length_k, begin + BLOCK_M)
    return line // heads, line % heads, begin, gl.cdiv(stop, BLOCK_N)


@gluon.jit
def count_of(items):
    """Return how many items a block computes."""
    waves = items // gl.num_programs(0)
    return waves + (item_of(waves) < items).to(gl.int32)


@gluon.jit
def item_of(wave):
    """Return the item that a block computes as number `wave`: blocks take them in turn, forth and back."""
    program, programs = gl.program_id(0), gl.num_programs(0)
    return wave * programs + gl.where(wave % 2 == 0, program, programs - 1 - program)


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
    tiles,
    done,
    turn,
    query,
    length_k,
    scale,
    GROUP: gl.constexpr,
    GROUPS: gl.constexpr,
    BLOCK_M: gl.constexpr,
    BLOCK_N: gl.constexpr,
    BLOCK_D: gl.constexpr,
    STAGES: gl.constexpr,
    SLACK: gl.constexpr,
    TILE: gl.constexpr,
    SUMS: gl.constexpr,
    LEFT: gl.constexpr,
):
    """Return the running state after the key tiles from `low` on. The last tile of keys is number 0.

    `weights` are those of the previous tile, whose matmul by the values is not in `total` yet. The keys of tile
    `low` have arrived. The rings have had `done` tiles of earlier blocks of queries, and each group `turn` turns.
    """
    for i in range(low, tiles):
        slot, before = (done + i) % STAGES, (done + i - 1) % STAGES
        # The other groups issue in between; a barrier that nobody has passed lets the first group's first turn go.
        hopper.mbarrier.wait(turns.index(GROUP), (turn + i - 1 & 1) ^ (1 if GROUP == 0 else 0))
        zeros = gl.zeros((BLOCK_M, BLOCK_N), gl.float32, TILE)
        y = k.index(slot).reshape((BLOCK_N, BLOCK_D)).permute((1, 0))
        scores = hopper.warpgroup_mma(x, y, zeros, use_acc=False, is_async=True)
        hopper.mbarrier.wait(v_ready.index(before), (done + i - 1) // STAGES & 1)
        z = v.index(before).reshape((BLOCK_N, BLOCK_D))
        running = hopper.warpgroup_mma(weights, z, total, is_async=True)
        hopper.mbarrier.arrive(turns.index((GROUP + 1) % GROUPS))
        scores = hopper.warpgroup_mma_wait(1, (scores,))
        hopper.mbarrier.arrive(k_free.index(slot))
        start = (tiles - 1 - i) * BLOCK_N
        wide, row_max, sums, shrink = softmax_of_tile(
            scores, row_max, sums, start, query, length_k, scale, False, False, BLOCK_N, SLACK, TILE
        )
        after = done + i + 1
        hopper.mbarrier.wait(k_ready.index(after % STAGES), after // STAGES & 1, pred=i + 1 < tiles)
        total, _ = hopper.warpgroup_mma_wait(0, (running, weights))
        hopper.mbarrier.arrive(v_free.index(before))
        if SLACK:
            if gl.max((shrink != 1.0).to(gl.int32), 0) > 0:
                total = total * gl.convert_layout(shrink, gl.SliceLayout(1, SUMS))[:, None]
        else:
            total = total * gl.convert_layout(shrink, gl.SliceLayout(1, SUMS))[:, None]
        weights = gl.convert_layout(wide.to(v.dtype), LEFT)
    return total, weights, row_max, sums


@gluon.jit
def attend_to_queries(
    out,
    logsumexp,
    queries,
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
    q_phase,
    done,
    turn,
    length_q,
    length_k,
    scale,
    GROUP: gl.constexpr,
    GROUPS: gl.constexpr,
    CAUSAL: gl.constexpr,
    BLOCK_M: gl.constexpr,
    BLOCK_N: gl.constexpr,
    BLOCK_D: gl.constexpr,
    STAGES: gl.constexpr,
    SLACK: gl.constexpr,
    PERSISTENT: gl.constexpr,
):
    """Compute attention for a warp group's queries, from query `begin` on, which are in `queries`."""
    TILE: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_N, 16])
    SUMS: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_D, 16])
    LEFT: gl.constexpr = gl.DotOperandLayout(0, SUMS, 2)
    ROWS: gl.constexpr = gl.SliceLayout(1, TILE)
    query = begin + gl.arange(0, BLOCK_M, ROWS)
    x = queries.reshape((BLOCK_M, BLOCK_D))
    skipped = 0
    if CAUSAL and BLOCK_N < GROUPS * BLOCK_M:
        # Tiles behind the diagonal of this group, but not of the last one. There are at most as many as stages.
        skipped = tiles - gl.cdiv(gl.minimum(length_k, begin + BLOCK_M), BLOCK_N)
        for i in range(skipped):
            hopper.mbarrier.arrive(k_free.index((done + i) % STAGES))
            hopper.mbarrier.arrive(v_free.index((done + i) % STAGES))
            hopper.mbarrier.wait(turns.index(GROUP), (turn + i & 1) ^ (1 if GROUP == 0 else 0))
            hopper.mbarrier.arrive(turns.index((GROUP + 1) % GROUPS))
    hopper.mbarrier.wait(q_ready, q_phase)
    first = done + skipped
    slot = first % STAGES
    hopper.mbarrier.wait(k_ready.index(slot), first // STAGES & 1)
    zeros = gl.zeros((BLOCK_M, BLOCK_N), gl.float32, TILE)
    y = k.index(slot).reshape((BLOCK_N, BLOCK_D)).permute((1, 0))
    scores = hopper.warpgroup_mma(x, y, zeros, use_acc=False, is_async=True)
    scores = hopper.warpgroup_mma_wait(0, (scores,))
    hopper.mbarrier.arrive(k_free.index(slot))
    row_max = gl.full((BLOCK_M,), float("-inf"), gl.float32, ROWS)
    sums = gl.zeros((BLOCK_M,), gl.float32, ROWS)
    wide, row_max, sums, _ = softmax_of_tile(
        scores,
        row_max,
        sums,
        (tiles - 1 - skipped) * BLOCK_N,
        query,
        length_k,
        scale,
        True,
        CAUSAL,
        BLOCK_N,
        SLACK,
        TILE,
    )
    weights = gl.convert_layout(wide.to(v.dtype), LEFT)
    total = gl.zeros((BLOCK_M, BLOCK_D), gl.float32, SUMS)
    hopper.mbarrier.wait(
        k_ready.index((first + 1) % STAGES), (first + 1) // STAGES & 1, pred=skipped + 1 < tiles
    )
    total, weights, row_max, sums = attend_to_tiles(
        total, weights, row_max, sums, x, k, v, k_ready, k_free, v_ready, v_free, turns, skipped + 1, tiles, done, turn,
        query, length_k, scale, GROUP, GROUPS, BLOCK_M, BLOCK_N, BLOCK_D, STAGES, SLACK, TILE, SUMS, LEFT,
    )  # fmt: skip
    last = done + tiles - 1
    hopper.mbarrier.wait(v_ready.index(last % STAGES), last // STAGES & 1)
    z = v.index(last % STAGES).reshape((BLOCK_N, BLOCK_D))
    total = hopper.warpgroup_mma(weights, z, total, is_async=True)
    total = hopper.warpgroup_mma_wait(0, (total,))
    if PERSISTENT:
        hopper.mbarrier.arrive(v_free.index(last % STAGES))
    empty = sums == 0
    factor = gl.div_rn(1.0, gl.where(empty, 1.0, sums))
    # The group's queries are not needed any more.
    x.store((total * gl.convert_layout(factor, gl.SliceLayout(1, SUMS))[:, None]).to(queries.dtype))
    hopper.fence_async_shared()
    hopper.tma.async_store(out, [batch, head, begin, 0], queries)
    if logsumexp is not None:
        value = (row_max * scale + gl.log2(sums)) * 0.6931471805599453
        line = (batch.to(gl.int64) * heads + head) * length_q
        gl.store(logsumexp + line + query, gl.where(empty, 0.0, value), mask=query < length_q)
    hopper.tma.store_wait(0)


@gluon.jit
def compute(
    out,
    logsumexp,
    q,
    k,
    v,
    q_ready,
    q_free,
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
    items,
    section,
    length_q,
    length_k,
    scale,
    GROUP: gl.constexpr,
    GROUPS: gl.constexpr,
    CAUSAL: gl.constexpr,
    BLOCK_M: gl.constexpr,
    BLOCK_N: gl.constexpr,
    BLOCK_D: gl.constexpr,
    STAGES: gl.constexpr,
    SLACK: gl.constexpr,
):
    """Compute attention for a warp group's queries: of one block of queries, or of all `items` of this thread block."""
    if items is None:
        attend_to_queries(
            out, logsumexp, q.index(GROUP), k, v, q_ready.index(GROUP), k_ready, k_free, v_ready, v_free, turns, batch,
            head, heads, begin + GROUP * BLOCK_M, tiles, 0, 0, 0, length_q, length_k, scale, GROUP, GROUPS, CAUSAL,
            BLOCK_M, BLOCK_N, BLOCK_D, STAGES, SLACK, False,
        )  # fmt: skip
    else:
        done = 0
        for wave in range(count_of(items)):
            batch, head, begin, tiles = place_of(
                item_of(wave), items, section, length_q, length_k, heads, CAUSAL, GROUPS * BLOCK_M, BLOCK_N
            )
            place = wave % 2 * GROUPS + GROUP
            attend_to_queries(
                out, logsumexp, q.index(place), k, v, q_ready.index(place), k_ready, k_free, v_ready, v_free, turns,
                batch, head, heads, begin + GROUP * BLOCK_M, tiles, wave // 2 & 1, done, done - wave, length_q,
                length_k, scale, GROUP, GROUPS, CAUSAL, BLOCK_M, BLOCK_N, BLOCK_D, STAGES, SLACK, True,
            )  # fmt: skip
            hopper.mbarrier.arrive(q_free.index(place))
            done += tiles


@gluon.jit
def copy_keys_and_values(
    k,
    v,
    k_all,
    v_all,
    k_ready,
    k_free,
    v_ready,
    v_free,
    batch,
    head_k,
    tiles,
    done,
    BLOCK_N: gl.constexpr,
    STAGES: gl.constexpr,
):
    """Copy keys and values, the last tile first, whenever a place in the rings is free."""
    for i in range(tiles):
        slot, phase = (done + i) % STAGES, (done + i) // STAGES & 1 ^ 1
        place = [batch, head_k, (tiles - 1 - i) * BLOCK_N, 0]
        hopper.mbarrier.wait(k_free.index(slot), phase)
        hopper.mbarrier.expect(k_ready.index(slot), k.nbytes_per_cta)
        hopper.tma.async_load(k, place, k_ready.index(slot), k_all.index(slot))
        hopper.mbarrier.wait(v_free.index(slot), phase)
        hopper.mbarrier.expect(v_ready.index(slot), v.nbytes_per_cta)
        hopper.tma.async_load(v, place, v_ready.index(slot), v_all.index(slot))


@gluon.jit
def copy(
    q,
    k,
    v,
    q_all,
    k_all,
    v_all,
    q_ready,
    q_free,
    k_ready,
    k_free,
    v_ready,
    v_free,
    batch,
    head,
    heads,
    group,
    begin,
    tiles,
    items,
    section,
    length_q,
    length_k,
    GROUPS: gl.constexpr,
    CAUSAL: gl.constexpr,
    BLOCK_M: gl.constexpr,
    BLOCK_N: gl.constexpr,
    STAGES: gl.constexpr,
):
    """Copy the queries of all groups, then their keys and values."""
    if items is None:
        for i in gl.static_range(GROUPS):
            hopper.mbarrier.expect(q_ready.index(i), q.nbytes_per_cta)
            hopper.tma.async_load(q, [batch, head, begin + i * BLOCK_M, 0], q_ready.index(i), q_all.index(i))
        copy_keys_and_values(
            k,
            v,
            k_all,
            v_all,
            k_ready,
            k_free,
            v_ready,
            v_free,
            batch,
            head // group,
            tiles,
            0,
            BLOCK_N,
            STAGES,
        )
    else:
        done = 0
        for wave in range(count_of(items)):
            batch, head, begin, tiles = place_of(
                item_of(wave), items, section, length_q, length_k, heads, CAUSAL, GROUPS * BLOCK_M, BLOCK_N
            )
            for i in gl.static_range(GROUPS):
                place = wave % 2 * GROUPS + i
                hopper.mbarrier.wait(q_free.index(place), wave // 2 & 1 ^ 1)
                hopper.mbarrier.expect(q_ready.index(place), q.nbytes_per_cta)
                hopper.tma.async_load(
                    q, [batch, head, begin + i * BLOCK_M, 0], q_ready.index(place), q_all.index(place)
                )
            copy_keys_and_values(
                k,
                v,
                k_all,
                v_all,
                k_ready,
                k_free,
                v_ready,
                v_free,
                batch,
                head // group,
                tiles,
                done,
                BLOCK_N,
                STAGES,
            )
            done += tiles


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
    items,
    section,
    scale,
    CAUSAL: gl.constexpr,
    BLOCK_M: gl.constexpr,
    BLOCK_N: gl.constexpr,
    BLOCK_D: gl.constexpr,
    BLOCK_DV: gl.constexpr,
    STAGES: gl.constexpr,
    PERSISTENT: gl.constexpr,
    SLACK: gl.constexpr,
):
    """Compute attention for a block of queries of one head, or if PERSISTENT for this block's share of `items` such
    blocks. All four tensor descriptors are (batch, heads, length, head dim).

    There is at least one key, `BLOCK_DV` is `BLOCK_D`, and blocks of `q` and `out` have 64 rows.
    """
    ROWS: gl.constexpr = 64
    GROUPS: gl.constexpr = BLOCK_M // ROWS
    # The queries of a persistent block's next item arrive while it computes.
    PLACES: gl.constexpr = 2 * GROUPS if PERSISTENT else GROUPS
    blocks = gl.cdiv(length_q, BLOCK_M)
    program = gl.program_id(0)
    # The longest rows of a causal mask first, so that the last programs to start are short ones.
    block = blocks - 1 - program % blocks
    batch = program // blocks // heads
    head = program // blocks % heads
    if program == 0:
        gl.store(draws_seed, 0)
        gl.store(draws_offset, 0)
    begin = block * BLOCK_M
    stop = length_k
    if CAUSAL:
        stop = gl.minimum(length_k, begin + BLOCK_M)
    tiles = gl.cdiv(stop, BLOCK_N)
    q_all = gl.allocate_shared_memory(q.dtype, [PLACES, 1, 1, ROWS, BLOCK_D], q.layout)
    k_all = gl.allocate_shared_memory(k.dtype, [STAGES, 1, 1, BLOCK_N, BLOCK_D], k.layout)
    v_all = gl.allocate_shared_memory(v.dtype, [STAGES, 1, 1, BLOCK_N, BLOCK_D], v.layout)
    q_ready = hopper.mbarrier.allocate_mbarrier(batch=PLACES)
    q_free = q_ready
    if PERSISTENT:
        q_free = hopper.mbarrier.allocate_mbarrier(batch=PLACES)
    k_ready = hopper.mbarrier.allocate_mbarrier(batch=STAGES)
    k_free = hopper.mbarrier.allocate_mbarrier(batch=STAGES)
    v_ready = hopper.mbarrier.allocate_mbarrier(batch=STAGES)
    v_free = hopper.mbarrier.allocate_mbarrier(batch=STAGES)
    turns = hopper.mbarrier.allocate_mbarrier(batch=GROUPS)
    for i in gl.static_range(PLACES):
        hopper.mbarrier.init(q_ready.index(i), 1)
        if PERSISTENT:
            hopper.mbarrier.init(q_free.index(i), 1)
    for i in gl.static_range(GROUPS):
        hopper.mbarrier.init(turns.index(i), 1)
    for i in gl.static_range(STAGES):
        hopper.mbarrier.init(k_ready.index(i), 1)
        hopper.mbarrier.init(v_ready.index(i), 1)
        hopper.mbarrier.init(k_free.index(i), GROUPS)
        hopper.mbarrier.init(v_free.index(i), GROUPS)
    hopper.fence_async_shared()
    # A tuple with a name would make values of its constants. A thread that computes has 240 registers, or 160 in three
    # groups, and one that copies 24: 168 each, or 128, when the block starts.
    if GROUPS == 3:
        gl.warp_specialize(
            [
                (compute, (
                    out, logsumexp, q_all, k_all, v_all, q_ready, q_free, k_ready, k_free, v_ready, v_free, turns,
                    batch, head, heads, begin, tiles, items, section, length_q, length_k, scale, 0, GROUPS, CAUSAL,
                    ROWS, BLOCK_N, BLOCK_D, STAGES, SLACK,
                )),
                (compute, (
                    out, logsumexp, q_all, k_all, v_all, q_ready, q_free, k_ready, k_free, v_ready, v_free, turns,
                    batch, head, heads, begin, tiles, items, section, length_q, length_k, scale, 1, GROUPS, CAUSAL,
                    ROWS, BLOCK_N, BLOCK_D, STAGES, SLACK,
                )),
                (compute, (
                    out, logsumexp, q_all, k_all, v_all, q_ready, q_free, k_ready, k_free, v_ready, v_free, turns,
                    batch, head, heads, begin, tiles, items, section, length_q, length_k, scale, 2, GROUPS, CAUSAL,
                    ROWS, BLOCK_N, BLOCK_D, STAGES, SLACK,
                )),
                (copy, (
                    q, k, v, q_all, k_all, v_all, q_ready, q_free, k_ready, k_free, v_ready, v_free, batch, head, heads,
                    group, begin, tiles, items, section, length_q, length_k, GROUPS, CAUSAL, ROWS, BLOCK_N, STAGES,
                )),
            ],
            [4, 4, 4],
            [160, 160, 24],
        )  # fmt: skip
    else:
        gl.warp_specialize(
            [
                (compute, (
                    out, logsumexp, q_all, k_all, v_all, q_ready, q_free, k_ready, k_free, v_ready, v_free, turns,
                    batch, head, heads, begin, tiles, items, section, length_q, length_k, scale, 0, GROUPS, CAUSAL,
                    ROWS, BLOCK_N, BLOCK_D, STAGES, SLACK,
                )),
                (compute, (
                    out, logsumexp, q_all, k_all, v_all, q_ready, q_free, k_ready, k_free, v_ready, v_free, turns,
                    batch, head, heads, begin, tiles, items, section, length_q, length_k, scale, 1, GROUPS, CAUSAL,
                    ROWS, BLOCK_N, BLOCK_D, STAGES, SLACK,
                )),
                (copy, (
                    q, k, v, q_all, k_all, v_all, q_ready, q_free, k_ready, k_free, v_ready, v_free, batch, head, heads,
                    group, begin, tiles, items, section, length_q, length_k, GROUPS, CAUSAL, ROWS, BLOCK_N, STAGES,
                )),
            ],
            [4, 4],
            [240, 24],
        )  # fmt: skip


declare(
    attention_warp_specialized,
    why="a block's registers are a multiprocessor's; what one group of warps waits for, the other one hides",
    operand="q",
    tile=("BLOCK_M", "BLOCK_N", "BLOCK_D", "BLOCK_DV", "PERSISTENT", "SLACK"),
    dtypes={("bf16", "fp16"): FORWARD_SPECIALIZED},
    operations="2 h l s (d + dv), half of it under a causal mask, and h l s exponentials",
    traffic="h l (d + dv) itemsize + 4 h l, and keys and values for every tile of queries that does not find them in "
    "L2",
    loads=("q", "k", "v"),
    stores=("out",),
    tensor_cores=("bf16", "fp16"),
)
