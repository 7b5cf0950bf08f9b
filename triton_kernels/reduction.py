"""The reduction skeleton, and the reductions made of it: a line for each.

The input is seen as [outer, reduced], each side with up to four coalesced dimensions of any stride. A program
has a tile of outputs by reduced elements: each lane combines every BLOCK_R-th element, then a tree combines
the lanes. Few outputs with much to reduce are split: partial results first, their reduction second. No
atomics, so the order depends on sizes, strides and the device only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import triton.language as tl

from ..dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ..runtime.allocator import get_allocator
from ..runtime.cuda.driver import driver
from ..runtime.scalar_type import dtype as ScalarType
from ..runtime.tensor_spec import TensorSpec
from .conversion import compute_type, type_name
from .copy import copy_kernel
from .elementwise import check_dtypes
from .geometry import Geometry, coalesced
from .launch import ALIGNMENT, Launch, cdiv, integer_type, interpreted, launch_nothing, next_power_of_2
from .reduction_kernels import (
    and_across,
    identity,
    largest,
    largest_across,
    logical_and,
    logical_or,
    mean_of,
    or_across,
    product,
    product_across,
    reduce,
    reduce_with_index,
    result_of,
    smallest,
    smallest_across,
    sum_across,
    sum_of,
)

MAX_DIMS = 4
TILE = 4096
INTERPRETED_TILE = 1 << 16


@dataclass(frozen=True)
class Reduction:
    """A reduction to one value for each output.

    Args:
        combine: a `@triton.jit` function of two accumulators; associative.
        across: ``tl.reduce(tile, 1, combine)`` as a function: the compiler wants `combine` by its name there.
        start: the accumulator of nothing, from the accumulator's type.
        accumulate: the accumulator's type, from the input's and the output's dtype.
        load: what becomes of an element before it is combined.
        finish: ``finish(accumulator, count)`` gives the result.
    """

    combine: Any
    across: Any
    start: Callable[[tl.dtype], int | float]
    accumulate: Callable[[ScalarType, ScalarType], tl.dtype]
    load: Any = identity
    finish: Any = result_of


@dataclass(frozen=True)
class IndexReduction:
    """A reduction that picks one element and tells its index; `prefer_larger` says which."""

    prefer_larger: bool


def lowest(type_: tl.dtype) -> int | float:
    """A number that no number of this type is below."""
    if type_.is_floating():
        return -math.inf
    return -(1 << (type_.primitive_bitwidth - 1)) if type_.is_int_signed() else 0


def highest(type_: tl.dtype) -> int | float:
    """A number that no number of this type exceeds."""
    if type_.is_floating():
        return math.inf
    return (1 << (type_.primitive_bitwidth - (1 if type_.is_int_signed() else 0))) - 1


def sum_type(input: ScalarType, output: ScalarType) -> tl.dtype:
    """Sums and products: in the output's compute type, integers in int64."""
    return compute_type(output) if output.is_floating_point else tl.int64


def own_type(input: ScalarType, output: ScalarType) -> tl.dtype:
    """Extremes: in the input's compute type."""
    return compute_type(input)


def bool_type(input: ScalarType, output: ScalarType) -> tl.dtype:
    """Truth: whether an element is zero."""
    return tl.int1


@dataclass(frozen=True)
class Tile:
    """How many outputs and reduced elements a program has, and how many parts share the reduced side."""

    outputs: int
    reduced: int
    splits: int
    chunk: int
    warps: int


