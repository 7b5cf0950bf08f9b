"""Products of 8-bit floats with a scale for each 128 inner elements of a row or column, or of 128 of these.

The sums of 128 products leave the tensor cores, take their scales and are added up in float32.
Source: DeepSeek-AI, "DeepSeek-V3 Technical Report" (2024), section 3.3.2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...dispatch.structured.stub import PlannedKernel, StructuredCall
from ...runtime.cuda.driver import driver
from ...runtime.cuda.triton.lazy_triton import tl, triton
from ..budget import Configuration, declare
from ..conversion import convert
from ..launch import Launch, cdiv, integer_type, interpreted
from .epilogue import saturated
from .mm import where_aligned
from .problem import Matrices, multiprocessors
from .product import Tiling, bounded, stride_arguments, tile_of

INNER = 128
"""Inner elements that share a scale."""


@triton.jit
def scaled_blocks_matmul(
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
    am,
    ak,
    bk,
    bn,
    om,
    on,
    ra,
    rk,
    ck,
    cn,
    sn,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    SATURATES: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Compute a tile of a matmul; ROWS rows and COLUMNS columns share a scale for each `BLOCK_K` of K."""
    tile_m, tile_n = tile_of(tl.program_id(0), tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N), 8)
    rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    a_tile = a + rows[:, None] * am + inner[None, :] * ak
    b_tile = b + inner[:, None] * bk + columns[None, :] * bn
    a_scales = scale_a + rows // ROWS * ra
    b_scales = scale_b + columns // COLUMNS * cn
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for done in range(0, k, BLOCK_K):
        left = k - done
        x = tl.load(a_tile, mask=(rows < m)[:, None] & (inner < left)[None, :], other=0.0)
        y = tl.load(b_tile, mask=(inner < left)[:, None] & (columns < n)[None, :], other=0.0)
        by_row = tl.load(a_scales, mask=rows < m, other=0)
        by_column = tl.load(b_scales, mask=columns < n, other=0)
        total += tl.dot(x, y) * by_row[:, None] * by_column[None, :]
        a_tile += BLOCK_K * ak
        b_tile += BLOCK_K * bk
        a_scales += rk
        b_scales += ck
    if addend is not None:
        total += tl.load(addend + columns * sn, mask=columns < n, other=0).to(tl.float32)[None, :]
    if SATURATES:
        total = saturated(total, scale_out, out.dtype.element_ty)
    out_ptrs = out + rows[:, None] * om + columns[None, :] * on
    tl.store(
        out_ptrs, convert(total, out.dtype.element_ty), mask=(rows < m)[:, None] & (columns < n)[None, :]
    )


TILES = (
    # Sums are kept twice, together with a step's scales.
    Configuration((128, 128, 128), 8, 3, {90: 1, 100: 1}),
    Configuration((128, 64, 128), 8, 3, {89: 1}),
    Configuration((64, 64, 128), 4, 3, {89: 2, 90: 2, 100: 2}),
)
UNALIGNED = Configuration((64, 32, 128), 8, 2, {89: 1, 90: 1, 100: 1})
"""Tile for operands without whole contiguous vectors along K, or that begin between two vectors."""

declare(
    scaled_blocks_matmul,
    why="see each configuration; a product is bound by arithmetic, and a tile's sums by registers",
    operand="a",
    tile=("BLOCK_M", "BLOCK_N", "BLOCK_K"),
    dtypes={("fp8e4nv", "fp8e5"): (*TILES, UNALIGNED)},
    smaller=True,
    operations="2 m n k (1 + 1 / 128)",
    traffic="m k + k n + m n itemsize, and each operand again for every tile that shares it and finds it not in L2",
    loads=("a", "b"),
    tensor_cores=("fp8e4nv", "fp8e5"),
)


def tiling(call: StructuredCall, m: int, n: int) -> Tiling:
    """Return the tile, large if the tiles fill the multiprocessors."""
    if interpreted():
        return Tiling(bounded(m, 64), bounded(n, 64), INNER, 4, 1)
    operands = Matrices.of(call.args["self"]), Matrices.of(call.args["mat2"])
    configuration = UNALIGNED
    if operands[0].strides[2] == 1 == operands[1].strides[1] and all(o.has_whole_vectors for o in operands):
        capability = driver().properties(call.device.resolved_index).capability
        large, small = (tile for tile in TILES if tile.is_for(capability))
        tiles = cdiv(m, large.tile[0]) * cdiv(n, large.tile[1])
        configuration = large if tiles >= multiprocessors(call.device) else small
    return Tiling(*configuration.tile, configuration.warps, configuration.stages)


