"""Block-scaled matmuls of 8-bit and 4-bit floats, with a scale for 32 or 16 K elements: MXFP8, MXFP4 and NVFP4.

Tensor cores take the scales from sm_100 on. For earlier devices Triton's code rounds an element times its
scale to bfloat16, which is infinite from 2**128 on and loses bits below 2**-126. Those results differ, so
this module rejects such devices.

Source: OCP Microscaling Formats (MX), version 1.0; the layout of scales is that of cuBLAS, "1D Block Scaling Factors".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...dispatch.structured.meta.block_scales import block_scaling
from ...dispatch.structured.stub import PlannedKernel, StructuredCall
from ...runtime.cuda.driver import driver
from ...runtime.cuda.triton.lazy_triton import tl, triton
from ...runtime.scalar_type import PACKED
from ..budget import Configuration, declare
from ..conversion import convert
from ..launch import Launch, cdiv, integer_type, interpreted
from .epilogue import saturated
from .mm import where_aligned
from .problem import Matrices, multiprocessors
from .product import Tiling, bounded, stride_arguments, tile_of

FORMATS = {"float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2", "float4_e2m1fn_x2": "e2m1"}
"""Names of the formats in `tl.dot_scaled`."""
FIRST_CAPABILITY = 100


@triton.jit
def scale_addresses(scales, lines, first, chunks, BLOCKS: tl.constexpr):
    """Return the addresses of the scales of lines, for BLOCKS blocks from a block whose number is a multiple of 4.

    128 lines and 4 blocks share 512 bytes. In these, 32 lines are 16 bytes apart, with the other lines between
    them.
    """
    blocks = first + tl.arange(0, BLOCKS)
    line = (lines // 128).to(tl.int64) * chunks * 512 + lines % 32 * 16 + lines % 128 // 32 * 4
    return scales + line[:, None] + (blocks // 4 * 512 + blocks % 4)[None, :]


@triton.jit
def block_scaled_matmul(
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
    sn,
    FORMAT_A: tl.constexpr,
    FORMAT_B: tl.constexpr,
    PACKED: tl.constexpr,
    VECTOR: tl.constexpr,
    WHOLE: tl.constexpr,
    SATURATES: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Compute a tile of a matmul over k bytes. VECTOR elements along K share a scale; PACKED elements share a byte.

    WHOLE: k is a multiple of the tile's K.
    """
    tile_m, tile_n = tile_of(tl.program_id(0), tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N), 8)
    rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    WIDTH: tl.constexpr = BLOCK_K // PACKED
    BLOCKS: tl.constexpr = BLOCK_K // VECTOR
    inner = tl.arange(0, WIDTH)
    count = tl.cdiv(k, VECTOR // PACKED)
    chunks = tl.cdiv(count, 4)
    a_tile = a + rows[:, None] * am + inner[None, :] * ak
    b_tile = b + inner[:, None] * bk + columns[None, :] * bn
    a_scales = scale_addresses(scale_a, rows, 0, chunks, BLOCKS)
    b_scales = scale_addresses(scale_b, columns, 0, chunks, BLOCKS)
    some_rows, some_columns = (rows < m)[:, None], (columns < n)[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for done in range(0, k, WIDTH):
        if WHOLE:
            x = tl.load(a_tile, mask=some_rows, other=0.0)
            y = tl.load(b_tile, mask=some_columns, other=0.0)
            by_row = tl.load(a_scales, mask=some_rows, other=0.0)
            by_column = tl.load(b_scales, mask=(columns < n)[:, None], other=0.0)
        else:
            left = k - done
            blocks = (done // (VECTOR // PACKED) + tl.arange(0, BLOCKS) < count)[None, :]
            x = tl.load(a_tile, mask=some_rows & (inner < left)[None, :], other=0.0)
            y = tl.load(b_tile, mask=(inner < left)[:, None] & some_columns, other=0.0)
            # The padding of the scales may be NaN.
            by_row = tl.load(a_scales, mask=some_rows & blocks, other=0.0)
            by_column = tl.load(b_scales, mask=(columns < n)[:, None] & blocks, other=0.0)
        total = tl.dot_scaled(x, by_row, FORMAT_A, y, by_column, FORMAT_B, total)
        a_tile += WIDTH * ak
        b_tile += WIDTH * bk
        a_scales += BLOCKS // 4 * 512
        b_scales += BLOCKS // 4 * 512
    if addend is not None:
        total += tl.load(addend + columns * sn, mask=columns < n, other=0).to(tl.float32)[None, :]
    if SATURATES:
        total = saturated(total, scale_out, out.dtype.element_ty)
    out_ptrs = out + rows[:, None] * om + columns[None, :] * on
    tl.store(out_ptrs, convert(total, out.dtype.element_ty), mask=some_rows & some_columns)


TILES = (
    Configuration((128, 256, 128), 8, 3, {100: 1}),
    Configuration((128, 128, 128), 8, 3, {100: 1, 120: 1}),
)
"""Tiles for 8-bit floats."""
PACKED_TILES = (
    Configuration((128, 256, 256), 8, 3, {100: 1}),
    Configuration((128, 128, 256), 8, 3, {100: 1, 120: 1}),
)
"""Tiles for 4-bit floats."""
UNALIGNED = (
    Configuration((128, 32, 128), 8, 2, {100: 1}),
    Configuration((64, 32, 128), 8, 2, {120: 1}),
)
"""Tiles for operands without whole contiguous vectors along K, or that begin between two vectors."""

declare(
    block_scaled_matmul,
    why="see each configuration; a product is bound by arithmetic, and a tile's sums by registers",
    operand="a",
    tile=("BLOCK_M", "BLOCK_N", "BLOCK_K"),
    dtypes={("fp8e4nv", "fp8e5"): (*TILES, *UNALIGNED), ("u8",): (*PACKED_TILES, *UNALIGNED)},
    smaller=True,
    operations="2 m n k",
    traffic="m k + k n + m n itemsize, and a scale for VECTOR elements of either operand",
    loads=("a", "b"),
    tensor_cores=("fp8e4nv", "fp8e5", "u8"),
)


def tilings(call: StructuredCall) -> tuple[Tiling, Tiling]:
    """Return the tile, large if the tiles fill the multiprocessors, and the tile of unaligned operands."""
    (m, n), packed = call.outputs[0].sizes, call.args["self"].dtype is PACKED
    if interpreted():
        tiling = Tiling(bounded(m, 64), bounded(n, 64), 256 if packed else 128, 4, 1)
        return tiling, tiling
    capability = driver().properties(call.device.resolved_index).capability
    groups = (PACKED_TILES if packed else TILES, UNALIGNED)
    fitting, other = ([tile for tile in group if tile.is_for(capability)] for group in groups)
    operands = Matrices.of(call.args["self"]), Matrices.of(call.args["mat2"])
    chosen = other[0]
    if operands[0].strides[2] == 1 == operands[1].strides[1] and all(o.has_whole_vectors for o in operands):
        tiles = cdiv(m, fitting[0].tile[0]) * cdiv(n, fitting[0].tile[1])
        chosen = fitting[0] if tiles >= multiprocessors(call.device) else fitting[-1]
    large, small = (Tiling(*each.tile, each.warps, each.stages) for each in (chosen, other[0]))
    return large, small


def refuse_old_devices(call: StructuredCall) -> None:
    """Refuse devices whose tensor cores do not take scales of blocks."""
    properties = driver().properties(call.device.resolved_index)
    if properties.capability < FIRST_CAPABILITY and not interpreted():
        raise NotImplementedError(
            f"{call.name}: products of {call.args['self'].dtype} with scales of {call.args['scale_a'].dtype} "
            "need compute capability 10.0 or later, "
            f"{properties.name} has {properties.major}.{properties.minor}"
        )


def block_scaled_mm(call: StructuredCall) -> PlannedKernel:
    """Return the kernel of ``_scaled_mm`` with a scale for each 32 or 16 elements."""
    refuse_old_devices(call)
    tile, small = tilings(call)
    run = where_aligned(plan_launch(call, tile), 2, lambda: plan_launch(call, small))
    result = call.outputs[0].itemsize == 1 and call.args["scale_result"] is not None
    before = [*("self", "mat2"), *([] if call.args["bias"] is None else ["bias"])]
    after = ["scale_a", "scale_b", *(["scale_result"] if result else [])]
    first, last = ([call.runtime.index(name) for name in names] for names in (before, after))

    def into(out: Any, *inputs: Any) -> None:
        run(*(inputs[i].address for i in first), out.address, *(inputs[i].address for i in last))

    return PlannedKernel(into)


def plan_launch(call: StructuredCall, tile: Tiling) -> Callable[..., None]:
    """Return ``launch(a, b, [addend,] out, scale of a, scale of b, [scale of out])`` over addresses."""
    left, right, by_row = (call.args[name] for name in ("self", "mat2", "scale_a"))
    bias, out = call.args["bias"], call.outputs[0]
    scaling = block_scaling(left, right, by_row, call.args["scale_b"])
    assert scaling is not None
    (m, k), n = left.sizes, right.sizes[1]
    strides: dict[str, int] = {}
    for letters, spec in zip(("am ak", "bk bn", "om on"), (left, right, out), strict=True):
        strides |= dict(zip(letters.split(), spec.strides, strict=True))
    strides["sn"] = bias.strides[-1] if bias is not None and bias.ndim else 0
    reach = max(
        (m + tile.m) * max(abs(strides[s]) for s in ("am", "om")) + (k + tile.k) * abs(strides["ak"]),
        (n + tile.n) * max(abs(strides[s]) for s in ("bn", "on", "sn")) + (k + tile.k) * abs(strides["bk"]),
    )
    signature, constants, values, divisible = stride_arguments(strides, integer_type(2 * reach))
    sizes = {"m": m, "n": n, "k": k}
    saturates = out.itemsize == 1
    every = {
        "a": f"*{left.dtype.triton_name}",
        "b": f"*{right.dtype.triton_name}",
        "out": f"*{out.dtype.triton_name}",
        **dict.fromkeys(("scale_a", "scale_b"), f"*{by_row.dtype.triton_name}"),
        **dict.fromkeys(sizes, "i32"),
        **signature,
    }
    optional = {
        "addend": None if bias is None else f"*{bias.dtype.triton_name}",
        "scale_out": "*fp32" if saturates and call.args["scale_result"] is not None else None,
    }
    for name, type_ in optional.items():
        if type_ is None:
            constants[name] = None
        else:
            every[name] = type_
    launch = Launch(
        call.device,
        block_scaled_matmul,
        {name: every[name] for name in block_scaled_matmul.arg_names if name in every},
        {
            **constants,
            "FORMAT_A": FORMATS[left.dtype.name],
            "FORMAT_B": FORMATS[right.dtype.name],
            "PACKED": scaling.packed,
            "VECTOR": scaling.vector,
            "WHOLE": k * scaling.packed % tile.k == 0,
            "SATURATES": saturates,
            **tile.constants(),
        },
        divisible=[*divisible, *(name for name, size in sizes.items() if size % 16 == 0)],
        elements=("addend", "scale_out"),
        num_warps=tile.warps,
        num_stages=tile.stages,
    )
    grid = (cdiv(m, tile.m) * cdiv(n, tile.n), 1, 1)
    numbers = tuple(
        {**sizes, **values}[name] for name in block_scaled_matmul.arg_names if name in sizes or name in values
    )
    return lambda *addresses: launch(grid, *addresses, *numbers)
