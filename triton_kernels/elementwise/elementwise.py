"""Elementwise skeleton: one scalar function over up to four operands of any strides.

The plan chooses by geometry:
- If every operand is dense or a single element, index and offset are the same, and a program takes a block of
  consecutive elements (`dense`).
- If operands are contiguous along different dimensions, `tiles` transposes them.
- All others are `rows`.

Partial blocks run a separate masked body, so that no length slows down the full blocks.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

from ...dispatch.structured import choices
from ...dispatch.structured.stub import ElementFunction, PlannedKernel, StructuredCall
from ...runtime.cuda.driver import driver
from ...runtime.cuda.triton.lazy_triton import tl, triton
from ...runtime.device import CPU
from ...runtime.errors import two_devices
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.tensor_spec import TensorSpec
from ..budget import FLOATS8, MIN_CAPABILITY, STREAMING, Configuration, declare
from ..conversion import compute_type, convert
from ..geometry import Geometry, elementwise_geometry
from ..launch import Launch, cdiv, interpreted, launch_nothing, next_power_of_2
from ..tuning.choice import configuration
from .kernel_parameters import BYTES, INTERPRETED_BLOCK, Planned, split_outer
from .operands import ABSENT, ELEMENT, Operand, address, apply, number_for, read
from .pairs import over_pairs, part_of
from .rows import plan_rows
from .tiles import MIN_TILE_ELEMENTS, plan_tiles

__all__ = [
    "BYTES",
    "INTERPRETED_BLOCK",
    "Operand",
    "address",
    "check_capability",
    "check_devices",
    "check_dtypes",
    "common_types",
    "complex_elementwise",
    "elementwise",
    "number_for",
    "over_geometry",
]


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


def check_dtypes(call: StructuredCall, specs: Sequence[Any]) -> None:
    """Refuse dtypes without a Triton type, which complex numbers are, or without a conversion on the device."""
    for spec in specs:
        if not isinstance(spec, TensorSpec):
            continue
        if spec.dtype.triton_name is None:
            raise call.refuse(spec)
        least = MIN_CAPABILITY.get(spec.dtype.triton_name)
        if least is not None and spec.device.type == "cuda":
            check_capability(call, spec, least)


def check_capability(call: StructuredCall, spec: TensorSpec, least: int) -> None:
    """Raise NotImplementedError for a dtype that the device of the call is too old for."""
    properties = driver().properties(spec.device.resolved_index)
    if 10 * properties.major + properties.minor < least:
        raise NotImplementedError(
            f"\"{call.kernel_name()}\" not implemented for '{spec.dtype.scalar_name}' on {spec.device}: expected "
            f"compute capability {least // 10}.{least % 10} or later, got {properties.major}.{properties.minor}"
        )


def check_devices(out: TensorSpec, inputs: Sequence[Any]) -> None:
    """Refuse tensors on another device, except numbers in host memory. Raises RuntimeError."""
    for spec in inputs:
        if (
            isinstance(spec, TensorSpec)
            and spec.device is not out.device
            and (spec.ndim or spec.device is not CPU)
        ):
            raise RuntimeError(two_devices(out.device, spec.device))


def elementwise(
    call: StructuredCall,
    function: Any,
    inputs: Sequence[Any],
    types: Sequence[tl.dtype],
) -> PlannedKernel:
    """Return the kernel that stores ``function(*inputs)``, converted to the output's dtype.

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
    operands = [Operand(input_, type_) for input_, type_ in zip(inputs, types, strict=True)]
    specs = [operand.spec for operand in operands if operand.spec is not None]
    geometry = with_numbers(elementwise_geometry(out, specs), operands)
    indices, prepares = tuple(range(len(operands))), tuple([operand.prepare for operand in operands])
    element = ElementFunction(function, tuple(types), indices, prepares)
    return over_geometry(call, function, operands, geometry)._replace(element=element)


def complex_elementwise(
    call: StructuredCall,
    function: Any,
    inputs: Sequence[Any],
    types: Sequence[tl.dtype],
    complexes: Sequence[bool],
    complex_result: bool,
) -> PlannedKernel:
    """Return the `elementwise` kernel of complex operands or outputs; see `over_pairs`."""
    out = call.outputs[0]
    check_parts(call, [out, *inputs])
    check_devices(out, inputs)
    if out.numel == 0:
        return PlannedKernel(launch_nothing)
    return over_pairs(call, function, inputs, types, complexes, complex_result)


def check_parts(call: StructuredCall, specs: Sequence[Any]) -> None:
    """Refuse dtypes that are neither complex with parts that have a Triton type nor have one themselves."""
    for spec in specs:
        if isinstance(spec, TensorSpec) and part_of(spec.dtype).triton_name is None:
            raise call.refuse(spec)


