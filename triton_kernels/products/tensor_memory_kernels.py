"""Matmuls for sm_100 in Gluon: one warp copies, one multiplies, and four store the previous tile.

A thread block has four warps for the epilogue, one that copies (TMA) and one that multiplies
(``tcgen05.mma``). Tiles of `a` and `b` go through a ring buffer of `STAGES`, with a full barrier for each
slot and an empty barrier at which the tensor cores arrive. Sums are not in registers but in tensor memory, in
two slots of 128 rows. While the epilogue reads the sums of one slot, the other slot accumulates.

Tiles of 128 rows alternate between the slots: the tensor cores wait for an epilogue only if it takes longer
than a tile's matmul. Tiles of 256 rows take both slots, and the next tile's matmul begins in the first slot
when its rows are read. For that, operands are 64 bytes from L2 in a cycle of full-rate matmul, instead of 96
for 128x256 sums.

Sums are those of `persistent`: along K in order, in float32. Source: CUTLASS, "Blackwell SM100 GEMMs", of
warp-specialised persistent kernels; NVIDIA, PTX ISA 8.8, "TensorCore 5th Generation Family Instructions".
"""

from ...runtime.cuda.triton.lazy_gluon import blackwell, gl, gluon
from ...runtime.cuda.triton.lazy_triton import libdevice
from ..budget import Configuration, declare
from .epilogue import saturated, scaled
from .product import tile_of


@gluon.jit
def finished(
    total,
    addend,
    scale_a,
    scale_b,
    scale_out,
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
    ROW_WISE: gl.constexpr,
    SATURATES: gl.constexpr,
    TYPE: gl.constexpr,
    ROWS: gl.constexpr,
    COLUMNS: gl.constexpr,
    PART: gl.constexpr,
):
    """Apply the epilogue to some columns of a tile's sums, and convert them to a type, unless it is None."""
    rows = row + gl.arange(0, ROWS, gl.SliceLayout(1, PART))
    columns = column + gl.arange(0, COLUMNS, gl.SliceLayout(0, PART))
    total = scaled(total, scale_a, scale_b, rows, columns, m, n, ROW_WISE)
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
    if SATURATES:
        total = saturated(total, scale_out, TYPE)
    if TYPE is not None:
        total = total.to(TYPE)
    return total


