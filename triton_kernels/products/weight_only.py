"""Matmuls with 8-bit weights, converted to the activations' type between the load and the tensor cores.

The weight is the left operand of `tl.dot`: sm_90's tensor cores take it from registers, where it was
converted, and pair 64 rows of it with as few as 16 columns of activations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.cuda.driver import driver
from ...runtime.cuda.triton.lazy_triton import tl, triton
from ..budget import MIN_CAPABILITY, Configuration, declare
from ..conversion import convert
from ..launch import Launch, cdiv, integer_type, interpreted, launch_nothing
from .mm import where_aligned
from .problem import multiprocessors
from .product import Tiling, bounded, tile_of
from .stream_k import Division, divide_weight, with_parts
from .stream_k_kernels import joined_sums

FEW_ROWS = 16
"""Rows of activations of one token's step, or of some tokens': reading the weight is what takes the time."""
DIVISOR = 16


@triton.jit
def weight8_sums(
    x,
    weight,
    rows,
    columns,
    first,
    last,
    m,
    n,
    k,
    xm,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Return the sums of a tile, columns by rows, over the elements of K from `first` to `last`."""
    inner = tl.arange(0, BLOCK_K)
    x_tile = x + inner[:, None] + rows[None, :].to(xm.dtype) * xm + first
    w_tile = weight + columns[:, None].to(xm.dtype) * k + inner[None, :] + first
    total = tl.zeros((BLOCK_N, BLOCK_M), tl.float32)
    for done in range(first, last, BLOCK_K):
        left = k - done
        w = tl.load(w_tile, mask=(columns < n)[:, None] & (inner < left)[None, :], other=0.0)
        y = tl.load(x_tile, mask=(inner < left)[:, None] & (rows < m)[None, :], other=0)
        total = tl.dot(convert(w, y.dtype), y, total, input_precision="ieee")
        x_tile += BLOCK_K
        w_tile += BLOCK_K
    return total


@triton.jit
def store_transposed(total, out, rows, columns, m, n, om, on):
    """Store the sums of a tile, columns by rows, in the result's rows and columns."""
    out_ptrs = out + rows[:, None].to(om.dtype) * om + columns[None, :].to(om.dtype) * on
    value = convert(tl.trans(total), out.dtype.element_ty)
    tl.store(out_ptrs, value, mask=(rows < m)[:, None] & (columns < n)[None, :])


@triton.jit
def weight8_matmul(
    x,
    weight,
    scales,
    out,
    m,
    n,
    k,
    xm,
    om,
    on,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    tile_m, tile_n = tile_of(tl.program_id(0), tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N), 8)
    rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    total = weight8_sums(x, weight, rows, columns, 0, k, m, n, k, xm, BLOCK_M, BLOCK_N, BLOCK_K)
    total *= tl.load(scales + columns, mask=columns < n, other=0).to(tl.float32)[:, None]
    store_transposed(total, out, rows, columns, m, n, om, on)


