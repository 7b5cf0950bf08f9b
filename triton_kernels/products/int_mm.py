"""Products of 8-bit integers in int32, on tensor cores, over strides as they come; with scales in floats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.cuda.driver import driver
from ...runtime.cuda.triton.lazy_triton import libdevice, tl, triton
from ..budget import Configuration, declare
from ..conversion import convert
from ..launch import Launch, cdiv, integer_type, interpreted, launch_nothing
from .mm import where_aligned
from .problem import Matrices, multiprocessors
from .product import Tiling, bounded, stride_arguments, tile_of


@triton.jit
def int_matmul(
    a,
    b,
    out,
    scale_a,
    scale_b,
    offsets,
    bias,
    zero,
    least,
    m,
    n,
    k,
    am,
    ak,
    bk,
    bn,
    om,
    on,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    tile_m, tile_n = tile_of(tl.program_id(0), tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N), 8)
    rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    a_tile = a + rows[:, None] * am + inner[None, :] * ak
    b_tile = b + inner[:, None] * bk + columns[None, :] * bn
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.int32)
    for done in range(0, k, BLOCK_K):
        left = k - done
        x = tl.load(a_tile, mask=(rows < m)[:, None] & (inner < left)[None, :], other=0)
        y = tl.load(b_tile, mask=(inner < left)[:, None] & (columns < n)[None, :], other=0)
        total = tl.dot(x, y, total, out_dtype=tl.int32)
        a_tile += BLOCK_K * ak
        b_tile += BLOCK_K * bk
    out_ptrs = out + rows[:, None] * om + columns[None, :] * on
    within = (rows < m)[:, None] & (columns < n)[None, :]
    if scale_b is None:
        tl.store(out_ptrs, total, mask=within)
    elif scale_a is None:
        total -= tl.load(offsets + columns, mask=columns < n, other=0)[None, :]
        steps = total.to(tl.float32)
        if bias is not None:
            steps += tl.load(bias + columns, mask=columns < n, other=0)[None, :]
        steps = libdevice.rint(steps * tl.load(scale_b + columns, mask=columns < n, other=0)[None, :])
        steps += zero.to(tl.float32)
        # Nan becomes the greatest integer.
        steps = tl.where(steps < least, least.to(tl.float32), steps)
        steps = tl.where(steps < 255.0, steps, 255.0)
        tl.store(out_ptrs, steps.to(tl.int32).to(tl.uint8), mask=within)
    else:
        by_row = tl.load(scale_a + rows, mask=rows < m, other=0)
        by_column = tl.load(scale_b + columns, mask=columns < n, other=0)
        value = total.to(tl.float32) * by_row[:, None] * by_column[None, :]
        tl.store(out_ptrs, convert(value, out.dtype.element_ty), mask=within)


TILES = (
    # 64 registers of sums for each lane, and the address and mask of each vector of the operands.
    Configuration((128, 128, 128), 8, 3, {90: 1, 100: 1}),
    Configuration((128, 128, 64), 8, 3, {80: 1}),
    Configuration((64, 64, 64), 4, 4, 2),
)
BY_BYTES = Configuration((64, 64, 32), 4, 3, 1)
"""Tile for operands without whole contiguous vectors along K, or that begin between two vectors: each byte has an
address and a mask.
"""

declare(
    int_matmul,
    why="see each configuration; a product is bound by arithmetic, and a tile's sums by registers",
    operand="a",
    tile=("BLOCK_M", "BLOCK_N", "BLOCK_K"),
    dtypes={("i8",): (*TILES, BY_BYTES)},
    smaller=True,
    operations="2 m n k",
    traffic="m k + k n + 4 m n, or 2 m n of 16-bit results, and each operand again for every tile that shares it and "
    "finds it not in L2",
    loads=("a", "b"),
    stores=("out",),
    tensor_cores=("i8",),
)


def tiling(call: StructuredCall, m: int, n: int, k: int) -> Tiling:
    """Return the tile, large if the tiles fill the multiprocessors."""
    if interpreted():
        return Tiling(bounded(m, 128), bounded(n, 128), max(bounded(k, 128), 32), 4, 1)
    operands = Matrices.of(call.args["self"]), Matrices.of(call.args["mat2"])
    along = operands[0].strides[2] == 1 and operands[1].strides[1] == 1
    configuration = BY_BYTES
    if along and all(operand.has_whole_vectors for operand in operands):
        design = driver().properties(call.device.resolved_index).design
        large, small = (tile for tile in TILES if tile.is_for(design))
        tiles = cdiv(m, large.tile[0]) * cdiv(n, large.tile[1])
        configuration = large if tiles >= multiprocessors(call.device) else small
    return Tiling(*configuration.tile, configuration.warps, configuration.stages)


def int_mm(call: StructuredCall) -> PlannedKernel:
    """Return the kernel of ``_int_mm``, and of the variants that scale the sums before the store."""
    left, right = call.args["self"], call.args["mat2"]
    if call.outputs[0].numel == 0:
        return PlannedKernel(launch_nothing)
    tile = tiling(call, left.sizes[0], right.sizes[1], left.sizes[1])
    small = tile if interpreted() else Tiling(*BY_BYTES.tile, BY_BYTES.warps, BY_BYTES.stages)
    run = where_aligned(plan_launch(call, tile), 2, lambda: plan_launch(call, small))
    if "offsets" not in call.args:
        return PlannedKernel(
            lambda out, x, y, *scales: run(
                x.address, y.address, out.address, *(each.address for each in scales)
            )
        )
    grid = (call.args["zero_point"], call.args["least"])

    def into(out: Any, x: Any, y: Any, offsets: Any, bias: Any, multiplier: Any) -> None:
        numbers = (multiplier, offsets) if bias is None else (multiplier, offsets, bias)
        run(x.address, y.address, out.address, *(each.address for each in numbers), *grid)

    return PlannedKernel(into)


def plan_launch(call: StructuredCall, tile: Tiling) -> Callable[..., None]:
    """Return ``launch(a, b, out)`` over addresses."""
    left, right, out = call.args["self"], call.args["mat2"], call.outputs[0]
    (m, k), n = left.sizes, right.sizes[1]
    strides = dict(
        zip(("am", "ak", "bk", "bn", "om", "on"), (*left.strides, *right.strides, *out.strides), strict=True)
    )
    reach = max(
        (m + tile.m) * max(abs(strides["am"]), abs(strides["om"])) + (k + tile.k) * abs(strides["ak"]),
        (n + tile.n) * max(abs(strides["bn"]), abs(strides["on"])) + (k + tile.k) * abs(strides["bk"]),
    )
    signature, constants, values, divisible = stride_arguments(strides, integer_type(2 * reach))
    sizes = {"m": m, "n": n, "k": k}
    every = {
        "a": "*i8",
        "b": "*i8",
        "out": f"*{out.dtype.triton_name}",
        **dict.fromkeys(sizes, "i32"),
        **signature,
    }
    if "scale_a" in call.args:
        every |= {"scale_a": "*fp32", "scale_b": "*fp32"}
    if "offsets" in call.args:
        every |= {"scale_b": "*fp32", "offsets": "*i32", "zero": "i32", "least": "i32"}
        every |= {} if call.args["bias"] is None else {"bias": "*fp32"}
    absent = ("scale_a", "scale_b", "offsets", "bias", "zero", "least")
    constants |= {name: None for name in absent if name not in every}
    launch = Launch(
        call.device,
        int_matmul,
        {name: every[name] for name in int_matmul.arg_names if name in every},
        {**constants, **tile.constants()},
        divisible=[*divisible, *(name for name, size in sizes.items() if size % 16 == 0)],
        num_warps=tile.warps,
        num_stages=tile.stages,
    )
    grid = (cdiv(m, tile.m) * cdiv(n, tile.n), 1, 1)
    numbers = tuple(
        {**sizes, **values}[name] for name in int_matmul.arg_names if name in sizes or name in values
    )
    return lambda *given: launch(grid, *given, *numbers)


register_stub("_int_mm_stub", "cuda", int_mm)
register_stub("_scaled_int_mm_stub", "cuda", int_mm)
register_stub("_requantized_int_mm_stub", "cuda", int_mm)
