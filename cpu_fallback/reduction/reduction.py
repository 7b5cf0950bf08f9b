"""Reductions. Sums have pairwise error along any axis; 16-bit floats accumulate in float32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...dispatch.structured.choices import chosen, listeners
from ...dispatch.structured.stub import KernelFactory, PlannedKernel, StructuredCall
from ...runtime.float_errors import quietly
from ...runtime.tensor_spec import TensorSpec
from ..plain_numpy import np
from ..widen import FLOAT32, NARROW, compute_np
from .blocks import (
    LONG_RUN,
    RUN,
    SHORTEST_LINE,
    over_everything,
    over_kept,
    over_rows,
    over_streamed,
)
from .extremes import located
from .half_words import over_half_words
from .line_products import line_products
from .line_reductions import DIRECT, LOCATED, LONG_PRODUCT, SHORT_LINE, line_sums
from .reduced_call import keeps_dims, register_in_order
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
    """Return True for a full reduction of contiguous memory in the output's dtype."""
    spec, out = call.args["self"], call.outputs[0]
    same = spec.dtype is out.dtype and spec.dtype not in NARROW
    return bool(same and spec.is_contiguous and len(call.extra["dims"]) == spec.ndim)


def _tell(algorithm: str, spec: TensorSpec, dims: tuple[int, ...], why: str) -> None:
    if listeners:
        lines = " x ".join([str(spec.sizes[d]) for d in dims]) or "1"
        chosen(algorithm, "each result is made of {} of the {} elements, which {}", lines, spec.numel, why)


def sum_(call: StructuredCall) -> PlannedKernel:
    """Sum over the plan's dimensions."""
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
    run_blocks = over_kept(spec, dims, out_spec.ndim, LONG_RUN, spec.np_dtype == np_dtype)
    if run_blocks is not None:
        _tell("blocks of kept elements", spec, dims, "belong to many results, which blocks share out")
        return PlannedKernel(
            quietly(lambda out, array: run_blocks(lambda piece: (add(piece),), (out,), array))
        )
    if out_spec.np_dtype == np_dtype and is_of_lines(spec, dims, np_dtype):
        _tell("sums of lines", spec, dims, "are contiguous lines")

        def into(out: Any, array: Any) -> None:
            np.copyto(out, line_sums(array).reshape(sizes))

        # np.einsum looks at no floating-point errors, and a copy within a dtype has none; sums of runs have some.
        fresh = None if keeps_dims(call) else line_sums
        return PlannedKernel(into, fresh, quiet=spec.sizes[dims[0]] > DIRECT)
    by_rows = sum_of_rows(spec, dims, np_dtype)
    if out_spec.np_dtype == np_dtype and by_rows is not None:
        _tell("sums of rows", spec, dims, "lie across rows of memory")
        into = quietly(lambda out, array: np.copyto(out, by_rows(array).reshape(sizes)))
        return PlannedKernel(into, quietly(lambda array: by_rows(array).reshape(sizes)))
    if out_spec.np_dtype == np_dtype and adds_directly(spec, dims, np_dtype):
        _tell("NumPy's own sum", spec, dims, "lie so that it is pairwise, or are few")
        return PlannedKernel(*_reducing(reduce, dims, np_dtype, keeps_dims(call)))
    _tell("pairwise sums", spec, dims, "no quicker way takes")
    total = widened_line_sums(spec, dims, np_dtype) or kept_sum(spec, dims, np_dtype)
    return PlannedKernel(quietly(lambda out, a: np.copyto(out, total(a).reshape(sizes), casting="unsafe")))


def _by_product(
    product: Callable[[Any], Any], spec: TensorSpec, dims: tuple[int, ...], sizes: tuple[int, ...]
) -> PlannedKernel:
    """Return the kernel of sums that are a matrix-vector product with ones."""
    _tell("a product with ones", spec, dims, "are short lines of a small tensor")
    if len(sizes) == 1:
        return PlannedKernel(lambda out, array: np.copyto(out, product(array)), product, quiet=True)

    def shaped(array: Any) -> Any:
        return product(array).reshape(sizes)

    return PlannedKernel(lambda out, array: np.copyto(out, shaped(array)), shaped, quiet=True)


def _reducing(
    reduce: Any, dims: tuple[int, ...], np_dtype: Any, keepdims: bool
) -> tuple[Callable[..., None], Callable[..., Any]]:
    """Return a ufunc's ``reduce`` as an in-place kernel and as one that allocates."""
    axes = dims[0] if len(dims) == 1 else dims

    @quietly
    def into(out: Any, array: Any) -> None:
        reduce(array, axes, np_dtype, out, keepdims)

    @quietly
    def fresh(array: Any) -> Any:
        return reduce(array, axes, np_dtype, None, keepdims)

    return into, fresh


