"""The elementwise skeleton: one scalar function over up to four operands of any strides.

A program handles a block of consecutive indices. Where every operand is dense, or a single element, index and
offset are the same and accesses are 128 bits wide; otherwise offsets come from up to six coalesced sizes.
The last, partial block runs a masked body of its own, so that no length spoils the others' accesses.
"""

from __future__ import annotations

import ctypes
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

from ...dispatch.structured.stub import PlannedKernel, StructuredCall
from ...runtime.cuda.driver import driver
from ...runtime.cuda.lazy_triton import tl, triton
from ...runtime.device import CPU
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.tensor_spec import TensorSpec
from ..budget import FLOATS8, LEAST_CAPABILITY, NUMBERS, STREAMING, Configuration, declare
from ..conversion import compute_type, convert, type_name
from ..geometry import Geometry, elementwise_geometry
from ..launch import Launch, cdiv, integer_type, interpreted, launch_nothing, next_power_of_2

ABSENT, BLOCKED, ELEMENT, NUMBER = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2), tl.constexpr(3)
"""Kinds of operands: none, a block of memory, one element of memory, a number given at launch."""

MAX_OPERANDS = 4
MAX_DIMS = 6
BYTES = 4096
"""What one program of four warps reads of an operand: two 128-bit accesses for each thread."""
INTERPRETED_BLOCK = 16384


@triton.jit
def apply(FUNCTION: tl.constexpr, ARITY: tl.constexpr, a, b, c, d):
    if ARITY == 1:
        return FUNCTION(a)
    elif ARITY == 2:
        return FUNCTION(a, b)
    elif ARITY == 3:
        return FUNCTION(a, b, c)
    else:
        return FUNCTION(a, b, c, d)


@triton.jit
def read(x, offset, mask, KIND: tl.constexpr, TYPE: tl.constexpr):
    """An operand's values in the type that the function computes with."""
    if KIND == BLOCKED:
        return convert(tl.load(x + offset, mask=mask), TYPE)
    elif KIND == ELEMENT:
        return convert(tl.load(x), TYPE)
    elif KIND == NUMBER:
        return x.to(TYPE)
    else:
        return 0  # nobody reads it; Triton before 3.7 cannot return None from a branch


@triton.jit
def dense(
    out,
    a,
    b,
    c,
    d,
    n,
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
    BLOCK: tl.constexpr,
):
    start = tl.program_id(0).to(tl.int64) * BLOCK
    index = start + tl.arange(0, BLOCK)
    if start + BLOCK <= n:
        value = apply(
            FUNCTION,
            ARITY,
            read(a, index, None, KIND_A, TYPE_A),
            read(b, index, None, KIND_B, TYPE_B),
            read(c, index, None, KIND_C, TYPE_C),
            read(d, index, None, KIND_D, TYPE_D),
        )
        tl.store(out + index, convert(value, out.dtype.element_ty))
    else:
        mask = index < n
        value = apply(
            FUNCTION,
            ARITY,
            read(a, index, mask, KIND_A, TYPE_A),
            read(b, index, mask, KIND_B, TYPE_B),
            read(c, index, mask, KIND_C, TYPE_C),
            read(d, index, mask, KIND_D, TYPE_D),
        )
        tl.store(out + index, convert(value, out.dtype.element_ty), mask=mask)


@triton.jit
def strided(
    out,
    a,
    b,
    c,
    d,
    n,
    n0,
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
    NDIM: tl.constexpr,
    INDEX: tl.constexpr,
    BLOCK: tl.constexpr,
):
    index = tl.program_id(0).to(INDEX) * BLOCK + tl.arange(0, BLOCK).to(INDEX)
    mask = index < n
    zero = index * 0
    i0, i1, i2, i3, i4, i5 = index, zero, zero, zero, zero, zero
    if NDIM > 1:
        i1 = i0 // n0
        i0 = i0 % n0
    if NDIM > 2:
        i2 = i1 // n1
        i1 = i1 % n1
    if NDIM > 3:
        i3 = i2 // n2
        i2 = i2 % n2
    if NDIM > 4:
        i4 = i3 // n3
        i3 = i3 % n3
    if NDIM > 5:
        i5 = i4 // n4
        i4 = i4 % n4
    to_out = i0 * out0 + i1 * out1 + i2 * out2 + i3 * out3 + i4 * out4 + i5 * out5
    to_a = i0 * a0 + i1 * a1 + i2 * a2 + i3 * a3 + i4 * a4 + i5 * a5
    to_b = i0 * b0 + i1 * b1 + i2 * b2 + i3 * b3 + i4 * b4 + i5 * b5
    to_c = i0 * c0 + i1 * c1 + i2 * c2 + i3 * c3 + i4 * c4 + i5 * c5
    to_d = i0 * d0 + i1 * d1 + i2 * d2 + i3 * d3 + i4 * d4 + i5 * d5
    value = apply(
        FUNCTION,
        ARITY,
        read(a, to_a, mask, KIND_A, TYPE_A),
        read(b, to_b, mask, KIND_B, TYPE_B),
        read(c, to_c, mask, KIND_C, TYPE_C),
        read(d, to_d, mask, KIND_D, TYPE_D),
    )
    tl.store(out + to_out, convert(value, out.dtype.element_ty), mask=mask)


