"""Gather, scatter and take: elements by a place of their own, counted in a contiguous array."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.float_errors import quietly
from ..elementwise.constants import RangedConstants
from ..plain_numpy import np
from ..widen import FLOAT32, NARROW
from .index_bounds import check_bounds, own
from .index_loops import gather_by_loop, index_geometry, scatter_by_loop
from .scatter_reduction import COMBINED_BY, accumulate_at, combine_at, divide_by_counts, identity_of


def places_function(
    sizes: tuple[int, ...], axis: int, picked: tuple[int, ...], copies: bool = False
) -> Callable[[Any], Any]:
    """Return a function from an index to flat indices of a contiguous array.

    Args:
        sizes: sizes of the array.
        axis: the dimension that the index is for.
        picked: the index's shape.
        copies: If True, the flat indices are never the index itself. Default: False.
    """
    strides = [1] * len(sizes)
    for d in range(len(sizes) - 2, -1, -1):
        strides[d] = strides[d + 1] * sizes[d + 1]
    rest: Any = None
    for d, n in enumerate(picked):
        if d != axis:
            steps = (np.arange(n) * strides[d]).reshape((n,) + (1,) * (len(picked) - d - 1))
            rest = steps if rest is None else rest + steps
    stride = strides[axis]

    def places(index: Any) -> Any:
        scaled = index if stride == 1 else index * np.int64(stride)
        return scaled if rest is None else scaled + rest

    return (lambda index: own(index)) if copies and stride == 1 and rest is None else places


def gather(call: StructuredCall) -> PlannedKernel:
    """Return elements along one dimension, each by its own index."""
    axis: int = call.extra["dim"]
    sizes = call.args["self"].sizes or (1,)
    picked = call.args["index"].sizes or (1,)
    shape = call.outputs[0].sizes
    if 0 in picked:
        return PlannedKernel(lambda out, data, index: None)
    flat_indices = places_function(sizes, axis, picked)

    def fresh(data: Any, index: Any) -> Any:
        index = index.reshape(picked)
        check_bounds(index, sizes[axis], axis, False, RuntimeError)
        return data.reshape(-1).take(flat_indices(index), mode="clip").reshape(shape)

    def into(out: Any, data: Any, index: Any) -> None:
        np.copyto(out, fresh(data, index))

    spec, out = call.args["self"], call.outputs[0]
    geometry = index_geometry(spec, axis, call.args["index"], out)
    by_loop = gather_by_loop(geometry, out.itemsize, into)
    return PlannedKernel(into, fresh) if by_loop is None else PlannedKernel(by_loop)


def scatter_reduce(call: StructuredCall) -> PlannedKernel:
    """Reduce the source along one dimension by index, in order; 16-bit floats accumulate in float32."""
    axis: int = call.extra["dim"]
    reduce: str = call.extra["reduce"]
    includes: bool = call.args["include_self"]
    spec = call.args["self"]
    sizes = spec.sizes or (1,)
    picked = call.args["index"].sizes or (1,)
    flat_indices = None if 0 in picked else places_function(sizes, axis, picked, copies=True)
    part = tuple([slice(0, n) for n in picked])
    wide = FLOAT32 if spec.dtype in NARROW else spec.np_dtype
    function = COMBINED_BY.get(reduce, np.add)
    start = identity_of(reduce, wide)

    @quietly
    def into(out: Any, data: Any, index: Any, src: Any) -> None:
        if out is not data:
            np.copyto(out, data)
        if flat_indices is None:
            return
        index = index.reshape(picked)
        check_bounds(index, sizes[axis], axis, False, RuntimeError)
        where = flat_indices(index).reshape(-1)
        values = (src if src.ndim else src.reshape(1))[part].reshape(-1).astype(wide)
        flat = np.ascontiguousarray(out).reshape(-1).astype(wide)
        combine_at(function, flat, where, values, None if includes else start)
        if reduce == "mean":
            divide_by_counts(flat, where, includes)
        np.copyto(out, flat.reshape(out.shape), casting="unsafe")

    return PlannedKernel(into)


def scatter(call: StructuredCall) -> PlannedKernel:
    """Write, add or multiply elements of the source, or a number, along one dimension by index."""
    axis: int = call.extra["dim"]
    reduce: str | None = call.extra["reduce"]
    spec = call.args["self"]
    sizes = spec.sizes or (1,)
    picked = call.args["index"].sizes or (1,)
    narrow = spec.dtype in NARROW
    from_tensor = "src" in call.args
    constant = RangedConstants(spec.np_dtype, float, spec.dtype)
    empty = 0 in picked
    flat_indices = None if empty else places_function(sizes, axis, picked, copies=True)
    part = tuple([slice(0, n) for n in picked])

    def check(index: Any) -> None:
        check_bounds(index, sizes[axis], axis, False, RuntimeError)

    def write(out: Any, src: Any, index: Any) -> None:
        assert flat_indices is not None
        index = index.reshape(picked)
        check(index)
        where = flat_indices(index).reshape(-1)
        if from_tensor:
            values = (src if src.ndim else src.reshape(1))[part].reshape(-1)
        else:
            values = np.broadcast_to(src, where.shape)
        work = out if out.flags.c_contiguous else np.ascontiguousarray(out)
        flat = work.reshape(-1)
        if reduce is None:
            flat[where] = values
        else:
            accumulate_at(np.add if reduce == "add" else np.multiply, flat, where, values, narrow)
        if work is not out:
            np.copyto(out, work)

    if reduce in (None, "add"):
        src = call.args["src"] if from_tensor else None
        geometry = index_geometry(spec, axis, call.args["index"], src)
        write = scatter_by_loop(geometry, call.outputs[0], write, None if reduce is None else check)

    def into(out: Any, data: Any, index: Any, src: Any) -> None:
        if out is not data:
            np.copyto(out, data)
        if flat_indices is not None:
            write(out, src if from_tensor else constant[src], index)

    return PlannedKernel(into if reduce is None else quietly(into))


def take(call: StructuredCall) -> PlannedKernel:
    """Take elements of the flattened array; negative indices count from the end."""
    numel = call.args["self"].numel

    def into(out: Any, data: Any, index: Any) -> None:
        if not index.size:
            return
        low, high = int(index.min()), int(index.max())
        if high >= numel or low < -numel:
            wrong = high if high >= numel else low
            raise IndexError(f"out of range: tried to access index {wrong} on a tensor of {numel} elements.")
        np.copyto(out, data.reshape(-1).take(index, mode="wrap"))

    return PlannedKernel(into)


register_stub("gather_stub", "cpu", gather)
register_stub("scatter_stub", "cpu", scatter)
register_stub("scatter_reduce_stub", "cpu", scatter_reduce)
register_stub("take_stub", "cpu", take)
