"""Matmuls for sm_90 in Gluon: one group of warps stores its part of a tile while another multiplies.

A thread block has 384 threads: four warps copy (TMA), and two groups of four compute a tile of `BLOCK_M` rows
together, each its own half of the rows, so that both multiply by the same columns of `b`. Tiles of `a` and
`b` go through a ring buffer of `STAGES`, with a full barrier for each slot and an empty barrier at which both
groups arrive. Copies run ahead across tiles of the output. The second group starts `LAG` steps after the
first, and stays behind it. While the first stores, the second has the tensor cores, and vice versa at the
start of the next tile. The ring holds the tiles of both groups, so `LAG` is less than half of it.

Two groups with a tile each (ping-pong) could be a whole tile apart. But a group has registers for 128x128 or
64x256 sums, whose operands are 4/3 or 5/3 of the bytes of those of 128x256 sums: 64 or 80 from L2 in a cycle
of full-rate matmul, instead of 48.

Sums are those of `persistent`: along K in order, in float32. Source: CUTLASS, "Efficient GEMM in CUDA", of
warp-specialised persistent kernels.
"""

from ...runtime.cuda.triton.lazy_gluon import gl, gluon, hopper
from ...runtime.cuda.triton.lazy_triton import libdevice
from ..budget import Configuration, declare
from .product import tile_of


@gluon.jit
def columns_in_two(x, ROWS: gl.constexpr, COLUMNS: gl.constexpr):
    """Split a tile's columns into halves; each half has registers of its own, so no data moves."""
    HALF: gl.constexpr = COLUMNS // 2
    PART: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, HALF, 16])
    left, right = x.reshape((ROWS, 2, HALF)).permute((0, 2, 1)).split()
    return gl.convert_layout(left, PART, assert_trivial=True), gl.convert_layout(
        right, PART, assert_trivial=True
    )


@gluon.jit
def in_parts(x, ROWS: gl.constexpr, COLUMNS: gl.constexpr, PART: gl.constexpr):
    """Return the parts of a tile with `PART` columns each, from left to right."""
    if COLUMNS == PART:
        return (x,)
    else:
        left, right = columns_in_two(x, ROWS, COLUMNS)
        return in_parts(left, ROWS, COLUMNS // 2, PART) + in_parts(right, ROWS, COLUMNS // 2, PART)


@gluon.jit
def finished(
    total,
    addend,
    batch,
    columns,
    n,
    sz,
    sn,
    alpha,
    beta,
    ADDEND: gl.constexpr,
    ACTIVATION: gl.constexpr,
):
    """Apply the epilogue to some columns of a warp group's sums."""
    if alpha is not None:
        total = total * alpha
    if ADDEND:
        line = gl.load(addend + batch.to(gl.int64) * sz + columns * sn, mask=columns < n, other=0).to(
            gl.float32
        )
        if beta is not None:
            line = line * beta
        total = total + line[None, :]
    if ACTIVATION == "relu":
        total = gl.where(total < 0, 0.0, total)
    elif ACTIVATION == "gelu":
        total = total * 0.5 * (1.0 + libdevice.erf(total * 0.7071067811865476))
    return total


@gluon.jit
def store_through(value, buffer, out, batch, row, column, ROWS: gl.constexpr, COLUMNS: gl.constexpr):
    """Store a part of a tile through shared memory. The previous TMA store but one from its buffer has completed."""
    hopper.tma.store_wait(1)
    buffer.reshape((ROWS, COLUMNS)).store(value.to(out.dtype))
    hopper.fence_async_shared()
    hopper.tma.async_store(out, [batch, row, column], buffer)


@gluon.jit
def store_part(
    total,
    addend,
    out,
    buffer,
    batch,
    row,
    column,
    m,
    n,
    sz,
    sn,
    alpha,
    beta,
    ADDEND: gl.constexpr,
    ACTIVATION: gl.constexpr,
    ROWS: gl.constexpr,
    COLUMNS: gl.constexpr,
    operands,
    EPILOGUE: gl.constexpr,
):
    """Apply the epilogue to a part of a warp group's sums and store it."""
    PART: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, COLUMNS, 16])
    columns = column + gl.arange(0, COLUMNS, gl.SliceLayout(0, PART))
    total = finished(total, addend, batch, columns, n, sz, sn, alpha, beta, ADDEND, ACTIVATION)
    if EPILOGUE is not None:
        total = EPILOGUE(total, operands, batch, row, column, m, n, ROWS, COLUMNS, PART)
    store_through(total, buffer, out, batch, row, column, ROWS, COLUMNS)