def number_for(type_: tl.dtype) -> Callable[[Any], int | float]:
    """A function that makes a Python number an argument of this type: wrapped, or rounded to infinity."""
    if type_ == tl.float64:
        return float
    if type_.is_floating():
        return lambda value: ctypes.c_float(value).value
    if type_ == tl.int1:
        return lambda value: int(value != 0)
    bits, signed = type_.primitive_bitwidth, type_.is_int_signed()
    low = -(1 << (bits - 1)) if signed else 0

    def wrapped(value: Any) -> int:
        return (int(value) - low) % (1 << bits) + low

    return wrapped


def address(data: Any) -> int:
    """Where a tensor's bytes begin."""
    return data.address  # type: ignore[no-any-return]


class Operand:
    """One input of an elementwise launch: how it is passed, and the type in which it is computed.

    Args:
        given: the plan's argument: a spec, or the class of a number.
        type_: what the function gets.
    """

    __slots__ = ("kind", "prepare", "spec", "type", "type_name")

    def __init__(self, given: Any, type_: tl.dtype) -> None:
        self.type = type_
        self.spec: TensorSpec | None = None
        if isinstance(given, TensorSpec) and given.device.type == "cuda":
            self.spec = given
            self.kind = BLOCKED
            self.type_name = f"*{given.dtype.triton_name}"
            self.prepare: Callable[[Any], int | float] = address
            return
        self.kind = NUMBER
        self.type_name = type_name(type_)
        number = number_for(type_)
        self.prepare = (lambda array: number(array.item())) if isinstance(given, TensorSpec) else number


def check_dtypes(call: StructuredCall, specs: Sequence[Any]) -> None:
    """Refuse dtypes without a Triton type, which complex numbers are, or without a conversion on the device."""
    for spec in specs:
        if not isinstance(spec, TensorSpec):
            continue
        if spec.dtype.triton_name is None:
            raise call.refuse(spec)
        least = LEAST_CAPABILITY.get(spec.dtype.triton_name)
        if least is not None and spec.device.type == "cuda":
            check_capability(call, spec, least)


def check_capability(call: StructuredCall, spec: TensorSpec, least: int) -> None:
    """Raise NotImplementedError for a dtype that the device of the call is too old for."""
    found = driver().properties(spec.device.resolved_index)
    if 10 * found.major + found.minor < least:
        raise NotImplementedError(
            f"\"{call.kernel_name()}\" not implemented for '{spec.dtype.scalar_name}' on {spec.device}: expected "
            f"compute capability {least // 10}.{least % 10} or later, got {found.major}.{found.minor}"
        )


def check_devices(out: TensorSpec, inputs: Sequence[Any]) -> None:
    """Refuse tensors on another device, except numbers in host memory. Raises RuntimeError."""
    for spec in inputs:
        if (
            isinstance(spec, TensorSpec)
            and spec.device is not out.device
            and (spec.ndim or spec.device is not CPU)
        ):
            raise RuntimeError(
                "Expected all tensors to be on the same device, but found at least two devices, "
                f"{out.device} and {spec.device}!"
            )


def elementwise(
    call: StructuredCall,
    function: Any,
    inputs: Sequence[Any],
    types: Sequence[tl.dtype],
) -> PlannedKernel:
    """The kernel that stores ``function(*inputs)``, converted to the output's dtype.

    Args:
        call: the plan; its output is the first one.
        function: a `@triton.jit` function of as many scalars.
        inputs: specs or classes of numbers, in the order of the kernel's runtime arguments.
        types: the Triton type in which the function gets each of them.
    """
    out = call.outputs[0]
    check_dtypes(call, [out, *inputs])
    check_devices(out, inputs)
    if out.numel == 0:
        return PlannedKernel(launch_nothing)
    operands = [Operand(given, type_) for given, type_ in zip(inputs, types, strict=True)]
    specs = [operand.spec for operand in operands if operand.spec is not None]
    geometry = with_numbers(elementwise_geometry(out, specs), operands)
    return over_geometry(call, function, operands, geometry)