@triton.jit
def weight8_stream_k(
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
    xm,
    om,
    on,
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
        total = weight8_sums(x, weight, rows, columns, low, high, m, n, k, xm, BLOCK_M, BLOCK_N, BLOCK_K)
        mask = (columns < n)[:, None] & (rows < m)[None, :]
        first, last = start // share, (start + steps - 1) // share
        is_whole = first == last
        if not is_whole:
            is_whole, total = joined_sums(total, parts, counters + tile, first, last, mask, BLOCK_N, BLOCK_M)
        if is_whole:
            total *= tl.load(scales + columns, mask=columns < n, other=0).to(tl.float32)[:, None]
            store_transposed(total, out, rows, columns, m, n, om, on)


TILES = (
    Configuration((128, 128, 128), 8, 2, {90: 1, 100: 1}),
    Configuration((128, 128, 64), 8, 3, {80: 1}),
    Configuration((64, 64, 128), 4, 3, 2),
)
FEW = Configuration((16, 64, 256), 4, 3, 1)
"""For few rows: three steps' 48 KiB of the weight are under way in each program."""
FLOAT32 = (Configuration((64, 64, 32), 8, 3, 2), Configuration((16, 32, 128), 4, 3, 4))
"""By multiplication and addition, since tensor cores have no product of float32."""
BY_BYTES = Configuration((32, 64, 32), 4, 2, 3)
"""Tile for lines that are not whole vectors, or begin between two of them: each byte has an address and a mask."""

declare(
    weight8_matmul,
    why="see each configuration; many rows are bound by arithmetic and few by reading the weight, which goes to shared "
    "memory 8 bytes at a time on sm_90, as registers take it from there",
    operand="x",
    tile=("BLOCK_M", "BLOCK_N", "BLOCK_K"),
    dtypes={("bf16", "fp16"): (*TILES, FEW, BY_BYTES), ("fp32",): (*FLOAT32, BY_BYTES)},
    smaller=True,
    operations="2 m n k",
    traffic="n k + (m k + m n) itemsize, and each operand again for every tile that shares it and finds it not in L2",
    loads=("x",),
    tensor_cores=("bf16", "fp16"),
)

DIVIDED = (Configuration((16, 64, 256), 4, 3, 2),)
"""Two programs of each multiprocessor multiply the same number of K steps."""

declare(
    weight8_stream_k,
    why="few rows are bound by reading the weight: every multiprocessor reads the same number of its bytes",
    operand="x",
    tile=("BLOCK_M", "BLOCK_N", "BLOCK_K"),
    dtypes={("bf16", "fp16"): DIVIDED},
    operations="2 m n k",
    traffic="n k + (m k + m n) itemsize, and 8 bytes for each sum of a tile's part that another program adds",
    loads=("x",),
    tensor_cores=("bf16", "fp16"),
)


def tiling(call: StructuredCall, m: int, n: int, k: int) -> Tiling:
    """Return the tile: the skinny one for few rows, else large if the tiles fill the multiprocessors."""
    if interpreted():
        return Tiling(bounded(m, 64), bounded(n, 64), bounded(k, 128), 4, 1)
    x = call.args["self"]
    if k % DIVISOR or (m > 1 and x.strides[0] % DIVISOR):
        configuration = BY_BYTES
    elif x.itemsize == 4:
        configuration = FLOAT32[m <= FEW_ROWS]
    elif m <= FEW_ROWS:
        configuration = FEW
    else:
        capability = driver().properties(call.device.resolved_index).capability
        large, small = (tile for tile in TILES if tile.is_for(capability))
        tiles = cdiv(m, large.tile[0]) * cdiv(n, large.tile[1])
        configuration = large if tiles >= multiprocessors(call.device) else small
    return Tiling(*configuration.tile, configuration.warps, configuration.stages)


def weight_int8pack_mm(call: StructuredCall) -> PlannedKernel:
    """Return the kernel of ``_weight_int8pack_mm``."""
    x, weight = call.args["self"], call.args["mat2"]
    least = MIN_CAPABILITY.get(weight.dtype.triton_name or "", 0)
    properties = driver().properties(call.device.resolved_index)
    if properties.capability < least:
        raise NotImplementedError(
            f"{call.name}: weights of {weight.dtype} need compute capability {least / 10} or later, "
            f"{properties.name} has {properties.major}.{properties.minor}"
        )
    if call.outputs[0].numel == 0:
        return PlannedKernel(launch_nothing)
    tile = tiling(call, x.sizes[0], weight.sizes[0], x.sizes[1])
    division = None
    if interpreted() or tile == Tiling(*FEW.tile, FEW.warps, FEW.stages):
        divided = Configuration((tile.m, tile.n, tile.k), 4, 1) if interpreted() else DIVIDED[0]
        division = divide_weight(divided, x.sizes[0], weight.sizes[0], x.sizes[1], call.device)
    small = tile if interpreted() else Tiling(*BY_BYTES.tile, BY_BYTES.warps, BY_BYTES.stages)
    run = where_aligned(plan_launch(call, tile, division), 2, lambda: plan_launch(call, small))
    return PlannedKernel(lambda out, a, w, scales: run(a.address, w.address, scales.address, out.address))


def with_types_of_parts(signature: Mapping[str, str]) -> dict[str, str]:
    """Add the types of a divided matmul's parts, counters and share to a signature."""
    types: dict[str, str] = {}
    for name, type_ in signature.items():
        types[name] = type_
        if name == "out":
            types |= {"parts": "*fp32", "counters": "*i32"}
        elif name == "k":
            types["share"] = "i32"
    return types


def plan_launch(call: StructuredCall, tile: Tiling, division: Division | None = None) -> Callable[..., None]:
    """Return ``launch(x, weight, scales, out)`` over addresses."""
    x, weight, scales, out = call.args["self"], call.args["mat2"], call.args["scales"], call.outputs[0]
    (m, k), n = x.sizes, weight.sizes[0]
    xm = x.strides[0] if m > 1 else k
    om, on = out.strides
    reach = max((m + tile.m) * max(xm, om), (n + tile.n) * max(k, on)) + 2 * tile.k
    sizes = {"m": m, "n": n, "k": k}
    strides = {"xm": xm, "om": om, "on": on}
    constants: dict[str, object] = {"on": 1} if on == 1 else {}
    signature = {
        "x": f"*{x.dtype.triton_name}",
        "weight": f"*{weight.dtype.triton_name}",
        "scales": f"*{scales.dtype.triton_name}",
        "out": f"*{out.dtype.triton_name}",
        **dict.fromkeys(sizes, "i32"),
        **{name: integer_type(2 * reach) for name in strides if name not in constants},
    }
    if division is not None:
        sizes["share"] = division.share
        signature = with_types_of_parts(signature)
    launch = Launch(
        call.device,
        weight8_matmul if division is None else weight8_stream_k,
        signature,
        {**constants, **tile.constants()},
        divisible=[name for name in (*"mnk", *strides) if (sizes | strides)[name] % DIVISOR == 0],
        elements=("scales", "counters"),
        num_warps=tile.warps,
        num_stages=tile.stages,
    )
    grid = (cdiv(m, tile.m) * cdiv(n, tile.n), 1, 1)
    numbers = tuple(value for name, value in (sizes | strides).items() if name not in constants)
    if division is not None:
        divided = with_parts(launch, division, call.device)
        return lambda *addresses: divided(addresses, numbers)
    return lambda *addresses: launch(grid, *addresses, *numbers)


register_stub("_weight_int8pack_mm_stub", "cuda", weight_int8pack_mm)