def tile_for(n_out: int, n: int, reduced_is_inner: bool, may_split: bool) -> Tile:
    """Tiles that read along the contiguous side, and enough programs to fill the device."""
    most_out, most = next_power_of_2(n_out), next_power_of_2(n)
    if interpreted():
        reduced = min(most, 4096)
        outputs = min(most_out, INTERPRETED_TILE // reduced)
        target = 4
    else:
        if reduced_is_inner:
            reduced = min(most, TILE)
            outputs = min(most_out, max(1, TILE // 2 // reduced))
        else:
            outputs = min(most_out, 64)
            reduced = min(most, TILE // 2 // outputs)
        target = 4 * driver().properties(driver().current_device()).multi_processor_count
    programs = cdiv(n_out, outputs)
    splits = 1
    if may_split and programs * 2 <= target:
        splits = max(1, min(cdiv(n, 4 * reduced), target // programs))
    chunk = cdiv(cdiv(n, splits), reduced) * reduced if n else reduced
    splits = max(1, cdiv(n, chunk))
    warps = 8 if outputs * reduced > 2048 else 4
    return Tile(outputs, reduced, splits, chunk, warps)


@dataclass(frozen=True)
class Sides:
    """The geometry of a reduction: outputs over both tensors' strides, reduced elements over the input's."""

    kept: Geometry
    reduced: Geometry

    @property
    def n_out(self) -> int:
        return math.prod(self.kept.sizes)

    @property
    def n(self) -> int:
        return math.prod(self.reduced.sizes)

    @property
    def reduced_is_inner(self) -> bool:
        """Whether the smallest stride of the input lies among the reduced dimensions."""
        inner, outer = self.reduced.strides[0][:1], self.kept.strides[0][:1]
        return not outer or (bool(inner) and inner[0] <= outer[0])

    def fits(self) -> bool:
        """Whether the skeleton has parameters enough."""
        return len(self.kept.sizes) <= MAX_DIMS and len(self.reduced.sizes) <= MAX_DIMS


def sides_of(spec: TensorSpec, out: TensorSpec, dims: Sequence[int], keep_order: bool) -> Sides:
    """The two sides; `out` has the reduced dimensions as size 1 or not at all."""
    kept = [i for i in range(spec.ndim) if i not in dims]
    if out.ndim == spec.ndim:
        out_strides = [out.strides[i] for i in kept]
    else:
        out_strides = list(out.strides)
    kept_side = coalesced([spec.sizes[i] for i in kept], [[spec.strides[i] for i in kept], out_strides])
    sizes = [spec.sizes[i] for i in dims]
    if 0 in sizes:
        return Sides(kept_side, Geometry((0,), ((1,),)))
    return Sides(kept_side, coalesced(sizes, [[spec.strides[i] for i in dims]], keep_order))


def dimension_arguments(
    prefix: str, sizes: Sequence[int], strides: dict[str, Sequence[int]], kind: str
) -> tuple[dict[str, str], dict[str, object], dict[str, int]]:
    """Signature, constants and values of one side's sizes and strides; strides of 0 and 1 are constants."""
    signature: dict[str, str] = {}
    constants: dict[str, object] = {}
    values: dict[str, int] = {}
    every: dict[str, int | None] = {
        f"{prefix}{i}": sizes[i] if i < len(sizes) - 1 else None for i in range(MAX_DIMS - 1)
    }
    for name, own in strides.items():
        every |= {f"{name}{i}": own[i] if i < len(sizes) else None for i in range(MAX_DIMS)}
    for name, value in every.items():
        if value is None or (value in (0, 1) and not name.startswith(prefix)):
            constants[name] = value or 0
        else:
            signature[name] = kind
            values[name] = value
    return signature, constants, values


def plan_reduction(
    call: StructuredCall,
    kernel: Any,
    sides: Sides,
    pointers: dict[str, str],
    constexprs: dict[str, object],
    tile: Tile,
    part_stride: int,
) -> tuple[Launch, tuple[int, int, int], tuple[int, ...]]:
    """One launch: the pointers come first at each call, then the numbers returned here."""
    n_out, n = sides.n_out, sides.n
    kind = integer_type(
        sides.kept.extent() + sides.reduced.extent(),
        n + tile.chunk,
        (n_out + tile.outputs) * max(part_stride, 1),
    )
    signature = {**pointers, "n_out": kind, "n": kind, "count": "i64", "chunk": kind}
    values = {"n_out": n_out, "n": n, "count": n, "chunk": tile.chunk}
    kept_x, kept_out = sides.kept.strides
    constants = dict(constexprs)
    for side in (
        dimension_arguments("k", sides.kept.sizes, {"xk": kept_x, "ok": kept_out}, kind),
        dimension_arguments("r", sides.reduced.sizes, {"xr": sides.reduced.strides[0]}, kind),
    ):
        signature |= side[0]
        constants |= side[1]
        values |= side[2]
    constants |= {
        "KEPT": len(sides.kept.sizes),
        "REDUCED": len(sides.reduced.sizes),
        "INDEX": tl.int32 if kind == "i32" else tl.int64,
        "BLOCK_O": tile.outputs,
        "BLOCK_R": tile.reduced,
    }
    order = [name for name in kernel.arg_names if name in signature]
    launch = Launch(
        call.device,
        kernel,
        {name: signature[name] for name in order},
        constants,
        # Without these the bound of a row, or its start, may lie within a vector, and accesses are scalar.
        divisible=[name for name, value in values.items() if name != "count" and value % ALIGNMENT == 0],
        num_warps=tile.warps,
    )
    numbers = tuple(values[name] for name in order if name in values)
    return launch, (cdiv(n_out, tile.outputs), tile.splits, 1), numbers


def reduction(row: Reduction) -> Callable[[StructuredCall], PlannedKernel]:
    """The kernel factory of a reduction over ``call.extra["dims"]``."""

    def factory(call: StructuredCall) -> PlannedKernel:
        spec, out = call.args["self"], call.outputs[0]
        check_dtypes(call, [spec, out])
        dims = call.extra["dims"]
        if out.numel == 0:
            return PlannedKernel(launch_nothing)
        accumulator = row.accumulate(spec.dtype, out.dtype)
        sides = sides_of(spec, out, dims, False)
        if not sides.fits():
            return through_contiguous(call, factory, spec, out, dims)
        tile = tile_for(sides.n_out, sides.n, sides.reduced_is_inner, True)
        constexprs: dict[str, object] = {
            "COMBINE": row.combine,
            "ACROSS": row.across,
            "LOAD": row.load,
            "FINISH": row.finish,
            "START": row.start(accumulator),
            "ACCUMULATOR": accumulator,
        }
        pointers = {"x": f"*{spec.dtype.triton_name}", "out": f"*{out.dtype.triton_name}"}
        if tile.splits == 1:
            launch, grid, numbers = plan_reduction(
                call, reduce, sides, pointers, {**constexprs, "PART_STRIDE": 0}, tile, 0
            )
            return PlannedKernel(lambda to, x, *_: launch(grid, x.address, to.address, *numbers))
        return split_reduction(call, row, sides, tile, pointers, constexprs, accumulator)

    return factory


def split_reduction(
    call: StructuredCall,
    row: Reduction,
    sides: Sides,
    tile: Tile,
    pointers: dict[str, str],
    constexprs: dict[str, object],
    accumulator: tl.dtype,
) -> PlannedKernel:
    """Two launches: partial results as [outputs, splits], then their reduction."""
    n_out, splits = sides.n_out, tile.splits
    name = f"*{type_name(accumulator)}"
    partly = Sides(
        Geometry(sides.kept.sizes, (sides.kept.strides[0], gapless_strides(sides.kept.sizes, splits))),
        sides.reduced,
    )
    first, first_grid, first_numbers = plan_reduction(
        call,
        reduce,
        partly,
        {"x": pointers["x"], "out": name},
        {**constexprs, "FINISH": result_of, "PART_STRIDE": 1},
        tile,
        splits,
    )
    together = Sides(
        Geometry(
            sides.kept.sizes,
            (gapless_strides(sides.kept.sizes, splits), sides.kept.strides[1]),
        ),
        Geometry((splits,), ((1,),)),
    )
    second_tile = tile_for(n_out, splits, True, False)
    second, second_grid, second_numbers = plan_reduction(
        call,
        reduce,
        together,
        {"x": name, "out": pointers["out"]},
        {**constexprs, "LOAD": identity, "PART_STRIDE": 0},
        second_tile,
        0,
    )
    order = [n for n in reduce.arg_names if n in ("n_out", "n", "count", "chunk")]
    numbers = list(second_numbers)
    numbers[order.index("count")] = sides.n
    allocate = get_allocator("cuda").allocate
    nbytes = n_out * splits * max(accumulator.primitive_bitwidth // 8, 1)
    device = call.device

    def into(to: Any, x: Any, *_: Any) -> None:
        parts = allocate(nbytes, device)
        first(first_grid, x.address, parts.address, *first_numbers)
        second(second_grid, parts.address, to.address, *numbers)

    return PlannedKernel(into)


def gapless_strides(sizes: Sequence[int], step: int) -> tuple[int, ...]:
    """Strides of a gapless array whose first dimension is the inner one, each element `step` wide."""
    strides = []
    for size in sizes:
        strides.append(step)
        step *= size
    return tuple(strides)


def through_contiguous(
    call: StructuredCall,
    factory: Callable[[StructuredCall], PlannedKernel],
    spec: TensorSpec,
    out: TensorSpec,
    dims: Sequence[int],
) -> PlannedKernel:
    """More dimensions than the skeleton has: a contiguous copy of the input, and of the output if need be."""
    kept = [i for i in range(spec.ndim) if i not in dims]
    order = [*kept, *dims]
    permuted = spec.replace(
        sizes=tuple(spec.sizes[i] for i in order), strides=tuple(spec.strides[i] for i in order)
    )
    flat = TensorSpec.contiguous(permuted.sizes, spec.dtype, spec.device)
    result = TensorSpec.contiguous(out.sizes, out.dtype, out.device)
    gather = copy_kernel(flat, permuted)
    scatter = None if out.is_contiguous else copy_kernel(out, result)
    squeezed = TensorSpec.contiguous(permuted.sizes[: len(kept)], out.dtype, out.device)
    inner = factory(
        call._replace(
            args={**call.args, "self": flat},
            outputs=(squeezed,),
            extra={**call.extra, "dims": tuple(range(len(kept), spec.ndim))},
        )
    ).into
    allocate = get_allocator("cuda").allocate

    def into(to: Any, x: Any, *_: Any) -> None:
        buffer = allocate(flat.nbytes, flat.device)
        gather(buffer, x)
        target = to if scatter is None else allocate(result.nbytes, result.device)
        inner(target, buffer)
        if scatter is not None:
            scatter(to, target)

    return PlannedKernel(into)


def index_reduction(row: IndexReduction) -> Callable[[StructuredCall], PlannedKernel]:
    """The kernel factory of (values, indices), or of indices alone where the operator has one output.

    Reduces ``call.extra["dims"]``, in logical order; among equal elements the first one counts, and NaN is
    preferred to any number.
    """

    def factory(call: StructuredCall) -> PlannedKernel:
        spec = call.args["self"]
        both = len(call.outputs) == 2
        out = call.outputs[-1]
        check_dtypes(call, [spec])
        if out.numel == 0:
            return PlannedKernel(launch_nothing)
        dims = call.extra["dims"]
        sides = sides_of(spec, out, dims, True)
        same = not both or call.outputs[0].strides == out.strides
        if not sides.fits() or not same:
            raise NotImplementedError(
                f"{call.kernel_name()}: more than {MAX_DIMS} dimensions that do not coalesce"
            )
        tile = tile_for(sides.n_out, sides.n, sides.reduced_is_inner, False)
        type_ = compute_type(spec.dtype)
        constexprs: dict[str, object] = {
            "LARGER": row.prefer_larger,
            "START": (lowest if row.prefer_larger else highest)(type_),
            "ACCUMULATOR": type_,
        }
        pointers = {"x": f"*{spec.dtype.triton_name}", "index": "*i64"}
        if both:
            pointers["out"] = f"*{spec.dtype.triton_name}"
        else:
            constexprs["out"] = None
        launch, grid, numbers = plan_reduction(call, reduce_with_index, sides, pointers, constexprs, tile, 0)
        if both:
            return PlannedKernel(
                lambda values, indices, x, *_: launch(
                    grid, x.address, values.address, indices.address, *numbers
                )
            )
        return PlannedKernel(lambda indices, x, *_: launch(grid, x.address, indices.address, *numbers))

    return factory


REDUCTIONS: dict[str, Reduction | IndexReduction] = {
    "sum_stub": Reduction(sum_of, sum_across, lambda _: 0, sum_type),
    "mean_stub": Reduction(sum_of, sum_across, lambda _: 0, sum_type, finish=mean_of),
    "prod_stub": Reduction(product, product_across, lambda _: 1, sum_type),
    "amax_stub": Reduction(largest, largest_across, lowest, own_type),
    "amin_stub": Reduction(smallest, smallest_across, highest, own_type),
    "any_stub": Reduction(logical_or, or_across, lambda _: 0, bool_type),
    "all_stub": Reduction(logical_and, and_across, lambda _: 1, bool_type),
    "argmax_stub": IndexReduction(prefer_larger=True),
    "argmin_stub": IndexReduction(prefer_larger=False),
    "max_dim_stub": IndexReduction(prefer_larger=True),
    "min_dim_stub": IndexReduction(prefer_larger=False),
}

for _stub, _row in REDUCTIONS.items():
    register_stub(_stub, "cuda", reduction(_row) if isinstance(_row, Reduction) else index_reduction(_row))