def over_geometry(
    call: StructuredCall, function: Any, operands: Sequence[Operand], geometry: Geometry
) -> PlannedKernel:
    """The kernel that stores ``function(*operands)`` over an index space; the output's strides come first."""
    out = call.outputs[0]
    specs = [operand.spec for operand in operands if operand.spec is not None]
    for operand, strides in zip(operands, geometry.strides[1:], strict=True):
        if operand.spec is not None and not any(strides):
            operand.kind = ELEMENT
    names = "abcd"[: len(operands)]
    signature = {"out": f"*{out.dtype.triton_name}"}
    signature |= {name: operand.type_name for name, operand in zip(names, operands, strict=True)}
    constexprs: dict[str, object] = {"FUNCTION": function, "ARITY": len(operands)}
    for name, operand in itertools.zip_longest("abcd", operands):
        if operand is None:
            constexprs[name] = None
        constexprs[f"KIND_{name.upper()}"] = ABSENT.value if operand is None else operand.kind.value
        constexprs[f"TYPE_{name.upper()}"] = tl.float32 if operand is None else operand.type
    elements = [name for name, operand in zip(names, operands, strict=True) if operand.kind == ELEMENT]
    widest = max(spec.itemsize for spec in (out, *specs))
    if geometry.is_dense:
        numel = math.prod(geometry.sizes)
        launch, grid, numbers = plan_dense(call, signature, constexprs, elements, numel, widest)
        offsets: list[tuple[int, ...]] = [(0,) * (1 + len(operands))]
    else:
        inner, offsets = split_outer(geometry, [out, *[operand.spec for operand in operands]])
        launch, grid, numbers = plan_strided(call, signature, constexprs, elements, inner, names)
    prepares = [operand.prepare for operand in operands]
    return PlannedKernel(launcher(launch, grid, numbers, prepares, offsets))


def plan_dense(
    call: StructuredCall,
    signature: dict[str, str],
    constexprs: dict[str, object],
    elements: Sequence[str],
    n: int,
    itemsize: int,
) -> tuple[Launch, tuple[int, int, int], tuple[int, ...]]:
    """The launch over dense operands."""
    # Of single bytes half as many: the compiler unpacks them into a register each, and more of them spill.
    block = BYTES // max(itemsize, 2)
    if interpreted():
        block = min(max(next_power_of_2(n), 16), INTERPRETED_BLOCK)
    launch = Launch(
        call.device, dense, {**signature, "n": "i64"}, {**constexprs, "BLOCK": block}, elements=elements
    )
    return launch, (cdiv(n, block), 1, 1), (n,)


def plan_strided(
    call: StructuredCall,
    signature: dict[str, str],
    constexprs: dict[str, object],
    elements: Sequence[str],
    geometry: Geometry,
    names: str,
) -> tuple[Launch, tuple[int, int, int], tuple[int, ...]]:
    """The launch over operands of any strides."""
    n = 1
    for size in geometry.sizes:
        n *= size
    block = min(max(next_power_of_2(n), 16), INTERPRETED_BLOCK) if interpreted() else 1024
    kind = integer_type(cdiv(n, block) * block, geometry.extent())
    rank = len(geometry.sizes)
    signature = {**signature, "n": kind}
    constexprs = {
        **constexprs,
        "NDIM": rank,
        "INDEX": tl.int32 if kind == "i32" else tl.int64,
        "BLOCK": block,
    }
    numbers = [n]
    for i in range(MAX_DIMS - 1):
        if i < rank - 1:
            signature[f"n{i}"] = kind
            numbers.append(geometry.sizes[i])
        else:
            constexprs[f"n{i}"] = 1
    present = dict(zip(("out", *names), geometry.strides, strict=True))
    for name in ("out", "a", "b", "c", "d"):
        for i in range(MAX_DIMS):
            stride = present[name][i] if name in present and i < rank else 0
            if stride in (0, 1):
                constexprs[f"{name}{i}"] = stride
            else:
                signature[f"{name}{i}"] = kind
                numbers.append(stride)
    launch = Launch(call.device, strided, signature, constexprs, elements=elements)
    return launch, (cdiv(n, block), 1, 1), tuple(numbers)


