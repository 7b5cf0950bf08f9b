"""Variance, standard deviation and both with the mean, over any dimensions.

Few outputs with much to reduce are split: the moments of each part first, then their union in float64 by the program
that ends last. Sums of floats need no atomics, so the order depends on sizes, strides and the device only. Complex
numbers are pairs of real ones, whose variances are added.
"""

from __future__ import annotations

from collections.abc import Callable

from ...dispatch.structured.choices import chosen
from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.allocator import get_allocator
from ...runtime.cuda.driver import driver
from ...runtime.scalar_type import dtype as ScalarType
from ..conversion import compute_type
from ..elementwise.elementwise import check_dtypes
from ..geometry import Geometry
from ..launch import launch_nothing, next_power_of_2
from .complex_reduction import real_or_complex
from .moments_kernels import reduce_moments
from .reduction import vector_of
from .sides import (
    MAX_DIMS,
    TILE_BYTES,
    WARP_SIZE,
    Sides,
    Tile,
    asking,
    doubled,
    plan_sides,
    sides_of,
    through_contiguous,
    tile_for,
)
from .stream_counters import counters_of

Run = Callable[[int, int, int, float], None]
"""Launches over the addresses of the input, the spread and the mean (0 where it is not wanted), and the freedom."""


def freedom(call: StructuredCall, count: int) -> Callable[..., float]:
    """Return the number of elements less the correction, 1 by default."""
    fixed = call.extra.get("correction", 1)
    return lambda correction=None: float(max(count - (fixed if correction is None else correction), 0))


def moments(root: bool, with_mean: bool, of_pairs: bool) -> Callable[[StructuredCall], PlannedKernel]:
    """Return the kernel factory of a variance or its root, of real numbers or of complex ones as pairs."""

    def factory(call: StructuredCall) -> PlannedKernel:
        spec, out = call.args["self"], call.outputs[0]
        if not of_pairs:
            check_dtypes(call, [spec, *call.outputs])
        dims = call.extra["dims"]
        if out.numel == 0:
            return PlannedKernel(launch_nothing)
        sides = sides_of(spec, out, dims, False)
        max_dims = MAX_DIMS - 1 if of_pairs else MAX_DIMS
        if not sides.fits() or len(sides.kept.sizes) > max_dims or call.outputs[-1].strides != out.strides:
            return through_contiguous(call, factory, dims)
        run = plan_moments(call, sides, root, with_mean, of_pairs)
        number = freedom(call, sides.n)
        if with_mean:
            return PlannedKernel(
                lambda out_data, also, x, *r: run(x.address, out_data.address, also.address, number(*r))
            )
        return PlannedKernel(lambda out_data, x, *r: run(x.address, out_data.address, 0, number(*r)))

    return factory


def as_pairs(sides: Sides) -> Sides:
    """Return the sides of complex numbers as real ones, with the pair as the first dimension and one result."""
    x, out = doubled(sides.kept, (True, False)).strides
    kept_side = Geometry((2, *sides.kept.sizes), ((1, *x), (0, *out)))
    return Sides(kept_side, doubled(sides.reduced, (True,)))


def plan_moments(call: StructuredCall, sides: Sides, root: bool, with_mean: bool, of_pairs: bool) -> Run:
    """Return the launch; `sides` are those of the real or complex tensor."""
    spec, out = call.args["self"], call.outputs[0]
    number = spec.dtype.to_real() if of_pairs else spec.dtype
    inner = sides.reduced_is_inner
    lane_bytes = bytes_for(number, inner, with_mean, of_pairs, sides.n)
    if of_pairs:
        tile = tile_for(sides.num_rows, sides.n, inner, True, itemsize=lane_bytes)
        tile = Tile(2 * tile.outputs, tile.reduced, tile.splits, tile.chunk, tile.warps)
        vector, sides = 0, as_pairs(sides)
    else:
        ask = asking(reduce_moments, call, number)
        tile = tile_for(sides.num_rows, sides.n, inner, True, itemsize=lane_bytes, ask=ask)
        vector = vector_of(spec, sides)
    num_rows, is_split = sides.num_rows, tile.splits > 1
    pointers = {"x": f"*{number.triton_name}", "out": f"*{out.dtype.triton_name}"}
    constexprs: dict[str, object] = {
        "ROOT": root,
        "PAIRS": of_pairs,
        "SINGLE": not is_split and sides.n <= tile.reduced,
        "TYPE": compute_type(number),
        "VECTOR": vector,
        "BLOCK_P": parts_at_a_time(tile) if is_split else 1,
    }
    for name, type_, is_given in (
        ("mean_out", pointers["out"], with_mean),
        ("part_mean", "*fp64", is_split),
        ("part_squares", "*fp64", is_split),
        ("counters", "*i32", is_split),
    ):
        (pointers if is_given else constexprs)[name] = type_ if is_given else None
    pointers["number"] = "fp64"
    launch, grid, numbers = plan_sides(
        call, reduce_moments, sides, pointers, constexprs, tile, num_rows if is_split else 0
    )
    if not is_split:
        chosen("one launch", "{} results of {} elements each leave nothing to split", num_rows, sides.n)
        if with_mean:
            return lambda x, out_data, mean, number: launch(grid, x, out_data, mean, number, *numbers)
        return lambda x, out_data, _, number: launch(grid, x, out_data, number, *numbers)
    why = "{} results of {} elements leave units idle"
    chosen(f"{tile.splits} parts in one launch, then their union", why, num_rows, sides.n)
    allocate, device, nbytes = get_allocator("cuda").allocate, call.device, num_rows * tile.splits * 8
    blocks, counters = grid[0], counters_of(driver(), device)

    def run(x: int, out_data: int, mean: int, number: float) -> None:
        means, squares = allocate(nbytes, device), allocate(nbytes, device)
        outs = (out_data, mean) if with_mean else (out_data,)
        counted = counters.current(blocks).address
        launch(grid, x, *outs, means.address, squares.address, counted, number, *numbers)

    return run


def bytes_for(number: ScalarType, inner: bool, with_mean: bool, of_pairs: bool, n: int) -> int:
    """Return an element's size in a tile: more if a lane keeps more than a mean and squares until the end.

    With 64 bytes of elements, a lane would run out of registers then, and the compiler would serialize its
    loads. Lines that fit a tile are their own means.
    """
    wide = max(number.itemsize, 4) * (2 if of_pairs else 1)
    if inner and n * wide <= TILE_BYTES:
        return wide
    is_full = with_mean and number.itemsize < 8 if inner else number.itemsize == 8
    return 2 * wide if of_pairs or is_full else wide


def parts_at_a_time(tile: Tile) -> int:
    """Return the parts of each line that the last program reads at a time: 4 float64 means and squares per lane."""
    return min(next_power_of_2(tile.splits), max(4 * WARP_SIZE * tile.warps // tile.outputs, 1))


for _stub, _root, _with_mean in (
    ("var_stub", False, False),
    ("std_stub", True, False),
    ("var_mean_stub", False, True),
    ("std_mean_stub", True, True),
):
    register_stub(
        _stub, "cuda", real_or_complex(moments(_root, _with_mean, False), moments(_root, _with_mean, True))
    )
