"""Host kernels of statistics: sums and means without NaN, counts, traces, quantiles, modes.

Each gives what its composite in `dispatch/composite/` gives, to the bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...dispatch.structured.meta.dims import reduced_dims, reduced_shape
from ...dispatch.structured.stub import HostKernel, StructuredCall, register_stub
from ...runtime.float_errors import unwrapped
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.scalar_type import int64
from ...runtime.tensor_spec import TensorSpec
from ..elementwise.pointwise_math import lerp
from ..indexing.index_bounds import greatest
from ..plain_numpy import np
from ..widen import FULL_FLOATS
from .reduction import sum_
from .sums import count_of, kept_sum

FEW = 1 << 12
"""Elements up to which one array of all lines costs less than the steps of a composite."""
add_up = np.add.reduce


def _reduced(call: StructuredCall, dtype: ScalarType, keepdim: bool) -> StructuredCall:
    """Return the call with an output of `dtype`, reduced over its dimensions."""
    spec = call.args["self"]
    dims = reduced_dims(call.args["dim"], spec.ndim)
    out = TensorSpec.contiguous(reduced_shape(spec.sizes, dims, keepdim), dtype, spec.device)
    return call._replace(outputs=(out,), extra={"dims": dims})


def _without_nan(call: StructuredCall) -> StructuredCall | None:
    """Return the call with its output for float32 or float64 in its own dtype, or None for others."""
    spec = call.args["self"]
    if spec.dtype not in FULL_FLOATS or call.args["dtype"] not in (None, spec.dtype) or not spec.numel:
        return None
    return _reduced(call, spec.dtype, call.args["keepdim"])


def _sum_of_numbers(call: StructuredCall) -> Callable[[Any, Any], Any]:
    """Return ``sum(out, array)`` with NaN as zero; its result masks the numbers, or is None without NaN."""
    total = unwrapped(sum_(call).into)
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


def nansum(call: StructuredCall) -> HostKernel | None:
    """Sum the elements that are not NaN."""
    full = _without_nan(call)
    return None if full is None else HostKernel(full.outputs, None, _sum_of_numbers(full))


def nanmean(value: StructuredCall) -> HostKernel | None:
    """Compute the mean of the elements that are not NaN."""
    call = _without_nan(value)
    if call is None:
        return None
    total = _sum_of_numbers(call)
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

    return HostKernel(call.outputs, None, into)


def count_nonzero(value: StructuredCall) -> HostKernel | None:
    """Count the nonzero elements, including NaN, in total or along dimensions of a few elements."""
    call = _reduced(value, int64, False)
    spec, dims = call.args["self"], call.extra["dims"]
    if not (spec.is_contiguous and (len(dims) == spec.ndim or spec.numel <= FEW)):
        return None
    count, differs = np.count_nonzero, np.not_equal
    custom = spec.np_dtype.kind == "V"
    is_bool = spec.np_dtype.kind == "b"

    def nonzero(array: Any) -> Any:
        return array if is_bool else array.astype(np.bool_) if custom else differs(array, 0)

    if len(dims) == spec.ndim:
        return HostKernel(
            call.outputs,
            None,
            lambda out, array: out.fill(count(nonzero(array))),
            quiet=False,
            declines=False,
        )
    return HostKernel(
        call.outputs, None, lambda out, array: add_up(nonzero(array), dims, np.int64, out), quiet=False
    )


def trace(call: StructuredCall) -> HostKernel | None:
    """Sum the diagonal of a contiguous float32 or float64 matrix."""
    spec = call.args["self"]
    if spec.ndim != 2 or spec.dtype not in FULL_FLOATS or not spec.numel or not spec.is_contiguous:
        return None
    rows, columns = spec.sizes
    step = columns + 1
    length = min(rows, columns)
    stop = length * step
    line = TensorSpec.of((length,), (step,), spec.dtype, spec.device)
    total = kept_sum(line, (0,), spec.np_dtype)
    out_spec = TensorSpec.contiguous((), spec.dtype, spec.device)
    return HostKernel((out_spec,), None, lambda out, array: out.fill(total(array.reshape(-1)[:stop:step])[0]))


def _lines(spec: TensorSpec, dim: int | None) -> Callable[[Any], Any]:
    """Return a function from an array to the matrix of its lines along a dimension, or to one line for None."""
    if dim is None or not spec.ndim:
        return lambda array: array.reshape(1, -1)
    n = spec.sizes[dim]
    if dim == spec.ndim - 1:
        return lambda array: array.reshape(-1, n)
    order = (*range(dim), *range(dim + 1, spec.ndim), dim)
    return lambda array: array.transpose(order).reshape(-1, n)


def quantile(call: StructuredCall) -> HostKernel | None:
    """Interpolated between neighbours in order, at the rank q (n - 1) of n elements; NaN where there is one."""
    spec, q, given_dim, keepdim, interpolation = call.args.values()
    rank = spec.ndim
    dim = None if given_dim is None or not rank else given_dim + rank if given_dim < 0 else given_dim
    if spec.dtype not in FULL_FLOATS or not 0 < spec.numel <= FEW or not spec.is_contiguous:
        return None
    if given_dim is not None and not rank and given_dim not in (0, -1):
        return None
    if q not in (float, int) or interpolation != "linear" or (dim is not None and not 0 <= dim < rank):
        return None
    lines = _lines(spec, dim)
    last = (spec.numel if dim is None or not spec.ndim else spec.sizes[dim]) - 1
    number = spec.np_dtype.type
    sizes: Sequence[int] = ()
    if keepdim:
        sizes = [1 if dim is None or i == dim else n for i, n in enumerate(spec.sizes)]
    elif dim is not None:
        sizes = (*spec.sizes[:dim], *spec.sizes[dim + 1 :])

    def into(out: Any, array: Any, q: float) -> None:
        if not 0 <= q <= 1:
            raise RuntimeError(f"quantile() q must be in the range [0, 1] but got {q}")
        ordered = lines(array).copy()
        ordered.sort(1, "stable")
        rank = number(q) * number(last)
        low = int(rank)
        weight = rank - number(low)
        made = lerp(ordered[:, low], ordered[:, low + (weight > 0)], weight)
        highest = ordered[:, last]
        missing = highest != highest
        if greatest(missing):
            made[missing] = np.nan
        np.copyto(out, made.reshape(sizes))

    return HostKernel((TensorSpec.contiguous(tuple(sizes), spec.dtype, spec.device),), None, into)


def mode(call: StructuredCall) -> HostKernel | None:
    """Return each line's most frequent element, the smallest of several, and its last index."""
    spec, dim, keepdim = call.args.values()
    dim = dim + spec.ndim if dim < 0 else dim
    if not 0 <= dim < spec.ndim or not 0 < spec.numel <= FEW or spec.dtype not in FULL_FLOATS:
        return None
    lines = _lines(spec, dim)
    n = spec.sizes[dim]
    count = spec.numel // n
    sizes = reduced_shape(spec.sizes, (dim,), keepdim)
    positions, starts = np.arange(n), np.arange(0, spec.numel, n)
    columns = starts[:, None]

    def into(values_out: Any, where: Any, array: Any) -> None:
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
        np.multiply(different, positions[1:], begins[:, 1:])
        np.maximum.accumulate(begins, 1, None, begins)
        np.subtract(positions, begins, begins)
        best = begins.argmax(1)
        best += starts
        chosen = order.reshape(-1).take(best)
        np.copyto(values_out, flat.take(chosen).reshape(sizes))
        chosen -= starts
        np.copyto(where, chosen.reshape(sizes))

    outputs = tuple([TensorSpec.contiguous(sizes, dtype, spec.device) for dtype in (spec.dtype, int64)])
    return HostKernel(outputs, None, into, quiet=False, declines=False)


HOST_KERNELS = {
    "count_nonzero": count_nonzero,
    "mode": mode,
    "nanmean": nanmean,
    "nansum": nansum,
    "quantile": quantile,
    "trace": trace,
}

for _name, _factory in HOST_KERNELS.items():
    register_stub(f"{_name}_host_stub", "cpu", _factory)