def mean(call: StructuredCall) -> PlannedKernel:
    """Compute the mean over the plan's dimensions; NaN if they have no elements."""
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
    run_blocks = over_kept(spec, dims, out_spec.ndim, LONG_RUN, spec.np_dtype == np_dtype)
    if run_blocks is not None:
        _tell("blocks of kept elements", spec, dims, "belong to many results, which blocks share out")
        add = block_sum(spec, dims, np_dtype)
        return PlannedKernel(
            quietly(lambda out, array: run_blocks(lambda piece: (add(piece) / count,), (out,), array))
        )
    if _is_whole(call) and out_spec.ndim == 0:
        _tell("one run of memory", spec, dims, "are all of them, side by side")
        if 0 < spec.numel <= SMALL and spec.dtype.name in ("float32", "float64"):
            return dot_with_ones(spec.numel, np_dtype, count)
        return PlannedKernel(quietly(lambda out, array: out.fill(np.add.reduce(array.reshape(-1)) / count)))

    _tell("pairwise sums", spec, dims, "no quicker way takes")
    total = widened_line_sums(spec, dims, np_dtype) or kept_sum(spec, dims, np_dtype)

    def compute(array: Any) -> Any:
        return (total(array) / count).reshape(sizes)

    into = quietly(lambda out, array: np.copyto(out, compute(array), casting="unsafe"))
    return PlannedKernel(into, quietly(compute) if out_spec.np_dtype == np_dtype else None)


def reduction(ufunc: Any, promotes: bool = False) -> Callable[[StructuredCall], PlannedKernel]:
    """Return the factory of a ufunc's ``reduce``; one that `promotes` computes in the output's dtype."""

    def factory(call: StructuredCall) -> PlannedKernel:
        spec, out_spec = call.args["self"], call.outputs[0]
        if spec.dtype.is_complex and not promotes:
            raise call.refuse(spec)
        np_dtype = compute_np(out_spec.dtype if promotes else spec.dtype)
        dims: tuple[int, ...] = call.extra["dims"]
        keepdims = keeps_dims(call)
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
        run_blocks = over_kept(spec, dims, out_spec.ndim, LONG_RUN if same else RUN, directly)
        locate = LOCATED.get(ufunc)
        is_short = np_dtype == FLOAT32 or spec.sizes[-1:] <= (SHORT_LINE,)
        if locate is not None and same and is_of_lines(spec, dims, np_dtype) and is_short:
            _tell(
                "places of extrema",
                spec,
                dims,
                f"are contiguous lines of float32, or of at most {SHORT_LINE}",
            )
            into, fresh = located(spec, locate, run_blocks)
            return PlannedKernel(quietly(into), None if run_blocks is not None or keepdims else fresh)
        if ufunc is np.multiply and is_of_lines(spec, dims, np_dtype) and spec.sizes[-1] >= LONG_PRODUCT:
            _tell("products of halves", spec, dims, f"are contiguous lines of at least {LONG_PRODUCT}")
            sizes = out_spec.sizes
            if run_blocks is not None:
                return PlannedKernel(
                    quietly(
                        lambda out, array: run_blocks(lambda piece: (line_products(piece),), (out,), array)
                    )
                )
            return PlannedKernel(
                quietly(lambda out, a: np.copyto(out, line_products(a).reshape(sizes), casting="unsafe"))
            )
        if run_blocks is not None:
            _tell("blocks of kept elements", spec, dims, "belong to many results, which blocks share out")

            def block(piece: Any) -> tuple[Any, ...]:
                return (reduce(piece.astype(np_dtype, copy=False), dims, None, None, True),)

            return PlannedKernel(quietly(lambda out, array: run_blocks(block, (out,), array)))
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


def truth(ufunc: Any) -> Callable[[StructuredCall], PlannedKernel]:
    """Return the factory of ``any`` and ``all``: NaN is true, and no dimensions means elementwise truth."""

    def factory(call: StructuredCall) -> PlannedKernel:
        spec = call.args["self"]
        dims: tuple[int, ...] = call.extra["dims"]
        keepdims = keeps_dims(call)
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


def logsumexp(call: StructuredCall) -> PlannedKernel:
    """Compute log(sum(exp(self - max))) + max, the maximum taken as 0 where it is infinite."""
    spec, out_spec = call.args["self"], call.outputs[0]
    np_dtype = compute_np(out_spec.dtype)
    dims: tuple[int, ...] = call.extra["dims"]
    sizes = out_spec.sizes
    nonempty = count_of(spec, dims) > 0
    run_blocks = over_kept(spec, dims, out_spec.ndim)

    def compute(array: Any) -> Any:
        wide = array.astype(np_dtype, copy=False)
        if not nonempty:
            return np.log(pairwise_sum(wide, dims, np_dtype))
        maximum = np.maximum.reduce(wide.real, dims, keepdims=True)
        maximum = np.where(np.isfinite(maximum), maximum, maximum.dtype.type(0))
        shifted = wide - maximum
        return (
            np.log(pairwise_sum(np.exp(shifted, shifted if shifted.ndim else None), dims, np_dtype)) + maximum
        )

    if run_blocks is not None:
        return PlannedKernel(
            quietly(lambda out, array: run_blocks(lambda piece: (compute(piece),), (out,), array))
        )
    return PlannedKernel(
        quietly(lambda out, array: np.copyto(out, compute(array).reshape(sizes), casting="unsafe"))
    )


FACTORIES: dict[str, KernelFactory] = {
    "sum_stub": sum_,
    "mean_stub": mean,
    "prod_stub": reduction(np.multiply, promotes=True),
    "amax_stub": reduction(np.maximum),
    "amin_stub": reduction(np.minimum),
    "any_stub": truth(np.logical_or),
    "all_stub": truth(np.logical_and),
    "logsumexp_stub": logsumexp,
}
register_in_order(FACTORIES)
