"""Reductions. Sums have pairwise error along any axis; narrow floats accumulate in float32."""

from __future__ import annotations

import cmath
from collections.abc import Callable
from typing import Any

from ...dispatch.iterator.parallel import parallel_for
from ...dispatch.structured.choices import chosen, listeners
from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.float_errors import quietly
from ...runtime.tensor_spec import TensorSpec
from ..plain_numpy import copyto, np
from ..widen import FLOAT32, NARROW, compute_np
from .blocks import (
    HANDED_OVER,
    KEPT_FROM,
    LONG_RUN,
    RUN,
    SHORTEST_LINE,
    over_everything,
    over_kept,
    over_rows,
    over_streamed,
)
from .half_words import over_half_words
from .line_reductions import DIRECT, LONG_PRODUCT, SHORT_LINE, line_extrema, line_products, line_sums
from .small_variance import small_variance
from .sums import (
    PRODUCTS,
    SMALL,
    added_rows,
    adds_directly,
    block_sum,
    count_of,
    dot_with_ones,
    is_of_lines,
    kept_sum,
    lines_first,
    pairwise_sum,
    product_with_ones,
    short_row_of,
    sum_of_rows,
    widened_line_sums,
)


def _is_whole(call: StructuredCall) -> bool:
    """Whether everything is reduced, over memory that can be read as one run of the output's dtype."""
    spec, out = call.args["self"], call.outputs[0]
    same = spec.dtype is out.dtype and spec.dtype not in NARROW
    return bool(same and spec.is_contiguous and len(call.extra["dims"]) == spec.ndim)


def _keepdims(call: StructuredCall) -> bool:
    return call.outputs[0].ndim == call.args["self"].ndim and call.outputs[0].ndim > 0


def _tell(algorithm: str, spec: TensorSpec, dims: tuple[int, ...], why: str) -> None:
    if listeners:
        lines = " x ".join([str(spec.sizes[d]) for d in dims]) or "1"
        chosen(algorithm, "each result is made of {} of the {} elements, which {}", lines, spec.numel, why)