@gluon.jit
def store(
    addend,
    out,
    scale_a,
    scale_b,
    scale_out,
    out_all,
    sums,
    summed,
    taken,
    m,
    n,
    tiles,
    sz,
    sn,
    alpha,
    beta,
    ADDEND: gl.constexpr,
    ACTIVATION: gl.constexpr,
    ROW_WISE: gl.constexpr,
    SATURATES: gl.constexpr,
    BLOCK_M: gl.constexpr,
    BLOCK_N: gl.constexpr,
    ROWS: gl.constexpr,
    COLUMNS: gl.constexpr,
    operands,
    EPILOGUE: gl.constexpr,
):
    """Move every tile of the program from tensor memory through its epilogue to global memory."""
    PART: gl.constexpr = sums.index(0).slice(0, COLUMNS).get_reg_layout()
    tiles_m, tiles_n = gl.cdiv(m, BLOCK_M), gl.cdiv(n, BLOCK_N)
    each = tiles_m * tiles_n
    number = 0
    for tile in range(gl.program_id(0), tiles, gl.num_programs(0)):
        batch = tile // each
        tile_m, tile_n = tile_of(tile % each, tiles_m, tiles_n, 8)
        for group in range(BLOCK_M // ROWS):
            row = tile_m * BLOCK_M + group * ROWS
            place = number % 2
            blackwell.mbarrier.wait(summed.index(place), number // 2 & 1)
            own = sums.index(place)
            for part in gl.static_range(BLOCK_N // COLUMNS):
                total = own.slice(part * COLUMNS, COLUMNS).load(PART)
                if part == BLOCK_N // COLUMNS - 1:
                    blackwell.mbarrier.arrive(taken.index(place))
                column = tile_n * BLOCK_N + part * COLUMNS
                value = finished(
                    total, addend, scale_a, scale_b, scale_out, batch, row, column, m, n, sz, sn, alpha, beta,
                    ADDEND, ACTIVATION, ROW_WISE, SATURATES, out.dtype if EPILOGUE is None else None,
                    ROWS, COLUMNS, PART,
                )  # fmt: skip
                if EPILOGUE is not None:
                    value = EPILOGUE(value, operands, batch, row, column, m, n, ROWS, COLUMNS, PART)
                # The store before last has read its buffer.
                buffer = out_all.index(part % 2)
                blackwell.tma.store_wait(1)
                buffer.reshape((ROWS, COLUMNS)).store(value)
                blackwell.fence_async_shared()
                blackwell.tma.async_store(out, [batch, row, column], buffer)
            number += 1
    blackwell.tma.store_wait(0)


@gluon.jit
def multiply(
    a_all,
    b_all,
    sums,
    ready,
    free,
    summed,
    taken,
    count,
    tiles,
    A_TRANSPOSED: gl.constexpr,
    B_TRANSPOSED: gl.constexpr,
    BLOCK_M: gl.constexpr,
    BLOCK_N: gl.constexpr,
    BLOCK_K: gl.constexpr,
    ROWS: gl.constexpr,
    STAGES: gl.constexpr,
):
    """Issue the matmuls of every tile of the program."""
    GROUPS: gl.constexpr = BLOCK_M // ROWS
    done = 0
    number = 0
    for _ in range(gl.program_id(0), tiles, gl.num_programs(0)):
        for step in range(done, done + count):
            slot = step % STAGES
            blackwell.mbarrier.wait(ready.index(slot), step // STAGES & 1)
            if B_TRANSPOSED:
                y = b_all.index(slot).reshape((BLOCK_N, BLOCK_K)).permute((1, 0))
            else:
                y = b_all.index(slot).reshape((BLOCK_K, BLOCK_N))
            for group in gl.static_range(GROUPS):
                place = (number + group) % 2
                if A_TRANSPOSED:
                    x = a_all.index(GROUPS * slot + group).reshape((BLOCK_K, ROWS)).permute((1, 0))
                else:
                    x = a_all.index(GROUPS * slot + group).reshape((ROWS, BLOCK_K))
                blackwell.mbarrier.wait(taken.index(place), (number + group) // 2 & 1 ^ 1, pred=step == done)
                blackwell.tcgen05_mma(x, y, sums.index(place), use_acc=step > done, mbarriers=[])
            blackwell.tcgen05_commit(free.index(slot))
        for group in gl.static_range(GROUPS):
            blackwell.tcgen05_commit(summed.index((number + group) % 2))
        done += count
        number += GROUPS


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
    ROWS: gl.constexpr,
    STAGES: gl.constexpr,
):
    """Operands of every tile of the program, step by step, whenever a place in the ring is free."""
    GROUPS: gl.constexpr = BLOCK_M // ROWS
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
            blackwell.mbarrier.wait(free.index(slot), step // STAGES & 1 ^ 1)
            blackwell.mbarrier.expect(ready.index(slot), GROUPS * a.nbytes_per_cta + b.nbytes_per_cta)
            for group in gl.static_range(GROUPS):
                destination = a_all.index(GROUPS * slot + group)
                if A_TRANSPOSED:
                    blackwell.tma.async_load(
                        a, [batch_a, inner, row + group * ROWS], ready.index(slot), destination
                    )
                else:
                    blackwell.tma.async_load(
                        a, [batch_a, row + group * ROWS, inner], ready.index(slot), destination
                    )
            if B_TRANSPOSED:
                blackwell.tma.async_load(b, [batch_b, column, inner], ready.index(slot), b_all.index(slot))
            else:
                blackwell.tma.async_load(b, [batch_b, inner, column], ready.index(slot), b_all.index(slot))
        done += count


@gluon.jit
def matmul_tensor_memory(
    a,
    b,
    addend,
    out,
    scale_a,
    scale_b,
    scale_out,
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
    ROW_WISE: gl.constexpr,
    SATURATES: gl.constexpr,
    BLOCK_M: gl.constexpr,
    BLOCK_N: gl.constexpr,
    BLOCK_K: gl.constexpr,
    STAGES: gl.constexpr,
    operands=None,
    EPILOGUE: gl.constexpr = None,
):
    """Operands and output are described as (batch, lines, elements).

    A program has at least one tile, and a tile at least one step. Blocks of `a` have `ROWS` rows; those of `out` have
    them too, and some of a tile's columns.
    """
    ROWS: gl.constexpr = out.block_shape[1]
    COLUMNS: gl.constexpr = out.block_shape[2]
    GROUPS: gl.constexpr = BLOCK_M // ROWS
    SUMS: gl.constexpr = blackwell.TensorMemoryLayout([ROWS, BLOCK_N], col_stride=1)
    count = gl.cdiv(k, BLOCK_K)
    tiles = gl.cdiv(m, BLOCK_M) * gl.cdiv(n, BLOCK_N) * batches
    a_all = gl.allocate_shared_memory(
        a.dtype, [GROUPS * STAGES, 1, a.block_shape[1], a.block_shape[2]], a.layout
    )
    b_all = gl.allocate_shared_memory(b.dtype, [STAGES, 1, b.block_shape[1], b.block_shape[2]], b.layout)
    out_all = gl.allocate_shared_memory(out.dtype, [2, 1, ROWS, COLUMNS], out.layout)
    sums = blackwell.allocate_tensor_memory(gl.float32, [2, ROWS, BLOCK_N], SUMS)
    ready = blackwell.mbarrier.allocate_mbarrier(batch=STAGES)
    free = blackwell.mbarrier.allocate_mbarrier(batch=STAGES)
    summed = blackwell.mbarrier.allocate_mbarrier(batch=2)
    taken = blackwell.mbarrier.allocate_mbarrier(batch=2)
    for i in gl.static_range(STAGES):
        blackwell.mbarrier.init(ready.index(i), 1)
        blackwell.mbarrier.init(free.index(i), 1)
    for i in gl.static_range(2):
        blackwell.mbarrier.init(summed.index(i), 1)
        blackwell.mbarrier.init(taken.index(i), 1)
    blackwell.fence_async_shared()
    gl.warp_specialize(
        [
            (store, (
                addend, out, scale_a, scale_b, scale_out, out_all, sums, summed, taken, m, n, tiles, sz, sn, alpha,
                beta, ADDEND, ACTIVATION, ROW_WISE, SATURATES, BLOCK_M, BLOCK_N, ROWS, COLUMNS, operands, EPILOGUE,
            )),
            (multiply, (
                a_all, b_all, sums, ready, free, summed, taken, count, tiles, A_TRANSPOSED, B_TRANSPOSED, BLOCK_M,
                BLOCK_N, BLOCK_K, ROWS, STAGES,
            )),
            (copy, (
                a, b, a_all, b_all, ready, free, m, n, count, tiles, A_BATCHED, B_BATCHED, A_TRANSPOSED, B_TRANSPOSED,
                BLOCK_M, BLOCK_N, BLOCK_K, ROWS, STAGES,
            )),
        ],
        [1, 1],
    )  # fmt: skip


def tiles(inner: int) -> tuple[Configuration, ...]:
    """Return the tiles of operands for which `inner` elements, one step along K, are 128 bytes."""
    # For float32 the compiler takes 64 registers by default, and spills some.
    whole = inner == 32
    return (
        Configuration((256, 256, inner), 4, 3, {100: 1}, all_registers=whole, resident=8),
        Configuration((128, 256, inner), 4, 4, {100: 1}, all_registers=whole, resident=8),
        Configuration((128, 128, inner), 4, 6, {100: 1}, all_registers=whole, resident=8),
    )


TILES = {itemsize: tiles(128 // itemsize) for itemsize in (1, 2, 4)}
"""By the bytes of an operand's element."""

declare(
    matmul_tensor_memory,
    why="a block has all of tensor memory, and what one tile's epilogue takes, the next one's products hide",
    operand="a",
    tile=("BLOCK_M", "BLOCK_N", "BLOCK_K"),
    dtypes={("bf16", "fp16"): TILES[2], ("fp8e4nv", "fp8e5"): TILES[1], ("fp32",): TILES[4]},
    operations="2 m n k",
    traffic="(m k + k n + m n) itemsize, and each operand again for every tile that shares it and finds it not in L2",
    loads=("a", "b"),
    stores=("out",),
    tensor_cores=("bf16", "fp16", "fp8e4nv", "fp8e5", "fp32"),
)
