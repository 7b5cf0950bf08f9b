"""Code that matmuls and convolutions share: how a tile is multiplied, and tile sizes.

Floats go through `tl.dot` and accumulate in float32 (float64 for float64), float32 exactly as in IEEE 754.
Integers are multiplied and summed in the tile, and wrap.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...dispatch.structured.stub import StructuredCall
from ...runtime.cuda.driver import driver
from ...runtime.cuda.triton.lazy_triton import tl, triton
from ...runtime.device import device as Device
from ...runtime.tensor_spec import TensorSpec
from ..launch import cdiv, interpreted, next_power_of_2

MIN_TILE_SIZE = 16
"""Minimum side of a tile that `tl.dot` accepts."""


@triton.jit
def multiply_add(total, a, b, DOT: tl.constexpr, PRECISION: tl.constexpr = "ieee"):
    """Compute total + a @ b for tiles (M, K) and (K, N); `PRECISION` is the ``input_precision`` of `tl.dot`."""
    if DOT:
        return tl.dot(a, b, total, input_precision=PRECISION, out_dtype=total.dtype)
    else:
        return total + tl.sum(a.to(total.dtype)[:, :, None] * b.to(total.dtype)[None, :, :], 1)


@triton.jit
def with_addend(total, addend, mask, alpha, beta):
    """Compute alpha * total + beta * addend; a scale of None is 1, an addend of None is 0."""
    if alpha is not None:
        total = total * alpha
    if addend is not None:
        value = tl.load(addend, mask=mask, other=0).to(total.dtype)
        if beta is not None:
            value = value * beta
        total = total + value
    return total


@triton.jit
def tile_of(pid, tiles_m, tiles_n, GROUP: tl.constexpr):
    """Return the row and column of a program's tile: GROUP rows of tiles at a time, so that operands stay in L2."""
    width = GROUP * tiles_n
    first = (pid // width) * GROUP
    rows = tl.minimum(tiles_m - first, GROUP)
    return first + (pid % width) % rows, (pid % width) // rows


@dataclass(frozen=True)
class Accumulation:
    """How a product of this dtype adds up: the accumulator's type, and whether `tl.dot` computes it."""

    type: tl.dtype
    dot: bool


def accumulation(call: StructuredCall, spec: TensorSpec) -> Accumulation:
    """Return the accumulation of a dtype; raise for bool, complex and 8-bit floats."""
    dtype = spec.dtype
    if dtype.name in ("float16", "bfloat16", "float32"):
        return Accumulation(tl.float32, True)
    if dtype.name == "float64":
        return Accumulation(tl.float64, True)
    if dtype.is_integral:
        return Accumulation(tl.int32 if dtype.itemsize <= 4 else tl.int64, False)
    raise call.refuse(spec)


@dataclass(frozen=True)
class Tiling:
    """Sizes of a program's tile, its warps and pipeline stages."""

    m: int
    n: int
    k: int
    warps: int
    stages: int

    def constants(self) -> dict[str, int]:
        """Return the kernel's constexprs."""
        return {"BLOCK_M": self.m, "BLOCK_N": self.n, "BLOCK_K": self.k}


def tiling(
    device: Device,
    itemsize: int,
    how: Accumulation,
    m: int,
    n: int,
    k: int,
    batch: int = 1,
    gathered: bool = False,
) -> Tiling:
    """Return a tile for a matmul (m, k) by (k, n) over `batch` matrices.

    `gathered` operands have an address for each element, which takes registers.
    """
    if interpreted():
        if not how.dot:
            return Tiling(bounded(m, 32), bounded(n, 32), bounded(k, 32), 4, 1)
        return Tiling(bounded(m, 512), bounded(n, 128), bounded(k, 128), 4, 1)
    if not how.dot:
        return Tiling(16, 16, 16, 4, 2)
    properties = driver().properties(device.resolved_index)
    if itemsize == 8:
        # Four warps hold 64 registers of sums each lane, and spill where the second operand is transposed.
        large, small = Tiling(64, 64, 16, 4 if gathered else 8, 3), Tiling(32, 32, 16, 4, 3)
    elif itemsize == 4:
        # For sm_100 the compiler spills around the loop of a 128x64 tile of a transposed operand.
        large, small = Tiling(64, 128, 16, 8, 3), Tiling(64, 32, 16, 4, 3)
        if gathered:
            large = Tiling(128, 64, 16, 8, 3)
    elif gathered:
        large, small = Tiling(128, 64, 32, 8, 3), Tiling(64, 64, 32, 4, 3)
    elif properties.design < 90:
        # HMMA takes its operands from registers: a deeper tile spills where addresses are not aligned.
        large, small = Tiling(128, 128, 32, 8, 4), Tiling(64, 64, 32, 4, 4)
    else:
        large, small = Tiling(128, 128, 64, 8, 3), Tiling(64, 64, 64, 4, 3)
    few = cdiv(m, large.m) * cdiv(n, large.n) * batch < properties.multi_processor_count
    chosen = small if few else large
    return Tiling(
        bounded(m, chosen.m), bounded(n, chosen.n), bounded(k, chosen.k), chosen.warps, chosen.stages
    )


def bounded(size: int, limit: int) -> int:
    """Return a power of two that covers the size, within a tile's limits."""
    return min(max(next_power_of_2(size), MIN_TILE_SIZE), limit)


def stride_arguments(
    strides: Mapping[str, int], kind: str
) -> tuple[dict[str, str], dict[str, object], dict[str, int], list[str]]:
    """Signature, constants, values and names divisible by 16; strides of 0 and 1 are constants."""
    constants: dict[str, object] = {name: stride for name, stride in strides.items() if stride in (0, 1)}
    values = {name: stride for name, stride in strides.items() if stride not in (0, 1)}
    return (
        dict.fromkeys(values, kind),
        constants,
        values,
        [name for name, stride in values.items() if stride % 16 == 0],
    )