def sum_(call: StructuredCall) -> PlannedKernel:
    """The sum over the plan's dimensions."""
    spec = call.args["self"]
    out_spec = call.outputs[0]
    dims: tuple[int, ...] = call.extra["dims"]
    np_dtype = compute_np(out_spec.dtype)
    sizes = out_spec.sizes
    if not sizes:
        if 0 < spec.numel <= SMALL and _is_whole(call) and np_dtype in PRODUCTS:
            _tell("a product with ones", spec, dims, f"are all of them, and at most {SMALL}")
            return dot_with_ones(spec.numel, np_dtype)
    elif out_spec.np_dtype == np_dtype and (product := product_with_ones(spec, dims, np_dtype)) is not None:
        return _by_product(product, spec, dims, sizes)
    reduce = np.add.reduce
    lines_of = over_streamed(spec, dims, np_dtype)
    if lines_of is None and np_dtype == FLOAT32:
        lines_of = over_half_words(spec, dims, np.add)
    if lines_of is not None:
        _tell("streamed lines", spec, dims, "are read once in the order of memory, or as halves of words")
        return PlannedKernel(
            quietly(lambda out, a: np.copyto(out, lines_of(a).reshape(sizes), casting="unsafe"))
        )
    everything = over_everything(spec, np.add, np_dtype) if len(dims) == spec.ndim else None
    if everything is not None:
        _tell("blocks on several threads", spec, dims, "are all of them, and many")
        return PlannedKernel(quietly(lambda out, array: np.copyto(out, everything(array), casting="unsafe")))
    if _is_whole(call):
        _tell("one run of memory", spec, dims, "are all of them, side by side")

        @quietly
        def whole(out: Any, array: Any) -> None:
            reduce(array.reshape(-1), None, None, out.reshape(()))

        return PlannedKernel(whole)
    lines = lines_first(spec, dims, np_dtype)
    if lines is not None and out_spec.np_dtype == np_dtype:
        _tell("lines first", spec, dims, "are lines of memory and what lies across them")
        return PlannedKernel(quietly(lambda out, array: np.copyto(out, lines(array).reshape(sizes))))
    add = block_sum(spec, dims, np_dtype)
    rows = over_rows(spec, dims, np_dtype, added_rows(np_dtype), short_row_of(spec, np_dtype))
    if rows is not None:
        _tell("rows added to one another", spec, dims, "lie across rows of memory")
        return PlannedKernel(quietly(lambda out, a: np.copyto(out, rows(a).reshape(sizes), casting="unsafe")))
    kept = over_kept(spec, dims, out_spec.ndim, LONG_RUN, spec.np_dtype == np_dtype)
    if kept is not None:
        _tell("blocks of kept elements", spec, dims, "belong to many results, which blocks share out")
        return PlannedKernel(quietly(lambda out, array: kept(lambda piece: (add(piece),), (out,), array)))
    if out_spec.np_dtype == np_dtype and is_of_lines(spec, dims, np_dtype):
        _tell("sums of lines", spec, dims, "are contiguous lines")

        def into(out: Any, array: Any) -> None:
            np.copyto(out, line_sums(array).reshape(sizes))

        # np.einsum looks at no floating-point errors, and a copy within a dtype has none; sums of runs have some.
        fresh = None if _keepdims(call) else line_sums
        return PlannedKernel(into, fresh, quiet=spec.sizes[dims[0]] > DIRECT)
    by_rows = sum_of_rows(spec, dims, np_dtype)
    if out_spec.np_dtype == np_dtype and by_rows is not None:
        _tell("sums of rows", spec, dims, "lie across rows of memory")
        into = quietly(lambda out, array: np.copyto(out, by_rows(array).reshape(sizes)))
        return PlannedKernel(into, quietly(lambda array: by_rows(array).reshape(sizes)))
    if out_spec.np_dtype == np_dtype and adds_directly(spec, dims, np_dtype):
        _tell("NumPy's own sum", spec, dims, "lie so that it is pairwise, or are few")
        return PlannedKernel(*_reducing(reduce, dims, np_dtype, _keepdims(call)))
    _tell("pairwise sums", spec, dims, "no quicker way takes")
    total = widened_line_sums(spec, dims, np_dtype) or kept_sum(spec, dims, np_dtype)
    return PlannedKernel(quietly(lambda out, a: np.copyto(out, total(a).reshape(sizes), casting="unsafe")))


def _by_product(
    product: Callable[[Any], Any], spec: TensorSpec, dims: tuple[int, ...], sizes: tuple[int, ...]
) -> PlannedKernel:
    """The kernel of sums that are a product with ones, a vector."""
    _tell("a product with ones", spec, dims, "are short lines of a small tensor")
    if len(sizes) == 1:
        return PlannedKernel(lambda out, array: np.copyto(out, product(array)), product, quiet=True)

    def shaped(array: Any) -> Any:
        return product(array).reshape(sizes)

    return PlannedKernel(lambda out, array: np.copyto(out, shaped(array)), shaped, quiet=True)


def _reducing(
    reduce: Any, dims: tuple[int, ...], np_dtype: Any, keepdims: bool
) -> tuple[Callable[..., None], Callable[..., Any]]:
    """A ufunc's ``reduce`` into a given array, and into a new one."""
    axes = dims[0] if len(dims) == 1 else dims

    @quietly
    def into(out: Any, array: Any) -> None:
        reduce(array, axes, np_dtype, out, keepdims)

    @quietly
    def fresh(array: Any) -> Any:
        return reduce(array, axes, np_dtype, None, keepdims)

    return into, fresh


