"""Matrix products: one tiled kernel over strides as they come, so that a transpose costs no copy."""

from __future__ import annotations

from collections.abc import Callable

import triton
import triton.language as tl

from ..dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from .conversion import convert
from .launch import Launch, cdiv, integer_type, launch_nothing
from .product import accumulation, multiply_add, stride_arguments, tile_of, tiling


@triton.jit
def matmul(
    a,
    b,
    out,
    m,
    n,
    k,
    az,
    am,
    ak,
    bz,
    bk,
    bn,
    oz,
    om,
    on,
    ACCUMULATOR: tl.constexpr,
    DOT: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    tiles_m, tiles_n = tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N)
    batch = (tl.program_id(0) // (tiles_m * tiles_n)).to(tl.int64)
    tile_m, tile_n = tile_of(tl.program_id(0) % (tiles_m * tiles_n), tiles_m, tiles_n, 8)
    rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    a_tile = a + batch * az + rows[:, None] * am + inner[None, :] * ak
    b_tile = b + batch * bz + inner[:, None] * bk + columns[None, :] * bn
    total = tl.zeros((BLOCK_M, BLOCK_N), ACCUMULATOR)
    for done in range(0, k, BLOCK_K):
        left = k - done
        x = tl.load(a_tile, mask=(rows < m)[:, None] & (inner < left)[None, :], other=0)
        y = tl.load(b_tile, mask=(inner < left)[:, None] & (columns < n)[None, :], other=0)
        total = multiply_add(total, x, y, DOT)
        a_tile += BLOCK_K * ak
        b_tile += BLOCK_K * bk
    to = out + batch * oz + rows[:, None] * om + columns[None, :] * on
    tl.store(to, convert(total, out.dtype.element_ty), mask=(rows < m)[:, None] & (columns < n)[None, :])


def product(names: tuple[str, str]) -> Callable[[StructuredCall], PlannedKernel]:
    """The kernel factory of ``left @ right`` for two matrices, or two batches of them; `names` are theirs."""

    def factory(call: StructuredCall) -> PlannedKernel:
        left, right = call.args[names[0]], call.args[names[1]]
        out = call.outputs[0]
        how = accumulation(call, left)
        if out.numel == 0:
            return PlannedKernel(launch_nothing)
        batch = out.sizes[0] if out.ndim == 3 else 1
        m, n, k = out.sizes[-2], out.sizes[-1], left.sizes[-1]
        strides: dict[str, int] = {}
        for spec, letters in (
            (left, ("az", "am", "ak")),
            (right, ("bz", "bk", "bn")),
            (out, ("oz", "om", "on")),
        ):
            own = spec.strides if spec.ndim == 3 else (0, *spec.strides)
            strides |= dict(zip(letters, own, strict=True))
        tile = tiling(call.device, left.itemsize, how, m, n, k, batch)
        reach = max(
            (m + tile.m) * max(abs(strides["am"]), abs(strides["om"])) + (k + tile.k) * abs(strides["ak"]),
            (n + tile.n) * max(abs(strides["bn"]), abs(strides["on"])) + (k + tile.k) * abs(strides["bk"]),
        )
        signature, constants, values, divisible = stride_arguments(strides, integer_type(2 * reach))
        every = {
            "a": f"*{left.dtype.triton_name}",
            "b": f"*{right.dtype.triton_name}",
            "out": f"*{out.dtype.triton_name}",
            "m": "i32",
            "n": "i32",
            "k": "i32",
            **signature,
        }
        launch = Launch(
            call.device,
            matmul,
            {name: every[name] for name in matmul.arg_names if name in every},
            {**constants, **tile.constants(), "ACCUMULATOR": how.type, "DOT": how.dot},
            divisible=[
                *divisible,
                *(name for name, size in (("m", m), ("n", n), ("k", k)) if size % 16 == 0),
            ],
            num_warps=tile.warps,
            num_stages=tile.stages,
        )
        grid = (cdiv(m, tile.m) * cdiv(n, tile.n) * batch, 1, 1)
        numbers = (m, n, k, *(values[name] for name in matmul.arg_names if name in values))
        return PlannedKernel(lambda to, x, y: launch(grid, x.address, y.address, to.address, *numbers))

    return factory


register_stub("mm_stub", "cuda", product(("self", "mat2")))
register_stub("bmm_stub", "cuda", product(("self", "mat2")))
