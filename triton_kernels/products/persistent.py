"""Persistent matmuls with tensor descriptors: a program for each resident slot goes from tile to tile.

Operands and results go through the tensor memory accelerator, so no thread computes an address. The loop over
tiles and the loop over K are flattened into one, so a tile's first operands load while the previous tile is
stored. A transposed operand is described as it is stored. Its tile is transposed in shared memory, where the
tensor cores take either layout.

Source: CUTLASS, "Efficient GEMM in CUDA", of persistent kernels and their rasterisation.
"""

from __future__ import annotations

from ...runtime.cuda.triton.lazy_triton import tl, triton
from ..budget import Configuration, declare
from ..conversion import convert
from .epilogue import finish, saturated, scaled
from .product import tile_of


@triton.jit
def operand_tile(
    operand,
    batch,
    row,
    column,
    BATCHED: tl.constexpr,
    TRANSPOSED: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Load the (ROWS, COLUMNS) tile of an operand at (row, column); TRANSPOSED operands are stored column-major."""
    if not BATCHED:
        batch = 0
    if TRANSPOSED:
        return operand.load([batch, column, row]).reshape(COLUMNS, ROWS).T
    else:
        return operand.load([batch, row, column]).reshape(ROWS, COLUMNS)


@triton.jit
def store_tile(
    total,
    addend,
    out,
    scale_a,
    scale_b,
    scale_out,
    batch,
    row,
    column,
    m,
    n,
    oz,
    om,
    on,
    sz,
    sm,
    sn,
    alpha,
    beta,
    ADDEND: tl.constexpr,
    ADDEND_BATCHED: tl.constexpr,
    ACTIVATION: tl.constexpr,
    ROW_WISE: tl.constexpr,
    SATURATES: tl.constexpr,
    BULK_STORE: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    operands,
    EPILOGUE: tl.constexpr,
):
    """Apply the epilogue to a tile of sums and store it, by a descriptor or by masked pointers."""
    if EPILOGUE is not None:
        EPILOGUE(
            total,
            operands,
            addend,
            out,
            batch.to(tl.int64),
            row,
            column,
            m,
            n,
            sz,
            sm,
            sn,
            alpha,
            beta,
            ACTIVATION,
        )
    else:
        columns = column + tl.arange(0, COLUMNS)
        total = scaled(total, scale_a, scale_b, row + tl.arange(0, ROWS), columns, m, n, ROW_WISE)
        value = None
        if ADDEND == "row":
            line = tl.load(addend + batch.to(tl.int64) * sz + columns * sn, mask=columns < n, other=0)
            value = line.to(total.dtype)[None, :]
        elif ADDEND == "tile":
            value = addend.load([batch if ADDEND_BATCHED else 0, row, column]).reshape(ROWS, COLUMNS)
            value = value.to(total.dtype)
        total = finish(total, value, alpha, beta, ACTIVATION)
        if SATURATES:
            total = saturated(total, scale_out, out.dtype if BULK_STORE else out.dtype.element_ty)
        if BULK_STORE:
            out.store([batch, row, column], convert(total, out.dtype).reshape(1, ROWS, COLUMNS))
        else:
            rows = row + tl.arange(0, ROWS)
            mask = (rows < m)[:, None] & (columns < n)[None, :]
            out_ptrs = out + batch.to(tl.int64) * oz + rows[:, None] * om + columns[None, :] * on
            tl.store(out_ptrs, convert(total, out.dtype.element_ty), mask=mask)


@triton.jit
def matmul_persistent(
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
    parts,
    steps,
    oz,
    om,
    on,
    sz,
    sm,
    sn,
    alpha,
    beta,
    ADDEND: tl.constexpr,
    ADDEND_BATCHED: tl.constexpr,
    A_BATCHED: tl.constexpr,
    B_BATCHED: tl.constexpr,
    A_TRANSPOSED: tl.constexpr,
    B_TRANSPOSED: tl.constexpr,
    BULK_STORE: tl.constexpr,
    ACTIVATION: tl.constexpr,
    ROW_WISE: tl.constexpr,
    SATURATES: tl.constexpr,
    PRECISION: tl.constexpr,
    IMPRECISE: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    HALVES: tl.constexpr,
    operands=None,
    EPILOGUE: tl.constexpr = None,
    PROLOGUE: tl.constexpr = None,
    WHOLE: tl.constexpr = None,
):
    tiles_m, tiles_n = tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N)
    each = tiles_m * tiles_n
    for tile in tl.range(tl.program_id(0), each * batches * parts, tl.num_programs(0), flatten=True):
        place = tile // each
        batch = place
        first = 0
        count = tl.cdiv(k, BLOCK_K)
        if steps is not None:
            batch = place % batches
            first = place // batches * steps
            count = steps
        tile_m, tile_n = tile_of(tile % each, tiles_m, tiles_n, 8)
        row, column = tile_m * BLOCK_M, tile_n * BLOCK_N
        total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for step in range(count):
            inner = (first + step) * BLOCK_K
            x = operand_tile(a, batch, row, inner, A_BATCHED, A_TRANSPOSED, BLOCK_M, BLOCK_K)
            y = operand_tile(b, batch, inner, column, B_BATCHED, B_TRANSPOSED, BLOCK_K, BLOCK_N)
            if PROLOGUE is not None:
                rows, columns = row + tl.arange(0, BLOCK_M), column + tl.arange(0, BLOCK_N)
                depths = inner + tl.arange(0, BLOCK_K)
                x, y = PROLOGUE(
                    x, y, operands, batch, rows, columns, depths, rows < m, columns < n, depths < k, WHOLE
                )
            total = tl.dot(x, y, total, input_precision=PRECISION, max_num_imprecise_acc=IMPRECISE)
        if HALVES:
            half: tl.constexpr = BLOCK_N // 2
            left, right = tl.split(tl.permute(tl.reshape(total, (BLOCK_M, 2, half)), (0, 2, 1)))
            store_tile(
                left, addend, out, scale_a, scale_b, scale_out, place, row, column, m, n,
                oz, om, on, sz, sm, sn, alpha, beta,
                ADDEND, ADDEND_BATCHED, ACTIVATION, ROW_WISE, SATURATES, BULK_STORE, BLOCK_M, half,
                operands, EPILOGUE,
            )  # fmt: skip
            store_tile(
                right, addend, out, scale_a, scale_b, scale_out, place, row, column + half, m, n,
                oz, om, on, sz, sm, sn, alpha, beta,
                ADDEND, ADDEND_BATCHED, ACTIVATION, ROW_WISE, SATURATES, BULK_STORE, BLOCK_M, half,
                operands, EPILOGUE,
            )  # fmt: skip
        else:
            store_tile(
                total, addend, out, scale_a, scale_b, scale_out, place, row, column, m, n,
                oz, om, on, sz, sm, sn, alpha, beta,
                ADDEND, ADDEND_BATCHED, ACTIVATION, ROW_WISE, SATURATES, BULK_STORE, BLOCK_M, BLOCK_N,
                operands, EPILOGUE,
            )  # fmt: skip


# Warp specialisation (`tl.range(..., warp_specialize=True)`) with these descriptors of the host's, Triton 3.9:
# - sm_90, four warps, tiles of 128 rows: does not compile (each of two consumers takes 64 rows, the descriptor's block
#   stays 128); of 64 rows: 384 threads, 168 registers, but both consumers multiply the same rows; eight warps, or a
#   flattened loop: compiles to 256 threads, that is, nothing is specialised.
# - sm_100, 128x256x64, eight warps, three or four stages, flattened or not, the second operand either way: 384 threads,
#   168 registers, 512 columns of tensor memory, no spills; four warps: 255 registers.
# So on sm_90 there is nothing to choose (`warp_specialized_kernels` is in Gluon), and sm_100's is not offered before it
# has been timed.

LARGE = (
    # 128 registers of sums for each lane; the output is stored in halves, which leaves shared memory for four stages.
    Configuration((128, 256, 64), 8, 4, {90: 1, 100: 1}),
    Configuration((256, 128, 64), 8, 4, {90: 1, 100: 1}),
    Configuration((128, 128, 64), 4, 3, {90: 2, 100: 2}),
    Configuration((64, 128, 64), 4, 4, {90: 2, 100: 2}),
    Configuration((64, 64, 64), 4, 4, {90: 2, 100: 2}),
)
CROWDED = (
    # A tile of the addend, or of float32 sums, leaves shared memory for fewer stages. If the output is stored by
    # pointers, each of its elements has an address and a mask.
    Configuration((128, 128, 64), 8, 3, {90: 1, 100: 1}),
    Configuration((64, 128, 64), 4, 3, {90: 2, 100: 2}),
    Configuration((64, 64, 64), 4, 4, {90: 2, 100: 2}),
)
TILES = LARGE, CROWDED
LARGE_TF32 = (
    # sm_90's tensor cores take 32-bit elements along K only: the kernel transposes others through registers.
    # sm_100 transposes them in shared memory, which leaves room for two stages.
    Configuration((128, 256, 32), 8, 3, {90: 1}),
    Configuration((64, 64, 32), 4, 3, {90: 2, 100: 2}),
)
CROWDED_TF32 = (
    Configuration((128, 128, 32), 8, 2, {90: 1, 100: 1}),
    Configuration((64, 64, 32), 4, 3, {90: 2, 100: 2}),
)
EIGHT_BITS = (
    Configuration((128, 256, 128), 8, 3, {90: 1, 100: 1}),
    Configuration((128, 128, 128), 8, 3, {90: 1, 100: 1}),
    Configuration((64, 64, 128), 4, 4, {90: 2, 100: 2}),
)
# The store holds row and column scales with the sums, for which sm_100 lacks registers.
ROW_WISE_EIGHT_BITS = (Configuration((128, 256, 128), 8, 3, {90: 1}), *EIGHT_BITS[1:])
EXACT_EIGHT_BITS = EIGHT_BITS[1:]
"""Tiles that keep sums twice: the tensor cores' sums, and the float32 sums that they are added to."""
TF32_TILES = (LARGE_TF32[0], *CROWDED_TF32), CROWDED_TF32

declare(
    matmul_persistent,
    why="see each configuration; shared memory has room for as many blocks, and a tile's sums need the registers",
    operand="a",
    tile=("BLOCK_M", "BLOCK_N", "BLOCK_K"),
    dtypes={
        ("bf16", "fp16"): LARGE + CROWDED[:2],
        ("fp32",): (*LARGE_TF32, CROWDED_TF32[0]),
        ("fp8e4nv", "fp8e5"): EIGHT_BITS,
    },
    smaller=True,
    operations="2 m n k",
    traffic="(m k + k n + m n) itemsize, and each operand again for every tile that shares it and finds it not in L2",
    loads=("a", "b"),
    stores=("out",),
    tensor_cores=("bf16", "fp16", "fp32", "fp8e4nv", "fp8e5"),
)