def mean(call: StructuredCall) -> PlannedKernel:
    """The sum over the plan's dimensions, divided by their number of elements; NaN where there are none."""
    spec = call.args["self"]
    out_spec = call.outputs[0]
    dims: tuple[int, ...] = call.extra["dims"]
    np_dtype = compute_np(out_spec.dtype)
    sizes = out_spec.sizes
    count = np_dtype.type(count_of(spec, dims))
    lines_of = over_streamed(spec, dims, np_dtype)
    if lines_of is None and np_dtype == FLOAT32:
        lines_of = over_half_words(spec, dims, np.add)
    if lines_of is not None:
        _tell("streamed lines", spec, dims, "are read once in the order of memory, or as halves of words")
        return PlannedKernel(
            quietly(lambda out, a: np.copyto(out, (lines_of(a) / count).reshape(sizes), casting="unsafe"))
        )
    everything = over_everything(spec, np.add, np_dtype) if len(dims) == spec.ndim else None
    if everything is not None:
        _tell("blocks on several threads", spec, dims, "are all of them, and many")
        return PlannedKernel(
            quietly(lambda out, array: np.copyto(out, everything(array) / count, casting="unsafe"))
        )
    rows = over_rows(spec, dims, np_dtype, added_rows(np_dtype), short_row_of(spec, np_dtype))
    if rows is not None:
        _tell("rows added to one another", spec, dims, "lie across rows of memory")
        return PlannedKernel(
            quietly(lambda out, a: np.copyto(out, (rows(a) / count).reshape(sizes), casting="unsafe"))
        )
    kept = over_kept(spec, dims, out_spec.ndim, LONG_RUN, spec.np_dtype == np_dtype)
    if kept is not None:
        _tell("blocks of kept elements", spec, dims, "belong to many results, which blocks share out")
        add = block_sum(spec, dims, np_dtype)
        return PlannedKernel(
            quietly(lambda out, array: kept(lambda piece: (add(piece) / count,), (out,), array))
        )
    if _is_whole(call) and out_spec.ndim == 0:
        _tell("one run of memory", spec, dims, "are all of them, side by side")
        if 0 < spec.numel <= SMALL and spec.dtype.name in ("float32", "float64"):
            return dot_with_ones(spec.numel, np_dtype, count)
        return PlannedKernel(quietly(lambda out, array: out.fill(np.add.reduce(array.reshape(-1)) / count)))

    _tell("pairwise sums", spec, dims, "no quicker way takes")
    total = kept_sum(spec, dims, np_dtype)

    def compute(array: Any) -> Any:
        return (total(array) / count).reshape(sizes)

    into = quietly(lambda out, array: np.copyto(out, compute(array), casting="unsafe"))
    return PlannedKernel(into, quietly(compute) if out_spec.np_dtype == np_dtype else None)


