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
from .weight_only import FEW_ROWS


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
    """Compute a tile of a matmul with 4-bit weights; WORDS words of a lane are adjacent, GROUP columns share scale and
    zero point.
    """
    WIDE: tl.constexpr = scales.dtype.element_ty
    tile_m, tile_n = tile_of(tl.program_id(0), tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N), 8)
    rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    # Column 32 * (word of the lane) + 2 * lane + 8 * (pair of columns) + (column of the pair), as words have them.
    inner = tl.arange(0, BLOCK_K)
    place = inner // 8
    column = place // (4 * WORDS) * (32 * WORDS) + place % WORDS * 32 + place // WORDS % 4 * 2
    column += inner % 8 // 2 * 8 + inner % 2
    word = tl.arange(0, BLOCK_K // 8)
    w_tile = weight + (columns // 8 * k + columns % 8 * (4 * WORDS))[:, None]
    w_tile += (word // (4 * WORDS) * (32 * WORDS) + word % (4 * WORDS))[None, :]
    x_tile = x + column[:, None] + rows[None, :].to(om.dtype) * k
    shift = tl.arange(0, 8) // 2 * 4 + tl.arange(0, 8) % 2 * 16
    total = tl.zeros((BLOCK_N, BLOCK_M), tl.float32)
    for done in range(0, k, BLOCK_K):
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
    out_ptrs = out + rows[:, None].to(om.dtype) * om + columns[None, :].to(om.dtype) * on
    value = convert(tl.trans(total), out.dtype.element_ty)
    tl.store(out_ptrs, value, mask=(rows < m)[:, None] & (columns < n)[None, :])


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
    name = x.dtype.triton_name
    sizes = {"m": m, "n": n, "k": k}
    strides = {"om": om, "on": on}
    constants: dict[str, object] = {"on": 1} if on == 1 else {}
    reach = max((m + tile.m) * max(k, om), (n + tile.n) * on) + 2 * tile.k
    launch = Launch(
        call.device,
        weight4_matmul,
        {
            "x": f"*{name}",
            "weight": "*i32",
            "scales": f"*{name}",
            "out": f"*{name}",
            **dict.fromkeys(sizes, "i32"),
            **{each: integer_type(2 * reach) for each in strides if each not in constants},
        },
        {**constants, "WORDS": weight.sizes[3], "GROUP": group, **tile.constants()},
        divisible=[each for each, value in (sizes | strides).items() if value % 16 == 0],
        num_warps=tile.warps,
        num_stages=tile.stages,
    )
    grid = (cdiv(m, tile.m) * cdiv(n, tile.n), 1, 1)
    numbers = tuple(value for each, value in (sizes | strides).items() if each not in constants)

    def into(out_data: object, *inputs: object) -> None:
        a, w, scales = (each.address for each in inputs)  # type: ignore[attr-defined]
        launch(grid, a, w, scales, out_data.address, *numbers)  # type: ignore[attr-defined]

    return PlannedKernel(into)


register_stub("_weight_int4pack_mm_stub", "cuda", weight_int4pack_mm)
