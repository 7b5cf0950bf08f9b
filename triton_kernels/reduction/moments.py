"""Variance, standard deviation and both with the mean, over any dimensions.

Few outputs with much to reduce are split: the moments of each part first, then their union in float64. No atomics, so
the order depends on sizes, strides and the device only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...dispatch.structured.choices import chosen
from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.allocator import get_allocator
from ...runtime.cuda.triton.lazy_triton import tl
from ...runtime.tensor_spec import TensorSpec
from ..conversion import compute_type
from ..elementwise.elementwise import check_dtypes
from ..geometry import Geometry
from ..launch import Launch, cdiv, integer_type, launch_nothing
from .complex_reduction import real_or_complex
from .moments_kernels import merge_moments, reduce_moments, root_of
from .reduction import REDUCTIONS, Reduction, reduction, sum_type, vector_of
from .reduction_kernels import sum_across, sum_of
from .sides import (
    Sides,
    asking,
    dimension_arguments,
    gapless_strides,
    pairs_of,
    plan_sides,
    sides_of,
    through_contiguous,
    tile_for,
)

Run = Callable[[int, int, int, float], None]
"""Launches over the addresses of the input, the spread and the mean (0 where it is not wanted), and the freedom."""


def freedom(call: StructuredCall, count: int) -> Callable[..., float]:
    """The number of elements less the correction, which is 1 by default."""
    fixed = call.extra.get("correction", 1)
    return lambda correction=None: float(max(count - (fixed if correction is None else correction), 0))


def moments(root: bool, with_mean: bool) -> Callable[[StructuredCall], PlannedKernel]:
    """The kernel factory of a spread: the variance, or its root."""

    def factory(call: StructuredCall) -> PlannedKernel:
        spec, out = call.args["self"], call.outputs[0]
        check_dtypes(call, [spec, *call.outputs])
        dims = call.extra["dims"]
        if out.numel == 0:
            return PlannedKernel(launch_nothing)
        sides = sides_of(spec, out, dims, False)
        if not sides.fits() or call.outputs[-1].strides != out.strides:
            return through_contiguous(call, factory, dims)
        run = plan_moments(call, sides, root, with_mean)
        number = freedom(call, sides.n)
        if with_mean:
            return PlannedKernel(lambda to, also, x, *r: run(x.address, to.address, also.address, number(*r)))
        return PlannedKernel(lambda to, x, *r: run(x.address, to.address, 0, number(*r)))

    return factory


def plan_moments(call: StructuredCall, sides: Sides, root: bool, with_mean: bool) -> Run:
    """The launches: one, or one for the parts and one for their union."""
    spec, out = call.args["self"], call.outputs[0]
    type_ = compute_type(spec.dtype)
    inner = sides.reduced_is_inner
    # A lane has fewer of columns of float64: each has its own mean and squares until the end.
    itemsize = 16 if spec.dtype.itemsize == 8 and not inner else max(spec.dtype.itemsize, 4)
    tile = tile_for(
        sides.n_out, sides.n, inner, True, itemsize=itemsize, ask=asking(reduce_moments, call, spec.dtype)
    )
    constexprs: dict[str, object] = {"ROOT": root, "TYPE": type_, "VECTOR": vector_of(spec, sides)}
    source = {"x": f"*{spec.dtype.triton_name}"}
    if tile.splits > 1:
        chosen(
            f"{tile.splits} parts, then their union",
            "{} results of {} elements leave units idle",
            sides.n_out,
            sides.n,
        )
        return in_parts(call, sides, root, with_mean, tile, source, constexprs)
    chosen("one launch", "{} results of {} elements each leave nothing to split", sides.n_out, sides.n)
    pointers = {**source, "out": f"*{out.dtype.triton_name}", "number": "fp64"}
    if with_mean:
        pointers["mean_out"] = pointers["out"]
    else:
        constexprs["mean_out"] = None
    launch, grid, numbers = plan_sides(
        call,
        reduce_moments,
        sides,
        pointers,
        {**constexprs, "PARTLY": False, "SINGLE": sides.n <= tile.reduced},
        tile,
    )
    if with_mean:
        return lambda x, to, mean, number: launch(grid, x, to, mean, number, *numbers)
    return lambda x, to, _, number: launch(grid, x, to, number, *numbers)


def in_parts(
    call: StructuredCall,
    sides: Sides,
    root: bool,
    with_mean: bool,
    tile: Any,
    source: dict[str, str],
    constexprs: dict[str, object],
) -> Run:
    """Means and squares of parts as [splits, outputs] in float64, then their union."""
    n_out, splits, kept = sides.n_out, tile.splits, sides.kept
    parts = gapless_strides(kept.sizes, 1)
    first, first_grid, first_numbers = plan_sides(
        call,
        reduce_moments,
        Sides(Geometry(kept.sizes, (kept.strides[0], parts)), sides.reduced),
        {**source, "out": "*fp64", "mean_out": "*fp64", "number": "fp64"},
        {**constexprs, "PARTLY": True, "SINGLE": False},
        tile,
        n_out,
    )
    second_tile = tile_for(n_out, splits, n_out == 1, False, 2, 8)
    kind = integer_type(n_out * (splits + 1) + second_tile.reduced, sides.n + tile.chunk * 2, kept.extent())
    name = f"*{call.outputs[0].dtype.triton_name}"
    every: dict[str, str] = {"mean": "*fp64", "squares": "*fp64", "out": name, "number": "fp64"}
    constants: dict[str, object] = {
        "ROOT": root,
        "KEPT": len(kept.sizes),
        "INDEX": tl.int32 if kind == "i32" else tl.int64,
        "BLOCK_O": second_tile.outputs,
        "BLOCK_R": second_tile.reduced,
    }
    if with_mean:
        every["mean_out"] = name
    else:
        constants["mean_out"] = None
    types, fixed, values = dimension_arguments("k", kept.sizes, {"ok": kept.strides[-1]}, kind)
    values |= {"n_out": n_out, "splits": splits, "chunk": tile.chunk, "count": sides.n}
    every |= types | dict.fromkeys(("n_out", "splits", "chunk", "count"), kind)
    order = [one for one in merge_moments.arg_names if one in every]
    second = Launch(
        call.device,
        merge_moments,
        {one: every[one] for one in order},
        constants | fixed,
        num_warps=second_tile.warps,
    )
    numbers = tuple(values[one] for one in order if one in values)
    grid = (cdiv(n_out, second_tile.outputs), 1, 1)
    allocate = get_allocator("cuda").allocate
    nbytes, device = n_out * splits * 8, call.device

    def run(x: int, to: int, mean: int, number: float) -> None:
        squares, means = allocate(nbytes, device), allocate(nbytes, device)
        first(first_grid, x, squares.address, means.address, number, *first_numbers)
        outs = (to, mean) if with_mean else (to,)
        second(grid, means.address, squares.address, *outs, number, *numbers)

    return run


def complex_moments(root: bool, with_mean: bool) -> Callable[[StructuredCall], PlannedKernel]:
    """The kernel factory of a spread over complex numbers: that of their parts is added up.

    A complex tensor is a real one with a dimension of two more, and so is the mean.
    """

    def factory(call: StructuredCall) -> PlannedKernel:
        spec, out = call.args["self"], call.outputs[0]
        if out.numel == 0:
            return PlannedKernel(launch_nothing)
        dims = call.extra["dims"] if spec.ndim else (0,)
        parts = TensorSpec.contiguous((*out.sizes, 2), out.dtype, out.device)
        means = [pairs_of(mean) if mean.ndim else parts for mean in call.outputs[1:]]
        inner = call._replace(
            args={**call.args, "self": pairs_of(spec)},
            outputs=(parts, *means),
            extra={**call.extra, "dims": dims},
        )
        spreads = moments(False, with_mean)(inner).into
        together = reduction(ROOT_OF_SUM if root else REDUCTIONS["sum_stub"])(
            call._replace(
                args={**call.args, "self": parts}, outputs=(out,), extra={**call.extra, "dims": (out.ndim,)}
            )
        ).into
        allocate = get_allocator("cuda").allocate

        def into(to: Any, *rest: Any) -> None:
            spread = allocate(parts.nbytes, parts.device)
            spreads(spread, *rest)
            together(to, spread)

        return PlannedKernel(into)

    return factory


ROOT_OF_SUM = Reduction(sum_of, sum_across, lambda _: 0, sum_type, finish=root_of)

for _stub, _root, _with_mean in (
    ("var_stub", False, False),
    ("std_stub", True, False),
    ("var_mean_stub", False, True),
    ("std_mean_stub", True, True),
):
    register_stub(
        _stub, "cuda", real_or_complex(moments(_root, _with_mean), complex_moments(_root, _with_mean))
    )
