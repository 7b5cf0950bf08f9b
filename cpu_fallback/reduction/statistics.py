"""Statistics that are compositions elsewhere, computed at once: sums and means without NaN, counts, quantiles, modes.

Each gives what its composition in `dispatch/composite/` gives, to the bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.tensor_spec import TensorSpec
from ..error_state import quiet
from ..indexing.index_bounds import greatest
from ..undispatched import np
from .reduction import sum_
from .sums import count_of, kept_sum

add_up = np.add.reduce


def without_nan(call: StructuredCall) -> Callable[[Any, Any], Any]:
    """``sum(out, array)`` with NaN as zero; gives where elements are numbers, or None if all of them are."""
    kernel = sum_(call)
    total = kernel.into
    differs = np.not_equal
    scalar = not call.outputs[0].ndim

    def into(out: Any, array: Any) -> Any:
        total(out, array)
        # A sum of numbers alone is NaN only where infinities meet.
        if not (differs(out, out) if scalar else differs(out, out).any()):
            return None
        numbers = np.equal(array, array)
        total(out, np.where(numbers, array, array.dtype.type(0)))
        return numbers

    return into


def nansum(call: StructuredCall) -> PlannedKernel:
    """The sum of the elements that are numbers."""
    return PlannedKernel(without_nan(call), quiet=True)


def nanmean(call: StructuredCall) -> PlannedKernel:
    """The sum of the elements that are numbers by how many they are."""
    total = without_nan(call)
    dims: tuple[int, ...] = call.extra["dims"]
    number = call.outputs[0].np_dtype.type
    count = number(count_of(call.args["self"], dims))
    divide = np.divide

    def into(out: Any, array: Any) -> None:
        numbers = total(out, array)
        if numbers is None:
            divide(out, count, out)
        else:
            divide(out, add_up(numbers, dims, np.int64).astype(number).reshape(out.shape), out)

    return PlannedKernel(into, quiet=True)


def count_nonzero(call: StructuredCall) -> PlannedKernel:
    """How many elements are not zero, NaN among them."""
    spec, dims = call.args["self"], call.extra["dims"]
    count, differs = np.count_nonzero, np.not_equal
    custom = spec.np_dtype.kind == "V"
    is_bool = spec.np_dtype.kind == "b"

    def nonzero(array: Any) -> Any:
        return array if is_bool else array.astype(np.bool_) if custom else differs(array, 0)

    if len(dims) == spec.ndim:
        return PlannedKernel(lambda out, array: out.fill(count(nonzero(array))))
    return PlannedKernel(lambda out, array: add_up(nonzero(array), dims, np.int64, out))


def trace(call: StructuredCall) -> PlannedKernel:
    """The sum of a contiguous matrix's diagonal."""
    spec = call.args["self"]
    rows, columns = spec.sizes
    step = columns + 1
    length = min(rows, columns)
    stop = length * step
    line = TensorSpec.of((length,), (step,), spec.dtype, spec.device)
    total = kept_sum(line, (0,), spec.np_dtype)
    return PlannedKernel(lambda out, array: out.fill(total(array.reshape(-1)[:stop:step])[0]), quiet=True)


def _lines(spec: TensorSpec, dim: int | None) -> Callable[[Any], Any]:
    """A function from an array to the matrix of its lines along a dimension, of all elements without one."""
    if dim is None or not spec.ndim:
        return lambda array: array.reshape(1, -1)
    n = spec.sizes[dim]
    if dim == spec.ndim - 1:
        return lambda array: array.reshape(-1, n)
    order = (*range(dim), *range(dim + 1, spec.ndim), dim)
    return lambda array: array.transpose(order).reshape(-1, n)


def quantile(call: StructuredCall) -> PlannedKernel:
    """Interpolated between neighbours in order, at the rank q (n - 1) of n elements; NaN where there is one."""
    spec = call.args["self"]
    dim: int | None = call.extra["dim"]
    lines = _lines(spec, dim)
    last = (spec.numel if dim is None or not spec.ndim else spec.sizes[dim]) - 1
    number = spec.np_dtype.type
    half = number(0.5)
    sizes = call.outputs[0].sizes

    def into(out: Any, array: Any, q: float) -> None:
        if not 0 <= q <= 1:
            raise RuntimeError(f"quantile() q must be in the range [0, 1] but got {q}")
        ordered = lines(array).copy()
        ordered.sort(1, "stable")
        rank = number(q) * number(last)
        low = int(rank)
        weight = rank - number(low)
        start, end = ordered[:, low], ordered[:, low + (weight > 0)]
        span = end - start
        made = start + weight * span if weight < half else end - span * (number(1) - weight)
        highest = ordered[:, last]
        missing = highest != highest
        if greatest(missing):
            made[missing] = np.nan
        np.copyto(out, made.reshape(sizes))

    return PlannedKernel(quiet(into))


def mode(call: StructuredCall) -> PlannedKernel:
    """The most frequent element of each line, of several the smallest, and its last place."""
    spec = call.args["self"]
    dim: int = call.extra["dim"]
    lines = _lines(spec, dim)
    n = spec.sizes[dim]
    count = spec.numel // n
    sizes = call.outputs[0].sizes
    places, starts = np.arange(n), np.arange(0, spec.numel, n)
    columns = starts[:, None]

    def into(found: Any, where: Any, array: Any) -> None:
        rows = lines(array)
        order = rows.argsort(1, "stable")
        order += columns
        flat = rows.reshape(-1)
        values = flat.take(order)
        begins = np.zeros((count, n), np.int64)
        earlier = values[:, :-1]
        different = np.not_equal(values[:, 1:], earlier)
        if values[:, -1].max() != values[:, -1].max():
            different &= earlier == earlier
        np.multiply(different, places[1:], begins[:, 1:])
        np.maximum.accumulate(begins, 1, None, begins)
        np.subtract(places, begins, begins)
        best = begins.argmax(1)
        best += starts
        chosen = order.reshape(-1).take(best)
        np.copyto(found, flat.take(chosen).reshape(sizes))
        chosen -= starts
        np.copyto(where, chosen.reshape(sizes))

    return PlannedKernel(into)


for _stub, _factory in {
    "nansum_stub": nansum,
    "nanmean_stub": nanmean,
    "count_nonzero_stub": count_nonzero,
    "trace_stub": trace,
    "quantile_stub": quantile,
    "mode_stub": mode,
}.items():
    register_stub(_stub, "cpu", _factory)
