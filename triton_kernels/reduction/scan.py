"""Sums of prefixes along one dimension.

A program has whole lines. Few long lines are split: each part's sum first, then the sums of the parts'
prefixes, and last the prefixes within each part. The order depends on sizes, strides and the device only.
"""

from __future__ import annotations

from typing import Any

from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.allocator import get_allocator
from ...runtime.cuda.lazy_triton import tl
from ...runtime.scalar_type import dtype as ScalarType
from ..contiguous import through_contiguous_operands
from ..conversion import type_name
from ..elementwise.elementwise import check_dtypes
from ..geometry import Geometry
from ..launch import launch_nothing
from .reduction_kernels import identity, reduce, result_of, sum_across, sum_of
from .scan_kernels import prefix_sums
from .sides import Sides, Tile, gapless_strides, line_sides, plan_sides, tile_for


def scan_type(output: ScalarType) -> tl.dtype:
    """Integers in int64; floats in float64, so that the error does not grow along a line of float32."""
    return tl.float64 if output.is_floating_point else tl.int64


def cumsum(call: StructuredCall) -> PlannedKernel:
    """The sum of each element and all before it along ``call.extra["dim"]``."""
    spec, out = call.args["self"], call.outputs[0]
    check_dtypes(call, [spec, out])
    if out.numel == 0:
        return PlannedKernel(launch_nothing)
    sides = line_sides([spec, out], call.extra["dim"])
    if not sides.fits():
        return through_contiguous_operands(call, cumsum, ("self",))
    type_ = scan_type(out.dtype)
    pointers = {"x": f"*{spec.dtype.triton_name}", "out": f"*{out.dtype.triton_name}"}
    tile = tile_for(sides.n_out, sides.n, sides.reduced_is_inner, True)
    if tile.splits == 1:
        launch, grid, numbers = plan_scan(call, sides, tile, pointers, type_)
        return PlannedKernel(lambda to, x, *_: launch(grid, x.address, to.address, *numbers))
    return split_scan(call, sides, tile, pointers, type_)


def plan_scan(
    call: StructuredCall,
    sides: Sides,
    tile: Tile,
    pointers: dict[str, str],
    type_: tl.dtype,
    carried: bool = False,
) -> Any:
    """The launch of `prefix_sums`; `carried` adds each part's carry and the number of parts."""
    constexprs: dict[str, object] = {"ACCUMULATOR": type_}
    if carried:
        pointers = {**pointers, "carry": f"*{type_name(type_)}", "splits": "i64"}
    else:
        constexprs |= {"carry": None, "splits": 1}
    return plan_sides(
        call,
        prefix_sums,
        sides,
        pointers,
        constexprs,
        tile,
        kept_names=("xk", "ok"),
        reduced_names=("xr", "or"),
    )


def split_scan(
    call: StructuredCall, sides: Sides, tile: Tile, pointers: dict[str, str], type_: tl.dtype
) -> PlannedKernel:
    """Three launches over parts of each line."""
    n_out, splits = sides.n_out, tile.splits
    name = f"*{type_name(type_)}"
    kept, reduced = sides.kept, sides.reduced
    parts = gapless_strides(kept.sizes, splits)
    totals, totals_grid, totals_numbers = plan_sides(
        call,
        reduce,
        Sides(Geometry(kept.sizes, (kept.strides[0], parts)), Geometry(reduced.sizes, reduced.strides[:1])),
        {"x": pointers["x"], "out": name},
        {
            "COMBINE": sum_of,
            "ACROSS": sum_across,
            "LOAD": identity,
            "FINISH": result_of,
            "START": 0,
            "ACCUMULATOR": type_,
            "VECTOR": 0,
        },
        tile,
        1,
    )
    prefixes, prefixes_grid, prefixes_numbers = plan_scan(
        call,
        Sides(Geometry(kept.sizes, (parts, parts)), Geometry((splits,), ((1,), (1,)))),
        tile_for(n_out, splits, True, False),
        {"x": name, "out": name},
        type_,
    )
    within, within_grid, within_numbers = plan_scan(call, sides, tile, pointers, type_, carried=True)
    allocate = get_allocator("cuda").allocate
    nbytes, device = n_out * splits * 8, call.device

    def into(to: Any, x: Any, *_: Any) -> None:
        carry = allocate(nbytes, device)
        totals(totals_grid, x.address, carry.address, *totals_numbers)
        prefixes(prefixes_grid, carry.address, carry.address, *prefixes_numbers)
        within(within_grid, x.address, to.address, carry.address, splits, *within_numbers)

    return PlannedKernel(into)


register_stub("cumsum_stub", "cuda", cumsum)
