"""Elementwise over complex numbers, which are pairs of real numbers in memory and in a program.

A function gets the real and the imaginary parts of an operand as a tuple, and returns one or a real block. Pairs that
lie side by side are accessed 128 bits at a time and taken apart in registers. The index space is that of `rows`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

from ...dispatch.structured.stub import PlannedKernel, StructuredCall
from ...runtime.cuda.triton.lazy_triton import tl, triton
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.tensor_spec import TensorSpec
from ..budget import STREAMING, Configuration, declare
from ..conversion import compute_type, convert, type_name
from ..geometry import Geometry, elementwise_geometry
from ..launch import ALIGNMENT, cdiv, integer_type
from .kernel_parameters import OPERANDS, Passed, Planned, power_of_two_in, split_outer
from .operands import ABSENT, BLOCKED, ELEMENT, NUMBER, apply, number_for, read
from .rows import tile_of_rows

APART, SIDE_BY_SIDE = tl.constexpr(1), tl.constexpr(2)
"""Layout of an operand's pairs along a row; 0 for an operand of real numbers."""


@triton.jit
def pairs(
    out,
    a,
    b,
    c,
    d,
    a_imag,
    b_imag,
    c_imag,
    d_imag,
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
    PAIRS_OUT: tl.constexpr,
    PAIRS_A: tl.constexpr,
    PAIRS_B: tl.constexpr,
    PAIRS_C: tl.constexpr,
    PAIRS_D: tl.constexpr,
    COMPLEX_RESULT: tl.constexpr,
    COMPLEX_A: tl.constexpr,
    COMPLEX_B: tl.constexpr,
    COMPLEX_C: tl.constexpr,
    COMPLEX_D: tl.constexpr,
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
    i1 = first_row + tl.arange(0, ROWS)[:, None]
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
    if (first + COLUMNS <= columns) & (first_row + ROWS <= n_rows):
        value = apply(
            FUNCTION,
            ARITY,
            read_number(
                a, a_imag, row_a, first, a0, None, columns, KIND_A, TYPE_A, PAIRS_A, COMPLEX_A, ROWS, COLUMNS
            ),
            read_number(
                b, b_imag, row_b, first, b0, None, columns, KIND_B, TYPE_B, PAIRS_B, COMPLEX_B, ROWS, COLUMNS
            ),
            read_number(
                c, c_imag, row_c, first, c0, None, columns, KIND_C, TYPE_C, PAIRS_C, COMPLEX_C, ROWS, COLUMNS
            ),
            read_number(
                d, d_imag, row_d, first, d0, None, columns, KIND_D, TYPE_D, PAIRS_D, COMPLEX_D, ROWS, COLUMNS
            ),
        )
        result = as_stored(value, out.dtype.element_ty, PAIRS_OUT, COMPLEX_RESULT, ROWS, COLUMNS)
        tl.store(out + parts(row_out, first, out0, PAIRS_OUT, COLUMNS), result)
    else:
        some = apply(
            FUNCTION,
            ARITY,
            read_number(
                a,
                a_imag,
                row_a,
                first,
                a0,
                in_rows,
                columns,
                KIND_A,
                TYPE_A,
                PAIRS_A,
                COMPLEX_A,
                ROWS,
                COLUMNS,
            ),
            read_number(
                b,
                b_imag,
                row_b,
                first,
                b0,
                in_rows,
                columns,
                KIND_B,
                TYPE_B,
                PAIRS_B,
                COMPLEX_B,
                ROWS,
                COLUMNS,
            ),
            read_number(
                c,
                c_imag,
                row_c,
                first,
                c0,
                in_rows,
                columns,
                KIND_C,
                TYPE_C,
                PAIRS_C,
                COMPLEX_C,
                ROWS,
                COLUMNS,
            ),
            read_number(
                d,
                d_imag,
                row_d,
                first,
                d0,
                in_rows,
                columns,
                KIND_D,
                TYPE_D,
                PAIRS_D,
                COMPLEX_D,
                ROWS,
                COLUMNS,
            ),
        )
        rest = as_stored(some, out.dtype.element_ty, PAIRS_OUT, COMPLEX_RESULT, ROWS, COLUMNS)
        mask = in_parts(in_rows, first, columns, PAIRS_OUT, COLUMNS)
        tl.store(out + parts(row_out, first, out0, PAIRS_OUT, COLUMNS), rest, mask=mask)


@triton.jit
def read_number(
    x,
    imag,
    row,
    first,
    stride,
    in_rows,
    columns,
    KIND: tl.constexpr,
    TYPE: tl.constexpr,
    PAIRS: tl.constexpr,
    COMPLEX: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Load an operand over the tile: a pair if it is computed as one, else a real block. `in_rows` masks a partial
    tile.
    """
    if KIND == ABSENT:
        return 0
    elif KIND == NUMBER:
        if COMPLEX:
            return whole_tile(x.to(TYPE), ROWS, COLUMNS), whole_tile(imag.to(TYPE), ROWS, COLUMNS)
        else:
            return whole_tile(x.to(TYPE), ROWS, COLUMNS)
    elif PAIRS:
        if KIND == ELEMENT:
            real, imaginary = tl.load(x), tl.load(x + 1)
        elif in_rows is None:
            real, imaginary = tl.split(
                tl.reshape(tl.load(x + parts(row, first, stride, PAIRS, COLUMNS)), (ROWS, COLUMNS, 2))
            )
        else:
            offset = parts(row, first, stride, PAIRS, COLUMNS)
            both = tl.load(x + offset, mask=in_parts(in_rows, first, columns, PAIRS, COLUMNS))
            real, imaginary = tl.split(tl.reshape(both, (ROWS, COLUMNS, 2)))
        return whole_tile(convert(real, TYPE), ROWS, COLUMNS), whole_tile(
            convert(imaginary, TYPE), ROWS, COLUMNS
        )
    else:
        column = first + tl.arange(0, COLUMNS)[None, :]
        if in_rows is None:
            value = read(x, row + column * stride, None, KIND, TYPE)
        else:
            value = read(x, row + column * stride, in_rows & (column < columns), KIND, TYPE)
        value = whole_tile(value, ROWS, COLUMNS)
        if COMPLEX:
            return value, tl.zeros_like(value)
        else:
            return value


@triton.jit
def as_stored(
    value,
    TYPE: tl.constexpr,
    PAIRS: tl.constexpr,
    COMPLEX: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Return a result over the tile in memory layout: parts of pairs in one row, or in their own dimension."""
    if PAIRS == 0:
        return convert(value, TYPE)
    else:
        if COMPLEX:
            real, imaginary = value
        else:
            real = value.to(TYPE)
            imaginary = tl.zeros_like(real)
        both = tl.join(convert(real, TYPE), convert(imaginary, TYPE))
        if PAIRS == SIDE_BY_SIDE:
            return tl.reshape(both, (ROWS, 2 * COLUMNS))
        else:
            return both


@triton.jit
def whole_tile(x, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    return tl.broadcast_to(x, (ROWS, COLUMNS))


@triton.jit
def parts(row, first, stride, PAIRS: tl.constexpr, COLUMNS: tl.constexpr):
    """Offsets of real and imaginary parts: in one row where pairs lie so, else in a dimension of their own."""
    if PAIRS == SIDE_BY_SIDE:
        return row * 2 + (first * 2 + tl.arange(0, 2 * COLUMNS)[None, :])
    elif PAIRS == 0:
        return row + (first + tl.arange(0, COLUMNS)[None, :]) * stride
    else:
        column = first + tl.arange(0, COLUMNS)[None, :]
        return ((row + column * stride) * 2)[:, :, None] + tl.arange(0, 2)[None, None, :]


@triton.jit
def in_parts(in_rows, first, columns, PAIRS: tl.constexpr, COLUMNS: tl.constexpr):
    if PAIRS == SIDE_BY_SIDE:
        return in_rows & (first * 2 + tl.arange(0, 2 * COLUMNS)[None, :] < columns * 2)
    elif PAIRS == 0:
        return in_rows & (first + tl.arange(0, COLUMNS)[None, :] < columns)
    else:
        inside = in_rows & (first + tl.arange(0, COLUMNS)[None, :] < columns)
        return inside[:, :, None] & (tl.arange(0, 2)[None, None, :] < 2)


class Number:
    """One input of a launch over pairs.

    Args:
        source: Argument of the plan: a spec, or the class of a number.
        type_: Type that the function gets; for complex numbers, the type of each part.
        is_complex: If True, the function gets a pair.
    """

    __slots__ = ("is_complex", "kind", "numbers", "spec", "type")

    def __init__(self, source: Any, type_: tl.dtype, is_complex: bool) -> None:
        self.type, self.is_complex = type_, is_complex
        self.spec: TensorSpec | None = None
        if isinstance(source, TensorSpec) and source.device.type == "cuda":
            self.spec, self.kind = source, BLOCKED
            self.numbers: Callable[[Any], Sequence[int | float]] = lambda data: (data.address,)
            return
        self.kind = NUMBER
        number, of_host = number_for(type_), isinstance(source, TensorSpec)

        def numbers(value: Any) -> Sequence[int | float]:
            value = value.item() if of_host else value
            return (number(value.real), number(value.imag)) if is_complex else (number(value),)

        self.numbers = numbers


def over_pairs(
    call: StructuredCall,
    function: Any,
    inputs: Sequence[Any],
    types: Sequence[tl.dtype],
    complexes: Sequence[bool],
    complex_result: bool,
) -> PlannedKernel:
    """Return the kernel that stores ``function(*inputs)`` for complex operands or outputs.

    Args:
        call: the plan; its output is the first one, and not empty.
        function: a `@triton.jit` function of as many numbers, complex ones as (real, imaginary).
        inputs: specs or classes of numbers, in the order of the kernel's runtime arguments.
        types: the Triton type in which the function gets each of them, or each part of it.
        complexes: For each operand, whether the function gets a pair.
        complex_result: If True, the function returns a pair.
    """
    out = call.outputs[0]
    operands = [Number(*each) for each in zip(inputs, types, complexes, strict=True)]
    specs = [operand.spec for operand in operands]
    geometry = elementwise_geometry(out, [spec for spec in specs if spec is not None])
    geometry = geometry.exchanged(2) or geometry
    strides = iter(geometry.strides)
    none = (0,) * len(geometry.sizes)
    geometry = Geometry(
        geometry.sizes,
        (next(strides), *(none if spec is None else next(strides) for spec in specs)),
    )
    inner, offsets = split_outer(geometry, [out, *specs])
    launch, grid, numbers = plan_pairs(call, function, operands, inner, complex_result)
    prepares = [operand.numbers for operand in operands]

    def into(out_data: Any, *inputs_data: Any) -> None:
        values = [prepare(x) for prepare, x in zip(prepares, inputs_data, strict=True)]
        imaginary = [value[1] for value in values if len(value) == 2]
        for steps in offsets:
            first = [value[0] + step for value, step in zip(values, steps[1:], strict=True)]
            launch(grid, out_data.address + steps[0], *first, *imaginary, *numbers)

    return PlannedKernel(into)


def plan_pairs(
    call: StructuredCall,
    function: Any,
    operands: Sequence[Number],
    geometry: Geometry,
    complex_result: bool,
) -> Planned:
    """Return the launch over at most six dimensions."""
    out = call.outputs[0]
    itemsizes = [out.itemsize, *(0 if each.spec is None else each.spec.itemsize for each in operands)]
    length, outer = geometry.sizes[0] if geometry.sizes else 1, geometry.sizes[1:]
    n_rows = math.prod(outer)
    # Halves are computed in float32: as many elements as of complex64.
    height, width = tile_of_rows(length, n_rows, max(8, *itemsizes))
    row_blocks, column_blocks = cdiv(n_rows, height), cdiv(length, width)
    index = integer_type(row_blocks * height, 2 * column_blocks * width, 2 * geometry.extent() + 1)
    signature = {"out": f"*{part_of(out.dtype).triton_name}"}
    constants: dict[str, object] = {"FUNCTION": function, "ARITY": len(operands)}
    constants |= {"PAIRS_OUT": pairs_of(out, geometry.strides[0]), "COMPLEX_RESULT": complex_result}
    imaginary: dict[str, str] = {}
    for name, operand, strides in itertools.zip_longest("abcd", operands, geometry.strides[1:]):
        kind, type_, spec = ABSENT, tl.float32, None
        if operand is not None:
            kind, type_, spec = operand.kind, operand.type, operand.spec
        if spec is not None and not any(strides):
            kind = ELEMENT
        if operand is None:
            constants[name] = None
        else:
            signature[name] = type_name(type_) if spec is None else f"*{part_of(spec.dtype).triton_name}"
        if kind == NUMBER and operand.is_complex:
            imaginary[f"{name}_imag"] = type_name(type_)
        else:
            constants[f"{name}_imag"] = None
        letter = name.upper()
        constants |= {f"KIND_{letter}": kind.value, f"TYPE_{letter}": type_}
        constants[f"PAIRS_{letter}"] = 0 if spec is None else pairs_of(spec, strides)
        constants[f"COMPLEX_{letter}"] = operand is not None and operand.is_complex
    passed = Passed(signature | imaginary, constants, index)
    unit = power_of_two_in(length, ALIGNMENT)
    passed.constants(NDIM=len(geometry.sizes), ROWS=height, COLUMNS=width, UNIT=unit)
    passed.numbers(columns=length // unit, n_rows=n_rows)
    passed.numbers(kind="i32", column_blocks=column_blocks)
    passed.sizes(outer)
    passed.strides(
        geometry,
        itemsizes,
        [
            0 if strides[:1] == (1,) and size else None
            for strides, size in zip(geometry.strides, itemsizes, strict=True)
        ],
        wide=[name for name in OPERANDS if constants[f"PAIRS_{name.upper()}"]],
    )
    return passed.planned(call, pairs, row_blocks * column_blocks)


def pairs_of(spec: TensorSpec, strides: Sequence[int]) -> int:
    """Return the layout of an operand's real and imaginary parts along a row."""
    if not spec.dtype.is_complex:
        return 0
    return SIDE_BY_SIDE.value if strides[:1] == (1,) else APART.value


def part_of(dtype: ScalarType) -> ScalarType:
    """Return the dtype of a complex number's parts, or a real dtype itself."""
    return dtype.to_real() if dtype.is_complex else dtype


def part_type(dtype: ScalarType) -> tl.dtype:
    """Return the compute type of a dtype, or of a complex dtype's parts."""
    return compute_type(part_of(dtype))


ROOTS = (
    16,
    "two complex roots and the logarithm of the size in float64, with their cases, live beside one another",
)
PRODUCTS = (24, "sines, cosines, exponential functions and several complex products live beside one another")
TRIGONOMETRY = (48, "libdevice's table for reducing large arguments, on a path that common ones do not take")

declare(
    pairs,
    why=STREAMING,
    tile=("ROWS", "COLUMNS"),
    smaller=True,
    dtypes={
        ("fp16", "fp32"): (Configuration((8, 64)), Configuration((1, 512))),
        ("fp64",): (Configuration((8, 32)), Configuration((1, 256))),
        ("i1",): (Configuration((8, 64)), Configuration((1, 512))),
    },
    operations="n times the function's, and a division for each dimension beyond two of each row",
    traffic="n times the itemsizes of the output and of each operand that is no number",
    loads=("a", "b", "c", "d"),
    stores=("out",),
    per_index=2,
    functions=dict.fromkeys(("acos", "acosh", "asin", "asinh"), ROOTS)
    | dict.fromkeys(("atan", "atanh", "cos", "cosh", "silu_backward", "sin", "sinc", "sinh"), PRODUCTS)
    | {"logaddexp": (16, "both operands, an exponential function and a logarithm live beside one another")},
    local=dict.fromkeys(
        (
            "cos",
            "cosh",
            "exp",
            "expm1",
            "logaddexp",
            "pow",
            "shifted_exp",
            "sigmoid",
            "silu",
            "silu_backward",
            "sin",
            "sinh",
            "tan",
            "tanh",
        ),
        TRIGONOMETRY,
    ),
)
