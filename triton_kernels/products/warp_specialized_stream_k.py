"""Stream-K matmuls for sm_90 in Gluon: four warps copy, and four for every 64 rows of a tile multiply.

The steps, slots and sums are those of `stream_k_kernels`, in the same order. The copying warps run ahead through a ring
buffer of `STAGES`, across tiles: while a tile's sums are stored, or added, the next tiles' operands arrive. A group of
warps has a counter of its own for each tile, since it stores and adds its own 64 rows.
"""

from ...runtime.cuda.triton.lazy_gluon import gl, gluon, hopper
from ..budget import Configuration, declare
from .product import tile_of
from .split_k import store_sums
from .stream_k_kernels import OTHER_KERNEL


@gluon.jit
def is_last(counter, programs):
    """Return True in the group of warps that arrives last, which can read what others stored; the counter is then 0."""
    gl.barrier()
    last = gl.atomic_add(counter, 1, sem="acq_rel") == programs - 1
    gl.atomic_xchg(counter, 0, mask=last, sem="relaxed")
    return last


@gluon.jit
def multiply(
    addend,
    out,
    parts,
    counters,
    a_all,
    b_all,
    ready,
    free,
    m,
    n,
    steps,
    share,
    begin,
    end,
    oz,
    om,
    on,
    sz,
    sm,
    sn,
    alpha,
    beta,
    GROUP: gl.constexpr,
    ACTIVATION: gl.constexpr,
    A_TRANSPOSED: gl.constexpr,
    B_TRANSPOSED: gl.constexpr,
    BLOCK_M: gl.constexpr,
    BLOCK_N: gl.constexpr,
    BLOCK_K: gl.constexpr,
    STAGES: gl.constexpr,
):
    """Compute a warp group's 64 rows of every tile that the program has steps of."""
    GROUPS: gl.constexpr = BLOCK_M // 64
    SUMS: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_N, 16])
    tiles_m, tiles_n = gl.cdiv(m, BLOCK_M), gl.cdiv(n, BLOCK_N)
    each = tiles_m * tiles_n
    program = gl.program_id(0)
    lines = GROUP * 64 + gl.arange(0, 64, gl.SliceLayout(1, SUMS))
    places = gl.arange(0, BLOCK_N, gl.SliceLayout(0, SUMS))
    for tile in range(begin // steps, gl.cdiv(end, steps)):
        start = tile * steps
        low, high = gl.maximum(begin, start) - begin, gl.minimum(end, start + steps) - begin
        total = gl.zeros((64, BLOCK_N), gl.float32, SUMS)
        for step in range(low, high):
            slot = step % STAGES
            hopper.mbarrier.wait(ready.index(slot), step // STAGES & 1)
            if A_TRANSPOSED:
                x = a_all.index(GROUPS * slot + GROUP).reshape((BLOCK_K, 64)).permute((1, 0))
            else:
                x = a_all.index(GROUPS * slot + GROUP).reshape((64, BLOCK_K))
            if B_TRANSPOSED:
                y = b_all.index(slot).reshape((BLOCK_N, BLOCK_K)).permute((1, 0))
            else:
                y = b_all.index(slot).reshape((BLOCK_K, BLOCK_N))
            running = hopper.warpgroup_mma(x, y, total, is_async=True)
            total = hopper.warpgroup_mma_wait(1, (running,))
            # The products of the step before are done.
            hopper.mbarrier.arrive(free.index((step - 1) % STAGES), pred=step > low)
        total = hopper.warpgroup_mma_wait(0, (total,))
        # There are steps: the branch keeps ptxas from computing the epilogue before it frees the place.
        if high > low:
            hopper.mbarrier.arrive(free.index((high - 1) % STAGES))
        tile_m, tile_n = tile_of(tile % each, tiles_m, tiles_n, 8)
        rows, columns = tile_m * BLOCK_M + lines, tile_n * BLOCK_N + places
        mask = (rows < m)[:, None] & (columns < n)[None, :]
        first, last = start // share, (start + steps - 1) // share
        is_whole = first == last
        if not is_whole:
            place = lines[:, None] * BLOCK_N + places[None, :]
            own = program * 2 + (program == first).to(gl.int32)
            gl.store(parts + own.to(gl.int64) * (BLOCK_M * BLOCK_N) + place, total, mask=mask)
            is_whole = is_last(counters + tile * GROUPS + GROUP, last - first + 1)
            if is_whole:
                total = gl.zeros((64, BLOCK_N), gl.float32, SUMS)
                for other in range(first, last + 1):
                    own = other * 2 + (other == first).to(gl.int32)
                    part = parts + own.to(gl.int64) * (BLOCK_M * BLOCK_N) + place
                    total += gl.load(part, mask=mask, other=0)
        if is_whole:
            store_sums(
                total, addend, out, None, None, None, (tile // each).to(gl.int64), rows, columns, mask, m, n,
                oz, om, on, sz, sm, sn, alpha, beta, ACTIVATION, False, False,
            )  # fmt: skip


@gluon.jit
def copy(
    a,
    b,
    a_all,
    b_all,
    ready,
    free,
    m,
    n,
    steps,
    begin,
    end,
    A_BATCHED: gl.constexpr,
    B_BATCHED: gl.constexpr,
    A_TRANSPOSED: gl.constexpr,
    B_TRANSPOSED: gl.constexpr,
    BLOCK_M: gl.constexpr,
    BLOCK_N: gl.constexpr,
    BLOCK_K: gl.constexpr,
    STAGES: gl.constexpr,
):
    """Copy the operands of every step of the program, whenever a place in the ring is free."""
    GROUPS: gl.constexpr = BLOCK_M // 64
    tiles_m, tiles_n = gl.cdiv(m, BLOCK_M), gl.cdiv(n, BLOCK_N)
    each = tiles_m * tiles_n
    for tile in range(begin // steps, gl.cdiv(end, steps)):
        batch = tile // each
        tile_m, tile_n = tile_of(tile % each, tiles_m, tiles_n, 8)
        row, column = tile_m * BLOCK_M, tile_n * BLOCK_N
        batch_a = batch if A_BATCHED else 0
        batch_b = batch if B_BATCHED else 0
        start = tile * steps
        for index in range(gl.maximum(begin, start), gl.minimum(end, start + steps)):
            step = index - begin
            slot = step % STAGES
            inner = (index - start) * BLOCK_K
            hopper.mbarrier.wait(free.index(slot), step // STAGES & 1 ^ 1)
            hopper.mbarrier.expect(ready.index(slot), GROUPS * a.nbytes_per_cta + b.nbytes_per_cta)
            for group in gl.static_range(GROUPS):
                destination = a_all.index(GROUPS * slot + group)
                if A_TRANSPOSED:
                    hopper.tma.async_load(
                        a, [batch_a, inner, row + group * 64], ready.index(slot), destination
                    )
                else:
                    hopper.tma.async_load(
                        a, [batch_a, row + group * 64, inner], ready.index(slot), destination
                    )
            if B_TRANSPOSED:
                hopper.tma.async_load(b, [batch_b, column, inner], ready.index(slot), b_all.index(slot))
            else:
                hopper.tma.async_load(b, [batch_b, inner, column], ready.index(slot), b_all.index(slot))


@gluon.jit
def matmul_stream_k_specialized(
    a,
    b,
    addend,
    out,
    parts,
    counters,
    m,
    n,
    k,
    batches,
    share,
    oz,
    om,
    on,
    sz,
    sm,
    sn,
    alpha,
    beta,
    A_BATCHED: gl.constexpr,
    B_BATCHED: gl.constexpr,
    A_TRANSPOSED: gl.constexpr,
    B_TRANSPOSED: gl.constexpr,
    ACTIVATION: gl.constexpr,
    BLOCK_M: gl.constexpr,
    BLOCK_N: gl.constexpr,
    BLOCK_K: gl.constexpr,
    STAGES: gl.constexpr,
):
    """Operands are described as (batch, lines, elements); blocks of `a` have 64 rows. A program has at least a step."""
    GROUPS: gl.constexpr = BLOCK_M // 64
    steps = gl.cdiv(k, BLOCK_K)
    begin = gl.program_id(0) * share
    end = gl.minimum(begin + share, gl.cdiv(m, BLOCK_M) * gl.cdiv(n, BLOCK_N) * batches * steps)
    a_all = gl.allocate_shared_memory(
        a.dtype, [GROUPS * STAGES, 1, a.block_shape[1], a.block_shape[2]], a.layout
    )
    b_all = gl.allocate_shared_memory(b.dtype, [STAGES, 1, b.block_shape[1], b.block_shape[2]], b.layout)
    ready = hopper.mbarrier.allocate_mbarrier(batch=STAGES)
    free = hopper.mbarrier.allocate_mbarrier(batch=STAGES)
    for i in gl.static_range(STAGES):
        hopper.mbarrier.init(ready.index(i), 1)
        hopper.mbarrier.init(free.index(i), GROUPS)
    hopper.fence_async_shared()
    if GROUPS == 1:
        gl.warp_specialize(
            [
                (multiply, (
                    addend, out, parts, counters, a_all, b_all, ready, free, m, n, steps, share, begin, end,
                    oz, om, on, sz, sm, sn, alpha, beta, 0, ACTIVATION, A_TRANSPOSED, B_TRANSPOSED,
                    BLOCK_M, BLOCK_N, BLOCK_K, STAGES,
                )),
                (copy, (
                    a, b, a_all, b_all, ready, free, m, n, steps, begin, end, A_BATCHED, B_BATCHED,
                    A_TRANSPOSED, B_TRANSPOSED, BLOCK_M, BLOCK_N, BLOCK_K, STAGES,
                )),
            ],
            [4],
            [24],
        )  # fmt: skip
    else:
        gl.warp_specialize(
            [
                (multiply, (
                    addend, out, parts, counters, a_all, b_all, ready, free, m, n, steps, share, begin, end,
                    oz, om, on, sz, sm, sn, alpha, beta, 0, ACTIVATION, A_TRANSPOSED, B_TRANSPOSED,
                    BLOCK_M, BLOCK_N, BLOCK_K, STAGES,
                )),
                (multiply, (
                    addend, out, parts, counters, a_all, b_all, ready, free, m, n, steps, share, begin, end,
                    oz, om, on, sz, sm, sn, alpha, beta, 1, ACTIVATION, A_TRANSPOSED, B_TRANSPOSED,
                    BLOCK_M, BLOCK_N, BLOCK_K, STAGES,
                )),
                (copy, (
                    a, b, a_all, b_all, ready, free, m, n, steps, begin, end, A_BATCHED, B_BATCHED,
                    A_TRANSPOSED, B_TRANSPOSED, BLOCK_M, BLOCK_N, BLOCK_K, STAGES,
                )),
            ],
            [4, 4],
            [240, 24],
        )  # fmt: skip


FEW_ROWS = (
    Configuration((64, 128, 64), 4, 8, {90: 1}, resident=8),
    Configuration((64, 64, 64), 4, 12, {90: 1}, resident=8),
    Configuration((64, 256, 64), 4, 5, {90: 1}, resident=8),
)
MANY_ROWS = (Configuration((128, 128, 64), 4, 6, {90: 1}, resident=12),)
"""A group's 64x256 sums spill beside the addresses of a part."""

declare(
    matmul_stream_k_specialized,
    why="a block's shared memory is a multiprocessor's: a ring of stages that is never empty between tiles",
    operand="a",
    tile=("BLOCK_M", "BLOCK_N", "BLOCK_K"),
    dtypes={("bf16", "fp16"): (*FEW_ROWS, *MANY_ROWS, OTHER_KERNEL)},
    operations="2 m n k",
    traffic="(m k + k n + m n) itemsize, and 8 bytes for each sum of a tile's part that another program adds",
    loads=("a", "b"),
    tensor_cores=("bf16", "fp16"),
)
