"""Running extremes and where they stand: the last of equals, and NaN from the first one on.

Few long lines are split as those of `scan.py` are. Nothing is rounded, so the result does not depend on the tile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.allocator import get_allocator
from ..contiguous import contiguous_copy
from ..conversion import type_name
from ..elementwise.copy import copy_kernel
from ..elementwise.elementwise import check_dtypes
from ..geometry import Geometry
from ..launch import interpreted, launch_nothing
from .extreme_index import comparable_type
from .reduction import highest, lowest
from .scan_kernels import extreme_scan
from .sides import Sides, Tile, gapless_strides, line_sides, plan_sides, tile_for

INTERPRETED_TILE = 128
"""Of a line: the interpreter combines one element after another."""


def line_tile(n_out: int, n: int, inner: bool, may_split: bool, nbytes: int) -> Tile:
    """Tiles of half as many elements of `nbytes` as sums have: each has an index too."""
    tile = tile_for(n_out, n, inner, may_split, itemsize=2 * nbytes)
    if not interpreted() or tile.reduced <= INTERPRETED_TILE:
        return tile
    chunk = -(-n // tile.splits // INTERPRETED_TILE) * INTERPRETED_TILE
    return Tile(min(tile.outputs, 64), INTERPRETED_TILE, -(-n // chunk), chunk, tile.warps)


def running_extreme(largest: bool) -> Callable[[StructuredCall], PlannedKernel]:
    """The kernel factory of ``cummax`` and ``cummin`` along ``call.extra["dim"]``."""

    def factory(call: StructuredCall) -> PlannedKernel:
        spec, values, indices = call.args["self"], *call.outputs
        check_dtypes(call, [spec])
        if values.numel == 0:
            return PlannedKernel(launch_nothing)
        sides = line_sides([spec, values], call.extra["dim"])
        if not sides.fits() or values.strides != indices.strides:
            return through_contiguous_results(call, factory)
        return plan_running_extreme(call, sides, largest)

    return factory


def through_contiguous_results(
    call: StructuredCall, factory: Callable[[StructuredCall], PlannedKernel]
) -> PlannedKernel:
    """`factory`'s kernel over a contiguous input and contiguous results, which are copied to the outputs."""
    source, copied = contiguous_copy(call.args["self"])
    results = tuple(source.replace(dtype=out.dtype) for out in call.outputs)
    scatters = [copy_kernel(out, result) for out, result in zip(call.outputs, results, strict=True)]
    inner = factory(call._replace(args={**call.args, "self": source}, outputs=results)).into
    allocate = get_allocator("cuda").allocate

    def into(to: Any, where: Any, x: Any, *_: Any) -> None:
        data = [allocate(result.nbytes, result.device) for result in results]
        inner(*data, copied(x))
        for out, scatter, result in zip((to, where), scatters, data, strict=True):
            scatter(out, result)

    return PlannedKernel(into)


def plan_running_extreme(call: StructuredCall, sides: Sides, largest: bool) -> PlannedKernel:
    """One launch, or three over parts of each line."""
    spec, values = call.args["self"], call.outputs[0]
    type_ = comparable_type(spec.dtype)
    n_out, kept = sides.n_out, sides.kept
    nbytes = type_.primitive_bitwidth // 8
    tile = line_tile(n_out, sides.n, sides.reduced_is_inner, True, nbytes)
    fixed: dict[str, object] = {
        "LARGEST": largest,
        "START": lowest(type_) if largest else highest(type_),
        "TYPE": type_,
    }
    source, result = (
        {"x": f"*{spec.dtype.triton_name}"},
        {"out": f"*{values.dtype.triton_name}", "at_out": "*i64"},
    )

    def planned(
        sides: Sides, tile: Tile, pointers: dict[str, str], totals: bool = False, carried: bool = False
    ) -> Any:
        constants = {**fixed, "TOTALS": totals, "SINGLE": tile.chunk <= tile.reduced}
        if carried:
            pointers = {**pointers, "carry": name, "at_carry": "*i64", "splits": "i64"}
        else:
            constants |= {"carry": None, "at_carry": None, "splits": 1}
        if "at_x" not in pointers:
            constants["at_x"] = None
        return plan_sides(
            call,
            extreme_scan,
            sides,
            pointers,
            constants,
            tile,
            kept_names=("xk", "ok"),
            reduced_names=("xr", "or"),
        )

    name = f"*{type_name(type_)}"
    if tile.splits == 1:
        launch, grid, numbers = planned(sides, tile, {**source, **result})
        return PlannedKernel(
            lambda to, where, x, *_: launch(grid, x.address, to.address, where.address, *numbers)
        )
    splits = tile.splits
    parts = gapless_strides(kept.sizes, splits)
    carries = {"out": name, "at_out": "*i64"}
    totals, totals_grid, totals_numbers = planned(
        Sides(Geometry(kept.sizes, (kept.strides[0], parts)), sides.reduced),
        tile,
        {**source, **carries},
        totals=True,
    )
    prefixes, prefixes_grid, prefixes_numbers = planned(
        Sides(Geometry(kept.sizes, (parts, parts)), Geometry((splits,), ((1,), (1,)))),
        line_tile(n_out, splits, True, False, nbytes),
        {"x": name, "at_x": "*i64", **carries},
    )
    within, within_grid, within_numbers = planned(sides, tile, {**source, **result}, carried=True)
    allocate = get_allocator("cuda").allocate
    size, device = n_out * splits * nbytes, call.device

    def into(to: Any, where: Any, x: Any, *_: Any) -> None:
        carry, at_carry = allocate(size, device), allocate(n_out * splits * 8, device)
        both = carry.address, at_carry.address
        totals(totals_grid, x.address, *both, *totals_numbers)
        prefixes(prefixes_grid, *both, *both, *prefixes_numbers)
        within(within_grid, x.address, to.address, where.address, *both, splits, *within_numbers)

    return PlannedKernel(into)


register_stub("cummax_stub", "cuda", running_extreme(True))
register_stub("cummin_stub", "cuda", running_extreme(False))
