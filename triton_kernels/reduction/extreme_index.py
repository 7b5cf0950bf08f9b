"""argmax and argmin: the first of equals, NaN before any number.

Few outputs with much to reduce are split. Each part's extremum and index come first, and the last program to
finish combines them. Nothing is rounded, so the result does not depend on the tile.
"""

from __future__ import annotations

from collections.abc import Callable

from ...dispatch.structured.choices import chosen
from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.allocator import get_allocator
from ...runtime.cuda.driver import driver
from ...runtime.cuda.triton.lazy_triton import tl
from ...runtime.scalar_type import dtype as ScalarType
from ..conversion import compute_type, type_name
from ..elementwise.elementwise import check_dtypes
from ..launch import INT32_MAX, launch_nothing
from .extreme_index_kernels import extreme_with_index
from .reduction import UNSPLIT, highest, itemsize_of, lowest, vector_of
from .sides import Sides, asking, plan_sides, sides_of, through_contiguous, tile_for
from .stream_counters import counters_of


def comparable_type(dtype: ScalarType) -> tl.dtype:
    """Return the type in which elements are compared: 32 bits if it holds them."""
    narrow = dtype.itemsize < 4 and not dtype.is_floating_point
    return tl.int32 if narrow else compute_type(dtype)


def extreme(largest: bool) -> Callable[[StructuredCall], PlannedKernel]:
    """Return the kernel factory of a maximum or minimum; outputs are the indices, or values and indices."""

    def factory(call: StructuredCall) -> PlannedKernel:
        spec, out = call.args["self"], call.outputs[-1]
        check_dtypes(call, [spec, *call.outputs])
        dims = call.extra["dims"]
        if out.numel == 0:
            return PlannedKernel(launch_nothing)
        sides = sides_of(spec, out, dims, True)
        if not sides.fits() or call.outputs[0].strides != out.strides:
            return through_contiguous(call, factory, dims)
        run = plan_extreme(call, sides, largest)
        if len(call.outputs) == 1:
            return PlannedKernel(lambda out_data, x, *_: run(x.address, 0, out_data.address))
        return PlannedKernel(lambda out_data, where, x, *_: run(x.address, out_data.address, where.address))

    return factory


def plan_extreme(call: StructuredCall, sides: Sides, largest: bool) -> Callable[[int, int, int], None]:
    """Return the launches as a function of the addresses of input, values (if requested) and indices."""
    spec, index = call.args["self"], call.outputs[-1]
    type_ = comparable_type(spec.dtype)
    position = tl.int32 if sides.n <= INT32_MAX else tl.int64
    constexprs: dict[str, object] = {
        "LARGEST": largest,
        "START": lowest(type_) if largest else highest(type_),
        "TYPE": type_,
        "NONE": highest(position),
        "POSITION": position,
    }
    wants_values = len(call.outputs) == 2
    results: dict[str, str] = {"at_out": f"*{index.dtype.triton_name}"}
    absent: dict[str, object] = {}
    if wants_values:
        results = {"out": f"*{spec.dtype.triton_name}", **results}
    else:
        absent["out"] = None
    source = {"x": f"*{spec.dtype.triton_name}"}
    num_rows = sides.num_rows
    tile = tile_for(
        num_rows,
        sides.n,
        sides.reduced_is_inner,
        True,
        itemsize=max(itemsize_of(spec, type_), 4),
        ask=asking(extreme_with_index, call, spec.dtype),
    )
    constexprs |= {**absent, "VECTOR": vector_of(spec, sides)}
    if tile.splits == 1:
        chosen("one launch", "{} results of {} elements each leave nothing to split", num_rows, sides.n)
        absent_parts: dict[str, object] = {"at_parts": None, **UNSPLIT}
        launch, grid, numbers = plan_sides(
            call, extreme_with_index, sides, {**source, **results}, {**constexprs, **absent_parts}, tile
        )
        if wants_values:
            return lambda x, out, where: launch(grid, x, out, where, *numbers)
        return lambda x, _, where: launch(grid, x, where, *numbers)
    why = "{} results of {} elements leave units idle"
    chosen(f"{tile.splits} parts in one launch, then their extremes", why, num_rows, sides.n)
    parts = {"parts": f"*{type_name(type_)}", "at_parts": f"*{type_name(position)}", "counters": "*i32"}
    launch, grid, numbers = plan_sides(
        call,
        extreme_with_index,
        sides,
        {**source, **results, **parts},
        {**constexprs, "BLOCK_P": tile.parts},
        tile,
        num_rows,
    )
    allocate, device = get_allocator("cuda").allocate, call.device
    value_bytes, index_bytes = (
        num_rows * tile.splits * element_type.primitive_bitwidth // 8 for element_type in (type_, position)
    )
    blocks, counters = grid[0], counters_of(driver(), device)

    def run(x: int, out: int, where: int) -> None:
        values, indices = allocate(value_bytes, device), allocate(index_bytes, device)
        counted = counters.current(blocks).address
        outs = (out, where) if wants_values else (where,)
        launch(grid, x, *outs, values.address, indices.address, counted, *numbers)

    return run


for _stub, _largest in (
    ("argmax_stub", True),
    ("max_dim_stub", True),
    ("argmin_stub", False),
    ("min_dim_stub", False),
):
    register_stub(_stub, "cuda", extreme(_largest))
