"""Matmuls with 4-bit weights in tensor-core order, converted to the activations' type between load and matmul.

A word of 32 bits holds columns 2 t, 2 t + 1, 2 t + 8, ... 2 t + 25 of a row, for lane t of four. Columns
accumulate in the order of the words, and activations are read in that order, too.
"""

from __future__ import annotations

from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.cuda.triton.lazy_triton import tl, triton
from ..budget import Configuration, declare
from ..conversion import convert
from ..launch import Launch, cdiv, integer_type, interpreted, launch_nothing
from .problem import multiprocessors
from .product import Tiling, bounded, tile_of
from .stream_k import divide_weight, with_parts
from .stream_k_kernels import joined_sums
from .weight_only import FEW_ROWS, store_transposed, with_types_of_parts


@triton.jit
def weight4_sums(
    x,
    weight,
    scales,
    rows,
    columns,
    start,
    end,
    m,
    n,
    k,
    WORDS: tl.constexpr,
    GROUP: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    OFFSETS: tl.constexpr,
):
    """Return the sums of a tile, columns by rows, over the elements of K from `start` to `end`.

    WORDS words of a lane are adjacent, GROUP columns share scale and zero point. OFFSETS is the type of offsets.
    """
    WIDE: tl.constexpr = scales.dtype.element_ty
    # Column 32 * (word of the lane) + 2 * lane + 8 * (pair of columns) + (column of the pair), as words have them.
    inner = tl.arange(0, BLOCK_K)
    place = inner // 8
    column = place // (4 * WORDS) * (32 * WORDS) + place % WORDS * 32 + place // WORDS % 4 * 2
    column += inner % 8 // 2 * 8 + inner % 2
    word = tl.arange(0, BLOCK_K // 8)
    w_tile = weight + (columns // 8 * k + columns % 8 * (4 * WORDS))[:, None] + start
    w_tile += (word // (4 * WORDS) * (32 * WORDS) + word % (4 * WORDS))[None, :]
    x_tile = x + column[:, None] + rows[None, :].to(OFFSETS) * k + start
    shift = tl.arange(0, 8) // 2 * 4 + tl.arange(0, 8) % 2 * 16
    total = tl.zeros((BLOCK_N, BLOCK_M), tl.float32)
    for done in range(start, end, BLOCK_K):
        words = tl.load(w_tile, mask=(columns < n)[:, None] & (done + word * 8 < k)[None, :], other=0)
        y = tl.load(x_tile, mask=(done + column < k)[:, None] & (rows < m)[None, :], other=0)
        w = ((words[:, :, None] >> shift[None, None, :]) & 15) - 8
        if GROUP >= BLOCK_K:
            at = scales + (done // GROUP * n + columns) * 2
            scale = tl.load(at, mask=columns < n, other=0).to(tl.float32)[:, None, None]
            zero = tl.load(at + 1, mask=columns < n, other=0).to(tl.float32)[:, None, None]
        else:
            first = done + word // (4 * WORDS) * (32 * WORDS) + word % WORDS * 32
            at = scales + (first // GROUP * n)[None, :] * 2 + columns[:, None] * 2
            inside = (columns < n)[:, None] & (first < k)[None, :]
            scale = tl.load(at, mask=inside, other=0).to(tl.float32)[:, :, None]
            zero = tl.load(at + 1, mask=inside, other=0).to(tl.float32)[:, :, None]
        values = convert(w.to(tl.float32) * scale + zero, WIDE)
        total = tl.dot(tl.reshape(values, (BLOCK_N, BLOCK_K)), y, total)
        x_tile += BLOCK_K
        w_tile += BLOCK_K
    return total


@triton.jit
def weight4_matmul(
    x,
    weight,
    scales,
    out,
    m,
    n,
    k,
    om,
    on,
    WORDS: tl.constexpr,
    GROUP: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    tile_m, tile_n = tile_of(tl.program_id(0), tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N), 8)
    rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    total = weight4_sums(
        x, weight, scales, rows, columns, 0, k, m, n, k, WORDS, GROUP, BLOCK_M, BLOCK_N, BLOCK_K, om.dtype
    )
    store_transposed(total, out, rows, columns, m, n, om, on)


@triton.jit
def weight4_stream_k(
    x,
    weight,
    scales,
    out,
    parts,
    counters,
    m,
    n,
    k,
    share,
    om,
    on,
    WORDS: tl.constexpr,
    GROUP: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Multiply `share` K steps in each program, across tiles; see `stream_k_kernels`."""
    tiles_m, tiles_n, steps = tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N), tl.cdiv(k, BLOCK_K)
    begin = tl.program_id(0) * share
    end = tl.minimum(begin + share, tiles_m * tiles_n * steps)
    for tile in range(begin // steps, tl.cdiv(end, steps)):
        tile_m, tile_n = tile_of(tile, tiles_m, tiles_n, 8)
        rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
        columns = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
        start = tile * steps
        low = tl.maximum(begin - start, 0) * BLOCK_K
        high = tl.minimum(end - start, steps) * BLOCK_K
        total = weight4_sums(
            x, weight, scales, rows, columns, low, high, m, n, k,
            WORDS, GROUP, BLOCK_M, BLOCK_N, BLOCK_K, om.dtype,
        )  # fmt: skip
        mask = (columns < n)[:, None] & (rows < m)[None, :]
        first, last = start // share, (start + steps - 1) // share
        is_whole = first == last
        if not is_whole:
            is_whole, total = joined_sums(total, parts, counters + tile, first, last, mask, BLOCK_N, BLOCK_M)
        if is_whole:
            store_transposed(total, out, rows, columns, m, n, om, on)


TILES = (
    Configuration((64, 64, 128), 8, 2, 1),
    # For few rows: four steps' 16 KiB of the weight are under way in each program.
    Configuration((16, 64, 128), 8, 4, 1),
)

declare(
    weight4_matmul,
    why="see each configuration; many rows are bound by conversions and arithmetic, few by reading the weight",
    operand="x",
    tile=("BLOCK_M", "BLOCK_N", "BLOCK_K"),
    dtypes={("bf16", "fp16"): TILES},
    smaller=True,
    operations="2 m n k",
    traffic="n k (1 / 2 + 2 itemsize / g) + (m k + m n) itemsize, and each again for every tile that shares it",
    tensor_cores=("bf16", "fp16"),
)

DIVIDED = (
    # Two programs of each multiprocessor, with five steps' 20 KiB of the weight under way in each.
    Configuration((16, 64, 128), 4, 6, 2),
)

declare(
    weight4_stream_k,
    why="few rows are bound by reading the weight: every multiprocessor reads the same number of its bytes",
    operand="x",
    tile=("BLOCK_M", "BLOCK_N", "BLOCK_K"),
    dtypes={("bf16", "fp16"): DIVIDED},
    operations="2 m n k",
    traffic="n k (1 / 2 + 2 itemsize / g) + (m k + m n) itemsize, and 8 bytes for each sum of a shared tile's part",
    tensor_cores=("bf16", "fp16"),
)


def tiling(call: StructuredCall, m: int, n: int, k: int) -> Tiling:
    """Return the tile: the skinny one for few rows or too few large tiles for the multiprocessors, else large."""
    words = call.args["mat2"].sizes[3]
    if interpreted():
        return Tiling(bounded(m, 64), bounded(n, 64), max(bounded(k, 128), 32 * words), 4, 1)
    large, small = TILES
    tiles = cdiv(m, large.tile[0]) * cdiv(n, large.tile[1])
    configuration = small if m <= FEW_ROWS or 2 * tiles < multiprocessors(call.device) else large
    return Tiling(*configuration.tile, configuration.warps, configuration.stages)


def weight_int4pack_mm(call: StructuredCall) -> PlannedKernel:
    """Return the kernel of ``_weight_int4pack_mm``."""
    x, weight, group, out = (*(call.args[name] for name in ("self", "mat2", "qGroupSize")), call.outputs[0])
    if out.numel == 0:
        return PlannedKernel(launch_nothing)
    (m, k), n = x.sizes, out.sizes[1]
    tile = tiling(call, m, n, k)
    om, on = out.strides
    division = None
    if interpreted() or (m <= FEW_ROWS and group >= DIVIDED[0].tile[2]):
        divided = Configuration((tile.m, tile.n, tile.k), 4, 1) if interpreted() else DIVIDED[0]
        division = divide_weight(divided, m, n, k, call.device)
        if division is not None:
            tile = Tiling(*divided.tile, divided.warps, divided.stages)
    name = x.dtype.triton_name
    sizes = {"m": m, "n": n, "k": k}
    strides = {"om": om, "on": on}
    constants: dict[str, object] = {"on": 1} if on == 1 else {}
    reach = max((m + tile.m) * max(k, om), (n + tile.n) * on) + 2 * tile.k
    signature = {
        "x": f"*{name}",
        "weight": "*i32",
        "scales": f"*{name}",
        "out": f"*{name}",
        **dict.fromkeys(sizes, "i32"),
        **{each: integer_type(2 * reach) for each in strides if each not in constants},
    }
    divisible = [each for each, value in (sizes | strides).items() if value % 16 == 0]
    if division is not None:
        sizes["share"] = division.share
        signature = with_types_of_parts(signature)
    launch = Launch(
        call.device,
        weight4_matmul if division is None else weight4_stream_k,
        signature,
        {**constants, "WORDS": weight.sizes[3], "GROUP": group, **tile.constants()},
        divisible=divisible,
        elements=("counters",),
        num_warps=tile.warps,
        num_stages=tile.stages,
    )
    grid = (cdiv(m, tile.m) * cdiv(n, tile.n), 1, 1)
    numbers = tuple(value for each, value in (sizes | strides).items() if each not in constants)

    divided_launch = None if division is None else with_parts(launch, division, call.device)

    def into(out_data: object, *inputs: object) -> None:
        a, w, scales = (each.address for each in inputs)  # type: ignore[attr-defined]
        if divided_launch is None:
            launch(grid, a, w, scales, out_data.address, *numbers)  # type: ignore[attr-defined]
        else:
            divided_launch((a, w, scales, out_data.address), numbers)  # type: ignore[attr-defined]

    return PlannedKernel(into)


register_stub("_weight_int4pack_mm_stub", "cuda", weight_int4pack_mm)
