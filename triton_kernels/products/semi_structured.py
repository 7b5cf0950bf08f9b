"""Matmuls with 2:4 sparse matrices, which are expanded between the load and the tensor cores.

Triton has no sparse matmul (`mma.sp`), so the tensor cores multiply the zeros too, and the gain is memory
traffic. For 16-bit floats the kernel reads 9 bytes instead of 16 (half of the elements, and four bits for
each four). For 8 bits it reads 10, for float32 (one in two, four bits for each) 9. For few columns, with
reads as the bottleneck, that bounds the speed-up at 1.78, 1.6 and 1.78. For many columns there is none, since
the arithmetic is that of a dense matmul plus the expansion.

The packed matrix is the left operand of `tl.dot`: sm_90's tensor cores take it from registers, where it is
expanded.
"""

from __future__ import annotations

from collections.abc import Callable

from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.cuda.driver import driver
from ...runtime.cuda.triton.lazy_triton import tl, triton
from ..budget import Configuration, declare
from ..conversion import convert
from ..launch import Launch, cdiv, integer_type, interpreted, launch_nothing
from .mm import where_aligned
from .problem import multiprocessors
from .product import Tiling, bounded, stride_arguments, tile_of
from .weight_only import DIVISOR, FEW_ROWS


@triton.jit
def made_whole(kept, bits, FLOAT32: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Expand a tile of kept elements (ROWS, COLUMNS / 2) and their metadata bits (ROWS, COLUMNS / 4 or / 2) to (ROWS,
    COLUMNS).

    The first of two kept elements is never in the fourth column, and the second never in the first. Six selections
    therefore give four columns, which is most of the arithmetic.
    """
    none = tl.zeros_like(kept)
    if FLOAT32:
        second = (bits & 2) != 0
        return tl.reshape(
            tl.join(tl.where(second, none, kept), tl.where(second, kept, none)), (ROWS, COLUMNS)
        )
    else:
        one, two = tl.split(tl.reshape(kept, (ROWS, COLUMNS // 4, 2)))
        none = tl.zeros_like(one)
        at_one, at_two = bits & 3, bits >> 2
        second = tl.where(at_one == 1, one, tl.where(at_two == 1, two, none))
        third = tl.where(at_one == 2, one, tl.where(at_two == 2, two, none))
        first, fourth = tl.where(at_one == 0, one, none), tl.where(at_two == 3, two, none)
        return tl.reshape(tl.join(tl.join(first, third), tl.join(second, fourth)), (ROWS, COLUMNS))


@triton.jit
def semi_structured_matmul(
    x,
    values,
    words,
    bias,
    out,
    m,
    n,
    half,
    vs,
    ws,
    xk,
    xm,
    on,
    om,
    INTERLEAVED: tl.constexpr,
    BITS: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Compute a tile of n packed rows, each with `half` kept elements, by m columns; BITS is the number of metadata
    bits in a word.

    `vs` is `half` again. `ws` is the distance between the words of adjacent rows, or of adjacent column pairs if
    INTERLEAVED.
    """
    FLOAT32: tl.constexpr = values.dtype.element_ty == tl.float32
    INTEGER: tl.constexpr = values.dtype.element_ty == tl.int8
    KEPT: tl.constexpr = BITS // 4 if FLOAT32 else BITS // 2  # of a word
    ACROSS: tl.constexpr = BLOCK_K // 2 // KEPT
    tile_m, tile_n = tile_of(tl.program_id(0), tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N), 8)
    columns = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    rows = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    inner, of_kept, of_words = tl.arange(0, BLOCK_K), tl.arange(0, BLOCK_K // 2), tl.arange(0, ACROSS)
    x_tile = x + inner[:, None] * xk + columns[None, :] * xm
    v_tile = values + rows[:, None] * vs + of_kept[None, :]
    if INTERLEAVED:
        # As `interleaved` in dispatch/composite/semi_structured.py has them: two columns of words are 2 n apart.
        GROUP: tl.constexpr = 512 // BITS
        row = rows // GROUP * (2 * GROUP) + rows % 8 * (GROUP // 4) + rows % GROUP // 16 * 4 + rows // 8 % 2
        w_tile = words + row[:, None] + (of_words // 2)[None, :] * ws + (of_words % 2 * 2)[None, :]
        step = ACROSS // 2 * ws
    else:
        w_tile = words + rows[:, None] * ws + of_words[None, :]
        step = ACROSS
    shift = tl.arange(0, BITS // 4) * 4
    total = tl.zeros((BLOCK_N, BLOCK_M), tl.int32 if INTEGER else tl.float32)
    for done in range(0, half, BLOCK_K // 2):
        left = half - done
        inside = (rows < n)[:, None]
        kept = tl.load(v_tile, mask=inside & (of_kept < left)[None, :], other=0)
        word = tl.load(w_tile, mask=inside & (of_words * KEPT < left)[None, :], other=0)
        y = tl.load(x_tile, mask=(inner < 2 * left)[:, None] & (columns < m)[None, :], other=0)
        bits = tl.reshape((word[:, :, None] >> shift[None, None, :]) & 15, (BLOCK_N, ACROSS * (BITS // 4)))
        whole = made_whole(kept, bits, FLOAT32, BLOCK_N, BLOCK_K)
        if INTEGER:
            total = tl.dot(whole, y, total, out_dtype=tl.int32)
        else:
            total = tl.dot(whole, y, total, input_precision="ieee")
        x_tile += BLOCK_K * xk
        v_tile += BLOCK_K // 2
        w_tile += step
    if bias is not None:
        added = tl.load(bias + rows, mask=rows < n, other=0)[:, None]
        if INTEGER and added.dtype.is_int():
            total += added.to(tl.int32)
        else:
            total = total.to(tl.float32) + added.to(tl.float32)
    if out.dtype.element_ty == tl.int8:
        total = tl.minimum(tl.maximum(total, -128), 127)
    out_ptrs = out + rows[:, None] * on + columns[None, :] * om
    tl.store(
        out_ptrs, convert(total, out.dtype.element_ty), mask=(rows < n)[:, None] & (columns < m)[None, :]
    )


TILES = (
    Configuration((128, 128, 64), 8, 3, 1),
    Configuration((64, 64, 64), 4, 3, 2),
)
FEW = Configuration((16, 64, 256), 4, 3, 1)
"""For few columns: three steps' 54 KiB of the packed matrix are under way in each program."""
FEW_OF_INT8 = Configuration((16, 64, 128), 4, 4, 2)
"""Tile of few columns for 8 bits: the elements of `FEW` would exceed the registers of sm_100."""
FLOAT32 = (Configuration((64, 64, 32), 8, 3, 2), Configuration((16, 32, 128), 4, 3, 2))
"""By multiplication and addition, since tensor cores have no product of float32."""
BY_ELEMENTS = Configuration((32, 64, 64), 4, 2, 2)
"""Tile for lines that are not whole vectors, or begin between two of them: each element has an address and a mask."""
FLOAT32_BY_ELEMENTS = Configuration((32, 64, 32), 4, 2, 2)

declare(
    semi_structured_matmul,
    why="see each configuration; many columns are bound by making tiles whole and by arithmetic, few by reading",
    operand="values",
    tile=("BLOCK_M", "BLOCK_N", "BLOCK_K"),
    dtypes={
        ("bf16", "fp16"): (*TILES, FEW, BY_ELEMENTS),
        ("i8",): (*TILES, FEW_OF_INT8, BY_ELEMENTS),
        ("fp32",): (*FLOAT32, FLOAT32_BY_ELEMENTS),
    },
    smaller=True,
    operations="2 m n k",
    traffic="9 n k itemsize / 16 (10 of i8) + (k m + n m) itemsize, and each again for every tile that shares it",
    tensor_cores=("bf16", "fp16", "i8"),
)


def by_elements(call: StructuredCall) -> Tiling:
    """Return the tile for operands that are not loaded in vectors."""
    configuration = FLOAT32_BY_ELEMENTS if call.args["values"].dtype.itemsize == 4 else BY_ELEMENTS
    return Tiling(*configuration.tile, configuration.warps, configuration.stages)


def tiling(call: StructuredCall, m: int, n: int, k: int) -> Tiling:
    """Return the tile: the skinny one for few columns, else large if the tiles fill the multiprocessors."""
    if interpreted():
        return Tiling(bounded(m, 64), bounded(n, 64), max(bounded(k, 128), 64), 4, 1)
    x = call.args["mat2"]
    if (k // 2) % DIVISOR or (min(x.sizes) > 1 and max(x.strides) % DIVISOR):
        return by_elements(call)
    if x.dtype.itemsize == 4:
        configuration = FLOAT32[m <= FEW_ROWS]
    elif m <= FEW_ROWS:
        configuration = FEW_OF_INT8 if x.dtype.itemsize == 1 else FEW
    else:
        tiles = cdiv(m, TILES[0].tile[0]) * cdiv(n, TILES[0].tile[1])
        configuration = TILES[0] if tiles >= multiprocessors(call.device) else TILES[1]
    return Tiling(*configuration.tile, configuration.warps, configuration.stages)


def semi_structured_mm(call: StructuredCall) -> PlannedKernel:
    """Return the kernel of ``_semi_structured_mm``."""
    x, values, bias = (call.args[name] for name in ("mat2", "values", "bias"))
    properties = driver().properties(call.device.resolved_index)
    if properties.capability < 80:
        raise NotImplementedError(
            f"{call.name}: needs compute capability 8.0 or later, {properties.name} has "
            f"{properties.major}.{properties.minor}"
        )
    if call.outputs[0].numel == 0:
        return PlannedKernel(launch_nothing)
    tile = tiling(call, x.sizes[1], values.sizes[0], x.sizes[0])
    other = tile if interpreted() else by_elements(call)
    run = where_aligned(plan_launch(call, tile), 2, lambda: plan_launch(call, other))
    if bias is None:
        return PlannedKernel(lambda out, v, w, a, _: run(a.address, v.address, w.address, out.address))
    return PlannedKernel(lambda out, v, w, a, b: run(a.address, v.address, w.address, b.address, out.address))


def plan_launch(call: StructuredCall, tile: Tiling) -> Callable[..., None]:
    """Return ``launch(x, values, words, [bias,] out)`` over addresses."""
    x, values, words, bias = (call.args[name] for name in ("mat2", "values", "meta", "bias"))
    out = call.outputs[0]
    (k, m), (n, half) = x.sizes, values.sizes
    xk, xm = x.strides
    on, om = reversed(out.strides) if call.args["transpose_result"] else out.strides
    reach = max((k + tile.k) * xk + (m + tile.m) * xm, (n + tile.n) * on + (m + tile.m) * om)
    wide = integer_type(2 * max(reach, (n + tile.n) * (half + tile.k)))
    ws = 2 * n if call.args["interleaved"] else words.sizes[1]
    sizes = {"m": m, "n": n, "half": half}
    lines = {"vs": half, "ws": ws}
    types, constants, strides, whole = stride_arguments({"xk": xk, "xm": xm, "on": on, "om": om}, wide)
    if bias is None:
        constants["bias"] = None
    signature = {
        "x": f"*{x.dtype.triton_name}",
        "values": f"*{values.dtype.triton_name}",
        "words": f"*{words.dtype.triton_name}",
        **({} if bias is None else {"bias": f"*{bias.dtype.triton_name}"}),
        "out": f"*{out.dtype.triton_name}",
        **dict.fromkeys(sizes, "i32"),
        **dict.fromkeys(lines, wide),
        **types,
    }
    launch = Launch(
        call.device,
        semi_structured_matmul,
        signature,
        {
            **constants,
            "INTERLEAVED": call.args["interleaved"],
            "BITS": 8 * words.dtype.itemsize,
            **tile.constants(),
        },
        divisible=[name for name, value in (sizes | lines).items() if value % DIVISOR == 0] + whole,
        elements=() if bias is None else ("bias",),
        num_warps=tile.warps,
        num_stages=tile.stages,
    )
    grid = (cdiv(m, tile.m) * cdiv(n, tile.n), 1, 1)
    numbers = (*sizes.values(), *lines.values(), *strides.values())
    return lambda *addresses: launch(grid, *addresses, *numbers)


register_stub("_semi_structured_mm_stub", "cuda", semi_structured_mm)
