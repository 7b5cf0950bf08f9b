"""Reduction skeleton, and the reductions made of it: a table row for each.

The input is viewed as [outer, reduced], each side with up to four coalesced dimensions of any stride. A
program has a tile of outputs by reduced elements: each lane combines every BLOCK_R-th element, then a tree
combines the lanes. Few outputs with much to reduce are split among programs in one launch. The last program
reduces the partial results of its block of outputs in order. No atomics touch a result, so the order depends
on sizes, strides and the device only.

A separate launch for the partial results would also have a program for each block of outputs, with the same
reads. It would cost the gap between two launches, and save a counter for each block and an atomic add by each
program. In a graph, a separate node clears the counters.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...dispatch.structured.choices import chosen
from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.allocator import get_allocator
from ...runtime.cuda.driver import driver
from ...runtime.cuda.triton.lazy_triton import tl
from ...runtime.scalar_type import bool_
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.tensor_spec import TensorSpec
from ..conversion import compute_type, type_name
from ..elementwise.elementwise import check_dtypes
from ..launch import ALIGNMENT, launch_nothing
from .reduction_kernels import (
    and_across,
    identity,
    largest,
    largest_across,
    logical_and,
    logical_or,
    magnitude,
    mean_of,
    one_unless_zero,
    or_across,
    product,
    product_across,
    reduce,
    result_of,
    root_of,
    smallest,
    smallest_across,
    squared,
    sum_across,
    sum_of,
)
from .sides import Sides, Tile, asking, plan_sides, sides_of, through_contiguous, tile_for
from .stream_counters import counters_of


@dataclass(frozen=True)
class Reduction:
    """A reduction to one value for each output.

    Args:
        combine: a `@triton.jit` function of two accumulators; associative.
        across: ``tl.reduce(tile, 1, combine)`` as a function: the compiler wants `combine` by its name there.
        start: the accumulator of nothing, from the accumulator's type.
        accumulate: the accumulator's type, from the input's and the output's dtype.
        load: Function applied to an element before the reduction.
        finish: ``finish(accumulator, count)`` gives the result.
    """

    combine: Any
    across: Any
    start: Callable[[tl.dtype], int | float]
    accumulate: Callable[[ScalarType, ScalarType], tl.dtype]
    load: Any = identity
    finish: Any = result_of


def lowest(type_: tl.dtype) -> int | float:
    """Return the least number of this type."""
    if type_.is_floating():
        return -math.inf
    return -(1 << (type_.primitive_bitwidth - 1)) if type_.is_int_signed() else 0


def highest(type_: tl.dtype) -> int | float:
    """Return the greatest number of this type."""
    if type_.is_floating():
        return math.inf
    return (1 << (type_.primitive_bitwidth - (1 if type_.is_int_signed() else 0))) - 1


def sum_type(input: ScalarType, output: ScalarType) -> tl.dtype:
    """Return the accumulator type of sums and products: the output's compute type, int64 for integers."""
    return compute_type(output) if output.is_floating_point else tl.int64


def own_type(input: ScalarType, output: ScalarType) -> tl.dtype:
    """Return the input's compute type, for minimum and maximum."""
    return compute_type(input)


def bool_type(input: ScalarType, output: ScalarType) -> tl.dtype:
    """Return the accumulator type of boolean reductions."""
    return tl.int1


UNSPLIT: dict[str, object] = {"parts": None, "counters": None, "BLOCK_P": 1}
"""The constants of `reduce` where each program writes its own results."""


def reduction(row: Reduction, of_truth: Reduction | None = None) -> Callable[[StructuredCall], PlannedKernel]:
    """Return the kernel factory of a reduction over ``call.extra["dims"]``; `of_truth` is for a boolean output."""

    def factory(call: StructuredCall) -> PlannedKernel:
        spec, out = call.args["self"], call.outputs[0]
        check_dtypes(call, [spec, out])
        dims = call.extra["dims"]
        if out.numel == 0:
            return PlannedKernel(launch_nothing)
        if of_truth is not None and out.dtype is bool_:
            # Elements are truth values before they are combined: no fraction is cut off.
            return reduction(of_truth)(call)
        accumulator = row.accumulate(spec.dtype, out.dtype)
        sides = sides_of(spec, out, dims, False)
        if not sides.fits():
            chosen(
                "a contiguous copy first",
                "the strides leave more dimensions than the kernel has parameters for",
            )
            return through_contiguous(call, factory, dims)
        tile = tile_for(
            sides.num_rows,
            sides.n,
            sides.reduced_is_inner,
            True,
            itemsize=itemsize_of(spec, accumulator),
            ask=asking(reduce, call, spec.dtype),
        )
        constexprs: dict[str, object] = {
            "COMBINE": row.combine,
            "ACROSS": row.across,
            "LOAD": row.load,
            "FINISH": row.finish,
            "START": row.start(accumulator),
            "ACCUMULATOR": accumulator,
            "VECTOR": vector_of(spec, sides),
        }
        pointers = {"x": f"*{spec.dtype.triton_name}", "out": f"*{out.dtype.triton_name}"}
        if tile.splits == 1:
            chosen(
                "one launch", "{} results of {} elements each leave nothing to split", sides.num_rows, sides.n
            )
            launch, grid, numbers = plan_sides(call, reduce, sides, pointers, {**constexprs, **UNSPLIT}, tile)
            return PlannedKernel(lambda out_data, x, *_: launch(grid, x.address, out_data.address, *numbers))
        why = "{} results of {} elements each are too few programs, or too long sums"
        chosen(f"{tile.splits} parts in one launch, then their reduction", why, sides.num_rows, sides.n)
        return split_reduction(call, sides, tile, pointers, constexprs, accumulator)

    return factory