@gluon.jit
def compute(
    addend,
    out,
    a_all,
    b_all,
    out_all,
    ready,
    free,
    begun,
    m,
    n,
    count,
    tiles,
    sz,
    sn,
    alpha,
    beta,
    GROUP: gl.constexpr,
    ADDEND: gl.constexpr,
    ACTIVATION: gl.constexpr,
    A_TRANSPOSED: gl.constexpr,
    B_TRANSPOSED: gl.constexpr,
    BLOCK_M: gl.constexpr,
    BLOCK_N: gl.constexpr,
    BLOCK_K: gl.constexpr,
    STAGES: gl.constexpr,
    operands,
    EPILOGUE: gl.constexpr,
):
    """Compute a warp group's rows of every tile of the program."""
    ROWS: gl.constexpr = BLOCK_M // 2
    LAG: gl.constexpr = (STAGES - 1) // 2
    PART: gl.constexpr = out.block_shape[2]
    # A matrix instruction multiplies 32 bytes along K.
    DEPTH: gl.constexpr = 256 // a_all.dtype.primitive_bitwidth
    SUMS: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_N, DEPTH])
    tiles_m, tiles_n = gl.cdiv(m, BLOCK_M), gl.cdiv(n, BLOCK_N)
    each = tiles_m * tiles_n
    first, programs = gl.program_id(0), gl.num_programs(0)
    # The step from which on the other group goes too: the last one, where there are fewer.
    start = gl.minimum(gl.cdiv(tiles - first, programs) * count, LAG) - 1
    if GROUP == 1:
        hopper.mbarrier.wait(begun, 0)
    done = 0
    for tile in range(first, tiles, programs):
        batch = tile // each
        tile_m, tile_n = tile_of(tile % each, tiles_m, tiles_n, 8)
        total = gl.zeros((ROWS, BLOCK_N), gl.float32, SUMS)
        for step in range(done, done + count):
            slot = step % STAGES
            hopper.mbarrier.wait(ready.index(slot), step // STAGES & 1)
            if A_TRANSPOSED:
                x = a_all.index(2 * slot + GROUP).reshape((BLOCK_K, ROWS)).permute((1, 0))
            else:
                x = a_all.index(2 * slot + GROUP).reshape((ROWS, BLOCK_K))
            if B_TRANSPOSED:
                y = b_all.index(slot).reshape((BLOCK_N, BLOCK_K)).permute((1, 0))
            else:
                y = b_all.index(slot).reshape((BLOCK_K, BLOCK_N))
            running = hopper.warpgroup_mma(x, y, total, is_async=True)
            total = hopper.warpgroup_mma_wait(1, (running,))
            # The products of the step before are done.
            hopper.mbarrier.arrive(free.index((step - 1) % STAGES), pred=step > done)
            if GROUP == 0 and step == start:
                hopper.mbarrier.arrive(begun)
        total = hopper.warpgroup_mma_wait(0, (total,))
        done += count
        # There are steps: the branch keeps ptxas from computing the epilogue before it frees the place.
        if count > 0:
            hopper.mbarrier.arrive(free.index((done - 1) % STAGES))
        row = tile_m * BLOCK_M + GROUP * ROWS
        parts = in_parts(total, ROWS, BLOCK_N, PART)
        for i in gl.static_range(BLOCK_N // PART):
            part = parts[i]
            store_part(
                part,
                addend,
                out,
                out_all.index(2 * GROUP + i % 2),
                batch,
                row,
                tile_n * BLOCK_N + i * PART,
                m,
                n,
                sz,
                sn,
                alpha,
                beta,
                ADDEND,
                ACTIVATION,
                ROWS,
                PART,
                operands,
                EPILOGUE,
            )
    hopper.tma.store_wait(0)


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
    count,
    tiles,
    A_BATCHED: gl.constexpr,
    B_BATCHED: gl.constexpr,
    A_TRANSPOSED: gl.constexpr,
    B_TRANSPOSED: gl.constexpr,
    BLOCK_M: gl.constexpr,
    BLOCK_N: gl.constexpr,
    BLOCK_K: gl.constexpr,
    STAGES: gl.constexpr,
):
    """Operands of every tile of the program, step by step, whenever a place in the ring is free."""
    ROWS: gl.constexpr = BLOCK_M // 2
    tiles_m, tiles_n = gl.cdiv(m, BLOCK_M), gl.cdiv(n, BLOCK_N)
    each = tiles_m * tiles_n
    done = 0
    for tile in range(gl.program_id(0), tiles, gl.num_programs(0)):
        batch = tile // each
        tile_m, tile_n = tile_of(tile % each, tiles_m, tiles_n, 8)
        row, column = tile_m * BLOCK_M, tile_n * BLOCK_N
        batch_a = batch if A_BATCHED else 0
        batch_b = batch if B_BATCHED else 0
        for step in range(done, done + count):
            slot = step % STAGES
            inner = (step - done) * BLOCK_K
            hopper.mbarrier.wait(free.index(slot), step // STAGES & 1 ^ 1)
            hopper.mbarrier.expect(ready.index(slot), 2 * a.nbytes_per_cta + b.nbytes_per_cta)
            for group in gl.static_range(2):
                destination = a_all.index(2 * slot + group)
                if A_TRANSPOSED:
                    hopper.tma.async_load(
                        a, [batch_a, inner, row + group * ROWS], ready.index(slot), destination
                    )
                else:
                    hopper.tma.async_load(
                        a, [batch_a, row + group * ROWS, inner], ready.index(slot), destination
                    )
            if B_TRANSPOSED:
                hopper.tma.async_load(b, [batch_b, column, inner], ready.index(slot), b_all.index(slot))
            else:
                hopper.tma.async_load(b, [batch_b, inner, column], ready.index(slot), b_all.index(slot))
        done += count


@gluon.jit
def matmul_warp_specialized(
    a,
    b,
    addend,
    out,
    m,
    n,
    k,
    batches,
    sz,
    sn,
    alpha,
    beta,
    ADDEND: gl.constexpr,
    A_BATCHED: gl.constexpr,
    B_BATCHED: gl.constexpr,
    A_TRANSPOSED: gl.constexpr,
    B_TRANSPOSED: gl.constexpr,
    ACTIVATION: gl.constexpr,
    BLOCK_M: gl.constexpr,
    BLOCK_N: gl.constexpr,
    BLOCK_K: gl.constexpr,
    STAGES: gl.constexpr,
    operands=None,
    EPILOGUE: gl.constexpr = None,
):
    """Operands and output are described as (batch, lines, elements); blocks of `a` have half of `BLOCK_M` rows.

    A program has at least one tile, and a tile at least one step. Blocks of `out` have half of the rows and columns of
    128 bytes. Elements of 32 bits are multiplied as TF32 and adjoin along K.
    """
    count = gl.cdiv(k, BLOCK_K)
    tiles = gl.cdiv(m, BLOCK_M) * gl.cdiv(n, BLOCK_N) * batches
    a_all = gl.allocate_shared_memory(a.dtype, [2 * STAGES, 1, a.block_shape[1], a.block_shape[2]], a.layout)
    b_all = gl.allocate_shared_memory(b.dtype, [STAGES, 1, b.block_shape[1], b.block_shape[2]], b.layout)
    out_all = gl.allocate_shared_memory(out.dtype, [4, 1, out.block_shape[1], out.block_shape[2]], out.layout)
    ready = hopper.mbarrier.allocate_mbarrier(batch=STAGES)
    free = hopper.mbarrier.allocate_mbarrier(batch=STAGES)
    begun = hopper.mbarrier.allocate_mbarrier()
    hopper.mbarrier.init(begun, 1)
    for i in gl.static_range(STAGES):
        hopper.mbarrier.init(ready.index(i), 1)
        hopper.mbarrier.init(free.index(i), 2)
    hopper.fence_async_shared()
    gl.warp_specialize(
        [
            (compute, (
                addend, out, a_all, b_all, out_all, ready, free, begun, m, n, count, tiles, sz, sn, alpha, beta, 0,
                ADDEND, ACTIVATION, A_TRANSPOSED, B_TRANSPOSED, BLOCK_M, BLOCK_N, BLOCK_K, STAGES, operands, EPILOGUE,
            )),
            (compute, (
                addend, out, a_all, b_all, out_all, ready, free, begun, m, n, count, tiles, sz, sn, alpha, beta, 1,
                ADDEND, ACTIVATION, A_TRANSPOSED, B_TRANSPOSED, BLOCK_M, BLOCK_N, BLOCK_K, STAGES, operands, EPILOGUE,
            )),
            (copy, (
                a, b, a_all, b_all, ready, free, m, n, count, tiles, A_BATCHED, B_BATCHED, A_TRANSPOSED, B_TRANSPOSED,
                BLOCK_M, BLOCK_N, BLOCK_K, STAGES,
            )),
        ],
        [4, 4],
        [240, 24],
    )  # fmt: skip


TILES = {
    2: (
        # A group holds 64 rows: 128 or 64 registers of sums for each lane.
        Configuration((128, 256, 64), 4, 4, {90: 1}, resident=12),
        Configuration((128, 128, 64), 4, 6, {90: 1}, resident=12),
    ),
    4: (
        Configuration((128, 256, 32), 4, 4, {90: 1}, resident=12),
        Configuration((128, 128, 32), 4, 6, {90: 1}, resident=12),
    ),
}
"""By the bytes of an operand's element."""

declare(
    matmul_warp_specialized,
    why="a block's registers are a multiprocessor's; what one group of warps stores, the other one hides",
    operand="a",
    tile=("BLOCK_M", "BLOCK_N", "BLOCK_K"),
    dtypes={("bf16", "fp16"): TILES[2], ("fp32",): TILES[4]},
    operations="2 m n k",
    traffic="(m k + k n + m n) itemsize, and each operand again for every tile that shares it and finds it not in L2",
    loads=("a", "b"),
    stores=("out",),
    tensor_cores=("bf16", "fp16", "fp32"),
)
