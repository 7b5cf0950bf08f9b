"""The largest and least elements and where they stand. A NaN comes before all others, as in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...dispatch.structured.stub import KernelFactory, PlannedKernel, StructuredCall
from ...runtime.float_errors import quietly
from ...runtime.parallel import parallel_for
from ...runtime.tensor_spec import TensorSpec
from ..plain_numpy import np
from ..widen import compute_np
from .blocks import HANDED_OVER, KEPT_FROM, over_kept
from .column_extrema import column_extrema
from .line_loops import EXTREMA
from .line_reductions import line_extrema
from .reduced_call import keeps_dims, register_in_order


def located(
    spec: TensorSpec, locate: Any, run_blocks: Callable[..., None] | None
) -> tuple[Callable[..., None], Callable[..., Any]]:
    """Return the max or min of contiguous lines by their indices, as an in-place kernel and as one that
    allocates.
    """
    length = spec.sizes[-1]
    starts = np.arange(0, spec.numel, length)

    def fresh(array: Any) -> Any:
        result = line_extrema(array.reshape(-1, length), locate, starts)
        return result if spec.ndim == 2 else result.reshape(spec.sizes[:-1])

    def block(piece: Any) -> tuple[Any, ...]:
        lines = piece.reshape(-1, length)
        return (line_extrema(lines, locate, starts[: len(lines)]),)

    def into(out: Any, array: Any) -> None:
        result = None if run_blocks is None else EXTREMA[locate].reduced(array.reshape(-1, length))
        if result is None and run_blocks is not None:
            run_blocks(block, (out,), array)
        else:
            np.copyto(out, (fresh(array) if result is None else result).reshape(out.shape))

    return into, fresh


def aminmax(call: StructuredCall) -> PlannedKernel:
    """Compute minimum and maximum."""
    spec = call.args["self"]
    if spec.dtype.is_complex:
        raise call.refuse(spec)
    np_dtype = compute_np(spec.dtype)
    dims, keepdims = call.extra["dims"], keeps_dims(call)
    lowest: Any = np.minimum.reduce
    highest: Any = np.maximum.reduce

    # One axis of a contiguous array is reduced several times as quickly as all of several.
    whole = spec.is_contiguous and spec.ndim > 0 and len(dims) == spec.ndim

    def over_line(low: Any, high: Any, array: Any) -> None:
        lowest(array.reshape(-1), 0, None, low.reshape(()))
        highest(array.reshape(-1), 0, None, high.reshape(()))

    if whole and spec.np_dtype == np_dtype:
        return PlannedKernel(quietly(over_line))

    def into(low: Any, high: Any, array: Any) -> None:
        wide = array.astype(np_dtype, copy=False)
        np.copyto(low, lowest(wide, dims, None, None, keepdims), casting="unsafe")
        np.copyto(high, highest(wide, dims, None, None, keepdims), casting="unsafe")

    return PlannedKernel(quietly(into))


def index_of_extremum(method: str) -> Callable[[StructuredCall], PlannedKernel]:
    """Return the factory of ``argmax`` and ``argmin``: NumPy, too, takes the first NaN, else the first of
    equals.
    """

    def factory(call: StructuredCall) -> PlannedKernel:
        spec, out_spec = call.args["self"], call.outputs[0]
        np_dtype = compute_np(spec.dtype)
        axis = None if call.args["dim"] is None or not spec.ndim else call.extra["dims"][0]
        sizes = out_spec.sizes
        function = getattr(np.ndarray, method)
        # NumPy makes a copy that has the axis last.
        run_blocks = over_kept(spec, (axis,), out_spec.ndim) if _is_outer(spec, axis) else None
        if run_blocks is not None:

            def block(piece: Any) -> tuple[Any, ...]:
                return (function(piece.astype(np_dtype, copy=False), axis),)

            by_blocks = quietly(lambda out, array: run_blocks(block, (out,), array))
            search = column_extrema(
                spec, axis, method, lambda values, indices, array: by_blocks(indices, array)
            )
            if search is None:
                return PlannedKernel(by_blocks)
            return PlannedKernel(lambda out, array: search(np.empty(sizes, spec.np_dtype), out, array))
        is_large = spec.np_dtype == np_dtype and spec.nbytes >= HANDED_OVER
        if is_large and spec.is_contiguous and spec.ndim > 1 and axis == spec.ndim - 1:
            return PlannedKernel(_lines_shared(spec, function))
        if spec.np_dtype == np_dtype:
            fresh = None
            if axis is not None and not keeps_dims(call):

                def fresh(array: Any) -> Any:
                    return function(array, axis)

            return PlannedKernel(
                lambda out, array: np.copyto(out, _shaped(function(array, axis), sizes)), fresh
            )

        def into(out: Any, array: Any) -> None:
            np.copyto(out, _shaped(function(array.astype(np_dtype), axis), sizes))

        return PlannedKernel(quietly(into))

    return factory


def _is_outer(spec: TensorSpec, axis: int | None) -> bool:
    """Return True if the axis is not the contiguous one."""
    return axis is not None and spec.ndim > 0 and spec.strides[axis] != 1


def _lines_shared(spec: TensorSpec, function: Any) -> Callable[..., None]:
    """Apply ``function(array, axis)`` to contiguous lines, shared among threads."""
    length = spec.sizes[-1]
    count = spec.numel // length

    def into(out: Any, array: Any) -> None:
        lines, indices = array.reshape(count, length), np.empty(count, np.int64)

        def part(first: int, last: int) -> None:
            function(lines[first:last], 1, indices[first:last])

        parallel_for(0, count, max(1, KEPT_FROM // length), part)
        np.copyto(out, indices.reshape(out.shape))

    return into


def _shaped(result: Any, sizes: tuple[int, ...]) -> Any:
    return np.reshape(result, sizes)


def extremum_with_index(method: str) -> Callable[[StructuredCall], PlannedKernel]:
    """Return the factory of ``max`` and ``min`` along a dimension, which gathers values at the found indices."""

    def factory(call: StructuredCall) -> PlannedKernel:
        spec = call.args["self"]
        np_dtype = compute_np(spec.dtype)
        axis = call.extra["dims"][0] if spec.ndim else 0
        sizes = call.outputs[0].sizes
        function = getattr(np.ndarray, method)
        rest = spec.sizes[:axis] + spec.sizes[axis + 1 :]
        grid = np.indices(rest, sparse=True)
        before, after = grid[:axis], grid[axis:]
        widens = spec.np_dtype != np_dtype
        run_blocks = over_kept(spec, (axis,), call.outputs[0].ndim) if _is_outer(spec, axis) else None

        def block(piece: Any) -> tuple[Any, ...]:
            result = np.expand_dims(function(piece.astype(np_dtype) if widens else piece, axis), axis)
            return np.take_along_axis(piece, result, axis), result

        if run_blocks is not None:
            by_blocks = quietly(lambda values, indices, array: run_blocks(block, (values, indices), array))
            return PlannedKernel(column_extrema(spec, axis, method, by_blocks) or by_blocks)

        def into(values: Any, indices: Any, array: Any) -> None:
            if array.ndim == 0:
                array = array.reshape(1)
            result = function(array.astype(np_dtype) if widens else array, axis)
            values[...] = np.reshape(array[*before, result, *after], sizes)
            indices[...] = np.reshape(result, sizes)

        return PlannedKernel(into)

    return factory


FACTORIES: dict[str, KernelFactory] = {
    "aminmax_stub": aminmax,
    "max_dim_stub": extremum_with_index("argmax"),
    "min_dim_stub": extremum_with_index("argmin"),
    "argmax_stub": index_of_extremum("argmax"),
    "argmin_stub": index_of_extremum("argmin"),
}
register_in_order(FACTORIES)
