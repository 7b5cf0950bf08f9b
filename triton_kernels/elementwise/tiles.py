"""Elementwise kernels over tiles: operands contiguous along different dimensions, as in transposed copies.

A tile has two dimensions: along the first the output lies side by side, along the second some operand does. Each
is accessed 128 bits at a time along its own; the compiler exchanges them through shared memory in between.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from ...dispatch.structured.stub import StructuredCall
from ...runtime.cuda.triton.lazy_triton import tl, triton
from ..budget import FLOATS8, STREAMING, Configuration, declare
from ..conversion import convert
from ..geometry import Geometry
from ..launch import ALIGNMENT, cdiv, integer_type, interpreted, next_power_of_2
from ..tuning.choice import configuration
from .kernel_parameters import Passed, Planned, power_of_two_in
from .operands import apply, read

TILES = {1: (64, 64), 2: (64, 64), 4: (32, 64), 8: (32, 32)}
"""Tiles by itemsize: 64 bytes and more of a line on both sides, and up to four 128-bit accesses for each thread."""
MIN_TILE_ELEMENTS = 512
"""Minimum tile for which exchanging elements pays; in smaller tiles, neighbors are in the L1 cache."""
INTERPRETED_TILE = 128


@triton.jit
def tiles(
    out,
    a,
    b,
    c,
    d,
    n0,
    n1,
    blocks0,
    blocks1,
    n2,
    n3,
    n4,
    out0,
    out1,
    out2,
    out3,
    out4,
    out5,
    a0,
    a1,
    a2,
    a3,
    a4,
    a5,
    b0,
    b1,
    b2,
    b3,
    b4,
    b5,
    c0,
    c1,
    c2,
    c3,
    c4,
    c5,
    d0,
    d1,
    d2,
    d3,
    d4,
    d5,
    FUNCTION: tl.constexpr,
    ARITY: tl.constexpr,
    KIND_A: tl.constexpr,
    KIND_B: tl.constexpr,
    KIND_C: tl.constexpr,
    KIND_D: tl.constexpr,
    TYPE_A: tl.constexpr,
    TYPE_B: tl.constexpr,
    TYPE_C: tl.constexpr,
    TYPE_D: tl.constexpr,
    UNIT0: tl.constexpr,
    UNIT1: tl.constexpr,
    UNIT_OUT: tl.constexpr,
    UNIT_A: tl.constexpr,
    UNIT_B: tl.constexpr,
    UNIT_C: tl.constexpr,
    UNIT_D: tl.constexpr,
    ALONG_OUT: tl.constexpr,
    ALONG_A: tl.constexpr,
    ALONG_B: tl.constexpr,
    ALONG_C: tl.constexpr,
    ALONG_D: tl.constexpr,
    NDIM: tl.constexpr,
    INDEX: tl.constexpr,
    TILE1: tl.constexpr,
    TILE0: tl.constexpr,
):
    n0 = n0 * UNIT0
    n1 = n1 * UNIT1
    program = tl.program_id(0)
    above = program // blocks0
    first0 = (program - above * blocks0).to(INDEX) * TILE0
    batch = above // blocks1
    first1 = (above - batch * blocks1).to(INDEX) * TILE1
    i2 = batch.to(INDEX)
    i3, i4, i5 = i2 * 0, i2 * 0, i2 * 0
    if NDIM > 3:
        i3 = i2 // n2
        i2 = i2 - i3 * n2
    if NDIM > 4:
        i4 = i3 // n3
        i3 = i3 - i4 * n3
    if NDIM > 5:
        i5 = i4 // n4
        i4 = i4 - i5 * n4
    i0 = first0 + tl.arange(0, TILE0)[None, :]
    i1 = first1 + tl.arange(0, TILE1)[:, None]
    to_out = within(i0, i1, out0, out1, i2 * out2 + i3 * out3 + i4 * out4 + i5 * out5, ALONG_OUT, UNIT_OUT)
    to_a = within(i0, i1, a0, a1, i2 * a2 + i3 * a3 + i4 * a4 + i5 * a5, ALONG_A, UNIT_A)
    to_b = within(i0, i1, b0, b1, i2 * b2 + i3 * b3 + i4 * b4 + i5 * b5, ALONG_B, UNIT_B)
    to_c = within(i0, i1, c0, c1, i2 * c2 + i3 * c3 + i4 * c4 + i5 * c5, ALONG_C, UNIT_C)
    to_d = within(i0, i1, d0, d1, i2 * d2 + i3 * d3 + i4 * d4 + i5 * d5, ALONG_D, UNIT_D)
    if (first0 + TILE0 <= n0) & (first1 + TILE1 <= n1):
        value = apply(
            FUNCTION,
            ARITY,
            read(a, to_a, None, KIND_A, TYPE_A),
            read(b, to_b, None, KIND_B, TYPE_B),
            read(c, to_c, None, KIND_C, TYPE_C),
            read(d, to_d, None, KIND_D, TYPE_D),
        )
        tl.store(out + to_out, convert(value, out.dtype.element_ty))
    else:
        mask = (i0 < n0) & (i1 < n1)
        value = apply(
            FUNCTION,
            ARITY,
            read(a, to_a, mask, KIND_A, TYPE_A),
            read(b, to_b, mask, KIND_B, TYPE_B),
            read(c, to_c, mask, KIND_C, TYPE_C),
            read(d, to_d, mask, KIND_D, TYPE_D),
        )
        tl.store(out + to_out, convert(value, out.dtype.element_ty), mask=mask)


@triton.jit
def within(i0, i1, stride0, stride1, start, ALONG: tl.constexpr, UNIT: tl.constexpr):
    """Offsets of an operand that lies side by side along a dimension: other strides are in units of an access."""
    if ALONG == 0:
        return start * UNIT + i1 * (stride1 * UNIT) + i0
    elif ALONG == 1:
        return start * UNIT + i0 * (stride0 * UNIT) + i1
    else:
        return start + i0 * stride0 + i1 * stride1


def plan_tiles(
    call: StructuredCall,
    signature: dict[str, str],
    constexprs: dict[str, object],
    geometry: Geometry,
    itemsizes: Sequence[int],
) -> Planned:
    """Return the launch over tiles of the first two dimensions."""
    (n0, n1), outer = geometry.sizes[:2], geometry.sizes[2:]
    tile1, tile0 = tile_of(n0, n1, max(itemsizes))
    warps = 4
    if not interpreted():
        default, name = Configuration((tile1, tile0)), signature["out"].removeprefix("*")
        shape = (n0, n1, math.prod(outer), max(itemsizes), len(geometry.strides) - 1)
        chosen = configuration(tiles, call.device, name, shape, default)
        own, along = min(next_power_of_2(n1), chosen.tile[0]), min(next_power_of_2(n0), chosen.tile[1])
        if own * along >= MIN_TILE_ELEMENTS:
            tile1, tile0, warps = own, along, chosen.warps
    blocks0, blocks1 = cdiv(n0, tile0), cdiv(n1, tile1)
    kind = integer_type(blocks0 * tile0, blocks1 * tile1, math.prod(outer), geometry.extent())
    passed = Passed(signature, constexprs, kind)
    unit0, unit1 = power_of_two_in(n0, ALIGNMENT), power_of_two_in(n1, ALIGNMENT)
    passed.constants(UNIT0=unit0, UNIT1=unit1, NDIM=len(geometry.sizes), TILE0=tile0, TILE1=tile1)
    passed.numbers(n0=n0 // unit0, n1=n1 // unit1)
    passed.numbers(kind="i32", blocks0=blocks0, blocks1=blocks1)
    passed.sizes(outer, first=2)
    contiguous = [
        side_by_side(strides, size) for strides, size in zip(geometry.strides, itemsizes, strict=True)
    ]
    for letter, along in itertools.zip_longest(("OUT", "A", "B", "C", "D"), contiguous):
        passed.constants(**{f"ALONG_{letter}": along})
    passed.strides(geometry, itemsizes, contiguous)
    return passed.planned(call, tiles, blocks0 * blocks1 * math.prod(outer), warps)


def side_by_side(strides: Sequence[int], itemsize: int) -> int | None:
    """Return the dimension of a tile along which an operand is contiguous, or None."""
    return strides.index(1) if itemsize and 1 in strides[:2] else None


def tile_of(n0: int, n1: int, itemsize: int) -> tuple[int, int]:
    """Return elements of a tile along the second dimension and along the first."""
    if interpreted():
        return min(next_power_of_2(n1), INTERPRETED_TILE), min(next_power_of_2(n0), INTERPRETED_TILE)
    tile1, tile0 = TILES[itemsize]
    whole = tile0 * tile1
    tile0 = min(next_power_of_2(n0), tile0)
    tile1 = min(next_power_of_2(n1), whole // tile0)
    if itemsize <= 2 and n1 < tile1:
        # Elements of a ragged line are read one by one, each with an address: 32 of them want 72 registers on sm_80.
        whole //= 2
    return tile1, min(next_power_of_2(n0), whole // tile1)


declare(
    tiles,
    why=STREAMING,
    tile=("TILE1", "TILE0"),
    smaller=True,
    dtypes={
        ("fp32", "i32", "u32"): (Configuration((32, 64)), Configuration((64, 64), 8)),
        ("fp64", "i64", "u64"): (Configuration((32, 32)), Configuration((32, 64), 8)),
        ("bf16", "fp16", "i16", "u16", "i8", "u8", "i1", *FLOATS8): (Configuration((64, 64)),),
    },
    operations="n times the function's",
    traffic="as dense",
    loads=("a", "b", "c", "d"),
    stores=("out",),
)
