"""Stream-K matmuls in Triton: every program multiplies the same number of K steps, across tiles of the result.

The K steps of all tiles form one sequence, tile by tile. Program i takes the steps from `i * share` on, so a tile may
begin in one program and end in another. Each program of such a tile stores its sums in a slot of its own. The
program that arrives last at the tile's counter adds the slots in the order of K and applies the epilogue. Results
therefore do not depend on which program arrives last, no program waits, and there is no second launch.

Slots: 2 i is for the tile in which program i begins, and 2 i + 1 for the tile that it begins and does not end.

Roofline: few rows are bound by the right operand's bytes, k n itemsize. A stage of 64x128x64 holds 16 KiB of it, so
8 stages keep 112 KiB of a multiprocessor under way.

Source: Osama et al., "Stream-K: Work-centric Parallel Decomposition for Dense Matrix-Matrix Multiplication on the
GPU" (2023).
"""

from __future__ import annotations

from ...runtime.cuda.triton.lazy_triton import tl, triton
from ..budget import Configuration, declare
from ..reduction.last_program import is_last
from .persistent import operand_tile
from .product import tile_of
from .split_k import store_sums


@triton.jit
def joined_sums(total, parts, counter, first, last, mask, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """Store this program's sums of a tile that the programs `first` to `last` share.

    Return True in the program that arrives last, and the sums of all parts there, added in the order of K.
    """
    place = tl.arange(0, BLOCK_M)[:, None] * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    slot = tl.program_id(0) * 2 + (tl.program_id(0) == first).to(tl.int32)
    tl.store(parts + slot.to(tl.int64) * (BLOCK_M * BLOCK_N) + place, total, mask=mask)
    arrived = is_last(counter, last - first + 1)
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    if arrived:
        for program in tl.range(first, last + 1, num_stages=1):
            slot = program * 2 + (program == first).to(tl.int32)
            total += tl.load(parts + slot.to(tl.int64) * (BLOCK_M * BLOCK_N) + place, mask=mask, other=0)
    return arrived, total


@triton.jit
def matmul_stream_k(
    a,
    b,
    addend,
    out,
    scale_a,
    scale_b,
    scale_out,
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
    A_BATCHED: tl.constexpr,
    B_BATCHED: tl.constexpr,
    A_TRANSPOSED: tl.constexpr,
    B_TRANSPOSED: tl.constexpr,
    ACTIVATION: tl.constexpr,
    ROW_WISE: tl.constexpr,
    SATURATES: tl.constexpr,
    PRECISION: tl.constexpr,
    IMPRECISE: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    operands=None,
    EPILOGUE: tl.constexpr = None,
    PROLOGUE: tl.constexpr = None,
    WHOLE: tl.constexpr = None,
):
    tiles_m, tiles_n, steps = tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N), tl.cdiv(k, BLOCK_K)
    each = tiles_m * tiles_n
    begin = tl.program_id(0) * share
    end = tl.minimum(begin + share, each * batches * steps)
    for tile in range(begin // steps, tl.cdiv(end, steps)):
        batch = tile // each
        tile_m, tile_n = tile_of(tile % each, tiles_m, tiles_n, 8)
        row, column = tile_m * BLOCK_M, tile_n * BLOCK_N
        start = tile * steps
        total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for step in range(tl.maximum(begin - start, 0), tl.minimum(end - start, steps)):
            inner = step * BLOCK_K
            x = operand_tile(a, batch, row, inner, A_BATCHED, A_TRANSPOSED, BLOCK_M, BLOCK_K)
            y = operand_tile(b, batch, inner, column, B_BATCHED, B_TRANSPOSED, BLOCK_K, BLOCK_N)
            if PROLOGUE is not None:
                rows, columns = row + tl.arange(0, BLOCK_M), column + tl.arange(0, BLOCK_N)
                depths = inner + tl.arange(0, BLOCK_K)
                x, y = PROLOGUE(
                    x, y, operands, batch, rows, columns, depths, rows < m, columns < n, depths < k, WHOLE
                )
            total = tl.dot(x, y, total, input_precision=PRECISION, max_num_imprecise_acc=IMPRECISE)
        rows, columns = row + tl.arange(0, BLOCK_M), column + tl.arange(0, BLOCK_N)
        mask = (rows < m)[:, None] & (columns < n)[None, :]
        first, last = start // share, (start + steps - 1) // share
        is_whole = first == last
        if not is_whole:
            is_whole, total = joined_sums(total, parts, counters + tile, first, last, mask, BLOCK_M, BLOCK_N)
        if is_whole:
            if EPILOGUE is not None:
                EPILOGUE(
                    total, operands, addend, out, batch.to(tl.int64), row, column, m, n, sz, sm, sn, alpha, beta,
                    ACTIVATION,
                )  # fmt: skip
            else:
                store_sums(
                    total, addend, out, scale_a, scale_b, scale_out, batch.to(tl.int64), rows, columns, mask, m, n,
                    oz, om, on, sz, sm, sn, alpha, beta, ACTIVATION, ROW_WISE, SATURATES,
                )  # fmt: skip


FEW_ROWS = (
    # One block of a multiprocessor: the stages that its shared memory holds keep the memory busy.
    Configuration((64, 128, 64), 4, 8, {90: 1, 100: 1}),
    Configuration((64, 64, 64), 4, 8, {90: 1, 100: 1}),
    Configuration((64, 256, 64), 4, 5, {90: 1}),
)
MANY_ROWS = (Configuration((128, 128, 64), 8, 6, {90: 1, 100: 1}),)
"""128x256 sums spill beside the addresses of a part."""
EIGHT_BITS = (
    Configuration((64, 128, 128), 4, 8, {90: 1, 100: 1}),
    Configuration((64, 64, 128), 4, 8, {90: 1, 100: 1}),
)
TF32 = (
    Configuration((64, 128, 32), 4, 8, {90: 1, 100: 1}),
    Configuration((64, 64, 32), 4, 8, {90: 1, 100: 1}),
)

OTHER_KERNEL = Configuration((0, 0, 0), 1, 1, {90: 1, 100: 1})
"""The candidate that leaves a matmul to another kernel: a persistent one, or a matrix-vector multiplication."""

declare(
    matmul_stream_k,
    why="see each configuration; one program for each multiprocessor, which all multiply the same number of steps",
    operand="a",
    tile=("BLOCK_M", "BLOCK_N", "BLOCK_K"),
    dtypes={
        ("bf16", "fp16"): (*FEW_ROWS, *MANY_ROWS, OTHER_KERNEL),
        ("fp8e4nv", "fp8e5"): (*EIGHT_BITS, OTHER_KERNEL),
        ("fp32",): (*TF32, OTHER_KERNEL),
    },
    operations="2 m n k",
    traffic="(m k + k n + m n) itemsize, and 8 bytes for each sum of a tile's part that another program adds",
    loads=("a", "b"),
    tensor_cores=("bf16", "fp16", "fp8e4nv", "fp8e5", "fp32"),
)