def with_numbers(geometry: Geometry, operands: Sequence[Operand]) -> Geometry:
    """The geometry with strides of zero for operands that are no tensors, so that it has every operand."""
    strides = iter(geometry.strides)
    zeros = (0,) * len(geometry.sizes)
    every = [next(strides), *(zeros if o.spec is None else next(strides) for o in operands)]
    return Geometry(geometry.sizes, tuple(every))


def split_outer(
    geometry: Geometry, specs: Sequence[TensorSpec | None]
) -> tuple[Geometry, list[tuple[int, ...]]]:
    """What one launch covers, and the byte offsets of each operand at which it is repeated.

    More than `MAX_DIMS` dimensions that do not coalesce are walked through on the host.
    """
    inner = Geometry(geometry.sizes[:MAX_DIMS], tuple(s[:MAX_DIMS] for s in geometry.strides))
    outer = geometry.sizes[MAX_DIMS:]
    steps = [s[MAX_DIMS:] for s in geometry.strides]
    itemsizes = [0 if spec is None else spec.itemsize for spec in specs]
    return inner, [
        tuple(
            itemsize * sum(i * s for i, s in zip(index, own, strict=True))
            for itemsize, own in zip(itemsizes, steps, strict=True)
        )
        for index in itertools.product(*map(range, outer))
    ]


def launcher(
    launch: Launch,
    grid: tuple[int, int, int],
    numbers: tuple[int, ...],
    prepares: Sequence[Callable[[Any], int | float]],
    offsets: Sequence[tuple[int, ...]],
) -> Callable[..., None]:
    """The function over bytes that a plan calls, its frequent shapes spelt out to keep the call short."""
    enqueue = launch.enqueue
    if len(offsets) == 1:
        if len(prepares) == 1 and prepares[0] is address:

            def unary(out: Any, a: Any) -> None:
                enqueue(grid, out.address, a.address, *numbers)

            return unary
        if len(prepares) == 2 and prepares[0] is prepares[1] is address:

            def binary(out: Any, a: Any, b: Any) -> None:
                enqueue(grid, out.address, a.address, b.address, *numbers)

            return binary

        def one(out: Any, *inputs: Any) -> None:
            values = [prepare(x) for prepare, x in zip(prepares, inputs, strict=True)]
            enqueue(grid, out.address, *values, *numbers)

        return one

    def several(out: Any, *inputs: Any) -> None:
        values = [out.address, *(prepare(x) for prepare, x in zip(prepares, inputs, strict=True))]
        for steps in offsets:
            enqueue(grid, *(value + step for value, step in zip(values, steps, strict=True)), *numbers)

    return several


def common_types(call: StructuredCall, common: ScalarType) -> list[tl.dtype]:
    """The common dtype's compute type for each runtime argument."""
    return [compute_type(common)] * len(call.runtime)


TRIGONOMETRY = (48, "libdevice's table for reducing large arguments, on a path that common ones do not take")

declare(
    dense,
    why=STREAMING,
    dtypes={
        ("fp32", "i32", "u32"): (Configuration((1024,)), Configuration((512,))),
        ("fp64", "i64", "u64"): (Configuration((512,)),),
        # Of 16 elements a lane, seven blocks where they are not aligned: they are loaded one by one, each into a
        # register of its own, with masks and addresses beside them; 28 KiB are in flight.
        ("bf16", "fp16", "i16", "u16", "i8", "u8", "i1"): (
            Configuration((2048,), unaligned=7),
            Configuration((1024,)),
            Configuration((512,)),
        ),
        FLOATS8: (Configuration((1024,)),),
    },
    operations="n times the function's",
    traffic="n times the itemsizes of the output and of each operand that is no number",
    loads=("a", "b", "c", "d"),
    stores=("out",),
    functions={
        "pow": (24, "a power of integers is a loop of 32 products, through which four 64-bit numbers live")
    },
    local=dict.fromkeys(("sin", "cos", "tan"), TRIGONOMETRY),
)
declare(
    strided,
    why="32 warps: the accesses are scattered, and other warps hide the wait for them",
    dtypes=NUMBERS,
    configurations=(Configuration((1024,)),),
    operations="n times the function's, and a division and a remainder for each dimension but one",
    traffic="as dense, where lines of 32 bytes are used up",
)