def reduction(ufunc: Any, promotes: bool = False) -> Callable[[StructuredCall], PlannedKernel]:
    """The factory of a ufunc's ``reduce``; one that `promotes` computes in the output's dtype."""

    def factory(call: StructuredCall) -> PlannedKernel:
        spec, out_spec = call.args["self"], call.outputs[0]
        if spec.dtype.is_complex and not promotes:
            raise call.refuse(spec)
        np_dtype = compute_np(out_spec.dtype if promotes else spec.dtype)
        dims: tuple[int, ...] = call.extra["dims"]
        keepdims = _keepdims(call)
        reduce = ufunc.reduce
        words = over_half_words(spec, dims, ufunc)
        if words is not None:
            _tell("halves of words", spec, dims, "are halves of words of float32")
            sizes = out_spec.sizes
            return PlannedKernel(
                quietly(lambda out, array: np.copyto(out, words(array).reshape(sizes), casting="unsafe"))
            )
        everything = over_everything(spec, ufunc, np_dtype) if len(dims) == spec.ndim else None
        if everything is not None:
            _tell("blocks on several threads", spec, dims, "are all of them, and many")
            return PlannedKernel(
                quietly(lambda out, array: np.copyto(out, everything(array), casting="unsafe"))
            )
        same = spec.np_dtype == np_dtype
        rows = None
        if ufunc is not np.multiply:
            rows = over_rows(
                spec,
                dims,
                np_dtype,
                lambda rows: reduce(rows.astype(np_dtype, copy=False), 0, None, None, True),
            )
        if rows is not None:
            _tell("rows combined with one another", spec, dims, "lie across rows of memory")
            sizes = out_spec.sizes
            return PlannedKernel(
                quietly(lambda out, array: np.copyto(out, rows(array).reshape(sizes), casting="unsafe"))
            )
        directly = same and (not spec.ndim or spec.sizes[-1] >= SHORTEST_LINE)
        kept = over_kept(spec, dims, out_spec.ndim, LONG_RUN if same else RUN, directly)
        locate = LOCATED.get(ufunc)
        if locate is not None and same and is_of_lines(spec, dims, np_dtype) and spec.sizes[-1] <= SHORT_LINE:
            _tell("places of extrema", spec, dims, f"are contiguous lines of at most {SHORT_LINE}")
            into, fresh = _located(spec, locate, kept)
            return PlannedKernel(quietly(into), None if kept is not None or keepdims else fresh)
        if ufunc is np.multiply and is_of_lines(spec, dims, np_dtype) and spec.sizes[-1] >= LONG_PRODUCT:
            _tell("products of halves", spec, dims, f"are contiguous lines of at least {LONG_PRODUCT}")
            sizes = out_spec.sizes
            if kept is not None:
                return PlannedKernel(
                    quietly(lambda out, array: kept(lambda piece: (line_products(piece),), (out,), array))
                )
            return PlannedKernel(
                quietly(lambda out, a: np.copyto(out, line_products(a).reshape(sizes), casting="unsafe"))
            )
        if kept is not None:
            _tell("blocks of kept elements", spec, dims, "belong to many results, which blocks share out")

            def block(piece: Any) -> tuple[Any, ...]:
                return (reduce(piece.astype(np_dtype, copy=False), dims, None, None, True),)

            return PlannedKernel(quietly(lambda out, array: kept(block, (out,), array)))
        _tell("one call of NumPy", spec, dims, "no quicker way takes")
        if spec.np_dtype == np_dtype == out_spec.np_dtype:
            if spec.is_contiguous and len(dims) == spec.ndim and not keepdims and not promotes:
                locate, asarray = LOCATED.get(ufunc), np.asarray
                number = None
                if locate is not None and np_dtype.kind in "fiu" and 0 < spec.numel <= SMALL:
                    number = lambda array: asarray(array.take(locate(array)))  # noqa: E731
                return PlannedKernel(
                    lambda out, array: reduce(array.reshape(-1), 0, None, out), quiet=True, number=number
                )
            return PlannedKernel(*_reducing(reduce, dims, None, keepdims))

        def into(out: Any, array: Any) -> None:
            np.copyto(out, reduce(array.astype(np_dtype), dims, None, None, keepdims), casting="unsafe")

        return PlannedKernel(quietly(into))

    return factory


LOCATED: dict[np.ufunc, Any] = {np.maximum: np.ndarray.argmax, np.minimum: np.ndarray.argmin}
"""What finds the place of an extremum, a NaN's before all others."""


def _located(
    spec: TensorSpec, locate: Any, kept: Callable[..., None] | None
) -> tuple[Callable[..., None], Callable[..., Any]]:
    """The extrema of contiguous lines by their places, into a given array, and in one block into a new one."""
    length = spec.sizes[-1]
    starts = np.arange(0, spec.numel, length)

    def fresh(array: Any) -> Any:
        found = line_extrema(array.reshape(-1, length), locate, starts)
        return found if spec.ndim == 2 else found.reshape(spec.sizes[:-1])

    def block(piece: Any) -> tuple[Any, ...]:
        lines = piece.reshape(-1, length)
        return (line_extrema(lines, locate, starts[: len(lines)]),)

    def into(out: Any, array: Any) -> None:
        if kept is not None:
            kept(block, (out,), array)
        else:
            np.copyto(out, fresh(array).reshape(out.shape))

    return into, fresh


def aminmax(call: StructuredCall) -> PlannedKernel:
    """Both extrema."""
    spec = call.args["self"]
    if spec.dtype.is_complex:
        raise call.refuse(spec)
    np_dtype = compute_np(spec.dtype)
    dims, keepdims = call.extra["dims"], _keepdims(call)
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


