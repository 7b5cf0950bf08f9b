"""Reductions with several accumulators, a table row for each: aminmax, logsumexp, losses.

As in `reduction.py`, few outputs with much to reduce are split: the accumulators of each part first, then
their combination by the last program to finish. The order depends on sizes, strides and the device only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...dispatch.structured.choices import chosen
from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.allocator import get_allocator
from ...runtime.cuda.driver import driver
from ...runtime.cuda.triton.lazy_triton import tl
from ...runtime.scalar_type import dtype as ScalarType
from ..conversion import compute_type, type_name
from ..elementwise.elementwise import check_dtypes
from ..geometry import Geometry
from ..launch import Launch, cdiv, launch_nothing
from . import joint_reduction_kernels as k
from .reduction import highest, lowest
from .sides import Sides, Tile, asking, plan_sides, sides_of, through_contiguous, tile_for
from .stream_counters import counters_of

Accumulator = tuple[tl.dtype, int | float]
"""The type of an accumulator, and its value where nothing was seen."""


def no_number(call: StructuredCall, count: int) -> Callable[..., float]:
    """Return the number argument of rows that do not use it."""
    return lambda *_: 0.0


@dataclass(frozen=True)
class JointReduction:
    """A reduction to one tuple of accumulators for each output.

    Args:
        combine: a `@triton.jit` function of the accumulators of two sides; associative.
        across: ``tl.reduce`` of a tuple of tiles over axis 1 with `combine` named in it.
        element: ``element(a, b)`` gives the accumulators of one element (of two inputs).
        finish: ``finish(accumulators, number)`` gives a tuple with each output.
        accumulators: from the input's and the output's dtype, and how many elements there are.
        number: a function of the plan and that count; what it returns gives `number`, at each call, from the
            runtime arguments after the input.
    """

    combine: Any
    across: Any
    element: Any
    finish: Any
    accumulators: Callable[[ScalarType, ScalarType, int], Sequence[Accumulator]]
    number: Callable[[StructuredCall, int], Callable[..., float]] = no_number


def both_extremes(input: ScalarType, output: ScalarType, count: int) -> Sequence[Accumulator]:
    """Return the accumulators of minimum and maximum."""
    type_ = compute_type(input)
    return (type_, highest(type_)), (type_, lowest(type_))


def shifted_sum(input: ScalarType, output: ScalarType, count: int) -> Sequence[Accumulator]:
    """Return the accumulators of the maximum and the sum of exponentials."""
    type_ = compute_type(output)
    return (type_, lowest(type_)), (type_, 0)


def pairs_starting(first: int) -> Callable[[ScalarType, ScalarType, int], Sequence[Accumulator]]:
    """Return the accumulators of a pair whose initial values are `first` and 0."""

    def accumulators(input: ScalarType, output: ScalarType, count: int) -> Sequence[Accumulator]:
        type_ = compute_type(output)
        return (type_, first), (type_, 0)

    return accumulators


def joint_reduction(row: JointReduction) -> Callable[[StructuredCall], PlannedKernel]:
    """Return the kernel factory of a reduction over ``call.extra["dims"]``."""

    def factory(call: StructuredCall) -> PlannedKernel:
        spec, out = call.args["self"], call.outputs[0]
        check_dtypes(call, [spec, *call.outputs])
        dims = call.extra["dims"]
        if out.numel == 0:
            return PlannedKernel(launch_nothing)
        sides = sides_of(spec, out, dims, False)
        if not sides.fits() or any(other.strides != out.strides for other in call.outputs):
            return through_contiguous(call, factory, dims)
        outputs = [other.dtype for other in call.outputs]
        run = plan_joint(call, row, sides, [spec.dtype], outputs)
        number = row.number(call, sides.n)
        if len(outputs) == 1:
            return PlannedKernel(
                lambda out_data, x, *rest: run([x.address], [out_data.address], number(*rest))
            )
        return PlannedKernel(
            lambda out_data, also, x, *rest: run([x.address], [out_data.address, also.address], number(*rest))
        )

    return factory


Run = Callable[[list[int], list[int], float], None]


def plan_joint(
    call: StructuredCall,
    row: JointReduction,
    sides: Sides,
    inputs: Sequence[ScalarType],
    outputs: Sequence[ScalarType],
) -> Run:
    """Return a row's launches as a function of the input and output addresses and the number.

    The reduced side has strides for one or both inputs, the kept side those of the inputs and the outputs.
    """
    accumulators = row.accumulators(inputs[0], outputs[0], sides.n)
    words = words_of(accumulators)
    itemsize = max(inputs[0].itemsize, 4)
    tile = tile_for(
        sides.num_rows,
        sides.n,
        sides.reduced_is_inner,
        True,
        words,
        itemsize,
        ask=asking(k.reduce_jointly, call, inputs[0]),
    )
    sources = [f"*{dtype.triton_name}" for dtype in inputs]
    results = [f"*{dtype.triton_name}" for dtype in outputs]
    if tile.splits == 1:
        chosen("one launch", "{} results of {} elements each leave nothing to split", sides.num_rows, sides.n)
        return one_pass(call, row, sides, tile, accumulators, sources, results)
    why = "{} results of {} elements leave units idle"
    chosen(f"{tile.splits} parts in one launch, then their reduction", why, sides.num_rows, sides.n)
    return in_parts(call, row, sides, tile, accumulators, sources, results)


def words_of(accumulators: Sequence[Accumulator]) -> int:
    """Return the number of 64-bit words that the accumulators fill."""
    return cdiv(sum(type_.primitive_bitwidth for type_, _ in accumulators), 64)


def one_pass(
    call: StructuredCall,
    row: JointReduction,
    sides: Sides,
    tile: Tile,
    accumulators: Sequence[Accumulator],
    sources: Sequence[str],
    results: Sequence[str],
    part_stride: int = 0,
) -> Run:
    """Return one launch in which each program writes its own results."""
    launch, grid, numbers = plan_jointly(
        call, row, sides, tile, accumulators, sources, results, (), part_stride
    )
    return lambda ins, outs, number: launch(grid, *ins, *outs, number, *numbers)


def plan_jointly(
    call: StructuredCall,
    row: JointReduction,
    sides: Sides,
    tile: Tile,
    accumulators: Sequence[Accumulator],
    sources: Sequence[str],
    results: Sequence[str],
    parts: Sequence[str],
    part_stride: int,
) -> tuple[Launch, tuple[int, int, int], tuple[int, ...]]:
    """Return the launch; `parts` are the types of partial accumulators, which the last program combines."""
    constexprs: dict[str, object] = {
        "COMBINE": row.combine,
        "ACROSS": row.across,
        "ELEMENT": row.element,
        "FINISH": row.finish,
        "ARITY": len(accumulators),
        "BLOCK_P": tile.parts if parts else 1,
    }
    pointers: dict[str, str] = {}
    for names, types in (
        (("a", "b"), sources),
        (("out0", "out1"), results),
        (("part0", "part1", "part2"), parts),
        (("counters",), ("*i32",) if parts else ()),
    ):
        for i, name in enumerate(names):
            if i < len(types):
                pointers[name] = types[i]
            else:
                constexprs[name] = None
    for i in range(3):
        type_, start = accumulators[min(i, len(accumulators) - 1)]
        constexprs |= {f"TYPE{i}": type_, f"START{i}": start}
    # Elements are combined in the accumulators' type, unless what is made of them is a truth value.
    first = accumulators[0][0]
    constexprs["LOADED"] = tl.str_to_ty(sources[0][1:], None) if first == tl.int1 else first
    pointers["number"] = "fp64"
    x = sides.reduced.strides[0]
    reduced = Geometry(sides.reduced.sizes, (x, sides.reduced.strides[-1]))
    return plan_sides(
        call,
        k.reduce_jointly,
        Sides(sides.kept, reduced),
        pointers,
        constexprs,
        tile,
        part_stride,
        reduced_names=("x_reduced_stride", "y_reduced_stride"),
    )


def whole(reduced: Geometry) -> Sides:
    """Everything reduced to one output."""
    return Sides(Geometry((), ((), ())), reduced)


def in_parts(
    call: StructuredCall,
    row: JointReduction,
    sides: Sides,
    tile: Tile,
    accumulators: Sequence[Accumulator],
    sources: Sequence[str],
    results: Sequence[str],
) -> Run:
    """Return one launch that writes each part's accumulators, as [splits, outputs], and then combines them."""
    num_rows = sides.num_rows
    types = [f"*{type_name(type_)}" for type_, _ in accumulators]
    launch, grid, numbers = plan_jointly(
        call, row, sides, tile, accumulators, sources, results, types, num_rows
    )
    sizes = [num_rows * tile.splits * max(type_.primitive_bitwidth // 8, 1) for type_, _ in accumulators]
    allocate, device = get_allocator("cuda").allocate, call.device
    blocks, counters = grid[0], counters_of(driver(), device)

    def run(ins: list[int], outs: list[int], number: float) -> None:
        buffers = [allocate(nbytes, device) for nbytes in sizes]
        counted = counters.current(blocks).address
        launch(grid, *ins, *outs, *[buffer.address for buffer in buffers], counted, number, *numbers)

    return run


JOINT_REDUCTIONS: dict[str, JointReduction] = {
    "aminmax_stub": JointReduction(k.both_extremes, k.extremes_across, k.twice, k.all_of, both_extremes),
    "logsumexp_stub": JointReduction(
        k.shifted_sums, k.shifted_sums_across, k.with_one, k.log_of_sum, shifted_sum
    ),
}
"""Reduction of each operator; argmax, argmin and moments have kernels of their own."""

for _stub, _row in JOINT_REDUCTIONS.items():
    if _stub != "logsumexp_stub":  # Complex numbers too: registered beside that.
        register_stub(_stub, "cuda", joint_reduction(_row))