def over_geometry(
    call: StructuredCall, function: Any, operands: Sequence[Operand], geometry: Geometry
) -> PlannedKernel:
    """Return the kernel that stores ``function(*operands)`` over an index space; the output's strides come
    first.
    """
    out = call.outputs[0]
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
    specs = [out, *(operand.spec for operand in operands)]
    itemsizes = [0 if spec is None else spec.itemsize for spec in specs]
    offsets: list[tuple[int, ...]] = [(0,) * len(specs)]
    n = math.prod(geometry.sizes)
    if geometry.is_dense:
        choices.chosen("dense", "operands lie like the output, as one run of {} elements", n)
        elements = [name for name, operand in zip(names, operands, strict=True) if operand.kind == ELEMENT]
        planned = plan_dense(call, signature, constexprs, elements, math.prod(geometry.sizes), max(itemsizes))
    else:
        exchanged = geometry.exchanged(MIN_TILE_ELEMENTS)
        inner, offsets = split_outer(geometry if exchanged is None else exchanged, specs)
        if exchanged is None:
            sizes = " x ".join(map(str, geometry.sizes))
            choices.chosen(
                "rows", "operands have strides of their own over {} elements, the innermost first", sizes
            )
            planned = plan_rows(call, signature, constexprs, operands, inner, itemsizes)
        else:
            why = "operands lie side by side along different dimensions of {} elements"
            choices.chosen("tiles", why, n)
            planned = plan_tiles(call, signature, constexprs, inner, itemsizes)
    prepares = [operand.prepare for operand in operands]
    return PlannedKernel(launcher(*planned, prepares, offsets))


HEAVY: set[Any] = set()
"""Functions that hold so much in registers that a program of theirs takes half a block, still 128 bits a lane."""


def plan_dense(
    call: StructuredCall,
    signature: dict[str, str],
    constexprs: dict[str, object],
    elements: Sequence[str],
    n: int,
    itemsize: int,
) -> Planned:
    """Return the launch over dense operands."""
    if interpreted():
        chosen = Configuration((min(max(next_power_of_2(n), 16), INTERPRETED_BLOCK),))
    else:
        # Single bytes use half as many: the compiler unpacks each into a register, and more of them spill.
        chosen = Configuration((BYTES // max(itemsize, 2),))
        if constexprs["FUNCTION"] in HEAVY:
            chosen = Configuration((chosen.tile[0] // 2,))
        else:
            shape = (n, itemsize, len(signature) - 1)
            chosen = configuration(dense, call.device, signature["out"].removeprefix("*"), shape, chosen)
    (block,) = chosen.tile
    launch = Launch(
        call.device,
        dense,
        {**signature, "n": "i64"},
        {**constexprs, "BLOCK": block},
        elements=elements,
        num_warps=chosen.warps,
    )
    return Planned(launch, (cdiv(n, block), 1, 1), (n,))


def with_numbers(geometry: Geometry, operands: Sequence[Operand]) -> Geometry:
    """Return the geometry with strides of zero for operands that are no tensors, so that it has every operand."""
    strides = iter(geometry.strides)
    zeros = (0,) * len(geometry.sizes)
    every = [next(strides), *(zeros if o.spec is None else next(strides) for o in operands)]
    return Geometry(geometry.sizes, tuple(every))


def launcher(
    launch: Launch,
    grid: tuple[int, int, int],
    numbers: tuple[int, ...],
    prepares: Sequence[Callable[[Any], int | float]],
    offsets: Sequence[tuple[int, ...]],
) -> Callable[..., None]:
    """Return the function over bytes that a plan calls; frequent arities are spelled out to shorten the call."""
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
    """Return the common dtype's compute type for each runtime argument."""
    return [compute_type(common)] * len(call.runtime)


RECURRENCES = (
    *(f"{kind}_{letter}" for kind in ("chebyshev", "shifted") for letter in "tuvw"),
    *("hermite_h", "hermite_he", "laguerre_l", "legendre_p"),
)
WAVES = ("j0", "j1", "y0", "y1", "spherical_j0", "airy_ai")
TRIGONOMETRY = (48, "libdevice's table for reducing large arguments, on a path that common ones do not take")

declare(
    dense,
    why=STREAMING,
    dtypes={
        ("fp32", "i32", "u32"): (
            Configuration((1024,)),
            Configuration((512,)),
            Configuration((2048,), 8),
        ),
        ("fp64", "i64", "u64"): (Configuration((512,)), Configuration((256,)), Configuration((1024,), 8)),
        # 16 elements a lane, seven blocks if unaligned: elements are loaded one by one, each into a register of
        # its own, with masks and addresses; 28 KiB are in flight.
        ("bf16", "fp16", "i16", "u16", "i8", "u8", "i1"): (
            Configuration((2048,), unaligned=7),
            Configuration((1024,)),
            Configuration((512,)),
            Configuration((4096,), 8, unaligned=3),
        ),
        FLOATS8: (Configuration((1024,)),),
    },
    operations="n times the function's",
    traffic="n times the itemsizes of the output and of each operand that is no number",
    loads=("a", "b", "c", "d"),
    stores=("out",),
    functions={
        "pow": (24, "a power of integers is a loop of 32 products, through which four 64-bit numbers live"),
        **dict.fromkeys(
            ("gcd", "lcm"), (16, "numbers, remainders and quotients of several lanes go round a loop")
        ),
        **dict.fromkeys(
            ("i0e", "i1e", "nextafter", "log_ndtr"),
            (24, "both sides of a choice are computed in eight lanes at once"),
        ),
        **dict.fromkeys(
            ("k0", "k1", "k0e", "k1e"), (16, "two series are summed side by side, in eight lanes at once")
        ),
        **dict.fromkeys(RECURRENCES, (16, "three terms of a recurrence and a cosine live through a loop")),
        **dict.fromkeys(
            ("digamma", "trigamma", "zeta", "polygamma", "airy_ai"),
            (
                12,
                "four sums and what chooses among them live together; memory waits for arithmetic, not for warps",
            ),
        ),
        **dict.fromkeys(("igamma", "igammac"), (8, "in float64, through two loops with eight numbers each")),
    },
    local=dict.fromkeys(("sin", "cos", "tan", "sinc", "trigamma", *WAVES, *RECURRENCES), TRIGONOMETRY),
)