def truth(ufunc: Any) -> Callable[[StructuredCall], PlannedKernel]:
    """The factory of ``any`` and ``all``: NaN counts as true, no dimensions leave each element's truth."""

    def factory(call: StructuredCall) -> PlannedKernel:
        spec = call.args["self"]
        dims: tuple[int, ...] = call.extra["dims"]
        keepdims = _keepdims(call)
        reduce = ufunc.reduce
        wide = compute_np(spec.dtype)
        widens = spec.np_dtype != wide
        if call.outputs[0].dtype.name == "bool" and not widens and dims:
            return PlannedKernel(*_reducing(reduce, dims, None, keepdims))

        def into(out: Any, array: Any) -> None:
            flags = (array.astype(wide) if widens else array).astype(np.bool_)
            np.copyto(out, reduce(flags, dims, None, None, keepdims) if dims else flags)

        return PlannedKernel(quietly(into))

    return factory


def index_of_extremum(method: str) -> Callable[[StructuredCall], PlannedKernel]:
    """The factory of ``argmax`` and ``argmin``: NumPy too takes the first NaN, else the first of equals."""

    def factory(call: StructuredCall) -> PlannedKernel:
        spec, out_spec = call.args["self"], call.outputs[0]
        np_dtype = compute_np(spec.dtype)
        axis = None if call.args["dim"] is None or not spec.ndim else call.extra["dims"][0]
        sizes = out_spec.sizes
        function = getattr(np.ndarray, method)
        # NumPy makes a copy that has the axis last.
        kept = over_kept(spec, (axis,), out_spec.ndim) if _is_outer(spec, axis) else None
        if kept is not None:

            def block(piece: Any) -> tuple[Any, ...]:
                return (function(piece.astype(np_dtype, copy=False), axis),)

            return PlannedKernel(quietly(lambda out, array: kept(block, (out,), array)))
        is_large = spec.np_dtype == np_dtype and spec.nbytes >= HANDED_OVER
        if is_large and spec.is_contiguous and spec.ndim > 1 and axis == spec.ndim - 1:
            return PlannedKernel(_lines_shared(spec, function))
        if spec.np_dtype == np_dtype:
            fresh = None
            if axis is not None and not _keepdims(call):

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
    """Whether elements along an axis are not the ones that lie side by side."""
    return axis is not None and spec.ndim > 0 and spec.strides[axis] != 1


