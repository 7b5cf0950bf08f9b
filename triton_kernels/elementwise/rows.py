"""Elementwise kernels over rows: operands that are not dense, such as slices, broadcasts and any strides.

A tile is some columns of some rows. Divisions find a row's offset once for all of its columns. Along a row,
an operand's stride is a constexpr if it is 0, 1 or 2, so that contiguous columns are accessed 128 bits at a
time. Row starts are multiples of 128 bits if the strides of the other dimensions are: those are passed in
units of a vector. The row length is passed the same way, which keeps masks as wide.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...dispatch.structured.stub import StructuredCall
from ...runtime.cuda.occupancy import WARP_SIZE
from ...runtime.cuda.triton.lazy_triton import tl, triton
from ..budget import FLOATS8, STREAMING, Configuration, declare
from ..conversion import convert
from ..geometry import Geometry
from ..launch import ALIGNMENT, cdiv, integer_type, interpreted, next_power_of_2
from ..tuning.choice import configuration
from .kernel_parameters import BYTES, INTERPRETED_BLOCK, Passed, Planned, power_of_two_in
from .operands import BLOCKED, COLUMN, ELEMENT, NUMBER, PAIRED, Operand, apply, read

ROW_BYTES = 512
"""Bytes that a program reads of one row if it has several: an access of each lane of a warp."""


@triton.jit
def rows(
    out,
    a,
    b,
    c,
    d,
    columns,
    n_rows,
    column_blocks,
    n1,
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
    UNIT: tl.constexpr,
    UNIT_OUT: tl.constexpr,
    UNIT_A: tl.constexpr,
    UNIT_B: tl.constexpr,
    UNIT_C: tl.constexpr,
    UNIT_D: tl.constexpr,
    NDIM: tl.constexpr,
    INDEX: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    columns = columns * UNIT
    program = tl.program_id(0)
    row_block = program // column_blocks
    first_row = row_block.to(INDEX) * ROWS
    first = (program - row_block * column_blocks).to(INDEX) * COLUMNS
    if ROWS == 1:
        i1 = first_row
        column = first + tl.arange(0, COLUMNS)
    else:
        i1 = first_row + tl.arange(0, ROWS)[:, None]
        column = first + tl.arange(0, COLUMNS)[None, :]
    in_rows = i1 < n_rows
    i2, i3, i4, i5 = i1 * 0, i1 * 0, i1 * 0, i1 * 0
    if NDIM > 2:
        i2 = i1 // n1
        i1 = i1 - i2 * n1
    if NDIM > 3:
        i3 = i2 // n2
        i2 = i2 - i3 * n2
    if NDIM > 4:
        i4 = i3 // n3
        i3 = i3 - i4 * n3
    if NDIM > 5:
        i5 = i4 // n4
        i4 = i4 - i5 * n4
    row_out = (i1 * out1 + i2 * out2 + i3 * out3 + i4 * out4 + i5 * out5) * UNIT_OUT
    row_a = (i1 * a1 + i2 * a2 + i3 * a3 + i4 * a4 + i5 * a5) * UNIT_A
    row_b = (i1 * b1 + i2 * b2 + i3 * b3 + i4 * b4 + i5 * b5) * UNIT_B
    row_c = (i1 * c1 + i2 * c2 + i3 * c3 + i4 * c4 + i5 * c5) * UNIT_C
    row_d = (i1 * d1 + i2 * d2 + i3 * d3 + i4 * d4 + i5 * d5) * UNIT_D
    # The last pair of all may be no more than its first element.
    paired: tl.constexpr = KIND_A == PAIRED or KIND_B == PAIRED or KIND_C == PAIRED or KIND_D == PAIRED
    whole = (first + COLUMNS <= columns) & (first_row + ROWS <= n_rows)
    if paired:
        whole = whole & ((first + COLUMNS < columns) | (first_row + ROWS < n_rows))
    offset = row_out + column * out0
    if whole:
        value = apply(
            FUNCTION,
            ARITY,
            read_row(a, row_a, column, first, a0, None, None, KIND_A, TYPE_A, ROWS, COLUMNS, True),
            read_row(b, row_b, column, first, b0, None, None, KIND_B, TYPE_B, ROWS, COLUMNS, True),
            read_row(c, row_c, column, first, c0, None, None, KIND_C, TYPE_C, ROWS, COLUMNS, True),
            read_row(d, row_d, column, first, d0, None, None, KIND_D, TYPE_D, ROWS, COLUMNS, True),
        )
        tl.store(out + offset, tl.broadcast_to(convert(value, out.dtype.element_ty), offset.shape))
    else:
        inside = column < columns
        some = apply(
            FUNCTION,
            ARITY,
            read_row(a, row_a, column, first, a0, in_rows, inside, KIND_A, TYPE_A, ROWS, COLUMNS, False),
            read_row(b, row_b, column, first, b0, in_rows, inside, KIND_B, TYPE_B, ROWS, COLUMNS, False),
            read_row(c, row_c, column, first, c0, in_rows, inside, KIND_C, TYPE_C, ROWS, COLUMNS, False),
            read_row(d, row_d, column, first, d0, in_rows, inside, KIND_D, TYPE_D, ROWS, COLUMNS, False),
        )
        some = tl.broadcast_to(convert(some, out.dtype.element_ty), offset.shape)
        tl.store(out + offset, some, mask=in_rows & inside)


@triton.jit
def read_row(
    x,
    row,
    column,
    first,
    stride,
    in_rows,
    inside,
    KIND: tl.constexpr,
    TYPE: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    WHOLE: tl.constexpr,
):
    """Load an operand over the tile; `in_rows` and `inside` mask a partial tile."""
    if (KIND == ELEMENT) | (KIND == NUMBER):
        return read(x, row, None, KIND, TYPE)
    elif KIND == PAIRED and WHOLE:
        pair = first * 2 + tl.arange(0, 2 * COLUMNS)
        if ROWS == 1:
            each = tl.reshape(tl.load(x + (row + pair)), (COLUMNS, 2))
        else:
            each = tl.reshape(tl.load(x + (row + pair[None, :])), (ROWS, COLUMNS, 2))
        return convert(tl.split(each)[0], TYPE)
    elif (KIND == BLOCKED) | (KIND == PAIRED):
        return read(x, row + column * stride, None if WHOLE else in_rows & inside, BLOCKED, TYPE)
    elif KIND == COLUMN:
        values = read(x, row, None if WHOLE else in_rows, KIND, TYPE)
        return values if ROWS == 1 else tl.broadcast_to(values, (ROWS, COLUMNS))
    else:
        return 0


def plan_rows(
    call: StructuredCall,
    signature: dict[str, str],
    constexprs: dict[str, object],
    operands: Sequence[Operand],
    geometry: Geometry,
    itemsizes: Sequence[int],
) -> Planned:
    """Return the launch over rows of the first dimension."""
    length, outer = geometry.sizes[0], geometry.sizes[1:]
    n_rows = math.prod(outer)
    height, width = tile_of_rows(length, n_rows, max(itemsizes))
    warps = 4
    if not interpreted():
        default, name = Configuration((height, width)), signature["out"].removeprefix("*")
        shape = (length, n_rows, max(itemsizes), len(operands))
        chosen = configuration(rows, call.device, name, shape, default)
        own, along = (
            min(next_power_of_2(n_rows), chosen.tile[0]),
            min(next_power_of_2(length), chosen.tile[1]),
        )
        # A tile that was measured for longer rows is not taken where its lanes would have less than a vector each.
        if own * along * max(itemsizes) >= ALIGNMENT * WARP_SIZE * chosen.warps:
            height, width, warps = own, along, chosen.warps
    row_blocks, column_blocks = cdiv(n_rows, height), cdiv(length, width)
    kind = integer_type(row_blocks * height, 2 * column_blocks * width, geometry.extent())
    passed = Passed(signature, constexprs, kind)
    passed.constants(NDIM=len(geometry.sizes), ROWS=height, COLUMNS=width)
    unit = power_of_two_in(length, ALIGNMENT)
    passed.constants(UNIT=unit)
    passed.numbers(columns=length // unit, n_rows=n_rows)
    passed.numbers(kind="i32", column_blocks=column_blocks)
    passed.sizes(outer)
    contiguous = [
        0 if strides[:1] in ((1,), (2,)) and size else None
        for strides, size in zip(geometry.strides, itemsizes, strict=True)
    ]
    passed.strides(geometry, itemsizes, contiguous)
    for letter, operand, strides, size in zip(
        "ABCD", operands, geometry.strides[1:], itemsizes[1:], strict=False
    ):
        if operand.kind == BLOCKED:
            passed.constants(**{f"KIND_{letter}": kind_of_block(strides, size).value})
    return passed.planned(call, rows, row_blocks * column_blocks, warps)


def tile_of_rows(length: int, n_rows: int, itemsize: int) -> tuple[int, int]:
    """Return rows and columns of a tile."""
    if interpreted():
        width = min(next_power_of_2(length), INTERPRETED_BLOCK)
        return min(next_power_of_2(n_rows), INTERPRETED_BLOCK // width), width
    # Single bytes use half as many: the compiler unpacks each into a register, and more of them spill.
    elements = BYTES // max(itemsize, 2)
    width = min(next_power_of_2(length), ROW_BYTES // itemsize)
    for narrower in (width // 2, width // 4):
        # Worth it where the tiles of a row cover an eighth less that is not there.
        if narrower and 8 * cdiv(length, narrower) * narrower <= 7 * cdiv(length, width) * width:
            width = narrower
    height = min(next_power_of_2(n_rows), elements // width)
    return height, max(width, min(next_power_of_2(length), elements // height))


def kind_of_block(strides: Sequence[int], itemsize: int) -> tl.constexpr:
    """Return the layout of an operand with these strides in a tile."""
    inner, outer = strides[0], strides[1:]
    if inner == 0:
        return COLUMN
    # For wider elements the compiler skips every second register of a vector, and loads one by one again.
    # All strides positive, so that whatever is behind an element which is not the last lies before the last.
    return PAIRED if inner == 2 and itemsize <= 2 and all(stride > 0 for stride in outer) else BLOCKED


declare(
    rows,
    why=STREAMING,
    tile=("ROWS", "COLUMNS"),
    smaller=True,
    dtypes={
        ("fp32", "i32", "u32"): (
            Configuration((8, 128)),
            Configuration((1, 1024)),
            Configuration((4, 256)),
        ),
        ("fp64", "i64", "u64"): (Configuration((8, 64)), Configuration((1, 512))),
        ("bf16", "fp16", "i16", "u16"): (Configuration((8, 256)), Configuration((1, 2048))),
        ("i8", "u8", "i1", *FLOATS8): (Configuration((4, 512)), Configuration((1, 2048))),
    },
    operations="n times the function's, and a division for each dimension beyond two of each row",
    traffic="as dense, of which a row or a column that is broadcast is read once for a tile",
    loads=("a", "b", "c", "d"),
    stores=("out",),
)