def itemsize_of(spec: TensorSpec, accumulator: tl.dtype) -> int:
    """Return the bytes of an input element, or of half of its accumulator if sums are far wider."""
    return max(spec.dtype.itemsize, accumulator.primitive_bitwidth // 16)


def vector_of(spec: TensorSpec, sides: Sides) -> int:
    """Return the elements of 16 bytes, for contiguous lines that may begin or end within a vector.

    Return 0 if lines are not contiguous, too short, or whole multiples of 16 elements.
    """
    step = ALIGNMENT // spec.dtype.itemsize
    (strides,) = sides.reduced.strides[:1]
    if strides != (1,) or sides.n < 4 * step or step < 2:
        return 0
    whole = all(size % ALIGNMENT == 0 for size in (sides.n, *sides.kept.strides[0]))
    return 0 if whole else step


def split_reduction(
    call: StructuredCall,
    sides: Sides,
    tile: Tile,
    pointers: dict[str, str],
    constexprs: dict[str, object],
    accumulator: tl.dtype,
) -> PlannedKernel:
    """Return one launch whose last programs reduce partial results, stored as [splits, outputs]."""
    num_rows, splits = sides.num_rows, tile.splits
    launch, grid, numbers = plan_sides(
        call,
        reduce,
        sides,
        {**pointers, "parts": f"*{type_name(accumulator)}", "counters": "*i32"},
        {**constexprs, "BLOCK_P": tile.parts},
        tile,
        num_rows,
    )
    allocate, device = get_allocator("cuda").allocate, call.device
    nbytes = num_rows * splits * max(accumulator.primitive_bitwidth // 8, 1)
    blocks, counters = grid[0], counters_of(driver(), device)

    def into(out: Any, x: Any, *_: Any) -> None:
        parts, counted = allocate(nbytes, device), counters.current(blocks)
        launch(grid, x.address, out.address, parts.address, counted.address, *numbers)

    return PlannedKernel(into)


REDUCTIONS: dict[str, Reduction] = {
    "sum_stub": Reduction(sum_of, sum_across, lambda _: 0, sum_type),
    "mean_stub": Reduction(sum_of, sum_across, lambda _: 0, sum_type, finish=mean_of),
    "prod_stub": Reduction(product, product_across, lambda _: 1, sum_type),
    "amax_stub": Reduction(largest, largest_across, lowest, own_type),
    "amin_stub": Reduction(smallest, smallest_across, highest, own_type),
    "any_stub": Reduction(logical_or, or_across, lambda _: 0, bool_type),
    "all_stub": Reduction(logical_and, and_across, lambda _: 1, bool_type),
}
"""Reduction of each operator; those with several accumulators are in `joint_reduction.py`."""

NORMS: dict[str, Reduction] = {
    "0": Reduction(sum_of, sum_across, lambda _: 0, sum_type, load=one_unless_zero),
    "1": Reduction(sum_of, sum_across, lambda _: 0, sum_type, load=magnitude),
    "2": Reduction(sum_of, sum_across, lambda _: 0, sum_type, load=squared, finish=root_of),
    "inf": Reduction(largest, largest_across, lowest, own_type, load=magnitude),
    "-inf": Reduction(smallest, smallest_across, highest, own_type, load=magnitude),
}
"""Reductions of the vector norms that one pass computes, by their order."""


def vector_norm(call: StructuredCall) -> PlannedKernel:
    """Compute a norm of real elements."""
    return reduction(NORMS[call.args["ord"]])(call)


TRUTHS = {"sum_stub": REDUCTIONS["any_stub"], "prod_stub": REDUCTIONS["all_stub"]}
"""Reductions that replace sums and products of bools."""

register_stub("_vector_norm_stub", "cuda", vector_norm)