def _lines_shared(spec: TensorSpec, function: Any) -> Callable[..., None]:
    """``function(array, axis)`` of contiguous lines, of which each thread takes some."""
    length = spec.sizes[-1]
    count = spec.numel // length

    def into(out: Any, array: Any) -> None:
        lines, found = array.reshape(count, length), np.empty(count, np.int64)

        def part(first: int, last: int) -> None:
            function(lines[first:last], 1, found[first:last])

        parallel_for(0, count, max(1, KEPT_FROM // length), part)
        np.copyto(out, found.reshape(out.shape))

    return into


def _shaped(result: Any, sizes: tuple[int, ...]) -> Any:
    return np.reshape(result, sizes)


def extremum_with_index(method: str) -> Callable[[StructuredCall], PlannedKernel]:
    """The factory of ``max`` and ``min`` along a dimension: the values stand where the indices say."""

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
        kept = over_kept(spec, (axis,), call.outputs[0].ndim) if _is_outer(spec, axis) else None

        def block(piece: Any) -> tuple[Any, ...]:
            found = np.expand_dims(function(piece.astype(np_dtype) if widens else piece, axis), axis)
            return np.take_along_axis(piece, found, axis), found

        if kept is not None:
            return PlannedKernel(
                quietly(lambda values, indices, array: kept(block, (values, indices), array))
            )

        def into(values: Any, indices: Any, array: Any) -> None:
            if array.ndim == 0:
                array = array.reshape(1)
            found = function(array.astype(np_dtype) if widens else array, axis)
            values[...] = np.reshape(array[*before, found, *after], sizes)
            indices[...] = np.reshape(found, sizes)

        return PlannedKernel(into)

    return factory


def moments_function(
    spec: TensorSpec, dims: tuple[int, ...], np_dtype: Any
) -> Callable[[Any], tuple[Any, Any]]:
    """A function from an array to the sum of squared deviations and the mean, reduced dimensions kept.

    Two passes, and the second subtracts what the rounded mean left over (Chan, Golub, LeVeque, 1983).
    """
    size = np_dtype.type(count_of(spec, dims))
    contiguous = TensorSpec.contiguous(spec.sizes, spec.dtype, spec.device)
    total = kept_sum(contiguous, dims, np_dtype)
    widens, complex_ = spec.np_dtype != np_dtype, np_dtype.kind == "c"
    subtract, square = np.subtract, np.square

    def moments(array: Any) -> tuple[Any, Any]:
        if widens:
            array = array.astype(np_dtype)
        mean = total(array) / size
        deviation = subtract(array, mean, order="C")
        residue = total(deviation)
        if complex_:
            squares = total(deviation * deviation.conj()).real
            return squares - (residue * residue.conj()).real / size.real, mean
        squares = total(square(deviation, deviation if array.ndim else None))
        return squares - residue * residue / size, mean

    return moments


def whole_moments(spec: TensorSpec, np_dtype: Any) -> Callable[[Any], tuple[Any, Any]] | None:
    """`moments_function` of everything: in blocks, or over one line; None for what has neither order in memory."""
    size = np_dtype.type(spec.numel)
    everything = over_everything(spec, np.add, np_dtype, prepares=True)
    if everything is None:
        if not spec.is_contiguous or not spec.numel:
            return None
        line = TensorSpec.contiguous((spec.numel,), spec.dtype, spec.device)
        of_line = moments_function(line, (0,), np_dtype)
        return lambda array: of_line(array.reshape(-1))
    if np_dtype.kind == "c":
        return None

    def moments(array: Any) -> tuple[Any, Any]:
        mean = everything(array) / size
        residue = everything(array, lambda piece: piece - mean)
        squares = everything(array, lambda piece: np.square(piece - mean))
        return squares - residue * residue / size, mean

    return moments


def variance(root: bool, with_mean: bool) -> Callable[[StructuredCall], PlannedKernel]:
    """The factory of ``var``, ``std``, ``var_mean`` and ``std_mean``."""

    def factory(call: StructuredCall) -> PlannedKernel:
        small = None if with_mean else small_variance(call, root)
        if small is not None:
            return small
        spec = call.args["self"]
        np_dtype = compute_np(spec.dtype)
        dims: tuple[int, ...] = call.extra["dims"]
        sizes = call.outputs[0].sizes
        count = count_of(spec, dims)
        fixed = call.extra.get("correction", 1)
        moments = moments_function(spec, dims, np_dtype)
        if len(dims) == spec.ndim > 0:
            moments = whole_moments(spec, np_dtype) or moments
        kept = over_kept(spec, dims, call.outputs[0].ndim)
        every, isfinite = np.logical_and.reduce, cmath.isfinite

        def in_range(array: Any, total: Any, mean: Any) -> tuple[Any, Any]:
            # Squares overflow long before their root does: in float64 those of float32 have room.
            if np_dtype == np.float32:
                total, mean = moments_function(spec, dims, np.dtype(np.float64))(array)
            return np.where(np.isnan(total) & np.isfinite(mean), np.inf, total), mean

        def compute(array: Any, correction: Any) -> tuple[Any, Any]:
            total, mean = moments(array)
            if not (isfinite(total.item()) if total.size == 1 else every(np.isfinite(total), None)):
                total, mean = in_range(array, total, mean)
            freedom = count - (fixed if correction is None else correction)
            spread = np.maximum(total, 0)
            spread = np.divide(spread, spread.dtype.type(max(freedom, 0)))
            return np.sqrt(spread) if root else spread, mean

        def into(out: Any, array: Any, correction: Any = None) -> None:
            if kept is not None:
                kept(lambda piece: compute(piece, correction)[:1], (out,), array)
                return
            spread, _ = compute(array, correction)
            copyto(out, spread.reshape(sizes), casting="unsafe")

        def into_both(out: Any, mean_out: Any, array: Any, correction: Any = None) -> None:
            if kept is not None:
                kept(lambda piece: compute(piece, correction), (out, mean_out), array)
                return
            spread, mean = compute(array, correction)
            copyto(out, spread.reshape(sizes), casting="unsafe")
            copyto(mean_out, mean.reshape(sizes), casting="unsafe")

        return PlannedKernel(quietly(into_both if with_mean else into))

    return factory


def logsumexp(call: StructuredCall) -> PlannedKernel:
    """log(sum(exp(self - max))) + max, the maximum taken as 0 where it is infinite."""
    spec, out_spec = call.args["self"], call.outputs[0]
    np_dtype = compute_np(out_spec.dtype)
    dims: tuple[int, ...] = call.extra["dims"]
    sizes = out_spec.sizes
    nonempty = count_of(spec, dims) > 0
    kept = over_kept(spec, dims, out_spec.ndim)

    def compute(array: Any) -> Any:
        wide = array.astype(np_dtype, copy=False)
        if not nonempty:
            return np.log(pairwise_sum(wide, dims, np_dtype))
        top = np.maximum.reduce(wide.real, dims, keepdims=True)
        top = np.where(np.isfinite(top), top, top.dtype.type(0))
        shifted = wide - top
        return np.log(pairwise_sum(np.exp(shifted, shifted if shifted.ndim else None), dims, np_dtype)) + top

    if kept is not None:
        return PlannedKernel(quietly(lambda out, array: kept(lambda piece: (compute(piece),), (out,), array)))
    return PlannedKernel(
        quietly(lambda out, array: np.copyto(out, compute(array).reshape(sizes), casting="unsafe"))
    )


HASHED = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64")


def hash_tensor(call: StructuredCall) -> PlannedKernel:
    """The exclusive or of all elements' bits, each of them as the float64 or int64 that it is.

    Narrow floats pass through float32; a NaN keeps its payload and becomes quiet.
    """
    spec, sizes = call.args["self"], call.outputs[0].sizes
    if spec.dtype.name not in HASHED:
        raise NotImplementedError(f"\"xor_sum_cpu\" not implemented for '{spec.dtype.scalar_name}'")
    dims: tuple[int, ...] = call.extra["dims"]
    floating, np_dtype = spec.dtype.is_floating_point, compute_np(spec.dtype)

    def into(out: Any, array: Any) -> None:
        if floating:
            bits = array.astype(np_dtype, copy=False).astype(np.float64).view(np.int64)
        else:
            bits = array.astype(np.int64, copy=False)
        np.copyto(out, np.bitwise_xor.reduce(bits, axis=dims).view(np.uint64).reshape(sizes))

    return PlannedKernel(quietly(into))


FACTORIES: dict[str, Callable[[StructuredCall], PlannedKernel]] = {
    "sum_stub": sum_,
    "mean_stub": mean,
    "prod_stub": reduction(np.multiply, promotes=True),
    "amax_stub": reduction(np.maximum),
    "amin_stub": reduction(np.minimum),
    "aminmax_stub": aminmax,
    "max_dim_stub": extremum_with_index("argmax"),
    "min_dim_stub": extremum_with_index("argmin"),
    "argmax_stub": index_of_extremum("argmax"),
    "argmin_stub": index_of_extremum("argmin"),
    "any_stub": truth(np.logical_or),
    "all_stub": truth(np.logical_and),
    "var_stub": variance(root=False, with_mean=False),
    "std_stub": variance(root=True, with_mean=False),
    "var_mean_stub": variance(root=False, with_mean=True),
    "std_mean_stub": variance(root=True, with_mean=True),
    "logsumexp_stub": logsumexp,
    "hash_tensor_stub": hash_tensor,
}


def in_order(factory: Callable[[StructuredCall], PlannedKernel]) -> Callable[[StructuredCall], PlannedKernel]:
    """The factory without `fresh` for permuted inputs, whose order NumPy gives its new results too."""

    def made(call: StructuredCall) -> PlannedKernel:
        kernel = factory(call)
        if kernel.fresh is None:
            return kernel
        strides = call.args["self"].strides
        return kernel if sorted(strides, reverse=True) == list(strides) else kernel._replace(fresh=None)

    return made


for _stub, _factory in FACTORIES.items():
    register_stub(_stub, "cpu", in_order(_factory))