def scaled_blocks_mm(call: StructuredCall, shared: tuple[int, int]) -> PlannedKernel:
    """Return the kernel of ``_scaled_mm`` whose scales `shared` rows and columns share."""
    tile = tiling(call, call.outputs[0].sizes[0], call.outputs[0].sizes[1])
    small = tile if interpreted() else Tiling(*UNALIGNED.tile, UNALIGNED.warps, UNALIGNED.stages)
    run = where_aligned(plan_launch(call, shared, tile), 2, lambda: plan_launch(call, shared, small))
    result = call.outputs[0].itemsize == 1 and call.args["scale_result"] is not None
    before = [*("self", "mat2"), *([] if call.args["bias"] is None else ["bias"])]
    after = ["scale_a", "scale_b", *(["scale_result"] if result else [])]
    first, last = ([call.runtime.index(name) for name in names] for names in (before, after))

    def into(out: Any, *inputs: Any) -> None:
        run(*(inputs[i].address for i in first), out.address, *(inputs[i].address for i in last))

    return PlannedKernel(into)


def plan_launch(call: StructuredCall, shared: tuple[int, int], tile: Tiling) -> Callable[..., None]:
    """Return ``launch(a, b, [addend,] out, scale of a, scale of b, [scale of out])`` over addresses."""
    names = ("self", "mat2", "scale_a", "scale_b")
    left, right, by_row, by_column = (call.args[name] for name in names)
    bias, out = call.args["bias"], call.outputs[0]
    (m, k), n = left.sizes, right.sizes[1]
    specs = (left, right, out, by_row, by_column)
    strides: dict[str, int] = {}
    for letters, spec in zip(("am ak", "bk bn", "om on", "ra rk", "ck cn"), specs, strict=True):
        strides |= dict(zip(letters.split(), spec.strides, strict=True))
    strides["sn"] = bias.strides[-1] if bias is not None and bias.ndim else 0
    reach = max(
        (m + tile.m) * max(abs(strides[s]) for s in ("am", "om", "ra")) + (k + tile.k) * abs(strides["ak"]),
        (n + tile.n) * max(abs(strides[s]) for s in ("bn", "on", "cn", "sn"))
        + (k + tile.k) * abs(strides["bk"]),
    )
    signature, constants, values, divisible = stride_arguments(strides, integer_type(2 * reach))
    sizes = {"m": m, "n": n, "k": k}
    saturates = out.itemsize == 1
    result = saturates and call.args["scale_result"] is not None
    every = {
        "a": f"*{left.dtype.triton_name}",
        "b": f"*{right.dtype.triton_name}",
        "out": f"*{out.dtype.triton_name}",
        **dict.fromkeys(("scale_a", "scale_b"), "*fp32"),
        **dict.fromkeys(sizes, "i32"),
        **signature,
    }
    if bias is None:
        constants["addend"] = None
    else:
        every["addend"] = f"*{bias.dtype.triton_name}"
    if result:
        every["scale_out"] = "*fp32"
    else:
        constants["scale_out"] = None
    launch = Launch(
        call.device,
        scaled_blocks_matmul,
        {name: every[name] for name in scaled_blocks_matmul.arg_names if name in every},
        {
            **constants,
            "ROWS": shared[0],
            "COLUMNS": shared[1],
            "SATURATES": saturates,
            **tile.constants(),
        },
        divisible=[*divisible, *(name for name, size in sizes.items() if size % 16 == 0)],
        elements=("addend", "scale_a", "scale_b", "scale_out"),
        num_warps=tile.warps,
        num_stages=tile.stages,
    )
    grid = (cdiv(m, tile.m) * cdiv(n, tile.n), 1, 1)
    numbers = tuple(
        {**sizes, **values}[name]
        for name in scaled_blocks_matmul.arg_names
        if name in sizes or name in values
    )
    return lambda *addresses: launch(grid, *addresses, *numbers)
